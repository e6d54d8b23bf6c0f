"""Tells who holds the loop: a thread looks while it happens."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator
from types import FrameType
from typing import Any

import trio
from attrs import frozen

from .block import open_blocks
from .cell import Cell
from .events import emit
from .kind import checked_seconds
from .reply import adopted

logger = logging.getLogger("standby")

FRAMES = 12
"""Frames of the stack that are reported, the innermost."""


@frozen
class Hold:
    """The loop is held: one step of one task goes on and on."""

    actor: str
    """Path of the actor whose handler holds it; the name of the task where none does."""
    seconds: float
    """How long already, at least."""
    stack: str
    """What the loop's thread is doing, outermost call first."""

    def __str__(self) -> str:
        return (
            f"{self.actor} holds the loop for {self.seconds * 1000:.0f} ms already: "
            f"nobody else runs\n{self.stack}"
        )


class _Steps(trio.abc.Instrument):
    """Knows which task is being stepped; all that it costs is two stores a step."""

    def __init__(self) -> None:
        # The step in which the watch begins is one, and nobody has announced it.
        self.step = 1
        self.task: trio.lowlevel.Task | None = trio.lowlevel.current_task()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.step += 1
        self.task = task

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.task = None


class _Watch:
    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._loop = threading.get_ident()
        self._token = trio.lowlevel.current_trio_token()
        self._blocks = open_blocks()
        self._over = threading.Event()
        self.steps = _Steps()
        self.thread = threading.Thread(target=self._watch, name="standby watch", daemon=True)

    def close(self) -> None:
        self._over.set()
        self.thread.join()

    def _watch(self) -> None:
        steps = self.steps
        seen = reported = 0
        since = time.monotonic()
        while not self._over.wait(self._threshold / 2):
            task, step = steps.task, steps.step
            now = time.monotonic()
            if task is None or step != seen:
                seen, since = step, now
            elif now - since >= self._threshold and step != reported:
                hold = self._look(task, now - since)
                if steps.step == step and hold is not None:  # it was still the same one
                    reported = step
                    self._report(hold)

    def _look(self, task: trio.lowlevel.Task, seconds: float) -> Hold | None:
        # It has no other name, and the manual has it.
        frame = sys._current_frames().get(self._loop)  # pyright: ignore[reportPrivateUsage]
        if frame is None:
            return None
        cell = self._holder(task)
        actor = cell.path if cell is not None else task.name
        return Hold(actor, seconds, _render(frame))

    def _holder(self, task: trio.lowlevel.Task) -> Cell[Any] | None:
        """The actor whose handler is in progress, as far as another thread can see."""
        blocks = list(self._blocks)
        for block in reversed(blocks):
            if block.making is not None:  # in whichever task its last life ended
                return block.making
            for asked in block.stack[-1:]:  # it answers an ask in the asker's own task
                return asked
        cell = adopted.get(task)
        if cell is not None:
            return cell
        for block in blocks:
            if block.worker is task:
                return block.running or block.stepping
        return None

    def _report(self, hold: Hold) -> None:
        logger.warning("%s", hold)
        began = time.monotonic() - hold.seconds

        def tell() -> None:
            # Only now is the loop free to tell its listeners, and knows how long it took.
            seconds = time.monotonic() - began
            emit("loop.held", hold.actor, seconds=seconds, stack=hold.stack)

        # Unless it was the last thing that this run did.
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(tell)


def _render(frame: FrameType) -> str:
    return "".join(traceback.format_list(traceback.extract_stack(frame)[-FRAMES:])).rstrip()


@contextlib.asynccontextmanager
async def watch_loop(threshold: float = 0.05) -> AsyncGenerator[None]:
    """Report whoever holds the loop for longer than `threshold`, while it happens.

    A plain handler that computes for long, or calls what blocks, stops everybody
    else in the same loop; from the inside nobody can see that.  So a thread looks,
    and logs the actor's path and the stack as a warning, once for each time.  When
    the loop is free again, an event ``loop.held`` says the same, with how long it
    took in all.

    The thread wakes twice in `threshold`, and each step of a task costs a little
    more.  Python code is seen; a call that keeps the interpreter to itself is seen
    when it is over.

    Args:
        threshold: seconds; what takes up to half as much longer may go unseen.
    """
    checked_seconds("threshold", threshold)
    watch = _Watch(threshold)
    trio.lowlevel.add_instrument(watch.steps)
    watch.thread.start()
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(watch.steps)
        watch.close()
