"""Case C11, goal F8 and their kind: a clock that jumps is nobody's silence.

Ten actors show progress every 10 s, and count as stalled after 600 s without.  The
wall clock is set forward by an hour and back by a day; then the monotonic clock
hops by an hour, as when a laptop sleeps.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
import trio
from attrs import define
from trio.testing import MockClock

from standby_actors import Actor, ActorCrashed, Event, open_nursery
from standby_supervision import (
    Backoff,
    GaveUp,
    Stalled,
    TimedOut,
    child,
    open_jobs,
    open_supervisor,
    supervisor,
)
from tests.support.heard import heard

BEAT = 10.0
"""Seconds between two signs of life."""
STALE = 600.0
HOUR = 3600.0
DAY = 24 * HOUR


@define(eq=False)
class Wall:
    """The wall clock: trio's, and whatever it has been set forward or back by."""

    offset: float = 1e9

    def __call__(self) -> float:
        return trio.current_time() + self.offset


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()
    monkeypatch.setattr(time, "time", wall)
    return wall


class Beats(Actor):
    """Is at one task for ever, a step each 10 s: every step is a message of its own."""

    def __init__(self) -> None:
        self.beats = 0

    def on_start(self) -> None:
        self.send_every(BEAT, "beat")

    async def receive(self, message: Any) -> Any:
        if message == "crash":
            raise ConnectionResetError
        if message == "beat":
            await trio.sleep(BEAT / 2)
            self.beats += 1
        return self.beats


class BeatsOnItsTask(Beats):
    """The same on a task of its own."""

    dedicated = True


class Works(Actor):
    """Takes as long as it is told for one message."""

    async def receive(self, seconds: float) -> str:
        await trio.sleep(seconds)
        return "done"


KINDS = [Beats, BeatsOnItsTask]


def ten(kind: type[Actor]) -> list[Any]:
    """Ten of them."""
    return [child(kind, id=str(n), stalled_after=STALE) for n in range(10)]


def said(events: list[Event], what: str) -> list[Event]:
    return [each for each in events if each.type == what]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wall_clock_that_is_set_forward_and_back_restarts_and_ends_nobody(
    kind: type[Beats], wall: Wall, autojump_clock: MockClock
) -> None:
    async with heard() as events, open_supervisor(*ten(kind), intensity=3, period=5.0) as tree:
        await trio.sleep_until(100)
        wall.offset += HOUR
        await trio.sleep_until(200)
        wall.offset -= DAY
        await trio.sleep_until(300)
        assert [tree[str(n)].incarnation for n in range(10)] == [1] * 10
        tree["0"].tell("crash")
        await trio.sleep_until(1000)
        assert [tree[str(n)].incarnation for n in range(10)] == [2] + [1] * 9
        status = tree.snapshot().supervisor
        assert status is not None
        assert status.restarts == 1  # the crash, and it is the only one that counts
        assert (await tree["1"].get_state())["beats"] == 99
    assert not said(events, "supervisor.stalled")
    # The order of events is that of their numbers, and ages are those of the clock
    # that nobody sets; the wall clock is only told.
    assert [each.seq for each in events] == sorted(each.seq for each in events)
    assert [each.monotonic for each in events] == sorted(each.monotonic for each in events)
    assert any(after.wall < before.wall for before, after in itertools.pairwise(events))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_clock_that_hops_by_an_hour_stalls_and_restarts_nobody_that_goes_on(
    kind: type[Beats], wall: Wall, autojump_clock: MockClock
) -> None:
    async with heard() as events, open_supervisor(*ten(kind), intensity=3, period=5.0) as tree:
        await trio.sleep_until(106)
        autojump_clock.jump(HOUR)
        await trio.sleep(BEAT)
        assert [tree[str(n)].incarnation for n in range(10)] == [1] * 10
        await trio.sleep(STALE * 2)
        assert [tree[str(n)].incarnation for n in range(10)] == [1] * 10
    assert not said(events, "supervisor.stalled")


@pytest.mark.parametrize("seen", [1.0, 149.0, 151.0, 299.0, 449.0, 599.0])
async def test_who_is_in_the_middle_of_a_long_step_when_the_clock_hops_has_time_to_end_it(
    seen: float, autojump_clock: MockClock
) -> None:
    # It was at it for so long before the hop, and needs one heartbeat more.
    async with open_supervisor(child(Works, id="w", stalled_after=STALE)) as tree:
        reply = tree["w"].ask(HOUR + seen + BEAT)
        await trio.sleep(seen)
        autojump_clock.jump(HOUR)
        assert await reply == "done"
        assert trio.current_time() == pytest.approx(HOUR + seen + BEAT)
        assert tree["w"].incarnation == 1


async def test_who_is_silent_after_the_hop_is_found_within_its_time_and_a_quarter(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(child(Works, id="w", stalled_after=STALE)) as tree:
        reply = tree["w"].ask(1e9)
        await trio.sleep(100)
        autojump_clock.jump(HOUR)
        with pytest.raises(ActorCrashed) as caught:
            await reply
        assert isinstance(caught.value.__cause__, Stalled)
        assert trio.current_time() - (HOUR + 100) <= STALE * 1.25


async def test_a_hop_lets_what_counted_before_it_count_no_more(autojump_clock: MockClock) -> None:
    async with open_supervisor(child(Beats, id="b"), intensity=1, period=5.0) as tree:
        for _ in range(20):
            with pytest.raises(ActorCrashed):
                await tree["b"].ask("crash")
            await trio.testing.wait_all_tasks_blocked()
            autojump_clock.jump(HOUR)
        assert tree["b"].incarnation == 21


async def test_a_wall_clock_that_jumps_lets_nothing_count_less(
    wall: Wall, autojump_clock: MockClock
) -> None:
    with pytest.raises(GaveUp, match="2 restarts within 5 s"):  # noqa: PT012 - leaving raises
        async with open_supervisor(child(Beats, id="b"), intensity=1, period=5.0) as tree:
            for _ in range(3):
                tree["b"].tell("crash")
                await trio.sleep(1)
                wall.offset += DAY
    assert trio.current_time() < 3


@pytest.mark.parametrize("jump", [HOUR, -DAY, DAY])
async def test_delays_and_timeouts_are_not_the_wall_clocks(
    jump: float, wall: Wall, autojump_clock: MockClock
) -> None:
    backoff = Backoff(100.0, cap=100.0, jitter=0.0)
    async with (
        open_jobs() as jobs,
        open_nursery() as nursery,
        open_supervisor(child(Beats, id="b"), intensity=None, backoff=backoff) as tree,
    ):
        with pytest.raises(ActorCrashed):
            await tree["b"].ask("crash")
        job = jobs.start(trio.sleep, 1e9, timeout=200.0)
        periodic = jobs.every(50.0, trio.sleep, 0)
        slow = nursery.spawn(Works)
        slow.tell(150.0)
        await trio.sleep(10)
        wall.offset += jump
        await tree["b"].ask("back")
        assert trio.current_time() == 100
        assert await slow.ask(0.0) == "done"
        assert trio.current_time() == 150
        assert isinstance(await job.join(), TimedOut)
        assert trio.current_time() == 200
        assert periodic.runs in (3, 4)
        periodic.cancel()


async def test_a_periodic_job_does_not_make_up_for_the_ticks_of_a_hop(
    autojump_clock: MockClock,
) -> None:
    runs: list[float] = []

    async def tick() -> None:
        runs.append(trio.current_time())

    async with open_jobs() as jobs:
        periodic = jobs.every(60.0, tick)
        await trio.sleep(125)
        autojump_clock.jump(HOUR)
        await trio.sleep(120)
        periodic.cancel()
    assert len(runs) in (4, 5)
    assert periodic.skipped in (58, 59, 60)
    assert runs[-1] > HOUR


async def test_a_retry_after_a_hop_comes_once_and_not_for_each_hour(
    autojump_clock: MockClock,
) -> None:
    backoff = Backoff(10.0, cap=10.0, jitter=0.0)
    spec = supervisor(child(Beats, id="b"), id="s", intensity=None, backoff=backoff)
    async with heard() as events, open_supervisor(spec) as tree:
        branch = tree.branch("s")
        with pytest.raises(ActorCrashed):
            await branch["b"].ask("crash")
        await trio.sleep(5)
        autojump_clock.jump(HOUR)
        await trio.sleep(60)
        assert branch["b"].incarnation == 2
    assert len([each for each in said(events, "actor.spawned") if each.actor.endswith("/b")]) == 2
