"""Whether the tools that an agent names are there: a missing one is an error before any turn."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..agent import Agent
from ..agent_checks import nearest
from .problems import Problem, quoted
from .vocabulary import ELSEWHERE, OURS, is_pattern, tool_of

IN_CODE = Path("<code>")
"""Where an agent is that was read from no file."""


def check_tools(
    agent: Agent, known: Iterable[str] = OURS, *, backend: str | None = None
) -> tuple[Problem, ...]:
    """What is wrong with the tools that `agent` may use and may not.

    Args:
        agent: tools that are made already are there.
        known: names of all tools that it could be given.  Those of MCP servers
            (``mcp__server__tool``) are known when their server is named by the
            agent.
        backend: who will play its turns, where the agent does not say.  Claude
            Code has tools, and patterns of tools, that nobody else has.
    """
    names = set(known)
    claude = (agent.backend or backend) == "claude"
    servers = {each if isinstance(each, str) else each.name for each in agent.mcp_servers}
    given = [] if agent.tools is None else [each for each in agent.tools if isinstance(each, str)]
    problems: list[Problem] = []
    for name in dict.fromkeys((*given, *agent.disallowed_tools)):
        base = name.partition("(")[0].strip()
        if base.startswith("mcp__"):
            server = base.removeprefix("mcp__").partition("__")[0]
            if server not in servers and base not in names:
                problems.append(_no_server(agent, name, server, servers))
        elif is_pattern(name):
            if not claude:
                problems.append(_pattern(agent, name, base))
        elif base in names or (claude and base in ELSEWHERE):
            pass
        elif base in ELSEWHERE:
            problems.append(_elsewhere(agent, base))
        else:
            problems.append(_missing(agent, base, names))
    return tuple(problems)


def _problem(
    agent: Agent, code: str, message: str, advice: str, near: str | None = None
) -> Problem:
    return Problem(
        path=agent.path or IN_CODE,
        code=code,
        message=message,
        nearest=near,
        advice=advice,
        about=agent.name,
    )


def _missing(agent: Agent, name: str, known: set[str]) -> Problem:
    # What another tool calls it is nearer than what looks alike.
    ours = tool_of(name)
    near = ours if ours in known else nearest(name, known)
    there = f"there are {', '.join(sorted(known))}" if known else "there are none"
    return _problem(
        agent,
        "unknown-tool",
        f"{agent.name} names the tool {quoted(name)}, which is missing",
        there,
        near,
    )


def _elsewhere(agent: Agent, name: str) -> Problem:
    return _problem(
        agent,
        "tool-elsewhere",
        f"{agent.name} names {name}, which Claude Code has and this backend has not",
        "say `backend: claude`, or leave it out",
    )


def _pattern(agent: Agent, name: str, base: str) -> Problem:
    return _problem(
        agent,
        "tool-pattern",
        f"{agent.name} is granted {quoted(name)}, and only Claude Code keeps an agent to a pattern",
        f"name {base} to grant all of it, leave it out, or say `backend: claude`",
    )


def _no_server(agent: Agent, name: str, server: str, servers: set[str]) -> Problem:
    return _problem(
        agent,
        "unknown-tool",
        f"{agent.name} names the tool {quoted(name)}, and has no MCP server {server!r}",
        f"add {server} to mcpServers",
        nearest(server, servers),
    )
