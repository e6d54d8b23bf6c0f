"""What people write for a time and for a budget, read as numbers; pure."""

from __future__ import annotations

import re

from standby_actors.agent import Limits

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(min|[smh]?)\s*")
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_BUDGET = re.compile(r"(\$)?\s*(\d+(?:\.\d+)?)\s*([km]?)\s*(\$|usd|turns?|tokens?|tok|)")


_MOST = 1e15


class BadAmount(ValueError):
    """Raised for what is no time, or no budget; says what is one."""


def read_seconds(text: str) -> float:
    """The seconds of a time.

    Examples:
        >>> read_seconds("90"), read_seconds("1.5m"), read_seconds("1h30m")
        (90.0, 90.0, 5400.0)
        >>> read_seconds("soon")
        Traceback (most recent call last):
        ...
        standby.cli.amounts.BadAmount: a time is written 90, 90s, 5m or 1h30m, not 'soon'
    """
    folded, seconds, at = text.strip().casefold(), 0.0, 0
    while at < len(folded):
        part = _PART.match(folded, at)
        # "1h30" could be minutes or seconds: a number without a unit stands alone.
        if part is None or (not part[2] and part.span() != (0, len(folded))):
            break
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if at < len(folded) or not 0 < seconds < float("inf"):
        raise BadAmount(f"a time is written 90, 90s, 5m or 1h30m, not {text!r}")
    return seconds


def read_budget(texts: tuple[str, ...]) -> Limits:
    """The limits that `texts` set, each one of them, or several with commas.

    Examples:
        >>> budget = read_budget(("0.50usd,200k", "12 turns"))
        >>> budget.usd, budget.tokens, budget.turns
        (0.5, 200000, 12)
    """
    limits: dict[str, float] = {}
    for text in (part for each in texts for part in each.split(",")):
        found = _BUDGET.fullmatch(text.strip().casefold())
        if found is None or (found[1] and found[4] not in ("", "$", "usd")):
            raise BadAmount(f"a budget is written 0.50usd, 200k (tokens) or 12turns, not {text!r}")
        amount = float(found[2]) * _TIMES[found[3]]
        is_usd = found[1] or found[4] in ("$", "usd")
        what = "usd" if is_usd else "turns" if found[4].startswith("turn") else "tokens"
        if what in limits:
            raise BadAmount(f"the budget has two limits of {what}; say one")
        if not 0 < amount < _MOST or (what != "usd" and amount != int(amount)):
            raise BadAmount(f"a budget of {text.strip()!r} buys nothing whole")
        limits[what] = amount
    usd = limits.get("usd")
    return Limits(
        usd=usd,
        tokens=int(limits["tokens"]) if "tokens" in limits else None,
        turns=int(limits["turns"]) if "turns" in limits else None,
    )
