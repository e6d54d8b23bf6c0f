"""`standby run` at a terminal: what is seen, each key and order, and how the terminal is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support.model_server import Answer, says
from tests.support.terminals import AtTerminal, at_terminal, go_on, is_stopped

from .agents_at_hand import Playing, make_home
from .explorers import KEY, served

pytestmark = pytest.mark.real

CTRL_DEL, CTRL_X, CTRL_C, CTRL_Z, ESC, DOWN = "\x1b[3;5~", "\x18", "\x03", "\x1a", "\x1b", "\x1b[B"

STANDBY = [sys.executable, "-m", "standby"]


def never_ends(who: str, task: str) -> Answer:
    """Everybody says a little, and does not end."""
    whole = says("I am ", "looking")
    return whole.cut(len(whole.head) + sum(map(len, whole.events[:3])), "hold")


def environment(home: Path) -> dict[str, str]:
    left_out = ("STANDBY_MODEL", "CLAUDE_CONFIG_DIR", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    kept = {key: value for key, value in os.environ.items() if key not in left_out}
    path = os.pathsep.join(filter(None, [*sys.path, os.getcwd()]))
    return {**kept, "HOME": str(home), "PYTHONPATH": path, "OPENAI_API_KEY": KEY}


class Ready:
    """A home, and a place to write the answer to."""

    def __init__(self, folder: Path) -> None:
        self.home = make_home(folder)
        self.folder = folder
        self.playing = Playing()

    @contextmanager
    def run(
        self, *arguments: str, rule: Callable[[str, str], Answer | str | None]
    ) -> Generator[AtTerminal]:
        """The command at a terminal, its answer apart."""
        self.playing = Playing(rule)
        with (
            served(self.playing) as server,
            (self.folder / "out").open("wb") as out,
            at_terminal(
                [
                    *STANDBY,
                    "run",
                    arguments[0],
                    "--base-url",
                    server.base_url,
                    "--model",
                    "m",
                    *arguments[1:],
                ],
                env=environment(self.home),
                cwd=self.folder,
                stdout=out.fileno(),
            ) as program,
        ):
            yield program

    @property
    def answer(self) -> str:
        return (self.folder / "out").read_text()


@pytest.fixture
def ready(tmp_path: Path) -> Ready:
    return Ready(tmp_path)


def test_escape_cuts_the_turn_in_progress(ready: Ready) -> None:
    with ready.run("chain", "one", "two", "Where is it?", rule=never_ends) as program:
        program.until("chain one → two")
        program.until("I am looking")
        assert program.is_set_for_keys
        program.press(ESC)
        assert program.ended() == 130
        assert "standby: stopped: interrupted" in program.text
        assert program.is_as_before
    assert ready.answer == ""
    assert ready.playing.asked == [("one", "Where is it?")]


@pytest.mark.parametrize("keys", [CTRL_DEL, CTRL_X, "/stop\r"], ids=["ctrl+del", "ctrl+x", "/stop"])
def test_all_are_stopped_and_what_was_answered_is_printed(ready: Ready, keys: str) -> None:
    def rule(who: str, task: str) -> Answer | None:
        return None if who == "two" else never_ends(who, task)

    with ready.run("fan-out", "one", "two", "Where is it?", rule=rule) as program:
        program.until("two has seen: Where is it?")
        program.until("I am looking")
        program.press(keys)
        assert program.ended() == 130
        assert "standby: stopped: stopped by hand" in program.text
        assert program.is_as_before
    assert "two has seen: Where is it?" in ready.answer


def test_orders_are_typed_and_answered_while_it_runs(ready: Ready) -> None:
    with ready.run("fan-out", "one", "one", "two", "Go.", rule=never_ends) as program:
        program.until("3 at work")
        program.press("/stpo")
        program.until("> /stpo")
        program.press("\r")
        program.until("do you mean /stop?")
        program.press("/help\r")
        program.until("/steer scout#2 …  put a word into the turn in progress")
        program.until("ctrl+del, ctrl+x  stop all")
        # Of several turns none is cut until one is chosen.
        program.press(ESC)
        program.until("3 turns are in progress: choose one")
        program.press(DOWN)
        program.until("> ● ")
        program.until(" ")
        chosen = program.text.rpartition("> ● ")[2].split()[0]
        first, second = (each for each in ("one#1", "one#2", "two#1") if each != chosen)
        program.press(ESC)
        program.until(f"cut the turn of {chosen}")
        program.press(f"/steer {first} be brief\r")
        program.until(f"{first} reads it before it goes on")
        program.press(f"/stop {first}\r")
        program.until(f"{first} is down")
        program.press(f"/stop {chosen}\r")
        program.until(f"{chosen} has ended already")
        # Whoever is left need not be spelt out.
        program.press(f"/cu\t{second[:2]}\t\r")
        assert program.ended() == 130
        assert program.is_as_before
        assert all(f"✗ {each}" in program.text for each in ("one#1", "one#2", "two#1"))


def test_ctrl_c_stops_in_order_and_prints_what_there_is(ready: Ready) -> None:
    def rule(who: str, task: str) -> Answer | None:
        return None if who == "two" else never_ends(who, task)

    with ready.run("fan-out", "one", "two", "Where is it?", rule=rule) as program:
        program.until("two has seen")
        program.until("I am looking")
        program.press(CTRL_C)
        assert program.ended() == 130
        assert "standby: stopped: interrupted" in program.text
        assert "Traceback" not in program.text
        assert program.is_as_before
    assert "two has seen: Where is it?" in ready.answer


def test_ctrl_c_twice_ends_what_does_not_stop(ready: Ready) -> None:
    # A command that is deaf to what asks it to end.
    deaf = f"{sys.executable} -c 'import signal,time; signal.signal(15, signal.SIG_IGN);"
    deaf += ' print("deaf", flush=True); open("up", "w"); time.sleep(600)\''
    with ready.run("loop", "one", "Do it.", "--check", deaf, rule=lambda *_: "done") as program:
        program.until(lambda: (ready.folder / "up").exists())
        program.press(CTRL_C)
        program.until("stopping")
        program.press(CTRL_C)
        assert program.ended() == 130
        assert "Traceback" not in program.text
        assert program.is_as_before


def test_a_word_to_end_is_an_ordered_stop_too(ready: Ready) -> None:
    with ready.run("chain", "one", "Go.", rule=never_ends) as program:
        program.until("I am looking")
        program.process.terminate()
        assert program.ended() == 143
        assert program.is_as_before


def test_a_terminal_that_goes_away_ends_it(ready: Ready) -> None:
    with ready.run("chain", "one", "Go.", rule=never_ends) as program:
        program.until("I am looking")
        program.hang_up()
        assert program.process.wait(timeout=60) == 129


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(ready: Ready) -> None:
    with ready.run("chain", "one", "Go.", rule=never_ends) as program:
        program.until("I am looking")
        assert program.is_set_for_keys
        program.press(CTRL_Z)
        program.until(lambda: is_stopped(program.process.pid))
        assert program.is_as_before
        go_on(program)
        program.until(lambda: program.is_set_for_keys)
        program.until("chain one")
        program.press("/steer be brief\r")
        program.until("one#1 reads it before it goes on")
        program.press(ESC)
        assert program.ended() == 130
        assert program.is_as_before


def test_an_interview_at_the_terminal(ready: Ready) -> None:
    questions = iter(["Which shape?", "Which colour?", "Which size?"])

    def rule(who: str, task: str) -> str:
        if task.startswith("Ask no more."):
            return "The brief: " + " ".join(task.partition("## Answers")[2].split())
        return json.dumps({"question": next(questions), "options": ["round", "square"]})

    with ready.run("interview", "A thing", "--agent", "one", rule=rule) as program:
        program.until("Which shape?\r\n  1. round\r\n  2. square")
        program.until("answer >")
        program.press("2\r")
        program.until("> square")
        program.until("Which colour?")
        program.until("answer >")
        program.press("\r")
        program.until("type an answer, or press esc")
        # What is typed is edited, and is no order.
        program.press("grean\x7f\x7fen, stop\r")
        program.until("> green, stop")
        program.until("Which size?")
        program.until("answer >")
        program.press("so")
        program.until("answer > so")
        program.press(ESC)
        program.until("answer >  ")
        program.press(ESC)
        assert program.ended() == 0
        assert "(no more questions)" in program.text
        assert program.is_as_before
    assert ready.answer == "The brief: - Which shape? square - Which colour? green, stop\n"


def test_plain_lines_and_typed_orders_need_no_keys(ready: Ready) -> None:
    with ready.run("fan-out", "one", "two", "Go.", "--plain", rule=never_ends) as program:
        program.until("works on Go.")
        program.until("works on Go.")
        assert not program.is_set_for_keys
        assert "\x1b" not in program.raw
        program.press("/stpo\n")
        program.until("standby: there is no '/stpo'; do you mean /stop?")
        program.press("/cut one\n")
        program.until("standby: cut the turn of one#1")
        program.press("/stop two#1\n")
        assert program.ended() == 130
        assert "\x1b" not in program.raw


def test_a_task_may_be_piped_in_and_keys_pressed_all_the_same(ready: Ready) -> None:
    playing = Playing(never_ends)
    with served(playing) as server:
        line = f"echo Go. | '{sys.executable}' -m standby run chain one --model m --base-url "
        command = ["sh", "-c", line + server.base_url]
        with at_terminal(command, env=environment(ready.home), cwd=ready.folder) as program:
            program.until("I am looking")
            program.press(ESC)
            assert program.ended() == 130
            assert program.is_as_before
    assert playing.asked == [("one", "Go.\n")]


def test_in_the_background_the_terminal_is_left_alone(ready: Ready) -> None:
    with served(Playing()) as server:
        line = f"set -m; '{sys.executable}' -m standby run chain one Go. --model m --base-url "
        line += f"{server.base_url} & echo up; wait $!; echo code $?"
        command = ["bash", "-c", line]
        with at_terminal(command, env=environment(ready.home), cwd=ready.folder) as program:
            program.until("up")
            program.until(lambda: program.is_set_for_keys or "code" in program.text)
            assert not program.is_set_for_keys
            assert program.ended() == 0
            assert "code 0" in program.text
            assert "one has seen: Go." in program.text


_CRASHES = """
from standby.cli.terminal import open_terminal
with open_terminal() as terminal, terminal.keys() as is_set:
    print("set", is_set, flush=True)
    input()
    raise KeyError("crash")
"""


def test_a_crash_leaves_the_terminal_as_it_was(ready: Ready) -> None:
    command = [sys.executable, "-c", _CRASHES]
    with at_terminal(command, env=environment(ready.home), cwd=ready.folder) as program:
        program.until("set True")
        assert program.is_set_for_keys
        program.press("\n")
        assert program.ended() == 1
        assert "KeyError" in program.text
        assert program.is_as_before


_HANGS = """
import time
import standby
from standby.cli.terminal import open_terminal

async def main():
    with open_terminal() as terminal, terminal.keys() as is_set:
        print("set", is_set, flush=True)
        while True:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                pass

standby.run(main, hard_exit=0.2)
"""


def test_a_hard_exit_leaves_the_terminal_as_it_was(ready: Ready) -> None:
    command = [sys.executable, "-c", _HANGS]
    with at_terminal(command, env=environment(ready.home), cwd=ready.folder) as program:
        program.until("set True")
        assert program.is_set_for_keys
        program.press(CTRL_C)
        program.press(CTRL_C)
        program.until("exit 70")
        assert program.ended() == 70
        assert program.is_as_before


def test_an_interview_on_a_page(ready: Ready) -> None:
    questions = iter(['{"question": "Which shape?", "options": ["round"]}', "READY"])

    def rule(who: str, task: str) -> str:
        return "The brief." if task.startswith("Ask no more.") else next(questions)

    with ready.run("interview", "A thing", "--agent", "one", "--web", rule=rule) as program:
        program.until("answer at http://127.0.0.1:")
        program.until("/\r\n")
        url = program.text.partition("answer at ")[2].split()[0]
        with httpx2.Client(timeout=60) as client:
            with client.stream("GET", f"{url}events") as events:
                for line in events.iter_lines():
                    if "Which shape?" in line:
                        break
            assert client.post(f"{url}answer", json={"id": 1, "option": 0}).status_code == 204
        assert program.ended() == 0
        assert "Which shape?" in program.text
        assert "> round" in program.text
        assert program.is_as_before
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(url)
    assert ready.answer == "The brief.\n"


def test_without_a_terminal_nothing_is_drawn_and_nobody_is_waited_for(ready: Ready) -> None:
    with served(Playing()) as server, tempfile.TemporaryFile() as err:
        done = subprocess.run(
            [*STANDBY, "run", "chain", "one", "Go.", "--model", "m", "--base-url", server.base_url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            env=environment(ready.home),
            cwd=ready.folder,
            start_new_session=True,
            check=False,
        )
        err.seek(0)
        said = err.read().decode()
    assert (done.returncode, done.stdout) == (0, b"one has seen: Go.\n")
    assert "\x1b" not in said
    assert "one#1: works on Go." in said


def test_a_signal_without_a_terminal_stops_in_order(ready: Ready) -> None:
    with served(Playing(never_ends)) as server:
        process = subprocess.Popen(
            [
                *STANDBY,
                "run",
                "chain",
                "one",
                "Go.",
                "--model",
                "m",
                "--base-url",
                server.base_url,
                "--json",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=environment(ready.home),
            cwd=ready.folder,
            preexec_fn=_take_ctrl_c,
        )
        assert process.stdout is not None
        with process.stdout as out:
            lines: list[bytes] = []
            for line in out:
                lines.append(line)
                if b"subagent.text" in line and b"looking" in line:
                    process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    result = json.loads(lines[-1])
    assert (result["type"], result["exit_code"]) == ("run.result", 130)
    assert result["status"] == "stopped"


def _take_ctrl_c() -> None:
    # A shell that starts tests in the background has it ignored, and that is inherited.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
