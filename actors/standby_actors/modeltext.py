"""Reading what a model wrote: lenient about its shape, strict about its content."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

_DRESS = re.compile(r"[*_`#.\s]+")
# Each costs the length of what is left: the bound keeps a text of nothing but
# braces and quotation marks from costing the square of its length.
_LOOKS = 8
_TURNS = re.compile(r'["\\{}]')


def says_word(text: str, word: str) -> bool:
    """Some line of `text` is `word` and nothing else, whatever it is dressed in.

    Letters' case, ``* _ ` # .`` and space do not count.

    Examples:
        >>> says_word("Fine by me.\\n\\n**LGTM**", "LGTM"), says_word("## Approved.", "APPROVED")
        (True, True)
        >>> says_word("I cannot say LGTM yet", "LGTM"), says_word("LGTM!", "LGTM")
        (False, False)
    """
    wanted = _DRESS.sub("", word).casefold()
    if not wanted:
        return False
    return any(_DRESS.sub("", line).casefold() == wanted for line in text.splitlines())


def json_objects(text: str) -> list[dict[str, Any]]:
    """Every outermost JSON object in `text`, in order; what does not parse is passed over.

    They may stand in a list, in a fence, in prose, or one a line.  A brace that is
    never closed is passed over, so that of a list which was cut the whole ones are
    found.

    Examples:
        >>> json_objects('Two: [{"a": 1}, {"b": {"c": "}"}}] and {no} {"d": 2')
        [{'a': 1}, {'b': {'c': '}'}}]
        >>> json_objects('A { opens: {"a": 1}')
        [{'a': 1}]
    """
    spans: list[tuple[int, int]] = []
    start: int | None = 0
    for _ in range(_LOOKS):
        if start is None:
            break
        start = _scan(text, start, spans)
    made = (_object(text[begin:end]) for begin, end in spans)
    return [each for each in made if each is not None]


def _scan(text: str, start: int, spans: list[tuple[int, int]]) -> int | None:
    """Add the outermost pairs of braces from `start` on.

    Returns where to look again, when a quotation mark was never closed: behind
    the brace from where on it was taken for the beginning of a string.
    """
    open_at: list[int] = []
    in_string, skip_to = False, 0
    for turn in _TURNS.finditer(text, start):
        at, letter = turn.start(), turn.group()
        if at < skip_to:
            continue
        if letter == "\\":
            # Within a string the next letter stands for something else.
            skip_to = at + 2 if in_string else 0
        elif letter == '"':
            # A quotation mark in the prose around objects opens no string.
            in_string = bool(open_at) and not in_string
        elif in_string:
            continue
        elif letter == "{":
            open_at.append(at)
        elif open_at:
            begin = open_at.pop()
            while spans and spans[-1][0] > begin:
                spans.pop()
            spans.append((begin, at + 1))
    if not in_string:
        return None
    while spans and spans[-1][0] > open_at[0]:
        spans.pop()
    return open_at[0] + 1


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def truncate(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters, an ellipsis for what is missing.

    Args:
        text: of any length.
        limit: at least 1.

    Examples:
        >>> truncate("one\\n two  three", 20), truncate("one two three", 8)
        ('one two three', 'one two…')

    Raises:
        ValueError: there is no room for anything.
    """
    if limit < 1:
        raise ValueError(f"a text is cut to at least 1 character, not to {limit!r}")
    # More than is kept is not looked at, however long a model went on.
    line = " ".join(text[: 8 * limit + 1_000].split())
    cut = len(line) > limit or len(text) > 8 * limit + 1_000
    return line[: limit - 1].rstrip() + "…" if cut else line


def first_line(text: str) -> str:
    """The first line of `text` with something in it, without outer space; empty if there is none.

    Examples:
        >>> first_line("\\n\\n  # Title \\nmore")
        '# Title'
    """
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
