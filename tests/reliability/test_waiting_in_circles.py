"""Case C19 and its kind: whoever would wait for itself is told so at once.

Every ask here has 30 s; a test that reaches them has found a deadlock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import (
    Actor,
    ActorCrashed,
    AskCycle,
    AskTimeout,
    MailboxFull,
    Normal,
    Ref,
    Request,
    Shutdown,
    open_nursery,
)
from tests.support.homes import apart

Act = Callable[["Does"], Awaitable[Any]]


class Passes(Actor):
    """Asks the first actor of the message with the rest; gives back the refusal."""

    async def receive(self, message: tuple[Ref[Any], ...]) -> Any:
        if not message:
            return "the end"
        try:
            return await message[0].ask(message[1:], timeout=30)
        except AskCycle as error:
            return error


class Does(Actor):
    """Does what the message, a function of the actor, says; gives back the refusal."""

    async def receive(self, message: Act) -> Any:
        try:
            return await message(self)
        except AskCycle as error:
            return error


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 10])
async def test_a_circle_of_asks_is_refused_at_once_and_names_everybody_in_it(
    length: int, dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        refs: list[Ref[Any]] = [nursery.spawn(Passes, dedicated=dedicated) for _ in range(length)]
        error = await refs[0].ask((*refs[1:], refs[0]), timeout=30)
        assert isinstance(error, AskCycle)
        # The last of them closes the circle, and so the path begins with it.
        closing = refs[-1]
        assert error.path == tuple(each.path for each in (closing, *refs))
        assert error.actor == closing.path
        for ref in refs:
            assert await ref.ask((), timeout=30) == "the end"
        assert trio.current_time() == 0


async def test_a_circle_through_two_blocks_is_refused_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery(name="one") as one, open_nursery(name="two") as two:
        first: Ref[Any] = one.spawn(Passes)
        second: Ref[Any] = two.spawn(Passes)
        error = await first.ask((second, first), timeout=30)
        assert isinstance(error, AskCycle)
        assert trio.current_time() == 0


async def test_a_circle_through_a_child_task_of_a_handler_is_refused_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[AskCycle] = []

    async def in_a_task(self: Does) -> None:
        async def close_the_circle() -> None:
            await other.ask((self.ref,), timeout=30)

        async with trio.open_nursery() as tasks:
            tasks.start_soon(close_the_circle)

    class Reports(Actor):
        """Asks back."""

        async def receive(self, message: tuple[Ref[Any]]) -> None:
            try:
                await message[0].ask(None, timeout=30)
            except AskCycle as error:
                seen.append(error)

    async with open_nursery() as nursery:
        other: Ref[Any] = nursery.spawn(Reports)
        first: Ref[Any] = nursery.spawn(Does)
        await first.ask(in_a_task)
        assert len(seen) == 1
        assert trio.current_time() == 0


async def test_a_circle_that_only_a_message_in_a_mailbox_would_close_is_no_circle(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def ask_slowly(self: Does) -> str:
        await trio.sleep(1)
        return "done"

    async def ask_the_other(self: Does) -> Any:
        return await second.ask(ask_slowly, timeout=30)

    async with open_nursery() as nursery:
        first: Ref[Any] = nursery.spawn(Does)
        second: Ref[Any] = nursery.spawn(Does)
        there = first.ask(ask_the_other)
        here = first.ask(ask_slowly)
        assert (await there, await here) == ("done", "done")


WAITS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "its own answer": lambda self: self.ref.ask(None, timeout=30),
    "its own stop": lambda self: self.ref.stop(),
    "its own end": lambda self: self.ref.join(),
    "its own state": lambda self: self.ref.get_state(),
}
"""What an actor may not wait for, each as a function of the actor."""


@pytest.mark.parametrize("what", WAITS)
async def test_a_handler_that_waits_for_itself_is_refused_and_the_actor_serves_on(
    what: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def nothing(self: Does) -> str:
        return "served"

    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Does)
        assert isinstance(await ref.ask(WAITS[what], timeout=30), AskCycle)
        assert await ref.ask(nothing, timeout=30) == "served"
        assert trio.current_time() == 0


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("what", WAITS)
async def test_a_start_hook_that_waits_for_itself_is_refused_and_the_actor_serves_on(
    what: str, plain: bool, dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    refused: list[AskCycle] = []

    class Starts(Actor):
        """Waits, as it starts, for what it can only do once it has."""

        async def on_start(self) -> None:
            try:
                await WAITS[what](self)
            except AskCycle as error:
                refused.append(error)

        async def receive(self, message: Any) -> Any:
            return message

    class StartsPlain(Starts):
        def receive(self, message: Any) -> Any:
            return message

    async with open_nursery() as nursery:
        ref: Ref[Any] = await nursery.start(StartsPlain if plain else Starts, dedicated=dedicated)
        assert [error.path for error in refused] == [(ref.path, ref.path)]
        assert await ref.ask("served", timeout=30) == "served"
        assert trio.current_time() == 0


async def test_a_stop_hook_that_waits_for_its_own_end_is_refused_and_the_actor_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    refused: list[AskCycle] = []

    class Ends(Actor):
        """Waits for its end in its stop hook."""

        def receive(self, message: Any) -> Any:
            return message

        async def on_stop(self, reason: Any) -> None:
            for wait in (self.ref.join, self.ref.stop):
                try:
                    await wait()
                except AskCycle as error:
                    refused.append(error)

    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Ends)
        assert await ref.stop() == Shutdown()
        assert len(refused) == 2
        assert trio.current_time() == 0


async def test_a_child_that_waits_for_the_end_of_its_owner_is_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def spawn_a_child(self: Does) -> Ref[Any]:
        return self.spawn(Does)

    async def end_my_owner(self: Does) -> Any:
        return await owner.stop()

    async def outlive_my_owner(self: Does) -> Any:
        return await owner.join()

    async with open_nursery() as nursery:
        owner: Ref[Any] = nursery.spawn(Does)
        child = await owner.ask(spawn_a_child)
        assert isinstance(await child.ask(outlive_my_owner, timeout=30), AskCycle)
        assert owner.is_alive
        error = await child.ask(end_my_owner, timeout=30)
        assert isinstance(error, AskCycle)
        assert trio.current_time() == 0


async def test_a_start_hook_that_asks_who_waits_for_its_start_is_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Curious(Actor):
        """Asks its owner something before it is there."""

        def __init__(self, owner: Ref[Any]) -> None:
            self.owner = owner

        async def on_start(self) -> None:
            await self.owner.ask("who am I?", timeout=30)

        def receive(self, message: Any) -> Any:
            return message

    async def start_it(self: Does) -> Any:
        return await self.start(Curious, self.ref)

    async with open_nursery() as nursery:
        owner: Ref[Any] = nursery.spawn(Does)
        error = await owner.ask(start_it, timeout=30)
        assert isinstance(error, AskCycle)
        assert error.path[1] == owner.path
        assert trio.current_time() == 0


async def test_an_answer_given_later_is_the_way_out_of_a_circle(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Desk(Actor):
        """Answers an ask for the sum once it has been told it."""

        def __init__(self) -> None:
            self.waiting: list[Any] = []

        def receive(self, message: Any) -> Any:
            if message == "sum":
                later = self.reply_later()
                self.waiting.append(later)
                helper: Ref[Any] = self.spawn(Helper, self.ref)
                helper.tell("work")
                return later
            if message == "what?":
                return 41
            for later in self.waiting:
                later.reply(message)
            return None

    class Helper(Actor):
        """Asks back before it answers."""

        def __init__(self, desk: Ref[Any]) -> None:
            self.desk = desk

        async def receive(self, message: Any) -> None:
            self.desk.tell(await self.desk.ask("what?", timeout=30) + 1)

    async with open_nursery() as nursery:
        desk: Ref[Any] = nursery.spawn(Desk)
        assert await desk.ask("sum", timeout=30) == 42


async def test_plain_handlers_that_ask_in_a_circle_do_not_hang_either(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Plain(Actor):
        """Sends an ask and does not wait for it: a def cannot."""

        def __init__(self) -> None:
            self.asked: list[Any] = []

        def receive(self, message: Any) -> Any:
            if isinstance(message, Ref):
                self.asked.append(message.ask(self.ref if self.ref is not message else None))
            return len(self.asked)

    async with open_nursery() as nursery:
        first: Ref[Any] = nursery.spawn(Plain)
        second: Ref[Any] = nursery.spawn(Plain)
        assert await first.ask(second) == 1
        assert await second.ask(None) == 1
        assert trio.current_time() == 0


async def test_a_deadline_that_travels_bounds_a_chain_of_asks_that_is_no_circle(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def sleep(self: Does) -> None:
        await trio.sleep(100)

    async def ask_on(self: Does) -> Any:
        return await second.ask(sleep)

    async with open_nursery() as nursery:
        first = await apart(nursery, Does, shutdown=0.1)
        second: Ref[Any] = nursery.spawn(Does, shutdown=0.1)
        with pytest.raises((AskTimeout, ActorCrashed)):
            await first.ask(ask_on, timeout=2)
        assert trio.current_time() == 2


class Burst(Request[int], frozen=True):
    """Tells the peer so many messages, and answers how many were refused."""

    peer: Any
    how: str
    count: int


class Chatty(Actor):
    """Sends its peer a burst of messages when asked to."""

    async def receive(self, message: Any) -> int:
        refused = 0
        if isinstance(message, Burst):
            for number in range(message.count):
                try:
                    if message.how == "tell":
                        message.peer.tell(number)
                    elif message.how == "send":
                        await message.peer.send(number)
                    else:
                        await message.peer.ask(number, timeout=30)
                except (AskCycle, MailboxFull):
                    refused += 1
        return refused


@pytest.mark.parametrize("overflow", ["raise", "drop_oldest", "drop_new"])
@pytest.mark.parametrize("how", ["tell", "send", "ask"])
async def test_two_with_room_for_one_that_write_to_one_another_end_or_are_refused(
    how: str, overflow: Any, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        one: Ref[Any] = nursery.spawn(Chatty, capacity=1, overflow=overflow)
        two: Ref[Any] = nursery.spawn(Chatty, capacity=1, overflow=overflow)
        bursts = [one.ask(Burst(two, how, 100)), two.ask(Burst(one, how, 100))]
        refused = 0
        with trio.fail_after(30):
            for burst in bursts:
                try:
                    refused += await burst
                except MailboxFull:
                    # The other's burst has pushed it out of its place.
                    assert overflow == "drop_oldest"
            await trio.testing.wait_all_tasks_blocked()
            assert [await ref.ask(0, timeout=30) for ref in (one, two)] == [0, 0]
        assert trio.current_time() == 0
        if how == "tell":
            dropped = sum(nursery.drops.values())
            assert dropped >= 99
            assert refused == (dropped if overflow == "raise" else 0)


async def test_a_chain_of_owners_that_await_the_stops_of_their_children_is_no_circle(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def grow_and_cut(self: Does) -> Any:
        child: Ref[Any] = self.spawn(Does)
        return await child.stop(Normal())

    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Does)
        assert await ref.ask(grow_and_cut, timeout=30) == Normal()


async def test_a_plain_handler_may_order_the_stop_of_who_asks_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Stops(Actor):
        """Orders the stop of whoever its message is, and does not wait."""

        def receive(self, message: Ref[Any]) -> str:
            message.stop()
            return "ordered"

    async def ask_for_the_end(self: Does) -> Any:
        return await stopper.ask(self.ref, timeout=30)

    async with open_nursery() as nursery:
        stopper: Ref[Any] = nursery.spawn(Stops)
        ref: Ref[Any] = nursery.spawn(Does)
        assert await ref.ask(ask_for_the_end, timeout=30) == "ordered"
        assert await ref.join() == Shutdown()
