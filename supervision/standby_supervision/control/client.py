"""The side that asks."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import trio

from .errors import ControlRefused, NoAnswer
from .folder import Program, address, open_folder
from .wire import ANSWER_LIMIT, VERSION, Answer, Lines, Refusal, Request, raw

T = TypeVar("T")

SECONDS = 10.0
"""That a program has to answer, by default."""


class Connection:
    """An open connection to a program; see :func:`connect`."""

    def __init__(self, program: Program, stream: trio.SocketStream, seconds: float) -> None:
        self.program = program
        self._stream = stream
        self._lines = Lines(stream, ANSWER_LIMIT + 1024)
        self._seconds = seconds

    async def ask(self, verb: str, arguments: Any, answer: type[T]) -> T:
        """Ask for `verb`, and return its answer as an `answer`.

        Raises:
            ControlRefused: the program will not; the connection is of no use any more.
            NoAnswer: none came, or none that could be read.
        """
        request = Request(VERSION, self.program.entry.token, verb, raw(arguments))
        line: bytes | None = None
        with trio.move_on_after(self._seconds) as scope:
            try:
                # What was refused half way is answered all the same.
                with contextlib.suppress(trio.BrokenResourceError):
                    await self._stream.send_all(msgspec.json.encode(request) + b"\n")
                line = await self._lines.next()
            except (trio.BrokenResourceError, ControlRefused):
                line = None
        if scope.cancelled_caught:
            raise no_answer(self.program, f"no answer within {self._seconds:g} s")
        if line is None:
            raise no_answer(self.program, "the connection was closed")
        try:
            said = msgspec.json.decode(line, type=Answer | Refusal)
            if isinstance(said, Answer):
                return msgspec.json.decode(said.value, type=answer)
        except msgspec.DecodeError as error:
            raise no_answer(self.program, f"its answer cannot be read: {error}") from None
        raise ControlRefused(said.kind, said.message)


@asynccontextmanager
async def connect(program: Program, *, seconds: float = SECONDS) -> AsyncGenerator[Connection]:
    """A connection to `program`, closed when the block is left.

    Args:
        program: one of :func:`programs`.
        seconds: that it has for each answer.

    Raises:
        NoAnswer: it could not be reached.
        UnsafeFolder: the folder of the sockets is not this user's alone.
    """
    bare = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    try:
        with open_folder(create=False) as folder, trio.move_on_after(seconds) as scope:
            if folder is None:
                raise FileNotFoundError("its folder is gone")
            await bare.connect(address(folder, program.stem))
    except OSError as error:
        bare.close()
        raise no_answer(program, error.strerror or str(error)) from None
    # Cancelled, for one; it is raised again.
    except BaseException:
        bare.close()
        raise
    if scope.cancelled_caught:
        bare.close()
        raise no_answer(program, f"no connection within {seconds:g} s")
    async with trio.SocketStream(bare) as stream:
        yield Connection(program, stream, seconds)


def no_answer(program: Program, why: str) -> NoAnswer:
    """The error for a program that did not answer, which says whether it has ended."""
    return NoAnswer(program.pid, why, not program.is_listed())
