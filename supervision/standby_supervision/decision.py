"""What to do about a child whose life has ended: decided here, done by the supervisor.

Pure: nothing here reads a clock, draws a number, or starts anything.  The same
facts always give the same decision, which is what lets it be written to a
journal, compared in a test, and replayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Sized
from typing import Literal

import msgspec

from standby_actors import ExitReason, Killed, Normal, Shutdown

from .child import AutoShutdown, Restart, Strategy


class Again(msgspec.Struct, frozen=True, tag=True):
    """Start it again, :attr:`after` seconds from now."""

    after: float = 0.0


class Forget(msgspec.Struct, frozen=True, tag=True):
    """Let it be; a temporary one's specification is forgotten as well."""


class GiveUp(msgspec.Struct, frozen=True, tag=True):
    """End the supervisor: too many restarts in too little time."""

    reason: str


class CloseDown(msgspec.Struct, frozen=True, tag=True):
    """End the supervisor: what it was there for is done (``auto_shutdown``)."""

    reason: str


Decision = Again | Forget | GiveUp | CloseDown


class Fallen(msgspec.Struct, frozen=True):
    """What is known of a child whose life has ended."""

    child: str
    restart: Restart
    significant: bool
    normally: bool
    """Whether it ended as asked, or by itself without an error."""
    others_active: bool
    """Whether another significant child is alive, or is to be."""


class Steps(msgspec.Struct, frozen=True):
    """Which children to stop, in this order, and then which to start, in this one."""

    stop: tuple[str, ...]
    start: tuple[str, ...]


NORMAL = (Normal, Shutdown)
"""As a tuple: a union would be made anew for each end."""


def is_normal(reason: ExitReason) -> bool:
    """Whether `reason` is one that a transient child is not restarted for."""
    return isinstance(reason, NORMAL)


def wants_restart(restart: Restart, normally: bool) -> bool:
    """Whether a child of that restart type comes back."""
    return restart == "permanent" or (restart == "transient" and not normally)


def is_reported(restart: Restart, normally: bool) -> bool:
    """Whether the end of a child by itself is worth an error report."""
    return restart == "permanent" or not normally


def count(restarts: deque[float], now: float, period: float) -> None:
    """Add one at `now` to the restarts that count, and forget those that no longer do.

    The window is inclusive: one that is exactly `period` seconds old counts.  In
    place, as a supervisor may be allowed very many.

    Examples:
        >>> restarts = deque([0.0, 4.0])
        >>> count(restarts, now=5.0, period=5.0)
        >>> restarts
        deque([0.0, 4.0, 5.0])
        >>> count(restarts, now=5.1, period=5.0)
        >>> restarts
        deque([4.0, 5.0, 5.1])
    """
    while restarts and now - restarts[0] > period:
        restarts.popleft()
    restarts.append(now)


def decide(
    fallen: Fallen,
    restarts: Sized,
    *,
    intensity: int | None,
    period: float,
    auto_shutdown: AutoShutdown,
    after: float = 0.0,
) -> Decision:
    """Choose what to do about a child that has ended by itself.

    Args:
        fallen: the child.
        restarts: those that count, this one included if there is to be one; see
            :func:`count`.
        intensity: how many may count; None for any number.
        period: seconds that they count for.
        auto_shutdown: whether the end of a significant child ends the supervisor.
        after: seconds to wait before the restart.

    Examples:
        >>> crashed = Fallen("db", "permanent", False, False, False)
        >>> rules = {"intensity": 1, "period": 5.0, "auto_shutdown": "never"}
        >>> decide(crashed, [60.0], **rules)
        Again(after=0.0)
        >>> decide(crashed, [58.0, 60.0], **rules)
        GiveUp(reason='child db: 2 restarts within 5 s, 1 allowed')
    """
    if wants_restart(fallen.restart, fallen.normally):
        if intensity is not None and len(restarts) > intensity:
            return GiveUp(
                f"child {fallen.child}: {len(restarts)} restarts within {period:g} s, "
                f"{intensity} allowed"
            )
        return Again(after)
    if fallen.significant and (
        auto_shutdown == "any_significant"
        or (auto_shutdown == "all_significant" and not fallen.others_active)
    ):
        return CloseDown(f"significant child {fallen.child} has ended")
    return Forget()


def steps(strategy: Strategy, order: Sequence[str], failed: str) -> Steps:
    """Which children a restart of `failed` concerns.

    Args:
        strategy: the supervisor's.
        order: ids of all its children, in start order.
        failed: the one to be started again.

    Examples:
        >>> steps("rest_for_one", ["a", "b", "c"], "b")
        Steps(stop=('c', 'b'), start=('b', 'c'))
    """
    if strategy == "one_for_all":
        concerned = tuple(order)
    elif strategy == "rest_for_one":
        concerned = tuple(order[list(order).index(failed) :])
    else:
        concerned = (failed,)
    return Steps(tuple(reversed(concerned)), concerned)


def is_expected(
    restart: Restart, shutdown: float | Literal["brutal_kill"], reason: ExitReason
) -> bool:
    """Whether a child that was stopped ended as it should have.

    Examples:
        >>> is_expected("permanent", 5.0, Normal())
        False
    """
    if restart != "permanent" and isinstance(reason, NORMAL):
        return True
    return isinstance(reason, Killed if shutdown in ("brutal_kill", 0) else Shutdown)
