"""Text of files and models, made fit for a terminal and for one line."""

from __future__ import annotations

import re


def plain(text: str) -> str:
    """`text` without what a terminal would take for an order.

    Examples:
        >>> plain("a\\x1b[2Jb\\nc\\td")
        'a\\ufffd[2Jb\\nc d'
    """
    return "".join(
        letter if letter.isprintable() or letter == "\n" else " " if letter == "\t" else "\ufffd"
        for letter in text
    )


def harmless(text: str) -> str:
    """`text` as :func:`plain`, but for its tabs, which belong to code.

    Examples:
        >>> harmless("a\\x1b[2Jb\\n\\tc")
        'a\\ufffd[2Jb\\n\\tc'
    """
    return "\t".join(plain(part) for part in text.split("\t"))


def one_line(text: str) -> str:
    """`text` on one line, fit for a terminal.

    Examples:
        >>> one_line(" a\\n  b ")
        'a b'
    """
    return plain(" ".join(text.split()))


def saying(text: str) -> str:
    """What a model is saying, without the JSON around it.

    Examples:
        >>> saying('{ "answer": "It runs actors.", "na')
        'It runs actors. na'
        >>> saying("It runs")
        'It runs'
    """
    words = re.sub(r'"(?:answer|names|files|points)"\s*:|[{}\[\]"]', " ", text)
    return one_line(words.replace(" , ", " ").replace(" ,", ""))


def clock(seconds: float) -> str:
    """`seconds` as a clock shows them.

    Examples:
        >>> clock(5.2), clock(75), clock(3700)
        ('0:05', '1:15', '1:01:40')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def plural(count: int, noun: str) -> str:
    """`count` and its noun.

    Examples:
        >>> plural(1, "file"), plural(2, "file")
        ('1 file', '2 files')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
