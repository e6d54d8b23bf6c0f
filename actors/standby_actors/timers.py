"""One heap of deadlines for a block, and one task that sleeps to the first."""

from __future__ import annotations

import heapq
import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

import trio
from trio.lowlevel import enable_ki_protection

SWEEP_AT = 1024
"""Entries in the heap before the dead ones among them are looked for."""


class Timer:
    """A call that is due at a time.  :meth:`cancel` it as often as you like."""

    __slots__ = ("args", "due", "number", "run")

    def __init__(
        self, due: float, number: int, run: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self.due = due
        """When, in seconds on trio's clock."""
        self.number = number
        self.run: Callable[..., object] | None = run
        self.args = args

    def cancel(self) -> None:
        """Never run it.  One that has run, or was cancelled, stays as it is."""
        self.run = None
        self.args = ()

    @property
    def is_pending(self) -> bool:
        """Whether it has neither run nor been cancelled."""
        return self.run is not None

    @property
    def is_dead(self) -> bool:
        """Whether running it would do nothing: cancelled, or for a reply that is there."""
        return self.run is None or (bool(self.args) and getattr(self.args[0], "state", 0) != 0)

    def __lt__(self, other: Timer) -> bool:
        return (self.due, self.number) < (other.due, other.number)


class Timers:
    """The deadlines of one block.

    Timers due at the same time run in the order in which they were set.  Under a
    virtual clock they run at their exact time; on a real clock wakes are at
    least a millisecond apart.
    """

    __slots__ = (
        "_closed",
        "_failed",
        "_heap",
        "_numbers",
        "_slack",
        "_sleep",
        "_start",
        "_sweep_at",
    )

    def __init__(
        self,
        start: Callable[[Callable[[], Any]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._heap: list[Timer] = []
        self._numbers = itertools.count()
        self._start = start
        self._failed = failed
        self._sleep: trio.CancelScope | None = None
        self._sweep_at = SWEEP_AT
        self._closed = False
        self._slack = 0.0 if _clock_is_virtual() else 0.001

    def at(self, due: float, run: Callable[..., object], *args: Any) -> Timer:
        """Call ``run(*args)`` at `due`, seconds on trio's clock; inf is never."""
        timer = Timer(due, next(self._numbers), run, args)
        if due == math.inf or self._closed:
            return timer
        heap = self._heap
        if len(heap) >= self._sweep_at:
            heap[:] = [each for each in heap if not each.is_dead]
            heapq.heapify(heap)
            self._sweep_at = max(SWEEP_AT, 2 * len(heap))
        heapq.heappush(heap, timer)
        if self._sleep is None:
            self._sleep = trio.CancelScope(deadline=due, shield=True)
            self._start(self._tick)
        elif due < self._sleep.deadline:
            self._sleep.deadline = due
        return timer

    def after(self, seconds: float, run: Callable[..., object], *args: Any) -> Timer:
        """Call ``run(*args)`` `seconds` from now."""
        return self.at(trio.current_time() + seconds, run, *args)

    def close(self) -> None:
        """Run no timer any more; the task that slept ends."""
        self._closed = True
        self._heap.clear()
        if self._sleep is not None:
            self._sleep.cancel()

    @enable_ki_protection
    async def _tick(self) -> None:
        # Shielded, as the workers are: a stop that a cancellation began needs its
        # deadlines.  The block ends it with close().
        heap = self._heap
        while heap and self._sleep is not None:
            with self._sleep:
                await trio.sleep_forever()
            if self._closed:
                break
            now = trio.current_time()
            while heap and heap[0].due <= now:
                timer = heapq.heappop(heap)
                run, timer.run = timer.run, None
                if run is None:
                    continue
                try:
                    run(*timer.args)
                # What runs here is the runtime's own.  A bug in it fails the block, but
                # the other deadlines stand, or no stop would be bounded any more.
                except BaseException as error:
                    self._failed(error)
            while heap and heap[0].run is None:
                heapq.heappop(heap)
            deadline = max(heap[0].due, now + self._slack) if heap else math.inf
            self._sleep = trio.CancelScope(deadline=deadline, shield=True) if heap else None


def _clock_is_virtual() -> bool:
    # `import trio` does not import trio.testing, and whoever has made a MockClock has.
    testing = sys.modules.get("trio.testing")
    return testing is not None and isinstance(trio.lowlevel.current_clock(), testing.MockClock)
