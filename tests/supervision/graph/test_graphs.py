"""Graphs of tasks: what is refused, what begins when, and what a failure takes along."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from standby import Result, open_store, open_workspace
from standby_actors import failed, succeeded
from standby_supervision.backoff import Backoff
from standby_supervision.graph import Attempt, BadGraph, Carried, Need, Task, carry_out, graph_of
from standby_supervision.graph.decide import SETTLED, TaskStatus, hopeless, is_ready, next_of
from standby_supervision.graph.graph import Policy, overlap

QUICK = Backoff(1.0, cap=1.0, jitter=0.0)


def task(
    id: str,  # noqa: A002 - as a task has it
    *needs: str,
    policy: Policy = "completed",
    attempts: int = 1,
    writes: Iterable[str] = (),
) -> Task:
    return Task(id, tuple(Need(need, policy) for need in needs), attempts, tuple(writes))


class Players:
    """Plays tasks, each in its seconds, and notes when each began and ended."""

    def __init__(self, fail: dict[str, int] | None = None, **seconds: float) -> None:
        self.seconds = seconds
        self.fail = fail or {}
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    async def __call__(self, attempt: Attempt) -> Result:
        name = attempt.task.id
        self.began.setdefault(name, trio.current_time())
        await trio.sleep(self.seconds.get(name, 1.0))
        self.ended[name] = trio.current_time()
        if attempt.number <= self.fail.get(name, 0):
            return failed(name, "provider", f"attempt {attempt.number}")
        return succeeded(name, f"{name} of {', '.join(attempt.given)}")


def test_every_fault_of_a_graph_is_named() -> None:
    with pytest.raises(BadGraph) as refused:
        graph_of(
            [
                task("read"),
                task("read"),
                task("sum", "raed"),
                task("write", writes=["../x", "/etc"]),
                task("a", "b", attempts=0),
                task("b", "a"),
            ]
        )
    assert refused.value.problems == (
        "two tasks are called 'read'",
        "'sum' needs 'raed', which there is not: 'read'?",
        "'write' writes '../x', which is no path below the root",
        "'write' writes '/etc', which is no path below the root",
        "'a' is to be tried 0 times; 1 is the least",
        "tasks wait for one another: a -> b -> a",
    )


def test_a_long_chain_is_no_problem() -> None:
    chain = [task(str(n), *([str(n - 1)] if n else [])) for n in range(5_000)]
    assert len(graph_of(chain).tasks) == 5_000


async def test_a_fast_branch_does_not_wait_for_a_slow_sibling(autojump_clock: MockClock) -> None:
    players = Players(slow=100.0)
    began = trio.current_time()
    graph = graph_of([task("slow"), task("fast"), task("next", "fast"), task("last", "next")])
    done = await carry_out(graph, players)
    assert done.is_completed
    assert players.ended["last"] - began == 3.0
    assert done.results["next"].output == "next of fast"


async def test_a_failure_takes_only_those_that_need_its_answer(autojump_clock: MockClock) -> None:
    graph = graph_of(
        [
            task("bad"),
            task("beside"),
            task("after", "bad"),
            task("later", "after"),
            task("report", "bad", policy="settled"),
        ]
    )
    done = await carry_out(graph, Players(fail={"bad": 9}, beside=50.0))
    assert done.statuses == {
        "bad": "failed",
        "beside": "completed",
        "after": "skipped",
        "later": "skipped",
        "report": "completed",
    }
    assert not done.is_completed
    assert str(done.results["after"].error) == "skipped: 'after' needs 'bad', which failed"
    assert str(done.results["later"].error) == "skipped: 'later' needs 'after', which was skipped"


async def test_of_several_one_answer_is_enough(autojump_clock: MockClock) -> None:
    graph = graph_of([task("a"), task("b"), task("c"), task("sum", "a", "b", "c", policy="any")])
    players = Players(fail={"a": 1}, a=1.0, b=5.0, c=90.0)
    began = trio.current_time()
    done = await carry_out(graph, players)
    assert done.statuses["sum"] == "completed"
    assert players.began["sum"] - began == 5.0
    none = await carry_out(graph, Players(fail={"a": 1, "b": 1, "c": 1}))
    assert none.statuses["sum"] == "skipped"


async def test_a_retry_really_tries_again(autojump_clock: MockClock) -> None:
    graph = graph_of([task("flaky", attempts=3), task("after", "flaky")])
    done = await carry_out(graph, Players(fail={"flaky": 2}), backoff=QUICK)
    assert (done.is_completed, done.attempts["flaky"]) == (True, 3)
    worse = await carry_out(graph, Players(fail={"flaky": 3}), backoff=QUICK)
    assert (worse.statuses["flaky"], worse.attempts["flaky"]) == ("failed", 3)
    assert str(worse.results["flaky"].error) == "provider: attempt 3"


@pytest.mark.parametrize("kind", ["cancelled", "stopped", "aborted"])
async def test_what_was_cut_is_not_tried_again(kind: str, autojump_clock: MockClock) -> None:
    tried: list[int] = []

    async def play(attempt: Attempt) -> Result:
        tried.append(attempt.number)
        return failed("x", kind)  # type: ignore[arg-type] # one of them

    done = await carry_out(graph_of([task("x", attempts=5), task("y", "x")]), play)
    assert tried == [1]
    assert done.statuses == {"x": "cancelled", "y": "skipped"}


async def test_a_cancellation_during_the_back_off_is_one(autojump_clock: MockClock) -> None:
    tried: list[int] = []

    async def play(attempt: Attempt) -> Result:
        tried.append(attempt.number)
        return failed("x", "provider")

    with trio.move_on_after(0.5) as scope:
        await carry_out(graph_of([task("x", attempts=5)]), play, backoff=QUICK)
    assert scope.cancelled_caught
    assert tried == [1]


async def test_who_waits_for_an_attempt_holds_no_room(autojump_clock: MockClock) -> None:
    players = Players(fail={"flaky": 1})
    graph = graph_of([task("flaky", attempts=2), task("other")])
    slow = Backoff(10.0, cap=10.0, jitter=0.0)
    began = trio.current_time()
    await carry_out(graph, players, concurrency=1, backoff=slow)
    assert players.ended["other"] - began <= 2.0


async def test_two_that_write_to_one_place_are_not_at_work_together(
    autojump_clock: MockClock,
) -> None:
    players = Players()
    graph = graph_of(
        [
            task("folder", writes=["src"]),
            task("file", writes=["src/x.py"]),
            task("like", writes=["srcs"]),
            task("reads"),
        ]
    )
    await carry_out(graph, players)
    assert players.began["file"] == players.ended["folder"]
    assert players.began["like"] == players.began["reads"] == players.began["folder"]


async def test_when_it_is_called_off_nothing_begins_any_more(autojump_clock: MockClock) -> None:
    players = Players()
    graph = graph_of([task("a"), task("b", "a"), task("c", "b")])
    done = await carry_out(graph, players, is_called_off=lambda: "a" in players.ended)
    assert done.statuses == {"a": "completed", "b": "cancelled", "c": "cancelled"}


async def test_nothing_that_was_done_is_done_again_by_a_later_life(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    played: list[str] = []

    async def scout(task: str) -> str:
        played.append(task)
        await trio.sleep(1)
        return task

    async def live(seconds: float) -> Carried | None:
        async with (
            open_workspace(tmp_path, store) as workspace,
            workspace.open_run(id="r") as run,
        ):
            with trio.move_on_after(seconds):
                return await carry_out(graph, lambda each: run.turn(scout, each.task.id))
            run.cancel("not over")
        return None

    graph = graph_of([task("a"), task("b", "a"), task("c", "b"), task("d", "c")])
    async with open_store(None, inline=True) as store:
        assert await live(2.5) is None
        done = await live(99)
    assert done is not None
    assert done.is_completed
    assert played == ["a", "b", "c", "c", "d"]


POLICIES: list[Policy] = ["completed", "settled", "any"]


@st.composite
def graphs(draw: st.DrawFn) -> list[Task]:
    tasks: list[Task] = []
    for number in range(draw(st.integers(1, 9))):
        needs = (
            draw(st.lists(st.integers(0, number - 1), unique=True, max_size=3)) if number else []
        )
        edges = tuple(Need(str(need), draw(st.sampled_from(POLICIES))) for need in needs)
        writes = tuple(draw(st.lists(st.sampled_from(["a", "a/b", "c"]), max_size=2, unique=True)))
        tasks.append(Task(str(number), edges, 1, writes))
    return tasks


@given(graphs(), st.integers(0, 2**32))
def test_whatever_the_order_every_task_settles_by_the_rules(tasks: list[Task], seed: int) -> None:
    graph, draw = graph_of(tasks), random.Random(seed)
    statuses: dict[str, TaskStatus] = {task.id: "queued" for task in tasks}
    while any(status not in SETTLED for status in statuses.values()):
        now = next_of(graph, statuses)
        for name, _ in now.skip:
            statuses[name] = "skipped"
        if now.skip:
            continue
        for name in now.begin:
            assert is_ready(graph.task(name), statuses)
            statuses[name] = "running"
        running = [graph.task(name) for name, status in statuses.items() if status == "running"]
        assert running, "something is under way as long as not all is settled"
        assert not any(
            overlap(one, other) for one in running for other in running if one.id < other.id
        )
        statuses[draw.choice(running).id] = draw.choice(["completed", "failed", "cancelled"])
    for each in tasks:
        assert (statuses[each.id] == "skipped") == bool(hopeless(each, statuses))
