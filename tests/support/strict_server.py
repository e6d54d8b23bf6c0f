"""A model server without a network, as strict about a conversation as the real ones are.

It stands in the place of an SDK's client: it reads the parameters of a request,
refuses a history that the providers' servers refuse, and streams what it is told to.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, NoReturn

import trio
from attrs import define, field, frozen

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[!-~]{1,500}")


class Refused(AssertionError):
    """Raised on a history that a server would answer with a 400."""


@frozen
class Called:
    """A call, as a model writes it."""

    id: str
    name: str
    arguments: str


@define(eq=False)
class StrictServer:
    """Plays one answer after the other: the calls of a message, or a text."""

    api: str
    answers: Callable[[], str | Sequence[Called]]
    requests: int = field(init=False, default=0)
    results: int = field(init=False, default=0)
    """Answers to calls in all the histories that it has read."""
    last: dict[str, Any] = field(init=False, factory=dict[str, Any])
    """The parameters of the latest request."""

    @property
    def client(self) -> Any:
        """What an SDK's client would be."""
        with_response = SimpleNamespace(with_streaming_response=SimpleNamespace(create=self.create))
        return SimpleNamespace(
            chat=SimpleNamespace(completions=with_response),
            responses=with_response,
            messages=with_response,
            close=trio.lowlevel.checkpoint,
        )

    @asynccontextmanager
    async def create(self, **parameters: Any) -> AsyncGenerator[Any]:
        """Read a request; stream its answer."""
        self.requests += 1
        self.last = parameters
        self.results += check(self.api, parameters)
        await trio.lowlevel.checkpoint()
        body = b"".join(
            b"data: " + (each if isinstance(each, str) else json.dumps(each)).encode() + b"\n\n"
            for each in _SPOKEN[self.api](self.answers())
        )

        async def iter_bytes() -> AsyncIterator[bytes]:
            yield body

        yield SimpleNamespace(iter_bytes=iter_bytes)


def check(api: str, parameters: Any) -> int:
    """How many calls are answered in a request; every call is, exactly once, right after it.

    Raises:
        Refused: a server would not take it.
    """
    sent = {name: value for name, value in parameters.items() if name != "timeout"}
    try:
        text = json.dumps(sent, allow_nan=False, ensure_ascii=False)
        text.encode()
    except ValueError as error:
        raise Refused(f"the request is no JSON: {error}") from error
    groups = {"chat": _chat_groups, "responses": _responses_groups, "anthropic": _message_groups}
    known: set[str] = set()
    answered = 0
    for calls, results in groups[api](sent):
        ids = [call.id for call in calls]
        if sorted(ids) != sorted(results):
            _refuse(f"calls {ids[:5]} are followed by answers to {results[:5]}")
        if len({*ids}) != len(ids) or known & {*ids}:
            _refuse(f"an id comes twice: {ids[:5]}")
        known |= {*ids}
        for call in calls:
            _check_call(api, call)
        answered += len(results)
    return answered


def _check_call(api: str, call: Called) -> None:
    if not _NAME.fullmatch(call.name):
        _refuse(f"no name of a tool: {call.name!r:.80}")
    if not (_ANTHROPIC_ID if api == "anthropic" else _ID).fullmatch(call.id):
        _refuse(f"no id of a call: {call.id!r:.80}")
    try:
        value = json.loads(call.arguments, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Refused(f"no JSON as arguments: {call.arguments[:80]!r}: {error}") from error
    if not isinstance(value, dict):
        _refuse(f"no object as arguments: {call.arguments[:80]!r}")


def _refuse(why: str) -> NoReturn:
    raise Refused(why)


Group = tuple[list[Called], list[str]]


def _chat_groups(sent: Any) -> Iterable[Group]:
    calls: list[Called] = []
    results: list[str] = []
    for message in sent["messages"]:
        if message["role"] == "tool":
            if not isinstance(message["content"], str):
                _refuse("the answer of a tool is text")
            results.append(message["tool_call_id"])
            continue
        yield calls, results
        calls, results = [], []
        for call in message.get("tool_calls", ()):
            function = call["function"]
            calls.append(Called(call["id"], function["name"], function["arguments"]))
        if not calls and not message["content"]:
            _refuse(f"an empty message of {message['role']}")
    yield calls, results


def _responses_groups(sent: Any) -> Iterable[Group]:
    calls: list[Called] = []
    results: list[str] = []
    for item in sent["input"]:
        kind = item.get("type")
        if kind == "function_call_output":
            results.append(item["call_id"])
            continue
        if results or kind != "function_call":
            yield calls, results
            calls, results = [], []
        if kind == "function_call":
            calls.append(Called(item["call_id"], item["name"], item["arguments"]))
    yield calls, results


def _message_groups(sent: Any) -> Iterable[Group]:
    calls: list[Called] = []
    before = ""
    for message in sent["messages"]:
        role, blocks = message["role"], message["content"]
        if role == before:
            _refuse(f"two messages of {role} in a row")
        if not blocks:
            _refuse(f"an empty message of {role}")
        before = role
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            _refuse("something stands before the answers of tools")
        yield calls, results
        calls = [
            Called(block["id"], block["name"], json.dumps(block["input"]))
            for block in blocks
            if block["type"] == "tool_use"
        ]
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            _refuse("an empty text")
    yield calls, []


# ---- speaking


def _chat(answer: str | Sequence[Called]) -> Iterable[Any]:
    def chunk(delta: Any, finish: str | None = None) -> Any:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    if isinstance(answer, str):
        yield chunk({"content": answer})
    else:
        for index, call in enumerate(answer):
            function = {"name": call.name, "arguments": call.arguments}
            yield chunk({"tool_calls": [{"index": index, "id": call.id, "function": function}]})
    yield chunk({}, "stop" if isinstance(answer, str) else "tool_calls")
    yield "[DONE]"


def _responses(answer: str | Sequence[Called]) -> Iterable[Any]:
    if isinstance(answer, str):
        yield {"type": "response.output_text.delta", "delta": answer}
    else:
        for index, call in enumerate(answer):
            item = {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": {"output": []}}


def _messages(answer: str | Sequence[Called]) -> Iterable[Any]:
    yield {"type": "message_start", "message": {}}
    blocks: list[tuple[Any, Any]]
    if isinstance(answer, str):
        blocks = [({"type": "text", "text": ""}, {"type": "text_delta", "text": answer})]
    else:
        blocks = [
            (
                {"type": "tool_use", "id": call.id, "name": call.name, "input": {}},
                {"type": "input_json_delta", "partial_json": call.arguments},
            )
            for call in answer
        ]
    for index, (begun, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = "end_turn" if isinstance(answer, str) else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": stop}}
    yield {"type": "message_stop"}


_SPOKEN: dict[str, Any] = {"chat": _chat, "responses": _responses, "anthropic": _messages}
