"""When a turn calls too much: decided here from its history, done by the loop of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from attrs import field, frozen

from ..result import TurnError

Fate = Literal["ran", "failed", "malformed", "unknown", "refused"]
"""What became of a call: `failed` has run and told of an error; `refused` was never begun."""


class PastCall(msgspec.Struct, frozen=True):
    """A call of this turn that was answered."""

    name: str
    key: str
    """Its arguments, equal for equal ones."""
    fate: Fate
    read_only: bool = False
    round: int = 0
    """Which message of the model it stood in, from 0."""


def _check_count(_limits: object, attribute: object, number: object) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        name = getattr(attribute, "name", "a limit")
        raise ValueError(f"{name} is a whole number from 1, not {number!r}")


@frozen
class CallLimits:
    """How much one turn may call.

    Args:
        at_once: calls of one message that run at the same time.
        calls: calls of one turn; those beyond end it.
        same_refused: the call with the same name and arguments, counted from the
            first, from which on it is refused.
        same_ends: the one that ends the turn.
        unknown_ends: the call of a tool that does not exist that ends the turn.
        corrections: how many messages in a row may hold a call that cannot be
            read; the next one ends the turn.
        output: characters of one output that the model is shown.
        attached: bytes of one output's attachments, together.
    """

    at_once: int = field(default=8, validator=_check_count)
    calls: int = field(default=50, validator=_check_count)
    same_refused: int = field(default=3, validator=_check_count)
    same_ends: int = field(default=5, validator=_check_count)
    unknown_ends: int = field(default=5, validator=_check_count)
    corrections: int = field(default=2, validator=_check_count)
    output: int = field(default=50_000, validator=_check_count)
    attached: int = field(default=10_000_000, validator=_check_count)


@frozen
class Admit:
    """Run it."""


@frozen
class Decline:
    """Do not run it; tell the model why."""

    why: str


@frozen
class End:
    """Do not run it, and end the turn."""

    error: TurnError


Admission: TypeAlias = Admit | Decline | End


def admit(history: Sequence[PastCall], name: str, key: str, limits: CallLimits) -> Admission:
    """What to do about one more call of a turn, of a tool that there is, with good arguments.

    Pure: the same history always gives the same decision.

    A call is the same as one before if its name and its arguments are.  It is
    counted from the last moment at which something new was done: another call,
    not made before and of a tool that is not read-only, that worked.  So the
    tests may be run after every edit, and a model that goes round in a circle
    is stopped.

    Examples:
        >>> once = PastCall("grep", '{"pattern":"x"}', "ran", read_only=True)
        >>> admit([once], "grep", '{"pattern":"x"}', CallLimits())
        Admit()
        >>> admit([once, once], "grep", '{"pattern":"x"}', CallLimits())
        Decline(why='you have made this very call 2 times in this turn, and nothing has ...')
    """
    if len(history) >= limits.calls:
        return End(
            TurnError("runaway", f"the turn made more than {limits.calls} tool calls: {name} again")
        )
    before = _same_since_news(history, name, key)
    if before + 1 >= limits.same_ends:
        return End(
            TurnError(
                "runaway",
                f"the turn made the same call of {name} {before + 1} times, and nothing changed"
                " between them",
            )
        )
    if before + 1 >= limits.same_refused:
        return Decline(
            f"you have made this very call {before} times in this turn, and nothing has changed"
            " since: use the answer that you have, or try something else"
        )
    return Admit()


def runaway(history: Sequence[PastCall], limits: CallLimits) -> TurnError | None:
    """Why the turn ends after what was called; None if it goes on.

    Examples:
        >>> lost = [PastCall("serach", "", "unknown")] * 5
        >>> print(runaway(lost, CallLimits()))
        runaway: the turn called tools that do not exist 5 times, the last one 'serach'
        >>> broken = [PastCall("grep", "", "malformed", round=n) for n in range(3)]
        >>> print(runaway(broken, CallLimits()))
        protocol: 3 messages in a row held calls that cannot be read, after 2 corrections
    """
    unknown = [call.name for call in history if call.fate == "unknown"]
    if len(unknown) >= limits.unknown_ends:
        return TurnError(
            "runaway",
            f"the turn called tools that do not exist {len(unknown)} times,"
            f" the last one {unknown[-1]!r:.80}",
        )
    if len(history) > limits.calls:
        return TurnError("runaway", f"the turn made more than {limits.calls} tool calls")
    bad = {call.round for call in history if call.fate in ("malformed", "unknown")}
    in_a_row = 0
    last = history[-1].round if history else 0
    while last - in_a_row in bad:
        in_a_row += 1
    if in_a_row > limits.corrections:
        return TurnError(
            "protocol",
            f"{in_a_row} messages in a row held calls that cannot be read,"
            f" after {limits.corrections} corrections",
            True,
        )
    return None


def _same_since_news(history: Sequence[PastCall], name: str, key: str) -> int:
    seen: set[tuple[str, str]] = set()
    count = 0
    for call in history:
        this = (call.name, call.key)
        if this == (name, key):
            count += call.fate != "malformed"
        elif this not in seen and call.fate == "ran" and not call.read_only:
            count = 0
        seen.add(this)
    return count
