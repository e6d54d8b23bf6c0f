"""Who reads what, decided before anybody is asked: pure, so that it can be shown beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from standby_combinators.tokens import estimate_tokens

from .reading import Part, TextFile, split
from .sketch import condense

View: TypeAlias = Literal["whole", "sketch"]
"""How much of a file is shown: every line, or what it defines and says of it."""

SHARE_FLOOR = 120
"""Tokens of a sketch that is never made shorter, however many files there are."""


class Assignment(msgspec.Struct, frozen=True):
    """One file, as its scout is shown it."""

    file: TextFile
    view: View
    parts: tuple[Part, ...]
    """More than one where the model's context does not hold it at once."""
    tokens: int
    """Of all parts, about."""


def assign(
    files: Sequence[TextFile], *, window: int, budget: int | None = None
) -> tuple[Assignment, ...]:
    """Decide how each file is shown to its scout.

    Without a budget every file is shown whole.  With one, each file has an
    equal share of it: a file that fits in its share, and in the window, is
    shown whole, and of a larger one the fullest sketch that fits.  A text of
    which no sketch can be made is shown whole in any case, for nothing is ever
    cut.

    Args:
        files: what was read.
        window: tokens of the model's context that a text may take; longer
            ones are split.
        budget: tokens that all files together should take.

    Examples:
        >>> text = '"Adds."\\n\\ndef add(a, b):\\n    total = a + b\\n    return total\\n' * 9
        >>> [each.view for each in assign([TextFile("a.py", text)], window=900)]
        ['whole']
        >>> [each.view for each in assign([TextFile("a.py", text)], window=900, budget=100)]
        ['sketch']
    """
    share = None
    if budget is not None:
        share = min(window, max(SHARE_FLOOR, budget // max(1, len(files))))
    return tuple(_assignment(file, window, share) for file in files)


def _assignment(file: TextFile, window: int, share: int | None) -> Assignment:
    shown = file.text
    view: View = "whole"
    if share is not None and estimate_tokens(file.text) > share:
        shorter = condense(file.path, file.text, share)
        if shorter is not None:
            shown, view = shorter, "sketch"
    parts = split(shown, window)
    return Assignment(file, view, parts, sum(estimate_tokens(part.text) for part in parts))
