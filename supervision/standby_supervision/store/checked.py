"""What no store can keep, found before it is handed in: one asker's mistake would otherwise
fail the transaction that it shares with others."""

from __future__ import annotations

import math

import msgspec

from .records import Command, Create, NewEvent, Offer, Release, Renew

MOST_BYTES = 64 * 2**20
"""Bytes that one event may have."""

_object: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def check(command: Command) -> None:
    """Raise if no store could keep `command`.

    Raises:
        ValueError: a text has a NUL or half a surrogate pair in it, an event is no JSON
            object or is longer than 64 MiB, or a time is no finite number.
    """
    _text("run", command.run)
    if not math.isfinite(command.at):
        raise ValueError(f"`at` of the run {command.run!r} is {command.at}, and no time")
    if isinstance(command, Create):
        _text("workspace", command.workspace)
        _text("name", command.name)
        _text("state", command.state)
    elif isinstance(command, Renew | Release):
        return
    elif not isinstance(command, Offer) and command.state is not None:
        _text("state", command.state)
    for event in command.events:
        _event(event)


def _event(event: NewEvent) -> None:
    _text("kind", event.kind)
    if len(event.data) > MOST_BYTES:
        raise ValueError(
            f"an event {event.kind!r} has {len(event.data)} bytes, and may have {MOST_BYTES}:"
            " keep what is so large in a file, and its name in the event"
        )
    try:
        event.data.decode()
        _object.decode(event.data)
    except ValueError as error:
        raise ValueError(
            f"the data of an event {event.kind!r} is no JSON object: {error}"
        ) from error


def _text(name: str, text: str) -> None:
    # PostgreSQL keeps no NUL, and no database a half of a surrogate pair, which is how
    # Python writes a byte of a path that is no UTF-8.
    if "\0" in text or not (text.isascii() or _is_utf8(text)):
        raise ValueError(f"`{name}` cannot be kept as UTF-8: {text!r}")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
