"""Specifications are checked before anything starts; what is wrong names child and rule."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import Actor
from standby_supervision import (
    Backoff,
    BadSpec,
    Branch,
    ChildSpec,
    Done,
    Refused,
    SupervisorSpec,
    child,
    open_supervisor,
    partitions,
    supervisor,
    workers,
)

NEW: list[Any] = []
"""What was made; nothing may be where a specification is wrong."""


@pytest.fixture(autouse=True)
def _nothing_is_made_yet() -> None:
    NEW.clear()


class Made(Actor):
    """Tells of its making."""

    def __init__(self, first: Any = None, *, keyword: str = "") -> None:
        self.first, self.keyword = first, keyword
        NEW.append(self)

    def receive(self, message: Any) -> Any:
        return self.first, self.keyword


class Two(Actor):
    """Needs two arguments."""

    def __init__(self, one: int, two: int) -> None:
        self.sum = one + two

    def receive(self, message: Any) -> int:
        return self.sum


class Abstract(Actor, abc.ABC):
    def receive(self, message: Any) -> Any:
        return self.answer()

    @abc.abstractmethod
    def answer(self) -> Any: ...


class Deaf(Actor):
    """Has no receive of its own."""


class Crooked(Actor):
    """A class that says itself what cannot be."""

    capacity = -5

    def receive(self, message: Any) -> Any: ...


class Generates(Actor):
    def receive(self, message: Any) -> Iterator[Any]:
        yield message


async def echo(message: Any) -> Any:
    return message


def nothing() -> None: ...


def two(one: Any, other: Any) -> Any:
    return one, other


def generator(message: Any) -> Iterator[Any]:
    yield message


async def async_generator(message: Any) -> AsyncIterator[Any]:
    yield message


FOR_WORKERS: list[dict[str, Any]] = [
    {"capacity": 5},
    {"overflow": "raise"},
    {"redeliver": 1},
    {"dedicated": True},
    {"stop_mode": "finish"},
]
WRONG: list[Any] = [
    pytest.param({"capacity": 0}, "invalid_capacity", id="no capacity"),
    pytest.param({"capacity": 1.5}, "invalid_capacity", id="half a message"),
    pytest.param({"capacity": math.nan}, "invalid_capacity", id="capacity that is no number"),
    pytest.param({"capacity": True}, "invalid_capacity", id="a bool for capacity"),
    pytest.param({"capacity": "9"}, "invalid_capacity", id="a text for capacity"),
    pytest.param({"overflow": "drop"}, "invalid_overflow", id="overflow"),
    pytest.param({"overflow": ["raise"]}, "invalid_overflow", id="overflow in a list"),
    pytest.param({"stop_mode": "cut"}, "invalid_stop_mode", id="stop_mode"),
    pytest.param({"dedicated": "yes"}, "invalid_dedicated", id="dedicated"),
    pytest.param({"name": ""}, "invalid_name", id="an empty name"),
    pytest.param({"name": "a/b"}, "invalid_name", id="a name with a slash"),
    pytest.param({"name": "a\nb"}, "invalid_name", id="a name of two lines"),
    pytest.param({"name": "x" * 201}, "invalid_name", id="a long name"),
    pytest.param({"name": 7}, "invalid_name", id="a number for a name"),
    pytest.param({"when_down": "later"}, "invalid_when_down", id="when_down"),
    pytest.param({"redeliver": -1}, "invalid_redeliver", id="redeliver"),
    pytest.param({"start_timeout": math.nan}, "invalid_start_timeout", id="start_timeout"),
    pytest.param({"stalled_after": 0}, "invalid_stalled_after", id="stalled_after"),
    pytest.param({"args": [1]}, "invalid_args", id="args in a list"),
    pytest.param({"args": (1, 2)}, "invalid_args", id="too many arguments"),
    pytest.param({"start": Two}, "invalid_args", id="too few arguments"),
    pytest.param({"start": echo, "args": (1,)}, "invalid_args", id="arguments for a function"),
    pytest.param({"start": Made()}, "invalid_start", id="an instance"),
    pytest.param({"start": Abstract}, "invalid_start", id="an abstract class"),
    pytest.param({"start": Deaf}, "invalid_start", id="a class without receive"),
    pytest.param({"start": int}, "invalid_start", id="a class that is no actor"),
    pytest.param({"start": Crooked}, "invalid_start", id="a class with a bad option"),
    pytest.param({"start": Generates}, "invalid_start", id="a receive that generates"),
    pytest.param({"start": nothing}, "invalid_start", id="a function of nothing"),
    pytest.param({"start": two}, "invalid_start", id="a function of two"),
    pytest.param({"start": generator}, "invalid_start", id="a generator"),
    pytest.param({"start": async_generator}, "invalid_start", id="an async generator"),
    pytest.param({"start": []}, "invalid_start", id="a list"),
    pytest.param(
        {"start": SupervisorSpec(), "args": (1,)}, "bad_combination", id="a supervisor of something"
    ),
    *(
        pytest.param({"start": SupervisorSpec(), **option}, "bad_combination", id=f"supervisor {n}")
        for n, option in enumerate(FOR_WORKERS)
    ),
]


def spec_of(values: dict[str, Any]) -> ChildSpec:
    """A specification made past `child`, as a store or a wire would make it."""
    options: dict[str, Any] = {"id": "c1", "start": Made, **values}
    return ChildSpec(**options)


@pytest.mark.parametrize(("values", "rule"), WRONG)
async def test_what_is_wrong_is_refused_everywhere_and_nothing_has_happened(
    values: dict[str, Any], rule: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_supervisor(child(Made, id="first")) as tree:
        assert len(NEW) == 1
        spec = spec_of(values)
        started = await tree.start_child(spec)
        assert isinstance(started, Refused)
        assert (started.rule, started.child) == (rule, "c1")
        assert started.detail
        for make in (
            lambda: supervisor(child(Made), spec),
            lambda: open_supervisor(child(Made), spec),
            lambda: SupervisorSpec(children=(spec,)),
        ):
            with pytest.raises(BadSpec, match="child c1: ") as caught:
                make()
            assert (caught.value.rule, caught.value.actor) == (rule, "c1")
        # What is sent as a value need not have been made by its constructor.
        smuggled = SupervisorSpec()
        object.__setattr__(smuggled, "children", (spec,))
        updated = await tree.update_specs(smuggled)
        assert isinstance(updated, Refused)
        assert (updated.rule, updated.child) == (rule, "c1")
        assert [each.id for each in await tree.which_children()] == ["first"]
        assert len(NEW) == 1


@pytest.mark.parametrize(("values", "rule"), [each for each in WRONG if "list" not in str(each.id)])
def test_child_itself_refuses_what_more_arguments_could_not_heal(
    values: dict[str, Any], rule: str
) -> None:
    options: dict[str, Any] = {"id": "c1", "start": Made, "args": (), **values}
    start, args = options.pop("start"), options.pop("args")
    if start is Two:  # as a template it may get the rest when it starts
        child(start, *args, **options)
        return
    with pytest.raises(BadSpec) as caught:
        child(start, *args, **options)
    assert caught.value.rule == rule
    assert caught.value.actor in ("c1", options.get("name", "c1"))


def test_what_has_been_called_already_is_told_from_what_is_to_be_called() -> None:
    with pytest.raises(BadSpec, match=r"echo\(…\) has been called already") as caught:
        child(echo("a message"), id="c1")  # type: ignore[arg-type]  # what is tested
    assert caught.value.rule == "invalid_start"


def test_wrong_arguments_are_a_type_error_with_child_and_signature() -> None:
    with pytest.raises(TypeError) as caught:
        child(Two, 1, 2, 3, id="sum")
    assert str(caught.value) == (
        "child sum: Two(one: int, two: int) -> None cannot be made with 3 arguments: "
        "too many positional arguments (invalid_args)"
    )
    with pytest.raises(TypeError, match="missing a required argument: 'two'"):
        open_supervisor(child(Two, 1, id="sum"))


async def test_a_template_may_get_the_rest_of_its_arguments_when_it_starts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Two, 1), strategy="dynamic") as tree:
        ref = await tree.get_or_start("three", 2)
        assert await ref.ask("sum") == 3


UNKNOWN: list[Any] = [
    pytest.param(child, (Made,), "restrat", "did you mean restart?", id="child"),
    pytest.param(child, (Made,), "zzz", "there are capacity, dedicated, id,", id="nothing near"),
    pytest.param(supervisor, (), "strategie", "did you mean strategy?", id="supervisor"),
    pytest.param(supervisor, (), "capacity", "there are auto_shutdown,", id="not a supervisor's"),
    pytest.param(open_supervisor, (), "intensty", "did you mean intensity?", id="open_supervisor"),
    pytest.param(workers, (echo,), "cuont", "did you mean count?", id="workers"),
    pytest.param(partitions, (child(echo),), "max_child", "max_children?", id="partitions"),
]


@pytest.mark.parametrize(("make", "args", "key", "hint"), UNKNOWN)
def test_an_option_that_does_not_exist_is_refused_with_the_nearest(
    make: Any, args: tuple[Any, ...], key: str, hint: str
) -> None:
    with pytest.raises(BadSpec, match=f"{key} is no option of a ") as caught:
        make(*args, **({"count": 2} if make is workers else {}), **{key: 1})
    assert caught.value.rule == "unknown_key"
    assert hint in str(caught.value)


def test_ids_and_names_are_had_once() -> None:
    with pytest.raises(BadSpec, match="duplicate_child_name"):
        supervisor(child(Made), child(Made))
    with pytest.raises(BadSpec, match="the name 'db'") as caught:
        supervisor(child(Made, id="a", name="db"), child(Made, id="b", name="db"))
    assert (caught.value.rule, caught.value.actor) == ("duplicate_name", "b")
    below = supervisor(child(Made, name="db"), id="below")
    with pytest.raises(BadSpec, match="duplicate_name"):
        open_supervisor(supervisor(below), child(Made, name="db"))
    with pytest.raises(BadSpec, match="duplicate_name"):
        supervisor(supervisor(child(Made, id="x", name="db"), id="y", name="db"))
    # The children of a template are not there yet, and come and go.
    supervisor(supervisor(child(Made, name="db"), strategy="dynamic"), child(Made, name="db"))


async def test_a_name_is_refused_that_a_child_which_does_not_run_may_want_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Made, id="a", name="db")) as tree:
        assert await tree.terminate_child("a") == Done()
        answer = await tree.start_child(child(Made, id="b", name="db"))
        assert isinstance(answer, Refused)
        assert (answer.rule, answer.child) == ("duplicate_name", "b")
        assert [each.id for each in await tree.which_children()] == ["a"]


FLAWED: list[Any] = [
    pytest.param({"backoff": 3.0}, "invalid_backoff", id="backoff"),
    pytest.param({"max_children": "many"}, "invalid_max_children", id="max_children"),
    pytest.param({"max_children": -1}, "invalid_max_children", id="max_children below 0"),
    pytest.param({"children": [child(Made)]}, "bad_start_spec", id="children in a list"),
    pytest.param({"period": math.inf}, "invalid_period", id="period"),
    pytest.param({"intensity": True}, "invalid_intensity", id="a bool for intensity"),
]


@pytest.mark.parametrize(("flags", "rule"), FLAWED)
async def test_flags_of_a_supervisor_that_cannot_be_meant_are_refused(
    flags: dict[str, Any], rule: str, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(BadSpec) as caught:
        SupervisorSpec(**flags)
    assert (caught.value.rule, caught.value.actor) == (rule, "supervisor")
    async with open_supervisor() as tree:
        smuggled = SupervisorSpec()
        for key, value in flags.items():
            object.__setattr__(smuggled, key, value)
        answer = await tree.update_specs(smuggled)
        assert isinstance(answer, Refused)
        assert (answer.rule, answer.child) == (rule, "supervisor")


async def test_options_of_the_core_reach_the_child(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []

    class Slow(Actor):
        async def receive(self, message: Any) -> None:
            try:
                await trio.sleep(2)
            finally:
                log.append(message)

    async with open_supervisor(
        child(Slow, id="finishes"),
        child(Slow, id="is cut", stop_mode="interrupt"),
        child(Slow, id="has a task", dedicated=True),
    ) as tree:
        for each in ("finishes", "is cut", "has a task"):
            tree[each].tell(each)
        await trio.sleep(1)
        await tree.terminate_child("is cut")
        assert (log, trio.current_time()) == (["is cut"], 1.0)
        await tree.terminate_child("finishes")
        assert trio.current_time() == 2.0
        snapshot = next(each for each in tree.snapshot() if each.name == "has a task")
        assert snapshot.state in ("idle", "waiting")


def test_what_a_child_does_not_say_its_class_says() -> None:
    class Patient(Actor):
        shutdown = 60.0
        start_timeout = 90.0

        def receive(self, message: Any) -> None: ...

    spec = child(Patient)
    assert (spec.shutdown, spec.start_timeout) == (60.0, 90.0)
    assert (child(Made).shutdown, child(Made).start_timeout) == (5.0, 30.0)
    pool = workers(Patient, count=1).start.children[0]
    assert (pool.shutdown, pool.start_timeout) == (60.0, 90.0)
    below = child(SupervisorSpec(), id="below")
    assert (below.shutdown, below.start_timeout) == (math.inf, math.inf)
    assert below == supervisor(id="below")


async def test_keyword_arguments_are_given_with_a_partial(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spec = child(functools.partial(Made, keyword="k"), 1)
    assert spec.id == "Made"
    async with open_supervisor(spec) as tree:
        assert await tree["Made"].ask("what?") == (1, "k")
    made: Any = Made
    with pytest.raises(BadSpec, match="invalid_args"):
        supervisor(child(functools.partial(made, wrong=1)))


# ---- as a value


def application() -> ChildSpec:
    return supervisor(
        supervisor(
            child(Made, "secret", id="connection", name="db", shutdown=2.5),
            child(Made, id="cache", shutdown="brutal_kill", restart="transient", significant=True),
            id="storage",
            strategy="rest_for_one",
            auto_shutdown="any_significant",
            restart="transient",
        ),
        workers(echo, count=2, stalled_after=20, capacity=math.inf, overflow="drop_new"),
        supervisor(
            child(Made, dedicated=True, when_down="fail", redeliver=2, stop_mode="interrupt"),
            id="sessions",
            strategy="dynamic",
            intensity=None,
            backoff=Backoff(0.5, cap=20),
            max_children=1000,
        ),
        id="application",
    )


def test_a_tree_is_printed_for_people() -> None:
    assert str(application()) == application().render()
    assert application().render().splitlines() == [
        "application: one_for_one, 3 restarts in 5 s",
        "├─ storage: rest_for_one, 3 restarts in 5 s, ends with any_significant, transient",
        "│  ├─ connection: Made, shutdown 2.5 s, name db",
        "│  └─ cache: Made, transient, brutal_kill, significant",
        "├─ echo: one_for_one, 3 restarts in 5 s",
        "│  ├─ 1: echo, capacity inf, overflow drop_new, stalled_after 20 s",
        "│  └─ 2: echo, capacity inf, overflow drop_new, stalled_after 20 s",
        "└─ sessions: dynamic, any number of restarts, back-off 0.5 to 20 s, at most 1000 children",
        "   └─ Made: Made, when_down fail, redeliver 2, stop_mode interrupt, dedicated",
    ]
    assert "secret" not in repr(application())


def test_equal_trees_are_equal_and_have_one_hash() -> None:
    assert application() == application()
    assert hash(application()) == hash(application())
    assert {application(): 1}[application()] == 1
    assert application() != supervisor(id="application")
    with pytest.raises(TypeError, match="unhashable"):
        hash(supervisor(child(Made, [])))
    assert supervisor(child(Made, [])) == supervisor(child(Made, []))


def test_a_tree_is_walked_with_its_paths() -> None:
    assert [path for path, _ in application().start.walk()] == [
        "storage",
        "storage/connection",
        "storage/cache",
        "echo",
        "echo/1",
        "echo/2",
        "sessions",
        "sessions/Made",
    ]


async def test_a_tree_that_was_printed_and_compared_can_be_opened(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(application()) as tree:
        top: Branch = tree.branch("application")
        assert await top.branch("storage")["connection"].ask("what?") == ("secret", "")
        assert await top.router("echo").ask("hello") == "hello"
