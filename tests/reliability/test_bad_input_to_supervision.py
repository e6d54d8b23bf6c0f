"""What cannot be meant, and what misbehaves: a typed error that names the child and the rule.

Every row of the tables says what is done wrong, which type tells of it, and which
words must stand in it.  Nothing is left behind by any of them: the checks that run
after each test (Z1, Z4, Z6) see to that, and the neighbour here is served throughout.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define
from trio.testing import MockClock

from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    AskCycle,
    Crashed,
    ExitReason,
    Killed,
    Linked,
    NameTaken,
    Ref,
    Shutdown,
    StartTimeout,
    open_nursery,
)
from standby_supervision import (
    AlreadyPresent,
    AlreadyStarted,
    Backoff,
    BadSpec,
    Branch,
    ChildSpec,
    Done,
    NotFound,
    Refused,
    Restarting,
    Running,
    Started,
    StartError,
    StartFailed,
    SupervisorSpec,
    Tree,
    WrongStrategy,
    child,
    open_supervisor,
    supervisor,
)
from tests.support.heard import heard


class Echo(Actor):
    """A good child."""

    def receive(self, message: Any) -> Any:
        if message == "crash":
            raise ConnectionResetError
        return message


@asynccontextmanager
async def neighbourhood(*more: ChildSpec, **options: Any) -> AsyncGenerator[Tree]:
    """A supervisor with a good child, which has to be there, in its first life, at the end."""
    async with open_supervisor(child(Echo, id="neighbour"), *more, **options) as tree:
        yield tree
        assert await tree["neighbour"].ask("still here") == "still here"
        assert tree["neighbour"].incarnation == 1


# ---- specifications


def _supervisor_with(**options: Any) -> Callable[[], object]:
    return lambda: supervisor(child(Echo, id="c"), **options)


def _child_with(**options: Any) -> Callable[[], object]:
    return lambda: child(Echo, id="c", **options)


SPECS = [
    pytest.param(lambda: child(None, id="c"), "c", "missing_start", id="no start"),  # type: ignore[arg-type]  # on purpose
    pytest.param(lambda: child(7, id="c"), "c", "invalid_start", id="a number for a start"),  # type: ignore[arg-type]  # on purpose
    pytest.param(lambda: child([], id="c"), "c", "invalid_start", id="a start without a hash"),  # type: ignore[arg-type]  # on purpose
    pytest.param(lambda: child(Echo, id=""), "", "missing_id", id="an empty id"),
    pytest.param(_child_with(restart="sometimes"), "c", "invalid_restart_type", id="restart"),
    pytest.param(_child_with(shutdown=-1), "c", "invalid_shutdown", id="a negative shutdown"),
    pytest.param(_child_with(shutdown="soon"), "c", "invalid_shutdown", id="a word for seconds"),
    pytest.param(_child_with(shutdown=True), "c", "invalid_shutdown", id="a bool for seconds"),
    pytest.param(_child_with(shutdown=float("nan")), "c", "invalid_shutdown", id="nan for seconds"),
    pytest.param(_child_with(start_timeout=-1), "c", "invalid_start_timeout", id="start_timeout"),
    pytest.param(_child_with(significant="yes"), "c", "invalid_significant", id="significant"),
    pytest.param(
        _child_with(significant=True), "c", "bad_combination", id="permanent and significant"
    ),
    pytest.param(_child_with(when_down="shrug"), "c", "invalid_when_down", id="when_down"),
    pytest.param(_child_with(redeliver=-1), "c", "invalid_redeliver", id="redeliver"),
    pytest.param(_child_with(redeliver=1.5), "c", "invalid_redeliver", id="redeliver by halves"),
    pytest.param(_child_with(stalled_after=0), "c", "invalid_stalled_after", id="stalled_after"),
    pytest.param(_supervisor_with(strategy="any"), "supervisor", "invalid_strategy", id="strategy"),
    pytest.param(_supervisor_with(intensity=-1), "supervisor", "invalid_intensity", id="intensity"),
    pytest.param(
        _supervisor_with(intensity=None), "supervisor", "invalid_intensity", id="no back-off"
    ),
    pytest.param(_supervisor_with(period=0), "supervisor", "invalid_period", id="period"),
    pytest.param(
        lambda: Backoff(2.0, cap=1.0), "supervisor", "invalid_backoff", id="back-off over its cap"
    ),
    pytest.param(
        lambda: SupervisorSpec((child(Echo, id="c"), child(Echo, id="c"))),
        "c",
        "duplicate_child_name",
        id="two of one id",
    ),
    pytest.param(
        lambda: SupervisorSpec((Echo,)),  # type: ignore[arg-type]  # on purpose
        None,
        "invalid_child_spec",
        id="a class for a specification",
    ),
    pytest.param(
        lambda: SupervisorSpec((), strategy="dynamic"),
        "supervisor",
        "bad_start_spec",
        id="dynamic without a template",
    ),
]


@pytest.mark.parametrize(("make", "of", "rule"), SPECS)
def test_a_bad_specification_is_refused_by_name_and_rule_before_anything_starts(
    make: Callable[[], object], of: str | None, rule: str
) -> None:
    with pytest.raises(BadSpec) as caught:
        make()
    assert caught.value.rule == rule
    assert rule in str(caught.value)
    if of is not None:
        assert caught.value.actor == of


# ---- starts


class Hangs(Echo):
    """Starts for ever."""

    async def on_start(self) -> None:
        await trio.sleep_forever()


class HangsOnItsTask(Hangs):
    """The same on a task of its own."""

    dedicated = True


class GeneratorStart(Echo):
    """Its start hook has a yield in it, and so does nothing."""

    def on_start(self) -> Iterator[None]:
        yield


class AsyncGeneratorStart(Echo):
    """The same in a coroutine."""

    async def on_start(self) -> AsyncIterator[None]:
        yield


class GeneratorStartOnItsTask(GeneratorStart):
    """The same on a task of its own."""

    dedicated = True


class PromisesToStart(Echo):
    """Its start hook returns a promise to answer, and nobody has asked."""

    def on_start(self) -> Any:
        return self.reply_later()


class Fails(Echo):
    """Fails to start."""

    async def on_start(self) -> None:
        raise FileNotFoundError("config.toml")


class FailsToBeMade(Echo):
    """Has a constructor that fails."""

    def __init__(self) -> None:
        raise FileNotFoundError("config.toml")


class WantsMore(Echo):
    """Has a constructor that takes more than it is given, which the specification cannot see."""

    def __init__(self, *args: Any) -> None:
        (self.needed,) = args


class MakesNothing(Echo):
    """Makes None of itself."""

    def __new__(cls) -> Any:
        return None


class HasNoRoom:
    """Has no place for a ref."""

    __slots__ = ()

    def receive(self, message: Any) -> Any:
        return message


class AsksItself(Echo):
    """Waits, while it starts, for an answer of its own."""

    async def on_start(self) -> None:
        await self.ref.ask("anybody?")


class AsksItsSupervisor(Echo):
    """Waits, while it starts, for its supervisor, which waits for it."""

    async def on_start(self) -> None:
        cell: Any = self.ref
        await Branch(cell.parent).count_children()


STARTS = [
    pytest.param(Hangs, StartTimeout, ["/c", "longer than 2 s"], id="hangs"),
    pytest.param(HangsOnItsTask, StartTimeout, ["/c", "longer than 2 s"], id="hangs, dedicated"),
    pytest.param(
        GeneratorStart, TypeError, ["GeneratorStart.on_start", "generator"], id="is a generator"
    ),
    pytest.param(
        AsyncGeneratorStart, TypeError, ["on_start", "generator"], id="is an async generator"
    ),
    pytest.param(
        GeneratorStartOnItsTask, TypeError, ["on_start", "generator"], id="generator, dedicated"
    ),
    pytest.param(PromisesToStart, TypeError, ["on_start", "a promise"], id="returns a promise"),
    pytest.param(Fails, FileNotFoundError, ["config.toml"], id="fails"),
    pytest.param(FailsToBeMade, FileNotFoundError, ["config.toml"], id="cannot be made"),
    pytest.param(WantsMore, ValueError, ["not enough values"], id="wants more"),
    pytest.param(MakesNothing, TypeError, ["MakesNothing makes None", "ref"], id="makes nothing"),
    pytest.param(HasNoRoom, TypeError, ["HasNoRoom", "slots"], id="has no room for a ref"),
    pytest.param(AsksItself, AskCycle, ["/c -> ", "/c"], id="asks itself"),
    pytest.param(AsksItsSupervisor, AskCycle, ["/top", "/c"], id="asks its supervisor"),
]


@pytest.mark.parametrize(("kind", "error", "words"), STARTS)
async def test_a_start_that_comes_to_nothing_is_an_answer_with_its_cause(
    kind: Any, error: type[Exception], words: list[str], autojump_clock: MockClock
) -> None:
    async with neighbourhood() as tree:
        answer = await tree.start_child(child(kind, id="c", start_timeout=2.0, shutdown=1.0))
        assert isinstance(answer, StartError)
        assert isinstance(answer.error, error)
        for word in words:
            assert word in str(answer.error)
        assert trio.current_time() <= 2
        # Nothing of it was kept.
        assert tree.find("c") is None
        assert await tree.delete_child("c") == NotFound()


@pytest.mark.parametrize(("kind", "error", "words"), STARTS)
async def test_a_tree_with_a_start_that_comes_to_nothing_does_not_start_and_names_the_child(
    kind: Any, error: type[Exception], words: list[str], autojump_clock: MockClock
) -> None:
    with pytest.raises(StartFailed, match="could not start its child c: ") as caught:
        async with open_supervisor(child(kind, id="c", start_timeout=2.0, shutdown=1.0)):
            raise AssertionError("it was entered")
    assert (caught.value.child, caught.value.actor) == ("c", "supervisor/top")
    assert isinstance(caught.value.__cause__, error)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("kind", [FailsToBeMade, WantsMore, MakesNothing, HasNoRoom])
async def test_what_cannot_be_made_again_is_given_up_with_its_causes_and_leaves_no_name(
    kind: Any, named: bool, autojump_clock: MockClock
) -> None:
    is_good = True

    class Either(Echo):
        """Good in its first life; in the next it makes what is none."""

        def __new__(cls) -> Any:
            return super().__new__(cls) if is_good else kind()

    below = supervisor(
        child(Either, id="c", name="c" if named else None),
        id="below",
        intensity=1,
        period=60.0,
        restart="temporary",
    )
    async with open_nursery() as nursery, neighbourhood(below, names=nursery.names) as tree:
        ref = tree["below"]
        is_good = False
        tree.branch("below")["c"].tell("crash")
        reason = await ref.join()
        assert reason == Shutdown("gave up: child c: 2 restarts within 60 s, 1 allowed")
        assert nursery.names.names() == ()


# ---- stops


class FailsToStop(Echo):
    """Raises while it cleans up."""

    async def on_stop(self, reason: ExitReason) -> None:
        raise OSError("disk full")


class NeverStops(Echo):
    """Cleans up for ever."""

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep_forever()


class GeneratorStop(Echo):
    """Its stop hook has a yield in it, and so does nothing."""

    def on_stop(self, reason: ExitReason) -> Iterator[None]:
        yield


STOPS = [
    pytest.param(FailsToStop, "crashed (OSError: disk full)", 0, id="raises"),
    pytest.param(NeverStops, "killed (it did not stop within 2 s)", 2, id="never ends"),
    pytest.param(
        GeneratorStop,
        "crashed (TypeError: GeneratorStop.on_stop returned a generator, which does nothing "
        "by itself",
        0,
        id="is a generator",
    ),
]


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize(("kind", "reason", "seconds"), STOPS)
@pytest.mark.parametrize("way", ["terminated", "one of all", "left"])
async def test_a_stop_hook_that_misbehaves_is_reported_and_holds_up_nobody(
    way: str,
    kind: type[Echo],
    reason: str,
    seconds: float,
    dedicated: bool,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class This(kind):  # type: ignore[misc, valid-type]  # a class that a test is given
        """The same, on shared tasks or on its own."""

    This.__name__ = kind.__name__
    This.dedicated = dedicated
    async with heard() as events, neighbourhood() as tree:
        await tree.start_child(
            supervisor(
                child(This, id="c", shutdown=2.0), id="below", restart="temporary", intensity=0
            )
        )
        ref = tree.branch("below")["c"]
        if way == "terminated":
            assert await tree.branch("below").terminate_child("c") == Done()
        elif way == "one of all":
            assert await tree.terminate_child("below") == Done()
        if way != "left":
            assert trio.current_time() == seconds
            assert str(await ref.join()).startswith(reason)
    assert trio.current_time() == seconds
    assert str(await ref.join()).startswith(reason)
    (told,) = (each for each in events if each.type == "supervisor.shutdown_error")
    assert told.actor == "supervisor/top/below"
    assert told.data["child"] == "c"
    assert told.data["reason"].startswith(reason)
    assert "shutdown_error of child c" in caplog.text


# ---- names


async def test_a_name_that_is_taken_names_its_holder_and_starts_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        holder: Ref[Any] = nursery.spawn(Echo, name="n")
        with pytest.raises(StartFailed) as caught:
            async with open_supervisor(child(Echo, id="c", name="n"), names=nursery.names):
                raise AssertionError("it was entered")
        assert isinstance(caught.value.__cause__, NameTaken)
        assert "child c" in str(caught.value)
        assert "the name 'n' is taken by nursery/n" in str(caught.value)
        async with neighbourhood(names=nursery.names) as tree:
            answer = await tree.start_child(child(Echo, id="c", name="n"))
            assert answer == AlreadyStarted(holder)
            assert tree.find("c") is None
        assert nursery.whereis("n") is holder
        assert await holder.ask("here") == "here"


async def test_an_id_that_is_taken_says_by_whom_or_that_it_does_not_run(
    autojump_clock: MockClock,
) -> None:
    async with neighbourhood() as tree:
        spec = child(Echo, id="c")
        first = await tree.start_child(spec)
        assert isinstance(first, Started)
        assert await tree.start_child(spec) == AlreadyStarted(first.ref)
        await tree.terminate_child("c")
        assert await tree.start_child(spec) == AlreadyPresent()


# ---- cycles


class Member(Echo):
    """Links itself to whom it is told of, and asks whom it is told to ask."""

    async def receive(self, message: Any) -> Any:
        match message:
            case "link", other:
                return self.link(other)
            case "ask", [first, *others]:
                return await first.ask(("ask", others))
            case _:
                return super().receive(message)


async def ring(tree: Branch, size: int, **options: Any) -> list[Ref[Any]]:
    """Children, each linked to the next, and the last to the first."""
    refs: list[Ref[Any]] = []
    for number in range(size):
        answer = await tree.start_child(child(Member, id=f"m{number}", **options))
        assert isinstance(answer, Started)
        refs.append(answer.ref)
    for one, other in zip(refs, [*refs[1:], refs[0]], strict=True):
        await one.ask(("link", other))
    return refs


@pytest.mark.parametrize("size", [1, 2, 3, 50])
async def test_a_cycle_of_links_ends_each_once_and_each_says_through_whom(
    size: int, autojump_clock: MockClock
) -> None:
    async with heard() as events, neighbourhood() as tree:
        refs = await ring(tree, size, restart="temporary")
        refs[0].tell("crash")
        reasons = [await ref.join() for ref in refs]
        assert isinstance(reasons[0], Crashed)
        assert all(isinstance(each, Linked) for each in reasons[1:])
        assert all("m0" in str(each) for each in reasons[1:])
    ends = [each.actor for each in events if each.type == "actor.stopped" and "/m" in each.actor]
    assert sorted(ends) == sorted(ref.path for ref in refs)


async def test_a_cycle_of_links_between_children_that_come_back_ends_in_giving_up_by_the_count(
    autojump_clock: MockClock,
) -> None:
    async with neighbourhood(supervisor(id="below", intensity=5, restart="temporary")) as tree:
        below = tree.branch("below")
        refs = await ring(below, 3)
        refs[0].tell("crash")
        await trio.testing.wait_all_tasks_blocked()
        # A link is between two lives: the next ones are not linked.
        assert [ref.incarnation for ref in refs] == [2, 2, 2]
        refs[0].tell("crash")
        await trio.testing.wait_all_tasks_blocked()
        assert [ref.incarnation for ref in refs] == [3, 2, 2]


async def test_a_cycle_of_asks_through_children_is_refused_with_the_cycle_in_it(
    autojump_clock: MockClock,
) -> None:
    async with neighbourhood(*[child(Member, id=f"m{n}") for n in range(3)]) as tree:
        a, b, c = (tree[f"m{n}"] for n in range(3))
        with pytest.raises(ActorCrashed) as caught:
            await a.ask(("ask", [b, c, a, b]))
        error: BaseException | None = caught.value
        while isinstance(error, ActorCrashed):
            error = error.__cause__
        assert isinstance(error, AskCycle)
        for name in ("m0", "m1", "m2"):
            assert name in str(error)


# ---- a supervisor that is stopped while it restarts


@define
class Slow:
    """How the next starts go."""

    seconds: float = 0.0
    fails: bool = False


class StartsSlowly(Echo):
    """Takes its time to start, once it has been told to."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow

    async def on_start(self) -> None:
        await trio.sleep(self.slow.seconds)
        if self.slow.fails:
            raise FileNotFoundError("config.toml")


async def by_stop(tree: Branch) -> Any:
    return await tree["below"].stop()


async def by_terminate(tree: Branch) -> Any:
    return await tree.terminate_child("below")


async def by_kill(tree: Branch) -> Any:
    tree["below"].kill()
    return await tree["below"].join()


@pytest.mark.parametrize("end", [by_stop, by_terminate, by_kill])
@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
@pytest.mark.parametrize(
    ("slow", "backoff"),
    [
        pytest.param(Slow(100.0), None, id="in a start hook"),
        pytest.param(Slow(), Backoff(100.0, cap=100.0), id="in a back-off"),
        pytest.param(Slow(fails=True), Backoff(0.9, cap=0.9), id="between two that fail"),
    ],
)
async def test_a_supervisor_that_is_stopped_while_it_restarts_ends_and_brings_nobody_back(
    slow: Slow,
    backoff: Backoff | None,
    strategy: Any,
    end: Callable[[Branch], Awaitable[Any]],
    autojump_clock: MockClock,
) -> None:
    setting = Slow()
    below = supervisor(
        child(Echo, id="a"),
        child(StartsSlowly, setting, id="b", start_timeout=1000.0, shutdown=1.0),
        child(Echo, id="z"),
        id="below",
        strategy=strategy,
        intensity=1000,
        backoff=backoff,
        restart="temporary",
    )
    async with heard() as events, neighbourhood(below) as tree:
        refs = {key: tree.branch("below")[key] for key in ("a", "b", "z")}
        setting.seconds, setting.fails = slow.seconds, slow.fails
        refs["b"].tell("crash")
        await trio.sleep(5)
        pending = refs["b"].ask("anybody?")
        await end(tree)
        assert trio.current_time() <= 6  # its own bound, and not the start's or the back-off's
        with pytest.raises(ActorStopped):
            await pending
        lives = {key: ref.incarnation for key, ref in refs.items()}
        await trio.sleep(500)
        assert {key: ref.incarnation for key, ref in refs.items()} == lives
        assert not any(ref.is_alive for ref in refs.values())
    starts = sum(each.type == "actor.spawned" for each in events)
    ends = sum(each.type == "actor.stopped" for each in events)
    assert starts == ends - 1  # the block has an end, and was not spawned


async def test_administration_while_it_restarts_says_so_in_values(
    autojump_clock: MockClock,
) -> None:
    backoff = Backoff(100.0, cap=100.0)
    below = supervisor(child(Echo, id="c"), id="below", intensity=None, backoff=backoff)
    async with neighbourhood(below) as tree:
        branch = tree.branch("below")
        branch["c"].tell("crash")
        await trio.testing.wait_all_tasks_blocked()
        assert await branch.restart_child("c") == Restarting()
        assert await branch.delete_child("c") == Restarting()
        assert await branch.start_child(child(Echo, id="c")) == AlreadyPresent()
        assert await branch.terminate_child("c") == Done()
        assert isinstance(await branch.restart_child("c"), Started)
        assert await branch.restart_child("c") == Running()
        assert await branch.delete_child("c") == Running()
        for call in (branch.restart_child, branch.delete_child, branch.terminate_child):
            assert await call("nobody") == NotFound()
        assert await branch.get_spec("nobody") == NotFound()


async def test_what_a_dynamic_supervisor_cannot_be_asked_is_a_value(
    autojump_clock: MockClock,
) -> None:
    pool = supervisor(child(Echo, id="t"), id="pool", strategy="dynamic")
    async with neighbourhood(pool) as tree:
        branch = tree.branch("pool")
        assert await branch.start_child(child(Echo, id="c")) == WrongStrategy("dynamic")
        assert await branch.restart_child("c") == WrongStrategy("dynamic")
        assert await branch.delete_child("c") == WrongStrategy("dynamic")
        refused = await branch.update_specs(SupervisorSpec())
        assert isinstance(refused, Refused)
        assert refused.rule == "invalid_strategy"
        assert isinstance(await tree.update_specs("nonsense"), Refused)  # type: ignore[arg-type]  # on purpose
        assert isinstance(await tree.start_child("nonsense"), Refused)  # type: ignore[arg-type]  # on purpose


# ---- a dead supervisor


CALLS: dict[str, Callable[[Branch], Awaitable[Any]]] = {
    "start_child": lambda dead: dead.start_child(child(Echo, id="new")),
    "start": lambda dead: dead.start(),
    "get_or_start": lambda dead: dead.get_or_start("new"),
    "terminate_child": lambda dead: dead.terminate_child("c"),
    "restart_child": lambda dead: dead.restart_child("c"),
    "delete_child": lambda dead: dead.delete_child("c"),
    "which_children": lambda dead: dead.which_children(),
    "count_children": lambda dead: dead.count_children(),
    "get_spec": lambda dead: dead.get_spec("c"),
    "update_specs": lambda dead: dead.update_specs(SupervisorSpec()),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("end", ["terminated", "killed", "gave up", "left"])
async def test_administration_of_a_dead_supervisor_raises_and_names_it(
    end: str, call: str, autojump_clock: MockClock
) -> None:
    below = supervisor(child(Echo, id="c"), id="below", restart="temporary", intensity=0)
    async with neighbourhood(below) as tree:
        dead = tree.branch("below")
        if end == "terminated":
            await tree.terminate_child("below")
        elif end == "killed":
            dead.ref.kill()
            await dead.ref.join()
        elif end == "gave up":
            dead["c"].tell("crash")
            await dead.ref.join()
        if end != "left":
            with pytest.raises(ActorStopped, match="supervisor/top/below"):
                await CALLS[call](dead)
    with pytest.raises(ActorStopped, match="supervisor/top/below"):
        await CALLS[call](dead)
    with pytest.raises((ActorStopped, KeyError), match="supervisor/top/below"):
        dead["c"]


async def test_who_ended_is_how_it_ended(autojump_clock: MockClock) -> None:
    async with neighbourhood(supervisor(id="below", restart="temporary")) as tree:
        ref = tree["below"]
        ref.kill()
        assert await ref.join() == Killed()
