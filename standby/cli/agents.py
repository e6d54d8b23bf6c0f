"""`standby agents`: which agents there are, where from, and which definitions are broken."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from attrs import frozen
from cyclopts import Parameter

from standby_actors.agent import Agent, resolve_lifetime
from standby_actors.definitions.allowlist import check_tools
from standby_actors.definitions.discovery import Found, load_agents
from standby_actors.definitions.places import SHIPPED, Scope
from standby_actors.definitions.problems import SEVERITIES, Problem, Severity
from standby_actors.definitions.skills import find_skills
from standby_actors.definitions.vocabulary import OURS, READING, granted

from . import ANSWERED, FAILED, MISUSE
from .text import one_line, plural

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 100
"""Columns of a terminal from which on a table is easier to read than a list."""

_STYLE: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "dim"}
_COLORS: dict[str, str] = {
    "blue": "blue",
    "cyan": "cyan",
    "green": "green",
    "magenta": "magenta",
    "orange": "dark_orange",
    "pink": "pink1",
    "purple": "purple",
    "red": "red",
    "yellow": "yellow",
}


@frozen
class _Listing:
    """What the command found, and where it stood."""

    found: Found
    problems: tuple[Problem, ...]
    cwd: Path

    @property
    def is_broken(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)


def agents(
    *,
    directory: Annotated[Path, Parameter(name="--in")] = Path("."),
    scope: Scope = "both",
    builtin: bool = True,
    tool: Annotated[list[str] | None, Parameter(negative=())] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """List the agents that can be spawned by name, and what is broken.

    Definitions are Markdown files with a head of YAML. The nearest of a name counts: the
    project's (agents/, .claude/agents/), the user's (~/.standby/agents/, ~/.claude/agents/),
    then those that come with standby.

    Exit codes: 0 nothing is broken; 1 something is, and its file and line are on stderr;
    2 misuse.

    Parameters
    ----------
    directory
        Where the project is.
    scope
        Whose files: the user's, the project's, or both.
    builtin
        Also list the agents that come with standby.
    tool
        A tool that your program gives its agents; may be said several times.
    json
        Print one JSON object instead.
    """
    if not directory.is_dir():
        print(f"standby: there is no folder {one_line(str(directory))!r}", file=sys.stderr)
        return MISUSE
    found = load_agents(directory, scope=scope, builtin=builtin)
    problems = list(found.problems)
    for agent in found:
        problems += check_tools(agent, (*OURS, *(tool or ())))
        problems += find_skills(agent, directory, scope=scope)[1]
    listing = _Listing(found, tuple(problems), Path(os.path.realpath(directory)))
    if json:
        sys.stdout.buffer.write(msgspec.json.encode(_as_data(listing), enc_hook=str) + b"\n")
    else:
        _print(listing)
    return FAILED if listing.is_broken else ANSWERED


def _as_data(listing: _Listing) -> dict[str, Any]:
    return {
        "scope": listing.found.scope,
        "searched": listing.found.searched,
        "agents": [
            {
                "name": agent.name,
                "description": agent.description,
                "lifetime": resolve_lifetime(None, agent)[0],
                "model": agent.model,
                "tools": _tools(agent),
                "source": agent.source,
                "path": agent.path,
            }
            for agent in listing.found
        ],
        "shadowed": [
            {"name": each.name, "path": each.path, "by": each.by} for each in listing.found.shadowed
        ],
        "problems": [
            {
                "path": each.path,
                "line": each.line,
                "column": each.column,
                "severity": each.severity,
                "code": each.code,
                "message": each.message,
                "nearest": each.nearest,
                "advice": each.advice,
                "agent": each.about,
            }
            for each in listing.problems
        ],
    }


def _tools(agent: Agent) -> tuple[str, ...]:
    return tuple(str(tool) for tool in granted(agent.tools, agent.disallowed_tools, READING))


def _print(listing: _Listing) -> None:
    from rich.console import Console

    out = Console(highlight=False)
    if not out.is_terminal:
        _print_for_programs(listing)
        return
    if out.width >= WIDE:
        _print_table(listing, out)
    else:
        _print_list(listing, out)
    _print_shadowed(listing, out)
    _print_problems(listing, Console(stderr=True, highlight=False))
    out.print(_summary(listing), style="dim")


def _print_for_programs(listing: _Listing) -> None:
    # One line an agent, for cut and grep; what is wrong goes where errors go.
    print("name", "lifetime", "model", "tools", "from", "description", sep="\t")
    for agent in listing.found:
        cells = [*_cells(agent), str(agent.path), agent.description]
        print(*(one_line(cell) or "-" for cell in cells), sep="\t")
    for each in listing.found.shadowed:
        print(f"{one_line(str(each.path))}: hidden by {one_line(str(each.by))}", file=sys.stderr)
    for problem in listing.problems:
        print(one_line(str(problem)), file=sys.stderr)


def _cells(agent: Agent) -> tuple[str, str, str, str]:
    """Name, lifetime, model and tools."""
    return (
        agent.name,
        resolve_lifetime(None, agent)[0],
        agent.model or "default",
        " ".join(_tools(agent)) or "none",
    )


def _print_table(listing: _Listing, out: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("agent", no_wrap=True)
    table.add_column("lifetime", no_wrap=True)
    table.add_column("model", overflow="fold", max_width=20)
    table.add_column("tools", overflow="fold", min_width=12, max_width=22)
    table.add_column("description", overflow="fold", ratio=1)
    table.add_column("from", overflow="fold", max_width=24)
    for agent in listing.found:
        name, lifetime, model, tools = _cells(agent)
        table.add_row(
            Text(one_line(name), style=_style(agent)),
            Text(lifetime, style="dim" if agent.lifetime is None else ""),
            Text(one_line(model), style="dim" if agent.model is None else ""),
            Text(one_line(tools), style="dim" if agent.tools is None else ""),
            Text(one_line(agent.description)),
            Text(_from(agent, listing.cwd), style="dim"),
        )
    if listing.found.agents:
        out.print(table)
        out.print()


def _print_list(listing: _Listing, out: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    for agent in listing.found:
        name, lifetime, model, tools = _cells(agent)
        out.print(
            Text.assemble(
                (one_line(name), _style(agent)),
                (f"  {lifetime}", "" if agent.lifetime else "dim"),
                (f"  {one_line(model)}", "" if agent.model else "dim"),
            )
        )
        out.print(Padding(Text(one_line(agent.description)), (0, 0, 0, 2)))
        out.print(Padding(Text(f"tools: {one_line(tools)}", "dim"), (0, 0, 0, 2)))
        out.print(Padding(Text(_from(agent, listing.cwd), "dim"), (0, 0, 0, 2)))
        out.print()


def _style(agent: Agent) -> str:
    return f"bold {_COLORS.get((agent.color or '').casefold(), '')}".strip()


def _print_shadowed(listing: _Listing, out: Console) -> None:
    from rich.text import Text

    for each in listing.found.shadowed:
        hidden, by = _short(each.path, listing.cwd), _short(each.by, listing.cwd)
        out.print(Text(f"{one_line(each.name)} of {hidden} is hidden by {by}", "dim"))
    if listing.found.shadowed:
        out.print()


def _print_problems(listing: _Listing, out: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    worst_first = sorted(listing.problems, key=lambda each: SEVERITIES.index(each.severity))
    for problem in worst_first:
        short = msgspec.structs.replace(problem, path=Path(_short(problem.path, listing.cwd)))
        severity = Text(f"{problem.severity:8}", _STYLE[problem.severity])
        # Not folded: a terminal that knows files by their line finds them whole only.
        out.print(severity + Text(one_line(short.where), "bold"), soft_wrap=True)
        said = Text.assemble(one_line(problem.said), (f" [{problem.code}]", "dim"))
        out.print(Padding(said, (0, 0, 0, 8)))
    if listing.problems:
        out.print()


def _from(agent: Agent, cwd: Path) -> str:
    return "" if agent.path is None else _short(agent.path, cwd)


def _short(path: Path, cwd: Path) -> str:
    """`path` as somebody who stands in `cwd` would write it."""
    if path.is_relative_to(SHIPPED):
        return "standby"
    for base, prefix in ((cwd, ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return one_line(prefix + str(path.relative_to(base)))
    return one_line(str(path))


def _summary(listing: _Listing) -> str:
    parts = [plural(len(listing.found), "agent")]
    if listing.found.shadowed:
        parts.append(f"{len(listing.found.shadowed)} hidden")
    return ", ".join((*parts, *_counts(listing.problems)))


def _counts(problems: tuple[Problem, ...]) -> Iterator[str]:
    for severity in SEVERITIES:
        if count := sum(problem.severity == severity for problem in problems):
            yield plural(count, severity)
