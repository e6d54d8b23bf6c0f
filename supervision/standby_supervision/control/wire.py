"""What is said over a control socket: one line of JSON for a request, one for its answer."""

from __future__ import annotations

import hmac
from typing import Any

import msgspec
import trio

from .errors import ControlRefused, RefusalKind

VERSION = 1
"""Of this protocol.  A program answers no other."""
REQUEST_LIMIT = 64 * 1024
"""Bytes of a request."""
ANSWER_LIMIT = 16 * 1024 * 1024
"""Bytes of an answer."""
_PIECE = 64 * 1024


class Request(msgspec.Struct, frozen=True):
    """What is asked for."""

    version: int
    token: str
    verb: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """What a verb returned."""

    value: msgspec.Raw
    version: int = VERSION


class Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    """Why there is no answer.  The connection is closed after it."""

    kind: RefusalKind
    message: str
    version: int = VERSION


class _Versioned(msgspec.Struct, frozen=True):
    version: int


class Lines:
    """Lines of a stream, none of them longer than allowed."""

    def __init__(self, stream: trio.abc.ReceiveStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._read = bytearray()
        self._searched = 0

    async def next(self) -> bytes | None:
        """The next line, without its end; None where the other side has said all.

        Raises:
            ControlRefused: it is too long, or breaks off.
        """
        while True:
            end = self._read.find(b"\n", self._searched)
            if max(end, len(self._read) - 1) >= self._limit and not 0 <= end < self._limit:
                raise ControlRefused("too_long", f"a line may have {self._limit} bytes")
            if end >= 0:
                line = bytes(self._read[:end])
                del self._read[: end + 1]
                self._searched = 0
                return line
            self._searched = len(self._read)
            piece = await self._stream.receive_some(_PIECE)
            if not piece:
                if self._read:
                    raise ControlRefused("malformed", "the request ends in the middle of a line")
                return None
            self._read += piece


def decoded(line: bytes, token: str) -> Request:
    """The request in `line`, from somebody who knows `token`.

    Raises:
        ControlRefused: it is none, of another version, or from somebody else.
    """
    try:
        version = msgspec.json.decode(line, type=_Versioned).version
        if version != VERSION:
            raise ControlRefused(
                "other_version",
                f"this program speaks version {VERSION}, not {version}: use its own `standby`",
            )
        request = msgspec.json.decode(line, type=Request)
    # RecursionError: so many brackets inside one another that no decoder follows.
    except (msgspec.DecodeError, RecursionError) as error:
        raise ControlRefused("malformed", f"not a request: {error}") from None
    given = request.token.encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(given, token.encode()):
        raise ControlRefused("wrong_token", "the token is not that of this program")
    return request


def encoded(answer: Answer | Refusal) -> bytes:
    """`answer` as a line."""
    return msgspec.json.encode(answer) + b"\n"


def raw(value: Any) -> msgspec.Raw:
    """`value` as it goes into an :class:`Answer`."""
    return msgspec.Raw(msgspec.json.encode(value))
