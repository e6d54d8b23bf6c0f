"""Case C17 and its kind: what becomes of one child is nobody else's business.

Five children under one supervisor.  Whatever one of them does, asked to or not,
the others keep the lives that they have, and the supervisor its own.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby_actors import Actor, ActorCrashed, Crashed, ExitReason, Ref, Request, open_nursery
from standby_supervision import (
    Backoff,
    Branch,
    Done,
    Failed,
    GaveUp,
    Started,
    StartError,
    child,
    open_jobs,
    open_supervisor,
    supervisor,
)
from tests.support.heard import heard

FIVE = ["1", "2", "3", "4", "5"]
ALONE = ["one_for_one", "dynamic"]
"""Strategies under which the restart of one concerns nobody else."""


class Unspeakable(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """Takes no notes."""

    code: int = 7


class Incomparable(Exception):
    """Is equal to nothing, not even to be asked."""

    __hash__ = None  # type: ignore[assignment]  # on purpose

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")


ERRORS: list[Exception] = [
    ConnectionResetError("usual"),
    Unspeakable(),
    Frozen(),
    Incomparable(),
    ExceptionGroup("several", [ValueError("a"), Unspeakable()]),
]


@define(eq=False)
class World:
    """What the five share."""

    making: list[BaseException] = field(factory=list)
    """What the next constructors raise, first come first served."""
    starting: list[BaseException] = field(factory=list)
    """The same of start hooks."""
    starts: list[str] = field(factory=list)


class Do(Request[Any], frozen=True):
    """Crash with that error, leave, or answer."""

    what: Any


class Plain(Actor):
    """One of the five; without a start hook, its new life begins on the spot."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        if world.making:
            raise world.making.pop(0)

    def receive(self, message: Do) -> Any:
        match message.what:
            case BaseException() as error:
                raise error
            case "leave":
                return self.stop()
            case answer:
                return answer


class Hooked(Plain):
    """The same with hooks and coroutines."""

    async def on_start(self) -> None:
        await trio.lowlevel.checkpoint()
        self.world.starts.append(self.name)
        if self.world.starting:
            raise self.world.starting.pop(0)

    async def receive(self, message: Do) -> Any:
        await trio.lowlevel.checkpoint()
        return super().receive(message)

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.lowlevel.checkpoint()


class OnItsTask(Hooked):
    """The same on a task of its own."""

    dedicated = True


KINDS = [Plain, Hooked, OnItsTask]


async def five(tree: Branch, kind: type[Plain], world: World, **options: Any) -> None:
    """Start the five, one after another."""
    for name in FIVE:
        if tree.ref.path.endswith("dynamic"):
            await tree.get_or_start(name, name)
        else:
            await tree.start_child(child(kind, world, name, id=name, **options))


def spec_of(kind: type[Plain], world: World, strategy: Any, **options: Any) -> Any:
    """A supervisor for the five, named after its strategy."""
    template = [child(kind, world, id="t")] if strategy == "dynamic" else []
    return supervisor(*template, id=strategy, strategy=strategy, **options)


async def lives(tree: Branch) -> dict[str, int]:
    """Which of the five answer, and in which of their lives."""
    found: dict[str, int] = {}
    for name in FIVE:
        ref = tree.find(name)
        if ref is not None:
            assert await ref.ask(Do("here")) == "here"
            found[name] = ref.incarnation
    return found


def all_but(name: str, life: int | None) -> dict[str, int]:
    """All in their first lives, but `name`."""
    found = dict.fromkeys(FIVE, 1)
    del found[name]
    return found if life is None else found | {name: life}


# ---- (a) stopped on purpose


@pytest.mark.parametrize("way", ["administration", "delete", "leave"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["one_for_one", "rest_for_one", "one_for_all", "dynamic"])
async def test_a_child_that_is_stopped_on_purpose_concerns_nobody_else(
    strategy: Any, kind: type[Plain], way: str, autojump_clock: MockClock
) -> None:
    world = World()
    async with open_supervisor(spec_of(kind, world, strategy, intensity=0)) as top:
        tree = top.branch(strategy)
        await five(tree, kind, world, restart="transient")
        if way == "leave" and strategy != "dynamic":
            await tree["2"].ask(Do("leave"))
        else:
            assert await tree.terminate_child("2") == Done()
        if way == "delete" and strategy != "dynamic":
            assert await tree.delete_child("2") == Done()
        await trio.sleep(10)
        assert await lives(tree) == all_but("2", None)
        assert top[strategy].incarnation == 1


# ---- (b) crashed once


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("strategy", "kind"), [("one_for_one", Plain), ("dynamic", Hooked), ("one_for_one", OnItsTask)]
)
async def test_a_child_that_crashes_with_whatever_error_has_a_new_life_and_the_others_theirs(
    strategy: Any, kind: type[Plain], error: Exception, autojump_clock: MockClock
) -> None:
    world = World()
    async with (
        heard() as events,
        open_supervisor(spec_of(kind, world, strategy, intensity=1)) as top,
    ):
        tree = top.branch(strategy)
        await five(tree, kind, world)
        with pytest.raises(ActorCrashed) as caught:
            await tree["3"].ask(Do(error))
        assert type(error).__name__ in str(caught.value)
        assert await lives(tree) == all_but("3", 2)
        (info,) = (each for each in await tree.which_children() if each.id == "3")
        assert type(error).__name__ in info.last_reason
        assert top[strategy].incarnation == 1
    crashes = [each.data["error"] for each in events if each.type == "actor.crashed"]
    assert len(crashes) == 1
    assert crashes[0].startswith(type(error).__name__)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_the_error_it_is_what_a_plain_block_raises(
    kind: type[Plain], error: Exception, autojump_clock: MockClock
) -> None:
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - leaving the block raises
        async with open_nursery() as nursery:
            nursery.spawn(kind, World(), "1").tell(Do(error))
            await trio.sleep_forever()
    assert [each is error for each in caught.value.exceptions] == [True]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_whatever_the_error_it_is_how_a_job_failed(
    error: Exception, autojump_clock: MockClock
) -> None:
    async def fails() -> None:
        raise error

    async with heard() as events, open_jobs() as jobs:
        outcome = await jobs.run(fails)
        assert isinstance(outcome, Failed)
        assert outcome.error is error
        assert (await jobs.run(trio.sleep, 0)).attempts == 1
    reasons = [each.data["reason"] for each in events if each.type == "job.ended"]
    assert reasons[0].startswith(type(error).__name__)


@pytest.mark.parametrize("strategy", ["rest_for_one", "one_for_all"])
async def test_where_a_strategy_takes_others_along_it_takes_exactly_those(
    strategy: Any, autojump_clock: MockClock
) -> None:
    world = World()
    async with open_supervisor(spec_of(Hooked, world, strategy, intensity=1)) as top:
        tree = top.branch(strategy)
        await five(tree, Hooked, world)
        with pytest.raises(ActorCrashed):
            await tree["3"].ask(Do(OSError()))
        await trio.testing.wait_all_tasks_blocked()  # until the others are stopped as well
        first = 1 if strategy == "rest_for_one" else 2
        assert await lives(tree) == {"1": first, "2": first, "3": 2, "4": 2, "5": 2}


async def test_a_link_between_two_children_takes_the_other_along_and_nobody_else(
    autojump_clock: MockClock,
) -> None:
    class Linked(Hooked):
        """Links itself to whom it is told of."""

        async def receive(self, message: Any) -> Any:
            if isinstance(message, Ref):
                return self.link(message)
            return await super().receive(message)

    world = World()
    async with open_supervisor(spec_of(Linked, world, "one_for_one", intensity=2)) as top:
        tree = top.branch("one_for_one")
        await five(tree, Linked, world)
        await tree["2"].ask(tree["3"])
        with pytest.raises(ActorCrashed):
            await tree["3"].ask(Do(OSError()))
        assert await lives(tree) == {"1": 1, "2": 2, "3": 2, "4": 1, "5": 1}


# ---- (c) each crashes once: whose budget is it


async def crash_each(branches: dict[str, Branch]) -> int:
    """Crash the five, one after another within the period; how many could be told to."""
    told = 0
    for name in FIVE:
        with pytest.raises(ActorCrashed):
            await branches[name][name].ask(Do(OSError(name)))
        told += 1
        await trio.sleep(0.5)
    return told


@pytest.mark.parametrize("kind", KINDS)
async def test_with_a_budget_for_each_child_all_five_are_restarted(
    kind: type[Plain], autojump_clock: MockClock
) -> None:
    # A budget of one's own is a supervisor of one's own.
    world = World()
    specs = [
        supervisor(child(kind, world, name, id=name), id=f"of {name}", intensity=3, period=5.0)
        for name in FIVE
    ]
    async with open_supervisor(*specs, intensity=0) as tree:
        branches = {name: tree.branch(f"of {name}") for name in FIVE}
        assert await crash_each(branches) == 5
        for name, branch in branches.items():
            assert branch[name].incarnation == 2
            assert branch.ref.incarnation == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_with_one_budget_for_all_which_is_the_default_the_fourth_is_too_many(
    kind: type[Plain], autojump_clock: MockClock
) -> None:
    world = World()
    with pytest.raises(GaveUp, match="child 4: 4 restarts within 5 s, 3 allowed") as caught:
        async with open_supervisor(*[child(kind, world, n, id=n) for n in FIVE]) as tree:
            await crash_each(dict.fromkeys(FIVE, tree))
    assert [str(each) for each in caught.value.exceptions] == FIVE[:4]


# ---- (d) the restart itself fails, in the supervisor's own steps


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("strategy", "kind", "where"),
    [
        ("one_for_one", Plain, "making"),
        ("dynamic", Plain, "making"),
        ("one_for_one", Hooked, "starting"),
        ("dynamic", OnItsTask, "starting"),
    ],
)
async def test_a_restart_that_raises_counts_as_a_start_that_failed(
    strategy: Any, kind: type[Plain], where: str, error: Exception, autojump_clock: MockClock
) -> None:
    world = World()
    spec = spec_of(kind, world, strategy, intensity=3, period=5.0)
    async with heard() as events, open_supervisor(spec) as top:
        tree = top.branch(strategy)
        await five(tree, kind, world)
        getattr(world, where).extend([error, error])
        with pytest.raises(ActorCrashed):
            await tree["3"].ask(Do(OSError()))
        # A crash and two starts that failed: three, and three are allowed.
        assert await lives(tree) == all_but("3", tree["3"].incarnation)
        assert top[strategy].incarnation == 1
    failed = [each.data["reason"] for each in events if each.type == "supervisor.start_error"]
    assert len(failed) == 2
    assert all(each.startswith(type(error).__name__) for each in failed)


@pytest.mark.parametrize("strategy", ALONE)
async def test_a_back_off_between_such_starts_leaves_the_others_served(
    strategy: Any, autojump_clock: MockClock
) -> None:
    world = World()
    backoff = Backoff(1.0, cap=8.0, jitter=0.0)
    spec = spec_of(Plain, world, strategy, intensity=None, backoff=backoff)
    async with open_supervisor(spec) as top:
        tree = top.branch(strategy)
        await five(tree, Plain, world)
        world.making.extend([Unspeakable()] * 3)
        with pytest.raises(ActorCrashed):
            await tree["3"].ask(Do(OSError()))
        for _ in range(14):
            assert await tree["1"].ask(Do("here")) == "here"
            await trio.sleep(1)
        assert not world.making
        assert await tree["3"].ask(Do("back")) == "back"
        assert trio.current_time() == 15  # 1 + 2 + 4 + 8


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize(
    ("strategy", "kind", "where"),
    [
        ("one_for_one", Plain, "making"),
        ("dynamic", Plain, "making"),
        ("one_for_one", Hooked, "starting"),
        ("dynamic", OnItsTask, "starting"),
    ],
)
async def test_what_ends_the_program_leaves_a_restart_bare(
    strategy: Any, kind: type[Plain], where: str, error: BaseException, autojump_clock: MockClock
) -> None:
    world = World()
    left: list[BaseException] = []
    try:
        async with open_supervisor(spec_of(kind, world, strategy)) as top:
            tree = top.branch(strategy)
            await five(tree, kind, world)
            getattr(world, where).append(error)
            tree["3"].tell(Do(OSError()))
            await trio.sleep_forever()
    except BaseException as raised:  # whatever it is, it is looked at
        left.append(raised)
    assert left == [error]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_start_that_is_asked_for_and_raises_is_an_answer(
    error: Exception, autojump_clock: MockClock
) -> None:
    world = World()
    async with open_supervisor(intensity=0) as tree:
        await five(tree, Hooked, world)
        for where in ("making", "starting"):
            getattr(world, where).append(error)
            answer = await tree.start_child(child(Hooked, world, "6", id="6"))
            assert isinstance(answer, StartError)
            assert answer.error is error
        assert isinstance(await tree.start_child(child(Hooked, world, "6", id="6")), Started)
        assert await lives(tree) == dict.fromkeys(FIVE, 1)


async def test_a_message_that_no_supervisor_knows_ends_no_supervisor(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    async with open_supervisor(intensity=0) as tree:
        await five(tree, Hooked, world)
        for message in ("hello", None, 7, Unspeakable()):
            tree.ref.tell(message)
        await trio.testing.wait_all_tasks_blocked()
        assert await lives(tree) == dict.fromkeys(FIVE, 1)
    assert caplog.text.count("ignored a message") == 4


async def test_a_killed_child_is_one_that_crashed(autojump_clock: MockClock) -> None:
    world = World()
    async with open_supervisor(intensity=1) as tree:
        await five(tree, Hooked, world)
        tree["3"].kill()
        await trio.testing.wait_all_tasks_blocked()
        assert await lives(tree) == all_but("3", 2)


async def test_how_the_unspeakable_ended_can_be_said(autojump_clock: MockClock) -> None:
    reason = Crashed(Unspeakable())
    assert str(reason) == "crashed (Unspeakable: (its own words failed: RuntimeError))"


@pytest.mark.parametrize("crashes", [1, 3])
@pytest.mark.parametrize("behind", [0, 1, 5])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_that_crashed_is_not_given_again_and_none_behind_it_is_lost(
    kind: type[Plain], behind: int, crashes: int, autojump_clock: MockClock
) -> None:
    given: list[Any] = []

    class Notes(kind):  # type: ignore[misc, valid-type]  # a class that a test is given
        """Notes what it is given."""

        def receive(self, message: Do) -> Any:
            given.append(message.what)
            return super().receive(message)

    if kind is not Plain:
        given_to = kind.receive

        async def receive(self: Any, message: Do) -> Any:
            given.append(message.what)
            await trio.sleep(0.01)  # on a task of its own by then
            return await given_to(self, message)

        setattr(Notes, "receive", receive)  # noqa: B010 - a checker would take it for a slip
    world = World()
    async with open_supervisor(child(Notes, world, "1", id="1"), intensity=9) as tree:
        wanted: list[Any] = []
        for number in range(crashes):
            error = OSError(number)
            tree["1"].tell(Do(error))
            for other in range(behind):
                tree["1"].tell(Do((number, other)))
            wanted += [error, *((number, other) for other in range(behind))]
        await trio.sleep(10)
        assert given == wanted
        assert tree["1"].incarnation == 1 + crashes
