"""A conversation with Claude Code, over its stream of JSON."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
from attrs import define, field

from ..agent import Agent, McpServer
from ..definitions.vocabulary import ELSEWHERE
from ..process import Frame, child_environment
from ..result import Attachment, TurnError
from ..session import Capabilities, Compacted, Memory, Retrying, Session
from ..usage import NOTHING, Usage
from .commandline import model_parts, named_tools, program, servers_for
from .stdio import StdioSession, running
from .wire import RequestFailed

_CAN = Capabilities(streaming=True, images=True, steer=True, follow_up=True, resume=True)
_TOOLS = {
    "read": "Read",
    "grep": "Grep",
    "find": "Glob",
    "ls": "Glob",
    "edit": "Edit",
    "write": "Write",
    "shell": "Bash",
    "bash": "Bash",
    "subagent": "Agent",
}
# "Task" is what it called "Agent" before.
_BESIDES = ELSEWHERE | {"LS", "MultiEdit", "Task"}
_MODES = {
    "accept_edits": "acceptEdits",
    "dont_ask": "dontAsk",
    "bypass_permissions": "bypassPermissions",
}
_QUIET = frozenset(
    {
        "control_cancel_request",
        "keep_alive",
        "rate_limit_event",
        "tool_progress",
        "tool_use_summary",
    }
)
QUIET_PROGRAM = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
"""Variables that keep it from talking to anybody but the model."""


@define(eq=False, kw_only=True)
class ClaudeSession(StdioSession):
    """Claude Code: ``claude -p`` with JSON lines to and fro."""

    name: str = "claude"
    capabilities: Capabilities = _CAN
    _message: Usage = field(init=False, default=NOTHING, repr=False)
    """What the message that is coming has cost so far."""
    _pieces: int = field(init=False, default=0, repr=False)
    _turn: Usage = field(init=False, default=NOTHING, repr=False)
    """What the messages of this prompt have cost."""
    _told: Usage = field(init=False, default=NOTHING, repr=False)
    """Its own account of everything since it was started."""
    _failure: str = field(init=False, default="", repr=False)

    async def greet(self) -> None:
        """Have it answer; which conversation it is, it says with the first prompt."""
        self._message = self._turn = self._told = NOTHING
        self._pieces, self._failure = 0, ""
        await self._control({"subtype": "initialize", "hooks": None}, self.timing.start)

    async def prompt(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        """Put a prompt."""
        self._turn, self._message, self._failure = NOTHING, NOTHING, ""
        content: list[Frame] = [{"type": "text", "text": text}]
        for each in attachments:
            data = base64.b64encode(each.data).decode()
            source = {"type": "base64", "media_type": each.media_type, "data": data}
            content.insert(-1, {"type": "image", "source": source})
        message = {"role": "user", "content": content}
        self.send({"type": "user", "message": message, "parent_tool_use_id": None})

    def abort(self) -> None:
        """Interrupt the turn."""
        key = str(self.new_id())
        request = {"subtype": "interrupt"}
        self.send({"type": "control_request", "request_id": key, "request": request})

    async def _control(self, request: Frame, seconds: float | None = None) -> Frame:
        key = str(self.new_id())
        frame = {"type": "control_request", "request_id": key, "request": request}
        answer = (await self.request(key, frame, seconds))["response"]
        if answer.get("subtype") == "error":
            raise RequestFailed(self.fault(str(answer.get("error"))))
        result: Frame = answer.get("response") or {}
        return result

    def hear(self, frame: Frame) -> None:
        """Make of a frame what it means."""
        match frame["type"]:
            case "stream_event":
                if frame.get("parent_tool_use_id") is None:
                    self._stream(frame["event"])
            case "assistant":
                if frame.get("parent_tool_use_id") is None:
                    self._assistant(frame)
            case "user":
                if frame.get("parent_tool_use_id") is None and not frame.get("isReplay"):
                    self._results(frame["message"])
            case "result":
                self._result(frame)
            case "system":
                self._system(frame)
            case "control_response":
                self.answered(str(frame["response"]["request_id"]), frame)
            case "control_request":
                self._question(frame["request_id"], frame["request"])
            case kind if kind in _QUIET:
                pass
            case _:
                self.ignored += 1

    def _stream(self, event: Frame) -> None:
        match event["type"]:
            case "message_start":
                self._pieces = 0
                if (play := self._play) is not None and play.failure is not None:
                    # It has another try; what was cut at its length stays cut.
                    self.failing(play.failure if play.failure.kind == "truncated" else None)
                self._message = _usage(event["message"].get("usage") or {})
            case "content_block_delta":
                delta = event["delta"]
                self._pieces += 1
                if delta["type"] == "text_delta":
                    self.text(delta["text"])
                elif delta["type"] == "thinking_delta":
                    self.thought(delta["thinking"])
            case "message_delta":
                # A whole message: its input again, and its output.
                usage = _usage(event.get("usage") or {})
                self._message = _larger(self._message, usage)
                if (event.get("delta") or {}).get("stop_reason") == "max_tokens":
                    self.failing(
                        TurnError("truncated", "claude: the answer was cut at its length limit")
                    )
            case "message_stop":
                self._charge(self._message)
                self._message = NOTHING
            case _:
                pass

    def _charge(self, usage: Usage) -> None:
        self._turn = self._turn.accumulate(usage)
        self.spend(usage)

    def _assistant(self, frame: Frame) -> None:
        message = frame["message"]
        if message.get("model") == "<synthetic>" or frame.get("error"):
            # What it says about a failure of the model is no answer.
            self._failure = _text(message.get("content"))
            if frame.get("error"):
                # Its end is next; where it does not come, nobody waits for long.
                self.failing(self.fault(self._failure))
            return
        for part in message.get("content") or ():
            if part["type"] == "text":
                self.flush(part["text"])
            elif part["type"] == "tool_use":
                self.tool_began(part["id"], part["name"], part.get("input", {}))

    def _results(self, message: Frame) -> None:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "tool_result":
                output = _text(part.get("content"))
                error = bool(part.get("is_error"))
                self.tool_ended(part["tool_use_id"], output, is_error=error)

    def _system(self, frame: Frame) -> None:
        match frame.get("subtype"):
            case "init":
                self.resume_id = frame["session_id"]
                self.model = f"anthropic/{frame.get('model') or ''}"
            case "compact_boundary":
                before = (frame.get("compact_metadata") or {}).get("pre_tokens")
                self.emit(Compacted(before, None))
            case "api_retry":
                error = self.fault(f"{frame.get('error_status')} {frame.get('error')}")
                seconds = frame.get("retry_delay_ms", 0) / 1000
                self.emit(Retrying(frame.get("attempt", 1), seconds, error))
            case _:
                pass

    def _result(self, frame: Frame) -> None:
        play = self._play
        if frame.get("session_id"):
            self.resume_id = frame["session_id"]
        self._settle_usage(frame)
        subtype = frame.get("subtype")
        said = str(frame.get("result") or self._failure or "; ".join(frame.get("errors") or ()))
        if subtype == "success" and not frame.get("is_error"):
            self.ended(None if play is None else play.failure)
        elif subtype == "error_max_turns":
            self.ended(TurnError("runaway", "claude: it reached its limit of requests"))
        elif subtype == "error_max_budget_usd":
            self.ended(TurnError("budget", "claude: it reached its limit of cost"))
        elif play is not None and play.is_cut:
            self.ended(TurnError("stopped", "claude: the turn was interrupted"))
        else:
            self.ended(self.fault(said or f"the turn failed: {subtype}"))

    def _settle_usage(self, frame: Frame) -> None:
        """What its own account holds beyond the messages that we saw: its subagents, titles."""
        self.charge_cut()
        told = NOTHING
        for model in (frame.get("modelUsage") or {}).values():
            read, written = model["cacheReadInputTokens"], model["cacheCreationInputTokens"]
            told = told.accumulate(
                Usage(
                    input_tokens=model["inputTokens"] + read + written,
                    output_tokens=model["outputTokens"],
                    cache_read=read,
                    cache_write=written,
                )
            )
            if window := model.get("contextWindow"):
                self.observe(context_tokens=window)
        told = told.accumulate(Usage(cost_usd=frame.get("total_cost_usd") or 0.0))
        grown, self._told = told.delta(self._told), told
        more = grown.delta(self._turn)
        self.spend(more)

    def charge_cut(self) -> None:
        """Count a message that was cut before it was whole: at the least, what came of it."""
        message, self._message = self._message, NOTHING
        if message != NOTHING:
            cut = Usage(
                requests=1,
                unreported=1,
                input_tokens=message.input_tokens,
                cache_read=message.cache_read,
                output_tokens=max(self._pieces, message.output_tokens),
            )
            self.spend(cut)

    def _question(self, key: str, request: Frame) -> None:
        def reply(response: Frame) -> Frame:
            whole = {"subtype": "success", "request_id": key, "response": response}
            return {"type": "control_response", "response": whole}

        def decision(allowed: bool, why: str) -> Frame:
            if allowed:
                return reply({"behavior": "allow", "updatedInput": request.get("input") or {}})
            return reply({"behavior": "deny", "message": why or "refused"})

        if request.get("subtype") == "can_use_tool":
            about = str(request.get("description") or "")
            self.approve(request["tool_name"], request.get("input") or {}, decision, about)
            return
        self.ignored += 1
        error = {"subtype": "error", "request_id": key, "error": "not served here"}
        self.send({"type": "control_response", "response": error})


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if isinstance(part, dict))


def _usage(told: Frame) -> Usage:
    read = told.get("cache_read_input_tokens") or 0
    written = told.get("cache_creation_input_tokens") or 0
    whole = (told.get("input_tokens") or 0) + read + written
    out = told.get("output_tokens") or 0
    return Usage(
        requests=1,
        input_tokens=whole,
        output_tokens=out,
        cache_read=read,
        cache_write=written,
        context_tokens=whole + out,
    )


def _larger(one: Usage, other: Usage) -> Usage:
    """Of two accounts of one message, which each may leave something out, the larger figures."""
    return one.accumulate(other.delta(one))


@asynccontextmanager
async def open_claude(
    agent: Agent,
    *,
    command: Sequence[str] | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_env: Sequence[str] = (),
    set_env: Mapping[str, str] | None = None,
    base_url: str | None = None,
    api_key: str = "none",
    memory: Memory | None = None,
    **options: Any,
) -> AsyncGenerator[Session]:
    """A session of `agent` with Claude Code, until the block is left.

    What it asks for is decided by `agent.approve`; where that says nothing, it is refused.
    A word put into a turn cuts the request in flight, and is the next prompt.

    Args:
        agent: whose prompt is added to Claude Code's own; its `tools` are all that it has.
        command: the program and its first arguments; None for the agent's, or "claude".
        cwd: where it works; None for the agent's place, or ours.
        env: what its environment is taken from; None for ours.
        pass_env: names of variables that it is given besides the allow-list, keys among them.
        set_env: more variables for it.
        base_url: of a server that speaks Anthropic's messages protocol; None for its own settings.
        api_key: for `base_url`.
        memory: what it is to go on from.
        options: more fields of the session, as in `timing=Timing(request=5)`.

    Raises:
        CannotRun: there is no such program.
        UnknownTool: `agent` names a tool that is nearly one that is known.
        StartFailed: it did not get ready.
    """
    argv = [*program(agent, command, ("claude",)), "-p", "--verbose", "--include-partial-messages"]
    argv += ["--input-format", "stream-json", "--output-format", "stream-json"]
    argv += ["--permission-prompt-tool", "stdio"]
    if model := model_parts(agent.model)[1]:
        argv += ["--model", model]
    if agent.mind and isinstance(agent.mind, str):
        argv += ["--append-system-prompt", agent.mind]
    tools = named_tools(agent, "claude", _TOOLS, patterns=True, besides=_BESIDES)
    if tools is not None:
        argv += ["--tools", ",".join(tools)]
    if agent.permission_mode is not None:
        argv += ["--permission-mode", _MODES.get(agent.permission_mode, agent.permission_mode)]
    if agent.max_requests is not None:
        argv += ["--max-turns", str(agent.max_requests)]
    variables = QUIET_PROGRAM | dict(set_env or {})
    if base_url:
        variables |= {"ANTHROPIC_BASE_URL": base_url, "ANTHROPIC_API_KEY": api_key}
    servers = servers_for(agent, env)
    with tempfile.TemporaryDirectory() if servers else nullcontext("") as folder:
        if servers:
            argv += ["--mcp-config", str(_write_servers(Path(folder), servers))]
        session = ClaudeSession(
            agent=agent,
            command=tuple(argv),
            resume_flags=("--resume",),
            cwd=Path(cwd or agent.cwd or Path.cwd()),
            env=child_environment(variables, names=("CLAUDE_CONFIG_DIR", *pass_env), source=env),
            memory=memory,
            **options,
        )
        async with running(session) as opened:
            yield opened


def _write_servers(folder: Path, servers: tuple[McpServer, ...]) -> Path:
    """Write servers to a file in `folder`, where only we may read: they may hold secrets."""
    path = folder / "mcp.json"
    told = {"mcpServers": {server.name: _served(server) for server in servers}}
    path.write_bytes(msgspec.json.encode(told))
    return path


def _served(server: McpServer) -> Frame:
    if server.url is not None:
        return {"type": "http", "url": server.url, "headers": dict(server.headers)}
    return {
        "type": "stdio",
        "command": server.command,
        "args": server.args,
        "env": dict(server.env),
    }
