"""Named points at which tests let things go wrong, where no order of turns reaches.

In a program nothing hangs on them: a point is one look at a variable.  They stand
where a life begins, ends or begins again, and never on the way of a message.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

POINTS = {
    "supervisor.start": "a child is about to be started, first or again",
    "supervisor.made": "a child, or its next life, is made, and its start hook has not begun",
    "supervisor.started": "its start hook is done, and nobody has noted it",
    "supervisor.start_failed": "its start has failed, and nobody has noted it",
    "supervisor.stop": "a child is about to be stopped",
    "supervisor.stopped": "a child has ended as it should, and nobody has noted it",
    "supervisor.ended": "the end of a child is about to be judged",
    "supervisor.counted": "a restart has been counted, and not been tried",
    "supervisor.attempt": "a restart that failed, or had to wait, is about to be tried",
    "supervisor.forget": "a child is about to be forgotten",
    "supervisor.give_up": "the supervisor is about to end itself",
    "life.kept": "a life has ended, and its mail is kept for the next",
}
"""All of them, and what has just happened there."""

hook: Callable[[str], object] | None = None


def point(name: str) -> None:
    """Pass the point `name`; a test may raise from here, or do what it likes."""
    if hook is not None:
        hook(name)


@contextlib.contextmanager
def at_points(act: Callable[[str], object]) -> Generator[None]:
    """Call `act` with the name of each point that is passed in the block; for tests."""
    global hook
    before, hook = hook, act
    try:
        yield
    finally:
        hook = before
