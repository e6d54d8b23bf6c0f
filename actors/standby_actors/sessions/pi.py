"""A conversation with pi, over its RPC mode."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
from attrs import define, field

from ..agent import Agent
from ..process import Frame, child_environment
from ..result import Attachment, ChatMessage, ToolCall, TurnError
from ..session import Capabilities, Compacted, Memory, Retrying, Session, Steered, Steering
from ..usage import Usage
from .commandline import model_parts, named_tools, program
from .playing import checked_text
from .stdio import StdioSession, running
from .wire import RequestFailed

KEY = "STANDBY_API_KEY"
"""The variable that tells the program the key for `base_url`."""

_TOOLS = {"shell": "bash"}
_EFFORTS = {"none": "off", "max": "xhigh"}
_CAN = Capabilities(streaming=True, steer=True, follow_up=True, resume=True)
_QUIET = frozenset({"agent_start", "turn_start", "turn_end", "queue_update", "compaction_start"})


@define(eq=False, kw_only=True)
class PiSession(StdioSession):
    """pi: ``pi --mode rpc``."""

    name: str = "pi"
    capabilities: Capabilities = _CAN
    _steered: list[str] = field(init=False, factory=list[str], repr=False)
    _pieces: int = field(init=False, default=0, repr=False)
    _so_far: Frame = field(init=False, factory=dict[str, Any], repr=False)
    """What the message that is coming has cost so far, where it says."""
    _retrying: bool = field(init=False, default=False, repr=False)

    async def greet(self) -> None:
        """Ask for its state: the model, and the file of the conversation."""
        self._steered, self._retrying = [], False
        self._pieces, self._so_far = 0, {}
        state = (await self._order("get_state"))["data"]
        model = state.get("model") or {}
        if model:
            self.model = f"{model.get('provider', '')}/{model.get('id', '')}"
        self.observe(
            context_tokens=model.get("contextWindow"), images="image" in (model.get("input") or ())
        )
        self.resume_id = state.get("sessionFile") or ""

    async def prompt(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        """Put a prompt."""
        more: Frame = {}
        if attachments:
            more["images"] = [
                {
                    "type": "image",
                    "data": base64.b64encode(each.data).decode(),
                    "mimeType": each.media_type,
                }
                for each in attachments
            ]
        await self._order("prompt", message=text, **more)

    def abort(self) -> None:
        """End the turn; while it waits for another try, the waiting."""
        if self._retrying:
            self.send({"type": "abort_retry"})
        self.send({"type": "abort"})

    def steer(self, text: str) -> Steering:
        """Put a word in: it is read after the tool that runs, before the model goes on."""
        play = self.in_flight()
        if play is None:
            return "idle"
        if play.over:
            return super().steer(text)
        self._steered.append(text)
        self.send({"type": "steer", "message": text})
        return "queued"

    async def _order(self, kind: str, **more: Any) -> Frame:
        key = str(self.new_id())
        answer = await self.request(key, {"id": key, "type": kind, **more})
        if not answer.get("success"):
            raise RequestFailed(self.fault(str(answer.get("error") or f"{kind} failed")))
        return answer

    def hear(self, frame: Frame) -> None:
        """Make of an event what it means."""
        match frame["type"]:
            case "response":
                if "id" in frame:
                    self.answered(str(frame["id"]), frame)
            case "message_start":
                self._pieces, self._so_far = 0, {}
            case "message_update":
                self._so_far = (frame.get("message") or {}).get("usage") or {}
                self._update(frame["assistantMessageEvent"])
            case "message_end":
                self._message(frame["message"])
            case "tool_execution_start":
                call = frame["toolCallId"]
                self.tool_began(call, frame["toolName"], frame.get("args", {}), told=True)
            case "tool_execution_update":
                pass
            case "tool_execution_end":
                output = _text((frame.get("result") or {}).get("content"))
                self.tool_ended(frame["toolCallId"], output, is_error=bool(frame.get("isError")))
            case "agent_end":
                self._end()
            case "auto_retry_start":
                error = self.fault(str(frame.get("errorMessage")))
                self._retrying = True
                self.failing(None)
                seconds = frame.get("delayMs", 0) / 1000
                self.emit(Retrying(frame.get("attempt", 1), seconds, error))
            case "auto_retry_end":
                self._retrying = False
                if not frame.get("success"):
                    self.ended(self.fault(str(frame.get("finalError"))))
            case "compaction_end":
                result = frame.get("result") or {}
                self.emit(Compacted(result.get("tokensBefore"), None))
            case "extension_ui_request":
                self._question(frame)
            case kind if kind in _QUIET:
                pass
            case _:
                self.ignored += 1

    def _update(self, event: Frame) -> None:
        match event["type"]:
            case "text_delta":
                self._pieces += 1
                self.text(event["delta"])
            case "thinking_delta":
                self._pieces += 1
                self.thought(event["delta"])
            case _:
                pass

    def _message(self, message: Frame) -> None:
        if message["role"] == "user":
            text = _text(message.get("content"))
            if text in self._steered:
                self._steered.remove(text)
                self.record(ChatMessage("user", text))
                self.emit(Steered(text))
            return
        if message["role"] != "assistant":
            return
        content = message.get("content") or []
        calls = tuple(
            ToolCall(
                checked_text(part["id"]),
                checked_text(part["name"]),
                json.dumps(part.get("arguments", {})),
            )
            for part in content
            if part["type"] == "toolCall"
        )
        why = message.get("stopReason")
        self.flush(_text(content), calls, partial=why in ("aborted", "error", "length"))
        pieces, self._pieces, self._so_far = self._pieces, 0, {}
        self.spend(_usage(message.get("usage") or {}, pieces))
        if why == "error":
            self.failing(self.fault(str(message.get("errorMessage"))))
        elif why == "length":
            self.failing(TurnError("truncated", "pi: the answer was cut at its length limit"))
        elif why != "aborted":
            self.failing(None)

    def charge_cut(self) -> None:
        """Count the message that was coming."""
        pieces, told = self._pieces, self._so_far
        self._pieces, self._so_far = 0, {}
        if pieces or told.get("totalTokens"):
            usage = _usage(told, pieces)
            # What was told in the middle is the least that it cost.
            least = max(pieces, usage.output_tokens)
            self.spend(msgspec.structs.replace(usage, unreported=1, output_tokens=least))

    def _end(self) -> None:
        play, life = self._play, self._life
        if play is None or play.failure is None or life is None:
            self._steered = []
            self.ended()
            return
        # It may try again, which it says next.  It answers in order, so that
        # its answer to any question tells whether it did.
        life.nursery.start_soon(self._end_failed, play.failure)

    async def _end_failed(self, error: TurnError) -> None:
        try:
            await self._order("get_state")
        except RequestFailed:
            # It is gone, and whoever asked knows already; or it is deaf.
            return
        if not self._retrying:
            self._steered = []
            self.ended(error)

    def _question(self, frame: Frame) -> None:
        key = frame["id"]
        match frame.get("method"):
            case "confirm":
                asked = {"title": frame.get("title"), "message": frame.get("message")}

                def answer(allowed: bool, why: str) -> Frame:
                    return {"type": "extension_ui_response", "id": key, "confirmed": allowed}

                self.approve("confirm", asked, answer, str(frame.get("title") or ""))
            case "select" | "input" | "editor":
                self.send({"type": "extension_ui_response", "id": key, "cancelled": True})
            case _:
                # To be shown, not to be answered.
                pass


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if part.get("type") == "text")


def _usage(told: Frame, pieces: int) -> Usage:
    cached, written = told.get("cacheRead", 0), told.get("cacheWrite", 0)
    total = told.get("totalTokens", 0)
    if not total:
        # Cut, or failed, before it was told.
        return Usage(requests=1, unreported=1, output_tokens=pieces)
    return Usage(
        requests=1,
        input_tokens=told.get("input", 0) + cached + written,
        output_tokens=told.get("output", 0),
        cache_read=cached,
        cache_write=written,
        cost_usd=(told.get("cost") or {}).get("total", 0.0),
        context_tokens=total,
    )


@asynccontextmanager
async def open_pi(
    agent: Agent,
    *,
    command: Sequence[str] | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_env: Sequence[str] = (),
    set_env: Mapping[str, str] | None = None,
    base_url: str | None = None,
    api_key: str = "none",
    context_tokens: int = 200_000,
    images: bool = False,
    memory: Memory | None = None,
    **options: Any,
) -> AsyncGenerator[Session]:
    """A session of `agent` with pi, until the block is left.

    pi asks nobody before its tools act: what it may use is said by `agent.tools`.

    Args:
        agent: whose prompt is added to pi's own; its `tools` are pi's, by name.
        command: the program and its first arguments; None for the agent's, or "pi".
        cwd: where it works; None for the agent's place, or ours.
        env: what its environment is taken from; None for ours.
        pass_env: names of variables that it is given besides the allow-list, keys among them.
        set_env: more variables for it.
        base_url: of a server that speaks the OpenAI chat protocol; None for pi's own settings.
        api_key: for `base_url`.
        context_tokens: what the model at `base_url` holds.  pi makes the conversation
            shorter when it comes within 16,384 tokens of it.
        images: whether that model takes pictures.
        memory: what it is to go on from.
        options: more fields of the session, as in `timing=Timing(request=5)`.

    Raises:
        ValueError: `agent` names MCP servers, which pi cannot use.
        CannotRun: there is no such program.
        UnknownTool: `agent` names a tool that is nearly one that is known.
        StartFailed: it did not get ready.
    """
    if agent.mcp_servers:
        raise ValueError(
            f"{agent.name} names MCP servers, and pi has no support for them: leave them out,"
            " or take another backend"
        )
    provider, model = model_parts(agent.model)
    argv = [*program(agent, command, ("pi",)), "--mode", "rpc"]
    variables = dict(set_env or {})
    with tempfile.TemporaryDirectory() if base_url else nullcontext("") as folder:
        if base_url:
            provider, model = "standby", model or "default"
            _write_models(Path(folder), base_url, model, context_tokens, images)
            variables |= {"PI_CODING_AGENT_DIR": folder, KEY: api_key, "PI_OFFLINE": "1"}
            # Beside its settings, its conversations would go when we do.
            argv += ["--session-dir", str(_home(env) / ".pi" / "agent" / "sessions")]
        if model:
            argv += ["--model", model]
        if provider:
            argv += ["--provider", provider]
        if agent.mind and isinstance(agent.mind, str):
            argv += ["--append-system-prompt", agent.mind]
        tools = named_tools(agent, "pi", _TOOLS)
        if tools is not None:
            argv += ["--tools", ",".join(tools)] if tools else ["--no-tools"]
        if agent.effort is not None:
            argv += ["--thinking", _EFFORTS.get(agent.effort, agent.effort)]
        session = PiSession(
            agent=agent,
            command=tuple(argv),
            resume_flags=("--session",),
            cwd=Path(cwd or agent.cwd or Path.cwd()),
            env=child_environment(variables, names=pass_env, source=env),
            memory=memory,
            **options,
        )
        async with running(session) as opened:
            yield opened


def _home(env: Mapping[str, str] | None) -> Path:
    home = None if env is None else env.get("HOME")
    return Path(home) if home else Path.home()


def _write_models(
    folder: Path, base_url: str, model: str, context_tokens: int, images: bool
) -> None:
    takes = ["text", "image"] if images else ["text"]
    known = {"id": model, "contextWindow": context_tokens, "maxTokens": 16_000, "input": takes}
    served = {
        "baseUrl": base_url,
        "api": "openai-completions",
        "apiKey": KEY,
        "compat": {"supportsDeveloperRole": False},
        "models": [known],
    }
    (folder / "models.json").write_text(json.dumps({"providers": {"standby": served}}))
