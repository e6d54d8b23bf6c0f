"""How long to wait before a child is tried again."""

from __future__ import annotations

import math
import random

from attrs import Factory, field, frozen

from .errors import BadSpec


def _cap_of(backoff: Backoff) -> float:
    return backoff.cap


@frozen
class Backoff:
    """Exponential delays with jitter.

    The delay before the n-th restart in a row is ``first * factor ** (n - 1)``
    seconds, at most `cap`, then spread by `jitter`.  A streak ends when the child
    has lived longer than `reset_after`: a start that succeeds proves nothing
    about a child that dies a moment later.

    Examples:
        >>> Backoff(0.5, cap=3.0, jitter=0.0).delay(3)
        2.0
    """

    first: float = 0.1
    """Seconds before the first restart of a streak."""
    factor: float = 2.0
    cap: float = 30.0
    """Seconds at most, before jitter."""
    jitter: float = 0.1
    """Part of the delay, 0 to 1, by which it is made longer or shorter at random."""
    reset_after: float = field(default=Factory(_cap_of, takes_self=True))
    """Seconds of life that end a streak; `cap` unless given."""

    def __attrs_post_init__(self) -> None:
        wrong = [
            name
            for name, ok in (
                ("first", 0 <= self.first < math.inf),
                ("factor", 1 <= self.factor < math.inf),
                ("cap", self.first <= self.cap),
                ("jitter", 0 <= self.jitter <= 1),
                ("reset_after", self.reset_after >= 0),
            )
            if not ok
        ]
        if wrong:
            raise BadSpec(
                "supervisor",
                "invalid_backoff",
                f"{', '.join(wrong)} of {self} out of range: 0 <= first <= cap, factor >= 1, "
                "0 <= jitter <= 1, reset_after >= 0",
            )

    def delay(self, streak: int, drawn: float = 0.5) -> float:
        """Seconds to wait before restart number `streak`, from 1, of a streak.

        Args:
            streak: how many restarts in a row this is.
            drawn: where in the jitter the delay falls, 0 to 1.
        """
        seconds = min(self.first * self.factor ** min(streak - 1, 60), self.cap)
        return seconds * (1 + self.jitter * (2 * drawn - 1))

    def draw(self, streak: int, source: random.Random) -> float:
        """The delay with its jitter drawn from `source`."""
        return self.delay(streak, source.random())
