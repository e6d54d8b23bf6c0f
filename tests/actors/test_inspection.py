"""Looking at actors from outside, without getting in their way."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    ExitReason,
    Ref,
    Snapshot,
    open_nursery,
)
from tests.actors.workers import Do, Echo
from tests.support.homes import apart


class Account(Actor):
    """Keeps a balance; may take its time."""

    def __init__(self) -> None:
        self.balance = 0

    async def receive(self, message: Any) -> Any:
        if isinstance(message, float):
            await trio.sleep(message)
        else:
            self.balance += message
        return self.balance


class Slotted(Actor):
    """Keeps its state in slots, one of which is empty."""

    __slots__ = ("empty", "full")

    def __init__(self) -> None:
        self.full = 1

    def receive(self, message: Any) -> Any:
        return message


class Private(Account):
    """Says itself what there is to see."""

    def inspect_state(self) -> str:
        return f"balance {self.balance}"


class Faulty(Account):
    """Cannot say."""

    def inspect_state(self) -> str:
        raise RuntimeError("cannot say")


def states(snapshot: Snapshot) -> dict[str, str]:
    """The state of each actor of a tree, by name."""
    return {each.name: each.state for each in snapshot}


@pytest.mark.parametrize("dedicated", [False, True])
async def test_the_state_is_read_between_two_messages_and_before_those_that_wait(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        account: Ref[Any] = nursery.spawn(Account, dedicated=dedicated)
        account.tell(1)
        account.tell(2.0)
        account.tell(10)
        await trio.sleep(1)
        assert await account.get_state() == {"balance": 1}
        assert trio.current_time() == 2
        assert await account.ask(0) == 11


async def test_state_in_slots_is_read_as_well() -> None:
    async with open_nursery() as nursery:
        slotted: Ref[Any] = nursery.spawn(Slotted)
        assert await slotted.get_state() == {"full": 1}


async def test_an_actor_may_say_itself_what_there_is_to_see() -> None:
    async with open_nursery() as nursery:
        private: Ref[Any] = nursery.spawn(Private)
        private.tell(3)
        await private.ask(0)
        assert await private.get_state() == "balance 3"


async def test_a_look_that_fails_is_told_to_who_looks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        faulty = await apart(nursery, Faulty)
        with pytest.raises(ActorCrashed, match="cannot say"):
            with trio.fail_after(10):
                await faulty.get_state()


@pytest.mark.parametrize("dedicated", [False, True])
async def test_a_suspended_actor_keeps_its_mail_and_can_be_looked_at(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        account: Ref[Any] = nursery.spawn(Account, dedicated=dedicated)
        await account.ask(1)
        account.suspend()
        account.suspend()
        replies = [account.ask(10) for _ in range(3)]
        await trio.sleep(5)
        assert [reply.done for reply in replies] == [False] * 3
        assert await account.get_state() == {"balance": 1}
        assert account.snapshot().state == "suspended"
        assert account.snapshot().mailbox == 3
        account.resume()
        assert [await reply for reply in replies] == [11, 21, 31]
        account.resume()
        assert await account.ask(0) == 31


@pytest.mark.parametrize("plain", [False, True])
async def test_an_actor_suspended_in_the_middle_of_its_mail_stops_after_the_message_in_hand(
    plain: bool, autojump_clock: trio.testing.MockClock
) -> None:
    handled: list[int] = []

    class Pauses(Actor):
        """Suspends itself at its second message."""

        def receive(self, message: int) -> None:
            handled.append(message)
            if message == 1:
                self.ref.suspend()

    class PausesSlowly(Actor):
        """The same as a coroutine."""

        async def receive(self, message: int) -> None:
            handled.append(message)
            if message == 1:
                self.ref.suspend()

    async with open_nursery() as nursery:
        ref: Ref[int] = nursery.spawn(Pauses if plain else PausesSlowly)
        for number in range(5):
            ref.tell(number)
        await trio.sleep(1)
        assert handled == [0, 1]
        ref.resume()
        await trio.sleep(1)
        assert handled == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_suspended_actor_can_be_ended(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        account: Ref[Any] = nursery.spawn(Account)
        account.suspend()
        reply = account.ask(1)
        account.stop() if how == "stop" else account.kill()
        with pytest.raises(ActorStopped):
            await reply
        await account.join()
        assert trio.current_time() == 0


async def test_a_trace_sees_each_message_before_it_is_handled_until_it_is_taken_off(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[Any] = []
    async with open_nursery() as nursery:
        account: Ref[Any] = nursery.spawn(Account)
        other: Ref[Any] = nursery.spawn(Account)
        await account.ask(1)
        account.trace(seen.append)
        await account.ask(2)
        account.tell(3)
        await other.ask(100)
        assert await account.ask(4) == 10
        assert seen == [2, 3, 4]
        account.trace(None)
        await account.ask(5)
        again: list[Any] = []
        account.trace(again.append)
        account.trace(again.append)
        await account.ask(6)
        assert (seen, again) == ([2, 3, 4], [6])


async def test_a_snapshot_is_a_value_that_does_not_change_with_its_actor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Echo, name="echo")
        before = ref.snapshot()
        await ref.stop()
        assert before == Snapshot("nursery/echo", "Echo", "idle", 0, "", 1, ())
        assert ref.snapshot().state == "ended"


class Starts(Actor):
    """Starts and stops slowly."""

    async def on_start(self) -> None:
        await trio.sleep(1)

    async def receive(self, message: Any) -> Any:
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep(1)


async def test_a_snapshot_says_what_an_actor_is_doing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        starts: Ref[Any] = nursery.spawn(Starts)
        account: Ref[Any] = nursery.spawn(Account)
        assert account.snapshot().state == "idle"
        account.tell(5.0)
        assert account.snapshot().state == "queued"
        await trio.sleep(0.5)
        assert starts.snapshot().state == "starting"
        assert account.snapshot().state == "waiting"
        await trio.sleep(1)
        assert starts.snapshot().state == "idle"
        stop = starts.stop()
        await trio.sleep(0.5)
        assert starts.snapshot().state == "stopping"
        await stop
        assert starts.snapshot().state == "ended"

        async def look(self: Do) -> str:
            return self.ref.snapshot().state

        assert await nursery.spawn(Do).ask(look) == "running"


async def test_a_snapshot_says_what_an_actor_waits_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def sleep(self: Do) -> None:
        await trio.sleep(10)

    async def ask(self: Do, other: Ref[Any]) -> None:
        await other.ask(sleep)

    async def ask_in_a_scope(self: Do, other: Ref[Any]) -> None:
        with trio.move_on_after(100):
            await other.ask(sleep)

    async with open_nursery() as nursery:
        slow: Ref[Any] = nursery.spawn(Do, name="slow", shutdown=30)
        parked: Ref[Any] = nursery.spawn(Do, slow, name="parked", shutdown=30)
        adopted: Ref[Any] = nursery.spawn(Do, slow, name="adopted", shutdown=30)
        parked.tell(ask)
        await trio.sleep(1)
        adopted.tell(ask_in_a_scope)
        await trio.sleep(1)
        assert parked.snapshot().waits_for == "an answer of nursery/slow"
        assert adopted.snapshot().waits_for == "an answer of nursery/slow"
        assert slow.snapshot().waits_for.startswith("sleep (test_inspection.py:")
        assert slow.snapshot().mailbox == 1
        for ref in (adopted, parked, slow):
            ref.kill()


async def test_the_rendered_tree_shows_who_is_alive_what_each_waits_for_and_its_mail(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def ask(self: Do, other: Ref[Any]) -> None:
        await other.ask(1)

    async def spawn(self: Do, *_: Any) -> Ref[Any]:
        return self.spawn(Echo, name="leaf")

    async with open_nursery(name="shop") as nursery:
        till: Ref[Any] = nursery.spawn(Account, name="till")
        desk: Ref[Any] = nursery.spawn(Do, till, name="desk")
        await desk.ask(spawn)
        till.suspend()
        desk.tell(ask)
        nursery.spawn(Echo)
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.tree().render().splitlines() == [
            "shop  idle",
            "├─ till  suspended  1 in mailbox",
            "├─ desk  waiting  on an answer of shop/till",
            "│  └─ leaf  idle",
            "└─ Echo#4  idle",
        ]
        till.resume()


async def test_the_rendered_tree_counts_the_children_that_it_does_not_show() -> None:
    async with open_nursery() as nursery:
        for number in range(30):
            nursery.spawn(Echo, name=f"e{number}")
        lines = nursery.tree().render(most=3).splitlines()
        assert lines == [
            "nursery  idle",
            "├─ e0  idle",
            "├─ e1  idle",
            "├─ e2  idle",
            "└─ … and 27 more: 27 idle",
        ]


async def test_the_tree_has_the_blocks_that_handlers_hold_in_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def hold(self: Do) -> None:
        async with open_nursery(name="inner") as inner:
            inner.spawn(Echo, name="inside")
            await trio.sleep(1)

    async with open_nursery() as nursery:
        holder: Ref[Any] = nursery.spawn(Do, name="holder", shutdown=5)
        reply = holder.ask(hold)
        await trio.sleep(0.5)
        paths = [each.path for each in nursery.tree()]
        assert paths[:2] == ["nursery", "nursery/holder"]
        assert [path.rpartition("/")[2] for path in paths[2:]] == ["inner", "inside"]
        await reply
        assert states(nursery.tree()) == {"nursery": "idle", "holder": "idle"}
