# ruff: noqa: PT012 - what raises here is leaving a block, so the block is the statement
"""Case C10 and its kind: the limit of restarts holds, to the tenth of a second.

Two restarts are allowed within 5 s.  Whatever ends a life counts, a start that
fails as well; the window is inclusive, so a restart exactly 5 s old counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby.testing import PumpSeam
from standby_actors import (
    Actor,
    Crashed,
    Event,
    ExitReason,
    Normal,
    Ref,
    Request,
    Shutdown,
    StartTimeout,
)
from standby_supervision import (
    Backoff,
    GaveUp,
    StartError,
    StartFailed,
    SupervisorSpec,
    child,
    open_supervisor,
    supervisor,
)
from tests.support.heard import heard
from tests.support.schedule import seeded

LIMITS: dict[str, Any] = {"intensity": 2, "period": 5.0}
STRATEGIES = ["one_for_one", "rest_for_one", "one_for_all", "dynamic"]


class Broken(Exception):
    """How a child ends."""


class NotToday(Exception):
    """What a start fails with."""


@define(eq=False)
class World:
    """What the children of one test share."""

    starts: list[str] = field(factory=list)
    """Names, in the order in which their starts began."""
    ends: list[str] = field(factory=list)
    """Names, in the order in which they were stopped; not those that crashed."""
    broken: set[str] = field(factory=set)
    """Whose starts fail."""


class End(Request[None], frozen=True):
    """End your life in that way."""

    way: str


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Report nothing of the many crashes here: to render their traces takes most of the time."""
    caplog.set_level("CRITICAL", logger="standby")


class Hookless(Actor):
    """Ends as it is told.  Without a start hook, its new life begins on the spot."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.has_failed = False

    def receive(self, message: Any) -> Any:
        if isinstance(message, End):
            return self.end(message.way)
        return message

    def end(self, way: str) -> None:
        self.has_failed = True
        if way == "crash":
            raise Broken(self.name)
        if way == "leave":
            self.stop()
        if way == "be killed":
            self.ref.kill()

    def on_stop(self, reason: ExitReason) -> None:
        if not self.has_failed:
            self.world.ends.append(self.name)


class Works(Hookless):
    """The same with a start hook, that fails for some."""

    def on_start(self) -> None:
        self.world.starts.append(self.name)
        if self.name in self.world.broken:
            raise NotToday(self.name)


class WorksAwaiting(Works):
    """The same in a coroutine."""

    async def receive(self, message: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return super().receive(message)


class WorksOnItsTask(WorksAwaiting):
    """The same on a task of its own."""

    dedicated = True


WORKS = [Works, WorksAwaiting, WorksOnItsTask]
WAYS = ["crash", "leave", "be killed"]


def each_pair(kinds: Sequence[type[Hookless]]) -> list[Any]:
    """Each strategy with each kind, and each way to end with some; the rest is deep."""
    return [
        pytest.param(
            strategy, kind, way, marks=[] if (row + column + number) % 3 == 0 else pytest.mark.deep
        )
        for row, strategy in enumerate(STRATEGIES)
        for column, kind in enumerate(kinds)
        for number, way in enumerate(WAYS)
    ]


async def end_at(ref: Ref[Any], way: str, *moments: float) -> None:
    """End a life of `ref` at each of the moments."""
    for at in moments:
        await trio.sleep_until(at)
        ref.tell(End(way))
        await trio.testing.wait_all_tasks_blocked()


def three(world: World, kind: type[Hookless], strategy: str) -> list[Any]:
    """Three children; of a template there is only the one."""
    if strategy == "dynamic":
        return [child(kind, world, id="t")]
    return [child(kind, world, name, id=name) for name in ("a", "b", "c")]


async def start_all(tree: Any, strategy: str) -> Ref[Any]:
    """Have all three run; returns the one in the middle."""
    if strategy == "dynamic":
        for name in ("a", "b", "c"):
            await tree.start(name, id=name)
    ref: Ref[Any] = tree["b"]
    return ref


def order_of_ends(events: list[Event]) -> list[str]:
    """Who ended, last of all, and in which order."""
    ended = [each.actor.rpartition("/")[2] for each in events if each.type == "actor.stopped"]
    assert ended.pop() == "supervisor"  # the block
    return ended[-4:]


@pytest.mark.parametrize(("strategy", "kind", "way"), each_pair(WORKS))
async def test_a_third_end_at_4_9_gives_up_then_children_in_reverse_and_last_itself(
    strategy: Any, kind: type[Hookless], way: str, autojump_clock: MockClock
) -> None:
    world = World()
    with pytest.raises(GaveUp, match=r"child b: 3 restarts within 5 s, 2 allowed") as caught:
        async with (
            heard() as events,
            open_supervisor(*three(world, kind, strategy), strategy=strategy, **LIMITS) as tree,
        ):
            ref = await start_all(tree, strategy)
            await end_at(ref, way, 0.0, 2.5)
            assert ref.is_alive
            world.ends.clear()
            await end_at(ref, way, 4.9)
            await trio.sleep_forever()
    assert trio.current_time() == 4.9
    assert sorted(world.ends) == ["a", "c"]
    if strategy == "dynamic":  # they are stopped all at once
        assert order_of_ends(events)[-1] == "top"
    else:
        assert world.ends == ["c", "a"]
        assert order_of_ends(events) == ["b", "c", "a", "top"]
    causes = caught.value.exceptions
    assert [type(each) for each in causes] == (
        [Broken] * 3 if way == "crash" else [type(causes[0])]
    )


@pytest.mark.parametrize(("strategy", "kind", "way"), each_pair([*WORKS, Hookless]))
async def test_a_third_end_at_5_1_is_survived(
    strategy: Any, kind: type[Hookless], way: str, autojump_clock: MockClock
) -> None:
    world = World()
    async with open_supervisor(*three(world, kind, strategy), strategy=strategy, **LIMITS) as tree:
        ref = await start_all(tree, strategy)
        await end_at(ref, way, 0.0, 2.5, 5.1)
        assert await ref.ask("here") == "here"
        assert ref.incarnation == 4
        # The window slides: those of 2.5 and 5.1 count, so the next one is too many.
        assert tree.ref.is_alive
        await end_at(ref, way, 7.6)
        assert ref.incarnation == 5


@pytest.mark.parametrize("kind", WORKS)
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_after_a_crash_starts_that_fail_count_and_end_in_giving_up(
    strategy: Any, kind: type[Hookless], autojump_clock: MockClock
) -> None:
    world = World()
    with pytest.raises(GaveUp, match=r"child b: 3 restarts within 5 s, 2 allowed") as caught:
        async with open_supervisor(
            *three(world, kind, strategy), strategy=strategy, **LIMITS
        ) as tree:
            ref = await start_all(tree, strategy)
            world.starts.clear()
            world.broken.add("b")
            ref.tell(End("crash"))
            await trio.sleep_forever()
    assert world.starts.count("b") == 2  # the third is one too many, and is not tried
    assert [type(each) for each in caught.value.exceptions] == [Broken, NotToday, NotToday]
    assert trio.current_time() == 0


class HooklessFailsInMaking(Hookless):
    """Fails before it could have a start hook to fail in."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        world.starts.append(name)
        if name in world.broken:
            raise NotToday(name)


class FailsInMaking(HooklessFailsInMaking):
    """The same, though it has a start hook."""

    def on_start(self) -> None:
        pass


class HangsInStarting(Hookless):
    """Does not fail to start, but takes for ever."""

    start_timeout = 1.0

    async def on_start(self) -> None:
        self.world.starts.append(self.name)
        if self.name in self.world.broken:
            await trio.sleep_forever()


@pytest.mark.parametrize("kind", [FailsInMaking, HooklessFailsInMaking])
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_constructor_that_fails_counts_as_a_start_that_fails(
    strategy: Any, kind: type[Hookless], autojump_clock: MockClock
) -> None:
    await test_after_a_crash_starts_that_fail_count_and_end_in_giving_up(
        strategy, kind, autojump_clock
    )


async def times_out_again_and_again(world: World, seconds: float) -> None:
    """A child whose starts take too long, from its first crash on, for 30 s."""
    spec = child(HangsInStarting, world, "b", id="b", start_timeout=seconds)
    async with open_supervisor(spec, **LIMITS) as tree:
        world.broken.add("b")
        tree["b"].tell(End("crash"))
        await trio.sleep(30)
        world.broken.clear()
        assert await tree["b"].ask("back") == "back"


async def test_a_start_that_times_out_counts_as_one_that_fails(autojump_clock: MockClock) -> None:
    world = World()
    with pytest.raises(GaveUp, match="child b: 3 restarts within 5 s, 2 allowed") as caught:
        await times_out_again_and_again(world, 2.0)
    # The attempts began at 0 and 2 s, and the third was not to begin at 4 s.
    assert trio.current_time() == 4.0
    assert [type(each) for each in caught.value.exceptions] == [Broken, StartTimeout, StartTimeout]


async def test_starts_that_time_out_further_apart_than_the_window_are_tried_for_ever(
    autojump_clock: MockClock,
) -> None:
    world = World()
    await times_out_again_and_again(world, 2.6)
    assert world.starts.count("b") == 1 + 12 + 1  # 12 fail, at 0, 2.6 ... 28.6 s


@pytest.mark.parametrize("kind", [*WORKS, FailsInMaking])
@pytest.mark.parametrize("strategy", ["one_for_one", "rest_for_one", "one_for_all"])
async def test_a_first_start_that_fails_is_the_failure_of_the_supervisors_start(
    strategy: Any, kind: type[Hookless], autojump_clock: MockClock
) -> None:
    world = World(broken={"b"})
    with pytest.raises(StartFailed, match="could not start its child b: NotToday: b") as caught:
        async with open_supervisor(*three(world, kind, strategy), strategy=strategy, **LIMITS):
            raise AssertionError("it was entered")
    assert caught.value.child == "b"
    assert isinstance(caught.value.__cause__, NotToday)
    assert (world.starts, world.ends) == (["a", "b"], ["a"])  # once, and back again


async def test_a_first_start_that_fails_three_levels_down_names_all_three(
    autojump_clock: MockClock,
) -> None:
    world = World(broken={"b"})
    inner = supervisor(*three(world, Works, ""), id="inner", **LIMITS)
    outer = supervisor(inner, id="outer", **LIMITS)
    with pytest.raises(StartFailed) as caught:
        async with open_supervisor(outer, **LIMITS):
            raise AssertionError("it was entered")
    names: list[str] = []
    error: BaseException | None = caught.value
    while isinstance(error, StartFailed):
        names.append(error.child)
        error = error.__cause__
    assert names == ["outer", "inner", "b"]
    assert isinstance(error, NotToday)
    assert world.starts == ["a", "b"]


@pytest.mark.parametrize("strategy", ["one_for_one", "dynamic"])
def test_a_third_end_at_exactly_5_seconds_counts_on_each_of_100_runs(strategy: Any) -> None:
    async def run(kind: type[Hookless], began: float) -> float:
        with contextlib.suppress(GaveUp):
            async with open_supervisor(
                *three(World(), kind, strategy), strategy=strategy, **LIMITS
            ) as tree:
                ref = await start_all(tree, strategy)
                await end_at(ref, "crash", began, began + 2.5, began + 5.0)
                await trio.sleep(1)
        return trio.current_time() - began

    for seed in range(100):
        kind = (*WORKS, Hookless)[seed % 4]
        began = seed % 7 * 0.25  # it is no matter when the window begins
        with seeded(seed), PumpSeam(seed).installed():
            gave_up_at = trio.run(run, kind, began, clock=MockClock(autojump_threshold=0))
        assert gave_up_at == 5.0, f"seed {seed}"


async def test_three_children_that_crash_at_once_count_three(autojump_clock: MockClock) -> None:
    world = World()
    with pytest.raises(GaveUp, match="3 restarts within 5 s, 2 allowed"):
        async with open_supervisor(*three(world, Works, ""), **LIMITS) as tree:
            for name in ("a", "b", "c"):
                tree[name].tell(End("crash"))
            await trio.sleep_forever()


@pytest.mark.parametrize("restart", ["transient", "temporary"])
async def test_ends_that_are_followed_by_no_restart_do_not_count(
    restart: Any, autojump_clock: MockClock
) -> None:
    world = World()
    async with open_supervisor(**LIMITS) as tree:
        for number in range(20):
            name = str(number)
            await tree.start_child(child(Works, world, name, id=name, restart=restart))
            tree[name].tell(End("leave" if restart == "transient" else "crash"))
            await trio.testing.wait_all_tasks_blocked()
        assert tree.ref.is_alive


async def test_what_is_asked_for_by_administration_does_not_count(
    autojump_clock: MockClock,
) -> None:
    world = World()
    async with open_supervisor(*three(world, Works, ""), **LIMITS) as tree:
        for _ in range(20):
            await tree.terminate_child("b")
            await tree.restart_child("b")
        world.broken.add("b")
        await tree.terminate_child("b")
        for _ in range(20):
            assert isinstance(await tree.restart_child("b"), StartError)
        assert tree.ref.is_alive


async def test_a_restart_of_all_counts_once_however_many_they_are(
    autojump_clock: MockClock,
) -> None:
    world = World()
    many = [child(Works, world, str(number), id=str(number)) for number in range(50)]
    async with open_supervisor(*many, strategy="one_for_all", **LIMITS) as tree:
        await end_at(tree["25"], "crash", 0.0, 1.0)
        assert await tree["49"].ask("here") == "here"
        assert tree["49"].incarnation == 3


async def test_a_backoff_does_not_save_who_crashes_too_often(autojump_clock: MockClock) -> None:
    world = World(broken={"b"})
    with pytest.raises(GaveUp, match="3 restarts within 5 s, 2 allowed"):
        async with open_supervisor(
            backoff=Backoff(1.0, factor=1.0, jitter=0.0, cap=1.0), **LIMITS
        ) as tree:
            world.broken.clear()
            await tree.start_child(child(Works, world, "b", id="b"))
            world.broken.add("b")
            tree["b"].tell(End("crash"))
            await trio.sleep_forever()
    assert trio.current_time() == 3.0  # counted at 0, and with the attempts at 2 and 3


async def test_the_windows_of_two_supervisors_are_their_own(autojump_clock: MockClock) -> None:
    world = World()
    one, two = (
        supervisor(child(Works, world, name, id=name), id=f"sup-{name}", **LIMITS)
        for name in ("a", "b")
    )
    async with open_supervisor(one, two, intensity=0) as tree:
        for _ in range(2):
            for name in ("a", "b"):
                tree.branch(f"sup-{name}")[name].tell(End("crash"))
                await trio.testing.wait_all_tasks_blocked()
        assert (tree["sup-a"].incarnation, tree["sup-b"].incarnation) == (1, 1)


async def test_a_supervisor_that_was_restarted_counts_from_nothing(
    autojump_clock: MockClock,
) -> None:
    world = World()
    below = supervisor(child(Works, world, "b", id="b"), id="below", **LIMITS)
    async with open_supervisor(below, intensity=1, period=5.0) as tree:
        for _ in range(5):
            tree.branch("below")["b"].tell(End("crash"))
            await trio.testing.wait_all_tasks_blocked()
        assert tree["below"].incarnation == 2
        assert await tree.branch("below")["b"].ask("here") == "here"


async def test_a_nested_supervisor_that_gives_up_says_why_to_the_one_above(
    autojump_clock: MockClock,
) -> None:
    world = World()
    below = supervisor(child(Works, world, "b", id="b"), id="below", restart="temporary", **LIMITS)
    async with open_supervisor(below) as tree:
        ref = tree["below"]
        for _ in range(3):
            tree.branch("below")["b"].tell(End("crash"))
            await trio.testing.wait_all_tasks_blocked()
        assert await ref.join() == Shutdown("gave up: child b: 3 restarts within 5 s, 2 allowed")


async def test_new_limits_hold_from_the_next_crash_on(autojump_clock: MockClock) -> None:
    world = World()
    spec = child(Works, world, "b", id="b")
    with pytest.raises(GaveUp, match="2 restarts within 5 s, 0 allowed"):
        async with open_supervisor(spec, **LIMITS) as tree:
            await end_at(tree["b"], "crash", 0.0)
            await tree.update_specs(SupervisorSpec((spec,), intensity=0, period=5.0))
            await end_at(tree["b"], "crash", 1.0)
            await trio.sleep_forever()


async def test_how_a_crashed_child_ended_is_known_to_the_end(autojump_clock: MockClock) -> None:
    world = World()
    async with open_supervisor(
        child(Works, world, "b", id="b", restart="temporary"),
        child(Works, world, "a", id="a", restart="temporary"),
    ) as tree:
        a, b = tree["a"], tree["b"]
        a.tell(End("leave"))
        b.tell(End("crash"))
        assert await a.join() == Normal()
        assert isinstance(reason := await b.join(), Crashed)
        assert str(reason.error) == "b"
