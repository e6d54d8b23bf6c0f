"""How `standby run interview` asks: at the desk, from lines that are piped in, or on a page."""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import trio

from standby_actors.events import emit
from standby_actors.session import write_whole
from standby_combinators.asker import Answer, Asker, Question, answered

from .settings import Misuse

_CHUNK = 4_096


class PipedAsker:
    """Takes a line of an open file for each answer; its end, or an empty line, is the last.

    Args:
        fd: of the file, which is left as it is.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._left = b""
        self._ended = False
        # Of these nothing tells when they can be read, and they always can be.
        self._is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        self._turn = trio.Lock()

    async def ask(self, question: Question, /) -> Answer | None:
        """The next line, as the answer.  Cancelled, it has taken none."""
        async with self._turn:
            line = await self._line()
        text = "" if line is None else line.decode("utf-8", "replace").strip()
        return answered(question, text) if text else None

    async def _line(self) -> bytes | None:
        while b"\n" not in self._left and not self._ended:
            if not self._is_file:
                await trio.lowlevel.wait_readable(self._fd)
            more = os.read(self._fd, _CHUNK)
            self._ended = not more
            self._left += more
        await trio.lowlevel.checkpoint()
        line, _, self._left = self._left.partition(b"\n")
        return line if line or not self._ended else None


class ToldAsker:
    """Another asker, whose questions and answers are events, and kept in a file.

    Args:
        asker: who really asks.
        known: what was answered before.
        keep: where all answers are written, after each one.
    """

    def __init__(
        self, asker: Asker, known: Sequence[Answer] = (), keep: Path | None = None
    ) -> None:
        self._asker = asker
        self._answers = list(known)
        self._keep = keep
        self.on_answer: Callable[[Question, Answer | None], object] = _nothing

    async def ask(self, question: Question, /) -> Answer | None:
        """As the other asks."""
        options = [option.label for option in question.options]
        emit("question.asked", "interview", text=question.text, options=options)
        answer = await self._asker.ask(question)
        text = None if answer is None else answer.text
        emit("question.answered", "interview", text=question.text, answer=text)
        if answer is not None:
            self._answers.append(answer)
            if self._keep is not None:
                write_answers(self._keep, self._answers)
        self.on_answer(question, answer)
        return answer


def _nothing(question: Question, answer: Answer | None) -> None:
    del question, answer


def read_answers(path: Path) -> tuple[Answer, ...]:
    """The answers that a file holds; none, if it is not there.

    Raises:
        ValueError: it holds something else.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    try:
        return tuple(msgspec.json.decode(data, type=list[Answer]))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} holds no answers of an interview: {error}") from None


def write_answers(path: Path, answers: Sequence[Answer]) -> None:
    """Write `answers` to a file, whole or not at all."""
    encoded = msgspec.json.format(msgspec.json.encode(list(answers)), indent=2)
    write_whole(path, encoded + b"\n")


def is_piped() -> bool:
    """Whether the standard input is no terminal, and there at all."""
    try:
        return not os.isatty(sys.stdin.fileno())
    except (AttributeError, OSError, ValueError):
        return False


def check_web() -> None:
    """Refuse a page where the packages for it are not installed.

    Raises:
        Misuse: they are not.
    """
    missing = [
        name for name in ("starlette", "hypercorn") if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise Misuse(f"--web needs {' and '.join(missing)}: pip install 'standby[web]'")
