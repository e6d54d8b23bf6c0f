"""Parts of the core that only its own tests look at."""

from __future__ import annotations

import pytest
import trio

from standby_actors import Nursery, traps
from standby_actors.block import Block

needs_private_read = pytest.mark.skipif(
    traps.scope_of is None,
    reason="without the private read of a task's scope the core cannot do this (rules R8, R14)",
)


def block_of(nursery: Nursery) -> Block:
    """The mechanics behind `nursery`."""
    return nursery._block  # pyright: ignore[reportPrivateUsage]


class TasksStarted(trio.abc.Instrument):
    """Counts the tasks that trio starts while it is installed by ``with``."""

    def __init__(self) -> None:
        self.count = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """Called by trio."""
        self.count += 1

    def __enter__(self) -> TasksStarted:
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *_: object) -> None:
        trio.lowlevel.remove_instrument(self)
