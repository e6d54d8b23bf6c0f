"""Goal F1, on the side of supervision: whatever goes wrong, wherever, nothing is left.

After SQLite's "fail at point n".  A small tree with all that the user of a
supervisor writes - constructors, start hooks, handlers, stop hooks, jobs - runs
through a day of its life.  The n-th time that code of the user's is entered,
one fault happens there; n grows until there is no n-th time.  After each run
nothing is left (Z1, Z4, Z6), each life has had one start and one end (Z5), and
what was raised is what the fault was, or what a supervisor says of it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import pytest
import trio
from attrs import define
from trio.testing import MockClock

from standby.testing import PumpSeam, z_checks
from standby_actors import (
    Actor,
    ActorCrashed,
    ActorError,
    ActorStopped,
    Event,
    ExitReason,
    Ref,
)
from standby_supervision import (
    Backoff,
    Branch,
    GaveUp,
    Ignore,
    Started,
    StartFailed,
    child,
    open_jobs,
    open_supervisor,
    supervisor,
)
from tests.support.heard import heard
from tests.support.schedule import seeded


class Fault(Exception):
    """What goes wrong on purpose."""


class Silent(Fault):
    """The same, and it cannot say so."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def raises(actor: Any) -> None:
    raise Fault


def raises_silently(actor: Any) -> None:
    raise Silent


def raises_a_group(actor: Any) -> None:
    raise ExceptionGroup("faults", [Fault(), Fault()])


def ignores(actor: Any) -> None:
    raise Ignore


def stops_itself(actor: Any) -> None:
    if isinstance(actor, Actor) and hasattr(actor, "ref"):
        actor.stop()


def kills_itself(actor: Any) -> None:
    if isinstance(actor, Actor) and hasattr(actor, "ref"):
        actor.ref.kill()


def kills_its_supervisor(actor: Any) -> None:
    if isinstance(actor, Actor) and hasattr(actor, "ref"):
        ref: Any = actor.ref
        ref.parent.kill()


def stops_the_whole_tree(actor: Any) -> None:
    if isinstance(actor, Actor) and hasattr(actor, "ref"):
        cell: Any = actor.ref
        while cell.parent is not None and cell.parent.parent is not None:
            cell = cell.parent
        cell.stop()


def hangs(actor: Any) -> Any:
    return _hang()


async def _hang() -> None:
    await trio.sleep_forever()


def clings(actor: Any) -> Any:
    return _cling()


async def _cling() -> None:
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)


def cancels_a_stray_scope(actor: Any) -> Any:
    return _stray()


async def _stray() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await trio.sleep_forever()


FAULTS: list[Callable[[Any], Any]] = [
    raises,
    raises_silently,
    raises_a_group,
    ignores,
    stops_itself,
    kills_itself,
    kills_its_supervisor,
    stops_the_whole_tree,
    hangs,
    clings,
    cancels_a_stray_scope,
]


@define(eq=False)
class Points:
    """Counts the entries into the user's code, and has the fault happen at one of them."""

    at: int
    fault: Callable[[Any], Any]
    passed: int = 0

    @property
    def has_happened(self) -> bool:
        return self.passed >= self.at

    def enter(self, actor: Any) -> None:
        """Code that cannot wait is entered."""
        self.passed += 1
        if self.passed == self.at:
            wait = self.fault(actor)
            if wait is not None:
                wait.close()  # it cannot

    async def enter_waiting(self, actor: Any) -> None:
        """Code that can wait is entered."""
        self.passed += 1
        if self.passed == self.at:
            wait = self.fault(actor)
            if wait is not None:
                await wait


class Plain(Actor):
    """Has no coroutine."""

    shutdown = 1.0

    def __init__(self, points: Points, *_: object) -> None:
        self.points = points
        points.enter(self)

    def on_start(self) -> Any:
        self.points.enter(self)

    def receive(self, message: Any) -> Any:
        self.points.enter(self)
        return message

    def on_stop(self, reason: ExitReason) -> Any:
        self.points.enter(self)


class Waits(Actor):
    """Has nothing else, and a child of its own."""

    shutdown = 1.0
    start_timeout = 1.0

    def __init__(self, points: Points, *_: object) -> None:
        self.points = points
        points.enter(self)

    async def on_start(self) -> None:
        await self.points.enter_waiting(self)
        self.below: Ref[Any] = self.spawn(Plain, self.points)

    async def receive(self, message: Any) -> Any:
        await self.points.enter_waiting(self)
        return await self.below.ask(message, timeout=5)

    async def on_stop(self, reason: ExitReason) -> None:
        await self.points.enter_waiting(self)


class OnItsTask(Waits):
    """The same on a task of its own."""

    dedicated = True


async def a_day(points: Points) -> None:
    """All that supervisors do, once."""
    options: dict[str, Any] = {"intensity": 2, "period": 60.0}
    once: dict[str, Any] = {"start_timeout": 1.0, "shutdown": 1.0, "stalled_after": 4.0}
    flat = supervisor(
        child(Plain, points, id="a", name="a", **once),
        child(Waits, points, id="b", restart="transient", **once),
        child(OnItsTask, points, id="c", redeliver=1, **once),
        id="flat",
        strategy="rest_for_one",
        backoff=Backoff(0.5, jitter=0.0),
        **options,
    )
    many = supervisor(
        child(Waits, points, id="t", restart="temporary", **once),
        id="many",
        strategy="dynamic",
        max_children=2,
        **options,
    )
    async with (
        open_jobs(shutdown=5.0) as jobs,
        open_supervisor(flat, many, strategy="one_for_all", **options) as tree,
    ):
        jobs.start(points.enter_waiting, None, timeout=1.0, attempts=2)
        await asks(tree, "flat", "a", "b", "c")
        with contextlib.suppress(ActorError, KeyError, TypeError, LookupError):
            pool = tree.branch("many")
            first = await pool.start(1)
            await pool.start(2)
            if isinstance(first, Started):
                await first.ref.ask("turn", timeout=10)
                await pool.terminate_child(first.ref)
            await pool.count_children()
        with contextlib.suppress(ActorError, KeyError, TypeError):
            branch = tree.branch("flat")
            await branch.terminate_child("b")
            await branch.restart_child("b")
        with contextlib.suppress(ActorError, KeyError):
            await tree.terminate_child("many")
            await tree.restart_child("many")
        await asks(tree, "flat", "c")


async def asks(tree: Branch, branch: str, *keys: str) -> None:
    """Ask children; what fails is not the matter here."""
    for key in keys:
        with contextlib.suppress(ActorError, KeyError, TypeError):
            await tree.branch(branch)[key].ask("turn", timeout=20)


def only_what_may_be(error: BaseException) -> bool:
    """Whether an error is the fault itself, or what supervision says when it has had enough."""
    if isinstance(error, GaveUp):
        return True
    if isinstance(error, BaseExceptionGroup):
        return all(map(only_what_may_be, error.exceptions))
    return isinstance(error, Fault | Ignore | StartFailed | ActorStopped | ActorCrashed)


@contextlib.contextmanager
def expected(where: str) -> Generator[None]:
    """Let only such errors out as may be; name the run otherwise."""
    try:
        yield
    except BaseException as error:
        if not only_what_may_be(error):
            raise AssertionError(f"{where}: {error!r}") from error


def lives(events: list[Event]) -> tuple[Counter[str], Counter[str]]:
    """Starts and ends, by path."""
    starts = Counter(each.actor for each in events if each.type == "actor.spawned")
    ends = Counter(each.actor for each in events if each.type == "actor.stopped")
    return starts, ends - Counter(["supervisor"])


def run_once(fault: Callable[[Any], Any], at: int, seed: int) -> bool:
    """Run the day with the fault at one point; whether there was such a point."""
    where = f"{fault.__name__} at point {at}, seed {seed}"
    points = Points(at, fault)
    events: list[Event] = []

    async def main() -> None:
        async with heard() as told:
            with expected(where):
                await a_day(points)
        events.extend(told)
        assert trio.current_time() < 120, where

    with z_checks(), seeded(seed), PumpSeam(seed).installed():
        trio.run(main, clock=MockClock(autojump_threshold=0))
    starts, ends = lives(events)
    assert starts == ends, where
    return points.has_happened


def sweep_fault(fault: Callable[[Any], Any], seed: int, step: int = 1) -> int:
    """One run for each point, or for each `step`-th; how many there were."""
    at = 1 + seed % step
    runs = 0
    while run_once(fault, at, seed):
        at += step
        runs += 1
    return runs


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_at_each_third_point_nothing_is_left_whatever_the_fault(
    fault: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    assert sweep_fault(fault, seed=FAULTS.index(fault), step=3) >= 8


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_at_each_point_nothing_is_left_whatever_the_fault(
    fault: Callable[[Any], Any], seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    assert sweep_fault(fault, seed) >= 24


def test_without_a_fault_the_day_has_that_many_points_and_ends_well() -> None:
    points = Points(10_000, raises)

    async def main() -> None:
        await a_day(points)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert points.passed >= 24
