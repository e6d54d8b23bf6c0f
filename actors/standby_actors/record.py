"""The record of a subagent: one JSON object a line, written as it happens.

A line is given to the operating system before anything else happens, so that a
process that is killed has at most its last line torn, and :func:`read_record`
passes over that.  A power cut may take more: nothing here waits for the disk.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from .result import ChatMessage, Status, ToolCall, TurnError
from .sendable import encoded
from .usage import NOTHING, Usage

VERSION = 1
ENDING = ".events.jsonl"
"""How the name of a record ends."""


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """A session was opened: the first line, and one more for each restart or handover."""

    at: float
    """Seconds since 1970."""
    id: str
    agent: str
    model: str = ""
    lifetime: str = "task"
    parent: str = ""
    incarnation: int = 1
    version: int = VERSION
    note: str = ""
    """What this session knows of those before it; empty of the first."""


class Said(msgspec.Struct, frozen=True, tag="message"):
    """A message is whole, or cut for good."""

    at: float
    message: ChatMessage


class Used(msgspec.Struct, frozen=True, tag="tool"):
    """A tool has answered."""

    at: float
    call: ToolCall
    seconds: float = 0.0
    is_error: bool = False


class Noted(msgspec.Struct, frozen=True, tag="note"):
    """Something else that a reader would want to know: a retry, a steer, a compaction."""

    at: float
    what: str
    text: str = ""


class Spent(msgspec.Struct, frozen=True, tag="spent"):
    """What the turn in flight has cost so far; its end tells the whole again."""

    at: float
    usage: Usage = NOTHING


class Ended(msgspec.Struct, frozen=True, tag="turn"):
    """A turn is over."""

    at: float
    began: float
    task: str
    status: Status
    error: TurnError | None = None
    usage: Usage = NOTHING


class Finished(msgspec.Struct, frozen=True, tag="closed"):
    """The subagent was closed: the last line, unless it is opened again."""

    at: float
    closed: bool
    reason: str = ""
    usage: Usage = NOTHING


Line: TypeAlias = Opened | Said | Used | Noted | Spent | Ended | Finished

_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class Recorder:
    """Writes the record of one subagent, line by line, to a file of its own.

    Args:
        path: made if it is missing, and its folder; only its owner may read it.

    Raises:
        OSError: it cannot be opened, or is no file: a link, or a pipe, that stands
            there already leads out of the folder, and is not followed.
    """

    __slots__ = ("_file", "failure", "path")

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.failure: OSError | None = None
        """Why lines are missing from some point on, if any are."""
        self._file = _open(path)

    def write(self, line: Line) -> None:
        """Append `line`.  A disk that is full stops the record, and not the turn."""
        if self.failure is not None or self._file < 0:
            return
        data = memoryview(encoded(line) + b"\n")
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self.failure = error

    def close(self) -> None:
        """Let go of the file; more does nothing."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)


def _open(path: Path) -> int:
    # Not blocking: to open a pipe that nobody reads would take for ever.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _no_file(path, error.errno) from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _no_file(path, errno.EINVAL)
    return file


def _no_file(path: Path, number: int) -> OSError:
    return OSError(number, "a record is a plain file, no link and no pipe: move it away", str(path))


def claim(folder: Path, name: str) -> str:
    """The first of `name`, `name.2`, `name.3`, … under which no file is in `folder`.

    Its record is made, empty, so that no other process takes the same name; what an
    earlier run has left there is never written to.

    Raises:
        OSError: it cannot be made, or a link or a pipe stands there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    for free in _free(folder, name):
        path = folder / f"{free}{ENDING}"
        try:
            os.close(os.open(path, flags, 0o600))
        except FileExistsError:
            # Another process was faster; it may have let go of the name again since.
            if _is_file(path) or not os.path.lexists(path):
                continue
            raise _no_file(path, errno.EEXIST) from None
        if _is_file(_transcript(folder, free)):
            # Written, and let go of, between our look and our claim.
            path.unlink()
            continue
        return free
    raise AssertionError("there is always a next name")


@contextmanager
def claimed_for_a_transcript(folder: Path, name: str) -> Generator[str]:
    """A name as :func:`claim` takes it, for who writes a transcript and no record.

    It is held while the transcript is written, which then holds it; where none was, the
    name is free again.

    Raises:
        OSError: as :func:`claim`.
    """
    claimed = claim(folder, name)
    try:
        yield claimed
    finally:
        with suppress(OSError):
            (folder / f"{claimed}{ENDING}").unlink()


def _free(folder: Path, name: str) -> Iterator[str]:
    for number in itertools.count(1):
        free = name if number == 1 else f"{name}.{number}"
        record, transcript = folder / f"{free}{ENDING}", _transcript(folder, free)
        if not _is_file(record) and not _is_file(transcript):
            yield free


def _transcript(folder: Path, name: str) -> Path:
    return folder / f"{name}.jsonl"


def _is_file(path: Path) -> bool:
    """Whether an earlier run may have left it: links and pipes are somebody else's."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def wall_time() -> float:
    """Seconds since 1970, as lines have them."""
    return time.time()


class BadRecord(ValueError):
    """Raised on a line, other than a torn last one, that is no line of a record."""

    def __init__(self, path: str, number: int, why: str) -> None:
        super().__init__(path, number, why)
        self.path = path
        self.number = number
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}:{self.number} is no line of a record: {self.why}"


def read_record(path: Path) -> tuple[tuple[Line, ...], bool]:
    """The lines of a record, and whether its last one was torn.

    Raises:
        BadRecord: a line before the last cannot be read.
        OSError: the file cannot be.
    """
    lines: list[Line] = []
    raw = path.read_bytes()
    numbered = list(_numbered(raw))
    for number, text, is_whole in numbered:
        try:
            lines.append(_decoder.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if not is_whole:
                return tuple(lines), True
            raise BadRecord(str(path), number, str(error)) from None
    return tuple(lines), False


def _numbered(raw: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Each line, its number, and whether its end has been written."""
    *whole, rest = raw.split(b"\n")
    for number, text in enumerate(whole, 1):
        if text.strip():
            yield number, text, True
    if rest.strip():
        yield len(whole) + 1, rest, False


def messages_of(lines: tuple[Line, ...]) -> tuple[ChatMessage, ...]:
    """What was said, in order, and a line of role "system" where another session began."""
    said: list[ChatMessage] = []
    for line in lines:
        if isinstance(line, Said):
            said.append(line.message)
        elif isinstance(line, Opened) and line.note:
            said.append(ChatMessage("system", line.note))
    return tuple(said)


def usage_of(lines: tuple[Line, ...]) -> Usage:
    """What all turns have cost, one that was lost with its process as far as it got.

    Examples:
        >>> lost = (Ended(1.0, 0.0, "a", "ok", usage=Usage(turns=1, output_tokens=9)),
        ...         Spent(2.0, Usage(output_tokens=4)), Spent(3.0, Usage(output_tokens=6)))
        >>> usage_of(lost).output_tokens
        15
    """
    whole, lost = NOTHING, NOTHING
    for line in lines:
        match line:
            case Spent(usage=usage):
                lost = usage
            case Ended(usage=usage):
                whole, lost = whole.accumulate(usage), NOTHING
            case Opened():
                whole, lost = whole.accumulate(lost), NOTHING
            case _:
                pass
    return whole.accumulate(lost)


def summary_of(lines: tuple[Line, ...]) -> dict[str, Any]:
    """What a list of records shows of one.

    Examples:
        >>> summary_of((Opened(0.0, "scout#1", "scout"), Finished(3.0, True)))["state"]
        'closed'
    """
    opened = next((each for each in lines if isinstance(each, Opened)), None)
    turns = [each for each in lines if isinstance(each, Ended)]
    last = lines[-1] if lines else None
    state = "closed" if isinstance(last, Finished) else "open or lost"
    return {
        "id": opened.id if opened else "?",
        "agent": opened.agent if opened else "?",
        "model": opened.model if opened else "",
        "turns": len(turns),
        "failed": sum(each.status != "ok" for each in turns),
        "usage": usage_of(lines),
        "state": state,
    }
