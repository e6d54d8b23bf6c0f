"""What numbers a combinator takes, said once: another one raises before anything is spawned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def at_least(least: int, what: str) -> Callable[[object, object, Any], None]:
    """A validator: None, or a whole number of at least `least` of `what`."""

    def check(_team: object, _field: object, number: Any) -> None:
        whole = isinstance(number, int) and not isinstance(number, bool)
        if number is not None and not (whole and number >= least):
            raise ValueError(f"a number of {what} is whole and at least {least}, not {number!r}")

    return check


def check_count(number: Any, what: str, least: int = 1) -> None:
    """Refuse what is no whole number of at least `least` of `what`."""
    at_least(least, what)(None, None, number)


def check_seconds(_team: object, field: Any, seconds: Any) -> None:
    """A validator: None, or a finite number of seconds, at least 0."""
    real = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is not None and not (real and 0 <= seconds < math.inf):
        raise ValueError(
            f"{field.name} is a number of seconds, at least 0 and finite, not {seconds!r}"
        )
