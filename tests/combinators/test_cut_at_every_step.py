"""Each combinator is cancelled before every step of the scheduler, and leaves nothing.

Played by stand-ins, by subagents, and by subagents of which every second turn crashes:
what crashes in the moment of the cancellation must not pass in its place.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors.subagent import reset_ids
from standby_combinators import Stage, SubagentPool
from tests.support.schedule import seeded

from .faults import CASTS, Cast, Drawn
from .teams import CALLS
from .test_every_fault import ROWS

FAULTS: dict[str, tuple[str, ...]] = {
    "all is well": (),
    "turns crash": ("dies mid-turn",),
    "closes fail": ("close raises",),
}


class CutAfter(trio.abc.Instrument):
    """Cancels its scope after so many steps of all tasks."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.scope = trio.CancelScope()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


def cut(row: str, cast: str, fault: str, steps: int) -> bool:
    """Play `row`, cancelled after `steps`, and check it; whether it came to its end before."""
    kinds = FAULTS[fault]
    drawn = Drawn(random.Random(steps), kinds, 0.5)
    made = CASTS[cast](drawn)
    reset_ids()
    with seeded(steps):
        return trio.run(_cut, row, made, steps, clock=trio.testing.MockClock(autojump_threshold=0))


async def _cut(row: str, cast: Cast, steps: int) -> bool:
    before = trio.lowlevel.current_statistics().tasks_living
    cutting = CutAfter(steps)
    pool: SubagentPool | None = None
    is_over = False
    trio.lowlevel.add_instrument(cutting)
    try:
        with cutting.scope:
            what: Any = ROWS[row]
            if row in CALLS:
                await what(**cast.options())
            else:
                async with SubagentPool(**cast.options()) as pool:
                    await what().play("begin", Stage(pool))
            is_over = not cutting.scope.cancel_called
    finally:
        trio.lowlevel.remove_instrument(cutting)
    assert cast.not_closed() == 0
    assert trio.lowlevel.current_statistics().tasks_living == before
    if pool is not None:
        usage, billed = pool.trail.usage(), cast.billed()
        assert (usage.turns, usage.output_tokens) == (billed.turns, billed.output_tokens)
    return is_over


def sweep(row: str, cast: str, fault: str, first: int, every: int) -> int:
    """Cut after `first` steps, `every` more each time, to the end; how often it was cut."""
    for steps in range(first, 100_000, every):
        try:
            if cut(row, cast, fault, steps):
                return steps // every
        except BaseException as error:
            error.add_note(f"cut({row!r}, {cast!r}, {fault!r}, {steps}) plays it again")
            raise
    raise AssertionError("it does not end")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("row", ROWS)
def test_cut_at_some_steps_nothing_is_left(row: str, cast: str, fault: str) -> None:
    # Each at other steps, so that all together are at every one that there is.
    first = 1 + (list(ROWS).index(row) * 7 + list(FAULTS).index(fault) * 3) % 19
    assert sweep(row, cast, fault, first, 19) >= 0


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("row", ROWS)
def test_cut_at_every_step_nothing_is_left(row: str, cast: str, fault: str) -> None:
    assert sweep(row, cast, fault, 1, 1) > 10
