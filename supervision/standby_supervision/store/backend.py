"""What a database must be able to do to hold a store.

A backend is plain and synchronous: :class:`~standby_supervision.store.store.Store` calls it
from one thread at a time, or from two if it reads on a connection of its own, and puts
commands of many askers into one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from .errors import StoreError
from .records import Command, RunRow, StoredEvent

Outcome: TypeAlias = int | StoreError
"""What a command came to: the last `seq` of the run, or for a claim the new epoch."""


class Backend(Protocol):
    """A database that holds a store."""

    @property
    def where(self) -> str:
        """Its file or server, for people, without a password."""
        ...

    @property
    def reads_apart(self) -> bool:
        """Reading is done while a transaction is being written, on a connection of its own."""
        ...

    def open(self) -> None:
        """Connect, and bring the schema up to date.

        Raises:
            StoreError: it cannot be opened; nothing was changed.
        """
        ...

    def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        """Do all of `commands` in one transaction, in order, and sync it.

        A command that is refused (:class:`Fenced`, :class:`RunTaken`,
        :class:`NoSuchRun`) has its error as its outcome and leaves the others alone.

        Raises:
            StoreError: the transaction failed; nothing of any command was written.
            StoreUnsure: it is not known whether all of them were written, or none.
        """
        ...

    def events(self, run: str | None, after: int, limit: int) -> list[StoredEvent]:
        """Up to `limit` acknowledged events, in order: of `run` those whose `seq` is
        above `after`, or of all runs those whose `position` is."""
        ...

    def rows(self, workspace: str | None) -> list[RunRow]:
        """The runs of a workspace, or all, the newest first."""
        ...

    def row(self, run: str) -> RunRow | None:
        """One run; None if there is none of that id."""
        ...

    def check(self) -> list[str]:
        """What is wrong with what is kept, a line for each fault; takes as long as it takes
        to read all of it."""
        ...

    def close(self) -> None:
        """Disconnect.  Twice does nothing."""
        ...
