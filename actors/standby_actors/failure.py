"""What an exception out of a handler means: decided here, done by the block."""

from __future__ import annotations

from typing import Literal

import trio
from attrs import frozen

from .sendable import sendable

Cut = Literal["no", "interrupted", "killed"]


@frozen
class Crash:
    """The actor failed with :attr:`error`."""

    error: BaseException


@frozen
class WasCut:
    """The runtime cut the handler.

    :attr:`masked` is an error that the cut may have hidden: it was in flight, or
    being handled, when ``Cancelled`` came.  Nobody can tell the two apart, so it
    is reported and never counted as a crash.
    """

    masked: BaseException | None


@frozen
class Fatal:
    """Something that ends the program, not the actor: it goes to the block's owner."""

    error: BaseException


Verdict = Crash | WasCut | Fatal


class StrayCancelled(RuntimeError):
    """A handler raised a ``trio.Cancelled`` that no scope of its own had caused."""


def judge(error: BaseException, cut: Cut) -> Verdict:
    """Say what `error`, which left a handler or a hook, means.

    Pure.  A group of one is its only member, so that a handler with a nursery
    fails as one without.

    Args:
        error: what was raised.
        cut: whether the runtime had cut this handler, and how.

    Examples:
        >>> judge(ExceptionGroup("one", [KeyError(1)]), "no")
        Crash(error=KeyError(1))
        >>> judge(KeyboardInterrupt(), "no")
        Fatal(error=KeyboardInterrupt())
        >>> judge(KeyError(1), "killed")
        WasCut(masked=KeyError(1))
    """
    is_group = isinstance(error, BaseExceptionGroup)
    if cut == "no" and not is_group and isinstance(error, Exception):
        return Crash(error)  # as nearly all; what follows would say the same, and takes longer
    if isinstance(error, BaseExceptionGroup):
        cancelled, rest = error.split(trio.Cancelled)
        if cancelled is not None and cut != "no":
            error = rest if rest is not None else _first_of(cancelled)
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
    if isinstance(error, trio.Cancelled) and cut != "no":
        context = error.__context__
        while isinstance(context, trio.Cancelled):
            context = context.__context__
        return WasCut(context)
    if _is_fatal(error):
        return Fatal(error)
    if cut == "killed":
        return WasCut(error)
    if isinstance(error, trio.Cancelled):
        stray = StrayCancelled("a handler raised a Cancelled that was not its own")
        stray.__cause__ = error
        return Crash(stray)
    return Crash(error)


def _first_of(group: BaseExceptionGroup[trio.Cancelled]) -> BaseException:
    """One of the cancellations in `group`; a nursery hands on one from each of its tasks."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_fatal(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_fatal(each) for each in error.exceptions)
    return not isinstance(error, Exception | trio.Cancelled)


def described(error: BaseException) -> str:
    """The type of `error` and what it says, also where it cannot say anything.

    Examples:
        >>> described(KeyError("k"))
        "KeyError: 'k'"
    """
    try:
        says = str(error)
    # Its words are the program's own code.  Who reports a crash must outlive them:
    # it is the pump, or a supervisor in the middle of a restart.
    except Exception as broken:
        says = f"(its own words failed: {type(broken).__name__})"
    return sendable(f"{type(error).__name__}: {says}")
