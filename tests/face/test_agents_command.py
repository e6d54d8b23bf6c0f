"""`standby agents` as its user meets it: what is printed where, and the exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from standby.cli import call
from tests.actors.definitions.folders import Folders
from tests.actors.definitions.folders import folders as new_folders

PROJECT = "home/work/repository"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """A user in a project, as the command sees them."""
    made = new_folders(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(made.cwd)
    return made


def test_without_anything_of_ones_own_the_packages_agents_are_listed(
    folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["agents"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    heading, *lines = said.out.splitlines()
    assert heading.split("\t") == ["name", "lifetime", "model", "tools", "from", "description"]
    rows = {line.split("\t")[0]: line.split("\t") for line in lines}
    assert len(rows) == 9
    assert rows["coder"][1:4] == ["workflow", "default", "read grep find ls edit write"]
    assert rows["router"][3] == "none"


def test_what_is_hidden_is_told_and_is_no_failure(
    folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    near = folders.agent(f"{PROJECT}/.claude/agents/s.md", "scout", "hooks: {}")
    far = folders.agent("home/.standby/agents/s.md", "scout")
    assert call(["agents"]) == 0
    said = capsys.readouterr()
    assert f"{far}: hidden by {near}" in said.err.splitlines()
    assert f"{near}:4:1: warning: hooks has no effect here" in said.err


@pytest.mark.parametrize(
    ("head", "words"),
    [
        pytest.param("lifetime: workfow", ":4:1: error: lifetime cannot be 'workfow'", id="value"),
        pytest.param("tools: raed", ":4:1: error: spy names the tool 'raed'", id="tool"),
        pytest.param("skills: python", ":4:1: error: spy names the skill 'python'", id="skill"),
    ],
)
def test_what_is_broken_is_told_with_its_line_and_is_a_failure(
    folders: Folders, capsys: pytest.CaptureFixture[str], head: str, words: str
) -> None:
    file = folders.agent("home/.claude/agents/a.md", "spy", head)
    assert call(["agents"]) == 1
    assert f"{file}{words}" in capsys.readouterr().err
    assert call(["agents", "--scope", "project"]) == 0


def test_a_tool_of_ones_own_program_can_be_made_known(folders: Folders) -> None:
    folders.agent("home/.claude/agents/a.md", "spy", "tools: read, board")
    assert call(["agents"]) == 1
    assert call(["agents", "--tool", "board"]) == 0


def test_as_json_everything_is_one_object(
    folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    spy = folders.agent("home/.claude/agents/a.md", "spy", "lifetime: session", "tools: [read]")
    folders.agent("home/.claude/agents/b.md", "mole", "concurrency: 0")
    assert call(["agents", "--json", "--no-builtin"]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    found = json.loads(said.out)
    assert found["agents"] == [
        {
            "name": "spy",
            "description": "The spy.",
            "lifetime": "session",
            "model": None,
            "tools": ["read"],
            "source": "user",
            "path": str(spy),
        }
    ]
    (problem,) = found["problems"]
    assert (problem["agent"], problem["code"], problem["line"]) == ("mole", "bad-value", 4)
    assert found["scope"] == "both"
    assert str(folders.cwd / "agents") in found["searched"]


def test_a_folder_that_is_not_there_is_misuse(
    folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["agents", "--in", "gone"]) == 2
    assert "there is no folder 'gone'" in capsys.readouterr().err


def test_what_a_file_says_gives_the_terminal_no_orders(
    folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    head = '"description": "x"\n"\\e[2Jzork": "\\e[2J"'
    folders.write("home/.claude/agents/a.md", '---\nname: spy\ndescription: "\\e[2Ja\\tb"\n---\nx')
    folders.write("home/.claude/agents/b.md", f"---\nname: mole\n{head}\n---\nx")
    call(["agents", "--no-builtin"])
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert len(said.out.splitlines()[1].split("\t")) == 6


def on_a_terminal(columns: int, folders: Folders) -> str:
    """What the command shows on a terminal of that width."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (50, columns))
    environment = {**os.environ, "HOME": str(folders.home), "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    environment.pop("NO_COLOR", None)
    program = "import sys; from standby.cli import call; sys.exit(call(['agents']))"
    command = [sys.executable, "-c", program]
    shown = b""
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment):
        os.close(slave)
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # nobody writes any more
                break
            if not part:
                break
            shown += part
    os.close(master)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.real
@pytest.mark.parametrize("columns", [40, 79, 120])
def test_on_a_terminal_it_is_for_eyes_and_fits(folders: Folders, columns: int) -> None:
    folders.agent(f"{PROJECT}/src/part/agents/a.md", "spy", "lifetime: workfow", "color: red")
    folders.agent("home/.standby/agents/s.md", "scout", "color: red", "tools: [read]")
    shown = on_a_terminal(columns, folders)
    assert "\x1b[" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert all(len(line) <= columns for line in plain.splitlines())
    assert "agents/a.md:4:1" in plain
    assert "scout of standby is hidden by" in " ".join(plain.split())
    assert "9 agents, 1 hidden, 1 error" in " ".join(plain.split())
