"""A model server for coding agents: four APIs, one way to say in the prompt what it answers.

The last thing that the user said decides, by its last word of command:

- ``CALL:<tool>:<json>``: the model calls that tool; given the result, it says "tool said: ...";
- ``SLOW:<count>[:<seconds>]``: so many words, so many seconds apart;
- ``LATE:<seconds>:<word>``: that word, so many seconds later;
- ``ERR:<status>``: that HTTP status;
- anything else is said back: "echo: ...".

It speaks OpenAI's chat and responses APIs, Anthropic's messages and Gemini's contents, on
loopback: streamed, or whole where it is asked for that.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field, frozen

_COMMAND = re.compile(
    r"CALL:[\w.\-]+:\{.*\}|SLOW:\d+(?::[\d.]+)?|LATE:[\d.]+:\w+|ERR:\d+", re.DOTALL
)
_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_INPUT_TOKENS = 100


@frozen
class Plan:
    """What a request is answered with."""

    words: tuple[str, ...] = ()
    seconds: float = 0.0
    tool: str = ""
    arguments: str = ""
    status: int = 200


@define(eq=False)
class Seen:
    """One request, as it came."""

    path: str
    body: Any
    plan: Plan
    aside: bool = False
    """Not streamed: no part of the conversation."""
    cut: bool = False
    """Whoever asked has closed the connection before the answer was whole."""
    over: trio.Event = field(factory=trio.Event, repr=False)
    """Its answer was sent, or the connection was closed."""


@define(eq=False)
class AgentServer:
    """A running server."""

    url: str
    """Without a path, as Anthropic's clients want it; with ``/v1`` for OpenAI's."""
    seen: list[Seen] = field(factory=list[Seen])
    _ids: Iterator[int] = field(factory=lambda: itertools.count(1), repr=False)

    @property
    def answered(self) -> int:
        """Requests for an answer whose answer was sent whole."""
        return sum(1 for each in self.seen if not each.cut and each.plan.status == 200)

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection, one request after the other."""
        async with stream:
            rest = b""
            while True:
                try:
                    request, rest = await _request(stream, rest)
                    if request is None:
                        return
                    await self._answer(stream, *request)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return

    async def _answer(self, stream: trio.SocketStream, path: str, body: Any) -> None:
        api = next((name for name in _APIS if path.split("?")[0].endswith(name)), "")
        if not api:
            told = {"data": [], "models": [], "input_tokens": _INPUT_TOKENS}
            await stream.send_all(_whole(200, told))
            return
        said, result = _APIS[api][0](body)
        plan = _plan(said, result)
        seen = Seen(path, body, plan)
        self.seen.append(seen)
        if plan.status != 200:
            error = {"type": "stub_error", "message": f"stub {plan.status}", "code": plan.status}
            await stream.send_all(_whole(plan.status, {"type": "error", "error": error}))
            return
        events = _APIS[api][1](plan, next(self._ids), body)
        streamed = body.get("stream") or api.startswith(":stream")
        if not streamed:
            # What is not streamed is asked for beside the turn: a title, a guess.
            seen.aside = True
            if api != ":generateContent":
                raise NotImplementedError(f"{path} is not asked for a stream")
            await stream.send_all(_whole(200, _gemini_whole(plan)))
            seen.over.set()
            return
        await stream.send_all(_STREAM)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, stream, seen, nursery.cancel_scope)
            try:
                for name, event, is_word in events:
                    if is_word and plan.seconds:
                        await trio.sleep(plan.seconds)
                    head = f"event: {name}\n" if name else ""
                    text = event if isinstance(event, str) else json.dumps(event)
                    part = f"{head}data: {text}\n\n".encode()
                    await stream.send_all(b"%x\r\n%s\r\n" % (len(part), part))
                await stream.send_all(b"0\r\n\r\n")
            except trio.BrokenResourceError:
                seen.cut = True
            nursery.cancel_scope.cancel()
        seen.over.set()
        if seen.cut:
            raise trio.BrokenResourceError


@asynccontextmanager
async def agent_server() -> AsyncGenerator[AgentServer]:
    """A server on loopback, for as long as the block lasts."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        server = AgentServer(f"http://127.0.0.1:{port}")
        nursery.start_soon(trio.serve_listeners, server.serve, listeners)
        yield server
        nursery.cancel_scope.cancel()


async def _watch(stream: trio.SocketStream, seen: Seen, scope: trio.CancelScope) -> None:
    # A client that waits for an answer says nothing; its end is all that can come.
    try:
        data = await stream.receive_some(1)
    except trio.BrokenResourceError:
        data = b""
    if not data:
        seen.cut = True
        scope.cancel()


async def _request(stream: trio.SocketStream, rest: bytes) -> tuple[tuple[str, Any] | None, bytes]:
    data = bytearray(rest)
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some(65_536)
        if not more:
            return None, b""
        data += more
    head, _, tail = bytes(data).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:])
    }
    if headers.get("expect"):
        await stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray(tail)
    size = int(headers.get("content-length", "0"))
    while len(body) < size:
        more = await stream.receive_some(65_536)
        if not more:
            return None, b""
        body += more
    path = lines[0].split()[1]
    return (path, json.loads(body[:size]) if size else {}), bytes(body[size:])


def _whole(status: int, body: Any) -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def _plan(said: str, result: str | None) -> Plan:
    if result is not None:
        return Plan(("tool ", "said: ", result[:200]))
    found = _COMMAND.findall(said)
    if not found:
        return Plan(("echo: ", said.strip()[-120:], " ."))
    command = found[-1]
    kind, _, rest = command.partition(":")
    if kind == "ERR":
        return Plan(status=int(rest))
    if kind == "LATE":
        seconds, _, word = rest.partition(":")
        return Plan((f"echo: {word}",), float(seconds))
    if kind == "SLOW":
        count, _, seconds = rest.partition(":")
        return Plan(tuple(f"w{n} " for n in range(int(count))), float(seconds or 0.1))
    tool, _, arguments = rest.partition(":")
    # Whatever follows the object is not its.
    _, end = json.JSONDecoder().raw_decode(arguments)
    return Plan(tool=tool, arguments=arguments[:end])


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(_text(part) for part in content)
    if isinstance(content, dict):
        return _text(content.get("text") or content.get("content") or "")
    return str(content or "")


Asked = tuple[str, str | None]
Events = Iterator[tuple[str, Any, bool]]


def _chat_asked(body: Any) -> Asked:
    last = body["messages"][-1]
    users = [message for message in body["messages"] if message["role"] == "user"]
    said = _text(users[-1]["content"]) if users else ""
    return said, _text(last["content"]) if last["role"] == "tool" else None


def _chat(plan: Plan, number: int, body: Any) -> Events:
    def chunk(delta: Any, finish: str | None = None) -> Any:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**base, "choices": [choice]}

    base = {"id": f"chat-{number}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    yield "", chunk({"role": "assistant", "content": ""}), False
    if plan.tool:
        function = {"name": plan.tool, "arguments": ""}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        yield "", chunk({"tool_calls": [call]}), False
        part = {"index": 0, "function": {"arguments": plan.arguments}}
        yield "", chunk({"tool_calls": [part]}), False
    for word in plan.words:
        yield "", chunk({"content": word}), True
    yield "", chunk({}, "tool_calls" if plan.tool else "stop"), False
    out = max(1, len(plan.words))
    usage = {"prompt_tokens": _INPUT_TOKENS, "completion_tokens": out, "total_tokens": 100 + out}
    yield "", {**base, "choices": [], "usage": usage}, False
    yield "", "[DONE]", False


def _responses_asked(body: Any) -> Asked:
    said, result = "", None
    items = body["input"]
    if isinstance(items, str):
        return items, None
    for item in items:
        if item.get("role") == "user":
            said, result = _text(item["content"]), None
        elif str(item.get("type")).endswith("_call_output"):
            result = _text(item.get("output"))
    return said, result


def _responses(plan: Plan, number: int, body: Any) -> Events:
    numbers = itertools.count()

    def event(kind: str, is_word: bool = False, **data: Any) -> tuple[str, Any, bool]:
        return kind, {"type": kind, "sequence_number": next(numbers), **data}, is_word

    def response(status: str, output: Any, usage: Any = None) -> Any:
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "status": status,
            "model": body.get("model"),
            "output": output,
            "usage": usage,
            "error": None,
        }

    text = "".join(plan.words)
    if plan.tool:
        item: Any = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": plan.tool,
            "arguments": plan.arguments,
            "status": "completed",
        }
    else:
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    yield event("response.created", response=response("in_progress", []))
    empty_part: Any = {"arguments": ""} if plan.tool else {"content": []}
    begun = {**item, "status": "in_progress", **empty_part}
    yield event("response.output_item.added", output_index=0, item=begun)
    where: dict[str, Any] = {"item_id": item["id"], "output_index": 0}
    if plan.tool:
        yield event("response.function_call_arguments.delta", delta=plan.arguments, **where)
        done = {"arguments": plan.arguments, "name": plan.tool}
        yield event("response.function_call_arguments.done", False, **done, **where)
    else:
        where["content_index"] = 0
        empty = {"type": "output_text", "text": "", "annotations": []}
        yield event("response.content_part.added", part=empty, **where)
        for word in plan.words:
            yield event("response.output_text.delta", True, delta=word, logprobs=[], **where)
        yield event("response.output_text.done", text=text, logprobs=[], **where)
        yield event("response.content_part.done", part=item["content"][0], **where)
    yield event("response.output_item.done", output_index=0, item=item)
    out = max(1, len(plan.words))
    usage = {
        "input_tokens": _INPUT_TOKENS,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": _INPUT_TOKENS + out,
    }
    yield event("response.completed", response=response("completed", [item], usage))


def _messages_asked(body: Any) -> Asked:
    said, result = "", None
    for message in body["messages"]:
        if message["role"] != "user":
            continue
        content = message["content"]
        if isinstance(content, str):
            said, result = content, None
            continue
        texts = [part["text"] for part in content if part.get("type") == "text"]
        results = [part for part in content if part.get("type") == "tool_result"]
        if texts:
            # Before it stand reminders, and prompts that were not answered.
            said, result = texts[-1], None
        if results:
            result = _text(results[-1].get("content"))
    return said, result


def _messages(plan: Plan, number: int, body: Any) -> Events:
    def event(kind: str, is_word: bool = False, **data: Any) -> tuple[str, Any, bool]:
        return kind, {"type": kind, **data}, is_word

    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": _INPUT_TOKENS, "output_tokens": 1, **cached},
    }
    yield event("message_start", message=message)
    if plan.tool:
        block: Any = {
            "type": "tool_use",
            "id": f"toolu_{number:04}",
            "name": plan.tool,
            "input": {},
        }
        yield event("content_block_start", index=0, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": plan.arguments}
        yield event("content_block_delta", index=0, delta=delta)
    else:
        block = {"type": "text", "text": ""}
        yield event("content_block_start", index=0, content_block=block)
        for word in plan.words:
            delta = {"type": "text_delta", "text": word}
            yield event("content_block_delta", True, index=0, delta=delta)
    yield event("content_block_stop", index=0)
    usage = {"output_tokens": max(1, len(plan.words)), "input_tokens": _INPUT_TOKENS}
    stop = {"stop_reason": "tool_use" if plan.tool else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=stop, usage=usage)
    yield event("message_stop")


def _gemini_asked(body: Any) -> Asked:
    said, result = "", None
    for content in body["contents"]:
        if content.get("role") != "user":
            continue
        for part in content["parts"]:
            if "functionResponse" in part:
                result = json.dumps(part["functionResponse"].get("response"))
            elif part.get("text"):
                said, result = part["text"], None
    return said, result


def _gemini_chunk(parts: Any, out: int, *, last: bool = False) -> Any:
    candidate: Any = {"index": 0, "content": {"role": "model", "parts": parts}}
    if last:
        candidate["finishReason"] = "STOP"
    usage = {
        "promptTokenCount": _INPUT_TOKENS,
        "candidatesTokenCount": out,
        "totalTokenCount": _INPUT_TOKENS + out,
    }
    return {"candidates": [candidate], "modelVersion": "stub", "usageMetadata": usage}


def _gemini_parts(plan: Plan) -> list[Any]:
    if plan.tool:
        return [{"functionCall": {"name": plan.tool, "args": json.loads(plan.arguments)}}]
    return [{"text": "".join(plan.words)}]


def _gemini(plan: Plan, number: int, body: Any) -> Events:
    if plan.tool:
        yield "", _gemini_chunk(_gemini_parts(plan), 1, last=True), False
        return
    for count, word in enumerate(plan.words, 1):
        yield "", _gemini_chunk([{"text": word}], count), True
    yield "", _gemini_chunk([{"text": ""}], len(plan.words), last=True), False


def _gemini_whole(plan: Plan) -> Any:
    return _gemini_chunk(_gemini_parts(plan), max(1, len(plan.words)), last=True)


_APIS: dict[str, Any] = {
    "/chat/completions": (_chat_asked, _chat),
    "/responses": (_responses_asked, _responses),
    "/messages": (_messages_asked, _messages),
    ":streamGenerateContent": (_gemini_asked, _gemini),
    ":generateContent": (_gemini_asked, _gemini),
}


def stream_of(api: str, said: str) -> bytes:
    """The whole body with which `api` ("chat", "responses", "anthropic") answers `said`."""
    speak = {"chat": _chat, "responses": _responses, "anthropic": _messages}[api]
    events = speak(_plan(said, None), 1, {"model": "m"})
    parts: list[str] = []
    for name, event, _ in events:
        text = event if isinstance(event, str) else json.dumps(event)
        parts.append(f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n")
    return "".join(parts).encode()
