"""The first command of README.md, run as a newcomer runs it, with a real model and no key."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.documents import ROOT, command_under

pytestmark = [pytest.mark.e2e, pytest.mark.real]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone of the commit under test, beside which there is nothing."""
    folder = tmp_path_factory.mktemp("newcomer") / "standby"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def newcomers_environment() -> dict[str, str]:
    """The environment without an environment of ours, and without a key to a larger model."""
    ours = ("VIRTUAL_ENV", "PYTHON", "OPENAI_", "ANTHROPIC_", "STANDBY_MODEL")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def test_the_first_command_answers_the_question(clone: Path) -> None:
    line = command_under("Run it")
    run = subprocess.run(
        ["bash", "-c", line],
        cwd=clone,
        env=newcomers_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(run.stdout)
    assert run.returncode == 0
    read = clone / "combinators"
    files = [file.relative_to(read) for file in read.rglob("*.py")]
    assert [str(file) for file in sorted(files) if str(file) not in run.stdout] == []
    # Nobody should take what a model of this size says for more than it is.
    assert "135M" in run.stdout
