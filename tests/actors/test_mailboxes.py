"""The bound of a mailbox: what counts, what is over it, and who waits for room."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import Actor, ActorStopped, Event, MailboxFull, Nursery, Ref, open_nursery
from tests.support.heard import heard


class Collects(Actor):
    """Keeps its messages, and answers each with itself."""

    capacity = 3

    def __init__(self) -> None:
        self.got: list[Any] = []

    def receive(self, message: Any) -> Any:
        self.got.append(message)
        return message


class AsyncCollects(Collects):
    """The same as a coroutine; takes a second for each."""

    async def receive(self, message: Any) -> Any:
        await trio.sleep(1)
        return super().receive(message)


ACTORS = pytest.mark.parametrize(
    ("actor", "dedicated"),
    [
        pytest.param(Collects, False, id="def"),
        pytest.param(AsyncCollects, False, id="async"),
        pytest.param(Collects, True, id="dedicated def"),
        pytest.param(AsyncCollects, True, id="dedicated async"),
    ],
)


async def suspended(nursery: Nursery, actor: Any, **options: Any) -> Ref[Any]:
    """An actor that takes no message, so that they wait in its mailbox."""
    ref: Ref[Any] = nursery.spawn(actor, **options)
    await trio.testing.wait_all_tasks_blocked()
    ref.suspend()
    return ref


async def got(ref: Ref[Any]) -> list[Any]:
    """What the actor has handled."""
    state: dict[str, Any] = await ref.get_state()
    return list(state["got"])


def overflows(events: list[Event]) -> list[Any]:
    return [event.data["policy"] for event in events if event.type == "actor.overflow"]


@ACTORS
async def test_a_message_over_the_bound_is_refused_and_counted(
    actor: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with heard() as events, open_nursery() as nursery:
        ref = await suspended(nursery, actor, dedicated=dedicated)
        for number in range(3):
            ref.tell(number)
        with pytest.raises(MailboxFull, match="3 messages wait") as caught:
            ref.tell(3)
        assert (caught.value.actor, caught.value.capacity) == (ref.path, 3)
        refused = ref.ask(4)
        with pytest.raises(MailboxFull):
            await refused
        assert nursery.drops == {"refused": 2}
        ref.resume()
        await trio.sleep(10)
        assert await got(ref) == [0, 1, 2]
    assert overflows(events) == ["refused", "refused"]


@ACTORS
async def test_drop_new_drops_what_comes_and_tells_its_asker(
    actor: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with heard() as events, open_nursery() as nursery:
        ref = await suspended(nursery, actor, dedicated=dedicated, overflow="drop_new")
        for number in range(5):
            ref.tell(number)
        dropped = ref.ask(5)
        with pytest.raises(MailboxFull):
            await dropped
        assert nursery.drops == {"drop_new": 3}
        ref.resume()
        await trio.sleep(10)
        assert await got(ref) == [0, 1, 2]
    assert overflows(events) == ["drop_new"] * 3


@ACTORS
async def test_drop_oldest_drops_what_has_waited_longest_and_tells_its_asker(
    actor: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with heard() as events, open_nursery() as nursery:
        ref = await suspended(nursery, actor, dedicated=dedicated, overflow="drop_oldest")
        oldest = ref.ask("oldest")
        for number in range(5):
            ref.tell(number)
        newest = ref.ask("newest")
        with pytest.raises(MailboxFull):
            await oldest
        assert nursery.drops == {"drop_oldest": 4}
        ref.resume()
        assert await newest == "newest"
        assert await got(ref) == [3, 4, "newest"]
    assert overflows(events) == ["drop_oldest"] * 4


@pytest.mark.parametrize(
    ("overflow", "left"),
    [("raise", [0, 1, 2]), ("drop_new", [0, 1, 2]), ("drop_oldest", [3, 4, 5])],
)
async def test_the_bound_holds_while_a_batch_runs(
    overflow: Any, left: list[int], autojump_clock: MockClock
) -> None:
    class Floods(Collects):
        """At the message "flood" it sends itself twice as many as there is room for."""

        def receive(self, message: Any) -> Any:
            super().receive(message)
            if message == "flood":
                for number in range(6):
                    with suppress(MailboxFull):
                        self.ref.tell(number)

    async with open_nursery() as nursery:
        ref = await suspended(nursery, Floods, overflow=overflow)
        ref.tell("first")
        ref.tell("flood")
        ref.resume()
        await trio.testing.wait_all_tasks_blocked()
        assert await got(ref) == ["first", "flood", *left]
        assert sum(nursery.drops.values()) == 3


@pytest.mark.parametrize(
    ("overflow", "left"),
    [("raise", [0, 1, 2]), ("drop_new", [0, 1, 2]), ("drop_oldest", [3, 4, 5])],
)
@pytest.mark.parametrize("dedicated", [False, True])
async def test_the_bound_holds_while_a_handler_waits(
    overflow: Any, left: list[int], dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(AsyncCollects, overflow=overflow, dedicated=dedicated)
        ref.tell("first")
        await trio.sleep(0.5)
        for number in range(6):
            with suppress(MailboxFull):
                ref.tell(number)
        assert nursery.tree().children[0].mailbox == 3
        await trio.sleep(10)
        assert await got(ref) == ["first", *left]


@ACTORS
async def test_only_messages_that_wait_count_not_those_that_were_handled(
    actor: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(actor, dedicated=dedicated)
        sent = 0
        for _ in range(20):
            for _ in range(3):
                ref.tell(sent)
                sent += 1
            await trio.sleep(3)
        await trio.sleep(1)
        assert await got(ref) == list(range(60))
        assert nursery.drops == {}


async def test_a_long_batch_has_room_for_every_message_that_it_has_handled(
    autojump_clock: MockClock,
) -> None:
    class Counts(Actor):
        """Sends itself one message for each that it handles, a thousand times."""

        capacity = 2

        def __init__(self) -> None:
            self.got: list[int] = []

        def receive(self, message: int) -> None:
            self.got.append(message)
            if message < 1000:
                self.ref.tell(message + 2)

    async with open_nursery() as nursery:
        ref = nursery.spawn(Counts)
        ref.tell(0)
        ref.tell(1)
        await trio.testing.wait_all_tasks_blocked()
        assert await got(ref) == list(range(1002))
        assert nursery.drops == {}


async def test_a_message_that_was_given_up_leaves_no_more_room_than_there_is(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref = await suspended(nursery, Collects)
        for _ in range(3):
            with trio.move_on_after(1):
                await ref.ask("given up")
        ref.resume()
        await trio.testing.wait_all_tasks_blocked()
        assert await got(ref) == []
        assert await ref.ask(1) == 1


# ---- waiting for room


@ACTORS
async def test_senders_wait_for_room_and_are_served_in_their_order(
    actor: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    sent: list[int] = []

    async def sends(number: int) -> None:
        await ref.send(number)
        sent.append(number)

    async with open_nursery() as nursery:
        ref = await suspended(nursery, actor, dedicated=dedicated)
        async with trio.open_nursery() as tasks:
            for number in range(10):
                tasks.start_soon(sends, number)
                await trio.testing.wait_all_tasks_blocked()
            assert sent == [0, 1, 2]
            assert nursery.tree().children[0].mailbox == 10
            ref.resume()
        await trio.sleep(20)
        assert sorted(sent) == list(range(10))
        assert await got(ref) == list(range(10))
        assert nursery.drops == {}


@ACTORS
async def test_who_tells_does_not_overtake_those_who_wait(
    actor: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery, trio.open_nursery() as tasks:
        ref = await suspended(nursery, actor, dedicated=dedicated, capacity=1)
        await ref.send("first")
        tasks.start_soon(ref.send, "waits")
        await trio.testing.wait_all_tasks_blocked()
        ref.resume()
        await ref.send("last")
        await trio.sleep(10)
        assert await got(ref) == ["first", "waits", "last"]


@ACTORS
async def test_a_sender_that_is_cancelled_has_sent_nothing(
    actor: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery, trio.open_nursery() as tasks:
        ref = await suspended(nursery, actor, dedicated=dedicated)
        for number in range(3):
            await ref.send(number)
        with trio.move_on_after(1) as scope:
            await ref.send("cancelled")
        assert scope.cancelled_caught
        tasks.start_soon(ref.send, "after it")
        await trio.testing.wait_all_tasks_blocked()
        ref.resume()
        await trio.sleep(10)
        assert await got(ref) == [0, 1, 2, "after it"]


async def test_a_sender_that_is_cancelled_already_sends_nothing_even_with_room() -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(Collects)
        with trio.CancelScope() as scope:
            scope.cancel()
            await ref.send(1)
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert await got(ref) == []


@ACTORS
@pytest.mark.parametrize("end", ["stop", "kill", "leave the block"])
async def test_senders_that_wait_are_told_when_the_actor_ends(
    actor: Any, dedicated: bool, end: str, autojump_clock: MockClock
) -> None:
    refused: list[int] = []

    async def sends(number: int) -> None:
        try:
            await ref.send(number)
        except ActorStopped as error:
            if error.actor == ref.path:
                refused.append(number)

    async with trio.open_nursery() as tasks:
        async with open_nursery() as nursery:
            ref = await suspended(nursery, actor, dedicated=dedicated)
            for number in range(6):
                tasks.start_soon(sends, number)
                await trio.testing.wait_all_tasks_blocked()
            if end == "stop":
                await ref.stop()
            elif end == "kill":
                ref.kill()
                await ref.join()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(refused) == [3, 4, 5]
        with pytest.raises(ActorStopped):
            await ref.send(6)


async def test_a_handler_may_wait_for_room_of_another_actor(autojump_clock: MockClock) -> None:
    class Sends(Actor):
        def __init__(self, to: Ref[Any]) -> None:
            self.to = to

        async def receive(self, message: int) -> None:
            for number in range(message):
                await self.to.send(number)

    async with open_nursery() as nursery:
        ref = nursery.spawn(AsyncCollects)
        await nursery.spawn(Sends, ref).ask(10)
        assert trio.current_time() == 6  # three wait when the last is sent, one is at work
        await trio.sleep(10)
        assert await got(ref) == list(range(10))


# ---- the bound itself


async def test_without_a_bound_every_message_waits(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        ref = await suspended(nursery, Collects, capacity=math.inf)
        for number in range(5_000):
            ref.tell(number)
        await ref.send(5_000)
        ref.resume()
        await trio.testing.wait_all_tasks_blocked()
        assert await got(ref) == list(range(5_001))


def ignores(message: object) -> None:
    pass


async def test_a_thousand_messages_wait_unless_somebody_says_otherwise() -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(ignores)
        ref.suspend()
        for number in range(1_000):
            ref.tell(number)
        with pytest.raises(MailboxFull, match="1000 messages wait"):
            ref.tell(1_000)


@pytest.mark.parametrize("capacity", [0, -1, 1.5, math.nan, -math.inf, True])
async def test_a_bound_that_is_no_number_of_messages_is_refused(capacity: Any) -> None:
    async with open_nursery() as nursery:
        with pytest.raises(ValueError, match="capacity must be a whole number of messages"):
            nursery.spawn(Collects, capacity=capacity)
        assert nursery.tree().children == ()


async def test_an_unbounded_mailbox_of_an_ended_actor_refuses_all_the_same() -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(Collects, capacity=sys.maxsize)
        await ref.stop()
        ref.tell(1)
        assert nursery.dead_letters == 1
        with pytest.raises(ActorStopped):
            await ref.send(1)
        with pytest.raises(ActorStopped):
            await ref.ask(1)


async def test_a_policy_that_does_not_exist_is_refused() -> None:
    policy: Any = "drop_some"
    async with open_nursery() as nursery:
        with pytest.raises(ValueError, match="overflow must be one of"):
            nursery.spawn(Collects, overflow=policy)
