"""From the bytes of a terminal to the keys that were pressed; pure, and reads nothing itself."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final

from attrs import frozen

ESC: Final = 0x1B
PASTE_LIMIT = 65_536
"""Bytes that a paste may have before it is taken as it is."""

_PASTE_BEGINS = b"\x1b[200~"
_PASTE_ENDS = b"\x1b[201~"
_SEQUENCE_LIMIT = 64
"""Bytes after which what began like a sequence is none."""

_CONTROL = {
    0x01: "home",
    0x02: "left",
    0x04: "ctrl+d",
    0x05: "end",
    0x06: "right",
    0x08: "backspace",
    0x09: "tab",
    0x0A: "enter",
    0x0B: "ctrl+k",
    0x0C: "ctrl+l",
    0x0D: "enter",
    0x0E: "down",
    0x10: "up",
    0x15: "ctrl+u",
    0x17: "ctrl+w",
    0x18: "ctrl+x",
    0x7F: "backspace",
}
# What stands between ESC [ and its end, and the end: as xterm sends it, and those after it.
_CSI = {
    b"A": "up",
    b"B": "down",
    b"C": "right",
    b"D": "left",
    b"F": "end",
    b"H": "home",
    b"1~": "home",
    b"3~": "del",
    b"4~": "end",
    b"7~": "home",
    b"8~": "end",
    b"3;5~": "ctrl+del",
    b"3^": "ctrl+del",  # rxvt
    b"27u": "esc",  # the keyboard protocol of kitty
}
_SS3 = {b"A": "up", b"B": "down", b"C": "right", b"D": "left", b"F": "end", b"H": "home"}


@frozen
class Key:
    """One key: its name, or the text that it types."""

    name: str
    """As in "esc" and "ctrl+del"; "text" for what is typed, or pasted."""
    text: str = ""


def keys_of(data: bytes, *, is_last: bool = False) -> tuple[list[Key], bytes]:
    """The keys in `data`, and the bytes at its end that more bytes may change.

    Sequences that mean nothing here are swallowed whole, and so is Alt with a letter.

    Args:
        data: what the terminal sent.
        is_last: nothing followed for a while: then an escape alone is the key of
            that name, and nothing but a paste under way is left over.

    Examples:
        >>> keys_of(b"a\\x1b[3;5~")
        ([Key(name='text', text='a'), Key(name='ctrl+del', text='')], b'')
        >>> keys_of(b"\\x1b"), keys_of(b"\\x1b", is_last=True)
        (([], b'\\x1b'), ([Key(name='esc', text='')], b''))
    """
    keys: list[Key] = []
    while data:
        taken = _next(data, is_last)
        if taken is None:
            return keys, data
        length, key = taken
        if key is not None:
            keys.append(key)
        data = data[length:]
    return keys, b""


def _next(data: bytes, is_last: bool) -> tuple[int, Key | None] | None:
    """How many bytes the first key has, and the key; None if it is not whole yet."""
    first = data[0]
    if first == ESC:
        return _escape(data, is_last)
    if first < 0x20 or first == 0x7F:
        name = _CONTROL.get(first)
        return 1, None if name is None else Key(name)
    end = next((n for n, byte in enumerate(data) if byte < 0x20 or byte == 0x7F), len(data))
    return _text(data[:end], is_last or end < len(data))


def _text(data: bytes, is_whole: bool) -> tuple[int, Key | None] | None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=is_whole)
    # A letter of several bytes may come in two parts.
    taken = len(data) - len(decoder.getstate()[0])
    return (taken, Key("text", _printable(text))) if taken else None


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _escape(data: bytes, is_last: bool) -> tuple[int, Key | None] | None:
    if len(data) == 1:
        return (1, Key("esc")) if is_last else None
    if data.startswith(_PASTE_BEGINS):
        return _paste(data)
    match data[1]:
        case 0x1B:
            return 1, Key("esc")
        case 0x5B:  # [
            return _csi(data, is_last)
        case 0x4F:  # O
            if len(data) == 2:
                return (2, None) if is_last else None
            name = _SS3.get(data[2:3])
            return 3, None if name is None else Key(name)
        case byte:
            # Alt and a letter, of which the letter alone would be something else.
            length = 1 + _length_of_letter(byte)
            return (length, None) if is_last or len(data) >= length else None


def _csi(data: bytes, is_last: bool) -> tuple[int, Key | None] | None:
    if data[2:3] == b"[":  # the function keys of the Linux console: ESC [ [ A
        if len(data) < 4:
            return (len(data), None) if is_last else None
        return 4, None
    for place in range(2, min(len(data), _SEQUENCE_LIMIT)):
        # rxvt ends those with Shift in a dollar, which stands before the end elsewhere.
        if data[place] == 0x24 or 0x40 <= data[place] <= 0x7E:
            name = _CSI.get(data[2 : place + 1])
            return place + 1, None if name is None else Key(name)
        if not 0x20 <= data[place] <= 0x3F:
            # Whatever cuts a sequence off is a key of its own.
            return place, None
    if len(data) >= _SEQUENCE_LIMIT or is_last:
        return min(len(data), _SEQUENCE_LIMIT), None
    return None


def _paste(data: bytes) -> tuple[int, Key | None] | None:
    begin = len(_PASTE_BEGINS)
    end = data.find(_PASTE_ENDS, begin)
    if end < 0:
        if len(data) < PASTE_LIMIT:
            return None
        return len(data), Key("text", _pasted(data[begin:]))
    return end + len(_PASTE_ENDS), Key("text", _pasted(data[begin:end]))


def _pasted(data: bytes) -> str:
    # Lines become one: no line of what was pasted is an order.
    return _printable(" ".join(data.decode("utf-8", "replace").split()))


def _length_of_letter(first: int) -> int:
    """Bytes of a letter of UTF-8 that begins with this one."""
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def names(keys: list[Key]) -> Iterator[str]:
    """Each key as one word, for tests and for people.

    Examples:
        >>> list(names(keys_of(b"\\x1b[A/\\r")[0]))
        ['up', '/', 'enter']
    """
    for key in keys:
        yield key.text if key.name == "text" else key.name
