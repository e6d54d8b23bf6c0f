"""The core keeps its promises where trio's innermost scope cannot be read.

It reads one private attribute of trio.  A release of trio may rename it, and then
everything but the speed must stay; so the core's own tests run once more without.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted(
    file.name
    for file in HERE.glob("test_*.py")
    if file != Path(__file__)
    and "open_nursery" in file.read_text("utf-8")
    # Sessions, and the subagents that hold them, wait for the world, never for the core.
    and not file.name.startswith(("test_sessions", "test_subagent"))
)


READERS = [
    "test_asking.py",
    "test_cancelling.py",
    "test_context.py",
    "test_dedicated.py",
    "test_killing.py",
    "test_nested_blocks.py",
    "test_scopes.py",
]
"""Those whose subject is what the read decides; the rest run without it in the long run."""


def run_without_the_read(*files: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
        + [str(HERE / file) for file in files],
        cwd=HERE.parent.parent,
        env={**os.environ, "STANDBY_NO_PRIVATE": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout), done.stdout


@pytest.mark.real
def test_what_reads_the_scope_is_right_without() -> None:
    run_without_the_read(*READERS)


@pytest.mark.deep
@pytest.mark.parametrize("file", FILES)
def test_the_core_is_right_without_the_private_read(file: str) -> None:
    run_without_the_read(file)


def test_the_files_of_the_core_are_found() -> None:
    assert {*READERS, "test_random_programs.py"} <= set(FILES)
