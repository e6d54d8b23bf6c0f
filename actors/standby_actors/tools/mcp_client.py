"""Tools of MCP servers: programs over their stdin and stdout, or addresses over HTTP.

A server lives as long as the block that opened it, in a task of its own, so that
it can be started anew while calls come from other tasks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib.util
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import trio
from attrs import define, evolve, field

from ..agent import Agent, McpServer
from ..process.environment import child_environment
from ..process.frames import BadLine, LineReader, TooLong
from ..process.process import Grace, Process, ProcessError, open_process
from ..result import Attachment
from .mcp_config import McpError, expand, find_servers
from .redact import redact, secrets_of
from .schema import fault_of, listed
from .text import as_text, shorten
from .tool import Approval, Tool, ToolContext, ToolOutput, names_tool, refuse

if TYPE_CHECKING:
    import mcp

START_SECONDS = 30.0
CALL_SECONDS = 120.0
LONGEST_ANSWER = 16_000_000
"""Bytes of one message of a server; with a longer one it is ended."""

_TOOLS = 500
_PAGES = 50
_DESCRIPTION = 4000
_SCHEMA = 100_000
_CLOSE_SECONDS = 5.0
# A server that waits for its end of input gets a moment, and no more: its tools
# have been answered.
_GRACE = Grace(eof=0.5, term=0.5, kill=2.0)


class NoMcp(McpError):
    """Raised where MCP servers are wanted and the package `mcp` is not installed."""

    def __str__(self) -> str:
        return "MCP servers need the package mcp: pip install 'standby[mcp]'"


class McpStartFailed(McpError):
    """Raised when a server did not start, or did not speak MCP in time; it has been ended."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(server, why)
        self.server = server
        self.why = why

    def __str__(self) -> str:
        return f"the MCP server {self.server!r} did not start: {self.why}"


@asynccontextmanager
async def open_mcp_servers(
    servers: Iterable[McpServer],
    *,
    allow: Mapping[str, Collection[str]] | None = None,
    env: Mapping[str, str] | None = None,
    start_timeout: float = START_SECONDS,
    call_timeout: float = CALL_SECONDS,
    restarts: int = 1,
    approval: Approval = "allow",
) -> AsyncGenerator[tuple[McpConnection, ...]]:
    """MCP servers for the length of the block; they are started side by side.

    Their tools are called ``mcp__server__tool``.  A server that ends by itself
    fails the calls in flight, which are not repeated: what they did is not
    known.  The next call starts it anew, as often as `restarts` says; after
    that its calls are answered with an error.  When the block is left, every
    server has ended, with whatever it started.

    A program gets the allow-list of
    :func:`~standby_actors.process.environment.child_environment` and what its
    `env` names, in which ``${NAME}`` stands for a variable of ours.  No value
    of `env` or `headers` is shown in an output, an error or a repr.

    Args:
        servers: their names differ.
        allow: for a server's name, those of its tools that there are; a server
            that is not in it has all.
        env: where ``${NAME}`` is looked up; None for the process's own.
        start_timeout: seconds for a server to say which tools it has.
        call_timeout: seconds for one call.
        restarts: how often a server that ended is started again.
        approval: of their tools.

    Raises:
        NoMcp: the package is not installed.
        BadMcpConfig: a variable is not set; nothing was started.
        McpStartFailed: a server did not start, or lacks an allowed tool; none is left.
    """
    if importlib.util.find_spec("mcp") is None:
        raise NoMcp
    ours = os.environ if env is None else env
    allowed = allow or {}
    connections = tuple(
        McpConnection(
            server,
            expand(server.env, ours, f"the MCP server {server.name!r}"),
            expand(server.headers, ours, f"the MCP server {server.name!r}"),
            allowed.get(server.name),
            start_timeout,
            call_timeout,
            restarts,
            approval,
        )
        for server in servers
    )
    failed: McpError | None = None
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        for each in connections:
            nursery.start_soon(each.live)
        try:
            for each in connections:
                await each.first.wait()
                failed = failed or each.failure
            if failed is None:
                yield connections
        # Raised below: the nursery would wrap it into a group, which is not what
        # the body of the block raised.
        except BaseException as error:
            raised = error
        finally:
            for each in connections:
                each.leave()
    if raised is not None:
        try:
            raise raised
        finally:
            del raised  # a frame that holds the exception that holds the frame
    if failed is not None:
        raise failed


@asynccontextmanager
async def open_mcp_tools(
    agent: Agent, *, env: Mapping[str, str] | None = None
) -> AsyncGenerator[tuple[Tool, ...]]:
    """The tools of the MCP servers that `agent` names, for the length of the block.

    A server that is a name is looked up in the nearest `.mcp.json`, from where
    the agent works upwards.  If the agent's `tools` name some of a server's
    tools (``mcp__server__tool``, ``mcp__server__*`` or ``mcp__server``), there
    are those; if they name none of them, there are all.

    Args:
        agent: its `mcp_servers`, `tools`, `cwd`.
        env: where ``${NAME}`` is looked up; None for the process's own.

    Raises:
        McpError: see :func:`open_mcp_servers`; nothing is left.
    """
    cwd = agent.cwd or Path.cwd()
    servers = [
        each if each.cwd is not None or each.command is None else evolve(each, cwd=cwd)
        for each in find_servers(agent.mcp_servers, cwd)
    ]
    async with open_mcp_servers(servers, env=env) as connections:
        kept: list[Tool] = []
        for connection in connections:
            prefix = tool_name(connection.name, "")
            named = [
                each
                for each in agent.tools or ()
                if isinstance(each, str) and f"{each}__".startswith(prefix)
            ]
            kept += [
                tool
                for tool in connection.tools
                if not named or any(names_tool(each, tool.name) for each in named)
            ]
        yield tuple(kept)


@define(eq=False)
class McpConnection:
    """A server, as long as its block lasts."""

    server: McpServer
    _env: Mapping[str, str] = field(repr=False)
    _headers: Mapping[str, str] = field(repr=False)
    _allow: Collection[str] | None = field(repr=False)
    _start_timeout: float = field(repr=False)
    _call_timeout: float = field(repr=False)
    _restarts_left: int = field(repr=False)
    _approval: Approval = field(repr=False)
    tools: tuple[Tool, ...] = field(init=False, default=(), repr=False)
    """What it offers, by the names that minds call."""
    problems: tuple[str, ...] = field(init=False, default=())
    """What of it was left out, and why."""
    starts: int = field(init=False, default=0)
    first: trio.Event = field(init=False, factory=trio.Event, repr=False)
    """Its first start has come to its end, well or not."""
    failure: McpStartFailed | None = field(init=False, default=None, repr=False)
    _client: mcp.Client | None = field(init=False, default=None, repr=False)
    _up: trio.Event = field(init=False, factory=trio.Event, repr=False)
    _down: trio.Event = field(init=False, factory=trio.Event, repr=False)
    _wanted: trio.Event = field(init=False, factory=trio.Event, repr=False)
    _leaving: trio.CancelScope = field(init=False, factory=trio.CancelScope, repr=False)
    _was_up: bool = field(init=False, default=False, repr=False)
    _ended: str = field(init=False, default="", repr=False)
    _secrets: frozenset[str] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        hidden = {value for value in self._headers.values() if len(value) >= 8}
        # Of "Bearer …" the second word is the secret.
        hidden |= {word for value in hidden for word in value.split() if len(word) >= 8}
        for name, raw in self.server.env.items():
            if "${" in raw and len(self._env[name]) >= 8:
                hidden.add(self._env[name])
        self._secrets = frozenset(hidden) | secrets_of(self._env)

    @property
    def name(self) -> str:
        """Of the server."""
        return self.server.name

    def leave(self) -> None:
        """End the server; :meth:`live` returns when it is gone."""
        self._leaving.cancel()

    async def live(self) -> None:
        """Be connected, and be so again when it is wanted, until :meth:`leave`."""
        try:
            with self._leaving:
                while await self._connected():
                    await self._wanted.wait()
        # It was ended by us, and could not end in order.  It is gone all the same,
        # and its tools were answered.
        except Exception as error:
            self._ended = self.clean(_why(error))
        finally:
            self._up.set()
            self.first.set()

    async def _connected(self) -> bool:
        """One life of the server; whether another one is allowed."""
        self.starts += 1
        self._down = trio.Event()
        self._was_up = False
        why = ""
        try:
            await self._life()
        # Whatever a server, or the library on the way to it, does wrong is one
        # failure of that server: it becomes a value here.
        except Exception as error:
            why = _why(error)
        if why and not self._down.is_set():
            self._ended = self.clean(why)
        if not self._was_up:
            if self.starts == 1:
                self.failure = McpStartFailed(self.name, self._ended or "it ended at once")
            # Those who waited for this start are told that there was none.
            self._up.set()
            self._up = trio.Event()
        allowed = self._restarts_left > 0 and self.failure is None
        self._restarts_left -= 1
        if not allowed:
            self._up.set()
        self.first.set()
        return allowed

    async def _life(self) -> None:
        import mcp
        from mcp.types import Implementation

        info = Implementation(name="standby", version=version("standby"))
        with trio.CancelScope() as starting:
            starting.deadline = trio.current_time() + self._start_timeout
            async with AsyncExitStack() as stack:
                transport = await self._transport(stack)
                client = mcp.Client(transport, client_info=info, cache=None)
                await stack.enter_async_context(client)
                tools = await self._list(client)
                if self.starts == 1:
                    self.tools = tools
                starting.deadline = float("inf")
                self._client = client
                self._was_up = True
                self._wanted = trio.Event()
                self._up.set()
                self.first.set()
                try:
                    await self._down.wait()
                finally:
                    # From now on whoever calls waits for the next life.
                    self._client = None
                    self._up = trio.Event()
        if starting.cancelled_caught:
            raise McpStartFailed(
                self.name, f"it did not say within {self._start_timeout:g} s which tools it has"
            )

    async def _transport(self, stack: AsyncExitStack) -> Any:
        if self.server.command is not None:
            command = (self.server.command, *self.server.args)
            environment = child_environment(self._env)
            return _stdio(command, environment, self.server.cwd, self._hear_end)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        assert self.server.url is not None
        host = urlsplit(self.server.url).hostname or ""
        # How long an answer may take is a matter of each call.
        timeout = httpx2.Timeout(30.0, connect=10.0, read=None)
        client = httpx2.AsyncClient(
            headers=dict(self._headers),
            timeout=timeout,
            # A proxy of the environment is for the world outside.
            trust_env=host not in ("localhost", "127.0.0.1", "::1"),
            event_hooks={"response": [_bound]},
        )
        await stack.enter_async_context(client)
        return streamable_http_client(
            self.server.url, http_client=client, max_sse_event_size=LONGEST_ANSWER
        )

    def _hear_end(self, how: str) -> None:
        self._ended = self.clean(how)
        self._down.set()

    def clean(self, text: str) -> str:
        """`text` without the secrets of this server."""
        return redact(text, self._secrets)

    # ---- its tools

    async def _list(self, client: mcp.Client) -> tuple[Tool, ...]:
        offered: list[Any] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            offered += page.tools
            cursor = page.next_cursor
            if cursor is None or len(offered) > _TOOLS:
                break
        problems: list[str] = []
        if len(offered) > _TOOLS:
            problems.append(f"{self.name} offers more than {_TOOLS} tools; the rest is left out")
        names = [each.name for each in offered]
        if missing := [name for name in self._allow or () if name not in names]:
            near = get_close_matches(missing[0], names, 1)
            meant = f"; do you mean {near[0]}?" if near else ""
            raise McpStartFailed(
                self.name, f"it has no tool {missing[0]!r}{meant}; it has {listed(names) or 'none'}"
            )
        tools: dict[str, Tool] = {}
        for each in offered[:_TOOLS]:
            if self._allow is not None and each.name not in self._allow:
                continue
            known_as = tool_name(self.name, each.name)
            if known_as in tools:
                problems.append(f"{self.name} offers {each.name!r:.80} twice")
                continue
            tools[known_as] = self._tool(known_as, each, problems)
        self.problems = tuple(problems)
        return tuple(tools.values())

    def _tool(self, known_as: str, offered: Any, problems: list[str]) -> Tool:
        schema: dict[str, Any] = offered.input_schema
        fault = fault_of(schema)
        if not fault and len(msgspec.json.encode(schema)) > _SCHEMA:
            fault = f"it has more than {_SCHEMA:,} characters"
        if fault:
            problems.append(f"the schema of {known_as} is not used: {fault}")
            schema = {"type": "object"}
        hints = offered.annotations

        async def run(arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            return await self.call(offered.name, arguments, context)

        return Tool(
            known_as,
            shorten(offered.description or "", _DESCRIPTION),
            schema,
            run,
            timeout=self._call_timeout,
            approval=self._approval,
            read_only=bool(hints is not None and hints.read_only_hint),
        )

    async def call(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Call a tool of the server, which is started again first if it has ended.

        Cancelled, it has told the server to stop.
        """
        import mcp
        import pydantic

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            of = "" if total is None else f" of {total:g}"
            context.progress(self.clean(f"{message or name}: {progress:g}{of}")[:500])

        client = await self._ready()
        if client is None:
            return refuse(
                f"The MCP server {self.name!r} has ended, and is not started again"
                f" ({self._ended or 'it was closed'}).  Do without its tools."
            )
        down = self._down
        outcome: Any = None
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                # Not every way to a server notices that it is gone.
                nursery.start_soon(_cancel_when, down, scope)
                try:
                    outcome = await client.call_tool(name, arguments, progress_callback=tell)
                except (mcp.MCPError, pydantic.ValidationError) as error:
                    outcome = error
                nursery.cancel_scope.cancel()
        if isinstance(outcome, pydantic.ValidationError):
            return refuse(f"{self.name} answered with something that is not of the protocol.")
        if isinstance(outcome, mcp.MCPError):
            if not _is_lost(outcome):
                return refuse(self.clean(f"{self.name} refused the call: {outcome.message:.2000}"))
            # What ends it is heard in a moment, and says more than this.
            with trio.move_on_after(1.0):
                await down.wait()
            down.set()
            outcome = None
        if outcome is None:
            return refuse(
                f"The MCP server {self.name!r} ended during the call"
                f" ({self._ended or 'the connection was lost'}).  Whether it was done is not known."
            )
        return self._output(outcome)

    async def _ready(self) -> mcp.Client | None:
        if self._client is None:
            self._wanted.set()
            await self._up.wait()
        return self._client

    def _output(self, result: Any) -> ToolOutput:
        said: list[str] = []
        attached: list[Attachment] = []
        for block in result.content:
            match block.type:
                case "text":
                    said.append(block.text)
                case "image" | "audio":
                    said += _attach(attached, block.data, block.mime_type, "")
                case "resource":
                    held = block.resource
                    if hasattr(held, "text"):
                        said.append(held.text)
                    else:
                        kind = held.mime_type or "application/octet-stream"
                        said += _attach(attached, held.blob, kind, str(held.uri))
                case _:
                    said.append(f"{block.name}: {block.uri}")
        if not said and not attached and result.structured_content is not None:
            said.append(as_text(result.structured_content))
        text = self.clean("\n".join(said)) or "done; it returned nothing"
        return ToolOutput(text, is_error=bool(result.is_error), attachments=tuple(attached))


def tool_name(server: str, tool: str) -> str:
    """What minds call a server's tool by.

    Examples:
        >>> tool_name("git", "log"), tool_name("my server", "get.it")
        ('mcp__git__log', 'mcp__my_server__get_it')
        >>> len(tool_name("server", "x" * 100))
        64
    """
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server}__{tool}")
    if len(name) <= 64:
        return name
    # Two long names may begin alike.
    return f"{name[:55]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _is_lost(error: mcp.MCPError) -> bool:
    from mcp.types import CONNECTION_CLOSED

    return error.code == CONNECTION_CLOSED


def _attach(attached: list[Attachment], data: str, kind: str, name: str) -> list[str]:
    try:
        attached.append(Attachment(kind, base64.b64decode(data, validate=True), name))
    except (binascii.Error, ValueError):
        return [f"[an attachment of type {kind:.80} could not be read]"]
    return [f"[attached: {name or kind:.200}]"]


def _why(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(_why(each) for each in error.exceptions[:3]))
    if isinstance(error, McpStartFailed):
        return error.why
    if isinstance(error, ProcessError):
        return str(error)
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:500]}" if text else type(error).__name__


async def _bound(response: Any) -> None:
    """Let no answer over HTTP that comes in one piece be longer than others may be."""
    import httpx2

    # The library bounds events itself, and a stream of many may go on for ever.
    if "json" not in response.headers.get("content-type", "json"):
        return
    whole: Any = response.stream

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            failed: Exception | None = None
            try:
                async for piece in whole:
                    size += len(piece)
                    if size > LONGEST_ANSWER:
                        # Closed and not left: generators of the client that are left
                        # in the middle would be ended by nobody.
                        await whole.aclose()
                    else:
                        yield piece
            except httpx2.HTTPError as error:
                failed = error
            if size > LONGEST_ANSWER:
                failed = httpx2.ReadError(f"an answer of more than {LONGEST_ANSWER:,} bytes")
            if failed is not None:
                raise failed

        async def aclose(self) -> None:
            await whole.aclose()

    response.stream = Bounded()


@asynccontextmanager
async def _stdio(
    command: tuple[str, ...],
    env: Mapping[str, str],
    cwd: Any,
    ended: Callable[[str], None],
) -> AsyncGenerator[tuple[Any, Any]]:
    """The two streams that the library talks over, to a program whose tree ends with us."""
    import anyio

    async with open_process(command, cwd=cwd, env=env, grace=_GRACE) as process:
        heard, incoming = anyio.create_memory_object_stream[Any](0)
        outgoing, said = anyio.create_memory_object_stream[Any](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hear, process, heard, ended)
            nursery.start_soon(_say, process, said)
            try:
                yield incoming, outgoing
            finally:
                nursery.cancel_scope.cancel()
                for stream in (heard, incoming, outgoing, said):
                    stream.close()


async def _hear(process: Process, heard: Any, ended: Callable[[str], None]) -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    reader = LineReader(LONGEST_ANSWER)
    how = ""
    try:
        while not how and (data := await process.receive()):
            for line in reader.feed(data):
                if isinstance(line, TooLong):
                    how = f"it sent a message of more than {line.limit:,} bytes"
                    break
                if isinstance(line, BadLine):
                    continue  # a log entry that should be on stderr
                try:
                    message = jsonrpc_message_adapter.validate_python(line, by_name=False)
                except ValueError:
                    continue  # no message: it answers nothing, and the call has its own time
                await heard.send(SessionMessage(message))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # nobody listens any more: the block is being left
    if not how:
        with trio.move_on_after(1.0):
            await process.wait()
        how = f"it ended {process.ended}" if process.ended else "it closed its output"
        if tail := " ".join(process.stderr_tail.split()):
            how += f"; its last words: {tail[-300:]}"
    ended(how)
    heard.close()


async def _say(process: Process, said: Any) -> None:
    async for message in said:
        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await process.send(text.encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # it has ended, and `_hear` says how
