"""A graph of tasks: who needs whom, in which way, and who writes where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

import msgspec

Policy: TypeAlias = Literal["completed", "settled", "any"]
"""What a task wants of one that it needs.  `completed`: its answer.  `settled`: that it is
over, however it ended.  `any`: of all that are needed in this way, one answer is enough."""


class Need(msgspec.Struct, frozen=True, omit_defaults=True):
    """An edge: what is needed, and in which way."""

    task: str
    policy: Policy = "completed"


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One piece of work."""

    id: str
    needs: tuple[Need, ...] = ()
    attempts: int = 1
    """How often it may be tried; each is a new one, and its failure is not the task's
    until the last."""
    writes: tuple[str, ...] = ()
    """Files and folders, below one root, that it changes: no two tasks that change the
    same are at work at the same time."""


class BadGraph(ValueError):
    """Raised for a graph that cannot be carried out; every fault, a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "; ".join(self.problems)


class Graph(msgspec.Struct, frozen=True):
    """Tasks that can be carried out, in the order in which they were given."""

    tasks: tuple[Task, ...]

    def task(self, id: str) -> Task:  # noqa: A002 - as a task has it
        """The task of that id."""
        return next(task for task in self.tasks if task.id == id)


def graph_of(tasks: Iterable[Task]) -> Graph:
    """Check `tasks`, and make a graph of them.

    Raises:
        BadGraph: two have one id, one needs what there is not, they wait for one
            another in a circle, or a path leads out of the root.

    Examples:
        >>> for tasks in (
        ...     [Task("a", (Need("b"),)), Task("b", (Need("a"),))],
        ...     [Task("read"), Task("sum", (Need("raed"),))],
        ... ):
        ...     try:
        ...         graph_of(tasks)
        ...     except BadGraph as error:
        ...         print(error)
        tasks wait for one another: a -> b -> a
        'sum' needs 'raed', which there is not: 'read'?
    """
    tasks = tuple(tasks)
    there: dict[str, Task] = {}
    problems: list[str] = []
    for task in tasks:
        if task.id in there:
            problems.append(f"two tasks are called {task.id!r}")
        there[task.id] = task
    for task in tasks:
        for need in task.needs:
            if need.task not in there:
                near = difflib.get_close_matches(need.task, there, 1)
                meant = f": {near[0]!r}?" if near else ""
                problems.append(f"{task.id!r} needs {need.task!r}, which there is not{meant}")
        if task.attempts < 1:
            problems.append(f"{task.id!r} is to be tried {task.attempts} times; 1 is the least")
        problems.extend(
            f"{task.id!r} writes {path!r}, which is no path below the root"
            for path in task.writes
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts
        )
    circle = circle_of({task.id: [need.task for need in task.needs] for task in tasks})
    if circle is not None:
        problems.append(f"tasks wait for one another: {' -> '.join(circle)}")
    if problems:
        raise BadGraph(problems)
    return Graph(tasks)


def circle_of(needs: Mapping[str, Iterable[str]]) -> list[str] | None:
    """The first circle that there is, from one name back to itself; None without one.

    Names that are needed and are not there are passed over.

    Examples:
        >>> circle_of({"a": ["b", "x"], "b": ["c"], "c": ["b"]})
        ['b', 'c', 'b']
        >>> circle_of({"a": ["b"], "b": []})
    """
    done: set[str] = set()
    for start in needs:
        # Each entry is a name and those of its needs that are still to be looked at: not by
        # calls of oneself, as a chain may be longer than the interpreter's stack.
        stack = [(start, iter(needs[start]))] if start not in done else []
        path = {name: None for name, _ in stack}
        while stack:
            name, rest = stack[-1]
            need = next(rest, None)
            if need is None:
                done.add(name)
                stack.pop()
                del path[name]
            elif need in path:
                names = list(path)
                return [*names[names.index(need) :], need]
            elif need in needs and need not in done:
                stack.append((need, iter(needs[need])))
                path[need] = None
    return None


def overlap(one: Task, other: Task) -> bool:
    """Whether both write to one place, or one into a folder of the other's.

    Examples:
        >>> overlap(Task("a", writes=("src",)), Task("b", writes=("src/x.py",)))
        True
        >>> overlap(Task("a", writes=("src/x",)), Task("b", writes=("src/xy",)))
        False
    """
    return any(
        mine == theirs or mine in theirs.parents or theirs in mine.parents
        for mine in map(PurePosixPath, one.writes)
        for theirs in map(PurePosixPath, other.writes)
    )
