"""Coding agents from npm, installed once into a cache folder of the user's, never globally.

    python -m tests.support.clis [NAME...]

installs those, or the ones that are played with every time, and prints where they are.
``STANDBY_CLIS`` names another folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

PATIENCE_SECONDS = 600


@frozen
class Cli:
    """One coding agent."""

    name: str
    package: str
    version: str
    """What npm is asked for: releases that the tests were run against, or patches of them."""
    program: str


CLIS = {
    cli.name: cli
    for cli in (
        Cli("pi", "@mariozechner/pi-coding-agent", "~0.73.1", "pi"),
        Cli("codex", "@openai/codex", "~0.171.0", "codex"),
        # 2.1.197 is the last that runs on node 20.
        Cli("claude", "@anthropic-ai/claude-code", "2.1.197", "claude"),
        Cli("acp", "@zed-industries/claude-agent-acp", "~0.23.1", "claude-agent-acp"),
        Cli("gemini", "@google/gemini-cli", "~0.61.0", "gemini"),
        Cli("opencode", "opencode-ai", "~1.18.33", "opencode"),
        Cli("codex-acp", "@zed-industries/codex-acp", "~0.16.0", "codex-acp"),
    )
}


EVERY_TIME = ("pi", "codex", "claude", "acp")
"""Those that `.ci/run` plays with; the others take minutes more, which `--deep` has."""


def each_of(names: Iterable[str]) -> list[Any]:
    """A parameter for each of `names`; those that are not played with every time are deep."""
    return [
        pytest.param(name, id=name, marks=() if name in EVERY_TIME else pytest.mark.deep)
        for name in names
    ]


def folder() -> Path:
    """Where they are kept."""
    if named := os.environ.get("STANDBY_CLIS"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "standby-test-clis")


def installed(name: str) -> Path:
    """The program of the agent called `name`, installed if it is not there yet.

    Raises:
        RuntimeError: there is no npm, or it failed; its last words are in the error.
    """
    cli = CLIS[name]
    home = folder() / f"{cli.name}-{cli.version.strip('~')}"
    program = home / "node_modules" / ".bin" / cli.program
    if program.exists():
        return program
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(f"{cli.package} is installed by npm, which is not on the PATH")
    home.mkdir(parents=True, exist_ok=True)
    # Two test processes may want the same at once.
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            wanted = f"{cli.package}@{cli.version}"
            ran = subprocess.run(
                [npm, "install", "--no-audit", "--no-fund", "--prefix", str(home), wanted],
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                cwd=home,
            )
            if ran.returncode != 0 or not program.exists():
                raise RuntimeError(f"npm install {wanted} failed:\n{ran.stderr[-2_000:]}")
    return program


if __name__ == "__main__":
    for each in sys.argv[1:] or EVERY_TIME:
        began = time.monotonic()
        print(f"{each:8}{installed(each)}  {time.monotonic() - began:.1f} s")
        sys.stdout.flush()
