"""Errors that came together: failures, which are counted, and what ends more than a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from standby_actors.failure import described
from standby_actors.result import TurnError

T = TypeVar("T")


def raised_by(what: str, error: Exception) -> TurnError:
    """The error of a team whose user's function `what` has raised `error`."""
    why = f"{what} raised: {described(error).removesuffix(': ')}"
    return TurnError("crash", why).with_cause(error)


def attempt(what: str, call: Callable[[], T]) -> T | TurnError:
    """What `call` returns; what it raises is a failure of the team that it belongs to.

    To raise it here would lose the turns that were played, and paid for.

    Examples:
        >>> str(attempt("pick()", lambda: 1 / 0))
        'crash: pick() raised: ZeroDivisionError: division by zero'
    """
    try:
        return call()
    # A combinator counts failures.
    except Exception as error:
        return raised_by(what, error)


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
