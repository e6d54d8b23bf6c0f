"""From an agent to the command line of a coding agent."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

import attrs

from ..agent import Agent, McpServer
from ..definitions.vocabulary import OURS, READING, tool_of


def program(agent: Agent, command: Sequence[str] | None, default: Sequence[str]) -> tuple[str, ...]:
    """The program behind a session: as it was called, the agent's own, or the default."""
    return tuple(command or agent.command or default)


def named_tools(
    agent: Agent,
    who: str,
    names: Mapping[str, str],
    *,
    patterns: bool = False,
    besides: Iterable[str] = (),
) -> tuple[str, ...] | None:
    """The tools that `agent` may use, as `who` calls them; None where it does not say.

    One that only takes tools away has ours without them: what a program has
    besides cannot be known here, and must not come back through that gap.

    Args:
        agent: whose.
        who: the program, for messages.
        names: what it calls ours.
        patterns: whether it keeps to ``shell(git log *)``.
        besides: what else it is known to have.

    Raises:
        UnknownTool: one of them is nearly a name that is known.
        ValueError: one of them is not a name, which a coding agent with tools of its
            own cannot be given; or it is a pattern that would not be kept to.
    """
    check_tool_names(agent, {*names.values(), *besides})
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


def check_tool_names(agent: Agent, theirs: Iterable[str] = ()) -> None:
    """Refuse a tool of `agent` that is nearly one of ours, or of `theirs`, and none of them.

    A program may have more than is known here, from its extensions say: a name that
    is like no other is left to it.  One that is like another but for its capitals,
    its hyphens, one letter, or two that changed places, is taken for a slip, also
    where the program has such a tool; so is what Claude Code calls one of ours.

    Raises:
        UnknownTool: with the name that was meant.
    """
    known = {*OURS, *theirs}
    for each in (*(agent.tools or ()), *agent.disallowed_tools):
        if not isinstance(each, str):
            continue
        name = each.partition("(")[0].strip()
        if name in known or name.startswith("mcp__"):
            continue
        is_alias = name[:1].isupper() and tool_of(name) in known
        if is_alias or any(_is_slip(name, other) for other in known):
            from ..tools.toolbox import UnknownTool

            raise UnknownTool(agent.name, name, tuple(sorted(known)))


def _is_slip(name: str, other: str) -> bool:
    """Whether `name` may be `other` with a slip of the pen in it.

    Examples:
        >>> [_is_slip(name, "read") for name in ("raed", "rread", "rad", "resd", "Read")]
        [True, True, True, True, True]
        >>> [_is_slip(name, "ls") for name in ("sl", "l", "lsp")], _is_slip("deploy", "read")
        ([True, False, False], False)
    """
    a, b = (re.sub("[_-]", "", each).casefold() for each in (name, other))
    if a == b:
        return True
    start = _in_common(a, b)
    a, b = a[start:], b[start:]
    end = _in_common(a[::-1], b[::-1])
    a, b = a[: len(a) - end], b[: len(b) - end]
    if len(a) == len(b) == 2:
        return a == b[::-1]
    # One letter is too much of a name that has two or three.
    return max(len(a), len(b)) == 1 and min(len(name), len(other)) >= 3 < max(len(name), len(other))


def _in_common(a: str, b: str) -> int:
    """How many letters two names begin with alike."""
    shorter = min(len(a), len(b))
    return next((n for n in range(shorter) if a[n] != b[n]), shorter)


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
