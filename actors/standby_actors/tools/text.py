"""What a tool returned, as text; and long text, cut so that the cut is seen."""

from __future__ import annotations

from typing import Any

import msgspec

OUTPUT_LIMIT = 50_000
"""Characters of one output that a mind is shown, where nobody says otherwise."""


def as_text(value: Any) -> str:
    """`value` in words, or as JSON.

    Examples:
        >>> as_text("as it is"), as_text({"n": 1}), as_text(None)
        ('as it is', '{"n":1}', 'done; it returned nothing')
    """
    if isinstance(value, str):
        return value
    if value is None:
        # Some providers take no empty output, and some models take it for a failure.
        return "done; it returned nothing"
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return f"{len(data)} bytes that are no text"
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        # No data: a key that JSON has not, a value inside itself.
        return str(value)


def shorten(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """`text`, or its beginning and its end with a marker that says what is missing.

    Args:
        text: of any length.
        limit: characters that are kept, the marker not counted; at least 2.

    Examples:
        >>> print(shorten("a" * 30 + "b" * 30, 20))
        aaaaaaaaaa
        [… 40 of 60 characters are not shown …]
        bbbbbbbbbb
    """
    if len(text) <= limit:
        return text
    head = (limit + 1) // 2
    tail = limit - head
    missing = f"[… {len(text) - limit:,} of {len(text):,} characters are not shown …]"
    return f"{text[:head]}\n{missing}\n{text[len(text) - tail :]}"
