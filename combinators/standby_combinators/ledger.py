"""What is owed before work is done: raised by somebody, and closed by nobody else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

How: TypeAlias = Literal["addressed", "withdrawn"]
"""How an obligation was closed: it was met, or its raiser takes it back."""


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """Something is owed."""

    id: str
    by: str
    text: str
    round: int


class Resolved(msgspec.Struct, frozen=True, tag="resolved", omit_defaults=True):
    """It is owed no more."""

    id: str
    how: How
    round: int
    reason: str = ""


Entry: TypeAlias = Raised | Resolved


class Obligation(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What is, or was, owed."""

    id: str
    """As in "o1"."""
    by: str
    """Who raised it, and alone can close it."""
    text: str
    round: int
    closed: Resolved | None = None


class Ledger:
    """Obligations, as what happened to them: nothing is rewritten, what nobody mentions stays open.

    Args:
        entries: what happened before, to go on from; ids continue behind them.

    Examples:
        >>> ledger = Ledger()
        >>> ledger.open_one("reviewer", "Test the empty list.", 1)
        Obligation(id='o1', by='reviewer', text='Test the empty list.', round=1)
        >>> ledger.close("worker", "o1", "addressed", 2)
        'o1 was raised by reviewer, who alone can close it'
        >>> ledger.close("reviewer", "o1", "addressed", 2), ledger.is_settled
        ('', True)
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: list[Entry] = []
        self._there: dict[str, Obligation] = {}
        for entry in entries:
            self._take(entry)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that happened, in order: what another ledger can go on from."""
        return tuple(self._entries)

    @property
    def obligations(self) -> tuple[Obligation, ...]:
        """All that were ever raised, in order."""
        return tuple(self._there.values())

    @property
    def is_settled(self) -> bool:
        """Nothing is owed."""
        return all(each.closed is not None for each in self._there.values())

    def owed(self, by: str | None = None) -> tuple[Obligation, ...]:
        """What is open: all of it, or what somebody has raised."""
        return tuple(
            each
            for each in self._there.values()
            if each.closed is None and (by is None or each.by == by)
        )

    def open_one(self, by: str, text: str, round: int) -> Obligation:  # noqa: A002 - the field's name
        """Raise an obligation."""
        number = 1 + max((int(each[1:]) for each in self._there if each[1:].isdigit()), default=0)
        self._take(Raised(f"o{number}", by, text, round))
        return self._there[f"o{number}"]

    def close(
        self,
        by: str,
        id: str,  # noqa: A002 - the field's name
        how: How,
        round: int,  # noqa: A002 - the field's name
        reason: str = "",
    ) -> str:
        """Close one that `by` has raised; why not, in words, or "" if it is closed now."""
        there = self._there.get(id)
        if there is None:
            return f"there is no {id}; open are: {', '.join(o.id for o in self.owed()) or 'none'}"
        if there.by != by:
            return f"{id} was raised by {there.by}, who alone can close it"
        if there.closed is not None:
            return f"{id} is closed already"
        self._take(Resolved(id, how, round, reason))
        return ""

    def _take(self, entry: Entry) -> None:
        self._entries.append(entry)
        match entry:
            case Raised(id, by, text, round):
                self._there[id] = Obligation(id, by, text, round)
            case Resolved(id):
                self._there[id] = msgspec.structs.replace(self._there[id], closed=entry)


def render_obligations(many: Iterable[Obligation]) -> str:
    """A line for each, as whoever is to answer them by id reads it.

    Examples:
        >>> render_obligations([Obligation("o1", "reviewer", "Test it.", 1)])
        '- o1 (reviewer): Test it.'
    """
    return "\n".join(f"- {each.id} ({each.by}): {each.text}" for each in many)
