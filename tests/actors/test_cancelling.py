# ruff: noqa: PT012 - what raises here is leaving a block, so the block is the statement
"""Leaving a block early: by a cancellation, an error of the body, or a crash.

Whatever the actors do, it becomes an ordered stop, bounded in time, that leaves
no task; and what comes out of the block is what went in.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby.testing import PumpSeam
from standby_actors import (
    Actor,
    ActorStopped,
    ExitReason,
    Killed,
    NameTaken,
    Nursery,
    Ref,
    Shutdown,
    StartTimeout,
    Stuck,
    open_events,
    open_nursery,
    traps,
)
from tests.actors.workers import LOG, AsyncEcho, Boom, Do, Echo, Stops, Worker, tasks
from tests.support.inside import TasksStarted, block_of, needs_private_read


async def cancelled(
    fill: Callable[[Nursery], object],
    *,
    after: float = 0.05,
    shutdown: float = 30,
    grace: float = 1,
) -> float:
    """Cancel a block from outside `after` seconds; return how long it took to leave it."""
    before = tasks()
    left = False
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as other:
            other.start_soon(trio.testing.wait_all_tasks_blocked)
            scope.deadline = trio.current_time() + after
            try:
                async with open_nursery(shutdown=shutdown, grace=grace) as nursery:
                    fill(nursery)
                    await trio.sleep_forever()
            except trio.Cancelled:
                left = True
                raise
    assert scope.cancelled_caught
    assert left, "the block did not raise its Cancelled"
    assert tasks() == before
    return trio.current_time() - scope.deadline


# ---- what the actors may be doing when the cancellation comes


async def test_a_block_of_idle_actors_is_left_without_a_task(autojump_clock: MockClock) -> None:
    with TasksStarted() as started, trio.CancelScope() as scope:
        async with open_nursery() as nursery:
            for _ in range(500):
                nursery.spawn(Echo)
            scope.cancel()
            await trio.sleep_forever()
    assert started.count == 0


async def test_a_block_of_very_many_idle_actors_is_left_at_once(autojump_clock: MockClock) -> None:
    def fill(nursery: Nursery) -> None:
        for _ in range(10_000):
            nursery.spawn(Echo)

    assert await cancelled(fill) == 0


async def test_a_handler_that_sleeps_has_its_shutdown_time_and_is_then_killed(
    autojump_clock: MockClock,
) -> None:
    took = await cancelled(lambda nursery: nursery.spawn(Worker, "a").tell("sleep"))
    assert took == pytest.approx(0.2)
    assert LOG == [("a", "Cancelled")]


async def test_a_handler_that_ends_within_its_shutdown_time_is_not_cancelled(
    autojump_clock: MockClock,
) -> None:
    async def nap(_: Any) -> None:
        await trio.sleep(0.1)
        LOG.append("done")

    took = await cancelled(lambda nursery: nursery.spawn(Worker).tell(nap))
    assert took == pytest.approx(0.05)
    assert LOG == ["done"]


async def test_an_actor_parked_on_an_ask_and_the_one_it_asked_both_get_cancelled(
    autojump_clock: MockClock,
) -> None:
    def fill(nursery: Nursery) -> None:
        slow = nursery.spawn(Worker, "slow")
        nursery.spawn(Worker, "asker", slow).tell("ask")

    # One after the other, the later first: 0.2 s each.
    assert await cancelled(fill) == pytest.approx(0.4)
    assert LOG == [("asker", "Cancelled"), ("slow", "Cancelled")]


async def test_a_shield_that_ends_in_time_is_waited_for(autojump_clock: MockClock) -> None:
    took = await cancelled(lambda nursery: nursery.spawn(Worker).tell("shield"))
    assert took == pytest.approx(0.1)
    assert LOG == []


async def test_a_killed_handler_may_clean_up_in_a_shield(autojump_clock: MockClock) -> None:
    took = await cancelled(lambda nursery: nursery.spawn(Worker, "a").tell("cleanup"))
    assert took == pytest.approx(0.25)
    assert LOG == [("a", "cleaned"), ("a", "Cancelled")]


async def test_what_waits_in_a_mailbox_is_refused_and_what_runs_is_finished(
    autojump_clock: MockClock,
) -> None:
    asks: list[Any] = []
    blocks: list[Any] = []

    def fill(nursery: Nursery) -> None:
        worker = nursery.spawn(Worker)
        asks.extend((worker.ask("shield"), worker.ask("late")))
        worker.tell("told late")
        blocks.append(block_of(nursery))

    await cancelled(fill)
    assert await asks[0] == "shield"
    with pytest.raises(ActorStopped):
        await asks[1]
    assert blocks[0].dead_letters == 1


async def test_a_sender_that_waits_for_room_is_told_that_the_actor_stopped(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as outside:

        async def send(ref: Ref[Any]) -> None:
            with pytest.raises(ActorStopped):
                await ref.send("late")
            LOG.append("refused")

        async with open_nursery() as nursery:
            worker = nursery.spawn(Worker, "a", capacity=1)
            worker.tell("sleep")
            await trio.testing.wait_all_tasks_blocked()
            worker.tell("waits")
            outside.start_soon(send, worker)
            await trio.testing.wait_all_tasks_blocked()
    assert LOG == ["refused", ("a", "Cancelled")]


async def test_actors_stop_in_reverse_start_order_children_before_owners(
    autojump_clock: MockClock,
) -> None:
    def fill(nursery: Nursery) -> None:
        for name in "abc":
            nursery.spawn(Stops, name).tell("spawn")

    assert await cancelled(fill) == pytest.approx(0.06)
    assert LOG == ["c.child", "c", "b.child", "b", "a.child", "a"]


async def test_a_cancellation_that_comes_before_the_first_message_still_runs_stop_hooks(
    autojump_clock: MockClock,
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "a")
            await trio.lowlevel.checkpoint()
            raise AssertionError("the body goes on after its cancellation")
    assert LOG == ["a"]


async def test_a_second_cancellation_does_not_cut_the_stop_short(autojump_clock: MockClock) -> None:
    with trio.move_on_after(0.025):
        with trio.move_on_after(0.01):
            async with open_nursery() as nursery:
                nursery.spawn(Stops, "a")
                nursery.spawn(Stops, "b")
                await trio.sleep_forever()
    assert LOG == ["b", "a"]


async def test_a_start_hook_in_progress_is_waited_for_and_its_stop_hook_owed(
    autojump_clock: MockClock,
) -> None:
    class Slow(Actor):
        async def on_start(self) -> None:
            await trio.sleep(0.1)
            LOG.append("started")

        def on_stop(self, reason: ExitReason) -> None:
            LOG.append(str(reason))

    assert await cancelled(lambda nursery: nursery.spawn(Slow)) == pytest.approx(0.05)
    assert LOG == ["started", "shutdown"]


async def test_an_interrupting_stop_cuts_the_handler_at_once(autojump_clock: MockClock) -> None:
    took = await cancelled(
        lambda nursery: nursery.spawn(Worker, "a", stop_mode="interrupt").tell("sleep")
    )
    assert took == 0
    assert LOG == [("a", "Cancelled")]


async def test_a_cancelled_nursery_around_the_owner_is_an_ordered_stop_too(
    autojump_clock: MockClock,
) -> None:
    before = tasks()

    async def owner() -> None:
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "a")
            nursery.spawn(Worker, "w").tell("short")
            await trio.sleep_forever()

    async with trio.open_nursery() as outer:
        outer.start_soon(owner)
        await trio.sleep(0.02)
        outer.cancel_scope.cancel()
    assert LOG == ["a"]
    assert tasks() == before


# ---- one deadline over the whole stop


async def test_one_deadline_bounds_the_stop_of_the_whole_block(autojump_clock: MockClock) -> None:
    refs: list[Ref[Any]] = []

    def fill(nursery: Nursery) -> None:
        for name in "abcde":
            ref = nursery.spawn(Worker, name)
            ref.tell("sleep")
            refs.append(ref)

    # Alone each takes 0.2 s, so one after the other they would take a second.
    assert await cancelled(fill, shutdown=0.5) == pytest.approx(0.5)
    assert [name for name, _ in LOG[:2]] == ["e", "d"]
    assert {name for name, _ in LOG[2:]} == {"a", "b", "c"}
    own = Killed("it did not stop within 0.2 s")
    block = Killed("it did not stop within 0.5 s")
    assert [await ref.join() for ref in refs] == [block, block, block, own, own]


async def test_no_stop_hook_runs_once_the_deadline_of_the_block_is_over(
    autojump_clock: MockClock,
) -> None:
    def fill(nursery: Nursery) -> None:
        nursery.spawn(Stops, "early")
        nursery.spawn(Worker, "a").tell("sleep")

    assert await cancelled(fill, shutdown=0.1) == pytest.approx(0.1)
    assert LOG == [("a", "Cancelled")]


async def test_a_block_without_shutdown_time_kills_at_once(autojump_clock: MockClock) -> None:
    def fill(nursery: Nursery) -> None:
        nursery.spawn(Worker, "a").tell("sleep")
        nursery.spawn(Worker, "b").tell("shield")

    assert await cancelled(fill, shutdown=0) == pytest.approx(0.1)
    assert LOG == [("a", "Cancelled")]


# ---- what outlives its kill


async def outlast(self: Any, over: trio.Event) -> str:
    """A handler that shields itself again and again, until `over`."""
    while not over.is_set():
        try:
            with trio.CancelScope(shield=True):
                await over.wait()
        except trio.Cancelled:
            LOG.append("pierced")
    return "over"


async def test_a_handler_that_swallows_its_cancellation_is_dropped(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    took = await cancelled(lambda nursery: nursery.spawn(Worker, "a").tell("swallow"))
    assert took == pytest.approx(0.2)
    assert LOG == [("a", "GeneratorExit")]
    assert "swallowed its cancellation" in caplog.text


async def test_a_handler_that_swallows_slowly_is_reported_and_then_dropped(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def swallow(_: Any) -> None:
        while True:
            try:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.03)
                await trio.sleep_forever()
            except trio.Cancelled:
                pass

    took = await cancelled(lambda nursery: nursery.spawn(Worker, "a").tell(swallow), grace=0.1)
    # Killed at 0.2, reported at 0.3, dropped at its first step after 0.4.
    assert 0.4 <= took <= 0.43
    assert LOG == [("a", "GeneratorExit")]
    assert "stuck: nursery/Worker#1 outlived its kill" in caplog.text


async def test_a_handler_that_swallows_even_its_closing_is_dropped(
    autojump_clock: MockClock,
) -> None:
    async def stubborn(_: Any) -> None:
        while LOG.count("GeneratorExit") < 2:
            try:
                await trio.sleep_forever()
            except BaseException as error:
                LOG.append(type(error).__name__)

    took = await cancelled(lambda nursery: nursery.spawn(Do).tell(stubborn))
    assert took == pytest.approx(0.3)
    assert set(LOG) == {"Cancelled", "GeneratorExit"}


@needs_private_read
async def test_a_shield_that_outlives_the_kill_is_pierced(autojump_clock: MockClock) -> None:
    took = await cancelled(
        lambda nursery: nursery.spawn(Worker, "a").tell("hard shield"), grace=0.1
    )
    assert took == pytest.approx(0.3)
    assert LOG == [("a", "Cancelled")]


@needs_private_read
async def test_shields_inside_shields_are_pierced_together(autojump_clock: MockClock) -> None:
    async def shielded(_: Any) -> None:
        with trio.CancelScope(shield=True), trio.CancelScope(), trio.CancelScope(shield=True):
            await trio.sleep_forever()

    took = await cancelled(lambda nursery: nursery.spawn(Worker, "a").tell(shielded), grace=0.1)
    assert took == pytest.approx(0.3)
    assert LOG == [("a", "Cancelled")]


async def test_without_the_private_read_a_shield_holds_the_block_and_is_reported(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(traps, "scope_of", None)
    over = trio.Event()

    def fill(nursery: Nursery) -> None:
        worker = nursery.spawn(Worker, "a")
        worker.tell(lambda self: outlast(self, over))
        block_of(nursery).timers.after(5.0, over.set)

    assert await cancelled(fill, grace=0.1) == pytest.approx(4.95)
    assert "stuck: nursery/Worker#1 outlived its kill" in caplog.text
    # It was to be dropped at its next step, whatever that would have been.
    assert LOG == [("a", "GeneratorExit")]


async def test_stop_answers_that_the_actor_is_stuck_and_where(autojump_clock: MockClock) -> None:
    over = trio.Event()
    stuck: Any
    async with open_events() as events, open_nursery(grace=0.5) as nursery:
        worker = nursery.spawn(Worker, "a", name="sticky")
        worker.tell(lambda self: outlast(self, over))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        stuck = await worker.stop()
        assert trio.current_time() - began == pytest.approx(0.2 + 0.5)
        assert isinstance(stuck, Stuck)
        assert stuck.path == "nursery/sticky"
        lines = stuck.stack.splitlines()
        assert [line.split()[0] for line in lines[:3]] == ["receive", "_do", "outlast"]
        assert "test_cancelling.py:" in lines[2]
        assert str(stuck).startswith("stuck: nursery/sticky outlived its kill\n")
        # It lives, fenced off: no mail, no name, and said so to whoever stops it again.
        assert worker.is_alive
        assert worker.snapshot().state == "stuck"
        with pytest.raises(ActorStopped):
            await worker.ask("more")
        assert nursery.whereis("sticky") is None
        assert await worker.stop() == stuck
        successor = nursery.spawn(Echo, name="sticky")
        assert nursery.whereis("sticky") is successor
        over.set()
        assert await worker.join() == Killed("it did not stop within 0.2 s")
        assert await worker.stop() == Killed("it did not stop within 0.2 s")
        assert nursery.whereis("sticky") is successor
        events.close()
        seen = [event async for event in events if event.type == "actor.stuck"]
    assert [(event.actor, event.data["stack"]) for event in seen] == [
        ("nursery/sticky", stuck.stack)
    ]


async def test_all_who_wait_for_the_stop_are_told_that_the_actor_is_stuck(
    autojump_clock: MockClock,
) -> None:
    over = trio.Event()
    async with open_nursery(grace=0.1) as nursery:
        worker = nursery.spawn(Worker, "a")
        worker.tell(lambda self: outlast(self, over))
        await trio.testing.wait_all_tasks_blocked()
        stops = [worker.stop() for _ in range(3)]
        answers = [await stop for stop in stops]
        assert isinstance(answers[0], Stuck)
        assert answers == [answers[0]] * 3
        over.set()


async def test_an_owner_that_waits_for_a_stuck_child_is_not_called_stuck_itself(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    over = trio.Event()
    async with open_nursery(grace=0.1) as nursery:
        owner = nursery.spawn(Stops, "owner")
        child: Ref[Any] = (await owner.ask("spawn")).spawn(Worker, ("child",))
        child.tell(lambda self: outlast(self, over))
        await trio.testing.wait_all_tasks_blocked()
        owner.kill()
        await trio.sleep(0.15)
        states = child.snapshot().state, owner.snapshot().state
        is_alive = owner.is_alive
        over.set()  # before anything can fail: a child that never ends holds the block
        assert states == ("stuck", "stopping")
        assert is_alive
        assert await owner.join() == Killed()
    assert len([each for each in caplog.records if "stuck" in each.message]) == 1


async def test_a_thread_that_cannot_be_abandoned_holds_the_block_and_is_reported(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()

    async def in_a_thread(_: Any) -> None:
        await trio.to_thread.run_sync(release.wait)

    class Releases(logging.Handler):
        """Lets the thread end once the report is there."""

        def emit(self, record: logging.LogRecord) -> None:
            if "stuck" in record.getMessage():
                release.set()

    handler = Releases()
    logging.getLogger("standby").addHandler(handler)
    try:
        took = await cancelled(
            lambda nursery: nursery.spawn(Worker, "a").tell(in_a_thread), grace=0.1
        )
    finally:
        logging.getLogger("standby").removeHandler(handler)
        release.set()
    assert took >= 0.3
    assert "stuck: nursery/Worker#1 outlived its kill" in caplog.text
    assert "in_a_thread (test_cancelling.py:" in caplog.text
    assert "to_thread_run_sync" in caplog.text


async def test_a_thread_that_may_be_abandoned_does_not_hold_the_block(
    autojump_clock: MockClock,
) -> None:
    release = threading.Event()

    async def in_a_thread(_: Any) -> None:
        await trio.to_thread.run_sync(release.wait, abandon_on_cancel=True)

    try:
        took = await cancelled(lambda nursery: nursery.spawn(Worker, "a").tell(in_a_thread))
    finally:
        release.set()
    assert took == pytest.approx(0.2)
    assert LOG == [("a", "Cancelled")]


# ---- what comes out of a block


async def test_the_error_of_the_body_passes_as_it_is(autojump_clock: MockClock) -> None:
    error = KeyError("body")
    with pytest.raises(KeyError) as raised:
        async with open_nursery() as nursery:
            nursery.spawn(Worker, "a").tell("sleep")
            await trio.testing.wait_all_tasks_blocked()
            raise error
    assert raised.value is error
    assert error.__context__ is None
    assert LOG == [("a", "Cancelled")]


async def test_an_exception_group_of_the_body_passes_as_it_is(autojump_clock: MockClock) -> None:
    group = ExceptionGroup("body", [KeyError(1), ValueError(2)])
    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            assert await nursery.spawn(Echo).ask(1) == 1
            raise group
    assert raised.value.exceptions == group.exceptions


async def test_a_block_that_is_left_normally_has_stopped_everybody(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        echo = nursery.spawn(Echo)
        slow = nursery.spawn(AsyncEcho)
        assert await echo.ask(3) == 3
        assert await slow.ask(4) == 4
    assert await echo.join() == Shutdown()
    for ref in (echo, slow):
        with pytest.raises(ActorStopped):
            await ref.ask(1)
        with pytest.raises(ActorStopped):
            await ref.send(1)
    echo.tell("nobody")
    assert nursery.dead_letters == 1
    with pytest.raises(ActorStopped):
        nursery.spawn(Echo)
    with pytest.raises(ActorStopped):
        await nursery.start(Echo)


async def test_nothing_can_be_spawned_into_a_block_that_is_stopping(
    autojump_clock: MockClock,
) -> None:
    refused: list[type[BaseException]] = []

    class Late(Actor):
        async def on_stop(self, reason: ExitReason) -> None:
            for spawn in (nursery.spawn, self.spawn):
                try:
                    spawn(Echo)
                except ActorStopped as error:
                    refused.append(type(error))

    async with open_nursery() as nursery:
        nursery.spawn(Late)
    assert refused == [ActorStopped, ActorStopped]


async def test_a_crash_ends_the_body_and_is_raised_in_a_group(autojump_clock: MockClock) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "a")
            nursery.spawn(Boom).tell(1)
            await trio.sleep_forever()
    assert [type(each) for each in raised.value.exceptions] == [ValueError]
    assert LOG == ["a"]


async def test_two_crashes_are_raised_together(autojump_clock: MockClock) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            for each in (1, 2):
                nursery.spawn(Boom).tell(each)
            await trio.sleep_forever()
    assert [str(each) for each in raised.value.exceptions] == ["1", "2"]


async def test_a_crash_and_the_error_of_the_body_are_raised_together(
    autojump_clock: MockClock,
) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            nursery.spawn(Boom).tell("crash")
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("body")
    assert [type(each) for each in raised.value.exceptions] == [ValueError, KeyError]


async def test_a_crash_during_the_stop_of_a_cancelled_block_is_not_lost(
    autojump_clock: MockClock,
) -> None:
    async def late(_: Any) -> None:
        await trio.sleep(0.05)
        raise KeyError("late")

    scope = trio.CancelScope()
    with pytest.raises(ExceptionGroup) as raised, scope:
        async with open_nursery() as nursery:
            nursery.spawn(Worker).tell(late)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    # The Cancelled was in the group as well, until its scope took it out.
    assert [type(each) for each in raised.value.exceptions] == [KeyError]


async def test_an_error_and_a_cancellation_of_the_body_come_out_together(
    autojump_clock: MockClock,
) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        with trio.move_on_after(0.05):
            async with open_nursery() as nursery:
                nursery.spawn(Stops, "a")
                async with trio.open_nursery() as inside:

                    async def fails() -> None:
                        try:
                            await trio.sleep_forever()
                        finally:
                            raise KeyError("task")

                    inside.start_soon(fails)
    assert [type(each) for each in raised.value.exceptions] == [KeyError]
    assert LOG == ["a"]


async def test_the_scope_of_a_crashed_body_does_not_swallow_an_error_of_the_body(
    autojump_clock: MockClock,
) -> None:
    # The body ends without waiting, so it never hears of the crash.
    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            boom = nursery.spawn(Boom)
            boom.ask("crash")
            raise KeyError("body")
    assert [type(each) for each in raised.value.exceptions] == [ValueError, KeyError]


# ---- the runtime's own tasks


async def test_a_bug_in_the_pump_fails_the_block_and_the_stop_is_still_ordered(
    autojump_clock: MockClock,
) -> None:
    class Bug(RuntimeError):
        """A fault of the runtime."""

    def break_once(turn: int) -> None:
        if turn == 3:
            raise Bug

    with PumpSeam(before_turn=break_once).installed(), pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "a")
            worker = nursery.spawn(Worker)
            for _ in range(5):
                worker.tell("x")
                await trio.testing.wait_all_tasks_blocked()
            await trio.sleep_forever()
    assert [type(each) for each in raised.value.exceptions] == [Bug]
    assert LOG == ["a"]


async def test_an_actor_sees_the_variables_of_its_spawner_not_of_who_sends_first(
    autojump_clock: MockClock,
) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    class Reads(Actor):
        async def receive(self, message: Any) -> str:
            before = variable.get()
            await trio.lowlevel.checkpoint()
            assert variable.get() == before
            return before

    async def tell_first(ref: Ref[Any]) -> None:
        variable.set("teller")
        assert await ref.ask(1) == "block"

    variable.set("block")
    async with open_nursery() as nursery:
        reader = nursery.spawn(Reads)
        variable.set("spawner")
        other = nursery.spawn(Reads)
        async with trio.open_nursery() as tellers:
            tellers.start_soon(tell_first, reader)
        assert await reader.ask(2) == "block"
        assert await other.ask(3) == "spawner"


async def test_idle_workers_are_capped_after_many_have_waited_at_once(
    autojump_clock: MockClock,
) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        asks = [nursery.spawn(Worker).ask("short") for _ in range(200)]
        await trio.testing.wait_all_tasks_blocked()
        assert block_of(nursery).workers >= 200
        assert [await ask for ask in asks] == ["ok"] * 200
        await trio.testing.wait_all_tasks_blocked()
        assert len(block_of(nursery).pool) == 64
        # The pump, and the one that sleeps to the next deadline, are not idle workers.
        assert block_of(nursery).workers == 65
        assert tasks() <= before + 66
        # Those that are left do their work.
        again = [nursery.spawn(Worker).ask("short") for _ in range(100)]
        assert [await ask for ask in again] == ["ok"] * 100


async def test_idle_workers_are_capped_after_many_were_killed_at_once(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        workers = [nursery.spawn(Worker) for _ in range(200)]
        for worker in workers:
            worker.tell("sleep")
        await trio.testing.wait_all_tasks_blocked()
        for worker in workers:
            worker.kill()
        for worker in workers:
            assert await worker.join() == Killed()
        await trio.testing.wait_all_tasks_blocked()
        assert len(block_of(nursery).pool) == 64
        assert block_of(nursery).workers == 65


# ---- starting, and giving up on it


class Starts(Actor):
    """Takes `seconds` to start, and logs if that is cut."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def on_start(self) -> None:
        try:
            await trio.sleep(self.seconds)
        except trio.Cancelled:
            LOG.append("cut")
            raise

    def receive(self, message: Any) -> Any:
        return message

    def on_stop(self, reason: ExitReason) -> None:
        LOG.append("stopped")


@pytest.mark.parametrize("dedicated", [False, True])
async def test_start_cancelled_by_its_caller_kills_the_child(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        sibling = nursery.spawn(Echo)
        with trio.move_on_after(0.01) as scope:
            await nursery.start(Starts, 5.0, name="child", dedicated=dedicated)
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert LOG == ["cut"]
        assert nursery.whereis("child") is None
        assert [child.name for child in nursery.tree().children] == [sibling.path.split("/")[1]]
        assert trio.current_time() < 1
        assert await sibling.ask(1) == 1
        assert await (await nursery.start(Starts, 0.0, name="child")).ask(2) == 2
    assert LOG == ["cut", "stopped"]


async def test_a_start_in_a_handler_that_is_cancelled_kills_the_grandchild(
    autojump_clock: MockClock,
) -> None:
    async def start_one(self: Any) -> str:
        with trio.move_on_after(0.01):
            await self.start(Starts, 5.0, name="child")
        return "gave up"

    async with open_nursery() as nursery:
        worker = nursery.spawn(Worker)
        assert await worker.ask(start_one) == "gave up"
        await trio.testing.wait_all_tasks_blocked()
        assert LOG == ["cut"]
        assert worker.snapshot().children == ()
        assert nursery.whereis("child") is None


async def test_an_owner_killed_while_it_starts_a_child_leaves_none(
    autojump_clock: MockClock,
) -> None:
    async def start_one(self: Any) -> None:
        await self.start(Starts, 5.0, name="child")

    async with open_nursery() as nursery:
        worker = nursery.spawn(Worker, "w")
        worker.tell(start_one)
        await trio.testing.wait_all_tasks_blocked()
        worker.kill()
        assert await worker.join() == Killed()
        assert sorted(map(str, LOG)) == ["('w', 'Cancelled')", "cut"]
        assert nursery.whereis("child") is None


@pytest.mark.parametrize("dedicated", [False, True])
async def test_a_start_that_takes_too_long_has_freed_the_name_before_it_is_raised(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        sibling = nursery.spawn(Echo)
        with pytest.raises(StartTimeout) as raised:
            await nursery.start(Starts, 5.0, name="child", start_timeout=0.1, dedicated=dedicated)
        assert raised.value.actor == "nursery/child"
        assert raised.value.seconds == 0.1
        assert trio.current_time() == pytest.approx(0.1)
        assert nursery.whereis("child") is None
        assert LOG == ["cut"]
        child = nursery.spawn(Starts, 0.0, name="child")
        assert await child.ask(1) == await sibling.ask(1) == 1


async def test_a_start_that_is_stuck_is_given_up_with_its_name_free(
    autojump_clock: MockClock,
) -> None:
    over = trio.Event()

    class Sticks(Actor):
        async def on_start(self) -> None:
            await outlast(self, over)

    async with open_nursery(grace=0.5) as nursery:
        with pytest.raises(StartTimeout):
            await nursery.start(Sticks, name="child", start_timeout=0.1)
        assert trio.current_time() == pytest.approx(0.6)
        assert nursery.whereis("child") is None
        nursery.spawn(Echo, name="child")
        over.set()


async def test_a_start_hook_that_ends_after_its_time_has_not_started_the_actor(
    autojump_clock: MockClock,
) -> None:
    class Late(Actor):
        async def on_start(self) -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)

        def on_stop(self, reason: ExitReason) -> None:
            LOG.append("stopped")

    async with open_nursery() as nursery:
        with pytest.raises(StartTimeout):
            await nursery.start(Late, name="child", start_timeout=0.1)
        assert trio.current_time() == pytest.approx(0.5)
        assert nursery.whereis("child") is None
    assert LOG == []


async def test_a_spawned_actor_that_starts_too_slowly_is_a_crash_of_the_block(
    autojump_clock: MockClock,
) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            nursery.spawn(Starts, 5.0, start_timeout=0.1)
            await trio.sleep_forever()
    assert [type(each) for each in raised.value.exceptions] == [StartTimeout]
    assert LOG == ["cut"]


class FailsToStart(Actor):
    """Raises in its start hook, at once or after a wait."""

    def __init__(self, error: BaseException, wait: bool) -> None:
        self.error = error
        self.wait = wait

    async def on_start(self) -> None:
        if self.wait:
            await trio.sleep(0.01)
        raise self.error

    def on_stop(self, reason: ExitReason) -> None:
        LOG.append("a stop hook without a start")


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize("wait", [False, True])
async def test_a_start_that_fails_is_raised_to_the_starter_and_nobody_else(
    wait: bool, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        sibling = nursery.spawn(Echo)
        error = KeyError("start")
        with pytest.raises(KeyError) as raised:
            await nursery.start(FailsToStart, error, wait, name="child", dedicated=dedicated)
        assert raised.value is error
        assert nursery.whereis("child") is None
        assert await sibling.ask(1) == 1
        assert len(nursery.tree().children) == 1
        # A name that somebody has is refused before anything is started.
        nursery.spawn(Echo, name="taken")
        with pytest.raises(NameTaken):
            await nursery.start(Starts, 0.0, name="taken")
        assert len(nursery.tree().children) == 2
    assert LOG == []


# ---- deep trees


class Deep(Actor):
    """Told to, spawns one more below itself."""

    shutdown = 60.0

    def receive(self, message: Any) -> Any:
        if message == "crash":
            raise ValueError("deep")
        return self.spawn(Deep)


class DeepHooks(Deep):
    """The same with a stop hook that waits."""

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.lowlevel.checkpoint()
        LOG.append(reason)

    def receive(self, message: Any) -> Any:
        return self.spawn(DeepHooks)


async def deep(nursery: Nursery, kind: type[Deep] = Deep, depth: int = 5_000) -> list[Ref[Any]]:
    refs: list[Ref[Any]] = [nursery.spawn(kind)]
    while len(refs) < depth:
        refs.append(await refs[-1].ask("spawn"))
    return refs


@pytest.mark.parametrize("kind", [Deep, DeepHooks])
async def test_a_tree_five_thousand_deep_stops_in_order(
    kind: type[Deep], autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        refs = await deep(nursery, kind)
    assert not any(ref.is_alive for ref in refs)
    assert {await ref.join() for ref in refs} == {Shutdown()}
    if kind is DeepHooks:
        assert len(LOG) == 5_000


async def test_a_tree_five_thousand_deep_is_killed(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        refs = await deep(nursery, DeepHooks)
        refs[0].kill()
        assert await refs[0].join() == Killed()
        assert not any(ref.is_alive for ref in refs)
    assert LOG == []


async def test_a_tree_five_thousand_deep_is_stopped_by_its_root(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        refs = await deep(nursery, DeepHooks)
        assert await refs[0].stop() == Shutdown()
        assert not any(ref.is_alive for ref in refs)


async def test_a_crash_fifteen_hundred_deep_reaches_the_block(autojump_clock: MockClock) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            refs = await deep(nursery, depth=1_500)  # each keeps its path: quadratic
            refs[-1].tell("crash")
            await trio.sleep_forever()
    assert [str(each) for each in raised.value.exceptions] == ["deep"]
    assert not any(ref.is_alive for ref in refs)


async def test_a_tree_five_thousand_deep_can_be_looked_at(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        refs = await deep(nursery)
        snapshot = nursery.tree()
        assert sum(1 for _ in snapshot) == 5_001
        assert refs[-1].path.count("/") == 5_000
        assert await refs[-1].get_state() == {}
