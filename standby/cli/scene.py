"""What is drawn while a team works: who is there, what it costs, the line that is typed; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define, field
from rich.console import Group
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from standby_actors.usage import compact

from .crew import Crew, Hand
from .line import Line
from .text import clock, one_line, plain, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

KEPT_DONE = 8
"""Rows of those whose turn is over that stay in sight, where there is room."""
NOTICES = 8
"""Lines of what was answered to the person."""

LOW = 8
"""Lines of a terminal below which only what is needed most is shown."""
PROMPT = ">"
KEYS = "esc cuts the turn · ctrl+del (or ctrl+x) stops all · /help"


@define(eq=False)
class Scene:
    """Everything that the picture shows."""

    title: str
    task: str
    crew: Crew
    line: Line | None = None
    """What is being typed; None where nobody can."""
    prompt: str = PROMPT
    chosen: str | None = None
    """Who the keys are about, where several are at work."""
    notices: list[str] = field(factory=list[str])
    ending: str = ""
    """Why everything is being stopped, if it is."""
    spinner: Spinner = field(factory=lambda: Spinner("dots", style="cyan"))


def drawn(scene: Scene, height: int, width: int) -> RenderableType:
    """The picture, less than `height` lines high."""
    foot = list(_foot(scene, width, min(NOTICES, max(0, height - LOW + 1))))
    head = _head(scene)[: 1 if height < LOW else 2]
    room = max(1, height - 2 - len(foot) - len(head))
    body = Table.grid(padding=(0, 1), expand=True)
    body.add_column(width=1)
    body.add_column(width=1)
    body.add_column(no_wrap=True, overflow="ellipsis", max_width=max(12, width // 4))
    body.add_column(no_wrap=True, justify="right", min_width=5)
    body.add_column(no_wrap=True, justify="right", min_width=9)
    body.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for hand in in_sight(scene.crew, room):
        body.add_row(*_cells(scene, hand, max(20, width // 2)))
    return Group(*head, body, *foot)


def in_sight(crew: Crew, room: int) -> list[Hand]:
    """Whoever is at work, and before them who was last, in the order of their coming."""
    hands = list(crew.hands.values())
    busy = [hand for hand in hands if hand.state in ("working", "opening")][:room]
    rest = sorted((hand for hand in hands if hand not in busy), key=lambda hand: hand.last)
    left = min(KEPT_DONE, room - len(busy))
    shown = {hand.id for hand in [*busy, *(rest[-left:] if left > 0 else [])]}
    return [hand for hand in hands if hand.id in shown]


def _head(scene: Scene) -> list[RenderableType]:
    first = Table.grid(padding=(0, 1), expand=True)
    first.add_column(width=1)
    first.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    first.add_row(scene.spinner, Text(one_line(scene.title), style="bold"))
    task = Text(f"  {one_line(scene.task)}", style="dim", no_wrap=True, overflow="ellipsis")
    return [first, task]


def _foot(scene: Scene, width: int, most: int) -> Sequence[RenderableType]:
    lines: list[RenderableType] = [_total(scene)]
    for notice in scene.notices[len(scene.notices) - min(most, len(scene.notices)) :]:
        lines.append(_line(Text(f"  {plain(notice)}", style="yellow")))
    if scene.line is None:
        return lines
    if not scene.notices and most:
        lines.append(_line(Text(f"  {KEYS}", style="dim")))
    lines.append(typed(scene.prompt, scene.line, width))
    return lines


def _line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def typed(prompt: str, line: Line, width: int) -> Text:
    """The line that is typed, with the cursor in it, scrolled so that the cursor is seen."""
    room = max(8, width - len(prompt) - 4)
    start = max(0, line.cursor - room)
    shown = line.text[start : start + room] + " "
    at = line.cursor - start
    text = Text(f"{prompt} ", style="bold cyan", no_wrap=True, overflow="crop")
    text.append("…" if start else "", style="dim")
    text.append(shown[:at], style="not bold default")
    text.append(shown[at], style="not bold reverse default")
    text.append(shown[at + 1 :], style="not bold default")
    return text


def _total(scene: Scene) -> Text:
    crew = scene.crew
    usage = crew.usage
    busy = len(crew.working)
    words = Text("  ")
    if scene.ending:
        words.append(f"{one_line(scene.ending)}: stopping … ", style="bold yellow")
    words.append(f"{busy} at work" if busy else "nobody at work", style="bold")
    turns = sum(hand.turns for hand in crew.hands.values())
    rest = [plural(turns, "turn")]
    if usage.input_tokens or usage.output_tokens or crew.pieces:
        tokens = usage.output_tokens + crew.pieces
        rest.append(f"↑{compact(usage.input_tokens)} ↓{compact(tokens)}")
    if usage.cost_usd:
        rest.append(f"${usage.cost_usd:.4f}")
    rest.append(clock(crew.seconds))
    words.append(" · " + " · ".join(rest), style="dim")
    return _line(words)


def _cells(scene: Scene, hand: Hand, room: int = 200) -> list[RenderableType]:
    mark, style = {
        "opening": ("○", "dim"),
        "idle": ("○", "dim"),
        "working": ("●", "cyan"),
        "ok": ("✓", "green"),
        "failed": ("✗", "red"),
    }[hand.state]
    is_busy = hand.state in ("working", "opening")
    name = Text("└ " if hand.parent else "", style="dim")
    name.append(one_line(hand.id), style="bold" if is_busy else "not dim")
    if hand.turns > 1:
        name.append(f" turn {hand.turns}", style="dim not bold")
    arrow = Text(">" if scene.chosen == hand.id else "", style="bold cyan")
    cost = Text(
        " ".join(
            f"{arrow_}{compact(count)}"
            for arrow_, count in (("↑", hand.usage.input_tokens), ("↓", hand.output_tokens))
            if count
        ),
        style="dim",
    )
    if hand.usage.cost_usd:
        cost.append(f" ${hand.usage.cost_usd:.4f}")
    return [
        arrow,
        Text(mark, style=style),
        name,
        Text(f"{hand.seconds(scene.crew.now):.1f}s", style="" if is_busy else "dim"),
        cost,
        _words(hand, room, scene.ending),
    ]


def _words(hand: Hand, room: int, ending: str) -> Text:
    if hand.state == "failed":
        # Of a turn that was cut with all others, its own mind does not know why.
        status = "stopped" if ending and hand.status == "cancelled" else hand.status
        how = Text(status.replace("_", " "), style="red")
        return how.append(f" {hand.words}" if hand.words else "", style="dim")
    if hand.state == "opening":
        return Text("opening", style="dim")
    if hand.state == "working" and not hand.words:
        return Text(f"reading: {one_line(hand.task)}", style="dim italic")
    said = one_line(hand.words)
    if hand.state != "working":
        return Text(said, style="dim")
    # Of what is being said the end is what is new.
    return Text(said if len(said) <= room else f"…{said[1 - room :]}", style="italic")


def summary(scene: Scene) -> RenderableType:
    """What remains of the picture when all is over: one row each, and what it cost together."""
    body = Table.grid(padding=(0, 1), expand=True)
    body.add_column(width=1)
    body.add_column(no_wrap=True, overflow="ellipsis")
    body.add_column(no_wrap=True, justify="right")
    body.add_column(no_wrap=True, justify="right")
    body.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    hands = list(scene.crew.hands.values())
    for hand in hands[-40:]:
        body.add_row(*_cells(scene, hand)[1:])
    more = [Text(f"  and {len(hands) - 40} before them", "dim")] if len(hands) > 40 else []
    usage = scene.crew.usage
    turns = sum(hand.turns for hand in hands)
    parts = [plural(turns, "turn"), clock(scene.crew.seconds)]
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"↑{compact(usage.input_tokens)} ↓{compact(usage.output_tokens)}")
    if usage.cost_usd:
        parts.append(f"${usage.cost_usd:.4f}")
    total = Text(f"  {one_line(scene.title)}", style="bold")
    total.append(" · " + " · ".join(parts), style="not bold dim")
    return Group(*more, body, _line(total))
