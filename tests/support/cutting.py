"""Something is done at a step of the scheduler, so that a test can do it at each in turn."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

import trio


class CutAt(trio.abc.Instrument):
    """Calls `cut` before the `step`th step of any task within its block.

    Args:
        step: from 1.
        cut: what is done, as in `scope.cancel`.
    """

    def __init__(self, step: int, cut: Callable[[], object]) -> None:
        self._left, self._cut = step, cut

    def __enter__(self) -> CutAt:
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        trio.lowlevel.remove_instrument(self)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count it."""
        self._left -= 1
        if self._left == 0:
            self._cut()

    @property
    def was_late(self) -> bool:
        """The block had fewer steps, so that nothing was cut."""
        return self._left > 0
