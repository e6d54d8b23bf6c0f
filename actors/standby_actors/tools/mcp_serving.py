"""Our agents as the tools of an MCP server: each takes a task and answers it."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

import trio

from ..agent import Agent
from ..result import Result
from ..session import TextDelta, ToolStarted
from ..subagent import Subagent, spawn
from .mcp_client import NoMcp
from .schema import problems_of

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

AT_ONCE = 8
"""Turns that are played at the same time; further calls wait."""

_PARAMETERS = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "what is to be done, in words"}},
    "required": ["task"],
    "additionalProperties": False,
}
# A client that shows progress wants to see that something happens, not each word.
_PIECES = 50
_READ_BYTES = 65536


class Spawn(Protocol):
    """How a subagent is had for one call."""

    def __call__(self, agent: Agent, /) -> AbstractAsyncContextManager[Subagent]: ...


def agent_server(
    agents: Iterable[Agent], *, spawn: Spawn = spawn, at_once: int = AT_ONCE
) -> Server[Any]:
    """An MCP server, not yet running, with a tool for each agent.

    Every call is one task of a subagent of its own, which is closed when it is
    answered.  The tools that it uses are told as progress.  A call that the
    client cancels is cut.  A turn that failed is an error of the tool, told in
    words.

    Args:
        agents: their names differ, also where only letters, digits, ``_`` and
            ``-`` are left of them.
        spawn: how a subagent is had; with a model and an environment, say.
        at_once: turns that are played at the same time.

    Raises:
        NoMcp: the package `mcp` is not installed.
        ValueError: two agents would be one tool.
    """
    if importlib.util.find_spec("mcp") is None:
        raise NoMcp
    from mcp import types
    from mcp.server.lowlevel import Server

    named: dict[str, Agent] = {}
    for agent in agents:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", agent.name)[:64]
        if name in named:
            raise ValueError(
                f"the agents {named[name].name!r} and {agent.name!r} would both be {name!r}"
            )
        named[name] = agent
    places = trio.CapacityLimiter(at_once)
    tools = [
        types.Tool(
            name=name, description=agent.description or agent.name, input_schema=dict(_PARAMETERS)
        )
        for name, agent in named.items()
    ]

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: Any) -> types.CallToolResult:
        agent = named.get(params.name)
        if agent is None:
            there = ", ".join(named) or "none"
            return _said(f"There is no agent {params.name!r:.80}; there are: {there}.", True)
        arguments = params.arguments or {}
        if problems := problems_of(_PARAMETERS, arguments):
            return _said(f"Not begun: {'; '.join(problems)}.", True)
        async with places:
            try:
                async with spawn(agent) as subagent:
                    result = await _play(subagent, arguments["task"], context.session)
            # What keeps one agent from being played (no key, no program) is the
            # answer to this call; the server serves on.
            except Exception as error:
                return _said(f"{agent.name} could not be asked: {error}", True)
        return _said(*_told(result))

    def _said(text: str, is_error: bool = False) -> types.CallToolResult:
        content = [types.TextContent(type="text", text=text)]
        return types.CallToolResult(content=[*content], is_error=is_error)

    return Server(
        "standby", version=version("standby"), on_list_tools=list_tools, on_call_tool=call_tool
    )


async def _play(subagent: Subagent, task: str, session: Any) -> Result:
    done = pieces = 0
    async with subagent.stream(task) as events:
        async for event in events:
            told = ""
            match event:
                case ToolStarted(call):
                    told = f"{subagent.id} uses {call.name}"
                case TextDelta():
                    pieces += 1
                    told = f"{subagent.id} writes" if pieces % _PIECES == 1 else ""
                case _:
                    pass
            if told:
                done += 1
                # Nothing is sent to a client that has not asked for it.
                await session.report_progress(done, None, told)
    return events.result


def _told(result: Result) -> tuple[str, bool]:
    if result.error is None:
        return result.output or "done; it said nothing", False
    partial = f"\n\nSo far it had said:\n{result.partial}" if result.partial else ""
    return f"{result.status}: {result.error.message}{partial}", True


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over our own stdin and stdout, until it closes them.

    Meanwhile whatever else reads stdin here finds it empty, and what is printed goes to
    stderr.  Cancelled, it has cut and closed what it had at work.
    """
    from mcp.server.stdio import stdio_server

    with _taken_stdin() as fd:
        lines: Any = _lines(fd)
        async with stdio_server(stdin=lines) as (read, write):
            await server.run(read, write, server.create_initialization_options())


@contextmanager
def _taken_stdin() -> Generator[int]:
    """What stdin is; it is empty for everybody else, children included, meanwhile."""
    taken = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        yield taken
    finally:
        # Not closed: a thread that was left may still read from it, and must not find
        # another file under its number.
        os.dup2(taken, 0)


async def _lines(fd: int) -> AsyncGenerator[str]:
    """What is read from `fd`; unlike the reader of the SDK, one that can be left."""
    pieces: list[bytes] = []
    while True:
        data = await trio.to_thread.run_sync(os.read, fd, _READ_BYTES, abandon_on_cancel=True)
        *whole, rest = data.split(b"\n")
        for each in whole:
            yield b"".join((*pieces, each)).decode(errors="replace")
            pieces.clear()
        pieces.append(rest)
        if not data:
            if rest := b"".join(pieces):
                yield rest.decode(errors="replace")
            return
