"""A conversation with a chat model, over the official `openai` SDK and any base URL.

The terminal signal of an answer is its finish reason, in an event that has
come whole.  Without it an answer is cut short, however well it reads.
"""

from __future__ import annotations

import importlib.util
import random as randomness
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from attrs import define, evolve, field, frozen

from ..agent import Agent
from ..models import ModelSettings, NoClient
from ..result import Attachment, ChatMessage, TurnError
from ..session import (
    Capabilities,
    Memory,
    MessageEnded,
    OnEvent,
    Retrying,
    Steering,
    TextDelta,
    Turn,
    export_jsonl,
    no_attachments,
)
from ..usage import NOTHING, Usage
from .events import EventReader
from .faults import (
    Fault,
    connection_fault,
    protocol_fault,
    silence_fault,
    status_fault,
    stream_fault,
)
from .schema import AnswerSchema

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CONNECT_SECONDS = 10.0
# What may still come after the finish reason is the usage; it is not worth
# more waiting than this.
TAIL_SECONDS = 5.0
# After the closing word only the end of the connection's turn can come.
END_SECONDS = 0.5
BACKOFF_SECONDS = 0.5
BACKOFF_CAP_SECONDS = 30.0


@define(eq=False)
class ChatModel:
    """One model that sessions ask: its connections, and what its server said about waiting.

    Args:
        settings: whom to ask.
        retries: how often a failed request is made again; 0 for never.
        retry_after_cap: seconds; a server that asks for more than this is not
            waited for, and the turn fails with `rate_limited`.
        random: a number from 0 up to 1; spreads those who wait.
        wall: seconds since 1970, to read the dates of servers by.
    """

    settings: ModelSettings
    retries: int = 2
    retry_after_cap: float = 900.0
    random: Callable[[], float] = field(default=randomness.random, repr=False)
    wall: Callable[[], float] = field(default=time.time, repr=False)
    capabilities: Capabilities = field(init=False)
    """As declared, and corrected when the server refuses what it was said to take."""
    tells_usage: bool = field(init=False, default=True)
    _client: AsyncOpenAI | None = field(init=False, default=None, repr=False)
    _closed_until: float = field(init=False, default=float("-inf"), repr=False)
    _spread: float = field(init=False, default=0.0, repr=False)

    turnstile: AbstractAsyncContextManager[Any] = field(init=False, repr=False)
    """Holds back the requests that the server would only keep waiting."""

    def __attrs_post_init__(self) -> None:
        self.capabilities = self.settings.capabilities
        at_once = self.settings.at_once
        self.turnstile = nullcontext() if at_once is None else trio.CapacityLimiter(at_once)

    @property
    def name(self) -> str:
        """As in "openai/gpt-5-mini"."""
        return self.settings.name

    def session(self, agent: Agent) -> ChatSession:
        """A new conversation, which remembers nothing of any other."""
        return ChatSession(self, agent)

    @property
    def client(self) -> AsyncOpenAI:
        """The SDK's client, made when it is first needed."""
        if self._client is None:
            # Importing it takes longer than starting most programs.
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient

            # A proxy of the environment is for the world outside.
            loopback = self.settings.on_loopback
            self._client = AsyncOpenAI(
                api_key=self.settings.api_key.reveal(),
                base_url=self.settings.base_url,
                max_retries=0,  # ours are counted, bounded, and seen by listeners
                http_client=DefaultAsyncHttpxClient(trust_env=False) if loopback else None,
            )
        return self._client

    async def close(self) -> None:
        """Close the connections; also when cancelled, and never for longer than a second."""
        if self._client is not None:
            client, self._client = self._client, None
            with trio.move_on_after(1.0, shield=True):
                await client.close()

    def hold_off(self, seconds: float) -> None:
        """Let nobody ask for so long: the server's limit belongs to the key, not to a session."""
        until = trio.current_time() + seconds
        if until > self._closed_until:
            self._closed_until = until
            self._spread = max(0.2 * seconds, 0.5)

    def open_at(self) -> float | None:
        """When this asker may make its next request, on trio's clock; None for at once.

        Whoever asks gets a moment of their own, so that those who wait
        together do not strike together.
        """
        if self._closed_until <= trio.current_time():
            return None
        return self._closed_until + self._spread * self.random()


@asynccontextmanager
async def open_chat_model(
    settings: ModelSettings,
    *,
    retries: int = 2,
    retry_after_cap: float = 900.0,
    random: Callable[[], float] = randomness.random,
    wall: Callable[[], float] = time.time,
) -> AsyncGenerator[ChatModel]:
    """A chat model for the length of the block; see :class:`ChatModel` for the arguments.

    Raises:
        NoClient: the `openai` package is not installed.
    """
    if importlib.util.find_spec("openai") is None:
        raise NoClient
    model = ChatModel(settings, retries, retry_after_cap, random, wall)
    try:
        yield model
    finally:
        await model.close()


@frozen
class _Outcome:
    """What one request came to."""

    text: str
    error: TurnError | None = None
    again: bool = False
    """It is worth making again by us: nobody has seen any of it."""
    retry_after: float | None = None
    conceded: bool = False
    """It was refused for what it asked besides, and the next one asks for less."""


_ONE_REQUEST = Usage(requests=1)


@define(eq=False)
class _Heard:
    """What has come of one answer so far."""

    text: str = ""
    finish: str = ""
    refusal: str = ""
    pieces: int = 0
    calls_tool: bool = False
    usage: Any = None
    timings: Any = None
    done: bool = False
    """The server said that it has nothing more to say."""

    def take(self, event: dict[str, Any]) -> str:
        """Add one event of the stream; the text that it brought.

        Nothing is believed of its shape, because servers differ.
        """
        self.usage = event.get("usage") or self.usage
        self.timings = event.get("timings") or self.timings
        choice = _first(event.get("choices"))
        delta = _dict(choice.get("delta"))
        finish: Any = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self.finish = finish
        if delta.get("tool_calls"):
            self.calls_tool = True
            self.pieces += 1
        refusal: Any = delta.get("refusal")
        if isinstance(refusal, str):
            self.refusal += refusal
        text: Any = delta.get("content")
        if not isinstance(text, str) or not text:
            return ""
        self.pieces += 1
        self.text += text
        return text


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(value: Any) -> dict[str, Any]:
    return _dict(value[0]) if isinstance(value, list) and value else {}


@define(eq=False)
class ChatSession:
    """One conversation with a chat model, turn by turn.

    What the model is shown are the turns that it answered.  A turn that failed
    stays in the transcript, marked, and is not shown again: half an answer
    makes a bad example.
    """

    _model: ChatModel
    _agent: Agent
    usage: Usage = field(init=False, default=NOTHING)
    _schema: AnswerSchema | None = field(init=False, default=None)
    _summary: str = field(init=False, default="", repr=False)
    _shown: list[ChatMessage] = field(init=False, factory=list, repr=False)
    _said: list[ChatMessage] = field(init=False, factory=list, repr=False)
    _scope: trio.CancelScope | None = field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if self._agent.schema is not None:
            self._schema = AnswerSchema(self._agent.schema)

    @property
    def model(self) -> str:
        """As in "openai/gpt-5-mini"."""
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        """What the model's server can do, as far as it has shown."""
        return self._model.capabilities

    def record(self, message: ChatMessage) -> None:
        """Add to the transcript; the turn that is played does."""
        self._said.append(message)

    def recall(self, memory: Memory) -> None:
        """Begin with what was said before; it is shown to the model as its own past."""
        self._said.extend(memory.messages)
        self._summary = memory.summary
        if not memory.summary:
            self._shown.extend(m for m in memory.messages if m.text and not m.partial)

    def transcript(self) -> tuple[ChatMessage, ...]:
        """Everything said so far, failed turns included and marked."""
        return tuple(self._said)

    def export(self, directory: Path, name: str) -> Path:
        """Write the transcript as JSON lines, whole or not at all."""
        return export_jsonl(self.transcript(), directory, name)

    async def close(self) -> None:
        """Nothing is held between turns: the connections are the model's."""

    def steer(self, text: str) -> Steering:
        """Nothing can be put into a turn of its."""
        return "unsupported"

    def follow_up(self, text: str) -> Steering:
        """Nothing can be left for the end of a turn of its."""
        return "unsupported"

    def interrupt(self) -> bool:
        """End the turn in flight, closing its connection at once."""
        if self._scope is None:
            return False
        self._scope.cancel()
        return True

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Play one turn; see :class:`~standby_actors.session.Session`.

        Raises:
            RuntimeError: a turn is in flight.
        """
        if self._scope is not None:
            raise RuntimeError("a session plays one turn at a time")
        if attachments:
            return Turn(error=no_attachments(self.model))
        turn = _Turn(self, on_event)
        turn.say(ChatMessage("user", text))
        outcome: Turn | None = None
        try:
            with trio.CancelScope() as self._scope:
                outcome = await self._play(turn)
        finally:
            self._scope = None
        if outcome is None:
            error = TurnError("stopped", "interrupted")
            said = turn.messages[-1].text if turn.messages[-1].partial else ""
            return Turn(said, tuple(turn.messages), error)
        if outcome.error is None:
            self._shown += turn.messages
        return outcome

    async def _play(self, turn: _Turn) -> Turn:
        corrected = False
        while True:
            outcome = await self._insist(turn)
            error = outcome.error
            value: Any = None
            if error is None and self._schema is not None:
                try:
                    value = self._schema.read(outcome.text)
                except msgspec.MsgspecError as wrong:
                    if not corrected:
                        corrected = True
                        turn.say(
                            ChatMessage(
                                "user",
                                f"That does not fit the JSON schema: {wrong}.  Answer again,"
                                " with the whole corrected JSON and nothing else.",
                            )
                        )
                        continue
                    error = TurnError(
                        "schema",
                        f"{self.model} gave no {self._schema.name}, asked twice: {wrong}",
                        True,
                    )
            return Turn(outcome.text.strip(), tuple(turn.messages), error, value)

    async def _insist(self, turn: _Turn) -> _Outcome:
        """One request, made again as often as is allowed and sensible."""
        made = 0
        while True:
            # Another session's request may have been told to wait: so do we.
            while (at := self._model.open_at()) is not None:
                limited = TurnError("rate_limited", f"{self.model} asked everybody to wait", True)
                if not await _wait(at - trio.current_time(), made, limited, turn.on_event):
                    return _Outcome("", _too_long(limited, at - trio.current_time()))
            async with self._model.turnstile:
                outcome = await self._request(turn)
            if outcome.conceded:
                continue
            made += 1
            error = outcome.error
            if error is None or not outcome.again or made > self._model.retries:
                return outcome
            asked = outcome.retry_after
            if asked is not None and asked > self._model.retry_after_cap:
                return evolve(outcome, error=_too_long(error, asked))
            if asked is not None and error.kind == "rate_limited":
                self._model.hold_off(asked)
                continue
            seconds = min(BACKOFF_SECONDS * 2.0 ** (made - 1), BACKOFF_CAP_SECONDS)
            seconds = (seconds if asked is None else asked) * (1.0 + self._model.random())
            if not await _wait(seconds, made, error, turn.on_event):
                return evolve(outcome, error=_too_long(error, seconds))

    async def _request(self, turn: _Turn) -> _Outcome:
        import httpx2
        import openai

        settings = self._model.settings
        heard = _Heard()
        fault: Fault | None = None
        reached = True
        ended = False
        tail = trio.CancelScope()
        reader = EventReader()
        completions: Any = self._model.client.chat.completions
        self.usage = self.usage.accumulate(_ONE_REQUEST)
        try:
            request = completions.with_streaming_response.create(**self._parameters(turn))
            async with request as response:
                with tail:
                    # Read to the end, not to the last event: a connection that
                    # has been emptied is used again.
                    async for received in response.iter_bytes():
                        for data in reader.feed(received):
                            if fault is None:
                                fault = self._hear(heard, data, turn)
                        if fault is not None:
                            # Not a break: the SDK's generators below end only
                            # by what they raise themselves.
                            tail.cancel()
                        elif heard.finish or heard.done:
                            seconds = END_SECONDS if heard.done else TAIL_SECONDS
                            tail.deadline = min(tail.deadline, trio.current_time() + seconds)
            ended = True
        except openai.APIStatusError as error:
            ended, reached = True, False
            if self._concede(error.status_code, str(error.body)):
                return _Outcome("", None, conceded=True)
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            fault = status_fault(
                settings, error.status_code, error.body, headers, self._model.wall()
            )
        except (openai.APIConnectionError, httpx2.TransportError) as error:
            ended = True
            reached = not _caused_by(error, httpx2.ConnectError, httpx2.ConnectTimeout)
            if _caused_by(error, httpx2.ReadTimeout):
                fault = silence_fault(settings, self._patience())
            else:
                fault = connection_fault(
                    settings, error, refused=not reached, begun=heard.pieces > 0
                )
        except (openai.APIError, httpx2.DecodingError) as error:
            ended = True
            fault = protocol_fault(settings, error)
        finally:
            # Also when it is cancelled: what was spent is spent, what was said was said.
            if reached:
                self.usage = self.usage.accumulate(_told(heard))
            if not ended and heard.text:
                turn.say(ChatMessage("assistant", heard.text, partial=True))
        limit = self.capabilities.context_tokens
        wrong = _verdict(heard, fault, settings.name, self.usage.context_tokens, limit)
        if heard.text:
            turn.say(ChatMessage("assistant", heard.text, partial=wrong is not None))
        if wrong is None or fault is None or heard.pieces:
            # What somebody has seen the beginning of is not begun again by us.
            return _Outcome(heard.text, wrong)
        return _Outcome("", wrong, fault.again, fault.retry_after)

    def _hear(self, heard: _Heard, data: bytes, turn: _Turn) -> Fault | None:
        """Take one event; what is wrong with it, if anything."""
        try:
            event: Any = None if data.strip() == b"[DONE]" else msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            return protocol_fault(self._model.settings, error)
        if event is None:
            heard.done = True
        elif not isinstance(event, dict):
            return protocol_fault(self._model.settings, TypeError("an event is an object"))
        elif event.get("error"):
            return stream_fault(self._model.settings, event)
        elif piece := heard.take(event):
            turn.on_event(TextDelta(piece))
        return None

    def _patience(self) -> float:
        """Seconds that the server may say nothing."""
        return max(self._agent.idle_timeout, self._model.settings.least_patience)

    def _parameters(self, turn: _Turn) -> dict[str, Any]:
        import openai

        agent, model = self._agent, self._model
        prompt = agent.mind if isinstance(agent.mind, str) else ""
        if self._summary:
            prompt = f"{prompt}\n\nWhat was said so far, in short:\n{self._summary}".strip()
        parameters: dict[str, Any] = {
            "model": model.settings.model,
            "stream": True,
            "timeout": openai.Timeout(self._patience(), connect=CONNECT_SECONDS, pool=None),
        }
        if model.tells_usage:
            parameters["stream_options"] = {"include_usage": True}
        if self._schema is not None:
            if self.capabilities.schema:
                parameters["response_format"] = self._schema.response_format()
            else:
                prompt = f"{prompt}\n\n{self._schema.instruction()}".strip()
        if agent.max_tokens is not None:
            parameters[model.settings.limit_parameter] = agent.max_tokens
        if agent.temperature is not None:
            parameters["temperature"] = agent.temperature
        if model.settings.extra:
            parameters["extra_body"] = dict(model.settings.extra)
        shown = [ChatMessage("system", prompt)] if prompt else []
        shown += [*self._shown, *turn.messages]
        parameters["messages"] = [{"role": m.role, "content": m.text} for m in shown]
        return parameters

    def _concede(self, status: int, said: str) -> bool:
        """Ask for less from now on, when that is what the server objected to."""
        if status not in (400, 422):
            return False
        model = self._model
        if model.tells_usage and "stream_options" in said:
            model.tells_usage = False
            return True
        if (
            self._schema is not None
            and model.capabilities.schema
            and ("response_format" in said or "json_schema" in said)
        ):
            model.capabilities = msgspec.structs.replace(model.capabilities, schema=False)
            return True
        return False


@define(eq=False)
class _Turn:
    """One turn while it is played: what was said in it, and who listens."""

    session: ChatSession
    on_event: OnEvent
    messages: list[ChatMessage] = field(init=False, factory=list)

    def say(self, message: ChatMessage) -> None:
        self.messages.append(message)
        self.session.record(message)
        self.on_event(MessageEnded(message))


def _verdict(
    heard: _Heard, fault: Fault | None, name: str, level: int | None, limit: int | None
) -> TurnError | None:
    """What is wrong with an answer, or None: it came whole.

    Args:
        heard: what came of it.
        fault: what ended the request, when it did not end by itself.
        name: of the model.
        level: tokens in the context after it, when told.
        limit: tokens that the context holds, when known.
    """
    if not heard.finish:
        if fault is not None:
            return fault.error
        return TurnError(
            "truncated", f"the answer of {name} ended before its finish reason came", True
        )
    # After the finish reason nothing more is said, so that a connection which
    # breaks then has taken nothing of the answer with it.
    if heard.refusal:
        return TurnError("refused", f"{name} refused: {heard.refusal}")
    if heard.finish == "content_filter":
        return TurnError("refused", f"the provider's filter cut the answer of {name}")
    if heard.finish == "length":
        if limit is not None and level is not None and level >= limit - 1:
            return TurnError(
                "context_overflow", f"the answer of {name} filled its context of {limit} tokens"
            )
        return TurnError("truncated", f"the answer of {name} reached the output limit")
    if heard.calls_tool or heard.finish in ("tool_calls", "function_call"):
        return TurnError("protocol", f"{name} called a tool, and was offered none")
    if heard.finish != "stop":
        return TurnError("protocol", f"{name} ended for a reason unknown to us: {heard.finish!r}")
    return None


def _told(heard: _Heard) -> Usage:
    """What one answer cost, by what its server told of it."""
    usage, timings = _dict(heard.usage), _dict(heard.timings)
    if usage:
        tokens_in = _count(usage, "prompt_tokens")
        tokens_out = _count(usage, "completion_tokens")
        cost: Any = usage.get("cost")
        return Usage(
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            reasoning_tokens=_count(
                _dict(usage.get("completion_tokens_details")), "reasoning_tokens"
            ),
            cache_read=_count(_dict(usage.get("prompt_tokens_details")), "cached_tokens"),
            cost_usd=float(cost) if isinstance(cost, (int, float)) and cost > 0 else 0.0,
            context_tokens=tokens_in + tokens_out,
        )
    if timings:
        # llama.cpp tells with every piece what it has done so far.
        cached = _count(timings, "cache_n")
        tokens_in = _count(timings, "prompt_n") + cached
        tokens_out = _count(timings, "predicted_n")
        return Usage(
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cache_read=cached,
            context_tokens=tokens_in + tokens_out,
        )
    return Usage(output_tokens=heard.pieces, unreported=1)


def _count(holder: dict[str, Any], name: str) -> int:
    number: Any = holder.get(name)
    return number if isinstance(number, int) and number > 0 else 0


async def _wait(seconds: float, made: int, error: TurnError, on_event: OnEvent) -> bool:
    """Wait, unless that would be longer than there is time for: then False, at once."""
    # To wait for what cannot be in time would only hide the reason.
    if trio.current_time() + seconds >= trio.current_effective_deadline():
        return False
    on_event(Retrying(made, seconds, error))
    await trio.sleep(seconds)
    return True


def _too_long(error: TurnError, seconds: float) -> TurnError:
    message = f"{error.message}; the next try would be in {seconds:.0f} s, too late"
    return TurnError(error.kind, message, True).with_cause(error.cause)


def _caused_by(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kinds):
            return True
        error = error.__cause__ or error.__context__
    return False
