"""A conversation with Codex, over its app server."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import trio
from attrs import define, field

from ..agent import Agent, McpServer
from ..process import Frame, child_environment
from ..result import Attachment, ChatMessage, ErrorKind, TurnError
from ..session import Capabilities, Compacted, Memory, Retrying, Session, Steered, Steering
from ..usage import Usage
from .commandline import check_tool_names, model_parts, named_tools, program, servers_for
from .stdio import StdioSession, running
from .wire import RequestFailed

KEY = "STANDBY_API_KEY"
"""The variable that tells the program the key for `base_url`."""

Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]
AskFor = Literal["untrusted", "on-request", "never"]

_CAN = Capabilities(
    streaming=True, schema=True, images=True, steer=True, follow_up=True, resume=True
)
_KINDS: dict[str, ErrorKind] = {
    "contextWindowExceeded": "context_overflow",
    "sessionBudgetExceeded": "budget",
    "usageLimitExceeded": "budget",
    "rateLimitExceeded": "rate_limited",
    "serverOverloaded": "rate_limited",
    "cyberPolicy": "refused",
    "bioPolicy": "refused",
}
_AGAIN = frozenset({"internalServerError", "rateLimitExceeded", "serverOverloaded"})
_WRITES = frozenset({"write", "edit", "shell", "bash", "apply_patch", "exec_command"})
_TOOLS = frozenset(
    {"commandExecution", "fileChange", "mcpToolCall", "dynamicToolCall", "webSearch"}
)
_DONE = frozenset({"completed"})
# What they tell is told by others too, or is of no use here.
_QUIET = frozenset(
    {
        "account/rateLimits/updated",
        "account/updated",
        "item/commandExecution/outputDelta",
        "item/fileChange/outputDelta",
        "item/fileChange/patchUpdated",
        "item/reasoning/summaryPartAdded",
        "mcpServer/startupStatus/updated",
        "remoteControl/status/changed",
        "serverRequest/resolved",
        "thread/name/updated",
        "thread/settings/updated",
        "thread/started",
        "thread/status/changed",
        "turn/diff/updated",
        "turn/plan/updated",
        "warning",
        "configWarning",
        "deprecationNotice",
    }
)


def _set() -> trio.Event:
    event = trio.Event()
    event.set()
    return event


@define(eq=False, kw_only=True)
class CodexSession(StdioSession):
    """Codex: ``codex app-server``, JSON-RPC without its version field."""

    name: str = "codex"
    capabilities: Capabilities = _CAN
    thread: Frame = field(factory=dict[str, Any], repr=False)
    """What a thread is started with."""
    _turn: str = field(init=False, default="", repr=False)
    """Which turn of its is ours; empty before it has said so."""
    _ended: trio.Event = field(init=False, factory=_set, repr=False)
    """That turn is over for it too, which may be later than for us."""
    _failed: bool = field(init=False, default=False, repr=False)
    """That turn is over for us: it said that it failed."""
    _spent: Frame = field(init=False, factory=dict[str, Any], repr=False)
    """Its own count of tokens, when we last heard of it."""
    _pieces: int = field(init=False, default=0, repr=False)
    """Pieces of answers since then."""
    _calls: int = field(init=False, default=0, repr=False)
    """Calls since then."""
    _goes_on: bool = field(init=False, default=False, repr=False)
    """Its thread was there before it was started: what that had spent is counted already."""
    _steered: list[str] = field(init=False, factory=list[str], repr=False)

    async def greet(self) -> None:
        """Introduce us, and start a thread or go on with one."""
        self._turn, self._spent, self._pieces, self._steered = "", {}, 0, []
        self._calls, self._goes_on = 0, bool(self.resume_id)
        self._ended.set()
        self._failed = False
        client = {"name": "standby", "title": "standby", "version": "0"}
        await self._call("initialize", clientInfo=client)
        self.send({"method": "initialized"})
        if self.resume_id:
            result = await self._call("thread/resume", threadId=self.resume_id, **self.thread)
        else:
            result = await self._call("thread/start", **self.thread)
        self.resume_id = result["thread"]["id"]
        provider = result.get("modelProvider") or ""
        self.model = f"{provider}/{result.get('model') or ''}".strip("/")

    async def prompt(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        """Start a turn."""
        with trio.move_on_after(self.timing.failed) as waiting:
            # A prompt while it thinks that a turn is in flight would be put into that one.
            await self._ended.wait()
        if waiting.cancelled_caught:
            error = TurnError("protocol", "codex said that a turn failed, and not that it ended")
            self.discard(error)
            raise RequestFailed(error)
        self._turn, self._ended = "", trio.Event()
        more: Frame = {}
        if self._schema is not None:
            more["outputSchema"] = self._schema.schema
        parts = [*_input(text)]
        for each in attachments:
            data = base64.b64encode(each.data).decode()
            parts.append({"type": "image", "url": f"data:{each.media_type};base64,{data}"})
        try:
            result = await self._call("turn/start", threadId=self.resume_id, input=parts, **more)
        except RequestFailed:
            self._ended.set()
            raise
        self._turn = result["turn"]["id"]
        play = self._play
        if play is not None and play.is_cut:
            # It was to be cut before we knew what to cut.
            self.abort()

    def abort(self) -> None:
        """Interrupt the turn."""
        if self._turn:
            what = {"threadId": self.resume_id, "turnId": self._turn}
            self.send({"id": self.new_id(), "method": "turn/interrupt", "params": what})

    def steer(self, text: str) -> Steering:
        """Put a word in: it is read before the model goes on."""
        play = self.in_flight()
        if play is None:
            return "idle"
        if play.over or not self._turn:
            play.words.appendleft(text)
            return "queued"
        what = {
            "threadId": self.resume_id,
            "expectedTurnId": self._turn,
            "input": [*_input(text)],
        }
        self._steered.append(text)
        self.send({"id": self.new_id(), "method": "turn/steer", "params": what})
        return "queued"

    async def _call(self, method: str, **params: Any) -> Frame:
        number = self.new_id()
        frame = {"id": number, "method": method, "params": params}
        answer = await self.request(str(number), frame)
        if "error" in answer:
            error = answer["error"]
            raise RequestFailed(self.fault(f"{method}: {error.get('message')}"))
        result: Frame = answer.get("result") or {}
        return result

    def hear(self, frame: Frame) -> None:
        """Make of a notification, a question or an answer what it means."""
        method = frame.get("method")
        if method is None:
            if "error" in frame and self._steered:
                # Most likely a word that came too late; an answer to nothing else is lost by it.
                self._steered.pop(0)
            self.answered(str(frame["id"]), frame)
        elif "id" in frame:
            self._question(method, frame["id"], frame.get("params") or {})
        elif method not in _QUIET:
            self._notice(method, frame.get("params") or {})

    def _notice(self, method: str, params: Frame) -> None:
        if self.resume_id and params.get("threadId", self.resume_id) != self.resume_id:
            # Of a thread that a tool of its started.
            return
        turn = params.get("turnId") or (params.get("turn") or {}).get("id")
        if turn and turn != (self._turn or turn):
            self.late += 1
            return
        match method:
            case "item/agentMessage/delta":
                self._pieces += 1
                self.text(params["delta"])
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                self._pieces += 1
                self.thought(params["delta"])
            case "item/started":
                self._item(params["item"], begun=True)
            case "item/completed":
                self._item(params["item"], begun=False)
            case "thread/tokenUsage/updated":
                self._count(params["tokenUsage"])
            case "thread/compacted":
                self.emit(Compacted(self.usage.context_tokens, None))
            case "error":
                error = self._error(params["error"])
                if params.get("willRetry"):
                    self.emit(Retrying(1, 0.0, error))
                else:
                    self._failed = True
                    self.ended(error)
            case "turn/started":
                if not self._turn and self._play is not None:
                    self._turn = params["turn"]["id"]
            case "turn/completed":
                self._completed(params["turn"])
            case _:
                self.ignored += 1

    def _completed(self, turn: Frame) -> None:
        self._steered = []
        self._ended.set()
        self.charge_cut()
        failed, self._failed = self._failed, False
        error = turn.get("error")
        if failed:
            return
        if turn["status"] == "interrupted":
            self.ended(TurnError("stopped", "codex: the turn was interrupted"))
        else:
            self.ended(None if turn["status"] == "completed" else self._error(error or {}))

    def charge_cut(self) -> None:
        """Count the pieces of an answer that was cut before it was told what it cost.

        It tells of an answer with a call when the call is answered.
        """
        pieces, calls, self._pieces, self._calls = self._pieces, self._calls, 0, 0
        if pieces or calls:
            self.spend(Usage(requests=1, unreported=1, output_tokens=pieces))

    def _item(self, item: Frame, *, begun: bool) -> None:
        kind = item["type"]
        if kind == "agentMessage":
            if not begun:
                self.flush(item.get("text") or None)
        elif kind == "userMessage":
            text = "".join(part.get("text", "") for part in item.get("content") or ())
            if not begun and text in self._steered:
                self._steered.remove(text)
                self.flush()
                self.record(ChatMessage("user", text))
                self.emit(Steered(text))
        elif kind in _TOOLS:
            name, arguments = _call_of(item)
            if begun:
                self._calls += 1
                self.tool_began(item["id"], name, arguments)
            else:
                # One that was refused at once was never begun.
                self.tool_began(item["id"], name, arguments)
                done = item.get("status", "completed") in _DONE
                self.tool_ended(item["id"], _output_of(item), is_error=not done)

    def _count(self, told: Frame) -> None:
        total, last = told["total"], told["last"]
        before = self._spent
        if not before and self._goes_on:
            # What the thread had spent before is not this program's.
            before = {key: total[key] - last[key] for key in total}
        self._spent = total

        def grown(key: str) -> int:
            return max(0, int(total.get(key, 0)) - int(before.get(key, 0)))

        window = told.get("modelContextWindow")
        if window != self.capabilities.context_tokens:
            self.observe(context_tokens=window)
        if not grown("totalTokens"):
            return
        self._pieces = self._calls = 0
        self.spend(
            Usage(
                requests=1,
                input_tokens=grown("inputTokens"),
                output_tokens=grown("outputTokens"),
                reasoning_tokens=grown("reasoningOutputTokens"),
                cache_read=grown("cachedInputTokens"),
                cache_write=grown("cacheWriteInputTokens"),
                context_tokens=last.get("totalTokens"),
            )
        )

    def _error(self, error: Frame) -> TurnError:
        info = error.get("codexErrorInfo")
        word = info if isinstance(info, str) else next(iter(info or {}), "")
        said = str(error.get("message") or "the turn failed without a word")
        more = error.get("additionalDetails")
        again = word in _AGAIN or word.endswith(("Failed", "Disconnected")) or None
        return self.fault(f"{said} {more or ''}", _KINDS.get(word), retryable=again)

    def _question(self, method: str, key: Any, params: Frame) -> None:
        def reply(result: Frame) -> Frame:
            return {"id": key, "result": result}

        def decision(allowed: bool, why: str) -> Frame:
            return reply({"decision": "accept" if allowed else "decline"})

        def review(allowed: bool, why: str) -> Frame:
            return reply({"decision": "approved" if allowed else "denied"})

        def permissions(allowed: bool, why: str) -> Frame:
            granted = params.get("permissions") if allowed else {}
            return reply({"permissions": granted, "scope": "turn"})

        match method:
            case "item/commandExecution/requestApproval":
                asked = {"command": params.get("command"), "cwd": params.get("cwd")}
                self.approve("shell", asked, decision, str(params.get("reason") or ""))
            case "item/fileChange/requestApproval":
                asked = {"item": params.get("itemId"), "root": params.get("grantRoot")}
                self.approve("apply_patch", asked, decision, str(params.get("reason") or ""))
            case "item/permissions/requestApproval":
                asked = {"permissions": params.get("permissions")}
                self.approve("permissions", asked, permissions, str(params.get("reason") or ""))
            case "execCommandApproval":
                self.approve("shell", {"command": params.get("command")}, review)
            case "applyPatchApproval":
                changes = {"files": [*(params.get("fileChanges") or {})]}
                self.approve("apply_patch", changes, review)
            case "mcpServer/elicitation/request":
                self.send(reply({"action": "decline", "content": None}))
            case _:
                self.ignored += 1
                error = {"code": -32601, "message": f"{method} is not served here"}
                self.send({"id": key, "error": error})


def _input(text: str) -> list[Frame]:
    return [{"type": "text", "text": text, "text_elements": []}]


def _call_of(item: Frame) -> tuple[str, Any]:
    match item["type"]:
        case "commandExecution":
            return "shell", {"command": item.get("command"), "cwd": item.get("cwd")}
        case "fileChange":
            paths = [change.get("path") for change in item.get("changes") or ()]
            return "apply_patch", {"files": paths}
        case "webSearch":
            return "web_search", {"query": item.get("query")}
        case "mcpToolCall":
            return f"mcp__{item.get('server')}__{item.get('tool')}", item.get("arguments")
        case _:
            return str(item.get("tool") or item["type"]), item.get("arguments")


def _output_of(item: Frame) -> str:
    if item["type"] == "commandExecution":
        output = item.get("aggregatedOutput") or ""
        code = item.get("exitCode")
        if item.get("status") == "declined":
            return "declined"
        return output if not code else f"{output}\nexit code {code}"
    told = item.get("error") or item.get("result") or item.get("contentItems")
    return item.get("status", "") if told is None else msgspec.json.encode(told).decode()


def _served(server: McpServer) -> Frame:
    if server.url is not None:
        return {"url": server.url, "http_headers": dict(server.headers)}
    told: Frame = {"command": server.command, "args": server.args, "env": dict(server.env)}
    if server.cwd is not None:
        told["cwd"] = str(server.cwd)
    return told


@asynccontextmanager
async def open_codex(
    agent: Agent,
    *,
    command: Sequence[str] | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_env: Sequence[str] = (),
    set_env: Mapping[str, str] | None = None,
    base_url: str | None = None,
    api_key: str = "none",
    sandbox: Sandbox | None = None,
    ask_for: AskFor | None = None,
    memory: Memory | None = None,
    **options: Any,
) -> AsyncGenerator[Session]:
    """A session of `agent` with Codex, until the block is left.

    What it asks for is decided by `agent.approve`; where that says nothing, it is refused.

    Args:
        agent: whose prompt is added to Codex's own.
        command: the program and its first arguments; None for the agent's, or "codex".
        cwd: where it works; None for the agent's place, or ours.
        env: what its environment is taken from; None for ours.
        pass_env: names of variables that it is given besides the allow-list, keys among them.
        set_env: more variables for it.
        base_url: of a server that speaks the OpenAI responses protocol; None for its own settings.
        api_key: for `base_url`.
        sandbox: what its tools may do without asking; None: read, or also write
            to `cwd` where `agent.tools` holds one that writes, or its mode says so.
        ask_for: for what it asks; None: whenever the sandbox does not allow it, or
            never where the agent's mode is to ask nobody.
        memory: what it is to go on from.
        options: more fields of the session, as in `timing=Timing(request=5)`.

    Raises:
        CannotRun: there is no such program.
        UnknownTool: `agent` names a tool that is nearly one that is known.
        StartFailed: it did not get ready.
    """
    where = Path(cwd or agent.cwd or Path.cwd())
    provider, model = model_parts(agent.model)
    argv = [*program(agent, command, ("codex",)), "app-server"]
    variables = dict(set_env or {})
    if base_url:
        provider = "standby"
        served = {
            "name": "standby",
            "base_url": base_url,
            "wire_api": "responses",
            "env_key": KEY,
        }
        for name, value in served.items():
            argv += ["-c", f"model_providers.standby.{name}={json.dumps(value)}"]
        variables[KEY] = api_key
    bold = agent.permission_mode in ("accept_edits", "auto", "bypass_permissions")
    check_tool_names(agent)
    # It has one restriction, its sandbox: what may write is said, and never concluded.
    named = named_tools(agent, "codex", {}) if agent.tools is not None else None
    writes = bold or not _WRITES.isdisjoint(named or ())
    if sandbox is None:
        sandbox = "workspace-write" if writes else "read-only"
        if agent.permission_mode == "bypass_permissions":
            sandbox = "danger-full-access"
    if ask_for is None:
        mute = agent.permission_mode in ("dont_ask", "bypass_permissions")
        ask_for = "never" if mute else "on-request"
    thread: Frame = {"cwd": str(where), "approvalPolicy": ask_for, "sandbox": sandbox}
    if model:
        thread["model"] = model
    if provider:
        thread["modelProvider"] = provider
    if agent.mind and isinstance(agent.mind, str):
        thread["developerInstructions"] = agent.mind
    settings: Frame = {}
    if agent.effort is not None:
        settings["model_reasoning_effort"] = agent.effort
    if servers := servers_for(agent, env):
        # Not on its command line, which everybody on the machine can read.
        settings["mcp_servers"] = {server.name: _served(server) for server in servers}
    if settings:
        thread["config"] = settings
    session = CodexSession(
        agent=agent,
        command=tuple(argv),
        thread=thread,
        cwd=where,
        env=child_environment(variables, names=("CODEX_HOME", *pass_env), source=env),
        memory=memory,
        **options,
    )
    async with running(session) as opened:
        yield opened
