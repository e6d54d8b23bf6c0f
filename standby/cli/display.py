"""What is going on, on stderr: a live picture on a terminal, else a line for each thing that ends.

It only reads the stream of events: without it, everything ends the same.  A
terminal that takes nothing more holds up a thread of ours and nobody else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from standby_actors.events import Listener, open_events
from standby_actors.usage import compact

from .picture import Picture, Row
from .text import clock, one_line, plural, saying

if TYPE_CHECKING:
    from rich.console import RenderableType

FRAME = 0.12
"""Seconds between two pictures."""
_ROWS_BESIDES = 4
"""Lines of the picture that are no rows, with one to spare."""
_KEPT_DONE = 6
"""Rows of finished work that stay in sight, where there is room."""


def is_live(console: Console) -> bool:
    """Whether a live picture can be drawn on `console`."""
    return console.is_terminal and not console.is_dumb_terminal


@asynccontextmanager
async def shown(console: Console) -> AsyncGenerator[None]:
    """Show what is going on while the block is open."""
    picture = Picture()
    async with open_events() as events, trio.open_nursery() as nursery:
        over = trio.Event()
        if is_live(console):
            nursery.start_soon(_follow, events, picture)
            nursery.start_soon(_draw, picture, console, over)
        else:
            nursery.start_soon(_tell, events, picture, console)
        try:
            yield
        finally:
            events.close()
            over.set()


async def _follow(events: Listener, picture: Picture) -> None:
    async for event in events:
        picture.take(event)


async def _draw(picture: Picture, console: Console, over: trio.Event) -> None:
    spinner = Spinner("dots", style="cyan")
    # Transient: the answer takes the picture's place.
    live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
    live.start()
    try:
        while not over.is_set():
            picture.now = trio.current_time()
            live.update(drawn(picture, spinner, console.height))
            await trio.to_thread.run_sync(live.refresh, abandon_on_cancel=True)
            with trio.move_on_after(FRAME):
                await over.wait()
    finally:
        live.stop()


async def _tell(events: Listener, picture: Picture, console: Console) -> None:
    async for event in events:
        picture.take(event)
        line = told(picture, event.type, event.data.get("key", ""))
        if line:
            await trio.to_thread.run_sync(_print, console, line, abandon_on_cancel=True)


def _print(console: Console, line: str) -> None:
    # Not rich's print: a line is a line, however wide the terminal is not.
    console.file.write(line + "\n")
    console.file.flush()


def told(picture: Picture, what: str, key: str) -> str | None:
    """The line about an event that `picture` has taken; None where there is nothing to say."""
    if what == "explore.planned":
        return f"reading {plural(len(picture.rows), 'file')} with {picture.model}"
    if what == "explore.stage":
        return f"{picture.stage} ..."
    if what == "subagent.retry":
        waiting = [row for row in picture.rows.values() if row.doing.startswith("again in")]
        return f"{waiting[-1].key}: {waiting[-1].doing}" if waiting else None
    if what != "explore.ended":
        return None
    row = picture.rows[key]
    state = "" if row.state == "done" else "failed: "
    count = f"[{picture.count('done', 'failed')}/{len(picture.rows)}] "
    tokens = f"↑{compact(row.input_tokens)} ↓{compact(row.output_tokens)}"
    return f"{count}{one_line(key)}: {state}{one_line(row.doing)}  ({_seconds(row, 0)} {tokens})"


def drawn(picture: Picture, spinner: Spinner, height: int) -> RenderableType:
    """The picture, at most `height` lines high."""
    head = Table.grid(padding=(0, 1))
    head.add_column()
    head.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    stage = Text(one_line(picture.title) or picture.stage, style="bold")
    if picture.title:
        stage.append(f"  {picture.model}", style="dim")
    head.add_row(spinner, stage)

    rows = _in_sight(picture, max(1, height - _ROWS_BESIDES))
    body = Table.grid(padding=(0, 1), expand=True)
    body.add_column(width=1)
    body.add_column(no_wrap=True, overflow="ellipsis", max_width=44)
    body.add_column(justify="right", no_wrap=True, min_width=5)
    body.add_column(justify="right", no_wrap=True, min_width=9)
    body.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        body.add_row(*_cells(picture, row))
    return Group(head, body, _foot(picture)) if picture.rows else head


def _in_sight(picture: Picture, room: int) -> list[Row]:
    """What is worked on, and before it what was done last, as far as there is room."""
    rows = list(picture.rows.values())
    working = [row for row in rows if row.state == "working"][:room]
    ended = [row for row in rows if row.ended is not None]
    ended.sort(key=lambda row: row.ended or 0.0)
    left = min(_KEPT_DONE, room - len(working))
    return [*(ended[-left:] if left > 0 else []), *working]


def _cells(picture: Picture, row: Row) -> list[RenderableType]:
    name = Text(one_line(row.key), style="" if row.state == "working" else "dim")
    tokens = Text(
        " ".join(
            f"{arrow}{compact(count)}"
            for arrow, count in (
                ("↑", row.input_tokens),
                ("↓", row.output_tokens + row.pieces),
            )
            if count
        ),
        style="dim",
    )
    mark, style, doing = {
        "working": ("●", "cyan", saying(row.text) or row.doing or "reading"),
        "done": ("✓", "green", row.doing),
        "failed": ("✗", "red", row.doing),
        "waiting": (" ", "", ""),
    }[row.state]
    said = Text(one_line(doing), style="red" if row.state == "failed" else "dim italic")
    if row.state == "working":
        said.stylize("not dim")
        if row.doing and row.text:
            said = Text(f"{row.doing}: ", style="dim") + said
    return [Text(mark, style=style), name, _seconds(row, picture.now), tokens, said]


def _seconds(row: Row, now: float) -> str:
    return f"{row.seconds(now):.1f}s"


def _foot(picture: Picture) -> RenderableType:
    done, failed = picture.count("done"), picture.count("failed")
    total = len(picture.rows)
    foot = Table.grid(padding=(0, 1))
    words = Text(f"{done} of {total} done", style="bold")
    if failed:
        words.append(f" · {failed} failed", style="bold red")
    words.append(
        f" · ↑{compact(picture.input_tokens)} ↓{compact(picture.output_tokens)} tokens"
        f" · {clock(picture.seconds)}",
        style="dim",
    )
    foot.add_row(ProgressBar(total=max(1, total), completed=done + failed, width=24), words)
    return foot
