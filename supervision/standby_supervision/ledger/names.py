"""What a session is called in the ledger: `dN_k`, the k-th of route N, never given again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NewType

TaskName = NewType("TaskName", str)
"""As in "d12_3"; scope, branch and head are not encoded in it."""

_GRAMMAR = re.compile(r"d([1-9][0-9]*)_([1-9][0-9]*)")


def task_name(route: int, ordinal: int) -> TaskName:
    """The name of the session with that ordinal, of that route; both from 1.

    Examples:
        >>> task_name(12, 3)
        'd12_3'
    """
    return read_name(f"d{route}_{ordinal}")


def read_name(text: str) -> TaskName:
    """`text` as a name.

    Raises:
        ValueError: it is none.
    """
    if _GRAMMAR.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no name of a session: those are like d12_3")
    return TaskName(text)


def place_of(name: TaskName) -> tuple[int, int]:
    """The route and the ordinal of `name`.

    Examples:
        >>> place_of(task_name(12, 3))
        (12, 3)
    """
    found = _GRAMMAR.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no name of a session: those are like d12_3")
    return int(found[1]), int(found[2])


def next_ordinal(route: int, names: Iterable[TaskName]) -> int:
    """The next ordinal of `route` that none of `names` has, and none before had.

    Examples:
        >>> next_ordinal(12, [task_name(12, 3), task_name(4, 9)])
        4
    """
    return 1 + max((k for n, k in map(place_of, names) if n == route), default=0)
