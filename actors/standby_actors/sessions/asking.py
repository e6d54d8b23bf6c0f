"""One answer of a model: a request, made again as often as is allowed and sensible.

The terminal signal of an answer is its API's own, in an event that has come
whole.  Without it an answer is cut short, however well it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import trio
from attrs import evolve, frozen

from ..models import ModelSettings
from ..result import ChatMessage, ToolCall, TurnError
from ..session import ModelCalled, OnEvent, Retrying
from ..usage import Usage
from .connection import ChatModel
from .events import EventReader
from .faults import (
    Fault,
    connection_fault,
    contradiction_fault,
    protocol_fault,
    silence_fault,
    status_fault,
    stream_fault,
)
from .wires.wire import Asked, Entry, Heard, Wire

# What may still come after the finish reason is the usage; it is not worth
# more waiting than this.
TAIL_SECONDS = 5.0
# After the closing word only the end of the connection's turn can come.
END_SECONDS = 0.5
BACKOFF_SECONDS = 0.5
BACKOFF_CAP_SECONDS = 30.0
_ONE_REQUEST = Usage(requests=1)
# Faults that say something about the model, and not about what it was asked.
_OF_THE_MODEL = frozenset({"provider", "idle_timeout", "truncated"})


@frozen
class Answer:
    """What one request came to."""

    text: str
    error: TurnError | None = None
    calls: tuple[ToolCall, ...] = ()
    again: bool = False
    """It is worth making again by us: nobody has seen any of it."""
    seen: bool = False
    """Somebody has seen the beginning of it."""
    retry_after: float | None = None
    conceded: bool = False
    """It was refused for what it asked besides, and the next one asks for less."""


class Asker(Protocol):
    """The turn that asks: what is to be said in the next request, and who hears of it."""

    on_event: OnEvent
    taken: set[str]
    """Ids of the calls so far."""

    def asked(self, model: ChatModel) -> Asked:
        """The next request, for `model`."""
        ...

    def spend(self, usage: Usage) -> None:
        """Count what was spent."""
        ...

    def level(self) -> int | None:
        """Tokens in the context at the latest reading."""
        ...

    def say(self, message: ChatMessage, opaque: tuple[Any, ...] = ()) -> None:
        """Add what was said."""
        ...


async def answer_of(models: Sequence[ChatModel], turn: Asker) -> Answer:
    """The answer of the first of `models` that gives one.

    The next one is asked where a model cannot be asked, or has failed before
    anybody saw a piece of its answer.
    """
    for number, model in enumerate(models):
        answer = await _insist(model, turn)
        error = answer.error
        is_last = number == len(models) - 1
        if error is None or is_last or answer.seen or not _is_the_models(error):
            return answer
        follower = models[number + 1].name
        told = TurnError(error.kind, f"{error.message}; {follower} is asked instead", True)
        turn.on_event(Retrying(1, 0.0, told))
    raise AssertionError("there is always a model")


def _is_the_models(error: TurnError) -> bool:
    return error.kind in _OF_THE_MODEL or error.kind in ("rate_limited", "protocol")


async def _insist(model: ChatModel, turn: Asker) -> Answer:
    made = 0
    while True:
        # Another session's request may have been told to wait: so do we.
        while (at := model.open_at()) is not None:
            limited = TurnError("rate_limited", f"{model.name} asked everybody to wait", True)
            if not await _wait(at - trio.current_time(), made, limited, turn.on_event):
                return Answer("", _too_long(limited, at - trio.current_time()))
        pause = model.breaker.wait(trio.current_time())
        if pause > 0:
            return Answer(
                "",
                TurnError(
                    "provider",
                    f"{model.name} has failed too often in a row: it is not asked again for"
                    f" {pause:.0f} s",
                    True,
                ),
            )
        try:
            async with model.turnstile:
                model.begin()
                answer = await _request(model, turn)
        # It passes; only the breaker must not wait for a probe that is gone.
        except BaseException:
            model.breaker.gave_up()
            raise
        if answer.conceded:
            model.breaker.gave_up()
            continue
        made += 1
        error = answer.error
        if error is not None and error.retryable and error.kind in _OF_THE_MODEL:
            model.breaker.failed(trio.current_time())
        elif error is None or error.kind != "rate_limited":
            model.breaker.succeeded()
        else:
            model.breaker.gave_up()
        if error is None or not answer.again or made > model.retries:
            return answer
        asked = answer.retry_after
        if asked is not None and asked > model.retry_after_cap:
            return evolve(answer, error=_too_long(error, asked))
        if asked is not None and error.kind == "rate_limited":
            model.hold_off(asked)
            continue
        seconds = min(BACKOFF_SECONDS * 2.0 ** (made - 1), BACKOFF_CAP_SECONDS)
        seconds = (seconds if asked is None else asked) * (1.0 + model.random())
        if not await _wait(seconds, made, error, turn.on_event):
            return evolve(answer, error=_too_long(error, seconds))


async def _request(model: ChatModel, turn: Asker) -> Answer:
    import httpx2

    sdk = _sdk(model)
    settings, wire = model.settings, model.wire
    asked = turn.asked(model)
    heard = Heard()
    fault: Fault | None = None
    reached = True
    ended = False
    tail = trio.CancelScope()
    reader = EventReader()
    began = trio.current_time()
    turn.spend(_ONE_REQUEST)
    try:
        request = wire.create(model.client)(**wire.parameters(asked))
        async with request as response:
            with tail:
                # Read to the end, not to the last event: a connection that
                # has been emptied is used again.
                async for received in response.iter_bytes():
                    for data in reader.feed(received):
                        if fault is None:
                            fault = hear_event(settings, wire, heard, data, turn.on_event)
                    if fault is not None:
                        # Not a break: the SDK's generators below end only
                        # by what they raise themselves.
                        tail.cancel()
                    elif heard.ending or heard.done:
                        seconds = END_SECONDS if heard.done else TAIL_SECONDS
                        tail.deadline = min(tail.deadline, trio.current_time() + seconds)
        ended = True
    except sdk.APIStatusError as error:
        ended, reached = True, False
        if _concede(model, asked, error.status_code, str(error.body)):
            return Answer("", None, conceded=True)
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        fault = status_fault(settings, error.status_code, error.body, headers, model.wall())
    except (sdk.APIConnectionError, httpx2.TransportError) as error:
        ended = True
        reached = not _caused_by(error, httpx2.ConnectError, httpx2.ConnectTimeout)
        if _caused_by(error, httpx2.ReadTimeout):
            fault = silence_fault(settings, asked.patience)
        else:
            fault = connection_fault(settings, error, refused=not reached, begun=heard.pieces > 0)
    except (sdk.APIError, httpx2.DecodingError) as error:
        ended = True
        fault = protocol_fault(settings, error)
    finally:
        # Also when it is cancelled: what was spent is spent, what was said was said.
        cost = heard.told() if reached else Usage()
        turn.spend(cost)
        model.used(cost.input_tokens + cost.output_tokens)
        if not ended:
            if heard.text:
                turn.say(ChatMessage("assistant", heard.text, partial=True))
            _tell(model, turn, heard, cost, began, TurnError("cancelled", "cut"))
    wrong = verdict(heard, fault, asked, turn.level(), model.capabilities.context_tokens)
    _tell(model, turn, heard, cost, began, wrong)
    calls = heard.tool_calls(turn.taken) if wrong is None else ()
    if heard.text or calls:
        said = ChatMessage("assistant", heard.text, partial=wrong is not None, calls=calls)
        turn.say(said, tuple(heard.opaque))
    if wrong is None or fault is None or heard.pieces:
        # What somebody has seen the beginning of is not begun again by us.
        return Answer(heard.text, wrong, calls, seen=heard.pieces > 0)
    return Answer("", wrong, again=fault.again, retry_after=fault.retry_after)


def _tell(
    model: ChatModel,
    turn: Asker,
    heard: Heard,
    cost: Usage,
    began: float,
    error: TurnError | None,
) -> None:
    seconds = trio.current_time() - began
    turn.on_event(ModelCalled(model.name, seconds, cost, heard.finish, error))


def _sdk(model: ChatModel) -> Any:
    if model.wire.sdk == "anthropic":
        import anthropic

        return anthropic
    import openai

    return openai


def hear_event(
    settings: ModelSettings, wire: Wire, heard: Heard, data: bytes, on_event: OnEvent
) -> Fault | None:
    """Take one event of a stream; what is wrong with it, if anything."""
    try:
        event: Any = None if data.strip() == b"[DONE]" else msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return protocol_fault(settings, error)
    if event is None:
        heard.done = True
        return None
    if not isinstance(event, dict):
        return protocol_fault(settings, TypeError("an event is an object"))
    if heard.ending:
        # What comes after the terminal signal can tell of the cost, and say nothing more.
        wire.hear(after := Heard(), event)
        heard.usage = after.usage or heard.usage
        heard.done = heard.done or after.done
        if after.pieces or after.contradiction:
            # Then the end came too early, and what is there is not the whole answer.
            heard.ending = None
            return contradiction_fault(settings, "it went on after its end")
        return None
    for told in wire.hear(heard, event):
        on_event(told)
    if heard.contradiction:
        return contradiction_fault(settings, heard.contradiction)
    return None if heard.failure is None else stream_fault(settings, heard.failure)


def _concede(model: ChatModel, asked: Asked, status: int, said: str) -> bool:
    """Ask for less from now on, when that is what the server objected to."""
    if status not in (400, 422):
        return False
    if model.tells_usage and asked.tells_usage and "stream_options" in said:
        model.tells_usage = False
        return True
    if (
        asked.schema is not None
        and model.capabilities.schema
        and ("response_format" in said or "json_schema" in said)
    ):
        model.capabilities = msgspec.structs.replace(model.capabilities, schema=False)
        return True
    return False


def verdict(
    heard: Heard, fault: Fault | None, asked: Asked, level: int | None, limit: int | None
) -> TurnError | None:
    """What is wrong with an answer, or None: it came whole.

    Args:
        heard: what came of it.
        fault: what ended the request, when it did not end by itself.
        asked: what was asked.
        level: tokens in the context after it, when told.
        limit: tokens that the context holds, when known.
    """
    name = asked.settings.name
    if heard.ending is None:
        if fault is not None:
            return fault.error
        return TurnError(
            "truncated", f"the answer of {name} ended before its finish reason came", True
        )
    # After the finish reason nothing more is said, so that a connection which
    # breaks then has taken nothing of the answer with it.
    match heard.ending:
        case "refusal":
            return TurnError("refused", f"{name} refused: {heard.refusal}")
        case "filter":
            return TurnError("refused", f"the provider's filter cut the answer of {name}")
        case "length":
            is_full = heard.finish == "model_context_window_exceeded" or (
                limit is not None and level is not None and level >= limit - 1
            )
            if is_full:
                holds = "" if limit is None else f" of {limit} tokens"
                message = f"the answer of {name} filled its context{holds}"
                return TurnError("context_overflow", message)
            return TurnError("truncated", f"the answer of {name} reached the output limit")
        case "tools" if not asked.tools:
            return TurnError("protocol", f"{name} called a tool, and was offered none")
        case "tools" if not heard.calls:
            return TurnError("protocol", f"{name} ended to call a tool, and called none")
        case "odd":
            why = f"{name} ended for a reason unknown to us: {heard.finish!r}"
            return TurnError("protocol", why)
        case _:
            return None


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


def entries_of(messages: Sequence[ChatMessage]) -> list[Entry]:
    """Messages as a conversation, without what only an API could read."""
    return [Entry(message) for message in messages]
