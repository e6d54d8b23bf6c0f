"""Case C14 and its kind: the number of children is counted right, whatever they go through.

Three permanent children fill a dynamic supervisor.  Who crashes holds its place
also while it waits for its next life.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby_actors import Actor, Ref
from standby_supervision import (
    Backoff,
    Branch,
    Counts,
    Done,
    Ignore,
    Ignored,
    Started,
    StartError,
    TooMany,
    child,
    open_supervisor,
    partitions,
    supervisor,
)

LIMIT = 3
WAIT = Backoff(1.0, factor=1.0, cap=1.0, jitter=0.0)
"""A second between two lives."""


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Report nothing of the many crashes here: to render their traces takes most of the time."""
    caplog.set_level("CRITICAL", logger="standby")


class Works(Actor):
    """Crashes, leaves, or answers."""

    def __init__(self, how: str = "") -> None:
        if how == "making fails":
            raise OSError(how)
        self.how = how

    async def on_start(self) -> None:
        if self.how == "start fails":
            raise OSError(self.how)
        if self.how == "hangs":
            await trio.sleep_forever()
        if self.how == "nothing to run":
            raise Ignore

    def receive(self, message: Any) -> Any:
        if message == "crash":
            raise ConnectionResetError
        if message == "leave":
            self.stop()
        return message


class WorksOnItsTask(Works):
    """The same on a task of its own."""

    dedicated = True


class Hookless(Actor):
    """The same without a start hook: its new life begins on the spot."""

    def receive(self, message: Any) -> Any:
        if message == "crash":
            raise ConnectionResetError
        return message


KINDS = [Works, WorksOnItsTask, Hookless]


async def fill(pool: Branch, number: int = LIMIT) -> list[Ref[Any]]:
    """Start as many as there is room for."""
    return [await pool.get_or_start(str(each)) for each in range(number)]


async def is_full(pool: Branch, active: int) -> None:
    """Three are counted, so many of them run, and a fourth is refused."""
    assert await pool.start() == TooMany(LIMIT)
    assert await pool.start(id="fourth") == TooMany(LIMIT)
    assert await pool.count_children() == Counts(1, active, 0, LIMIT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
async def test_a_fourth_is_refused_after_each_of_150_crashes_and_during_each_wait(
    seed: int, kind: type[Actor], autojump_clock: MockClock
) -> None:
    drawn = random.Random(seed)
    spec = supervisor(
        child(kind, id="t"),
        id="pool",
        strategy="dynamic",
        max_children=LIMIT,
        intensity=None,
        backoff=WAIT,
    )
    crashes = 0
    async with open_supervisor(spec) as tree:
        pool = tree.branch("pool")
        refs = await fill(pool)

        async def crashes_often(ref: Ref[Any]) -> None:
            nonlocal crashes
            for _ in range(50):
                await trio.sleep(drawn.random() * 3)
                life = ref.incarnation
                ref.tell("crash")
                await trio.testing.wait_all_tasks_blocked()
                crashes += 1
                assert await pool.start() == TooMany(LIMIT)
                await trio.sleep(drawn.random())
                assert await pool.start() == TooMany(LIMIT)
                assert (await pool.count_children()).workers == LIMIT
                assert await ref.ask("back") == "back"
                assert ref.incarnation == life + 1

        async with trio.open_nursery() as tasks:
            for ref in refs:
                tasks.start_soon(crashes_often, ref)
        assert crashes == 150, f"seed {seed}"
        await is_full(pool, active=3)
        # One deliberate stop makes room for exactly one.
        assert await pool.terminate_child(refs[1]) == Done()
        assert isinstance(await pool.start(id="fourth"), Started)
        await is_full(pool, active=3)


@pytest.mark.parametrize("way", ["by ref", "by id", "stop", "kill", "leave", "crash"])
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
async def test_exactly_those_that_do_not_come_back_make_room(
    restart: Any, way: str, autojump_clock: MockClock
) -> None:
    async with open_supervisor(
        child(Works, id="t", restart=restart),
        strategy="dynamic",
        max_children=LIMIT,
        intensity=None,
        backoff=WAIT,
    ) as pool:
        ref = (await fill(pool))[1]
        match way:
            case "by ref":
                await pool.terminate_child(ref)
            case "by id":
                await pool.terminate_child("1")
            case "stop":
                await ref.stop()
            case "kill":
                ref.kill()
            case _:
                ref.tell(way)
        await trio.testing.wait_all_tasks_blocked()
        is_normal = way in ("stop", "leave")
        comes_back = not way.startswith("by") and (
            restart == "permanent" or (restart == "transient" and not is_normal)
        )
        if not comes_back:
            assert (await pool.count_children()).workers == 2
            assert isinstance(await pool.start(), Started)
        else:
            await is_full(pool, active=2)
            await trio.sleep(1)
        await is_full(pool, active=3)


@pytest.mark.parametrize("how", ["making fails", "start fails", "nothing to run"])
async def test_a_start_that_comes_to_nothing_takes_no_room(
    how: str, autojump_clock: MockClock
) -> None:
    async with open_supervisor(
        child(Works, id="t"), strategy="dynamic", max_children=LIMIT
    ) as pool:
        for _ in range(10):
            assert isinstance(await pool.start(how), StartError | Ignored)
        await fill(pool)
        await is_full(pool, active=3)


async def test_who_is_starting_has_its_place_already(autojump_clock: MockClock) -> None:
    async with open_supervisor(
        child(Works, id="t", start_timeout=10.0), strategy="dynamic", max_children=LIMIT
    ) as pool:
        await fill(pool, 2)
        answers: list[Any] = []

        async def start(*args: str) -> None:
            answers.append(await pool.start(*args))

        async with trio.open_nursery() as tasks:
            tasks.start_soon(start, "hangs")
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):  # they wait until it is known what becomes of the first
                tasks.start_soon(start)
        assert sorted(type(each).__name__ for each in answers) == [
            "StartError",
            "Started",
            "TooMany",
            "TooMany",
        ]
        await is_full(pool, active=3)


async def test_a_burst_of_starts_lets_in_exactly_as_many_as_there_is_room_for(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(
        child(Works, id="t"), strategy="dynamic", max_children=LIMIT
    ) as pool:
        answers: list[Any] = []

        async def start() -> None:
            answers.append(await pool.start())

        async with trio.open_nursery() as tasks:
            for _ in range(20):
                tasks.start_soon(start)
        assert sum(isinstance(each, Started) for each in answers) == LIMIT
        assert answers.count(TooMany(LIMIT)) == 17


async def test_a_pool_that_was_restarted_is_empty_and_has_room_for_as_many(
    autojump_clock: MockClock,
) -> None:
    spec = supervisor(
        child(Works, id="t"), id="pool", strategy="dynamic", max_children=LIMIT, intensity=0
    )
    async with open_supervisor(spec) as tree:
        for life in range(1, 4):
            pool = tree.branch("pool")
            assert pool.ref.incarnation == life
            refs = await fill(pool)
            await is_full(pool, active=3)
            refs[0].tell("crash")  # which is one too many
            await trio.testing.wait_all_tasks_blocked()


async def test_each_partition_counts_its_own(autojump_clock: MockClock) -> None:
    spec = partitions(
        child(Works, id="t"), count=2, id="many", max_children=LIMIT, intensity=None, backoff=WAIT
    )
    async with open_supervisor(spec) as tree:
        many = tree.partitions("many")
        one, other = (many.partition(key) for key in ("a", next(_other(many, "a"))))
        await fill(one)
        await is_full(one, active=3)
        for ref in await fill(other):
            ref.tell("crash")
        await trio.testing.wait_all_tasks_blocked()
        await is_full(other, active=0)
        await is_full(one, active=3)


def _other(many: Any, key: str) -> Any:
    """Keys that belong to another partition than `key`."""
    return (k for k in "bcdefgh" if many.partition(k).ref is not many.partition(key).ref)


async def test_a_limit_of_none_at_all_lets_nobody_in(autojump_clock: MockClock) -> None:
    async with open_supervisor(child(Works, id="t"), strategy="dynamic", max_children=0) as pool:
        assert await pool.start() == TooMany(0)
        assert await pool.count_children() == Counts(1, 0, 0, 0)
