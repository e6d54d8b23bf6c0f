"""What numbers a combinator takes, said once: another one raises before anything is spawned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def at_least(least: int, what: str) -> Callable[[object, object, Any], None]:
    """A validator: a whole number of at least `least` of `what`; None where it is the default."""

    def check(_team: object, field: Any, number: Any) -> None:
        if number is None and getattr(field, "default", 0) is None:
            return
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ValueError(f"a number of {what} is whole and at least {least}, not {number!r}")

    return check


def check_count(number: Any, what: str, least: int = 1) -> None:
    """Refuse what is no whole number of at least `least` of `what`."""
    at_least(least, what)(None, None, number)


def check_seconds(_team: object, field: Any, seconds: Any) -> None:
    """A validator: a finite number of seconds, at least 0; None where it is the default."""
    if seconds is None and field.default is None:
        return
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 <= seconds < math.inf
    ):
        raise ValueError(
            f"{field.name} is a number of seconds, at least 0 and finite, not {seconds!r}"
        )
