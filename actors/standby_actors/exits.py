"""How an actor ended: a closed set of values.

After OTP's exit reasons, but as types: ``match`` them, and the checker says
when one is forgotten.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from .failure import described


@frozen
class Normal:
    """It ended by itself."""

    def __str__(self) -> str:
        return "normal"


@frozen
class Shutdown:
    """It was asked to stop, by its owner or by who holds its ref, and did."""

    detail: str = ""

    def __str__(self) -> str:
        return f"shutdown ({self.detail})" if self.detail else "shutdown"


@frozen
class Killed:
    """It was killed, or did not stop within its ``shutdown`` seconds."""

    detail: str = ""

    def __str__(self) -> str:
        return f"killed ({self.detail})" if self.detail else "killed"


@frozen
class Crashed:
    """A handler or hook of its raised :attr:`error`."""

    error: BaseException

    def __str__(self) -> str:
        return f"crashed ({described(self.error)})"


@frozen
class Linked:
    """Somebody it is linked to, at :attr:`path`, ended abnormally."""

    path: str
    reason: ExitReason

    def __str__(self) -> str:
        first = self
        while isinstance(first.reason, Linked):  # not by recursion: a chain may be long
            first = first.reason
        through = f" and through it to {first.path}" if first is not self else ""
        return f"linked to {self.path}{through}, which {first.reason}"


@frozen
class NoProcess:
    """There was nobody alive to watch."""

    def __str__(self) -> str:
        return "no process"


ExitReason = Normal | Shutdown | Killed | Crashed | Linked | NoProcess


@frozen
class Stuck:
    """What ``stop()`` answers for an actor that outlived its kill by ``grace``.

    The actor takes no message any more and its name is free, but its task is
    alive: it sits in a shield, in a thread that cannot be abandoned, or it
    swallows ``trio.Cancelled``.  Its block cannot be left before it ends.
    """

    path: str
    stack: str

    def __str__(self) -> str:
        return f"stuck: {self.path} outlived its kill\n{self.stack}"


@frozen
class Down:
    """What a monitor delivers: :attr:`ref` has ended with :attr:`reason`."""

    ref: Any
    reason: ExitReason


@frozen
class Exit:
    """What a link delivers to an actor that traps exits."""

    ref: Any
    reason: ExitReason


def abnormal(reason: ExitReason) -> bool:
    """Whether links spread `reason` (OTP: anything but normal and shutdown)."""
    return isinstance(reason, Crashed | Linked | Killed)


def root_cause(reason: ExitReason) -> BaseException | None:
    """The error at the start of a chain of links; None where nothing crashed."""
    while isinstance(reason, Linked):
        reason = reason.reason
    return reason.error if isinstance(reason, Crashed) else None


def path_of_cause(reason: ExitReason, path: str) -> str:
    """Which actor the chain of links starts at, for one at `path` that ended so."""
    while isinstance(reason, Linked):
        path, reason = reason.path, reason.reason
    return path
