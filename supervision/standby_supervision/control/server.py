"""The side that is asked: a socket, its verbs, and bounds on everything that comes in."""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import socket
import traceback
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

import msgspec
import trio
from attrs import frozen
from trio.lowlevel import enable_ki_protection

from standby_actors.snapshot import sound

from . import verbs as own
from .errors import ControlRefused, UnsafeFolder
from .folder import Entry, address, folder_path, new_entry, open_folder, remove, sweep, write_entry
from .wire import (
    ANSWER_LIMIT,
    REQUEST_LIMIT,
    VERSION,
    Answer,
    Lines,
    Refusal,
    Request,
    decoded,
    encoded,
    raw,
)

logger = logging.getLogger("standby.control")

A = TypeVar("A")

FAREWELL = 1.0
"""Seconds that a refusal may take to be written."""


@frozen
class Verb(Generic[A]):
    """Something that a program can be asked.

    What is built on this package brings its own: whoever serves a socket is given them.
    """

    name: str
    takes: type[A]
    """What its arguments are decoded into; a :class:`msgspec.Struct`."""
    answer: Callable[[A], Awaitable[object]]
    """Called with them; what it returns is encoded.  It is cancelled at the deadline
    of the request.  To refuse, it raises :class:`ControlRefused`."""


class Control:
    """A served control socket; see :func:`serve_control`."""

    def __init__(
        self, verbs: tuple[Verb[Any], ...], title: str | None, connections: int, seconds: float
    ) -> None:
        self._verbs = {verb.name: verb for verb in (*self._own_verbs(), *verbs)}
        self._title = title
        self._connections = connections
        self._seconds = seconds
        self._served = 0
        self._folder: int | None = None
        self._pid = os.getpid()
        self._stem: str
        self._entry: Entry
        self._listener: trio.SocketListener
        self._manager: Any
        self._nursery: trio.Nursery

    def _own_verbs(self) -> tuple[Verb[Any], ...]:
        return (
            Verb("tree", own.LookAtTree, own.look_at_tree),
            Verb("version", own.AskVersion, self._about),
        )

    async def _about(self, _: own.AskVersion) -> own.About:
        return own.about(VERSION, self._entry.title, tuple(sorted(self._verbs)))

    @property
    def path(self) -> str:
        """Where the socket is."""
        return str(folder_path() / f"{self._stem}.sock")

    @property
    def title(self) -> str:
        """What it is listed as."""
        return self._entry.title

    @enable_ki_protection
    async def __aenter__(self) -> Control:
        listener = self._listener = self._open()
        try:
            self._manager = trio.open_nursery()
            self._nursery = await self._manager.__aenter__()
        # Nothing may be left of it.
        except BaseException:
            listener.socket.close()
            self._remove()
            raise
        self._nursery.start_soon(self._listen, listener)
        return self

    @enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()
        self._nursery.cancel_scope.cancel(reason="the control socket is closed")
        try:
            # The body's own error is not handed to the nursery, which would wrap it.
            await self._manager.__aexit__(None, None, None)
        finally:
            self._listener.socket.close()  # who was to listen may not have begun

    # ---- the files

    def _open(self) -> trio.SocketListener:
        try:
            with open_folder(create=True) as folder:
                assert folder is not None
                sweep(folder)
                self._pid = os.getpid()
                self._stem, self._entry = new_entry(self._title)
                return self._bound(folder)
        except OSError as error:
            why = error.strerror or str(error)
            raise UnsafeFolder(
                str(folder_path()), why, "see to it that it can be written"
            ) from error

    def _bound(self, folder: int) -> trio.SocketListener:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.bind(address(folder, self._stem))
            # Its folder lets nobody else in, so the moment before this is no gap.
            os.chmod(f"{self._stem}.sock", 0o600, dir_fd=folder)
            bound.listen(self._connections)
            bound.setblocking(False)
            # Last: whoever finds it can ask.
            write_entry(folder, self._stem, self._entry)
            self._folder = os.dup(folder)
            return trio.SocketListener(trio.socket.from_stdlib_socket(bound))
        # As above; it is raised again.
        except BaseException:
            bound.close()
            remove(folder, self._stem)
            raise

    def _remove(self) -> None:
        folder, self._folder = self._folder, None
        if folder is None:
            return
        try:
            # A fork that leaves the block has not opened it.
            if os.getpid() == self._pid:
                with contextlib.suppress(OSError):  # the folder may be gone, or read-only by now
                    remove(folder, self._stem)
        finally:
            os.close(folder)

    # ---- the connections

    async def _listen(self, listener: trio.SocketListener) -> None:
        await trio.serve_listeners(self._serve, [listener], handler_nursery=self._nursery)

    async def _serve(self, stream: trio.SocketStream) -> None:
        self._served += 1
        try:
            # Who goes away in the middle of something does not concern us.
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async with stream:
                    refusal = await self._converse(stream)
                    if refusal is not None:
                        with trio.move_on_after(FAREWELL):
                            await stream.send_all(encoded(refusal))
        finally:
            self._served -= 1

    async def _converse(self, stream: trio.SocketStream) -> Refusal | None:
        """Answer one request after the other; returns why the next one is refused."""
        if self._served > self._connections:
            return Refusal("busy", f"{self._connections} connections are open; try again")
        lines = Lines(stream, REQUEST_LIMIT)
        while True:
            is_answering = False
            with trio.move_on_after(self._seconds) as scope:
                try:
                    line = await lines.next()
                    if line is None:
                        return None
                    answer = encoded(await self._answered(decoded(line, self._entry.token)))
                except ControlRefused as refused:
                    return Refusal(refused.kind, sound(refused.message))
                is_answering = True
                await stream.send_all(answer)
            if scope.cancelled_caught:
                if is_answering:
                    return None  # half a line is out, which nothing can follow
                return Refusal("timeout", f"a request may take {self._seconds:g} s, and no more")

    async def _answered(self, request: Request) -> Answer:
        verb = self._verbs.get(request.verb)
        if verb is None:
            raise ControlRefused("unknown_verb", self._unknown(request.verb))
        try:
            arguments = msgspec.json.decode(request.arguments, type=verb.takes)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ControlRefused("bad_arguments", f"{verb.name}: {error}") from None
        try:
            value = raw(await verb.answer(arguments))
        except ControlRefused:
            raise
        # A verb is its owner's code, called for a stranger: as in a cell, what it raises
        # becomes a value, and must not end the program that was only asked.
        except Exception as error:
            # Its words may hold what no file of a log can: half a surrogate pair, say.
            trace = "".join(traceback.format_exception(error)).encode(errors="backslashreplace")
            said = trace.decode()
            logger.error("the verb %s of the control socket failed\n%s", verb.name, said)
            what = f"{verb.name} failed: {type(error).__name__}: {error}"
            raise ControlRefused("failed", what) from error
        if len(bytes(value)) > ANSWER_LIMIT:
            raise ControlRefused("too_long", f"the answer has more than {ANSWER_LIMIT} bytes")
        return Answer(value)

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name[:50], self._verbs, 1)
        known = ", ".join(sorted(self._verbs))
        hint = f"; did you mean {near[0]!r}?" if near else "."
        return f"no verb {name[:50]!r}{hint} There are: {known}"


def serve_control(
    *verbs: Verb[Any],
    title: str | None = None,
    connections: int = 16,
    seconds: float = 10.0,
) -> Control:
    """Let this user ask this program what it does: ``async with standby.serve_control():``.

    While the block is open there is a socket in the user's runtime folder, which
    ``standby tree`` finds.  Only this user can reach it, and every request shows a
    token that only this user can read.  When the block is left, or cancelled, the
    socket is gone, and with it every connection.  No request, however wrong or
    slow, holds up or ends what runs in the block.

    Args:
        verbs: what can be asked besides ``tree`` and ``version``; one of the same
            name takes its place.
        title: what the program is listed as; by default its command line.
        connections: at a time; a further one is refused.
        seconds: that one request may take, from its first byte to the last of its
            answer, and that a connection may be silent.

    Raises:
        UnsafeFolder: on entering; there is no folder that only this user can use.
    """
    if connections < 1:
        raise ValueError(f"connections must be 1 or more, not {connections!r}")
    if not seconds > 0:
        raise ValueError(f"seconds must be more than 0, not {seconds!r}")
    return Control(verbs, title, connections, seconds)
