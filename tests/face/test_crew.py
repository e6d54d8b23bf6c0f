"""Who is at work, folded from events; drawn, never higher than the terminal; and told in lines."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from standby.cli.crew import Crew, told
from standby.cli.line import Line
from standby.cli.scene import Scene, drawn, summary, typed
from standby_actors.events import Event


class Playing:
    """Feeds a crew with the events of subagents, one second apart."""

    def __init__(self) -> None:
        self.crew = Crew()
        self.seq = 0

    def __call__(self, kind: str, who: str, parent: str = "", **data: Any) -> str | None:
        self.seq += 1
        event = Event(self.seq, float(self.seq), 0.0, kind, who, 1, parent, data)
        self.crew.take(event)
        return told(self.crew, event)

    def spawns(self, who: str, parent: str = "") -> None:
        agent = who.partition("#")[0]
        self("subagent.spawn", who, parent, agent=agent, model="m", lifetime="task", source="x")
        self("subagent.status", who, parent, status="idle")

    def works(self, who: str, task: str = "Where is it?") -> str | None:
        return self("subagent.status", who, status="working", task=task)

    def says(self, who: str, *pieces: str) -> None:
        for piece in pieces:
            self("subagent.text", who, delta=piece)

    def ends(self, who: str, status: str = "ok", output: str = "There.") -> str | None:
        usage: dict[str, Any] = {"turns": 1, "input_tokens": 1200, "output_tokens": 30}
        self("subagent.usage", who, **usage, cost_usd=0.004)
        said = self("subagent.turn", who, status=status, error=None, output=output)
        self("subagent.status", who, status="idle")
        return said

    def scene(self, **more: Any) -> Scene:
        return Scene("chain scout → planner", "Where is it?", self.crew, **more)


def screen(what: Any, width: int = 90) -> list[str]:
    paper = io.StringIO()
    Console(file=paper, width=width, force_terminal=False).print(what)
    return [line.rstrip() for line in paper.getvalue().splitlines()]


def test_each_is_shown_with_its_state_turn_words_usage_and_time() -> None:
    playing = Playing()
    playing.spawns("scout#1")
    playing.works("scout#1")
    playing.says("scout#1", "It ", "is")
    playing.ends("scout#1")
    playing.spawns("planner#1")
    playing.works("planner#1")
    playing.says("planner#1", "I would ", "begin")
    lines = screen(drawn(playing.scene(line=Line("/st", 3)), 24, 90))
    assert lines[0].endswith("chain scout → planner")
    assert lines[1] == "  Where is it?"
    assert lines[2].split() == ["✓", "scout#1", "4.0s", "↑1.2k", "↓30", "$0.0040", "There."]
    assert lines[3].split() == ["●", "planner#1", "2.0s", "↓2", "I", "would", "begin"]
    assert lines[4].strip() == "1 at work · 2 turns · ↑1.2k ↓32 · $0.0040 · 0:12"
    assert "esc cuts the turn" in lines[5]
    assert lines[6] == "> /st"


def test_of_what_is_being_said_the_end_is_shown() -> None:
    playing = Playing()
    playing.spawns("scout#1")
    playing.works("scout#1")
    playing.says("scout#1", *("word " for _ in range(60)), "last")
    [row] = [line for line in screen(drawn(playing.scene(), 24, 90)) if "scout#1" in line]
    assert row.endswith("word last")
    assert "…" in row


def test_a_turn_that_failed_says_how_and_keeps_what_was_said() -> None:
    playing = Playing()
    playing.spawns("scout#1")
    playing.works("scout#1")
    playing.says("scout#1", "half of")
    assert playing.ends("scout#1", "timed_out", "") == (
        "scout#1: timed out: half of  (3.0s ↑1.2k ↓30 $0.0040)"
    )
    assert "✗ scout#1  3.0s ↑1.2k ↓30 $0.0040 timed out half of" in "\n".join(
        screen(drawn(playing.scene(), 24, 90))
    )


def test_tools_retries_words_and_delegates_are_told() -> None:
    playing = Playing()
    playing.spawns("scout#1")
    playing.works("scout#1")
    playing("subagent.tool", "scout#1", call="1", name="grep", arguments='{"pattern": "date"}')
    assert playing.crew.hands["scout#1"].words == 'grep {"pattern": "date"}'
    playing("subagent.tool_end", "scout#1", call="1", name="grep", is_error=True, seconds=1.0)
    assert playing.crew.hands["scout#1"].words == "grep failed"
    line = playing("subagent.retry", "scout#1", attempt=1, seconds=20.0, error="429")
    assert line == "scout#1: again in 20 s (429)"
    assert playing("subagent.steer", "scout#1", text="be brief") == "scout#1: heard 'be brief'"
    playing.spawns("helper#1", "scout#1")
    rows = screen(drawn(playing.scene(), 24, 90))
    assert any(line.split()[:3] == ["○", "└", "helper#1"] for line in rows)


def test_a_check_is_one_of_the_crew() -> None:
    playing = Playing()
    assert playing("check.began", "check", command="pytest -q") == "check: runs pytest -q"
    line = playing("check.ended", "check", status="failed", says="exit code 1")
    assert line == "check: failed: exit code 1  (1.0s)"


@pytest.mark.parametrize("height", [3, 5, 10, 24])
@pytest.mark.parametrize("width", [20, 60, 200])
def test_the_picture_fits_into_the_terminal(height: int, width: int) -> None:
    playing = Playing()
    for number in range(60):
        playing.spawns(f"scout#{number}")
        playing.works(f"scout#{number}", "a task that is much longer than a line " * 5)
    for number in range(30):
        playing.ends(f"scout#{number}", output="words " * 100)
    scene = playing.scene(line=Line("/steer " + "x" * 300, 300), notices=["a word " * 50] * 20)
    lines = screen(drawn(scene, height, width), width)
    # Of one that has less than five lines, what does not fit is cut by whoever draws it.
    assert len(lines) <= max(4, height - 1)
    assert all(len(line) <= width for line in lines)


def test_those_at_work_are_seen_before_those_who_are_done() -> None:
    playing = Playing()
    for number in range(30):
        playing.spawns(f"done#{number}")
        playing.works(f"done#{number}")
        playing.ends(f"done#{number}")
    for number in range(6):
        playing.spawns(f"busy#{number}")
        playing.works(f"busy#{number}")
    text = "\n".join(screen(drawn(playing.scene(), 16, 90)))
    assert all(f"busy#{number}" in text for number in range(6))
    assert "done#29" in text
    assert "done#1 " not in text


def test_the_cursor_is_seen_also_in_a_long_line() -> None:
    line = Line("x" * 200 + "end", 203)
    assert typed(">", line, 40).plain.endswith("end ")
    assert typed(">", Line("x" * 200, 0), 40).plain.startswith("> xxx")


def test_what_remains_is_a_row_each_and_what_it_cost() -> None:
    playing = Playing()
    for number in range(50):
        playing.spawns(f"scout#{number}")
        playing.works(f"scout#{number}")
        playing.ends(f"scout#{number}")
    lines = screen(summary(playing.scene()))
    assert lines[0] == "  and 10 before them"
    assert lines[-1].startswith("  chain scout → planner · 50 turns · 4:")
    assert "↑60k ↓1.5k · $0.2000" in lines[-1]


def test_what_it_does_not_know_changes_nothing() -> None:
    playing = Playing()
    assert playing("actor.spawned", "x") is None
    assert playing("turn.began", "scout#1", key="x") is None
    assert playing("explore.stage", "explore", stage="x") is None
    assert playing.crew.hands == {}


def test_nothing_that_is_said_can_command_the_terminal() -> None:
    playing = Playing()
    playing.spawns("scout#1")
    playing.works("scout#1", "\x1b[2J")
    playing.says("scout#1", "\x1b]0;title\x07")
    playing("subagent.tool", "scout#1", call="1", name="grep\x1b[A", arguments="\x1b[2J")
    scene = playing.scene(notices=["\x1b[2J"], ending="\x1b[2J")
    assert "\x1b" not in "\n".join(screen(drawn(scene, 24, 90)))
