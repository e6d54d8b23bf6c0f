"""Agents of libraries that need asyncio, as sessions: pydantic-ai's and openai-agents'.

They run in the one asyncio loop thread, and keep their own tools, models and
limits.  Ours are the turns: bounded, cut, counted and recorded as any other's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import trio
from attrs import define, field

from ..agent import Agent
from ..asyncio_loop import AsyncioLoop, open_asyncio_loop
from ..failure import described
from ..result import Attachment, ChatMessage, ErrorKind, ToolCall, TurnError
from ..session import (
    Capabilities,
    Memory,
    OnEvent,
    SessionEvent,
    TextDelta,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    no_attachments,
)
from ..usage import NOTHING, Usage
from .conversation import Conversation
from .past import past_of

_CAN = Capabilities(streaming=True)


@define(eq=False)
class _AsyncioSession(Conversation, ABC):
    """What the two have in common; `_play` is the library's part."""

    its: Any
    """The library's agent."""
    loop: AsyncioLoop
    model: str = ""
    usage: Usage = field(init=False, default=NOTHING)
    capabilities: Capabilities = field(init=False, default=_CAN)
    _history: Any = field(init=False, default=None, repr=False)
    """What the library takes as the conversation so far."""

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Play one turn; an exception of the library is a turn with an error."""
        if attachments:
            return Turn(error=no_attachments(type(self.its).__module__.partition(".")[0]))
        messages: list[ChatMessage] = []
        speech: list[str] = []
        say = partial(self.say, messages, on_event)

        def hear(event: SessionEvent) -> None:
            if isinstance(event, TextDelta):
                speech.append(event.text)
            elif isinstance(event, ToolEnded):
                self.usage = self.usage.accumulate(Usage(tool_calls=1))
            on_event(event)

        say(ChatMessage("user", text))
        played: _Played | None = None
        scope = self.scope = trio.CancelScope()
        try:
            with scope:
                # Events come through the same queue as the end, and so before it.
                played = await self._play(text, lambda e: self.loop.to_trio(hear, e))
        # A failing mind is expected work: here its exception becomes a value,
        # as the cell makes one of an actor's.
        except Exception as error:
            return Turn("".join(speech), tuple(messages), error_of(error))
        finally:
            self.scope = None
            if played is None and speech:
                say(ChatMessage("assistant", "".join(speech), partial=True))
        if played is None:
            return Turn("".join(speech), tuple(messages), TurnError("stopped", "interrupted"))
        self._history = played.history
        self.usage = self.usage.accumulate(played.usage)
        try:
            answer, value = _answer(played.output)
        except (TypeError, msgspec.MsgspecError) as error:
            wrong = TurnError("schema", f"its answer is no data: {error}").with_cause(error)
            return Turn("", tuple(messages), wrong)
        say(ChatMessage("assistant", answer))
        return Turn(answer, tuple(messages), None, value)

    @abstractmethod
    async def _play(self, text: str, hear: Callable[[SessionEvent], None]) -> _Played:
        """Run the library's agent, and tell `hear` of what happens."""

    @abstractmethod
    def recall(self, memory: Memory) -> None:
        """Begin with what was said before."""

    async def close(self) -> None:
        """The loop is let go of by whoever opened this."""


@define(eq=False)
class _Played:
    """A run that ended well."""

    output: Any
    history: Any
    usage: Usage


def _shown(memory: Memory) -> list[ChatMessage]:
    """What an agent is shown of what was said before."""
    # Which tools it has is its library's to know: what was called is told in words.
    shown = [each for each in past_of(memory.messages, (), set()) if each.text]
    if memory.summary:
        said = f"What was said so far, in short:\n{memory.summary}"
        shown.insert(0, ChatMessage("user", said))
    return shown


@define(eq=False)
class PydanticAISession(_AsyncioSession):
    """A conversation with a ``pydantic_ai.Agent``."""

    def recall(self, memory: Memory) -> None:
        """Begin with what was said before."""
        from pydantic_ai import messages as parts

        shown = _shown(memory)
        self._history = [
            parts.ModelResponse([parts.TextPart(each.text)])
            if each.role == "assistant"
            else parts.ModelRequest([parts.UserPromptPart(each.text)])
            for each in shown
        ]

    async def _play(self, text: str, hear: Callable[[SessionEvent], None]) -> _Played:
        async def listen(_: Any, events: AsyncIterable[Any]) -> None:
            async for event in events:
                for told in _from_pydantic_ai(event):
                    hear(told)

        result = await self.loop.run(
            lambda: self.its.run(text, message_history=self._history, event_stream_handler=listen)
        )
        used: Any = result.usage
        return _Played(
            result.output,
            result.all_messages(),
            Usage(
                requests=used.requests,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cache_read=used.cache_read_tokens,
                cache_write=used.cache_write_tokens,
            ),
        )


def _from_pydantic_ai(event: Any) -> list[SessionEvent]:
    part: Any = getattr(event, "part", None)
    match getattr(event, "event_kind", ""):
        case "part_start" if part.part_kind == "text" and part.content:
            return [TextDelta(part.content)]
        case "part_start" if part.part_kind == "thinking" and part.content:
            return [ThoughtDelta(part.content)]
        case "part_delta":
            delta = event.delta
            said: Any = getattr(delta, "content_delta", None)
            if said and delta.part_delta_kind == "text":
                return [TextDelta(said)]
            if said and delta.part_delta_kind == "thinking":
                return [ThoughtDelta(said)]
        case "function_tool_call":
            return [ToolStarted(_call(part.tool_call_id, part.tool_name, part.args))]
        case "function_tool_result":
            answer = part if part is not None else event.result
            call = _call(answer.tool_call_id, answer.tool_name or "?", None)
            is_error = answer.part_kind == "retry-prompt"
            return [ToolEnded(call, _text(answer.content), is_error)]
        case _:
            pass
    return []


@define(eq=False)
class OpenAIAgentsSession(_AsyncioSession):
    """A conversation with an ``agents.Agent`` of the openai-agents package."""

    def recall(self, memory: Memory) -> None:
        """Begin with what was said before."""
        self._history = [
            {"role": each.role, "content": each.text}
            for each in _shown(memory)
            if each.role in ("user", "assistant")
        ]

    async def _play(self, text: str, hear: Callable[[SessionEvent], None]) -> _Played:
        from agents import Runner

        async def play() -> Any:
            said: list[Any] = [*(self._history or ()), {"role": "user", "content": text}]
            result = Runner.run_streamed(self.its, said)
            calls: dict[str, ToolCall] = {}
            try:
                async for event in result.stream_events():
                    for told in _from_openai_agents(event, calls):
                        hear(told)
            finally:
                if not result.is_complete:
                    result.cancel()
            return result

        result = await self.loop.run(play)
        used = result.context_wrapper.usage
        return _Played(
            result.final_output,
            result.to_input_list(),
            Usage(
                requests=used.requests,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
            ),
        )


def _from_openai_agents(event: Any, calls: dict[str, ToolCall]) -> list[SessionEvent]:
    if event.type == "raw_response_event":
        if event.data.type == "response.output_text.delta" and event.data.delta:
            return [TextDelta(event.data.delta)]
    elif event.type == "run_item_stream_event":
        raw: Any = event.item.raw_item
        identity = str(_field(raw, "call_id") or _field(raw, "id") or "")
        if event.name == "tool_called":
            call = _call(identity, _field(raw, "name") or "?", _field(raw, "arguments"))
            calls[identity] = call
            return [ToolStarted(call)]
        if event.name == "tool_output":
            call = calls.get(identity) or _call(identity, "?", None)
            return [ToolEnded(call, _text(event.item.output))]
    return []


def _field(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, dict) else getattr(raw, name, None)


def _call(identity: Any, name: Any, arguments: Any) -> ToolCall:
    return ToolCall(str(identity), str(name), _text(arguments))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, msgspec.MsgspecError):
        return str(value)


def _answer(output: Any) -> tuple[str, Any]:
    """The text and the value of what a run came to; a model of pydantic is data."""
    if isinstance(output, str):
        return output, None
    dump = getattr(output, "model_dump", None)
    value = dump(mode="json") if dump is not None else output
    return msgspec.json.encode(value).decode(), output


# By name, so that neither library has to be imported to tell.
_KINDS: dict[str, ErrorKind] = {
    "UsageLimitExceeded": "budget",
    "MaxTurnsExceeded": "runaway",
    "UnexpectedModelBehavior": "protocol",
    "ModelBehaviorError": "protocol",
    "ContentFilterError": "refused",
    "InputGuardrailTripwireTriggered": "refused",
    "OutputGuardrailTripwireTriggered": "refused",
    "ModelHTTPError": "provider",
    "ModelAPIError": "provider",
    "APIError": "provider",
    "FallbackExceptionGroup": "provider",
}


def error_of(error: Exception) -> TurnError:
    """What an exception of one of the libraries says about the turn.

    Examples:
        >>> error_of(ValueError("no")).kind
        'crash'
    """
    status = getattr(error, "status_code", None)
    kind: ErrorKind = "crash"
    for base in type(error).__mro__:
        if base.__name__ in _KINDS:
            kind = _KINDS[base.__name__]
            break
    if kind == "provider" and status == 429:
        kind = "rate_limited"
    retryable = kind == "rate_limited" or (isinstance(status, int) and status >= 500)
    message = described(error)
    return TurnError(kind, message, retryable).with_cause(error)


@define(eq=False)
class AsyncioBackend:
    """Opens sessions with an agent of pydantic-ai or openai-agents.

    ``Agent("scout", "", backend=AsyncioBackend(their_agent))``: prompt, tools and
    model are the library's; the name, the limits and the lifetime are ours.

    Args:
        its: a ``pydantic_ai.Agent`` or an ``agents.Agent``.

    Raises:
        TypeError: it is neither.
    """

    its: Any

    def __attrs_post_init__(self) -> None:
        _session_class(self.its)

    @asynccontextmanager
    async def open(
        self,
        agent: Agent,
        /,
        memory: Memory | None = None,
    ) -> AsyncGenerator[_AsyncioSession]:
        """A session; the loop thread runs as long as any is open."""
        make = _session_class(self.its)
        async with open_asyncio_loop() as loop:
            session = make(self.its, loop, _model_name(self.its))
            if memory is not None:
                session.recall(memory)
            yield session


def _session_class(its: Any) -> type[PydanticAISession] | type[OpenAIAgentsSession]:
    for base in type(its).__mro__:
        package = base.__module__.partition(".")[0]
        if package == "pydantic_ai":
            return PydanticAISession
        if package == "agents":
            return OpenAIAgentsSession
    raise TypeError(
        f"a pydantic_ai.Agent or an agents.Agent is wanted here, not {type(its).__qualname__}"
    )


def _model_name(its: Any) -> str:
    model: Any = getattr(its, "model", None)
    if isinstance(model, str):
        return model.replace(":", "/", 1)
    name: Any = getattr(model, "model_name", None) or getattr(model, "model", None)
    return str(name) if name is not None else ""
