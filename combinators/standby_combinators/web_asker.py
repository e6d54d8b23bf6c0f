"""A person is asked on a page: served on this machine only, behind an address nobody can guess."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from attrs import define, field

from .asker import Answer, Option, Question

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"
BODY_LIMIT = 100_000
"""Bytes of one answer."""
KEEP_ALIVE = 15.0
"""Seconds after which a silent stream of events says that it is still there."""
CLOSE_SECONDS = 2.0
"""Seconds that pages have to let go once the block is left."""

_PAGE = Path(__file__).with_name("web_asker.html")


class Sent(msgspec.Struct):
    """What a page sends: the option that was chosen, an answer, or that there will be no more."""

    id: int
    option: int | None = None
    """Its place, from 0."""
    text: str | None = None


class _Open(msgspec.Struct, frozen=True):
    id: int
    text: str
    header: str
    options: tuple[Option, ...]


class _State(msgspec.Struct, frozen=True):
    """What a page shows."""

    topic: str
    open: tuple[_Open, ...]
    answered: tuple[Answer, ...]
    is_over: bool


@define(eq=False)
class _Waiting:
    """A question that somebody waits for."""

    question: Question
    over: trio.Event = field(factory=trio.Event)
    answer: Answer | None = None

    @property
    def key(self) -> str:
        return self.question.key


class WebAsker:
    """Asks on a page; make it with :func:`open_web_asker`.

    The page shows the question that is open, offers its options, and takes any other
    answer; questions of several who ask at once come one after the other.  Several
    pages show the same.  What was answered once is never asked again: whoever asks it
    is given the answer.
    """

    def __init__(self, topic: str, known: Sequence[Answer] = ()) -> None:
        self.url = ""
        """Where the page is; whoever knows it can answer, and nobody else."""
        self._topic = topic
        self._answers = {Question(each.question).key: each for each in known}
        self._waiting: dict[int, _Waiting] = {}
        """Open questions, by number, oldest first."""
        self._count = 0
        self._is_over = False
        self._changed = trio.Event()

    @property
    def answers(self) -> tuple[Answer, ...]:
        """What was answered, what was known before included, oldest first."""
        return tuple(self._answers.values())

    async def ask(self, question: Question, /) -> Answer | None:
        """Show the question, and wait for its answer.

        None for a person who wants to answer no more, and once the page is closed.
        Cancelled, it is shown no more.
        """
        key = question.key
        # Two who ask the same at once wait for one answer.
        while same := next((each for each in self._waiting.values() if each.key == key), None):
            await same.over.wait()
        there = self._answers.get(key)
        if there is not None or self._is_over:
            await trio.lowlevel.checkpoint()
            return there
        self._count += 1
        number, waiting = self._count, _Waiting(question)
        self._waiting[number] = waiting
        self._change()
        try:
            await waiting.over.wait()
        finally:
            self._end(number)
        return waiting.answer

    def _end(self, number: int) -> None:
        """Show a question no more, and let those go who wait for the same."""
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting.over.set()
            self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def close(self) -> None:
        """Ask no more: who waits is told so, and the pages show it."""
        self._is_over = True
        for number in list(self._waiting):
            self._end(number)
        self._change()

    def _state(self) -> _State:
        return _State(
            self._topic,
            tuple(
                _Open(number, each.question.text, each.question.header, each.question.options)
                for number, each in self._waiting.items()
            ),
            self.answers,
            self._is_over,
        )

    def take(self, sent: Sent) -> str:
        """What is wrong with what a page has sent; empty if it was taken."""
        waiting = self._waiting.get(sent.id)
        if waiting is None:
            return "that question is not open any more"
        question = waiting.question
        if sent.option is not None:
            if not 0 <= sent.option < len(question.options):
                return "there is no such option"
            waiting.answer = Answer(question.text, question.options[sent.option].label)
        elif sent.text is not None:
            text = sent.text.strip()
            if not text:
                return "the answer is empty"
            # Not by a number, as on a terminal: here options are chosen by themselves.
            label = next(
                (
                    each.label
                    for each in question.options
                    if each.label.casefold() == text.casefold()
                ),
                None,
            )
            waiting.answer = Answer(question.text, label or text, custom=label is None)
        if waiting.answer is not None:
            self._answers[waiting.key] = waiting.answer
        self._end(sent.id)
        return ""

    async def events(self) -> AsyncIterator[bytes]:
        """The state, now and whenever it changes, as server-sent events."""
        while True:
            changed = self._changed
            state = self._state()
            yield b"data: " + msgspec.json.encode(state) + b"\n\n"
            if state.is_over:
                return
            while True:
                with trio.move_on_after(KEEP_ALIVE) as silence:
                    await changed.wait()
                if not silence.cancelled_caught:
                    break
                yield b": still here\n\n"


@asynccontextmanager
async def open_web_asker(
    topic: str = "", *, known: Sequence[Answer] = (), port: int = 0
) -> AsyncGenerator[WebAsker]:
    """Serve a page that asks, for the length of the block.

    ``async with open_web_asker("A new logo") as asker: print(asker.url)``, and
    ``await interview(interviewer, topic, asker)``.

    It is served on 127.0.0.1 only.  Its address has a token in it that cannot be
    guessed; to any other address it answers 404, and to a page of any other host 403.
    When the block is left, pages are told that it is over and have 2 s to let go, and
    whoever waits for an answer gets None; cancelled, all are cut at once.  Either way
    nobody listens on the port any more.

    Args:
        topic: what it is about, shown at the top.
        known: what was answered before; shown, and never asked again.
        port: where; 0 for any that is free.

    Raises:
        ModuleNotFoundError: the packages of ``standby[web]`` are not installed.
        OSError: the port is taken.
    """
    from hypercorn.config import Config
    from hypercorn.trio import serve

    asker = WebAsker(topic, known)
    token = secrets.token_urlsafe(32)
    # Bound here, so that a port that is taken is an error of ours and not a group.
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
    except BaseException:  # and passed on
        listening.close()
        raise
    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = CLOSE_SECONDS
    config.h11_max_incomplete_size = 16_384
    config.include_server_header = False
    over = trio.Event()
    app: Any = _application(asker, token)
    async with trio.open_nursery() as nursery:

        async def until_over() -> None:
            # hypercorn itself would wait for a signal of the process.
            await over.wait()

        async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
            await serve(app, config, shutdown_trigger=until_over, task_status=task_status)

        binds = await nursery.start(run)
        asker.url = f"{binds[0]}/{token}/"
        try:
            yield asker
        finally:
            asker.close()
            over.set()
            # Also when we are cancelled: bounded by the grace of the server.
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.deadline = trio.current_time() + 2 * CLOSE_SECONDS


def _application(asker: WebAsker, token: str) -> Any:
    from starlette.applications import Starlette
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    page = _PAGE.read_text(encoding="utf-8")

    def refusal(request: Request) -> Response | None:
        """Why the request is not for us, if it is not."""
        given = str(request.path_params.get("token", ""))
        if not hmac.compare_digest(given.encode(), token.encode()):
            return Response("not found", 404)
        host = request.headers.get("host", "").rpartition(":")[0]
        origin = request.headers.get("origin")
        own = f"{request.url.scheme}://{request.headers.get('host', '')}"
        # A page of elsewhere that has our address by some way may neither read nor answer.
        if host not in (HOST, "localhost") or origin not in (None, own):
            return Response("forbidden", 403)
        return None

    async def show(request: Request) -> Response:
        refused = refusal(request)
        if refused is not None:
            return refused
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}';"
            " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        headers = {**_HEADERS, "Content-Security-Policy": policy}
        text = page.replace("{nonce}", nonce)
        return Response(text, media_type="text/html", headers=headers)

    async def events(request: Request) -> Response:
        refused = refusal(request)
        if refused is not None:
            return refused
        return StreamingResponse(asker.events(), media_type="text/event-stream", headers=_HEADERS)

    async def answer(request: Request) -> Response:
        refused = refusal(request)
        if refused is not None:
            return refused
        data = b""
        async with aclosing(request.stream()) as parts:
            async for part in parts:
                data += part
                if len(data) > BODY_LIMIT:
                    return Response("the answer is too long", 413, headers=_HEADERS)
        try:
            sent = msgspec.json.decode(data, type=Sent)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Response(f"that is no answer: {error}", 400, headers=_HEADERS)
        wrong = asker.take(sent)
        return Response(wrong, 409 if wrong else 204, headers=_HEADERS)

    async def nothing(request: Request) -> Response:
        del request
        return Response("not found", 404)

    return Starlette(
        routes=[
            Route("/{token}/", show, methods=["GET"]),
            Route("/{token}/events", events, methods=["GET"]),
            Route("/{token}/answer", answer, methods=["POST"]),
            Route("/{rest:path}", nothing),
        ]
    )


_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
