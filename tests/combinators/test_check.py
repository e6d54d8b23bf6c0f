"""A check runs what others only read; it is bounded, and leaves no process behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from standby_combinators import Check, Loop, Signal, check

pytestmark = pytest.mark.real


def python(code: str) -> list[str]:
    """A command that runs `code`."""
    return [sys.executable, "-c", code]


async def test_a_command_that_fails_is_a_check_that_has_answered() -> None:
    code = "import sys; print('one', flush=True); print('two', file=sys.stderr, flush=True)"
    done = await check(python(f"{code}; print('three'); sys.exit(3)"))
    assert (done.ok, done.passed, done.code, done.value) == (True, False, 3, False)
    # Both streams, as they were written.
    assert done.output.endswith("failed with exit code 3\n\none\ntwo\nthree")
    good = await check(python("print('fine')"))
    assert (good.ok, good.passed, good.code) == (True, True, 0)


async def test_only_the_end_of_a_long_output_is_kept() -> None:
    done = await check(python("print('x' * 100_000 + 'the end')"), keep=20)
    report = done.output.partition("\n\n")[2]
    assert report.endswith("the end")
    assert len(report) <= 20


async def test_a_program_that_there_is_not_is_no_answer() -> None:
    done = await check(["no-such-program-here"])
    assert (done.ok, done.passed, done.status) == (False, False, "crashed")
    assert "no-such-program-here" in str(done.error)


async def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    done = await check(python("import time; print('begun', flush=True); time.sleep(60)"), seconds=1)
    assert done.status == "timed_out"
    assert "begun" in str(done.error)


async def test_a_check_that_is_called_off_ends_its_command() -> None:
    signal = Signal()
    async with trio.open_nursery() as nursery:

        async def call_off() -> None:
            await trio.sleep(0.3)
            signal.set("enough")

        nursery.start_soon(call_off)
        done = await check(python("import time; time.sleep(60)"), signal=signal)
    assert done.status == "aborted"
    assert (await check(python("pass"), signal=signal)).status == "aborted"


async def test_work_goes_on_until_its_check_passes(tmp_path: Path) -> None:
    asked: list[str] = []

    async def work(task: str) -> str:
        asked.append(task)
        await trio.Path(tmp_path / f"part{len(asked)}").touch()
        return "done"

    counts = python("import os, sys; n = len(os.listdir()); print(n, 'parts'); sys.exit(n < 2)")
    team = Loop([work, Check(counts, cwd=tmp_path)], until=lambda step, _: step.value is True)
    done = await team.ask("Make two parts.")
    assert (done.converged, done.iterations) == (True, 2)
    # What it said is what the worker is told.
    assert "1 parts" in asked[1]
    assert "failed with exit code 1" in asked[1]


def test_a_command_is_no_text() -> None:
    with pytest.raises(TypeError, match="not one text"):
        Check("pytest -q")
    with pytest.raises(ValueError, match="at least a program"):
        Check([])
