"""Goal lines L1, L2 and L4: many actors, many asks, and more mail than can be handled.

Counts and memory are asserted; times are printed, and compared nowhere.  The
sizes of the goal table run under the marker ``deep``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support.sources import ROOT

MIB = 1024 * 1024
HANGS = 300
"""Seconds after which a load is taken to hang."""


def load(name: str, size: int | str, seconds: float = 0) -> dict[str, Any]:
    """Run one load in a process of its own; what it reports."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.reliability.loads", name, str(size), str(seconds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    print(name, size, ended.stdout)
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def deep(*values: Any) -> Any:
    """A case that has the size of the goal table."""
    return pytest.param(*values, marks=pytest.mark.deep)


@pytest.mark.real
@pytest.mark.parametrize(("size", "most"), [(20_000, 256 * MIB), deep(100_000, 1024 * MIB)])
def test_l1_idle_actors_fit_into_memory_and_every_one_is_closed(size: int, most: int) -> None:
    report = load("idle", size)
    assert report["alive"] == report["closed"] == size
    assert report["answers"] == 100
    assert report["still alive"] == 0
    assert report["memory"] <= most


@pytest.mark.real
@pytest.mark.parametrize(("size", "seconds"), [(1_000, 1), deep(10_000, 60)])
def test_l2_every_ask_of_a_closed_loop_gets_its_own_answer(size: int, seconds: int) -> None:
    report = load("asks", size, seconds)
    assert report["asks"] > 0
    assert report["wrong"] == 0
    assert report["left"] == 0


@pytest.mark.real
@pytest.mark.parametrize("seconds", [1, deep(60)])
@pytest.mark.parametrize("overflow", ["raise", "drop_oldest", "drop_new"])
def test_l4_overload_costs_bounded_memory_and_every_refusal_is_counted(
    overflow: str, seconds: int
) -> None:
    report = load("overload", overflow, seconds)
    dropped = sum(report["drops"].values())
    assert report["handled"] + dropped == report["sent"]
    assert dropped > report["handled"]
    assert report["refused"] == (dropped if overflow == "raise" else 0)
    assert report["waiting at the end"] <= 1000
    assert report["growth"] <= 64 * MIB


@pytest.mark.real
@pytest.mark.parametrize("seconds", [1, deep(60)])
def test_l4_producers_that_wait_for_room_lose_nothing_and_hold_little(seconds: int) -> None:
    report = load("waiting senders", 50, seconds)
    assert report["handled"] == report["sent"] > 0
    assert report["drops"] == {}
    assert report["growth"] <= 64 * MIB
