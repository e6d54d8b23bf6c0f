"""What is going on, folded from events, drawn and told."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from rich.console import Console
from rich.spinner import Spinner

from standby.cli.display import drawn, is_live, shown, told
from standby.cli.picture import Picture
from standby.cli.text import plain
from standby_actors.events import Event, emit


class Stage:
    """Feeds a picture with events, one second apart."""

    def __init__(self, *paths: str) -> None:
        self.picture = Picture()
        self.seq = 0
        planned = {"question": "What?", "model": "some/model", "files": list(paths)}
        self("explore.planned", "explore", planned)

    def __call__(self, kind: str, actor: str, data: Mapping[str, Any]) -> str | None:
        self.seq += 1
        event = Event(self.seq, float(self.seq), 0.0, kind, actor, 1, "", data)
        self.picture.take(event)
        return told(self.picture, kind, data.get("key", ""))

    def begins(self, path: str, subagent: str, doing: str = "") -> None:
        self("explore.began", "explore", {"key": path, "doing": doing})
        self("turn.began", subagent, {"key": path})

    def says(self, subagent: str, *pieces: str) -> None:
        for piece in pieces:
            self("subagent.text", subagent, {"delta": piece})

    def ends(self, path: str, subagent: str, status: str = "ok") -> str | None:
        self("turn.ended", subagent, {"key": path, "input_tokens": 900, "output_tokens": 30})
        return self("explore.ended", "explore", {"key": path, "status": status, "says": "Said."})


def screen(picture: Picture, width: int = 90, height: int = 24) -> list[str]:
    """What a terminal of that size shows."""
    paper = io.StringIO()
    console = Console(file=paper, width=width, height=height, force_terminal=False)
    console.print(drawn(picture, Spinner("dots"), height))
    return [line.rstrip() for line in paper.getvalue().splitlines()]


def test_the_picture_shows_who_does_what_with_tokens_and_time() -> None:
    stage = Stage("a.py", "b.py", "c.py")
    stage.begins("a.py", "scout#1")
    stage.says("scout#1", '{"answer": "It ', "runs.")
    stage.ends("a.py", "scout#1")
    stage.begins("b.py", "scout#2", "part 1 of 2")
    stage.says("scout#2", '{"answer": "It ', "waits")
    head, done, working, foot = screen(stage.picture)
    assert head.endswith("What?  some/model")
    assert done.split() == ["✓", "a.py", "5.0s", "↑900", "↓30", "Said."]
    assert working.split() == ["●", "b.py", "3.0s", "↓2", "part", "1", "of", "2:", "It", "waits"]
    assert "1 of 3 done · ↑900 ↓32 tokens · 0:10" in foot


def test_failures_are_counted_and_stay_in_sight() -> None:
    stage = Stage("a.py", "b.py")
    stage.begins("a.py", "scout#1")
    stage.ends("a.py", "scout#1", "timed_out")
    assert stage.picture.count("failed") == 1
    assert "✗ a.py" in "\n".join(screen(stage.picture))
    assert "0 of 2 done · 1 failed" in screen(stage.picture)[-1]


@pytest.mark.parametrize("height", [5, 10, 24])
def test_the_picture_is_never_higher_than_the_terminal(height: int) -> None:
    paths = [f"{number}.py" for number in range(60)]
    stage = Stage(*paths)
    for number, path in enumerate(paths[:50]):
        stage.begins(path, f"scout#{number}")
    for number, path in enumerate(paths[:30]):
        stage.ends(path, f"scout#{number}")
    assert len(screen(stage.picture, height=height)) < height


def test_a_narrow_terminal_gets_a_narrow_picture() -> None:
    stage = Stage("a/long/path/to/a/file/that/does/not/fit.py")
    stage.begins("a/long/path/to/a/file/that/does/not/fit.py", "scout#1")
    stage.says("scout#1", "word " * 50)
    for line in screen(stage.picture, width=40):
        assert len(line) <= 40


def test_the_turns_of_a_reduction_belong_to_its_work() -> None:
    stage = Stage("a.py")
    stage("explore.began", "explore", {"key": "the answer"})
    stage("turn.began", "synthesiser#1", {"key": "the answer@0.1"})
    stage("turn.ended", "synthesiser#1", {"key": "", "input_tokens": 5, "output_tokens": 2})
    assert stage.picture.rows["the answer"].input_tokens == 5


def test_what_it_does_not_know_changes_nothing() -> None:
    stage = Stage("a.py")
    stage("actor.spawned", "x", {})
    stage("subagent.text", "nobody#1", {"delta": "x"})
    stage("turn.began", "nobody#1", {"key": "elsewhere"})
    stage("turn.ended", "nobody#1", {"key": "elsewhere", "input_tokens": 1, "output_tokens": 1})
    assert stage.picture.count("waiting") == 1
    assert stage.picture.output_tokens == 0


def test_a_line_is_told_for_each_thing_that_ends() -> None:
    stage = Stage("a.py", "b.py")
    stage.begins("a.py", "scout#1")
    assert stage.ends("a.py", "scout#1") == "[1/2] a.py: Said.  (3.0s ↑900 ↓30)"
    stage.begins("b.py", "scout#2")
    waiting = stage("subagent.retry", "scout#2", {"seconds": 20.0, "error": "429"})
    assert waiting == "b.py: again in 20 s: 429"
    line = stage.ends("b.py", "scout#2", "failed")
    assert line is not None
    assert line.startswith("[2/2] b.py: failed: Said.")


async def test_without_a_terminal_there_are_lines(autojump_clock: trio.testing.MockClock) -> None:
    paper = io.StringIO()
    async with shown(Console(file=paper)):
        emit("explore.planned", "explore", question="?", model="some/model", files=["a.py"])
        emit("explore.stage", "explore", stage="summing up")
    assert paper.getvalue().splitlines() == [
        "reading 1 file with some/model",
        "summing up ...",
    ]


async def test_on_a_terminal_the_picture_is_gone_when_the_block_is_left() -> None:
    paper = io.StringIO()
    console = Console(file=paper, force_terminal=True, width=60, height=20)
    assert is_live(console)
    async with shown(console):
        emit("explore.planned", "explore", question="Why?", model="some/model", files=["a.py"])
        while "Why?" not in paper.getvalue():
            await trio.lowlevel.checkpoint()
    # Its last orders move up, clear the lines, and show the cursor again.
    assert paper.getvalue().rstrip().endswith("\x1b[2K")
    assert "\x1b[?25h" in paper.getvalue()


async def test_a_picture_that_is_cut_gives_the_terminal_back() -> None:
    paper = io.StringIO()
    with trio.CancelScope() as scope:
        async with shown(Console(file=paper, force_terminal=True, width=60, height=20)):
            while "\x1b[?25l" not in paper.getvalue():
                await trio.lowlevel.checkpoint()
            scope.cancel()
            await trio.sleep_forever()
    assert paper.getvalue().count("\x1b[?25l") == paper.getvalue().count("\x1b[?25h")


def test_nothing_of_a_file_can_command_a_terminal() -> None:
    assert plain("\x1b]0;title\x07 \x9b31m \udcff ok") == "\ufffd]0;title\ufffd \ufffd31m \ufffd ok"
