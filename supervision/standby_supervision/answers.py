"""What a supervisor answers to those who administer it: a closed set of values."""

from __future__ import annotations

from typing import Any

import msgspec

from standby_actors import Ref, Stuck

from .child import ChildSpec


class Started(msgspec.Struct, frozen=True, tag=True):
    """The child runs."""

    ref: Ref[Any]


class Ignored(msgspec.Struct, frozen=True, tag=True):
    """Its start hook said that there is nothing to run."""


class AlreadyStarted(msgspec.Struct, frozen=True, tag=True):
    """A child with that id runs, or an actor with that name."""

    ref: Ref[Any]


class AlreadyPresent(msgspec.Struct, frozen=True, tag=True):
    """A child with that id is known, and does not run."""


class StartError(msgspec.Struct, frozen=True, tag=True):
    """The child failed to start; nothing was kept of a new one."""

    error: BaseException


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The specification cannot be meant."""

    rule: str
    detail: str
    child: str = ""
    """Id of the child that it is about; "supervisor" for the supervisor's own flags."""


class TooMany(msgspec.Struct, frozen=True, tag=True):
    """``max_children`` children run."""

    limit: float


class Done(msgspec.Struct, frozen=True, tag=True):
    """It is as asked for."""


class NotFound(msgspec.Struct, frozen=True, tag=True):
    """There is no child with that id."""


class Running(msgspec.Struct, frozen=True, tag=True):
    """The child runs; stop it first."""


class Restarting(msgspec.Struct, frozen=True, tag=True):
    """The child is between two lives; stop it first."""


class WrongStrategy(msgspec.Struct, frozen=True, tag=True):
    """That cannot be asked of a supervisor with this strategy."""

    strategy: str


StartAnswer = (
    Started
    | Ignored
    | AlreadyStarted
    | AlreadyPresent
    | StartError
    | Refused
    | TooMany
    | WrongStrategy
)
RestartAnswer = Started | Ignored | StartError | Running | Restarting | NotFound | WrongStrategy
TerminateAnswer = Done | Stuck | NotFound | WrongStrategy
DeleteAnswer = Done | Running | Restarting | NotFound | WrongStrategy
UpdateAnswer = Done | Refused


class ChildInfo(msgspec.Struct, frozen=True):
    """One child, as ``which_children`` shows it."""

    id: str
    state: str
    """``"running"``, ``"restarting"`` or ``"undefined"``: known, and not running."""
    ref: Ref[Any] | None
    type: str
    restarts: int
    """How often it was started again."""
    last_reason: str
    """How its last life ended; empty where it has had one only."""
    spec: ChildSpec


class Counts(msgspec.Struct, frozen=True):
    """Children, counted as OTP does."""

    specs: int
    active: int
    supervisors: int
    workers: int
