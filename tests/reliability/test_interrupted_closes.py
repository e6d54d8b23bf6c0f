"""Case C05 and its kind: Ctrl-C during a close ends the program, and loses nobody.

Real processes and real signals.  The times are generous bounds for hanging, not
claims about speed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from typing import Any

import pytest
import trio

from tests.support.sources import ROOT

SEEDS = 50
AT_ONCE = 25
HANGS = 60.0
"""Seconds after which a program is taken to hang; it needs three."""


async def interrupted(door: str, waits: list[float]) -> tuple[int, dict[str, Any]]:
    """Run the program, send SIGINT after each of `waits`; its exit code and report."""
    command = [sys.executable, "-m", "tests.reliability.interrupted", door]
    async with trio.open_nursery() as nursery:
        process: Any = await nursery.start(
            partial(
                trio.run_process,
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                check=False,
            )
        )
        output = b""
        with trio.fail_after(HANGS):
            while b"closing" not in output:
                chunk = await process.stdout.receive_some()
                assert chunk, "it ended before it began to close"
                output += chunk
            for wait in waits:
                await trio.sleep(wait)
                process.send_signal(signal.SIGINT)
            async for chunk in process.stdout:
                output += chunk
            errors = b"".join([chunk async for chunk in process.stderr])
            code = await process.wait()
    last = output.splitlines()[-1]
    assert last.startswith(b"{"), errors.decode()
    return code, json.loads(last)


def check(code: int, report: dict[str, Any]) -> None:
    """An interrupt, everybody has ended, and no hook was begun and forgotten."""
    # On a busy machine the signal may come when all is over: then nothing is cut.
    was_late = code == 0 and report["reasons"] == ["Shutdown"] * 5
    assert was_late or code in (130, -signal.SIGINT)
    assert report["alive"] == [False] * 5
    assert set(report["reasons"]) <= {"Shutdown", "Killed"}
    assert set(report["hooks"].values()) <= {"done", "cut"}
    for number, reason in enumerate(report["reasons"]):
        # Only a hook that ran to its end makes a stop of it.
        assert (reason == "Shutdown") == (report["hooks"].get(str(number)) == "done")


async def interrupted_often(door: str, signals: int, seeds: int) -> list[Counter[str]]:
    """Interrupt so many programs; what became of the hooks of each."""
    hooks: list[Counter[str]] = []
    limit = trio.CapacityLimiter(AT_ONCE)

    async def once(seed: int) -> None:
        first = random.Random(seed).random() * 0.6
        async with limit:
            code, report = await interrupted(door, [first, *[0.2] * (signals - 1)])
        try:
            check(code, report)
        except AssertionError as error:
            error.add_note(f"seed {seed}: exit code {code}, {report}")
            raise
        hooks.append(Counter(report["hooks"].values()))

    async with trio.open_nursery() as nursery:
        for seed in range(seeds):
            nursery.start_soon(once, seed)
    return hooks


def cut_short(hooks: list[Counter[str]]) -> int:
    """How many of the programs left close hooks undone; none cut more than one."""
    assert all(each["cut"] <= 1 for each in hooks)
    return sum(each["done"] < 5 for each in hooks)


@pytest.mark.real
@pytest.mark.parametrize("seeds", [10, pytest.param(SEEDS, marks=pytest.mark.deep)])
async def test_under_trio_a_ctrl_c_during_the_close_makes_it_a_kill_of_what_is_left(
    seeds: int,
) -> None:
    assert cut_short(await interrupted_often("trio", 1, seeds)) > seeds / 2


@pytest.mark.real
async def test_under_run_the_first_ctrl_c_during_the_close_lets_it_end_in_order() -> None:
    assert cut_short(await interrupted_often("standby", 1, SEEDS)) == 0


@pytest.mark.real
@pytest.mark.parametrize("door", ["trio", "standby"])
async def test_a_second_ctrl_c_only_shortens_the_wait(door: str) -> None:
    assert cut_short(await interrupted_often(door, 2, 10)) > 5
