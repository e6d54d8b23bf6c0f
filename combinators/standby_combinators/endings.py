"""Errors that came together: failures, which are counted, and what ends more than a turn."""

from __future__ import annotations

from typing import Any


def without_failures(group: BaseExceptionGroup[Any]) -> BaseException:
    """What is left of `group` without its failures: a cancellation, a Ctrl-C.

    A block in which something fails while it is cancelled raises both at once.  The
    cancellation is what has to pass; a failure that went along would end the whole
    program of somebody who has cancelled a team.

    Examples:
        >>> group = BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError()])
        >>> without_failures(group)
        BaseExceptionGroup('both', [KeyboardInterrupt()])
    """
    _, rest = group.split(Exception)
    return group if rest is None else rest
