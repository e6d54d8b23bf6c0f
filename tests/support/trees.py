"""Process trees as tests see them: who is alive, and hosts that are killed."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

SPOT = "STANDBY_TEST_SPOT"


def new_spot() -> str:
    """A word to mark the environment of a tree with, so that :func:`spotted` finds it."""
    return secrets.token_hex(8)


def spotted(spot: str, variable: str = SPOT) -> list[int]:
    """The processes whose environment carries `spot` in `variable`, the dead left out."""
    wanted = f"{variable}={spot}".encode()
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                environ = Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue
            if wanted in environ.split(b"\0"):
                found.append(int(name))
    return found


def alive(pid: int) -> bool:
    """Whether `pid` runs; a zombie does not."""
    try:
        state = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def parent_of(pid: int) -> int:
    """Who started `pid`, or took it over."""
    return int(Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])


def wait_until_gone(spot: str, seconds: float, variable: str = SPOT) -> float:
    """Wait until nothing carries `spot` in `variable`; the seconds that it took.

    Raises:
        AssertionError: something is alive after `seconds`; it was killed.
    """
    began = time.monotonic()
    while left := spotted(spot, variable):
        if time.monotonic() - began > seconds:
            names = [Path("/proc", str(pid), "cmdline") for pid in left]
            told = [name.read_bytes() for name in names if name.exists()]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"alive after {seconds} s: {told}")
        time.sleep(0.005)
    return time.monotonic() - began


@contextmanager
def host(source: str, *, stdin: int | None = None) -> Generator[subprocess.Popen[str]]:
    """A Python program in a process of its own, which is killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(source)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, os.getcwd()]))},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
