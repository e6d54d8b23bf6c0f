"""How often one model is asked: a rate, and a breaker that opens when it only fails.

They are shared by all sessions of a model, because a provider's limits belong
to the key.  They are told the time and start nothing.
"""

from __future__ import annotations

import math

from attrs import define, field

FAILURES = 5
"""Requests in a row that fail before the breaker opens."""
PAUSE_SECONDS = 10.0
"""How long it is open the first time; twice as long each time that its probe fails."""
PAUSE_CAP_SECONDS = 300.0
WINDOW_SECONDS = 60.0
"""What rates are counted over."""


@define(eq=False)
class Breaker:
    """Asks a model that fails again and again only now and then.

    Closed, it lets everybody through.  After `failures` failures in a row it is
    open for `pause` seconds; then one request is let through, and what comes of
    it closes the breaker or opens it for twice as long.  (M. Nygard, *Release It!*)

    Examples:
        >>> breaker = Breaker(failures=2, pause=10.0)
        >>> breaker.failed(0.0), breaker.failed(1.0), breaker.wait(2.0)
        (None, None, 9.0)
        >>> breaker.wait(11.0), breaker.wait(11.5)
        (0.0, 10.0)
        >>> breaker.succeeded(), breaker.wait(12.0)
        (None, 0.0)
    """

    failures: int = FAILURES
    pause: float = PAUSE_SECONDS
    _in_a_row: int = field(init=False, default=0)
    _opened: int = field(init=False, default=0)
    """Times that it has opened since it was closed."""
    _until: float = field(init=False, default=-math.inf)
    _is_probing: bool = field(init=False, default=False)

    def wait(self, now: float) -> float:
        """Seconds until a request may be made; 0 for now, which is then the probe."""
        if self._in_a_row < self.failures:
            return 0.0
        if now < self._until:
            return self._until - now
        if self._is_probing:
            return self.pause
        self._is_probing = True
        return 0.0

    def succeeded(self) -> None:
        """Close: the model answers."""
        self._in_a_row = self._opened = 0
        self._is_probing = False

    def failed(self, now: float) -> None:
        """Count one failure of the model, and open if they are too many."""
        self._in_a_row += 1
        if self._in_a_row >= self.failures:
            pause = min(self.pause * 2.0**self._opened, PAUSE_CAP_SECONDS)
            self._until = now + pause
            self._opened += 1
        self._is_probing = False

    def gave_up(self) -> None:
        """Forget a request that ended without saying anything about the model."""
        self._is_probing = False


@define(eq=False)
class Gate:
    """What a server said of waiting, to whoever asks it with one key.

    Examples:
        >>> gate = Gate()
        >>> gate.close(600.0, 120.0), gate.close(30.0, 6.0)
        (None, None)
        >>> gate.closed_until, gate.spread
        (600.0, 120.0)
    """

    breaker: Breaker = field(factory=Breaker)
    closed_until: float = -math.inf
    """On trio's clock."""
    spread: float = 0.0
    """Seconds after that over which those who waited come back."""

    def close(self, until: float, spread: float) -> None:
        """Let nobody ask before `until`; what was said before holds if it is longer."""
        if until > self.closed_until:
            self.closed_until, self.spread = until, spread


@define(eq=False)
class Rate:
    """So much in each minute, as a window that slides.

    Examples:
        >>> rate = Rate(2)
        >>> rate.take(0.0), rate.take(1.0), rate.wait(2.0)
        (None, None, 58.0)
        >>> rate.wait(60.0)
        0.0
    """

    limit: float
    _taken: list[tuple[float, float]] = field(init=False, factory=list[tuple[float, float]])

    def wait(self, now: float) -> float:
        """Seconds until there is room; 0 for now."""
        self._taken = [each for each in self._taken if now - each[0] < WINDOW_SECONDS]
        used = sum(amount for _, amount in self._taken)
        for at, amount in self._taken:
            if used < self.limit:
                break
            used -= amount
            if used < self.limit:
                return max(0.0, at + WINDOW_SECONDS - now)
        return 0.0

    def take(self, now: float, amount: float = 1.0) -> None:
        """Count what was used."""
        self._taken.append((now, amount))
