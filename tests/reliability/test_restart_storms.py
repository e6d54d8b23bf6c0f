# ruff: noqa: PT012 - what raises here is leaving a block, so the block is the statement
"""Case C09, goal F7 and their kind: a child that always dies at once is not started at full speed.

It shakes hands, and is dead 0.02 s later.  That its start succeeded proves nothing,
so the delays grow all the same; and who stands beside it is served meanwhile.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby_actors import Actor, Ref
from standby_supervision import (
    Backoff,
    Branch,
    ChildSpec,
    Failed,
    GaveUp,
    Periodic,
    child,
    open_jobs,
    open_supervisor,
    partitions,
    supervisor,
    workers,
)

LIFE = 0.02
"""Seconds from its handshake to its death."""
HOUR = 3600.0
DAY = 24 * HOUR
STEADY = Backoff(1.0, factor=2.0, cap=60.0, jitter=0.0, reset_after=120.0)
STRATEGIES = ["one_for_one", "rest_for_one", "one_for_all", "dynamic"]
SPREAD = Backoff(1.0, factor=2.0, cap=60.0, jitter=0.1, reset_after=120.0)


@define(eq=False)
class Diary:
    """When lives began, in seconds."""

    starts: list[float] = field(factory=list)

    @property
    def gaps(self) -> list[float]:
        """Seconds from each death to the next start."""
        return [after - before - LIFE for before, after in itertools.pairwise(self.starts)]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Report nothing of the many crashes here: to render their traces takes most of the time."""
    caplog.set_level("CRITICAL", logger="standby")


class Dies(Actor):
    """Starts well, and crashes in its handler a moment later."""

    def __init__(self, diary: Diary, *_: object) -> None:
        self.diary = diary

    def on_start(self) -> Any:
        self.diary.starts.append(trio.current_time())
        self.send_after(LIFE, "die")

    def receive(self, message: Any) -> Any:
        if message == "die":
            raise ConnectionResetError("the server closed the connection")
        return message


class DiesAwaiting(Dies):
    """The same in a coroutine."""

    async def receive(self, message: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return super().receive(message)


class DiesOnItsTask(DiesAwaiting):
    """The same on a task of its own."""

    dedicated = True


class Leaves(Dies):
    """Does not crash, but leaves: to a permanent child that is the same."""

    def receive(self, message: Any) -> Any:
        self.stop()


class IsKilled(Dies):
    """Is killed, as by an operator, each time it is up."""

    async def receive(self, message: Any) -> Any:
        self.ref.kill()
        await trio.sleep_forever()


class FailsToStop(Dies):
    """Leaves, and fails to clean up."""

    def receive(self, message: Any) -> Any:
        self.stop()

    def on_stop(self, reason: object) -> None:
        raise OSError("pipe is closed")


class NeverStarts(Dies):
    """Is up once; from then on its start fails after as long as others live."""

    async def on_start(self) -> None:
        if self.diary.starts:
            self.diary.starts.append(trio.current_time())
            await trio.sleep(LIFE)
            raise ConnectionRefusedError("nobody listens")
        super().on_start()


class BreaksItsWorker(Dies):
    """Has a worker, whose crash over their link is its own end."""

    def on_start(self) -> None:
        self.diary.starts.append(trio.current_time())
        self.spawn(Dies, Diary())


class Echo(Actor):
    """A healthy neighbour."""

    def receive(self, message: Any) -> Any:
        return message


KINDS = [
    Dies,
    DiesAwaiting,
    DiesOnItsTask,
    Leaves,
    IsKilled,
    FailsToStop,
    NeverStarts,
    BreaksItsWorker,
]
HALF = [
    (strategy, kind)
    for row, strategy in enumerate(STRATEGIES)
    for column, kind in enumerate(KINDS)
    if (row + column) % 2 == 0
]


async def serves_each_second(neighbour: Callable[[], Ref[Any]], seconds: float) -> int:
    """Ask the neighbour once a second; returns how many of the asks were answered in time."""
    answered = 0
    for number in range(int(seconds)):
        with trio.move_on_after(1):
            answered += await neighbour().ask(number) == number
        await trio.sleep_until(number + 1)
    return answered


def check_storm(diary: Diary, seconds: float, most: int) -> None:
    """The gaps are those of the back-off, and there are no more starts than that allows."""
    assert len(diary.starts) <= most
    wanted = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *itertools.repeat(60.0, len(diary.gaps))]
    assert diary.gaps == pytest.approx(wanted[: len(diary.gaps)])
    assert diary.starts[-1] > seconds - 61  # it is still tried


async def storms_beside_a_neighbour(kind: type[Dies], strategy: Any, seconds: float) -> Diary:
    """Let a child of a supervisor die at once for so long; its neighbour must be served."""
    diary = Diary()
    async with open_supervisor(
        child(Echo, id="neighbour"), storm(kind, diary, strategy, "sup")
    ) as tree:
        if strategy == "dynamic":
            await tree.branch("sup").start(id="a")
        assert await serves_each_second(lambda: tree["neighbour"], seconds) == seconds
        assert tree["sup"].incarnation == 1
    return diary


def storm(kind: type[Dies], diary: Diary, strategy: Any, name: str) -> ChildSpec:
    """A supervisor with one child that dies at once."""
    start = child(kind, diary, id="a")
    return supervisor(start, id=name, strategy=strategy, intensity=None, backoff=STEADY)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_an_hour_of_instant_deaths_has_no_more_than_66_starts_and_harms_no_neighbour(
    strategy: Any, autojump_clock: MockClock
) -> None:
    check_storm(await storms_beside_a_neighbour(Dies, strategy, HOUR), HOUR, most=66)


@pytest.mark.parametrize(
    ("strategy", "kind", "seconds"),
    [
        *[(strategy, kind, 150.0) for strategy, kind in HALF],
        *[
            pytest.param(*each, HOUR, marks=pytest.mark.deep)
            for each in itertools.product(STRATEGIES, KINDS)
        ],
    ],
)
async def test_every_way_to_die_at_once_has_the_same_gaps(
    strategy: Any, kind: type[Dies], seconds: float, autojump_clock: MockClock
) -> None:
    diary = await storms_beside_a_neighbour(kind, strategy, seconds)
    check_storm(diary, seconds, most=66 if seconds == HOUR else 8)


@pytest.mark.parametrize(
    ("strategy", "restart"), [("one_for_one", "transient"), ("rest_for_one", "permanent")]
)
async def test_a_neighbour_under_the_same_supervisor_is_served_each_second(
    strategy: Any, restart: Any, autojump_clock: MockClock
) -> None:
    diary = Diary()
    async with open_supervisor(
        child(Echo, id="neighbour"),
        child(Dies, diary, id="a", restart=restart),
        strategy=strategy,
        intensity=None,
        backoff=STEADY,
    ) as tree:
        assert await serves_each_second(lambda: tree["neighbour"], HOUR) == HOUR
        assert tree["neighbour"].incarnation == 1
    check_storm(diary, HOUR, most=66)


async def test_a_neighbour_in_the_same_worker_pool_is_served_each_second(
    autojump_clock: MockClock,
) -> None:
    diary = Diary()

    class OneOfThem(Dies):
        """The first of a pool is the one that dies."""

        def on_start(self) -> None:
            if self.ref.path.endswith("/1"):
                super().on_start()

    pool = workers(OneOfThem, diary, count=3, id="pool", intensity=None, backoff=STEADY)
    async with open_supervisor(pool) as tree:
        assert await serves_each_second(lambda: tree.branch("pool")["2"], HOUR) == HOUR
    check_storm(diary, HOUR, most=66)


@pytest.mark.parametrize("seed", range(5))
async def test_with_jitter_each_gap_is_within_it(
    seed: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "Random", lambda: random_of(seed))
    diary = Diary()
    async with open_supervisor(child(Dies, diary, id="a"), intensity=None, backoff=SPREAD):
        await trio.sleep(HOUR)
    wanted = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *itertools.repeat(60.0, 60)]
    assert len(diary.starts) <= 7 + (HOUR - 63 * 0.9) // (60 * 0.9)
    assert all(
        0.9 <= gap / middle <= 1.1 for gap, middle in zip(diary.gaps, wanted, strict=False)
    ), seed
    assert len({round(gap / 60, 6) for gap in diary.gaps[6:]}) > 30  # they are spread


def random_of(seed: int, make: Any = random.Random) -> random.Random:
    """The generator of that seed, also where the class is replaced."""
    return make(seed)  # type: ignore[no-any-return]  # a Random; the default is bound early


async def test_a_life_that_is_long_enough_ends_the_streak_and_one_that_is_not_does_not(
    autojump_clock: MockClock,
) -> None:
    lives = iter([0.02, 0.02, 119.0, 119.9, 120.5, 0.02, 0.02, 1e6])
    starts: list[float] = []
    ends: list[float] = []

    class Lives(Actor):
        """Lives as long as the list says."""

        def on_start(self) -> None:
            starts.append(trio.current_time())
            self.send_after(next(lives), "die")

        def receive(self, message: Any) -> None:
            ends.append(trio.current_time())
            raise ConnectionResetError

    async with open_supervisor(child(Lives), intensity=None, backoff=STEADY):
        await trio.sleep(400)
    gaps = [start - end for end, start in zip(ends, starts[1:], strict=False)]
    assert gaps == pytest.approx([1, 2, 4, 8, 1, 2, 4])


# ---- (b) without a back-off there is the limit


@pytest.mark.parametrize(("strategy", "kind"), HALF)
async def test_three_in_five_seconds_are_four_starts_and_then_a_reason(
    strategy: Any, kind: type[Dies], autojump_clock: MockClock
) -> None:
    diary = Diary()
    answered = 0
    with pytest.raises(GaveUp, match=r"child a: 4 restarts within 5 s, 3 allowed"):
        async with (
            open_supervisor(child(Echo, id="neighbour")) as beside,
            open_supervisor(
                child(kind, diary, id="a"), strategy=strategy, intensity=3, period=5.0
            ) as tree,
        ):
            if strategy == "dynamic":
                await tree.start(id="a")
            while True:
                answered += await beside["neighbour"].ask(1)
                await trio.sleep(0.01)
    assert len(diary.starts) == 4
    assert answered >= 8  # each hundredth of the four lives
    assert trio.current_time() < 1


async def test_two_levels_of_supervisors_multiply_their_starts_and_then_give_up_both(
    autojump_clock: MockClock,
) -> None:
    diary = Diary()
    below = supervisor(child(Dies, diary, id="a"), id="below", intensity=3, period=5.0)
    with pytest.raises(GaveUp, match=r"child below: 4 restarts within 5 s, 3 allowed"):
        async with open_supervisor(below, intensity=3, period=5.0) as tree:
            await tree.join()
    assert len(diary.starts) == 16


async def test_a_supervisor_that_gives_up_again_and_again_is_itself_slowed_down(
    autojump_clock: MockClock,
) -> None:
    diary = Diary()
    below = supervisor(child(Dies, diary, id="a"), id="below", intensity=0)
    async with open_supervisor(
        child(Echo, id="neighbour"), below, intensity=None, backoff=STEADY
    ) as tree:
        assert await serves_each_second(lambda: tree["neighbour"], HOUR) == HOUR
    check_storm(diary, HOUR, most=66)


async def test_a_partition_in_a_storm_gives_up_alone(autojump_clock: MockClock) -> None:
    diary = Diary()

    class Either(Dies):
        """Dies at once, or not at all."""

        def __init__(self, diary: Diary, which: str) -> None:
            super().__init__(diary)
            self.which = which

        def on_start(self) -> None:
            if self.which == "dies":
                super().on_start()

    async with open_supervisor(partitions(child(Either, diary), count=4, id="many")) as tree:
        many = tree.partitions("many")
        first = many.partition("sick")
        key = next(f"k{n}" for n in itertools.count() if many.partition(f"k{n}").ref != first.ref)
        healthy = await many.get_or_start(key, "lives")
        await many.start("sick", "dies")
        await trio.sleep(60)
        assert await healthy.ask("here") == "here"
        assert healthy.incarnation == 1
        # The partition began anew, without those that it had been asked to start.
        assert many.find("sick") is None
    assert len(diary.starts) == 4


# ---- what is tried again elsewhere


async def test_a_job_that_fails_at_once_is_tried_with_the_same_gaps(
    autojump_clock: MockClock,
) -> None:
    diary = Diary()

    async def fails() -> None:
        diary.starts.append(trio.current_time())
        await trio.sleep(LIFE)
        raise ConnectionResetError

    async with open_jobs(max_running=1, shutdown=0) as jobs:
        job = jobs.start(fails, attempts=66, backoff=STEADY)
        neighbours = 0
        for minute in range(60):
            with trio.fail_after(1):
                await jobs.run(trio.sleep, 0)
            neighbours += 1
            await trio.sleep_until(60 * minute + 60)
        assert neighbours == 60
        assert not job.is_done
    check_storm(diary, HOUR, most=66)


async def test_a_periodic_job_that_fails_at_once_keeps_its_period(
    autojump_clock: MockClock,
) -> None:
    starts: list[float] = []
    periodic: list[Periodic] = []

    async def fails() -> None:
        starts.append(trio.current_time())
        raise ConnectionResetError

    async with open_jobs() as jobs:
        periodic.append(jobs.every(60.0, fails))
        await trio.sleep(HOUR + 1)
    assert starts == [60.0 * number for number in range(1, 61)]
    assert periodic[0].failures == 60
    assert isinstance(periodic[0].last, Failed)


# ---- the long size


@pytest.mark.deep
async def test_a_day_of_storms_of_every_kind_at_once_harms_no_neighbour(
    autojump_clock: MockClock,
) -> None:
    diaries: dict[str, Diary] = {}
    specs: list[ChildSpec] = []
    for kind in KINDS:
        for strategy in STRATEGIES:
            name = f"{kind.__name__}-{strategy}"
            diaries[name] = Diary()
            specs.append(storm(kind, diaries[name], strategy, name))
    async with open_supervisor(child(Echo, id="neighbour"), *specs) as tree:
        for name in diaries:
            if name.endswith("dynamic"):
                branch: Branch = tree.branch(name)
                await branch.start(id="a")
        assert await serves_each_second(lambda: tree["neighbour"], DAY) == DAY
        assert all(tree[name].incarnation == 1 for name in diaries)
    # 63 s for the first seven, then one in 60.02 s.
    most = 7 + int((DAY - 63) / 60.02) + 1
    for diary in diaries.values():
        check_storm(diary, DAY, most=most)
