"""`standby ps`, `stop`, `steer`, `evict`: the live agents of a folder, in whichever program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from cyclopts import Parameter

from standby_supervision.control import (
    ControlError,
    ControlRefused,
    NoAnswer,
    Program,
    connect,
    programs,
)
from standby_supervision.live.verbs import (
    AgentLine,
    AgentLines,
    EvictAgents,
    InterruptAgent,
    ListAgents,
    Outcome,
    SteerAgent,
    StopAgent,
)

from . import ANSWERED, FAILED, MISUSE
from .places import Folder
from .text import clock, one_line

Json: TypeAlias = Annotated[bool, Parameter(negative=())]
Life: TypeAlias = Annotated[int | None, Parameter(name="--life")]

_COLORS = {
    "running": "green",
    "queued": "cyan",
    "waiting": "yellow",
    "failed": "red",
    "orphaned": "red",
}


async def ps(
    *,
    folder: Folder = Path("."),
    recent: Annotated[bool, Parameter(name="--all", negative=())] = False,
    json: Json = False,
) -> int:
    """List the live agents of a folder's durable runs: queued, running or waiting.

    They are asked of the programs that serve the folder: those in `async with
    standby.serve_workspace(workspace):`. One line of JSON for each program with --json.

    Exit codes: 0 listed, also where there are none; 1 no program serves the folder.

    Parameters
    ----------
    recent
        Show those too that have ended within the last ten minutes.
    json
        Print what the programs say.
    """
    workspace = _workspace(folder)
    found: list[AgentLines] = []
    for program in _programs():
        answer = await _ask(program, "agents", ListAgents(workspace, recent), AgentLines)
        if isinstance(answer, AgentLines):
            found.append(answer)
    if not found:
        return _nobody(workspace, json=json)
    if json:
        for each in found:
            print(msgspec.json.encode(each).decode())
        return ANSWERED
    _show([line for each in found for line in each.agents])
    return ANSWERED


async def stop(
    agent: str,
    /,
    *,
    folder: Folder = Path("."),
    tree: Annotated[bool, Parameter(negative=())] = False,
    turn: Annotated[bool, Parameter(negative=())] = False,
    life: Life = None,
    json: Json = False,
) -> int:
    """End a live agent: its turn is cut, it is exported and closed, and its exit recorded.

    Exit codes: 0 it has ended; 1 there is none of that name, it was refused, or no program
    serves the folder; 2 the name fits several.

    Parameters
    ----------
    agent
        Its name, as `standby ps` shows it; with its run before it where two share one, as in
        `nightly/scout#2`.
    tree
        And all that it has spawned.
    turn
        Cut its turn in flight, and nothing else.
    life
        Only if this is its life of that number; another one is left alone.
    json
        Print what the program says.
    """
    workspace = _workspace(folder)
    if turn:
        return await _order(
            workspace, "agent_interrupt", InterruptAgent(workspace, agent, life), json=json
        )
    asked = StopAgent(workspace, agent, tree, incarnation=life)
    return await _order(workspace, "agent_stop", asked, json=json)


async def steer(
    agent: str,
    /,
    *words: str,
    folder: Folder = Path("."),
    later: Annotated[bool, Parameter(name="--follow-up", negative=())] = False,
    life: Life = None,
    json: Json = False,
) -> int:
    """Put a word into an agent's turn; between two turns it is read with the next.

    Exit codes: as of `standby stop`.

    Parameters
    ----------
    agent
        Its name, as `standby ps` shows it.
    words
        What it is to read.
    later
        Leave it for the end of the turn, which then goes on with it.
    life
        Only if this is its life of that number.
    json
        Print what the program says.
    """
    if not words:
        print(
            "standby: say what it is to read, as in `standby steer scout#2 be brief`",
            file=sys.stderr,
        )
        return MISUSE
    workspace = _workspace(folder)
    asked = SteerAgent(
        workspace, agent, " ".join(words), "follow_up" if later else "steer", incarnation=life
    )
    return await _order(workspace, "agent_steer", asked, json=json)


async def evict(*, folder: Folder = Path("."), json: Json = False) -> int:
    """Drop agents from the list of those that have ended: older than ten minutes, and recorded.

    Programs do so by themselves. Nothing that lives, and nothing unrecorded, is dropped.

    Exit codes: 0 done; 1 no program serves the folder.

    Parameters
    ----------
    json
        Print what the programs say.
    """
    workspace = _workspace(folder)
    return await _order(workspace, "agents_evict", EvictAgents(workspace), json=json)


def _workspace(folder: Path) -> str:
    return str(folder.resolve())


def _programs() -> list[Program]:
    """The programs of this user that can be asked, the newest last."""
    try:
        return list(programs())
    except ControlError as error:
        print(f"standby: {error}", file=sys.stderr)
        return []


async def _ask(program: Program, verb: str, asked: Any, answer: Any) -> Any:
    """What one program answers; None where it serves no workspace, or is gone."""
    try:
        async with connect(program) as connection:
            either: Any = answer | Outcome
            return await connection.ask(verb, asked, either)
    except (ControlRefused, NoAnswer):
        return None


async def _order(workspace: str, verb: str, asked: Any, *, json: bool) -> int:
    """Ask one program after the other until one has done it, or refused it for its own."""
    said: list[Outcome] = []
    for program in _programs():
        answer = await _ask(program, verb, asked, Outcome)
        if answer is None or answer.kind == "workspace_denied":
            continue
        said.append(answer)
        if answer.kind != "missing":
            break
    if not said:
        return _nobody(workspace, json=json)
    last = said[-1]
    if json:
        print(msgspec.json.encode(last).decode())
    else:
        said_so = one_line(last.message)
        if last.kind == "done":
            print(said_so)
        else:
            print(f"standby: {said_so}", file=sys.stderr)
    return {"done": ANSWERED, "ambiguous": MISUSE}.get(last.kind, FAILED)


def _nobody(workspace: str, *, json: bool) -> int:
    why = f"no running program serves the workspace {workspace}"
    if json:
        print(msgspec.json.encode(Outcome("missing", why, "no_program")).decode())
    else:
        print(
            f"standby: {why}\nA program does while it is in"
            " `async with standby.serve_workspace(workspace):`",
            file=sys.stderr,
        )
    return FAILED


def _show(lines: list[AgentLine]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not lines:
        console.print("no agent is at work", style="dim")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("RUN", "AGENT", "STATUS", "FOR", "TURNS", "TOOLS", "MAIL", "DOING"):
        table.add_column(title, overflow="fold", no_wrap=title != "DOING")
    for line in lines:
        name = line.name if line.incarnation == 1 else f"{line.name} ({line.incarnation})"
        table.add_row(
            Text(one_line(line.run)),
            Text(one_line(name)),
            Text(line.status, style=_COLORS.get(line.status, "dim")),
            clock(line.age),
            str(line.turns),
            str(line.tool_uses),
            str(line.waiting) if line.waiting else "",
            Text(one_line(_doing(line))),
        )
    console.print(table)


def _doing(line: AgentLine) -> str:
    if line.why:
        return line.why
    if line.question:
        return f"waits for `standby respond {line.run} {line.question} …`"
    if line.tools:
        return "; ".join(line.tools)
    return line.text[-60:] if line.in_turn or not line.is_live else "between turns"
