"""Goal line F1: every public operation of supervision, cut before every step.

Each operation is done twice over: once the whole program around it is cancelled,
with the tree; once only the operation is, and then the tree must go on as if
nobody had asked, or as if it had been done.  A step is one of trio's, or one turn
of a pump.  Whatever the step, nothing is left behind.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any

import pytest
import trio
import trio.testing
from attrs import frozen

import standby_supervision
from standby.testing import PumpSeam, sweep, z_checks
from standby_actors import Actor, ExitReason
from standby_supervision import (
    Backoff,
    Jobs,
    SupervisorSpec,
    Tree,
    child,
    open_jobs,
    open_supervisor,
    partitions,
    supervisor,
    workers,
)
from tests.support.schedule import seeded

pytestmark = pytest.mark.usefixtures("quiet_reports")

SEEDS = 10
"""Of goal line F1; the fast size takes one."""


class Worker(Actor):
    """Waits in each of its hooks, and crashes when it is told to."""

    shutdown = 0.5

    async def on_start(self) -> None:
        await trio.sleep(0.01)

    async def receive(self, message: Any) -> Any:
        if message == "die":
            raise ValueError(message)
        await trio.lowlevel.checkpoint()
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep(0.01)


class Fails(Worker):
    """Does not start."""

    async def on_start(self) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("not today")


Operation = Callable[[Tree], Awaitable[object]]


@frozen
class Case:
    """An operation, on a tree of its kind."""

    name: str
    """Of the public coroutine that it is about, or a word of its own."""
    do: Operation
    tree: str = "plain"


async def nothing(_: Tree) -> None:
    """The tree is opened, and left."""
    await trio.lowlevel.checkpoint()


async def crash_and_ask(tree: Tree) -> None:
    tree["a"].tell("die")
    assert await tree["a"].ask("again") == "again"


async def wait_for_backoff(tree: Tree) -> None:
    tree["a"].tell("die")
    await trio.sleep(0.2)
    assert await tree["a"].ask("again") == "again"


async def crash_all(tree: Tree) -> None:
    tree["b"].tell("die")
    tree["a"].tell("die")
    await trio.sleep(0.2)


async def stop_below(tree: Tree) -> None:
    await tree.branch("below").ref.stop()
    await trio.sleep(0.1)


async def kill_below(tree: Tree) -> None:
    branch = tree.branch("below")
    branch["x"].tell("die")
    await trio.lowlevel.checkpoint()
    branch.ref.kill()
    await trio.sleep(0.1)


async def run_job(tree: Tree) -> None:
    async with open_jobs(max_running=1, shutdown=0.1) as jobs:
        await do_jobs(jobs)


async def do_jobs(jobs: Jobs) -> None:
    tries: list[int] = []

    async def work() -> int:
        tries.append(1)
        await trio.sleep(0.01)
        if len(tries) == 1:
            raise ValueError
        return len(tries)

    job = jobs.start(work, attempts=2, backoff=Backoff(0.01))
    await jobs.run(trio.sleep, 0.01, timeout=1)
    await job.join()


async def stopped_then_restarted(tree: Tree) -> None:
    await tree.terminate_child("b")
    await tree.restart_child("b")


async def stopped_then_deleted(tree: Tree) -> None:
    await tree.terminate_child("b")
    await tree.delete_child("b")


async def asks_of_router(tree: Tree) -> None:
    router = tree.router("pool")
    asks = [router.ask(number) for number in range(3)]
    assert [await each for each in asks] == [0, 1, 2]


CASES = (
    Case("Tree.__aenter__", nothing),
    Case("Tree.__aexit__", nothing, "all"),
    Case("Tree.join", lambda tree: _join(tree)),
    Case("Branch.start_child", lambda tree: tree.start_child(child(Worker, id="new"))),
    Case("Branch.start_child", lambda tree: tree.start_child(child(Fails, id="new"))),
    Case("Branch.terminate_child", lambda tree: tree.terminate_child("b")),
    Case("Branch.restart_child", stopped_then_restarted),
    Case("Branch.delete_child", stopped_then_deleted),
    Case("Branch.which_children", lambda tree: tree.which_children()),
    Case("Branch.count_children", lambda tree: tree.count_children()),
    Case("Branch.get_spec", lambda tree: tree.get_spec("b")),
    Case(
        "Branch.update_specs",
        lambda tree: tree.update_specs(SupervisorSpec((child(Worker, id="b", shutdown=0.1),))),
    ),
    Case("Branch.start", lambda tree: tree.start(id="k"), "dynamic"),
    Case("Branch.get_or_start", lambda tree: tree.get_or_start("k"), "dynamic"),
    Case("Router.send", lambda tree: tree.router("pool").send("x"), "pool"),
    Case("Router.ask", asks_of_router, "pool"),
    Case("Broadcast.send", lambda tree: tree.router("pool", "broadcast").send("x"), "pool"),
    Case("Answers.__await__", lambda tree: _await(tree.router("pool", "broadcast")), "pool"),
    Case("Partitions.start", lambda tree: tree.partitions("parts").start("k"), "parts"),
    Case(
        "Partitions.get_or_start",
        lambda tree: tree.partitions("parts").get_or_start("k"),
        "parts",
    ),
    Case(
        "Partitions.terminate_child",
        lambda tree: _start_and_terminate(tree),
        "parts",
    ),
    Case(
        "Partitions.count_children", lambda tree: tree.partitions("parts").count_children(), "parts"
    ),
    Case(
        "Partitions.which_children", lambda tree: tree.partitions("parts").which_children(), "parts"
    ),
    Case("Jobs.run", run_job),
    Case("Jobs.__aenter__", run_job),
    Case("Jobs.__aexit__", run_job),
    Case("Job.join", run_job),
    Case("ask of a child that restarts", crash_and_ask),
    Case("wait for a back-off", wait_for_backoff, "backoff"),
    Case("restart of all", crash_all, "all"),
    Case("stop of a supervisor", stop_below, "below"),
    Case("kill of a supervisor that restarts", kill_below, "below"),
)

ELSEWHERE = {
    # Its sockets and files are real, so that it is cut in tests of its own.
    "Control.__aenter__": "tests/supervision/control",
    "Control.__aexit__": "tests/supervision/control",
}


async def _join(tree: Tree) -> None:
    with trio.move_on_after(0.05):
        await tree.join()


async def _await(broadcast: Any) -> None:
    assert await broadcast.ask("x") == ["x", "x"]


async def _start_and_terminate(tree: Tree) -> None:
    await tree.partitions("parts").start("k")
    await tree.partitions("parts").terminate_child("k")


def tree_of(kind: str) -> Tree:
    a, b = child(Worker, id="a"), child(Worker, id="b")
    match kind:
        case "plain":
            return open_supervisor(a, b)
        case "all":
            return open_supervisor(a, b, strategy="one_for_all")
        case "backoff":
            return open_supervisor(a, b, backoff=Backoff(0.05))
        case "below":
            below = supervisor(child(Worker, id="x"), child(Worker, id="y"), id="below")
            return open_supervisor(a, below)
        case "dynamic":
            return open_supervisor(child(Worker, id="of"), strategy="dynamic")
        case "pool":
            return open_supervisor(workers(Worker, count=2, id="pool"))
        case _:
            return open_supervisor(partitions(child(Worker, id="of"), count=2, id="parts"))


async def with_tree(case: Case, count: Callable[[int], None], seed: int) -> None:
    """The whole program, from before its tree until after it."""
    with PumpSeam(seed, before_turn=count).installed():
        async with tree_of(case.tree) as tree:
            await case.do(tree)


async def cut_alone(case: Case, cut: int, seed: int) -> bool:
    """Cut the operation alone, before its step `cut`; returns whether it was that long."""
    steps = 0
    is_armed = False
    scope = trio.CancelScope()

    def count(_: object = None) -> None:
        nonlocal steps
        if is_armed:
            steps += 1
            if steps == cut:
                scope.cancel()

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            count()

    instrument = Steps()
    with PumpSeam(seed, before_turn=count).installed():
        async with tree_of(case.tree) as tree:
            await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.add_instrument(instrument)
            is_armed = True
            with scope:
                await case.do(tree)
            is_armed = False
            trio.lowlevel.remove_instrument(instrument)
            await trio.sleep(1)
            await goes_on(tree)
    return steps >= cut


async def goes_on(tree: Tree) -> None:
    """Check that a tree serves, and that what it says is so."""
    for each in await tree.which_children():
        assert each.state in ("running", "undefined"), each
        if each.ref is not None and each.type == "worker":
            assert await each.ref.ask("still") == "still"
    counts = await tree.count_children()
    children = await tree.which_children()
    assert counts.active == sum(tree.find(each.id) is not None for each in children)


def run_alone(case: Case, seed: int) -> int:
    for cut in range(1, 2_000):
        was_cut: list[bool] = []

        async def main(cut: int = cut, was_cut: list[bool] = was_cut) -> None:
            was_cut.append(await cut_alone(case, cut, seed))

        with z_checks():
            trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        if not was_cut[0]:
            return cut
    raise AssertionError("it has no end")


EACH = [pytest.param(case, id=f"{number} {case.name}") for number, case in enumerate(CASES)]


@pytest.mark.parametrize("case", EACH)
def test_a_program_cut_in_this_operation_leaves_nothing(case: Case) -> None:
    whole(case, 0)


@pytest.mark.parametrize("case", EACH)
def test_a_tree_goes_on_when_this_operation_is_cut(case: Case) -> None:
    with seeded(0):
        assert run_alone(case, 0) > 1


@pytest.mark.deep
@pytest.mark.parametrize("case", EACH)
def test_ten_seeds_of_every_cut_leave_nothing(case: Case) -> None:
    for seed in range(SEEDS):
        try:
            whole(case, seed)
            with seeded(seed):
                run_alone(case, seed)
        except BaseException:
            print(f"seed {seed}")
            raise


def whole(case: Case, seed: int) -> None:
    async def scenario(count: Callable[[int], None]) -> None:
        await with_tree(case, count, seed)

    with seeded(seed):
        assert sweep(scenario) > 5


def public_coroutines() -> set[str]:
    """All that can be awaited of what supervision exports; an heir's own only."""
    found: set[str] = set()
    for name in dir(standby_supervision):
        value = getattr(standby_supervision, name)
        if name.startswith("_") or not getattr(value, "__module__", "").startswith("standby"):
            continue
        if isinstance(value, FunctionType):
            if inspect.iscoroutinefunction(value):
                found.add(name)
            continue
        if not isinstance(value, type):
            continue
        for key, each in vars(value).items():
            is_public = not key.startswith("_") or key in ("__aenter__", "__aexit__")
            if key == "__await__" or (is_public and inspect.iscoroutinefunction(each)):
                found.add(f"{value.__name__}.{key}")
    return found


def test_every_public_coroutine_of_supervision_is_cut_somewhere() -> None:
    assert public_coroutines() - {case.name for case in CASES} - set(ELSEWHERE) == set()


def test_no_case_is_about_what_is_no_longer_there() -> None:
    names = {case.name for case in CASES if "." in case.name} | set(ELSEWHERE)
    assert names - public_coroutines() == {"Router.ask"}  # it returns what is awaited
