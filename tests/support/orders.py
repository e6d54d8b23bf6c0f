"""Every order, not some: a depth-first search through the choices of a run.

Whoever has a choice asks :meth:`Orders.choose`.  The first run takes the first
alternative everywhere; the next replays all choices but the last that has another
alternative left, and takes that; and so on until none is left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any, cast

import trio._core._run as trio_run

_SWITCH = "_ALLOW_DETERMINISTIC_SCHEDULING"


class Orders:
    """The choices of one search, replayed and varied from run to run."""

    def __init__(self, counts: Callable[[Any], bool] | None = None) -> None:
        """Search all orders, or those of the tasks that `counts` is True of."""
        self.runs = 0
        self._counts = counts
        self.is_armed = False
        """Whether choices count; the first alternative is taken otherwise."""
        self._taken: list[tuple[int, int]] = []
        self._at = 0

    @property
    def choices(self) -> list[int]:
        """What this run has chosen, to replay it with."""
        return [chosen for _, chosen in self._taken]

    def choose(self, number: int) -> int:
        """One of `number` alternatives, 0 to ``number - 1``."""
        if number < 2 or not self.is_armed:
            return 0
        if self._at == len(self._taken):
            self._taken.append((number, 0))
        of, chosen = self._taken[self._at]
        assert of == number, "the same choices led to another choice: it cannot be replayed"
        self._at += 1
        return chosen

    def next_run(self) -> bool:
        """Begin the next run; returns whether there is one."""
        self.is_armed = False
        if self.runs:
            del self._taken[self._at :]
            while self._taken and self._taken[-1][1] + 1 == self._taken[-1][0]:
                self._taken.pop()
            if not self._taken:
                return False
            of, chosen = self._taken[-1]
            self._taken[-1] = (of, chosen + 1)
        self._at = 0
        self.runs += 1
        return True

    def shuffle(self, batch: list[Any]) -> None:
        """Put the tasks that trio is about to run into the order that is chosen.

        With `counts`, those that it is False of come last, in their own order.
        """
        racing = batch
        others: list[Any] = []
        if self._counts is not None:
            racing = [each for each in batch if self._counts(each)]
            others = [each for each in batch if each not in racing]
        for at in range(len(racing) - 1):
            one = at + self.choose(len(racing) - at)
            racing.insert(at, racing.pop(one))
        batch[:] = [*racing, *others]

    def before_turn(self, block: Any) -> None:
        """Put the cell that is chosen at the front of a block's run queue.

        One that has nothing to do is no choice: whatever gives it something to do
        queues it once more.
        """
        runq = block.runq
        cells = list(dict.fromkeys(runq))
        one = next((each for each in cells if has_nothing_to_do(each)), None)
        if one is None:
            one = cells[self.choose(len(cells))]
        if runq[0] is not one:
            runq.remove(one)
            runq.appendleft(one)

    # ---- as the pump's seam

    budget = 1
    slice = 0.005

    def clock(self) -> float:
        """No turn takes any time."""
        return 0.0

    @contextlib.contextmanager
    def of_trio(self) -> Generator[None]:
        """Have trio take its ready tasks in the order that is chosen.

        trio has no public name for this.  Only tests use it, and
        ``test_two_tasks_have_all_their_orders`` says if it no longer works.
        """
        allowed = getattr(trio_run, _SWITCH)
        drawn = trio_run._r  # pyright: ignore[reportPrivateUsage]
        setattr(trio_run, _SWITCH, True)
        trio_run._r = cast("Any", self)  # pyright: ignore[reportPrivateUsage]
        try:
            yield
        finally:
            setattr(trio_run, _SWITCH, allowed)
            trio_run._r = drawn  # pyright: ignore[reportPrivateUsage]


def has_nothing_to_do(cell: Any) -> bool:
    """Whether a turn of `cell` would be over at once."""
    extra = cell.extra
    if cell.actor is None:
        return True
    if extra is None:
        return not cell.mailbox
    if extra.worker is not None:
        return False
    if extra.coro is not None:
        is_cut = extra.killed or extra.interrupted
        return not is_cut and extra.waiting is not None and not extra.waiting.state
    return not extra.alert and not cell.mailbox


def search(
    run: Callable[[Orders], object],
    most: int | None = None,
    counts: Callable[[Any], bool] | None = None,
) -> tuple[int, bool]:
    """Call `run` once for each order; returns how many there were, and whether that is all.

    What it raises gets a note with the choices that lead there.

    Args:
        run: made again and again, with the choices of each run.
        most: runs after which the search is left.
        counts: which tasks race; all, unless given.  Of the others the caller knows
            that it makes no difference when they run.
    """
    orders = Orders(counts)
    while orders.next_run():
        if most is not None and orders.runs > most:
            return most, False
        try:
            run(orders)
        except BaseException as error:
            error.add_note(f"run {orders.runs}, choices {orders.choices}")
            raise
    return orders.runs, True
