"""`standby runs`, `resume`, `respond`, `confirm`, `cancel`: programs that are killed, and go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real
STANDBY = [sys.executable, "-m", "standby"]
PROGRAM = """
import standby, sys, trio
from pathlib import Path

async def scout(task):
    with Path("played").open("a") as file:
        file.write(task + "\\n")
    return f"seen {task}"

async def main():
    async with standby.open_workspace(".") as workspace, workspace.open_run("nightly") as run:
        print(run.id, file=sys.stderr, flush=True)
        said = [(await run.turn(scout, task)).output for task in "ab"]
        answer = await run.ask_human("Land it?", choices=("yes", "no"))
        run.output = f"{', '.join(said)}: {answer}"
    print(run.output)

standby.run(main)
"""


def standby(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call the command line in a folder."""
    return subprocess.run(
        [*STANDBY, *words], cwd=folder, capture_output=True, text=True, timeout=120
    )


def begin(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the program; it, and the id of its run, once it waits for an answer."""
    (folder / "nightly.py").write_text(PROGRAM)
    program = subprocess.Popen(
        [sys.executable, "nightly.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    run = program.stderr.readline().strip()
    while not shown(folder)["questions"]:
        if program.poll() is not None:
            raise AssertionError(program.stderr.read())
    return program, run


def shown(folder: Path) -> dict[str, Any]:
    """The newest run of a folder."""
    told = standby(folder, "runs", "--json")
    assert (told.returncode, told.stderr) == (0, "")
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[0])
    return found


def test_a_program_that_was_killed_goes_on_and_is_answered(tmp_path: Path) -> None:
    program, run = begin(tmp_path)
    program.kill()
    program.communicate()
    assert shown(tmp_path)["state"] == "interrupted"
    (question,) = shown(tmp_path)["questions"]
    assert standby(tmp_path, "respond", question["id"][:6], "maybe").stderr == (
        "standby: 'maybe' is no answer to 'Land it?': say yes or no\n"
    )
    assert standby(tmp_path, "respond", question["id"][:6], "yes").returncode == 0
    done = standby(tmp_path, "resume", run[:9])
    assert (done.returncode, done.stdout) == (0, "seen a, seen b: yes\n")
    assert (tmp_path / "played").read_text() == "a\nb\n"
    found = shown(tmp_path)
    assert (found["state"], found["lives"], found["turns"]) == ("completed", 2, 2)
    again = standby(tmp_path, "resume", run)
    assert again.returncode == 1
    assert "is completed; there is nothing to go on with" in again.stderr


def test_a_program_at_work_is_answered_from_outside(tmp_path: Path) -> None:
    program, run = begin(tmp_path)
    assert f"{run} is at work already" in standby(tmp_path, "resume", run).stderr.replace("'", "")
    (question,) = shown(tmp_path)["questions"]
    assert standby(tmp_path, "respond", question["id"], "no", "--by", "ann").returncode == 0
    out, _ = program.communicate(timeout=60)
    assert out == "seen a, seen b: no\n"
    late = standby(tmp_path, "respond", question["id"], "yes")
    assert late.returncode == 1
    assert "there is no open question" in late.stderr


def test_a_program_at_work_is_cancelled_from_outside(tmp_path: Path) -> None:
    program, run = begin(tmp_path)
    assert standby(tmp_path, "cancel", run, "--why", "enough").returncode == 0
    program.communicate(timeout=60)
    found = shown(tmp_path)
    assert (found["state"], found["error"], found["agents"]) == ("cancelled", "enough", [])
    assert "is over already: cancelled" in standby(tmp_path, "cancel", run).stderr


def test_what_people_see(tmp_path: Path) -> None:
    program, run = begin(tmp_path)
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()
    listed = standby(tmp_path, "runs").stdout
    assert listed.splitlines()[0].split() == ["RUN", "STATE", "AGE", "STEPS", "COST"]
    assert "interrupted" in listed
    assert "waits for an answer" in listed
    one = standby(tmp_path, "runs", run).stdout
    assert "asks     Land it? (yes / no)" in one
    assert f"go on    standby resume {run}" in one


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runs", "none"], "there is no run 'none' here"),
        (["resume", "none"], "there is no run 'none' here"),
        (["confirm", "none"], "there is no run 'none' here"),
        (["cancel", "none"], "there is no run 'none' here"),
        (["respond", "none", "yes"], "there is no open question 'none' here"),
    ],
)
def test_what_is_not_there_is_said(words: list[str], said: str, tmp_path: Path) -> None:
    nothing = standby(tmp_path, *words)
    assert nothing.returncode == 1
    assert "there are no runs in" in nothing.stderr
    assert not (tmp_path / ".standby").exists()
    program, _ = begin(tmp_path)
    program.kill()
    program.communicate()
    wrong = standby(tmp_path, *words)
    assert wrong.returncode == 1
    assert said in wrong.stderr
