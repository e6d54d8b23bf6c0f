"""`standby tree` as its user meets it: what is found, what is shown, and the exit codes."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from standby.cli import call
from standby.cli.tree import _cropped, drawn  # pyright: ignore[reportPrivateUsage]
from standby_actors import ChildStatus, Snapshot, SupervisorStatus, Tally
from standby_supervision.control import Forest, LookAtTree, Program
from standby_supervision.control.folder import Entry
from tests.support.model_server import SILENT
from tests.support.programs import PATIENCE

from .explorers import KEY, served

SERVING = """
    import logging
    import sys

    import trio

    import standby
    from standby import Actor, Backoff, child

    logging.disable()


    class Flaky(Actor):
        "Fails three times, then waits for another try that does not come."

        def receive(self, message):
            raise ValueError(f"try {message}")


    async def main():
        async with (
            standby.serve_control(title=sys.argv[1]),
            standby.open_supervisor(
                child(Flaky, id="flaky"),
                child(Flaky, id="calm"),
                intensity=10,
                period=60.0,
                backoff=Backoff(0.01, factor=1000.0, cap=3600.0, jitter=0.0),
            ) as tree,
        ):
            tree["flaky"].tell(1)
            while tree["flaky"].incarnation < 2:
                await trio.sleep(0.01)
            tree["flaky"].tell(2)
            while tree["flaky"].is_alive and tree["flaky"].snapshot().state != "restarting":
                await trio.sleep(0.01)
            print("ready", flush=True)
            await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    trio.run(main)
"""


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's runtime folder of this test's own."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    with tempfile.TemporaryDirectory(prefix="run") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield Path(place)


@contextmanager
def serving(title: str = "shop") -> Generator[subprocess.Popen[str]]:
    """A program that serves a control socket until it is sent a line."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVING), title],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "standby", "tree", *arguments]


# ---- with programs in processes of their own


@pytest.mark.real
def test_a_crash_looping_child_of_another_process_shows_its_restarts_and_last_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving() as process:
        assert call(["tree"]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert re.fullmatch(rf"shop  pid {process.pid}, for \d.*", shown[0])
        assert shown[1:3] == [
            "supervisor  idle",
            "└─ top  one_for_one, 1 of 2 up  2 restarts, 2 of 10 within 60 s",
        ]
        assert re.fullmatch(
            r"   ├─ flaky  restarting  life 2  again in [\d.]+ s"
            r"  last: crashed \(ValueError: try 2\)",
            shown[3],
        )
        assert shown[4:] == ["   └─ calm  idle"]


@pytest.mark.real
def test_json_is_the_tree_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as process:
        assert call(["tree", str(process.pid), "--json"]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        forest = msgspec.json.decode(line, type=Forest)
        assert forest.pid == process.pid
        (flaky,) = (each for each in forest.blocks[0] if each.name == "flaky")
        assert flaky.child is not None
        assert (flaky.child.restarts, flaky.child.last_reason) == (
            1,
            "crashed (ValueError: try 2)",
        )


@pytest.mark.real
def test_of_several_programs_one_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("one") as one, serving("two\x1b[2J") as two:
        assert call(["tree"]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "2 programs can be asked; say which, as in" in said.err
        assert f"standby tree {two.pid}" in said.err
        assert re.search(rf"{one.pid}  .*  one\n *{two.pid}  .*  two\ufffd\[2J\n", said.err)
        assert call(["tree", str(one.pid)]) == 0
        assert capsys.readouterr().out.startswith(f"one  pid {one.pid}, ")
        assert call(["tree", "1"]) == 1
        assert f"there are: {one.pid}, {two.pid}" in capsys.readouterr().err


@pytest.mark.real
def test_a_program_that_was_killed_is_not_there_any_more(
    capsys: pytest.CaptureFixture[str], runtime: Path
) -> None:
    with serving() as process:
        process.kill()
        process.wait()
        assert len(list((runtime / "standby").iterdir())) == 2
        assert call(["tree", str(process.pid)]) == 1
        assert f"no program {process.pid} can be asked: it has ended" in capsys.readouterr().err
        assert list((runtime / "standby").iterdir()) == []


@pytest.mark.real
def test_a_program_that_is_stopped_is_said_not_to_answer() -> None:
    with serving() as process:
        process.send_signal(signal.SIGSTOP)
        run = subprocess.run(
            command("--timeout", "0.2"), capture_output=True, text=True, check=False
        )
        process.send_signal(signal.SIGCONT)
        assert run.returncode == 1
        assert f"program {process.pid} does not answer: no answer within 0.2 s" in run.stderr


@pytest.mark.real
def test_watching_without_a_terminal_prints_look_after_look_until_the_program_ends() -> None:
    with (
        serving() as process,
        subprocess.Popen(
            command("--watch", "--every", "0.1", "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as watching,
    ):
        assert watching.stdout is not None
        assert watching.stderr is not None
        for _ in range(3):
            assert msgspec.json.decode(watching.stdout.readline(), type=Forest).pid == process.pid
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert f"program {process.pid} has ended" in watching.stderr.read()
        assert watching.wait() == 0


@pytest.mark.real
def test_watching_a_terminal_redraws_and_ctrl_c_leaves_it_as_it_was() -> None:
    with serving():
        ours, theirs = pty.openpty()
        watching = subprocess.Popen(
            ["setsid", "-c", *command("--watch", "--every", "0.1")],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        try:
            screen = read_until(ours, lambda text: text.count("again in") >= 3)
            os.write(ours, b"\x03")
            screen += read_until(ours, lambda text: "\x1b[?1049l" in text)
            assert watching.wait(PATIENCE) == 0
        finally:
            watching.kill()
            watching.wait()
            os.close(ours)
        # Another screen, no cursor; and at last both taken back.
        assert screen.count("\x1b[?1049h") == screen.count("\x1b[?1049l") == 1
        assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l")
        assert "Traceback" not in screen
        assert "\x1b[1;33mrestarting" in screen.replace("\x1b[1;38;5;3m", "\x1b[1;33m")


def read_until(file: int, enough: Callable[[str], bool]) -> str:
    """What comes out of a terminal until it is `enough`."""
    said = b""
    while not enough(said.decode(errors="replace")):
        ready, _, _ = select.select([file], [], [], PATIENCE)
        assert ready, said
        try:
            said += os.read(file, 65_536)
        except OSError:
            break  # the other side is closed
    return said.decode(errors="replace")


@contextmanager
def exploring(folder: Path) -> Generator[subprocess.Popen[str]]:
    """`standby run explore` in front of a model that never answers."""
    with served(lambda asked: SILENT) as server:
        environment = {**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
        run = [sys.executable, "-m", "standby", "run", "explore", "What?", "--in", str(folder)]
        with subprocess.Popen(
            [*run, "--model", "openai/gpt-5-mini"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.mark.real
def test_what_the_command_line_runs_can_be_asked_until_it_ends(
    runtime: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.py").write_text("alpha = 1\n")
    with exploring(tmp_path) as process:
        assert process.stderr is not None
        assert "reading 1 file with " in process.stderr.readline() + process.stderr.readline()
        assert call(["tree"]) == 0
        shown = capsys.readouterr().out
        assert f"pid {process.pid}, for" in shown
        assert re.search(r"run explore .* pid ", shown)
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    assert list((runtime / "standby").iterdir()) == []


@pytest.mark.real
def test_the_command_line_goes_on_where_no_socket_can_be_had(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("alpha = 1\n")
    (runtime / "standby").write_text("in the way")
    with exploring(tmp_path) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith("standby: control sockets cannot be kept in ")
        assert said.endswith("; going on without\n")
        assert "reading 1 file with " in process.stderr.readline() + process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130


# ---- without


def test_without_any_program_one_is_told_how_to_have_one(
    capsys: pytest.CaptureFixture[str], runtime: Path
) -> None:
    assert call(["tree"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "async with standby.serve_control():" in said.err
    assert str(runtime / "standby") in said.err
    assert not (runtime / "standby").exists()


def test_a_folder_that_is_not_private_is_an_error_and_not_a_traceback(
    capsys: pytest.CaptureFixture[str], runtime: Path
) -> None:
    (runtime / "standby").mkdir()
    (runtime / "standby").chmod(0o777)
    assert call(["tree"]) == 1
    assert "others may use it (mode 777, it must be 700)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["tree", "abc"], ["tree", "--most", "-1"], ["tree", "--every", "0"]]
)
def test_what_cannot_be_meant_is_misuse(arguments: list[str]) -> None:
    assert call(arguments) == 2


PROGRAM = Program(Entry(7, 1, 1, 0.0, "shop", ""), "7-1-1-00000000")


def worker(name: str, **more: object) -> Snapshot:
    fields = {"path": name, "kind": "Works", "state": "idle", "mailbox": 0, "waits_for": ""}
    return msgspec.convert({**fields, "incarnation": 1, "children": (), **more}, Snapshot)


def lines(forest: Forest, **asked: int) -> list[str]:
    return [each.plain for each in drawn(forest, PROGRAM, LookAtTree(**asked))][1:]


def test_very_many_children_are_a_few_lines_with_totals_by_state() -> None:
    status = SupervisorStatus("dynamic", 10_000, 9_999, 3, 5.0)
    top = worker(
        "top",
        children=[worker("a"), worker("b")],
        role="supervisor",
        supervisor=status,
        not_shown=[Tally("idle", 9_997), Tally("restarting", 1)],
    )
    assert lines(Forest(7, (top,))) == [
        "top  dynamic, 9,999 of 10,000 up",
        "├─ a  idle",
        "├─ b  idle",
        "└─ … and 9,998 more: 9,997 idle, 1 restarting",
    ]
    assert lines(Forest(7, (top,)), most=1)[1:] == [
        "├─ a  idle",
        "└─ … and 9,999 more: 9,998 idle, 1 restarting",
    ]


def test_no_block_and_more_blocks_than_are_shown_are_said() -> None:
    assert lines(Forest(7, ())) == ["no block is open"]
    assert lines(Forest(7, (worker("a"),), 1_200)) == ["a  idle", "… and 1,200 more blocks"]


def test_a_reason_cannot_order_the_terminal_about() -> None:
    child = ChildStatus("w", "permanent", 1, "crashed (ValueError: \x1b[2J\n)")
    (line,) = lines(Forest(7, (worker("w", child=child),)))
    assert line == "w  idle  last: crashed (ValueError: \ufffd[2J )"


def test_what_does_not_fit_on_the_screen_is_counted() -> None:
    children = [worker(f"w{number}") for number in range(50)]
    forest = Forest(7, (worker("top", children=children),))
    picture = drawn(forest, PROGRAM, LookAtTree(most=50))
    shown = _cropped(picture, 10)
    assert len(shown) == 10
    assert shown[-1].plain.startswith(f"… {len(picture) - 9} more lines")
    assert _cropped(picture, len(picture)) == picture
