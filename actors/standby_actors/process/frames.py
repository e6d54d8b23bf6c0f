"""JSON documents, one a line, out of bytes that come in any pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
from attrs import define, field

MAX_LINE = 64 * 1024 * 1024
"""Bytes of the longest line that is read."""

_QUOTED = 200


class BadLine(msgspec.Struct, frozen=True):
    """A line that is no frame: a log entry, or damage."""

    start: str
    """How it begins, for people."""
    why: str


class TooLong(msgspec.Struct, frozen=True):
    """A line over the limit.  It is skipped, and the lines after it are read."""

    limit: int
    """In bytes."""


Frame: TypeAlias = dict[str, Any]
Line: TypeAlias = Frame | BadLine | TooLong


@define(eq=False)
class LineReader:
    """Takes bytes, gives a line as soon as it is whole.

    It holds at most one line, and never more than `limit` and the latest piece
    of it.  Its work grows with the bytes, not with the pieces they come in.

    Examples:
        >>> reader = LineReader()
        >>> list(reader.feed(b'{"a": 1}\\r\\n\\n{"b"'))
        [{'a': 1}]
        >>> list(reader.feed(b': 2}\\nhello\\n'))
        [{'b': 2}, BadLine(start='hello', why='it is not JSON')]
        >>> list(reader.feed(b'{"c": 3}')), list(reader.end())
        ([], [{'c': 3}])
    """

    limit: int = MAX_LINE
    _held: bytearray = field(init=False, factory=bytearray, repr=False)
    _skipping: bool = field(init=False, default=False)

    @property
    def held(self) -> int:
        """Bytes of the line that is not whole yet."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that `data` completes, in order; blank ones are none."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            yield from self._take(data[start:end], whole=True)
            start = end + 1
        if start < len(data):
            yield from self._take(data[start:] if start else data, whole=False)

    def end(self) -> Iterator[Line]:
        """What is left when no more bytes come: a last line without its end, or nothing."""
        yield from self._take(b"", whole=True)

    def _take(self, piece: bytes, *, whole: bool) -> Iterator[Line]:
        if self._skipping:
            self._skipping = not whole
            return
        if len(self._held) + len(piece) > self.limit:
            self._held = bytearray()
            self._skipping = not whole
            yield TooLong(self.limit)
            return
        if not whole:
            self._held += piece
            return
        if self._held:
            self._held += piece
            # A new one, since the memory of a huge line would stay with the old.
            line, self._held = bytes(self._held), bytearray()
        else:
            line = piece
        line = line.strip()
        if line:
            yield _read(line)


def _read(line: bytes) -> Line:
    try:
        frame = msgspec.json.decode(line)
    except msgspec.DecodeError:
        why = "it is not JSON" if _is_text(line) else "it is not UTF-8"
        return BadLine(_quote(line), why)
    # Depth is the sender's choice, and the decoder's stack is not endless.
    except RecursionError:
        return BadLine(_quote(line), "it is nested too deeply")
    if not isinstance(frame, dict):
        return BadLine(_quote(line), "it is not an object")
    return frame


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _quote(line: bytes) -> str:
    text = line[:_QUOTED].decode("utf-8", "replace")
    return text + "…" if len(line) > _QUOTED else text
