"""Messages on their way through time, and silence that is noticed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
import trio.testing

from standby.testing import Probe
from standby_actors import Actor, Ref, open_nursery


class Clock(Actor):
    """Schedules what it is told, and keeps what comes with its time."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, Any]] = []
        self.scheduled: list[Any] = []

    async def receive(self, message: Any) -> Any:
        match message:
            case "after", seconds, what:
                self.scheduled.append(self.send_after(seconds, what))
                return self.scheduled[-1]
            case "every", seconds, what:
                self.scheduled.append(self.send_every(seconds, what))
                return self.scheduled[-1]
            case "to", other, seconds, what:
                return self.send_after(seconds, what, to=other)
            case "silence", seconds:
                return self.set_receive_timeout(seconds)
            case "work", seconds:
                return await trio.sleep(seconds)
            case "heard":
                return self.heard
            case _:
                self.heard.append((trio.current_time(), message))
                return message

    def on_receive_timeout(self) -> None:
        self.heard.append((trio.current_time(), "silence"))


async def test_a_message_comes_at_its_exact_time_and_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        timer = await clock.ask(("after", 2.5, "tick"))
        assert timer.is_pending
        await trio.sleep(10)
        assert await clock.ask("heard") == [(2.5, "tick")]
        assert not timer.is_pending


async def test_messages_due_at_the_same_time_come_in_the_order_in_which_they_were_set(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        for seconds, what in ((3, "c"), (1, "a"), (3, "d"), (2, "b"), (3, "e")):
            await clock.ask(("after", seconds, what))
        await trio.sleep(10)
        assert await clock.ask("heard") == [(1, "a"), (2, "b"), (3, "c"), (3, "d"), (3, "e")]


async def test_a_period_runs_from_when_it_was_due_however_long_the_handler_took(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        timer = await clock.ask(("every", 2, "tick"))
        await trio.sleep(1)
        await clock.ask(("work", 4))
        await trio.sleep(2.5)
        timer.cancel()
        await trio.sleep(10)
        assert await clock.ask("heard") == [(5, "tick"), (5, "tick"), (6, "tick")]


async def test_a_cancelled_message_never_comes_and_may_be_cancelled_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        once = await clock.ask(("after", 2, "once"))
        every = await clock.ask(("every", 2, "every"))
        await trio.sleep(1)
        for timer in (once, every, once, every):
            timer.cancel()
            assert not timer.is_pending
        await trio.sleep(10)
        assert await clock.ask("heard") == []


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_messages_on_their_way_die_with_who_sent_them(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        probe: Ref[Any] = nursery.spawn(Probe)
        timer = await clock.ask(("to", probe, 2, "late"))
        clock.stop() if how == "stop" else clock.kill()
        await trio.sleep(10)
        assert (await probe.get_state())["messages"] == []
        assert not timer.is_pending


async def test_a_message_to_another_that_has_ended_is_a_dead_letter(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        probe: Ref[Any] = nursery.spawn(Probe)
        await clock.ask(("to", probe, 2, "late"))
        await probe.stop()
        await trio.sleep(10)
        assert nursery.dead_letters == 1


async def test_a_tick_that_finds_the_mailbox_full_is_dropped_and_counted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock, capacity=2)
        await clock.ask(("every", 1, "tick"))
        await clock.ask(("work", 5.5))
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.drops == {"refused": 3}
        assert clock.is_alive


async def test_an_endless_delay_is_never_and_leaves_the_clock_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        await clock.ask(("after", math.inf, "never"))
        await trio.sleep(80_000)
        assert await clock.ask("heard") == []


@pytest.mark.parametrize("seconds", [-1, math.nan])
async def test_a_delay_that_is_none_is_refused_where_it_is_given(
    seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    class Refused(Actor):
        """Answers what it is refused with."""

        def receive(self, message: Any) -> list[str]:
            found = []
            for schedule in (self.send_after, self.send_every):
                try:
                    schedule(seconds, "tick")
                except ValueError as error:
                    found.append(str(error))
            return found

    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Refused)
        after, every = await ref.ask("try")
        assert repr(seconds) in after
        assert "a period must be more than 0 seconds" in every


async def test_thousands_of_timers_come_in_order_and_cancelled_ones_are_forgotten(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        timers = [await clock.ask(("after", 1 + number % 97, number)) for number in range(5000)]
        for timer in timers[::2]:
            timer.cancel()
        await trio.sleep(200)
        heard = await clock.ask("heard")
        expected = sorted((1.0 + number % 97, number) for number in range(1, 5000, 2))
        assert heard == expected


async def test_silence_is_noticed_once_and_after_the_full_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        clock.tell(("silence", 3))
        await trio.sleep(10)
        assert clock.snapshot().mailbox == 0
        assert await clock.ask("heard") == [(3, "silence")]


async def test_a_receive_timeout_set_again_starts_again_and_none_takes_it_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        clock.tell(("silence", 3))
        await trio.sleep(2)
        clock.tell(("silence", 3))
        await trio.sleep(2)
        clock.tell(("silence", None))
        await trio.sleep(10)
        assert await clock.ask("heard") == []


async def test_a_look_at_the_state_does_not_break_the_silence(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        clock: Ref[Any] = nursery.spawn(Clock)
        clock.tell(("silence", 3))
        await trio.sleep(2)
        await clock.get_state()
        await trio.sleep(2)
        assert (await clock.get_state())["heard"] == [(3, "silence")]


async def test_a_receive_timeout_without_its_hook_says_what_is_missing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Deaf(Actor):
        """Has no on_receive_timeout."""

        def receive(self, message: Any) -> str:
            try:
                self.set_receive_timeout(1)
            except TypeError as error:
                return str(error)
            return ""

    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Deaf)
        assert await ref.ask("try") == "Deaf has no on_receive_timeout(self)"
