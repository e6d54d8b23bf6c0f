"""What a model server's failure means: decided here, acted upon by the chat session."""

from __future__ import annotations

import email.utils
import math
import os
import re
import socket
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from ..models import ModelSettings
from ..result import ErrorKind, TurnError

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context (length|size|window)|prompt is too long"
    r"|maximum context|too many (input )?tokens",
    re.IGNORECASE,
)
_RETRIED = frozenset({408, 409, 425, 500, 502, 503, 504, 529})
_LONGEST_QUOTE = 300


@frozen
class Fault:
    """One failed request."""

    error: TurnError
    again: bool = False
    """Making the same request again may help, and we do it."""
    retry_after: float | None = None
    """Seconds that the server asked to wait, when it did."""


class ServerError(Exception):
    """What a model server answered, without what was sent to it.

    The SDK's own exceptions hold the request, and with it the key; they are
    never kept.
    """


def status_fault(
    settings: ModelSettings, status: int, body: object, headers: Mapping[str, str], wall: float
) -> Fault:
    """The meaning of an HTTP error.

    Args:
        settings: whom we asked.
        status: of the response.
        body: of the response, decoded if it was JSON.
        headers: of the response, names in lower case.
        wall: the time now, in seconds since 1970, to read a date by.
    """
    said = settings.redact(_message_of(body))
    code = _code_of(body)
    quoted = f": {said}" if said else ""
    who = f"{settings.address} answered {status}"
    kind: ErrorKind = "provider"
    retryable = False
    if status in (401, 403):
        message = f"{settings.provider} did not accept the key ({who}{quoted})"
    elif status in (400, 413, 422) and _OVERFLOW.search(f"{code} {said}"):
        kind = "context_overflow"
        message = f"the conversation is longer than {settings.name} can take ({who}{quoted})"
    elif status == 404:
        message = f"{settings.name} is not known to its server ({who}{quoted})"
    elif status == 429 and "insufficient_quota" in code:
        message = f"the account at {settings.provider} has nothing left to spend ({who}{quoted})"
    elif status == 429:
        kind, retryable = "rate_limited", True
        message = f"{settings.name} is asked too often ({who}{quoted})"
    else:
        retryable = status in _RETRIED
        message = f"the server of {settings.name} failed ({who}{quoted})"
    error = TurnError(kind, message, retryable).with_cause(ServerError(status, said))
    return Fault(error, retryable, retry_after(headers, wall) if retryable else None)


def stream_fault(settings: ModelSettings, body: object) -> Fault:
    """The meaning of an error that comes within a stream that had begun well."""
    said = settings.redact(_message_of(body)) or "without a word"
    if _OVERFLOW.search(f"{_code_of(body)} {said}"):
        return Fault(
            TurnError(
                "context_overflow", f"{settings.name} ran out of context in mid-answer: {said}"
            )
        )
    error = TurnError("provider", f"{settings.name} failed in mid-answer: {said}", True)
    return Fault(error, again=True)


def connection_fault(
    settings: ModelSettings, error: BaseException, *, refused: bool, begun: bool
) -> Fault:
    """The meaning of a connection that was not made, or that broke.

    Args:
        settings: whom we asked.
        error: what the transport raised; only its name is told.
        refused: the server was never reached.
        begun: part of the answer had come.
    """
    why = _plain(error)
    if refused:
        message = f"nothing answers at {settings.address} ({why}): is the server running?"
        return _broken("provider", message, why)
    when = "in the middle of the answer" if begun else "before the answer began"
    return _broken("truncated", f"the connection to {settings.address} broke {when} ({why})", why)


def silence_fault(settings: ModelSettings, seconds: float) -> Fault:
    """The meaning of a server that says nothing for so long."""
    # Not asked again by us: that would double a wait that was too long already.
    message = f"{settings.name} said nothing for {seconds:g} s"
    return Fault(TurnError("idle_timeout", message, True))


def protocol_fault(settings: ModelSettings, error: Exception) -> Fault:
    """The meaning of an answer that cannot be read."""
    message = f"{settings.name} answered what cannot be read ({type(error).__name__})"
    return Fault(TurnError("protocol", message, True))


def contradiction_fault(settings: ModelSettings, why: str) -> Fault:
    """The meaning of a stream in which events are doubled, missing or in another order."""
    message = f"the answer of {settings.name} contradicts itself: {why}"
    return Fault(TurnError("protocol", message, True))


def _broken(kind: ErrorKind, message: str, why: str) -> Fault:
    return Fault(TurnError(kind, message, True).with_cause(ServerError(why)), again=True)


def retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """Seconds that a server asks to wait; None when it does not say, or says it unreadably.

    Examples:
        >>> retry_after({"retry-after": "1.5"}, 0.0)
        1.5
        >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 20.0)
        40.0
        >>> retry_after({"retry-after": "soon"}, 0.0), retry_after({"retry-after": "-3"}, 0.0)
        (None, None)
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after", "")
    seconds = _number(said)
    if seconds is not None:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(said)
        return max(0.0, date.timestamp() - wall)
    except (ValueError, OverflowError, OSError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _message_of(body: object) -> str:
    said: Any = body
    if isinstance(said, dict):
        said = said.get("error", said)
    if isinstance(said, dict):
        said = said.get("message") or said.get("detail") or ""
    text = " ".join(str(said or "").split())
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def _code_of(body: object) -> str:
    """Code and type of an error: servers differ in where they put the word."""
    said: Any = body
    if isinstance(said, dict):
        said = said.get("error", said)
    if isinstance(said, dict):
        return f"{said.get('code') or ''} {said.get('type') or ''}"
    return ""


def _plain(error: BaseException) -> str:
    """The innermost error's name: texts of transports may quote what was sent."""
    while True:
        # A name with several addresses fails with a group, one error each.
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif (inner := error.__cause__ or error.__context__) is not None:
            error = inner
        else:
            break
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, socket.gaierror) and error.strerror:
        return error.strerror
    return type(error).__name__
