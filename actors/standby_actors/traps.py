"""What the runtime yields to trio, and the one private thing it reads.

A coroutine waits in trio by yielding a *trap*.  The public functions of
``trio.lowlevel`` yield it for us; taking it from them once and yielding it
ourselves spares an async call frame for each wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from operator import attrgetter
from types import coroutine
from typing import Any

import outcome
from trio.lowlevel import (
    Abort,
    Task,
    cancel_shielded_checkpoint,
    enable_ki_protection,
    wait_task_rescheduled,
)

SUCCEEDED = Abort.SUCCEEDED
FAILED = Abort.FAILED

AWAKE: outcome.Value[None] = outcome.Value(None)
"""What a waiting task is rescheduled with.  It is shared, so nobody may unwrap it."""


def _abort_nothing(_: Any) -> Abort:
    return SUCCEEDED


_waiting = wait_task_rescheduled(_abort_nothing)  # noqa: ASYNC105 - taken apart, not awaited
WaitTrap: Any = type(_waiting.send(None))
"""Type of trio's trap "reschedule me"; called with an abort function."""
_waiting.close()
_passing: Any = cancel_shielded_checkpoint()  # noqa: ASYNC105 - the same
CHECKPOINT_TRAP: Any = _passing.send(None)
_passing.close()


# protect outermost: `coroutine` makes a new code object, and the protection is a
# mark on the code object.
@enable_ki_protection
@coroutine
def trap(what: Any) -> Generator[Any, Any, Any]:
    """Yield `what` to trio and return, or raise, what comes back."""
    got = yield what
    if got is not AWAKE and got is not None:
        return got.unwrap()
    return None


def _scope_reader() -> Callable[[Task], Any] | None:
    # The innermost cancel scope of a task has no public name.  Its identity is
    # what tells whether a handler has opened a scope of its own, and so whether
    # its wait may be served without a task.  Without it every wait of an async
    # handler is a real wait of trio: slower by a factor of six, and right.
    if os.environ.get("STANDBY_NO_PRIVATE") or not hasattr(Task, "_cancel_status"):
        return None
    return attrgetter("_cancel_status")


scope_of: Callable[[Task], Any] | None = _scope_reader()
"""Reads the identity of a task's innermost cancel scope; None where that cannot be had."""


def pierce(task: Task, outermost: Any) -> bool:
    """Take the shields off that `task` opened inside the scope `outermost`.

    Returns whether there was a way to do it.
    """
    if scope_of is None:
        return False
    status = scope_of(task)
    while status is not None:
        scope = getattr(status, "_scope", None)
        if scope is None or scope is outermost:
            break
        scope.shield = False
        status = getattr(status, "_parent", None)
    return True
