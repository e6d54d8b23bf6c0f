"""From an agent to the command line of a coding agent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

import attrs

from ..agent import Agent, McpServer
from ..definitions.vocabulary import OURS, READING


def program(agent: Agent, command: Sequence[str] | None, default: Sequence[str]) -> tuple[str, ...]:
    """The program behind a session: as it was called, the agent's own, or the default."""
    return tuple(command or agent.command or default)


def named_tools(
    agent: Agent, who: str, names: Mapping[str, str], *, patterns: bool = False
) -> tuple[str, ...] | None:
    """The tools that `agent` may use, as `who` calls them; None where it does not say.

    One that only takes tools away has ours without them: what a program has
    besides cannot be known here, and must not come back through that gap.

    Args:
        agent: whose.
        who: the program, for messages.
        names: what it calls ours.
        patterns: whether it keeps to ``shell(git log *)``.

    Raises:
        ValueError: one of them is not a name, which a coding agent with tools of its
            own cannot be given; or it is a pattern that would not be kept to.
    """
    if agent.tools is not None:
        wanted = agent.tools
    elif agent.source is not None:
        wanted = READING
    elif agent.disallowed_tools:
        wanted = tuple(name for name in OURS if name != "subagent")
    else:
        return None
    for each in wanted:
        if not isinstance(each, str):
            raise ValueError(f"{who} has its own tools, by name; it cannot be given {each!r:.80}")
    said = [str(each) for each in wanted if each not in agent.disallowed_tools]
    for each in (*said, *agent.disallowed_tools):
        if "(" in each and not patterns:
            raise ValueError(f"{who} does not keep to a pattern: {each!r}; name the whole tool")
    return tuple(dict.fromkeys(_called(each, names) for each in said))


def _called(tool: str, names: Mapping[str, str]) -> str:
    """A tool as a program calls it, with the pattern behind it.

    Examples:
        >>> _called("shell(git log *)", {"shell": "Bash"})
        'Bash(git log *)'
    """
    name, paren, rest = tool.partition("(")
    return names.get(name, name) + paren + rest


def servers_for(agent: Agent, env: Mapping[str, str] | None) -> tuple[McpServer, ...]:
    """The MCP servers of `agent`, with what their settings take from `env`, or ours, filled in.

    Raises:
        BadMcpConfig: it names one that is nowhere written down, or a variable that is not set.
    """
    if not agent.mcp_servers:
        return ()
    from ..tools.mcp_config import expand, servers_of

    ours = os.environ if env is None else env
    return tuple(
        attrs.evolve(
            server,
            env=expand(server.env, ours, f"the MCP server {server.name!r}"),
            headers=expand(server.headers, ours, f"the MCP server {server.name!r}"),
        )
        for server in servers_of(agent)
    )


def model_parts(model: str | None) -> tuple[str, str]:
    """Provider and name in "provider/name" or "provider:name"; the first may be empty.

    Examples:
        >>> model_parts("openai/gpt-5-mini"), model_parts("sonnet"), model_parts(None)
        (('openai', 'gpt-5-mini'), ('', 'sonnet'), ('', ''))
    """
    parts = re.split("[/:]", model or "", maxsplit=1)
    return ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
