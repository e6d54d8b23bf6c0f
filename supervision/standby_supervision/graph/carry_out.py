"""Carry a graph of tasks out: each as soon as it may, again where it may, and never twice."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import trio
from attrs import define, field, frozen

from standby_actors import Result, TurnError, failed
from standby_actors.result import CUT

from ..backoff import Backoff
from .decide import TaskStatus, next_of
from .graph import Graph, Task

WAIT = Backoff(1.0, cap=30.0)


@frozen
class Attempt:
    """One try of a task: whoever plays it is told."""

    task: Task
    number: int
    """From 1."""
    given: Mapping[str, Result]
    """What came of each that it needs, by its id."""


Play: TypeAlias = Callable[[Attempt], Awaitable[Result]]


@frozen
class Carried:
    """What a graph came to."""

    statuses: Mapping[str, TaskStatus]
    results: Mapping[str, Result]
    """By the ids of the tasks; those that were passed over say why."""
    attempts: Mapping[str, int] = field(factory=dict[str, int])

    @property
    def is_completed(self) -> bool:
        """Every task was answered; not, for one, when all were skipped."""
        return all(status == "completed" for status in self.statuses.values())


async def carry_out(
    graph: Graph,
    play: Play,
    *,
    concurrency: int = 8,
    backoff: Backoff = WAIT,
    is_called_off: Callable[[], bool] = lambda: False,
) -> Carried:
    """Play every task of `graph` that can be played, and return when all are settled.

    A task that fails takes only those with it that need its answer: what is under way
    ends as it does, and everything else goes on.  Cancelled, what is under way is cut,
    and the cancellation goes on.

    Args:
        graph: the tasks.
        play: plays one attempt; what it raises is an error of the program, and ends all:
            it is raised in a group, as nurseries do.
        concurrency: tasks at work at the same time.
        backoff: how long to wait before a task is tried again.
        is_called_off: whether nothing is to begin any more.

    Raises:
        ValueError: no task may be at work at all.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    carrying = _Carrying(graph, play, trio.CapacityLimiter(concurrency), backoff, is_called_off)
    async with trio.open_nursery() as nursery:
        carrying.go_on(nursery)
    return Carried(carrying.statuses, carrying.results, carrying.attempts)


@define(eq=False)
class _Carrying:
    """A graph that is being carried out."""

    graph: Graph
    play: Play
    room: trio.CapacityLimiter
    backoff: Backoff
    is_called_off: Callable[[], bool]
    statuses: dict[str, TaskStatus] = field(factory=dict[str, TaskStatus])
    results: dict[str, Result] = field(factory=dict[str, Result])
    attempts: dict[str, int] = field(factory=dict[str, int])

    def __attrs_post_init__(self) -> None:
        for task in self.graph.tasks:
            self.statuses[task.id] = "queued"

    def go_on(self, nursery: trio.Nursery) -> None:
        """Begin what may begin now, and pass over what never may; waits for nothing."""
        if self.is_called_off():
            for name, status in self.statuses.items():
                if status == "queued":
                    self.settle(name, "cancelled", TurnError("aborted", "it was called off"))
        while True:
            now = next_of(self.graph, self.statuses)
            for name, why in now.skip:
                self.settle(name, "skipped", TurnError("skipped", f"{name!r} {why}"))
            if not now.skip:
                break  # what was passed over may have been needed by others
        for name in now.begin:
            self.statuses[name] = "running"
            nursery.start_soon(self.one, self.graph.task(name), nursery)

    def settle(self, name: str, status: TaskStatus, why: TurnError) -> None:
        """Note the end of a task that was not played."""
        self.statuses[name] = status
        self.results[name] = failed(name, why)

    async def one(self, task: Task, nursery: trio.Nursery) -> None:
        """Try one task until it is answered, or is not to be tried any more."""
        given = {
            need.task: self.results[need.task] for need in task.needs if need.task in self.results
        }
        for number in range(1, task.attempts + 1):
            self.attempts[task.id] = number
            # Not while it waits for its next attempt: others may have the room then.
            async with self.room:
                result = self.results[task.id] = await self.play(Attempt(task, number, given))
            if result.ok or result.status in CUT or number == task.attempts:
                break
            if self.is_called_off():
                break
            await trio.sleep(self.backoff.draw(number, random.Random()))
        result = self.results[task.id]
        cut = result.status in CUT
        self.statuses[task.id] = "completed" if result.ok else "cancelled" if cut else "failed"
        self.go_on(nursery)
