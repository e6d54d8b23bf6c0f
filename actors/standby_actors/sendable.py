"""Text that can be sent on: half a surrogate pair is in no encoding, so none leaves us.

Python makes halves of the bytes of odd file names and arguments.  What people and
minds say is freed of them where it comes in; what is written down, as it is written.
"""

from __future__ import annotations

from typing import Any

import msgspec

_encoder = msgspec.json.Encoder()


def sendable(text: str) -> str:
    """`text` with a question mark for each half of a surrogate pair; most have none.

    Examples:
        >>> sendable("caf\\udce9"), sendable("café")
        ('caf?', 'café')
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def is_sendable(text: str) -> bool:
    """Whether `text` has no half of a surrogate pair."""
    return sendable(text) == text


def encoded(value: Any) -> bytes:
    """`value` as JSON, in UTF-8 whatever its texts hold.

    Examples:
        >>> encoded({"task": "caf\\udce9"})
        b'{"task":"caf?"}'

    Raises:
        TypeError: it is no data.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_sendable_data(msgspec.to_builtins(value)))


def _sendable_data(value: Any) -> Any:
    match value:
        case str():
            return sendable(value)
        case dict():
            return {_sendable_data(key): _sendable_data(each) for key, each in value.items()}
        case list() | tuple():
            return [_sendable_data(each) for each in value]
        case _:
            return value
