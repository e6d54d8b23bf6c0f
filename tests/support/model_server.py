"""A model server that plays a script, byte by byte, and remembers what it was asked.

It speaks the OpenAI chat protocol on loopback.  A test says what each request
is answered with, down to the byte after which the connection ends.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Literal, TypeAlias

import attrs
import trio
from attrs import define, field, frozen

Ending = Literal["end", "reset", "hold"]
"""How the connection ends: closed in order, by a TCP reset, or not by us."""


@frozen
class Answer:
    """What one request is answered with."""

    head: bytes
    """Status line and headers, with the empty line after them."""
    events: tuple[bytes, ...] = ()
    """The body, in the parts in which it is sent."""
    seconds: float = 0.0
    """Waited before each part of the body."""
    first_seconds: float = 0.0
    """Waited before anything is sent."""
    ending: Ending = "end"

    @property
    def raw(self) -> bytes:
        """Every byte of it, in order."""
        return self.head + b"".join(self.events)

    def cut(self, after: int, ending: Ending) -> Answer:
        """Only the first `after` bytes, all at once, then `ending`."""
        return attrs.evolve(self, head=self.raw[:after], events=(), ending=ending)

    def byte_by_byte(self, seconds: float = 1.0) -> Answer:
        """The same body, one byte each `seconds`."""
        body = b"".join(self.events)
        return attrs.evolve(
            self, events=tuple(body[n : n + 1] for n in range(len(body))), seconds=seconds
        )

    def holding(self) -> Answer:
        """The same, but then nothing: the connection stays open and silent."""
        return attrs.evolve(self, ending="hold")

    def after(self, seconds: float) -> Answer:
        """The same, after waiting so long."""
        return attrs.evolve(self, first_seconds=seconds)

    def chunked(self) -> Answer:
        """The same body in HTTP's chunked coding, where every end but the right one shows."""
        head = self.head.replace(b"Connection: close\r\n", b"Transfer-Encoding: chunked\r\n")
        parts = tuple(b"%x\r\n%s\r\n" % (len(part), part) for part in self.events)
        return attrs.evolve(self, head=head, events=(*parts, b"0\r\n\r\n"))


SILENT = Answer(b"", ending="hold")
"""Accepts the request and says nothing."""

_SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def sse(data: Mapping[str, Any] | str) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


def chunk(
    delta: Mapping[str, Any] | None,
    finish: str | None = None,
    usage: Mapping[str, Any] | None = None,
) -> bytes:
    """One event of a chat stream; without `delta` it is the one that only tells the usage."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    data: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
    }
    if usage is not None:
        data["usage"] = usage
    return sse(data)


def says(
    *pieces: str,
    finish: str | None = "stop",
    usage: tuple[int, int] | None = (10, 5),
    done: bool = True,
    seconds: float = 0.0,
) -> Answer:
    """A stream that says `pieces`, one event each, `seconds` apart.

    Args:
        pieces: of the answer's text.
        finish: its finish reason; None: it ends without one.
        usage: tokens in and out, told at the end; None: not told.
        done: it closes with the customary ``[DONE]``.
        seconds: waited before each event.
    """
    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": piece}) for piece in pieces]
    if finish is not None:
        events.append(chunk({}, finish))
    if usage is not None:
        tokens_in, tokens_out = usage
        told = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        }
        events.append(chunk(None, usage=told))
    if done:
        events.append(sse("[DONE]"))
    return Answer(_SSE, tuple(events), seconds)


def streams(*events: bytes) -> Answer:
    """A stream of exactly these events."""
    return Answer(_SSE, events)


def fails(
    status: int, message: str = "no", *, code: str | None = None, headers: Mapping[str, str] = {}
) -> Answer:
    """An HTTP error, as this protocol writes it."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
    lines = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    head = f"HTTP/1.1 {status} Said\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
    return Answer(head.encode() + b"\r\n", (body,))


@define(eq=False)
class Asked:
    """One request, and what became of its connection."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    at: float
    """When it had arrived, on trio's clock."""
    gone: trio.Event = field(init=False, factory=trio.Event)
    """The client closed the connection before the answer was whole."""
    gone_at: float | None = field(init=False, default=None)

    @property
    def last(self) -> str:
        """The text of its last message."""
        text: str = self.body["messages"][-1]["content"]
        return text


Script: TypeAlias = Iterable[Answer] | Callable[[Asked], Answer]


@define(eq=False)
class ModelServer:
    """Listens on loopback while its block is open."""

    script: Script
    port: int = field(init=False, default=0)
    asked: list[Asked] = field(init=False, factory=list)
    _lines: Any = field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if not callable(self.script):
            self._lines = iter(self.script)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer the requests of one connection, until it ends."""
        # What a connection does when it breaks is what the test is about.
        try:
            async with stream:
                while (request := await _read(stream)) is not None:
                    self.asked.append(request)
                    answer = (
                        self.script(request)
                        if callable(self.script)
                        else next(self._lines, fails(500, "the script has no more lines"))
                    )
                    if await self._answer(stream, request, answer):
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _answer(self, stream: trio.SocketStream, request: Asked, answer: Answer) -> bool:
        """Play `answer`; True when the connection is over."""
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                # A client of this protocol says nothing while it is answered,
                # so whatever comes now is its going away.
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await stream.receive_some(1)
                request.gone_at = trio.current_time()
                request.gone.set()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await trio.sleep(answer.first_seconds)
            try:
                if answer.head:
                    await stream.send_all(answer.head)
                for part in answer.events:
                    await trio.sleep(answer.seconds)
                    await stream.send_all(part)
            except trio.BrokenResourceError:
                # It has heard enough; `watch` notes when.
                await request.gone.wait()
            if answer.ending == "hold":
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()
        if answer.ending == "reset":
            # A linger of 0 s makes the close a reset.
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return True


@asynccontextmanager
async def open_model_server(script: Script) -> AsyncGenerator[ModelServer]:
    """Serve `script` on loopback for the length of the block.

    Args:
        script: the answers in order, or a function from a request to its answer.
    """
    server = ModelServer(script)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, server.serve, 0, host="127.0.0.1"))
        server.port = listeners[0].socket.getsockname()[1]
        yield server
        nursery.cancel_scope.cancel()


async def _read(stream: trio.SocketStream) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some()
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    while len(body) < int(headers.get("content-length", "0")):
        more = await stream.receive_some()
        if not more:
            return None
        body += more
    return Asked(first.split(" ")[1], headers, json.loads(body or b"{}"), trio.current_time())
