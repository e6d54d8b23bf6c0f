"""What a store answers when it cannot keep something: each says what, where and what to do.

None of them leaves anything half-written: what was to be appended is in the store whole,
or not at all, and the next attempt is as good as the first.  Only :class:`StoreUnsure`
cannot say which of the two it is.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

StoreErrorKind: TypeAlias = Literal[
    "store_busy",
    "store_full",
    "store_read_only",
    "store_damaged",
    "store_too_new",
    "store_lost",
    "store_unsure",
    "store_closed",
    "store_failed",
    "fenced",
    "run_taken",
    "no_such_run",
]


class StoreError(Exception):
    """A store could not do what it was asked; nothing of it was written.

    :attr:`kind` is one of a closed set, :attr:`where` names the file or the server,
    without a password.
    """

    kind: ClassVar[StoreErrorKind] = "store_failed"
    advice: ClassVar[str] = ""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(where, detail)
        self.where = where
        self.detail = detail

    def __str__(self) -> str:
        said = f"{self.where}: {self.detail}"
        return f"{said}; {self.advice}" if self.advice else said


class StoreBusy(StoreError):
    """Others held the store for longer than one waits for it; asking again may work."""

    kind = "store_busy"
    advice = "nothing was written: try again, or find who holds it"


class StoreFull(StoreError):
    """There is no room where the store is, or a limit on the size of files was met."""

    kind = "store_full"
    advice = "nothing was written: make room and try again"


class StoreReadOnly(StoreError):
    """The store, or its folder, cannot be written by this user."""

    kind = "store_read_only"
    advice = "nothing was written: give this user the right to write there, or name another store"


class StoreDamaged(StoreError):
    """What is there is no store, or one whose pages do not agree with one another."""

    kind = "store_damaged"
    advice = "nothing was changed: keep a copy, and open a backup or a new store"


class StoreTooNew(StoreError):
    """The store was written by a newer version than this one, which does not know its form."""

    kind = "store_too_new"
    advice = "nothing was changed: use the newer version"


class StoreLost(StoreError):
    """The store went away while it was open: its file was moved or deleted, or its server
    does not answer."""

    kind = "store_lost"
    advice = "nothing was written: see that it is where it was, and try again"


class StoreUnsure(StoreError):
    """Nobody has answered whether it was written: it is there whole, or not at all.

    Raised where the connection was lost, or the disk failed, in the middle of a commit, and
    it could not be looked up afterwards.
    """

    kind = "store_unsure"
    advice = "read what is there before it is written again"


class StoreClosed(StoreError):
    """The store's block was left; it takes nothing any more."""

    kind = "store_closed"


class Fenced(StoreError):
    """Somebody else owns the run since: what a former owner still wants to write is refused."""

    kind = "fenced"
    advice = "stop: whatever this process still does for the run is not recorded"


class RunTaken(StoreError):
    """The run has an owner, and that one is at work, for all that can be told."""

    kind = "run_taken"


class NoSuchRun(StoreError):
    """There is no run of that id in this store."""

    kind = "no_such_run"
