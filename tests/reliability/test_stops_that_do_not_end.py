"""Case C13 and its kind: a child that ignores its cancellation does not hold up the stop.

Ten ignore it and five do not, all under one supervisor with a bound of 5 s: the
stop is over at 6 s, as the bounds run side by side.  The ten are called stuck,
with name and stack, and not ended; the block can be left when they have gone.

Suspended here are Z1 and Z5 of the ten, until they let go.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby_actors import (
    Actor,
    ActorStopped,
    ExitReason,
    Killed,
    Shutdown,
    Stuck,
    open_nursery,
)
from standby_supervision import (
    Branch,
    Counts,
    Done,
    Started,
    child,
    open_supervisor,
    supervisor,
)
from tests.support.heard import heard
from tests.support.programs import run_program

LETS_GO = 100.0
"""Seconds on the clock at which those that ignore everything let go at last."""


async def ignore_everything() -> None:
    """Swallow every cancellation and wait on, in a shield, until the end of the world."""
    while trio.current_time() < LETS_GO:
        with contextlib.suppress(trio.Cancelled), trio.CancelScope(shield=True):
            await trio.sleep_until(LETS_GO)


class Child(Actor):
    """One whose name begins with ``i`` ignores its cancellation; the others are polite."""

    def __init__(self, closed: list[str], name: str) -> None:
        self.closed = closed
        self.name = name

    @property
    def ignores(self) -> bool:
        """Whether this is one of the ten."""
        return self.name.startswith("i")

    async def receive(self, message: Any) -> Any:
        if self.ignores and message == "hang":
            await ignore_everything()
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep(1)
        self.closed.append(self.name)


class ChildOnItsTask(Child):
    """The same on a task of its own."""

    dedicated = True


class CleansUp(Child):
    """The ten handle their messages well, and hang while they clean up."""

    async def receive(self, message: Any) -> Any:
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        if self.ignores:
            await ignore_everything()
        await super().on_stop(reason)


class HasOneBelow(Child):
    """The ten are polite themselves; each has a child of its own that is not."""

    async def receive(self, message: Any) -> Any:
        if self.ignores and message == "hang":
            self.spawn(Child, [], "ignores").tell(message)
        return message


KINDS = [Child, ChildOnItsTask, CleansUp, HasOneBelow]
TEN = [f"i{n}" for n in range(10)]
FIVE = [f"p{n}" for n in range(5)]


async def by_its_ref(tree: Branch) -> Any:
    return await tree["pool"].stop()


async def by_administration(tree: Branch) -> Any:
    return await tree.terminate_child("pool")


async def by_two_at_once(tree: Branch) -> Any:
    answers: list[Any] = []

    async def stop() -> None:
        answers.append(await by_its_ref(tree))

    async with trio.open_nursery() as tasks:
        tasks.start_soon(stop)
        tasks.start_soon(stop)
    assert answers[0] == answers[1]
    return answers[0]


@pytest.mark.parametrize("stop", [by_its_ref, by_administration, by_two_at_once])
@pytest.mark.parametrize("kind", KINDS)
async def test_the_stop_is_over_at_6_seconds_and_says_who_is_stuck(
    kind: type[Child],
    stop: Callable[[Branch], Awaitable[Any]],
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[str] = []
    spec = supervisor(
        child(kind, closed, id="t", shutdown=5.0),
        id="pool",
        strategy="dynamic",
        restart="temporary",
    )
    async with heard() as events:
        async with open_supervisor(spec) as tree:
            pool = tree.branch("pool")
            ten = [await pool.get_or_start(name, name) for name in TEN]
            five = [await pool.get_or_start(name, name) for name in FIVE]
            for ref in ten:
                ref.tell("hang")
            await trio.testing.wait_all_tasks_blocked()

            answer = await stop(tree)

            assert trio.current_time() == 6  # and not 50
            assert isinstance(answer, Stuck)
            assert any(answer.path.startswith(ref.path) for ref in ten)
            assert "ignore_everything (test_stops_that_do_not_end.py:" in answer.stack
            assert sorted(closed) == FIVE
            assert all([await ref.join() == Shutdown() for ref in five])
            # Each of the ten is reported by now, with its stack.
            reports = [each.getMessage() for each in caplog.records if each.name == "standby"]
            for ref in ten:
                assert any(
                    f"stuck: {ref.path}" in each and "ignore_everything (" in each
                    for each in reports
                )
                with pytest.raises(ActorStopped):
                    await ref.ask("anybody?")
            assert trio.current_time() == 6
        assert trio.current_time() == LETS_GO
    assert sum(each.type == "actor.stuck" for each in events) == 10
    # Whoever had to be killed is never said to have closed.
    assert [await ref.join() for ref in ten] == [Killed("it did not stop within 5 s")] * 10
    assert sorted(closed) == FIVE


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
@pytest.mark.parametrize("kind", [Child, ChildOnItsTask, CleansUp])
async def test_an_ordered_stop_goes_on_with_the_others_once_one_is_stuck(
    kind: type[Child], strategy: Any, autojump_clock: MockClock
) -> None:
    closed: list[str] = []
    names = ["p0", "i0", "p1", "i1", "p2"]
    specs = [child(kind, closed, name, id=name, shutdown=5.0) for name in names]
    spec = supervisor(*specs, id="pool", strategy=strategy, restart="temporary")
    async with open_supervisor(spec) as tree:
        pool = tree.branch("pool")
        for name in names:
            pool[name].tell("hang")
        await trio.testing.wait_all_tasks_blocked()
        answer = await tree["pool"].stop()
        # 1 s for each of the three, 5 and 1 for each of the two.
        assert trio.current_time() == 15
        assert closed == ["p2", "p1", "p0"]
        assert isinstance(answer, Stuck)
        assert answer.path.rpartition("/")[2] in ("i0", "i1")
    assert trio.current_time() == LETS_GO


async def test_a_plain_block_stops_the_others_in_order_and_holds_the_stuck_one(
    autojump_clock: MockClock,
) -> None:
    closed: list[str] = []
    async with open_nursery(shutdown=50) as nursery:
        for name in ("p0", "i0", "p1"):
            nursery.spawn(Child, closed, name, shutdown=5).tell("hang")
        await trio.testing.wait_all_tasks_blocked()
    assert closed == ["p1", "p0"]
    assert trio.current_time() == LETS_GO


@pytest.mark.parametrize("depth", [1, 3, 400])
async def test_who_waits_for_any_owner_above_is_told_of_the_one_below(
    depth: int, autojump_clock: MockClock
) -> None:
    spec = child(Child, [], "i0", id="i0", shutdown=5.0)
    for level in range(depth):
        spec = supervisor(spec, id=f"s{level}", restart="temporary")
    async with open_supervisor(spec) as tree:
        branch: Branch = tree
        for level in reversed(range(depth)):
            branch = branch.branch(f"s{level}")
        branch["i0"].tell("hang")
        await trio.testing.wait_all_tasks_blocked()
        answer = await tree.terminate_child(f"s{depth - 1}")
        assert isinstance(answer, Stuck)
        assert answer.path == branch.ref.path + "/i0"
        assert trio.current_time() == 6
        # The one above is not held: it serves, and has forgotten the temporary child.
        assert await tree.count_children() == Counts(0, 0, 0, 0)


@pytest.mark.parametrize("kind", [Child, ChildOnItsTask])
async def test_a_stop_that_begins_when_one_is_stuck_already_says_so_at_once(
    kind: type[Child], autojump_clock: MockClock
) -> None:
    closed: list[str] = []
    spec = supervisor(
        child(kind, closed, "i0", id="i0", restart="temporary"),
        child(kind, closed, "p0", id="p0"),
        id="pool",
        restart="temporary",
    )
    async with open_supervisor(spec) as tree:
        ref = tree.branch("pool")["i0"]
        ref.tell("hang")
        await trio.testing.wait_all_tasks_blocked()
        ref.kill()
        await trio.sleep(10)
        assert ref.snapshot().state == "stuck"
        answer = await tree["pool"].stop()
        assert isinstance(answer, Stuck)
        assert trio.current_time() == 11  # the second that the polite one takes
        assert closed == ["p0"]
        assert await tree["pool"].stop() == answer  # said again to whoever asks again


async def test_a_killed_owner_of_a_stuck_child_is_told_of_as_well(
    autojump_clock: MockClock,
) -> None:
    spec = supervisor(child(Child, [], "i0", id="i0"), id="pool", restart="temporary")
    async with open_supervisor(spec) as tree:
        ref = tree["pool"]
        tree.branch("pool")["i0"].tell("hang")
        await trio.testing.wait_all_tasks_blocked()
        ref.kill()
        answer = await ref.stop()
        assert isinstance(answer, Stuck)
        assert answer.path.endswith("/pool/i0")
        assert trio.current_time() == 1


# ---- administration


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("shutdown", [5.0, 0.0, "brutal_kill"])
async def test_a_child_that_is_terminated_and_stuck_is_let_go_of_and_never_comes_back(
    restart: Any, shutdown: Any, autojump_clock: MockClock
) -> None:
    closed: list[str] = []
    spec = child(Child, closed, "i0", id="i0", restart=restart, shutdown=shutdown, name="one")
    async with open_nursery() as nursery, open_supervisor(spec, names=nursery.names) as tree:
        old = tree["i0"]
        old.tell("hang")
        await trio.testing.wait_all_tasks_blocked()
        bound = 5.0 if shutdown == 5.0 else 0.0
        answer = await tree.terminate_child("i0")
        assert isinstance(answer, Stuck)
        assert trio.current_time() == bound + 1
        assert nursery.whereis("one") is None
        new_one: Any
        # Its id is free: another one has a ref of its own, and none of the old mail.
        if restart == "temporary":
            new_one = await tree.start_child(spec)
        else:
            assert (await tree.count_children()).active == 0
            new_one = await tree.restart_child("i0")
        assert isinstance(new_one, Started)
        assert new_one.ref is not old
        assert tree["i0"] is new_one.ref is nursery.whereis("one")
        assert await new_one.ref.ask("here") == "here"
        with pytest.raises(ActorStopped):
            await old.ask("here")
        await trio.sleep_until(LETS_GO + 1)
        # The old one has let go, and nobody minds.
        assert not old.is_alive
        assert new_one.ref.incarnation == 1
        assert (await tree.count_children()).active == 1
        assert await tree.terminate_child("i0") == Done()


async def test_a_stuck_child_of_a_dynamic_supervisor_gives_its_place_free(
    autojump_clock: MockClock,
) -> None:
    closed: list[str] = []
    async with open_supervisor(
        child(Child, closed, id="t", shutdown=5.0), strategy="dynamic", max_children=1
    ) as pool:
        old = await pool.get_or_start("a", "i0")
        old.tell("hang")
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(await pool.terminate_child(old), Stuck)
        assert await pool.count_children() == Counts(1, 0, 0, 0)
        new_one = await pool.get_or_start("a", "p0")
        assert new_one is not old
        assert await new_one.ask("here") == "here"


async def test_administration_of_an_order_after_one_is_stuck_keeps_it_in_sight(
    autojump_clock: MockClock,
) -> None:
    closed: list[str] = []
    specs = [child(Child, closed, name, id=name, shutdown=2.0) for name in ("a", "i0", "b")]
    async with open_supervisor(*specs) as tree:
        tree["i0"].tell("hang")
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(await tree.terminate_child("i0"), Stuck)
        await tree.terminate_child("a")
        await tree.restart_child("a")  # which puts the children in their order again
        assert isinstance(await tree.restart_child("i0"), Started)
    assert closed == ["a", "b", "i0", "a"]
    assert trio.current_time() == LETS_GO


async def test_a_restart_of_all_waits_for_the_stuck_one_and_a_stop_does_not_wait_for_that(
    autojump_clock: MockClock,
) -> None:
    class Crashes(Actor):
        """Fails."""

        def receive(self, message: Any) -> None:
            raise ConnectionResetError

    spec = supervisor(
        child(Crashes, id="a"),
        child(Child, [], "i0", id="i0", shutdown=5.0),
        id="pool",
        strategy="one_for_all",
        restart="temporary",
    )
    async with open_supervisor(spec) as tree:
        pool = tree.branch("pool")
        stuck = pool["i0"]
        stuck.tell("hang")
        await trio.testing.wait_all_tasks_blocked()
        pool["a"].tell("crash")
        await trio.sleep(20)
        # Another life in the same cell would run beside the old one.
        assert stuck.snapshot().state == "stuck"
        assert stuck.incarnation == 1
        assert isinstance(await tree["pool"].stop(), Stuck)
        assert trio.current_time() == 20


# ---- leaving the process


@pytest.mark.real
def test_the_process_can_leave_all_the_same_by_its_final_bound_and_not_as_a_success() -> None:
    ended = run_program(
        """
        import time, trio, standby

        class Ignores(standby.Actor):
            async def receive(self, message):
                while True:
                    try:
                        with trio.CancelScope(shield=True):
                            await trio.to_thread.run_sync(time.sleep, 60)
                    except trio.Cancelled:
                        pass

        async def main():
            template = standby.child(Ignores, id="t", shutdown=0.1)
            async with standby.open_supervisor(
                template, strategy="dynamic", shutdown=0.2, grace=0.1
            ) as pool:
                for number in range(10):
                    (await pool.get_or_start(str(number))).tell("hang")
                await trio.sleep(0.2)
                print("leaving", flush=True)

        standby.run(main, hard_exit=0.3)
        """
    )
    assert ended.lines == ["leaving"]
    assert ended.code == 70
    assert "supervisor/top/9" in ended.errors
    assert ended.errors.count("stuck: supervisor/top/") == 10


@pytest.mark.real
async def test_processes_that_ignore_a_polite_signal_have_a_grace_and_then_are_gone() -> None:
    killed: list[float] = []
    closed: list[str] = []

    class Runs(Actor):
        """Owns a process, and ends it: politely, and when its time is up, not."""

        shutdown = 1.0

        def __init__(self, script: str) -> None:
            self.script = script

        async def on_start(self) -> None:
            self.process = await trio.lowlevel.open_process(
                ["sh", "-c", self.script], stdout=-1, stdin=-3
            )
            assert self.process.stdout is not None
            assert await self.process.stdout.receive_some() == b"up\n"

        def receive(self, message: Any) -> Any:
            return message

        async def on_stop(self, reason: ExitReason) -> None:
            asked_at = trio.current_time()
            self.process.terminate()
            try:
                await self.process.wait()
                closed.append(self.script)
            finally:
                if self.process.returncode is None:
                    killed.append(trio.current_time() - asked_at)
                    self.process.kill()
                with trio.CancelScope(shield=True):
                    await self.process.wait()
                assert self.process.stdout is not None
                await self.process.stdout.aclose()

    ignores = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    polite = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"
    async with open_supervisor(
        supervisor(child(Runs, id="t", shutdown=1.0), id="pool", strategy="dynamic")
    ) as tree:
        pool = tree.branch("pool")
        refs = [await pool.get_or_start(f"i{n}", ignores) for n in range(10)]
        refs += [await pool.get_or_start(f"p{n}", polite) for n in range(5)]
        processes = [(await ref.get_state())["process"] for ref in refs]
        began = trio.current_time()
        assert await tree.terminate_child("pool") == Done()
        took = trio.current_time() - began
    assert took < 1.0 + 1.0  # side by side; one after another would be ten bounds
    assert len(killed) == 10
    assert min(killed) > 0.9
    assert closed == [polite] * 5
    assert [process.returncode for process in processes] == [-9] * 10 + [0] * 5
    assert not math.isinf(took)
