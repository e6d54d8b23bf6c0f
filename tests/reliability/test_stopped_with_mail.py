"""Case C20 and its kind: whatever an actor leaves behind in its mailbox is answered.

The handler takes 10 s.  Five asks and three tells come at 0 s, the end at 1 s.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    Crashed,
    Killed,
    Later,
    NameTaken,
    Nursery,
    Ref,
    Shutdown,
    open_nursery,
)
from tests.support.homes import apart


class Slow(Actor):
    """Takes 10 s over each message, or crashes when its flag is raised."""

    def __init__(self, begun: list[Any], alarm: trio.Event | None = None) -> None:
        self.begun = begun
        self.alarm = alarm

    async def receive(self, message: Any) -> Any:
        self.begun.append(message)
        if self.alarm is None:
            await trio.sleep(10)
            return message
        await self.alarm.wait()
        raise ValueError("broken")


async def outcome(reply: Any) -> tuple[float, str]:
    """When an ask resolved, and how."""
    try:
        await reply
    except (ActorStopped, ActorCrashed) as error:
        return trio.current_time(), type(error).__name__
    return trio.current_time(), "answered"


async def outcomes(replies: list[Any]) -> list[tuple[float, str]]:
    """What became of all of them, awaited at the same time."""
    found: dict[int, tuple[float, str]] = {}

    async def wait(place: int, reply: Any) -> None:
        found[place] = await outcome(reply)

    async with trio.open_nursery() as tasks:
        for place, reply in enumerate(replies):
            tasks.start_soon(wait, place, reply)
    return [found[place] for place in range(len(replies))]


def fill(ref: Ref[Any]) -> list[Any]:
    """Five asks, then three tells."""
    replies = [ref.ask(f"a{number}") for number in range(1, 6)]
    for number in range(1, 4):
        ref.tell(f"t{number}")
    return replies


async def new_one_gets_nothing(nursery: Nursery, old: Ref[Any]) -> None:
    """A new actor under the old name has none of the old one's mail."""
    with pytest.raises(ActorStopped):
        await old.ask("later")
    begun: list[Any] = []
    ref: Ref[Any] = nursery.spawn(Slow, begun, name="slow")
    await trio.sleep(1)
    assert begun == []
    assert await ref.ask("new") == "new"
    assert begun == ["new"]


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize(
    ("stop_mode", "first"),
    [
        pytest.param("finish", 6, id="which finishes, its bound cuts the handler"),
        pytest.param("interrupt", 1, id="which interrupts cuts it at once"),
    ],
)
async def test_after_a_stop_every_ask_in_the_mailbox_fails_at_once_and_no_handler_has_begun(
    stop_mode: Any, first: float, dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    begun: list[Any] = []
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(
            Slow, begun, name="slow", stop_mode=stop_mode, dedicated=dedicated
        )
        replies = fill(ref)
        await trio.sleep(1)
        ref.stop()
        assert await outcomes(replies) == [(first, "ActorStopped"), *[(1, "ActorStopped")] * 4]
        assert begun == ["a1"]
        assert nursery.dead_letters == 3
        await ref.join()
        await new_one_gets_nothing(nursery, ref)


@pytest.mark.parametrize("dedicated", [False, True])
async def test_after_a_kill_every_ask_fails_at_once(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    begun: list[Any] = []
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Slow, begun, name="slow", dedicated=dedicated)
        replies = fill(ref)
        await trio.sleep(1)
        ref.kill()
        assert await outcomes(replies) == [(1, "ActorStopped")] * 5
        assert (begun, nursery.dead_letters) == (["a1"], 3)
        assert await ref.join() == Killed()
        await new_one_gets_nothing(nursery, ref)


@pytest.mark.parametrize("dedicated", [False, True])
async def test_after_a_crash_its_asker_hears_of_it_and_the_others_hear_that_it_ended(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    begun: list[Any] = []
    alarm = trio.Event()
    async with open_nursery() as nursery:
        ref = await apart(nursery, Slow, begun, alarm, name="slow", dedicated=dedicated)
        replies = fill(ref)
        await trio.sleep(1)
        alarm.set()
        assert await outcomes(replies) == [(1, "ActorCrashed"), *[(1, "ActorStopped")] * 4]
        assert (begun, nursery.dead_letters) == (["a1"], 3)
        assert isinstance(await ref.join(), Crashed)
        await new_one_gets_nothing(nursery, ref)


@pytest.mark.parametrize("how", ["left", "cancelled", "killed", "another crashes"])
async def test_at_the_end_of_the_block_every_ask_is_resolved(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    begun: list[Any] = []
    alarm = trio.Event()
    found: list[tuple[float, str]] = []
    async with trio.open_nursery() as outside:
        with trio.CancelScope() as scope:
            try:
                async with open_nursery() as nursery:
                    ref: Ref[Any] = nursery.spawn(Slow, begun)
                    other: Ref[Any] = nursery.spawn(Slow, [], alarm)
                    replies = fill(ref)
                    other.tell("wait")

                    async def collect() -> None:
                        found.extend(await outcomes(replies))

                    outside.start_soon(collect)
                    await trio.sleep(1)
                    if how == "cancelled":
                        other.kill()
                        scope.cancel()
                    elif how == "killed":
                        nursery.kill()
                    elif how == "another crashes":
                        alarm.set()
                    else:
                        other.kill()
            except* ValueError:
                assert how == "another crashes"
    # Only this actor is left to stop, so its 5 s begin at once.
    ended = 1 if how == "killed" else 6
    assert found == [(ended, "ActorStopped"), *[(1, "ActorStopped")] * 4]
    assert begun == ["a1"]


async def test_a_name_is_taken_until_its_actor_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Slow, [], name="slow")
        ref.tell("work")
        await trio.sleep(1)
        stop = ref.stop()
        with pytest.raises(NameTaken):
            nursery.spawn(Slow, [], name="slow")
        assert await stop == Killed("it did not stop within 5 s")
        nursery.spawn(Slow, [], name="slow")


async def test_who_waits_for_room_is_refused_when_the_actor_stops(
    autojump_clock: trio.testing.MockClock,
) -> None:
    refused: list[float] = []

    async def send(ref: Ref[Any]) -> None:
        with pytest.raises(ActorStopped):
            await ref.send("no room")
        refused.append(trio.current_time())

    async with open_nursery() as nursery, trio.open_nursery() as tasks:
        ref: Ref[Any] = nursery.spawn(Slow, [], capacity=1)
        await ref.send("in progress")
        await trio.testing.wait_all_tasks_blocked()
        await ref.send("waits")
        for _ in range(3):
            tasks.start_soon(send, ref)
        await trio.sleep(1)
        ref.stop()
    assert refused == [1, 1, 1]


async def test_promised_and_postponed_answers_fail_with_the_actor_that_owed_them(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Debtor(Actor):
        """Never answers."""

        def receive(self, message: str) -> Later[Any]:
            return self.postpone(message) if message == "postpone" else self.reply_later()

    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Debtor)
        replies = [ref.ask("postpone"), ref.ask("promise"), ref.get_state()]
        await trio.sleep(1)
        await ref.stop()
        assert [reply.done for reply in replies] == [True] * 3
        assert await outcomes(replies[:2]) == [(1, "ActorStopped")] * 2


async def test_a_timer_of_an_ended_actor_reaches_nobody_of_the_same_name(
    autojump_clock: trio.testing.MockClock,
) -> None:
    heard: list[Any] = []

    class Ticks(Actor):
        """Tells itself, and its successor's name, what time it is."""

        def receive(self, message: Any) -> None:
            heard.append(message)
            if message == "start":
                self.send_after(2, "late")
                self.send_every(2, "again")

    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Ticks, name="ticks")
        ref.tell("start")
        await trio.sleep(1)
        await ref.stop()
        nursery.spawn(Ticks, name="ticks")
        await trio.sleep(10)
        assert heard == ["start"]


async def test_an_asker_that_stops_withdraws_what_it_has_asked(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[Any] = []

    class Asks(Actor):
        """Waits for the answer to what it gets."""

        stop_mode = "interrupt"

        async def receive(self, message: tuple[Ref[Any], Any]) -> Any:
            return await message[0].ask(message[1])

    async with open_nursery() as nursery:
        slow: Ref[Any] = nursery.spawn(Slow, begun)
        asker: Ref[Any] = nursery.spawn(Asks)
        slow.tell("first")
        asker.tell((slow, "second"))
        await trio.sleep(1)
        assert await asker.stop() == Shutdown()
        slow.tell("third")
        await trio.sleep(15)
        assert begun == ["first", "third"]
        slow.kill()
