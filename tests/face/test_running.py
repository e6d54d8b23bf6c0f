"""Running a program: what comes back, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from standby_actors import Actor, open_nursery, run, run_sync, tune_gc


class Doubler(Actor):
    """Answers twice the number."""

    def receive(self, message: int) -> int:
        """Double it."""
        return 2 * message


async def double(number: int, *, times: int = 1) -> int:
    async with open_nursery() as nursery:
        doubler = nursery.spawn(Doubler)
        for _ in range(times):
            number = await doubler.ask(number)
    return number


async def fail() -> None:
    raise ValueError("as it is")


def test_run_returns_what_main_returns() -> None:
    assert run(double, 21) == 42


def test_run_raises_what_main_raises() -> None:
    with pytest.raises(ValueError, match="as it is"):
        run(fail)


def test_run_takes_a_clock() -> None:
    assert run(_a_day, clock=trio.testing.MockClock(autojump_threshold=0)) == 86_400


async def _a_day() -> float:
    await trio.sleep(86_400)
    return trio.current_time()


def test_run_works_in_any_thread() -> None:
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(run(double, 21, hard_exit=30)))
    thread.start()
    thread.join()
    assert got == [42]


def test_a_call_in_place_of_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match="not the call double"):
        run(double(21))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not the call double"):
        run_sync(double(21))  # type: ignore[arg-type]


def test_a_hard_exit_is_in_seconds() -> None:
    with pytest.raises(ValueError, match="hard_exit must be a number of seconds"):
        run(double, 21, hard_exit=-1)


def test_run_sync_calls_an_async_function() -> None:
    assert run_sync(double, 5, times=3) == 40
    with pytest.raises(ValueError, match="as it is"):
        run_sync(fail)


async def test_run_sync_inside_trio_says_to_await() -> None:
    with pytest.raises(RuntimeError, match=r"write `await double\(…\)`"):
        run_sync(double, 1)


async def test_run_sync_works_in_a_worker_thread_of_trio() -> None:
    assert await trio.to_thread.run_sync(lambda: run_sync(double, 21)) == 42


def test_run_sync_inside_asyncio_runs_in_a_thread() -> None:
    async def cell() -> int:
        with pytest.raises(ValueError, match="as it is"):
            run_sync(fail)
        return run_sync(double, 5, times=3)

    assert asyncio.run(cell()) == 40
    assert "standby run_sync" not in [thread.name for thread in threading.enumerate()]


@pytest.fixture
def thresholds() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)
    gc.unfreeze()


def test_tuning_the_collector_returns_what_it_was(thresholds: tuple[int, int, int]) -> None:
    gc.unfreeze()  # every test begins with what is there set aside
    assert tune_gc() == thresholds
    assert gc.get_threshold() == (100_000, 50, 1_000)
    assert gc.get_freeze_count() == 0
    assert tune_gc(freeze=True) == (100_000, 50, 1_000)
    assert gc.get_freeze_count() > 0
