"""A conversation over the Agent Client Protocol: gemini, opencode, claude-agent-acp, codex-acp."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import trio
from attrs import define, field

from ..agent import Agent, McpServer
from ..process import Frame, Grace, child_environment
from ..result import Attachment, TurnError
from ..session import Capabilities, Memory, Session
from ..usage import Usage
from .commandline import program, servers_for
from .stdio import StdioSession, running
from .wire import RequestFailed

VERSION = 1
# Once a prompt was cancelled or failed, these answer the next one at once with the
# end of that one, and so on: each answer comes one prompt late.
_LOSE_STEP = frozenset({"@zed-industries/claude-agent-acp"})
_PAST_SECONDS = 0.3
"""Of silence, after which one that says again what was said has said it all: some go
on with it after they have answered."""
_CAN = Capabilities(streaming=True, steer=True, follow_up=True)
_ENDED = frozenset({"completed", "failed"})
_QUIET = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "plan",
        "session_info_update",
        "user_message_chunk",
    }
)


@define(eq=False, kw_only=True)
class AcpSession(StdioSession):
    """Any agent that speaks ACP over stdio.

    Only one prompt is in flight, ever: agents differ in what a second one does
    to the first.  A word put into a turn cuts it, and is the next prompt.
    """

    name: str = "the ACP agent"
    capabilities: Capabilities = _CAN
    # Some never end at the end of their input.
    grace: Grace = field(factory=lambda: Grace(eof=0.5, term=1.5, kill=2.0))
    servers: list[Frame] = field(factory=list[Any])
    """MCP servers that the agent is to use."""
    _instructions: str = field(init=False, default="", repr=False)
    _resumes: Literal["", "session/resume", "session/load"] = field(
        init=False, default="", repr=False
    )
    _prompting: str = field(init=False, default="", repr=False)
    _pieces: int = field(init=False, default=0, repr=False)
    _calls: int = field(init=False, default=0, repr=False)
    _cost: float = field(init=False, default=0.0, repr=False)
    _replaying: bool = field(init=False, default=False, repr=False)
    _replayed_at: float = field(init=False, default=0.0, repr=False)
    _denied: str = field(init=False, default="", repr=False)
    """The tool of this prompt that was refused, if any."""
    _loses_step: bool = field(init=False, default=False, repr=False)
    """A prompt that was left leaves it of no use; seen, or known."""
    _unfinished: bool = field(init=False, default=False, repr=False)
    """The latest prompt was cancelled, or failed."""

    async def greet(self) -> None:
        """Introduce us; begin a session, or go on with one."""
        self._cost, self._pieces, self._unfinished = 0.0, 0, False
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        told = await self._call(
            "initialize",
            protocolVersion=VERSION,
            clientCapabilities=capabilities,
            clientInfo={"name": "standby", "version": "0"},
        )
        if told.get("protocolVersion") != VERSION:
            what = f"it speaks version {told.get('protocolVersion')} of ACP, we speak {VERSION}"
            raise RequestFailed(TurnError("start_failed", f"{self.name}: {what}"))
        who = told.get("agentInfo") or {}
        self._loses_step = self._loses_step or who.get("name") in _LOSE_STEP
        self.name = str(who.get("title") or who.get("name") or self.name)
        can = told.get("agentCapabilities") or {}
        prompts = can.get("promptCapabilities") or {}
        if "resume" in (can.get("sessionCapabilities") or {}):
            self._resumes = "session/resume"
        elif can.get("loadSession"):
            self._resumes = "session/load"
        self.observe(
            images=bool(prompts.get("image")),
            files=bool(prompts.get("embeddedContext")),
            resume=bool(self._resumes),
        )
        speaks = can.get("mcpCapabilities") or {}
        for server in self.servers:
            if (kind := server.get("type", "stdio")) != "stdio" and not speaks.get(kind):
                what = f"{self.name} cannot use the MCP server {server['name']!r}: it speaks {kind}"
                raise RequestFailed(TurnError("start_failed", what))
        where = {"cwd": str(self.cwd), "mcpServers": self.servers}
        if not self.resume_id:
            self.resume_id = (await self._call("session/new", **where))["sessionId"]
            if isinstance(self.agent.mind, str) and self.agent.mind:
                # The protocol has no word for what comes before the first prompt.
                self._instructions = f"{self.agent.mind}\n\n"
        elif self._resumes:
            await self._resume(self._resumes, where)
        else:
            what = f"{self.name} keeps no conversations: it cannot go on with {self.resume_id!r}"
            raise RequestFailed(TurnError("start_failed", what))

    async def _resume(self, method: str, where: Frame) -> None:
        """Go on with the conversation of that name."""
        # One that loads says again what was said; we know it.
        self._replaying = True
        try:
            await self._call(method, sessionId=self.resume_id, **where)
            if method == "session/load":
                await self._hear_past()
        finally:
            self._replaying = False

    async def _hear_past(self) -> None:
        until = trio.current_time() + self.timing.request
        heard = -1.0
        self._replayed_at = trio.current_time()
        while heard != self._replayed_at and trio.current_time() < until:
            heard = self._replayed_at
            await trio.sleep_until(heard + _PAST_SECONDS)

    async def prompt(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        """Put a prompt; its answer is its end."""
        life = self._life
        assert life is not None
        text, self._instructions = self._instructions + text, ""
        self._pieces = self._calls = 0
        self._denied = ""
        parts: list[Frame] = [{"type": "text", "text": text}]
        for each in attachments:
            data = base64.b64encode(each.data).decode()
            if each.is_image:
                parts.append({"type": "image", "data": data, "mimeType": each.media_type})
            else:
                uri = f"attachment://{each.name or 'file'}"
                held = {"uri": uri, "mimeType": each.media_type, "blob": data}
                parts.append({"type": "resource", "resource": held})
        number = self.new_id()
        self._prompting = str(number)
        params = {"sessionId": self.resume_id, "prompt": parts}
        self.send(_frame(id=number, method="session/prompt", params=params))
        await trio.lowlevel.checkpoint()

    def abort(self) -> None:
        """Cancel the prompt in flight."""
        if self._prompting:
            self.send(_frame(method="session/cancel", params={"sessionId": self.resume_id}))

    async def _call(self, method: str, **params: Any) -> Frame:
        number = self.new_id()
        answer = await self.request(str(number), _frame(id=number, method=method, params=params))
        if "error" in answer:
            raise RequestFailed(self._error(answer["error"]))
        result: Frame = answer.get("result") or {}
        return result

    def hear(self, frame: Frame) -> None:
        """Make of a notification, a question or an answer what it means."""
        method = frame.get("method")
        if method is None:
            key = str(frame["id"])
            if key == self._prompting:
                self._prompting = ""
                self._over(frame)
            else:
                self.answered(key, frame)
        elif "id" in frame:
            self._question(method, frame["id"], frame.get("params") or {})
        elif method == "session/update":
            if self._replaying:
                self._replayed_at = trio.current_time()
            else:
                self._update(frame["params"]["update"])
        else:
            self.ignored += 1

    def _update(self, update: Frame) -> None:
        match update["sessionUpdate"]:
            case "agent_message_chunk":
                self._pieces += 1
                self.text(_text(update["content"]))
            case "agent_thought_chunk":
                self._pieces += 1
                self.thought(_text(update["content"]))
            case "tool_call":
                self._tool(update)
            case "tool_call_update":
                self._tool(update)
            case "usage_update":
                if (size := update.get("size")) != self.capabilities.context_tokens:
                    self.observe(context_tokens=size)
                cost = (update.get("cost") or {}).get("amount") or self._cost
                spent = max(0.0, cost - self._cost)
                self._cost = cost
                # After a failure some say 0, which is no level of a context that holds something.
                self.spend(Usage(cost_usd=spent, context_tokens=update.get("used") or None))
            case kind if kind in _QUIET:
                pass
            case _:
                self.ignored += 1

    def _tool(self, update: Frame) -> None:
        status = update.get("status")
        # What is pending is told of before its arguments are whole.
        if status != "pending":
            self._tool_at_work(update)
        if status in _ENDED:
            output = _output(update)
            self.tool_ended(update["toolCallId"], output, is_error=status == "failed")

    def _tool_at_work(self, update: Frame) -> None:
        call, play = update["toolCallId"], self._play
        if play is None or call in play.tools:
            return
        meta: Any = (update.get("_meta") or {}).get("claudeCode") or {}
        name = meta.get("toolName") or update.get("kind") or update.get("title") or "?"
        self._calls += 1
        self.tool_began(call, str(name), update.get("rawInput") or {"title": update.get("title")})

    def _over(self, frame: Frame) -> None:
        if "error" in frame:
            self._count(None)
            self._left(self._error(frame["error"]))
            return
        result = frame.get("result") or {}
        self._count(result)
        match result.get("stopReason"):
            case "end_turn":
                self._said_its_end(result)
            case "cancelled":
                self._left(self._cut_error())
            case "max_tokens":
                self.ended(TurnError("truncated", f"{self.name}: the answer was cut at its limit"))
            case "max_turn_requests":
                self.ended(TurnError("runaway", f"{self.name}: it reached its limit of requests"))
            case "refusal":
                self.ended(TurnError("refused", f"{self.name}: the model refused"))
            case other:
                self.ended(self.fault(f"the turn ended for an unknown reason: {other}"))

    def _cut_error(self) -> TurnError:
        if self._denied:
            what = f"{self.name} ended its turn, because {self._denied!r} was refused"
            return TurnError("refused", what)
        return TurnError("stopped", f"{self.name}: the turn was cancelled")

    def _left(self, error: TurnError) -> None:
        """A prompt was left before its end."""
        self._unfinished = True
        self.ended(error)
        if self._loses_step:
            self._replace()

    def _said_its_end(self, result: Frame) -> None:
        play = self._play
        after_another, self._unfinished = self._unfinished, False
        if self._pieces or self._calls or play is None or play.stopping or play.redirect:
            self.ended()
        elif after_another and not _tokens(result):
            # Not the end of this prompt, but of the one before.
            self._loses_step = True
            play.again = True
            self._replace()
        else:
            # Some tell of a model's failure only by saying nothing.
            what = f"{self.name} ended its turn without a word; its model may have failed"
            self.ended(TurnError("provider", what, True))

    def _replace(self) -> None:
        why = f"{self.name} was ended: once a prompt was cut, its answers are out of step"
        self.discard(TurnError("protocol", why, True))

    def _count(self, result: Frame | None) -> None:
        told = (result or {}).get("usage") or {}
        meta: Any = ((result or {}).get("_meta") or {}).get("quota") or {}
        tokens = meta.get("token_count") or {}
        if told.get("inputTokens") or told.get("outputTokens"):
            read = told.get("cachedReadTokens") or 0
            written = told.get("cachedWriteTokens") or 0
            self.spend(
                Usage(
                    requests=1,
                    input_tokens=told.get("inputTokens", 0) + read + written,
                    output_tokens=told.get("outputTokens", 0),
                    reasoning_tokens=told.get("thoughtTokens") or 0,
                    cache_read=read,
                    cache_write=written,
                )
            )
        elif tokens:
            self.spend(
                Usage(
                    requests=1,
                    input_tokens=tokens.get("input_tokens") or 0,
                    output_tokens=tokens.get("output_tokens") or 0,
                )
            )
        else:
            self.spend(Usage(requests=1, unreported=1, output_tokens=self._pieces))

    def charge_cut(self) -> None:
        """Count a prompt whose end, with what it cost, does not come any more."""
        prompting, self._prompting = self._prompting, ""
        if prompting and (self._pieces or self._calls):
            self._count(None)

    def _error(self, error: Frame) -> TurnError:
        data = error.get("data")
        more = None
        if isinstance(data, dict):
            more = data.get("message") or data.get("details")
        return self.fault(f"{error.get('message')} {more or ''}".strip())

    def _question(self, method: str, key: Any, params: Frame) -> None:
        if method != "session/request_permission":
            self.ignored += 1
            error = {"code": -32601, "message": f"{method} is not served here"}
            self.send(_frame(id=key, error=error))
            return
        kinds = {option["kind"]: option["optionId"] for option in reversed(params["options"])}

        def decision(allowed: bool, why: str) -> Frame:
            # For this once: what holds for longer is our approvals' to remember.
            wanted = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
            option = next((kinds[kind] for kind in wanted if kind in kinds), None)
            if not allowed:
                self._denied = name
            outcome: Frame = {"outcome": "selected", "optionId": option}
            if option is None:
                outcome = {"outcome": "cancelled"}
            return _frame(id=key, result={"outcome": outcome})

        call = params.get("toolCall") or {}
        play = self._play
        if "toolCallId" in call:
            # Some tell of a call first by asking for it.
            self._tool_at_work(call)
        tool = play.tools.get(call.get("toolCallId", "")) if play is not None else None
        name = tool.call.name if tool is not None else str(call.get("kind") or "tool")
        asked = call.get("rawInput") or {"title": call.get("title")}
        if not call.get("rawInput") and tool is not None:
            asked = msgspec.json.decode(tool.call.arguments)
        self.approve(name, asked, decision, str(call.get("title") or ""))


def _served(server: McpServer) -> Frame:
    def pairs(values: Mapping[str, str]) -> list[Frame]:
        return [{"name": name, "value": value} for name, value in values.items()]

    if server.url is not None:
        headers = pairs(server.headers)
        return {"type": "http", "name": server.name, "url": server.url, "headers": headers}
    command = {"command": server.command, "args": server.args, "env": pairs(server.env)}
    return {"name": server.name, **command}


def _tokens(result: Frame) -> int:
    told = result.get("usage") or {}
    return (told.get("inputTokens") or 0) + (told.get("outputTokens") or 0)


def _frame(**fields: Any) -> Frame:
    return {"jsonrpc": "2.0", **fields}


def _text(content: Any) -> str:
    return str(content.get("text", "")) if isinstance(content, dict) else ""


def _output(update: Frame) -> str:
    raw = update.get("rawOutput")
    if isinstance(raw, dict):
        raw = raw.get("output") or raw.get("formatted_output") or raw
    if isinstance(raw, str):
        return raw
    parts = [_text(part.get("content")) for part in update.get("content") or ()]
    text = "".join(part for part in parts if part)
    return text or ("" if raw is None else msgspec.json.encode(raw).decode())


@asynccontextmanager
async def open_acp(
    agent: Agent,
    *,
    command: Sequence[str] | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_env: Sequence[str] = (),
    set_env: Mapping[str, str] | None = None,
    memory: Memory | None = None,
    **options: Any,
) -> AsyncGenerator[Session]:
    """A session of `agent` with a program that speaks ACP, until the block is left.

    What it asks for is decided by `agent.approve`; where that says nothing, it is refused.
    Its model and its tools are its own business: the protocol does not name them.

    Args:
        agent: whose prompt goes before the first task; its `command` is the program.
        command: the program and its arguments, as in ("gemini", "--acp"); None for the agent's.
        cwd: where it works; None for the agent's place, or ours.
        env: what its environment is taken from; None for ours.
        pass_env: names of variables that it is given besides the allow-list, keys among them.
        set_env: more variables for it.
        memory: what it is to go on from.
        options: more fields of the session, as in `timing=Timing(request=5)`.

    Raises:
        ValueError: nobody says which program, or `agent.tools` names some.
        CannotRun: there is no such program.
        StartFailed: it did not get ready.
    """
    argv = program(agent, command, ())
    if not argv:
        raise ValueError(f"{agent.name} needs a command, as in ('gemini', '--acp')")
    if agent.tools or agent.disallowed_tools:
        raise ValueError(
            f"{agent.name} names tools, and ACP cannot restrict an agent to some of its own;"
            " say it in the settings of the program"
        )
    servers = [_served(server) for server in servers_for(agent, env)]
    session = AcpSession(
        agent=agent,
        servers=[*servers, *options.pop("servers", ())],
        command=argv,
        name=Path(argv[0]).name,
        cwd=Path.cwd() / (cwd or agent.cwd or ""),
        env=child_environment(set_env, names=pass_env, source=env),
        memory=memory,
        **options,
    )
    async with running(session) as opened:
        yield opened
