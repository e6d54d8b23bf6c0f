"""Whether the tools that an agent names are there: a missing one is an error before any turn."""

from __future__ import annotations

from collections.abc import Container, Iterable

from ..agent import Agent
from ..agent_checks import nearest
from .definition import problem_of
from .problems import Problem, Severity, quoted
from .vocabulary import ELSEWHERE, OURS, is_pattern, tool_of


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
            Code has tools, and patterns of tools, that nobody else has: those
            are a warning as long as nobody says who will play, and an error for
            every other backend.
    """
    names = set(known)
    plays = agent.backend or backend
    claude = plays == "claude"
    open_yet: Severity = "warning" if plays is None else "error"
    servers = {each if isinstance(each, str) else each.name for each in agent.mcp_servers}
    said: dict[str, str] = dict.fromkeys(agent.disallowed_tools, "disallowed_tools")
    said |= {each: "tools" for each in agent.tools or () if isinstance(each, str)}
    problems: list[Problem] = []
    for name, into in said.items():
        base = name.partition("(")[0].strip()
        if base.startswith("mcp__"):
            server = base.removeprefix("mcp__").partition("__")[0]
            if server in servers or base in names:
                continue
            code, (message, advice, near) = "unknown-tool", _no_server(name, server, servers)
            severity: Severity = "error"
        elif is_pattern(name):
            if claude:
                continue
            code, severity, near = "tool-pattern", open_yet, None
            message = f"is granted {quoted(name)}, and only Claude Code keeps an agent to a pattern"
            advice = f"name {base} to grant all of it, leave it out, or say `backend: claude`"
        elif base in names or (claude and base in ELSEWHERE):
            continue
        elif base in ELSEWHERE:
            code, severity, near = "tool-elsewhere", open_yet, None
            message = f"names {base}, which Claude Code has and nobody else"
            advice = "say `backend: claude`, or leave it out"
        else:
            code, (message, advice, near) = "unknown-tool", _missing(base, names)
            severity = "error"
        problems.append(
            problem_of(
                agent, into, code, f"{agent.name} {message}", advice, near=near, severity=severity
            )
        )
    return tuple(problems)


def check_others(
    agent: Agent, known: Iterable[str], broken: Container[str] = ()
) -> tuple[Problem, ...]:
    """What is wrong with the agents that `agent` may hand over and delegate to.

    Args:
        agent: agents that it has in its hand are there.
        known: names of all agents that names could mean.
        broken: names of those whose files give none; what is wrong there is said there.
    """
    names = set(known)
    problems: list[Problem] = []
    for into, many in (("handoffs", agent.handoffs), ("agents", agent.agents)):
        for each in many:
            if not isinstance(each, str) or each in names:
                continue
            message = f"{agent.name} names the agent {quoted(each)}, which is "
            if each in broken:
                message, advice, near = f"{message}broken", "mend its file", None
            else:
                message, near = f"{message}missing", nearest(each, names)
                advice = f"there are {', '.join(sorted(names))}" if names else "there are none"
            problems.append(problem_of(agent, into, "unknown-agent", message, advice, near=near))
    return tuple(problems)


def _missing(name: str, known: set[str]) -> tuple[str, str, str | None]:
    # What another tool calls it is nearer than what looks alike.
    ours = tool_of(name)
    near = ours if ours in known else nearest(name, known)
    there = f"there are {', '.join(sorted(known))}" if known else "there are none"
    return f"names the tool {quoted(name)}, which is missing", there, near


def _no_server(name: str, server: str, servers: set[str]) -> tuple[str, str, str | None]:
    return (
        f"names the tool {quoted(name)}, and has no MCP server {server!r}",
        f"add {server} to mcpServers",
        nearest(server, servers),
    )
