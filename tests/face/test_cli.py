"""`standby run explore` as its user meets it: what is printed where, and the exit codes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from standby.cli import call
from tests.support.model_server import SILENT, Answer, Asked, fails, says, streams

from .explorers import KEY, Team, served

QUESTION = "What does each module do?"

KEYS = ("OPENAI", "ANTHROPIC", "GEMINI", "OPENROUTER")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "one.py").write_text("alpha = 1\n")
    (tmp_path / "two.py").write_text("beta = 2\n")
    return tmp_path


@pytest.fixture(autouse=True)
def nobody_s_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STANDBY_MODEL", raising=False)
    for provider in KEYS:
        monkeypatch.delenv(f"{provider}_API_KEY", raising=False)
        monkeypatch.delenv(f"{provider}_BASE_URL", raising=False)
    # What rich looks at, so that the tests look the same everywhere.
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def asking(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Run]:
    """Runs the command in this process, in front of a script."""

    def ask(script: Callable[[Asked], Answer], directory: Path, *more: str) -> Run:
        with served(script) as server:
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            code = call(["run", "explore", QUESTION, "--in", str(directory), *more])
        said = capsys.readouterr()
        assert KEY not in said.out + said.err
        assert "Traceback" not in said.err
        return Run(code, said.out, said.err)

    return ask


class Run:
    """What one run of the command came to."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


@contextmanager
def started(
    script: Callable[[Asked], Answer], directory: Path, *more: str
) -> Generator[subprocess.Popen[str]]:
    """The command in a process of its own, in front of a script."""
    with served(script) as server:
        environment = {
            **os.environ,
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": server.base_url,
        }
        command = [sys.executable, "-m", "standby", "run", "explore", QUESTION, "--in"]
        with subprocess.Popen(
            [*command, str(directory), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def test_an_answer_is_on_stdout_and_progress_on_stderr(
    asking: Callable[..., Run], project: Path
) -> None:
    run = asking(Team(), project)
    assert run.code == 0
    assert run.out.splitlines()[:11] == [
        f"# {QUESTION}",
        "",
        "| file | answer | names |",
        "| --- | --- | --- |",
        "| one.py | It is about alpha. | alpha |",
        "| two.py | It is about beta. | beta |",
        "",
        "## Answer",
        "",
        "See one.py, two.py.",
        "",
    ]
    assert "Cited: one.py, two.py" in run.out
    assert "Checked: all 2 names occur in their files; 2 more names did not" in run.out
    assert "what was said of 1 file that nobody read was dropped" in run.out
    assert run.out.endswith("The model is openai/gpt-5-mini.\n")
    assert "[2/2] " in run.err
    assert "[3/3] the answer: See one.py, two.py." in run.err


def test_json_is_one_object_a_line_and_the_result_is_the_last(
    asking: Callable[..., Run], project: Path
) -> None:
    run = asking(Team(), project, "--json")
    assert run.code == 0
    *events, result = [json.loads(line) for line in run.out.splitlines()]
    assert result["type"] == "explore.result"
    assert result["status"] == "ok"
    assert result["cited"] == ["one.py", "two.py"]
    assert [each["names"] for each in result["files"]] == [["alpha"], ["beta"]]
    numbers = [event["seq"] for event in events]
    assert numbers == sorted(set(numbers))
    kinds = {event["type"] for event in events}
    assert {"explore.planned", "subagent.spawn", "subagent.text", "turn.ended"} <= kinds
    assert run.err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param([], "requires an argument", id="nothing"),
        pytest.param(["Q"], "--in", id="no directory"),
        pytest.param([" ", "--in", "."], "the question is empty", id="no question"),
        pytest.param(["Q", "--in", "missing"], "does not exist", id="a directory that is none"),
        pytest.param(["Q", "--in", __file__], "is a file, not a directory", id="a file"),
        pytest.param(["Q", "--in", ".", "--concurrency", "0"], "--concurrency", id="no scouts"),
        pytest.param(["Q", "--in", ".", "--timeout", "-1"], "--timeout", id="no time"),
        pytest.param(["Q", "--in", ".", "--concurrency", "x"], "--concurrency", id="no number"),
        pytest.param(["Q", "--in", ".", "--nonsense"], "--nonsense", id="an unknown option"),
        pytest.param(["Q", "--in", ".", "--model", "opanai/x"], "openai/x", id="a misspelt model"),
    ],
)
def test_misuse_is_2_and_says_what_is_wrong(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["run", "explore", *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.startswith("standby: ")
    assert said.out == ""


@pytest.mark.parametrize("command", [["nonsense"], ["run", "nonsense"]], ids=str)
def test_an_unknown_command_is_misuse(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(command) == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], "run"),
        (["run", "--help"], "explore"),
        (["run", "explore", "--help"], "--in"),
        (["--version"], "0."),
    ],
)
def test_help_and_version_are_answers(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(arguments) == 0
    assert words in capsys.readouterr().out


def test_an_empty_directory_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert call(["run", "explore", QUESTION, "--in", str(tmp_path)]) == 1
    assert "it is empty" in capsys.readouterr().err


def test_without_a_model_the_ways_to_get_one_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("standby_actors.models.local_weights", lambda: None)
    assert call(["run", "explore", QUESTION, "--in", str(project)]) == 1
    said = capsys.readouterr()
    for way in ("standby local install", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        assert way in said.err
    assert said.out == ""
    assert call(["run", "explore", QUESTION, "--in", str(project), "--json"]) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["type"] == "explore.failed"


def test_a_wrong_key_is_a_failure_that_does_not_show_it(
    asking: Callable[..., Run], project: Path
) -> None:
    run = asking(lambda asked: fails(401, f"Incorrect API key: {KEY}"), project)
    assert run.code == 1
    assert run.out == ""
    assert "not answered: no file was answered: one.py: " in run.err
    assert "401" in run.err


def test_too_many_requests_are_told_with_the_wait(
    asking: Callable[..., Run], project: Path
) -> None:
    run = asking(lambda asked: fails(429, "slow down", headers={"Retry-After": "5000"}), project)
    assert run.code == 1
    assert "429" in run.err
    assert "5000" in run.err


def test_a_server_that_is_down_is_a_failure_that_says_where(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        # Bound and not listened to: whoever connects is refused.
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        assert call(["run", "explore", QUESTION, "--in", str(project)]) == 1
    said = capsys.readouterr()
    assert f"nothing answers at {url}" in said.err
    assert said.out == ""


def test_a_stream_that_is_cut_midway_costs_its_file_and_not_the_answer(
    asking: Callable[..., Run], project: Path
) -> None:
    whole = says('{"answer": "It is', ' whole.", ', '"names": []}')

    def rule(path: str) -> Answer | None:
        return streams(*whole.events[:3]) if path == "two.py" else None

    run = asking(Team(rule), project)
    assert run.code == 0
    assert "two.py" not in run.out
    assert "standby: two.py: cut short: " in run.err
    assert "Read: 1 of 2 files." in run.out


def test_a_silent_server_is_left_when_the_time_is_up(
    asking: Callable[..., Run], project: Path
) -> None:
    def rule(path: str) -> Answer | None:
        return SILENT if path == "two.py" else None

    run = asking(Team(rule), project, "--timeout", "3", "--concurrency", "1")
    assert run.code == 1
    # What was answered until then is printed.
    assert "| one.py | It is about alpha. | alpha |" in run.out
    assert "standby: not answered: timed out after 3 s" in run.err
    assert "two.py: cancelled: cut while it was being read" in run.err


def test_files_that_are_not_read_are_named(asking: Callable[..., Run], project: Path) -> None:
    with (project / "huge.txt").open("wb") as file:
        file.truncate(1 << 30)
    (project / "photo.png").write_bytes(b"\x89PNG\0")
    (project / "latin.txt").write_bytes("caf\u00e9 au lait".encode("latin-1"))
    run = asking(Team(), project)
    assert run.code == 0
    assert "standby: huge.txt: not read: 1.1 GB, more than the limit of 1 MB" in run.err
    assert "standby: photo.png: not read: binary" in run.err
    assert "standby: latin.txt: 1 place not UTF-8, shown as \ufffd" in run.err


def test_what_a_model_says_cannot_command_the_terminal(
    asking: Callable[..., Run], project: Path
) -> None:
    def rule(path: str) -> Answer | None:
        said: dict[str, Any] = {"answer": "\x1b[2J\x07 clear | all", "names": ["alpha\x1b"]}
        return says(json.dumps(said)) if path == "one.py" else None

    run = asking(Team(rule), project)
    assert "\x1b" not in run.out + run.err
    assert "\\|" in run.out


@pytest.mark.real
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_ended_prints_what_was_answered_until_then(
    project: Path, signum: int, code: int
) -> None:
    def rule(path: str) -> Answer | None:
        return SILENT if path == "two.py" else None

    with started(Team(rule), project, "--concurrency", "1") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("[1/2]"):
                process.send_signal(signum)
                break
        out, err = process.communicate()
    assert process.returncode == code
    assert "| one.py | It is about alpha. | alpha |" in out
    assert "## Answer" not in out
    assert "standby: interrupted; 1 of 2 files were answered until then" in err
    assert "Traceback" not in err


@pytest.mark.real
def test_a_run_whose_terminal_goes_away_ends_and_tells_nobody(project: Path) -> None:
    with started(lambda asked: SILENT, project, "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if "explore.began" in line:
                process.send_signal(signal.SIGHUP)
                break
        # As when a terminal is closed: nobody reads what is said from here on.
        process.stdout.close()
        process.stderr.close()
        assert process.wait() == 129


@pytest.mark.real
def test_ctrl_c_in_json_ends_with_the_result_so_far(project: Path) -> None:
    with started(lambda asked: SILENT, project, "--json") as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "explore.began" in line:
                process.send_signal(signal.SIGINT)
                break
        out, _ = process.communicate()
    lines += out.splitlines()
    assert process.returncode == 130
    last = json.loads(lines[-1])
    assert last["type"] == "explore.result"
    assert last["answer"] == ""
    for line in lines:
        json.loads(line)


@pytest.mark.real
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_that_goes_away_ends_the_run_quietly(project: Path, more: list[str]) -> None:
    with started(Team(), project, *more) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        assert process.wait() == 1
    assert "Traceback" not in err
    assert "BrokenPipe" not in err
