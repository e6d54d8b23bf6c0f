"""A problem of a definition, as a value: where it is, what it is, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

Severity = Literal["error", "warning", "note"]
"""`error`: the file gives no agent, or one that names agents that are not there.  `warning`:
it does, and not quite the one that its author meant.  `note`: something in it has no effect
here."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

SHOWN = 80
"""Characters of a file's own words that a message quotes at most."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wrong with a file, or with what it asks for."""

    path: Path
    code: str
    """Its kind in one word, for programs: `unknown-field`, `bad-value`, …"""
    message: str
    """What is wrong, a sentence without its full stop."""
    severity: Severity = "error"
    line: int | None = None
    """From 1; that of the key, where it is about one.  None: the file as a whole."""
    column: int | None = None
    """From 1."""
    nearest: str | None = None
    """What was probably meant."""
    advice: str = ""
    """What to do about it."""
    about: str | None = None
    """Name of the agent that the file defines, as far as that is known."""

    @property
    def where(self) -> str:
        """As compilers write it, so that editors can jump there: ``scout.md:3:7``."""
        return ":".join(str(part) for part in (self.path, self.line, self.column) if part)

    def __str__(self) -> str:
        """All of it on one line.

        Examples:
            >>> print(Problem(
            ...     path=Path("scout.md"), code="bad-value", message="there is no lifetime 'tsak'",
            ...     line=3, column=1, nearest="task", advice="write task, workflow or session"))
            scout.md:3:1: error: there is no lifetime 'tsak'; did you mean 'task'? write task, \
workflow or session [bad-value]
        """
        return f"{self.where}: {self.severity}: {self.said} [{self.code}]"

    @property
    def said(self) -> str:
        """What is wrong and what to do, without where."""
        near = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        advice = self.advice and (f" {self.advice}" if near else f"; {self.advice}")
        return f"{self.message}{near}{advice}"


def quoted(text: str) -> str:
    """Words of a file, as a message quotes them: short, and on one line.

    Examples:
        >>> quoted("a b"), quoted("x" * 100)[-5:]
        ("'a b'", "xxx…'")
    """
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")
