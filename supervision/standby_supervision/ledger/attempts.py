"""Whether a session that fell short is followed by one with more capability: at most once.

It counts for itself: neither the retry of a spawn, nor fix-ups, nor reviews are in it.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from .outcomes import Closed, CloseUnavailable
from .row import Row

Family: TypeAlias = Literal[
    "ineligible-context",
    "ineligible-tool-or-permission",
    "ineligible-authority",
    "ineligible-integrity-or-route",
    "eligible-quality-failure",
]
"""Why an attempt fell short; the last alone may be answered by more capability."""

AttemptBudget: TypeAlias = Literal[0, 1]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an attempt: True if it was shown, False if the contrary was."""

    context_sufficed: bool | None = None
    tools_sufficed: bool | None = None
    """And it was permitted what it needed."""
    authority_sufficed: bool | None = None
    result_was_whole: bool | None = None
    """It came in time, was not blank, and could be read, by the route it was meant for."""
    quality_fell_short: bool | None = None


class FreshAttempt(msgspec.Struct, frozen=True, tag="fresh_attempt"):
    """One more session may be spawned, with the declared configuration; there is no other."""

    family: Literal["eligible-quality-failure"] = "eligible-quality-failure"
    left: Literal[0] = 0


class Terminal(msgspec.Struct, frozen=True, tag="terminal"):
    """That was all: the workflow goes its blocked way."""

    family: Family
    why: str


def family_of(shown: Shown) -> Family:
    """Why an attempt fell short: the first that applies.  Pure.

    What was not shown is never taken to be so.

    Examples:
        >>> family_of(Shown(context_sufficed=False, tools_sufficed=False))
        'ineligible-context'
        >>> family_of(Shown(quality_fell_short=True))
        'ineligible-integrity-or-route'
    """
    if shown.context_sufficed is False:
        return "ineligible-context"
    if shown.tools_sufficed is False:
        return "ineligible-tool-or-permission"
    if shown.authority_sufficed is False:
        return "ineligible-authority"
    if all(msgspec.structs.astuple(shown)):
        return "eligible-quality-failure"
    return "ineligible-integrity-or-route"


def after_attempt(
    row: Row[Any], shown: Shown, *, is_declared: bool, budget: AttemptBudget
) -> FreshAttempt | Terminal:
    """What follows an attempt that fell short.  Pure.

    Args:
        row: of its session, captured and cleaned up.
        shown: what is known of it.
        is_declared: its route has declared which configuration follows, and that nothing
            else changes by it.
        budget: further attempts that are left.
    """
    family = family_of(shown)
    if row.captured is None:
        return Terminal(family, "what it came to was not captured")
    if not isinstance(row.cleanup, Closed | CloseUnavailable):
        return Terminal("ineligible-integrity-or-route", "it was not cleaned up")
    if family != "eligible-quality-failure":
        return Terminal(family, "more capability would not help")
    if not is_declared:
        return Terminal(family, "its route declares no other configuration")
    # Whoever passes another number, past the type checker, gets none.
    if budget != 1:
        return Terminal(family, "no attempt is left")
    return FreshAttempt()


class HeadVerdict(msgspec.Struct, frozen=True):
    """What a review said, of one head of the source and of no other."""

    head: str
    accepted: bool

    def accepts(self, head: str) -> bool:
        """Whether it accepts `head`: any later commit makes it say nothing.

        Examples:
            >>> verdict = HeadVerdict("4f1a2b3", accepted=True)
            >>> verdict.accepts("4f1a2b3"), verdict.accepts("9c8d7e6")
            (True, False)
        """
        return self.accepted and bool(head) and head == self.head
