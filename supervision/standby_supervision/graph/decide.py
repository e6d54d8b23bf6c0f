"""What is to be done next in a graph of tasks: decided from what there is, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import frozen

from .graph import Graph, Need, Task, overlap

TaskStatus: TypeAlias = Literal["queued", "running", "completed", "failed", "skipped", "cancelled"]
"""`failed`: its last attempt failed.  `skipped`: what it needs did not come.  `cancelled`:
it was cut, or was to begin when everything was called off."""

SETTLED = frozenset({"completed", "failed", "skipped", "cancelled"})


@frozen
class Next:
    """What is to be done now."""

    begin: tuple[str, ...] = ()
    skip: tuple[tuple[str, str], ...] = ()
    """Tasks whose needs cannot be met any more, and why."""


def next_of(graph: Graph, statuses: Mapping[str, TaskStatus]) -> Next:
    """What may begin, and what is to be passed over.

    A task begins as soon as what it needs has ended: no other is waited for.  Of two
    that write to the same place the one that was given first begins first.

    Examples:
        >>> from .graph import graph_of
        >>> graph = graph_of([Task("a"), Task("b"), Task("c", (Need("a"),))])
        >>> next_of(graph, {"a": "completed", "b": "running", "c": "queued"}).begin
        ('c',)
        >>> next_of(graph, {"a": "failed", "b": "running", "c": "queued"}).skip
        (('c', "needs 'a', which failed"),)
    """
    begin: list[str] = []
    skip: list[tuple[str, str]] = []
    at_work = [task for task in graph.tasks if statuses[task.id] == "running"]
    for task in graph.tasks:
        if statuses[task.id] != "queued":
            continue
        why = hopeless(task, statuses)
        if why:
            skip.append((task.id, why))
            continue
        is_free = not any(overlap(task, other) for other in at_work)
        if is_free and is_ready(task, statuses):
            begin.append(task.id)
            at_work.append(task)
    return Next(tuple(begin), tuple(skip))


def is_ready(task: Task, statuses: Mapping[str, TaskStatus]) -> bool:
    """Whether everything that `task` needs is there."""
    of_any = [need for need in task.needs if need.policy == "any"]
    return all(_is_met(need, statuses) for need in task.needs if need.policy != "any") and (
        not of_any or any(statuses[need.task] == "completed" for need in of_any)
    )


def hopeless(task: Task, statuses: Mapping[str, TaskStatus]) -> str:
    """Why `task` can never begin; empty if it still may."""
    for need in task.needs:
        status = statuses[need.task]
        if need.policy == "completed" and status in SETTLED and status != "completed":
            return f"needs {need.task!r}, which {_told(status)}"
    of_any = [need.task for need in task.needs if need.policy == "any"]
    ended = [statuses[name] for name in of_any]
    if of_any and all(each in SETTLED and each != "completed" for each in ended):
        return f"needs one of {', '.join(map(repr, of_any))}, of which none was completed"
    return ""


def _is_met(need: Need, statuses: Mapping[str, TaskStatus]) -> bool:
    status = statuses[need.task]
    return status == "completed" if need.policy == "completed" else status in SETTLED


def _told(status: TaskStatus) -> str:
    return "failed" if status == "failed" else f"was {status}"
