# ruff: noqa: PT012 - what raises here is leaving a block, so the block is the statement
"""Background jobs: what each outcome means, and what leaving their block does."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby.testing import sweep
from standby_actors import ActorStopped
from standby_supervision import (
    Backoff,
    CalledOff,
    Failed,
    Job,
    Jobs,
    Ok,
    TimedOut,
    open_jobs,
)
from tests.support.heard import heard

STEADY = Backoff(1.0, factor=1.0, cap=1.0, jitter=0.0)


class Broken(Exception):
    """What jobs of these tests raise."""


async def nap(seconds: float, value: str = "rested") -> str:
    await trio.sleep(seconds)
    return value


async def breaks(seconds: float = 0.0) -> None:
    await trio.sleep(seconds)
    raise Broken(f"after {seconds:g}")


class Flaky:
    """Raises the first so many times that it is called."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    async def __call__(self) -> str:
        await trio.lowlevel.checkpoint()
        if self.left:
            self.left -= 1
            raise Broken(self.left)
        return "at last"


# ---- one job and its outcome


async def test_a_value_is_ok(autojump_clock: MockClock) -> None:
    async with open_jobs() as jobs:
        assert await jobs.run(nap, 3, "well") == Ok("well")
        assert trio.current_time() == 3


async def test_an_error_is_a_value_too(autojump_clock: MockClock) -> None:
    async with open_jobs() as jobs:
        outcome = await jobs.run(breaks)
        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, Broken)
        assert outcome.attempts == 1


async def test_what_takes_too_long_is_cut(autojump_clock: MockClock) -> None:
    async with open_jobs() as jobs:
        assert await jobs.run(nap, 10, timeout=4) == TimedOut(4)
        assert trio.current_time() == 4


async def test_a_function_that_is_no_async_def_runs_in_a_thread() -> None:
    async with open_jobs() as jobs:
        assert await jobs.run(threading.get_ident) != Ok(threading.get_ident())
        outcome = await jobs.run(int, "no number")
        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, ValueError)


async def test_a_thread_that_does_not_end_holds_nobody() -> None:
    held = threading.Event()
    async with open_jobs() as jobs:
        job = jobs.start(held.wait)
        await trio.testing.wait_all_tasks_blocked()
        job.cancel()
        assert await job.join() == CalledOff(1)
    held.set()


async def test_an_awaitable_that_nobody_awaited_is_a_failure_that_says_so() -> None:
    async with open_jobs() as jobs:
        outcome = await jobs.run(lambda: nap(1))
        assert isinstance(outcome, Failed)
        assert "appears to be asynchronous" in str(outcome.error)


async def test_a_partial_and_a_callable_object_are_functions(autojump_clock: MockClock) -> None:
    async with open_jobs() as jobs:
        assert await jobs.run(functools.partial(nap, 1, value="x")) == Ok("x")
        assert await jobs.run(Flaky(0)) == Ok("at last")


async def test_a_group_of_one_is_its_only_member(autojump_clock: MockClock) -> None:
    async def with_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(breaks)

    async with open_jobs() as jobs:
        outcome = await jobs.run(with_a_nursery)
        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, Broken)


def test_an_outcome_is_neither_true_nor_false() -> None:
    for outcome in (Ok(1), Failed(Broken()), TimedOut(1.0), CalledOff()):
        with pytest.raises(TypeError, match="neither true nor false"):
            bool(outcome)


# ---- another try


async def test_it_is_tried_as_often_as_said_with_the_backoff_between(
    autojump_clock: MockClock,
) -> None:
    async with heard() as events, open_jobs() as jobs:
        assert await jobs.run(Flaky(2), attempts=3, backoff=STEADY) == Ok("at last", attempts=3)
        assert trio.current_time() == 2
        outcome = await jobs.run(Flaky(3), attempts=3, backoff=STEADY)
        assert isinstance(outcome, Failed)
        assert outcome.attempts == 3
    assert [event.type for event in events] == [
        "job.started",
        "job.retried",
        "job.retried",
        "job.ended",
    ] * 2


async def test_each_attempt_has_the_whole_timeout(autojump_clock: MockClock) -> None:
    async with open_jobs() as jobs:
        assert await jobs.run(nap, 9, timeout=4, attempts=2, backoff=STEADY) == TimedOut(4, 2)
        assert trio.current_time() == 4 + 1 + 4


async def test_a_job_between_two_attempts_holds_no_slot(autojump_clock: MockClock) -> None:
    hour = Backoff(3600.0, cap=3600.0, jitter=0.0)
    async with open_jobs(max_running=1) as jobs:
        flaky = jobs.start(Flaky(1), attempts=2, backoff=hour)
        assert await jobs.run(nap, 1) == Ok("rested")
        assert trio.current_time() == 1
        flaky.cancel()


# ---- several jobs


async def test_no_more_run_at_once_than_said(autojump_clock: MockClock) -> None:
    running = most = 0

    async def work() -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    async with open_jobs(max_running=3) as jobs:
        for _ in range(10):
            jobs.start(work)
    assert most == 3
    assert trio.current_time() == 4


async def test_those_that_wait_begin_in_the_order_of_their_start(
    autojump_clock: MockClock,
) -> None:
    order: list[int] = []

    async def work(number: int) -> None:
        order.append(number)
        await trio.sleep(1)

    async with open_jobs(max_running=1) as jobs:
        for number in range(10):
            jobs.start(work, number)
    assert order == list(range(10))


async def test_several_may_join_one_job_and_their_end_does_not_end_it(
    autojump_clock: MockClock,
) -> None:
    async with open_jobs() as jobs:
        job = jobs.start(nap, 10)
        with trio.move_on_after(1):
            await job.join()
        seen: list[Any] = []

        async def joins() -> None:
            seen.append(await job.join())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(joins)
            nursery.start_soon(joins)
        assert seen == [Ok("rested")] * 2
        assert await job.join() == Ok("rested")  # later, too


async def test_a_job_that_is_cancelled_before_it_has_a_slot_never_begins(
    autojump_clock: MockClock,
) -> None:
    async with open_jobs(max_running=1) as jobs:
        jobs.start(nap, 5)
        await trio.testing.wait_all_tasks_blocked()
        second = jobs.start(nap, 5)
        await trio.testing.wait_all_tasks_blocked()
        second.cancel()
        second.cancel()
        assert await second.join() == CalledOff(0)


async def test_who_is_cancelled_while_it_runs_a_job_leaves_none(autojump_clock: MockClock) -> None:
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
            cleaned = True

    async with open_jobs() as jobs:
        with trio.move_on_after(1):
            await jobs.run(work)
        assert cleaned
        assert jobs.pending == ()


async def test_an_error_of_a_cancelled_jobs_cleanup_is_not_lost(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise Broken("while cleaning up")

    async with open_jobs() as jobs:
        with trio.move_on_after(1):
            await jobs.run(work)
    assert "while cleaning up" in caplog.text


# ---- what nobody joins


async def test_a_failure_that_nobody_waits_for_is_logged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_jobs(name="mail") as jobs:
        jobs.start(breaks, 2.0)
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.getMessage() == "job mail/breaks#1: after 1 attempts: Broken: after 2"
    assert record.exc_info is not None


async def test_a_failure_that_somebody_gets_is_no_error_of_ours(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_jobs() as jobs:
        await jobs.run(breaks)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


# ---- periodic jobs


async def test_a_periodic_job_runs_at_its_ticks(autojump_clock: MockClock) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        ticks.append(trio.current_time())
        await trio.sleep(3)

    async with open_jobs() as jobs:
        periodic = jobs.every(10, tick)
        await trio.sleep(35)
        periodic.cancel()
        assert ticks == [10, 20, 30]
        await trio.sleep(35)
        assert len(ticks) == 3
        assert (periodic.runs, periodic.failures, periodic.skipped) == (3, 0, 0)


async def test_ticks_that_come_during_a_run_are_skipped(autojump_clock: MockClock) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        ticks.append(trio.current_time())
        await trio.sleep(25)

    async with open_jobs() as jobs:
        periodic = jobs.every(10, tick)
        await trio.sleep(99)
        assert ticks == [10, 40, 70]
        assert periodic.skipped == 6  # at 20, 30, 50, 60, 80 and 90
        periodic.cancel()


async def test_a_run_of_exactly_a_period_skips_nothing(autojump_clock: MockClock) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        ticks.append(trio.current_time())
        await trio.sleep(10)

    async with open_jobs() as jobs:
        periodic = jobs.every(10, tick)
        await trio.sleep(45)
        assert ticks == [10, 20, 30, 40]
        periodic.cancel()


async def test_a_crash_is_reported_and_the_period_goes_on(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_jobs() as jobs:
        periodic = jobs.every(10, breaks)
        await trio.sleep(35)
        assert (periodic.runs, periodic.failures) == (3, 3)
        assert isinstance(periodic.last, Failed)
        assert caplog.text.count("Broken: after 0") >= 3


async def test_leaving_lets_the_run_in_progress_end_and_no_other_begin(
    autojump_clock: MockClock,
) -> None:
    ended: list[float] = []

    async def tick() -> None:
        await trio.sleep(5)
        ended.append(trio.current_time())

    async with open_jobs() as jobs:
        jobs.every(10, tick)
        await trio.sleep(11)
    assert ended == [15]
    assert trio.current_time() == 15


async def test_leaving_does_not_wait_for_the_next_tick(autojump_clock: MockClock) -> None:
    async with open_jobs() as jobs:
        jobs.every(10, breaks)
        await trio.sleep(1)
    assert trio.current_time() == 1


# ---- leaving


async def test_leaving_waits_for_what_was_started(autojump_clock: MockClock) -> None:
    async with open_jobs(max_running=1) as jobs:
        started = [jobs.start(nap, 5) for _ in range(3)]
    assert trio.current_time() == 15
    assert [await job.join() for job in started] == [Ok("rested")] * 3


async def test_leaving_waits_no_longer_than_its_shutdown(autojump_clock: MockClock) -> None:
    async with open_jobs(shutdown=7, max_running=1) as jobs:
        started = [jobs.start(nap, 5) for _ in range(3)]
    assert trio.current_time() == 7
    outcomes = [await job.join() for job in started]
    assert outcomes == [Ok("rested"), CalledOff(1), CalledOff(0)]


async def test_an_error_of_the_body_cancels_them_and_passes_as_it_is(
    autojump_clock: MockClock,
) -> None:
    job: Job[str] | None = None
    with pytest.raises(Broken, match="the body"):
        async with open_jobs() as jobs:
            job = jobs.start(nap, 1000)
            await trio.sleep(1)
            raise Broken("the body")
    assert job is not None
    assert await job.join() == CalledOff(1)
    assert trio.current_time() == 1


async def test_what_ends_the_program_leaves_bare(autojump_clock: MockClock) -> None:
    async def interrupted() -> None:
        await trio.sleep(1)
        raise KeyboardInterrupt

    job: Job[str] | None = None
    with pytest.raises(KeyboardInterrupt):
        async with open_jobs() as jobs:
            job = jobs.start(nap, 1000)
            jobs.start(interrupted)
            await trio.sleep_forever()
    assert job is not None
    assert await job.join() == CalledOff(1)


async def test_a_block_that_was_left_takes_no_job(autojump_clock: MockClock) -> None:
    async with open_jobs() as jobs:
        pass
    with pytest.raises(ActorStopped):
        jobs.start(nap, 1)
    with pytest.raises(ActorStopped):
        await jobs.run(nap, 1)


async def test_a_job_may_start_others_while_the_block_is_left(autojump_clock: MockClock) -> None:
    outcomes: list[Any] = []

    async def first(jobs: Jobs) -> None:
        await trio.sleep(5)
        outcomes.append(await jobs.run(nap, 5))

    async with open_jobs() as jobs:
        jobs.start(first, jobs)
    assert outcomes == [Ok("rested")]


def test_cut_at_any_step_every_job_has_an_outcome_and_nothing_is_left() -> None:
    async def scenario(_: Callable[[int], None]) -> None:
        started: list[Job[Any]] = []
        try:
            async with open_jobs(max_running=2) as jobs:
                jobs.every(2, nap, 1)
                started += [jobs.start(nap, 1) for _ in range(2)]
                started.append(jobs.start(Flaky(1), attempts=2, backoff=STEADY))
                started.append(jobs.start(breaks, timeout=5))
                await jobs.run(nap, 3)
        finally:
            assert all(job.is_done for job in started)

    assert sweep(scenario) > 20


# ---- what cannot be meant

THREE: Any = 3
HALF: Any = 0.5

BAD: list[tuple[str, Callable[[Jobs], object], str]] = [
    ("a called function", lambda jobs: jobs.start(THREE), "is no function"),
    ("no attempt", lambda jobs: jobs.start(breaks, attempts=0), "attempts must be"),
    ("half an attempt", lambda jobs: jobs.start(breaks, attempts=HALF), "attempts must be"),
    ("a negative time", lambda jobs: jobs.start(breaks, timeout=-1), "timeout must be"),
    ("no period", lambda jobs: jobs.every(0, breaks), "a period must be"),
    ("never", lambda jobs: jobs.every(float("inf"), breaks), "a period must be"),
]


@pytest.mark.parametrize(("wrong", "says"), [pytest.param(b, c, id=a) for a, b, c in BAD])
async def test_what_cannot_be_meant_is_refused(
    wrong: Callable[[Jobs], object], says: str, autojump_clock: MockClock
) -> None:
    async with open_jobs() as jobs:
        with pytest.raises((ValueError, TypeError), match=says):
            wrong(jobs)
        assert jobs.pending == ()


@pytest.mark.parametrize("most", [0, -1, 1.5, float("nan")])
def test_at_least_one_job_runs(most: float) -> None:
    with pytest.raises(ValueError, match="max_running"):
        open_jobs(max_running=most)
