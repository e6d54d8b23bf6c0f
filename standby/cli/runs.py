"""`standby runs`, `resume`, `respond`, `confirm`, `cancel`: durable runs, from the outside."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from standby_supervision.runs import RunError, RunState, Workspace, open_workspace
from standby_supervision.runs.workspace import FOLDER, RESUME
from standby_supervision.store import RunRow, StoreError

from . import ANSWERED, FAILED
from .places import Folder, RunName, StoreName
from .text import clock, one_line

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 20
"""Runs that are listed unless all are asked for."""
_COLORS = {
    "running": "green",
    "completed": "dim",
    "interrupted": "yellow",
    "failed": "red",
    "cancelled": "dim",
    "blocked": "yellow",
    "damaged": "bold red",
}


class _NoRuns(Exception):
    """There is no workspace to look at."""


@asynccontextmanager
async def _opened(folder: Path, store: str | None) -> AsyncGenerator[Workspace]:
    """The workspace that a command is about; looking at it makes none."""
    if store is None and not (folder / FOLDER / "store.db").is_file():
        raise _NoRuns(f"there are no runs in {folder}: it has no {FOLDER}/store.db")
    async with open_workspace(folder, store) as workspace:
        yield workspace


async def _with(
    folder: Path, store: str | None, work: Callable[[Workspace], Awaitable[int]]
) -> int:
    try:
        async with _opened(folder, store) as workspace:
            return await work(workspace)
    except (RunError, StoreError, _NoRuns) as error:
        print(f"standby: {error}", file=sys.stderr)
    except (KeyError, ValueError) as error:
        print(f"standby: {error.args[0]}", file=sys.stderr)
    return FAILED


async def runs(
    run: RunName | None = None,
    /,
    *,
    folder: Folder = Path("."),
    store: StoreName = None,
    every: Annotated[bool, Parameter(name="--all", negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """List the durable runs of a folder, or show one.

    Runs whose program is gone are found, and become `interrupted`: go on with them by
    `standby resume`.

    Exit codes: 0 listed; 1 there is no such run, or a store that cannot be read; 2 misuse.

    Parameters
    ----------
    every
        List all, and not the newest 20.
    json
        Print JSON, one object a line.
    """

    async def show(workspace: Workspace) -> int:
        rows = await workspace.runs()
        if run is not None:
            rows = [_one(rows, run)]
        shown = rows if every or json else rows[:SHOWN]
        found = [(row, await _state(workspace, row)) for row in shown]
        if json:
            for row, state in found:
                sys.stdout.buffer.write(msgspec.json.encode(_as_data(row, state)) + b"\n")
            return ANSWERED
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
        if run is not None:
            _show(console, *found[0])
        else:
            _list(console, found, len(rows))
        return ANSWERED

    return await _with(folder, store, show)


async def resume(run: RunName, /, *, folder: Folder = Path("."), store: StoreName = None) -> int:
    """Go on with a run: its program is started again, in its folder, as it was.

    What was answered is not asked again, and what was done is not done again. It
    takes the place of this command: its output and its exit code are its own.

    """
    command: list[tuple[tuple[str, ...], str, str]] = []

    async def find(workspace: Workspace) -> int:
        row = _one(await workspace.runs(), run)
        state = await workspace.state(row.run)
        if row.state == "completed":
            raise ValueError(f"the run {row.run!r} is completed; there is nothing to go on with")
        if row.owner is not None:
            raise ValueError(f"the run {row.run!r} is at work already: pid {row.owner.pid}")
        if not state.command:
            raise ValueError(f"nobody recorded what started the run {row.run!r}: start it yourself")
        command.append((state.command, state.cwd, f"{row.name}={row.run}"))
        return ANSWERED

    code = await _with(folder, store, find)
    if code != ANSWERED:
        return code
    ((words, cwd, told),) = command
    try:
        os.chdir(cwd)
        sys.stdout.flush()
        os.execvpe(words[0], words, {**os.environ, RESUME: told})
    except OSError as error:
        print(f"standby: {words[0]} cannot be started in {cwd}: {error.strerror}", file=sys.stderr)
    return FAILED


async def respond(
    question: str,
    answer: str,
    /,
    *,
    by: str = "",
    folder: Folder = Path("."),
    store: StoreName = None,
) -> int:
    """Answer a question that a run waits for; `standby runs` shows them.

    Parameters
    ----------
    question
        Its id, or the beginning of one.
    answer
        What to say.
    by
        Who says it.
    """

    async def say(workspace: Workspace) -> int:
        open_ones: dict[str, str] = {}
        for row in await workspace.runs():
            if row.state == "damaged":
                continue
            state = await workspace.state(row.run)
            open_ones |= {key: row.run for key, each in state.questions.items() if each.is_open}
        key = _meant(question, list(open_ones), "open question")
        if not await workspace.respond(open_ones[key], key, answer, by=by):
            raise ValueError(f"the question {key!r} was answered, or ran out, just before")
        return ANSWERED

    return await _with(folder, store, say)


async def confirm(
    run: RunName, /, *, by: str = "", folder: Folder = Path("."), store: StoreName = None
) -> int:
    """Let the steps of a run be tried again whose end nobody recorded.

    Say so only when you have looked whether their effects are there.

    Parameters
    ----------
    by
        Who has looked.
    """

    async def say(workspace: Workspace) -> int:
        row = _one(await workspace.runs(), run)
        names = await workspace.confirm(row.run, by=by)
        for name in names:
            print(f"may be tried again: {one_line(name)}")
        print(f"go on with it by: standby resume {row.run}")
        return ANSWERED

    return await _with(folder, store, say)


async def cancel(
    run: RunName,
    /,
    *,
    why: str = "cancelled by hand",
    folder: Folder = Path("."),
    store: StoreName = None,
) -> int:
    """End a run, wherever its program is: in order, and for good unless it is resumed.

    Parameters
    ----------
    why
        For whoever reads of it.
    """

    async def end(workspace: Workspace) -> int:
        row = _one(await workspace.runs(), run)
        if not await workspace.cancel(row.run, why):
            raise ValueError(f"the run {row.run!r} is over already: {row.state}")
        return ANSWERED

    return await _with(folder, store, end)


def _one(rows: list[RunRow], named: str) -> RunRow:
    meant = _meant(named, [row.run for row in rows], "run")
    return next(row for row in rows if row.run == meant)


def _meant(named: str, there: list[str], what: str) -> str:
    """The one of `there` that `named` is, or begins.

    Raises:
        KeyError: there is none, or more than one.

    Examples:
        >>> _meant("n", ["nightly", "job"], "run")
        'nightly'
    """
    if named in there:
        return named
    found = [each for each in there if named and each.startswith(named)]
    if len(found) == 1:
        return found[0]
    if found:
        raise KeyError(f"{named!r} begins more than one {what}: {', '.join(found)}")
    known = f": {', '.join(there[:5])}" if there else ""
    raise KeyError(f"there is no {what} {one_line(named)!r} here{known}")


async def _state(workspace: Workspace, row: RunRow) -> RunState | None:
    """What a run has come to; None of one that cannot be read."""
    return None if row.state == "damaged" else await workspace.state(row.run)


def _as_data(row: RunRow, state: RunState | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "run": row.run,
        "name": row.name,
        "state": row.state,
        "created": row.created,
        "last_event": row.renewed,
        "owner": None if row.owner is None else row.owner.pid,
        "events": row.last,
    }
    if state is not None:
        data |= {
            "lives": state.lives,
            "turns": state.turns,
            "steps": len(state.outcomes),
            "usage": state.usage,
            "agents": list(state.agents),
            "in_doubt": list(state.open.values()),
            "questions": [
                {"id": key, "text": each.asked.text, "choices": each.asked.choices}
                for key, each in state.questions.items()
                if each.is_open
            ],
            "error": state.error,
            "output": state.output,
            "command": state.command,
        }
    return data


def _list(console: Console, found: list[tuple[RunRow, RunState | None]], there: int) -> None:
    from rich.table import Table

    if not found:
        console.print("no runs yet")
        return
    table = Table(box=None, pad_edge=False)
    for title in ("RUN", "STATE", "AGE", "STEPS", "COST", ""):
        table.add_column(title)
    now = time.time()
    for row, state in found:
        color = _COLORS.get(row.state, "")
        shown = f"[{color}]{row.state}[/]" if color else row.state
        steps, cost, note = "", "", ""
        if state is not None:
            steps, cost, note = str(len(state.outcomes)), state.usage.format(), _note(state)
        table.add_row(row.run, shown, clock(now - row.created), steps, cost, note)
    console.print(table)
    if there > len(found):
        console.print(f"and {there - len(found)} more: standby runs --all", style="dim")


def _note(state: RunState) -> str:
    """What somebody who looks should know of it, or do."""
    waiting = [key for key, each in state.questions.items() if each.is_open]
    if waiting:
        return f"waits for an answer: {waiting[0]}"
    if state.status == "running":
        return f"{len(state.agents)} at work" if state.agents else ""
    return one_line(state.error)[:60]


def _show(console: Console, row: RunRow, state: RunState | None) -> None:
    console.print(f"[bold]{row.run}[/]  {row.state}", markup=True)
    if state is None:
        console.print("its record cannot be read; it is left as it is")
        return
    lines = [
        ("begun", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.created))),
        ("owner", "nobody" if row.owner is None else f"pid {row.owner.pid}"),
        ("lives", str(state.lives)),
        ("steps", f"{len(state.outcomes)} done, {len(state.open)} in progress or in doubt"),
        ("cost", state.usage.format()),
        ("agents", ", ".join(state.agents) or "none at work"),
        ("error", one_line(state.error)),
        ("output", one_line(state.output)[:200]),
    ]
    for name, value in lines:
        if value:
            console.print(f"  {name:8} {value}", markup=False)
    for key, each in state.questions.items():
        if each.is_open:
            choices = f" ({' / '.join(each.asked.choices)})" if each.asked.choices else ""
            console.print(f"  asks     {one_line(each.asked.text)}{choices}", markup=False)
            console.print(f"           standby respond {key} ANSWER", markup=False)
    if row.owner is None and row.state not in ("completed", "cancelled"):
        console.print(f"  go on    standby resume {row.run}", markup=False)
