"""From what an agent says of its tools to the tools themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..agent import Agent
from ..agent_checks import nearest
from ..definitions.vocabulary import READING
from ..definitions.vocabulary import tool_of as our_name
from .tool import Tool, names_tool, tool_of


class UnknownTool(ValueError):
    """Raised where an agent names a tool that there is not; nothing was spawned."""

    def __init__(self, agent: str, tool: str, there: tuple[str, ...]) -> None:
        super().__init__(agent, tool, there)
        self.agent = agent
        self.tool = tool
        self.there = there

    def __str__(self) -> str:
        # What another tool calls it is nearer than what looks alike.
        ours = our_name(self.tool)
        near = ours if ours in self.there else nearest(self.tool, self.there)
        meant = f"; do you mean {near!r}?" if near else ""
        have = ", ".join(self.there) or "none"
        return (
            f"the agent {self.agent!r} names a tool that there is not: {self.tool!r}{meant};"
            f" there are: {have}"
        )


def tools_of(agent: Agent, given: Sequence[Tool] = ()) -> tuple[Tool, ...]:
    """The tools of `agent`, in the order in which it names them, and then those given to it.

    An agent that says nothing of tools has none; one that was read from a file has
    those that read, as whoever writes such files expects.

    Args:
        agent: names of ours (``read``, ``grep``, …), functions and tools.
        given: from elsewhere: of MCP servers, say.  One that the agent names is
            taken for that name.

    Raises:
        UnknownTool: it names one that there is not.
    """
    elsewhere = {each.name: each for each in given}
    named: dict[str, Tool] = {}
    ours: Mapping[str, Tool] | None = None
    from_file = READING if agent.source is not None else ()
    for each in agent.tools if agent.tools is not None else from_file:
        if not isinstance(each, str):
            made = tool_of(each)  # type: ignore[arg-type]  # a tool or a function
            named[made.name] = made
            continue
        # `mcp__server` names all of a server's.
        if taken := [tool for tool in given if names_tool(each, tool.name)]:
            named |= {tool.name: tool for tool in taken}
            continue
        if ours is None:
            ours = file_tools(agent.cwd)
        if each not in ours:
            raise UnknownTool(agent.name, each, tuple(sorted({*ours, *elsewhere})))
        named[each] = ours[each]
    for name, tool in elsewhere.items():
        named.setdefault(name, tool)
    return tuple(
        tool
        for tool in named.values()
        if not any(names_tool(each, tool.name) for each in agent.disallowed_tools)
    )


def file_tools(root: Path | None) -> Mapping[str, Tool]:
    """Our own tools by name, confined to `root`; None for where the process works."""
    from .files import file_tools as made

    return {tool.name: tool for tool in made(root or Path.cwd())}
