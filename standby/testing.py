"""What tests of actors need: virtual time, a seeded pump, and checks that nothing is left.

``trio.testing.MockClock(autojump_threshold=0)`` is the virtual clock: the
runtime reads no other.  :class:`PumpSeam` makes a block serve one turn at a
time, in an order drawn from a seed.  :func:`z_checks` raises if what ran inside
it left a task, a name, an unanswered ask, a thread or a file behind.
"""

from __future__ import annotations

import contextlib
import contextvars
import gc
import os
import random
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, TypeVar

import trio
from attrs import define, field

from standby_actors import Actor, Reply
from standby_actors import block as _block
from standby_actors import reply as _reply

T = TypeVar("T")


class PumpSeam:
    """Gives tests the pump: its budget, its choice of the next cell, and its clock.

    Args:
        seed: what the choices are drawn from; None leaves the order as it is.
        budget: turns before the pump passes a checkpoint; 1 lets the scheduler
            in after each.
        turn_seconds: how long each turn seems to take, for the pump's own slice.
        before_turn: called before each turn with the number of the turn, from 1.
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        budget: int = 1,
        slice: float = 0.005,  # noqa: A002 - the word for it
        turn_seconds: float = 0.0,
        before_turn: Callable[[int], None] | None = None,
    ) -> None:
        self.budget = budget
        self.slice = slice
        self.turns = 0
        self._random = random.Random(seed) if seed is not None else None
        self._turn_seconds = turn_seconds
        self._now = 0.0
        self._before_turn = before_turn

    def clock(self) -> float:
        """The clock of the pump's slice: what handlers have spent of it."""
        return self._now

    def spend(self, seconds: float) -> None:
        """Let a handler have taken `seconds`."""
        self._now += seconds

    def before_turn(self, block: Any) -> None:
        """Called by the pump."""
        self.turns += 1
        self._now += self._turn_seconds
        if self._random is not None and len(block.runq) > 1:
            block.runq.rotate(-self._random.randrange(len(block.runq)))
        if self._before_turn is not None:
            self._before_turn(self.turns)

    @contextlib.contextmanager
    def installed(self) -> Generator[PumpSeam]:
        """Have every block that is opened inside use this seam."""
        token: contextvars.Token[Any] = _block.seam.set(self)
        try:
            yield self
        finally:
            _block.seam.reset(token)


class Probe(Actor):
    """Keeps every message it gets, and answers each with itself."""

    capacity = float("inf")

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def receive(self, message: Any) -> Any:
        """Keep `message`."""
        self.messages.append(message)
        return message


@define(eq=False)
class Baseline:
    """What a process holds before a test: threads and open files."""

    threads: int = field(factory=threading.active_count)
    files: int = field(factory=lambda: len(os.listdir("/proc/self/fd")))


class LeftBehind(AssertionError):
    """Raised by :func:`z_checks`; says what is still there, and whose it is."""


@contextlib.contextmanager
def z_checks(*, files: bool = False) -> Generator[None]:
    """Raise :class:`LeftBehind` if what runs inside leaves something behind.

    Z1: every block opened inside is closed, with no task, actor or handler
    left.  Z4: no name and no group is in use.  Z6: every ask has resolved.  Z8,
    with ``files=True``: no thread and no open file more than before.

    It looks when the block is left without an error.
    """
    opened: list[_block.Block] = []
    before = Baseline()
    _block.opened_hooks.append(opened.append)
    try:
        yield
    finally:
        _block.opened_hooks.remove(opened.append)
    faults: list[str] = []
    for block in opened:
        faults.extend(_faults_of(block))
    if _reply.adopted:
        faults.append(f"Z1: handlers still have a task: {sorted(map(str, _reply.adopted))}")
    if opened:
        for reply in _open_asks():
            faults.append(f"Z6: an ask of {reply.target} is still open: {reply.message!r}")
    if files:
        after = Baseline()
        if after.threads > before.threads:
            names = [thread.name for thread in threading.enumerate()]
            faults.append(f"Z8: {after.threads - before.threads} more threads: {names}")
        if after.files > before.files:
            faults.append(f"Z8: {after.files - before.files} more open files")
    if faults:
        raise LeftBehind("\n".join(faults))


def _faults_of(block: _block.Block) -> Iterator[str]:
    if not block.closed:
        yield f"Z1: {block.name} was not left"
        return
    if block.nursery.child_tasks:
        yield f"Z1: tasks of {block.name}: {[task.name for task in block.nursery.child_tasks]}"
    if block.root.is_alive or (block.root.extra and block.root.extra.children):
        yield f"Z1: actors of {block.name} are alive:\n{block.root.snapshot().render()}"
    if block.stepping is not None or block.running is not None or block.stack:
        yield f"Z1: {block.name} thinks that a handler is running"
    if block.owner is None and len(block.names):
        yield f"Z4: names of {block.name} in use: {block.names.names()}"


def _open_asks() -> list[Any]:
    return [
        each
        for each in gc.get_objects()
        if type(each) is Reply
        and not each.done
        and each.target is not None
        and not each.target.is_alive
    ]


def sweep(
    scenario: Callable[[Callable[[int], None]], Awaitable[T]],
    *,
    most: int = 10_000,
    clock: Callable[[], trio.abc.Clock] | None = None,
) -> int:
    """Run `scenario` again and again, cut one step later each time, until it is not cut.

    A step is one of trio's, or one turn of a pump.  In run `k` the scope around
    the scenario is cancelled before step `k`.  Returns the number of runs.
    After SQLite's "fail at point n".

    Args:
        scenario: called with a function that marks the turns of a pump; a
            :class:`PumpSeam` takes it as ``before_turn``.
        most: runs after which the scenario is taken to have no end.
        clock: makes the clock of each run; by default a virtual one that jumps.
    """
    for cut in range(1, most):
        if not _run_cut(scenario, cut, clock):
            return cut
    raise AssertionError(f"the scenario was still cut at step {most}")


def _run_cut(
    scenario: Callable[[Callable[[int], None]], Awaitable[Any]],
    cut: int,
    clock: Callable[[], trio.abc.Clock] | None,
) -> bool:
    import trio.testing  # it is not part of `import trio`

    was_cut = False

    async def main() -> None:
        nonlocal was_cut
        steps = 0
        with trio.CancelScope() as scope:

            def count(_: object = None) -> None:
                nonlocal steps, was_cut
                steps += 1
                if steps == cut:
                    was_cut = True
                    scope.cancel()

            class Steps(trio.abc.Instrument):
                def before_task_step(self, task: trio.lowlevel.Task) -> None:
                    count()

            instrument = Steps()
            trio.lowlevel.add_instrument(instrument)
            try:
                await scenario(count)
            finally:
                trio.lowlevel.remove_instrument(instrument)

    with z_checks():
        trio.run(main, clock=clock() if clock else trio.testing.MockClock(autojump_threshold=0))
    return was_cut
