"""A store in one SQLite file, for all processes of one machine.

Write-ahead log and ``synchronous=FULL``: what was acknowledged outlives a kill -9 and a
power cut, as far as the disk keeps what it has confirmed (SQLite, "PRAGMA synchronous").
The file must not lie on a network file system, where its locks do not work.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..owner import Owner
from .backend import Outcome
from .errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from .records import Command, RunRow, StoredEvent
from .runs import Runs
from .schema import APPLICATION_ID, STEPS, Step, upgrade, version_of

BUSY_SECONDS = 5.0
"""How long one waits for others who write."""
_ROW = "run, workspace, name, created, epoch, owner, renewed, state, last"
_EVENT = "position, run, seq, epoch, at, kind, data"
_KINDS: dict[int, type[StoreError]] = {
    sqlite3.SQLITE_BUSY: StoreBusy,
    sqlite3.SQLITE_LOCKED: StoreBusy,
    sqlite3.SQLITE_PROTOCOL: StoreBusy,
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_CANTOPEN: StoreReadOnly,
    sqlite3.SQLITE_PERM: StoreReadOnly,
    sqlite3.SQLITE_CORRUPT: StoreDamaged,
    sqlite3.SQLITE_NOTADB: StoreDamaged,
    sqlite3.SQLITE_FORMAT: StoreDamaged,
}
_WRITE_FAILED = 778  # SQLITE_IOERR_WRITE: also what a limit on the size of files comes to


class SqliteBackend:
    """A store in the file at `path`, which is made where it is not there.

    Args:
        path: the file; None for one in memory, which nobody else sees.
        busy_seconds: how long one waits for other processes that write.
        steps: the forms of the file; tests give others.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        busy_seconds: float = BUSY_SECONDS,
        steps: Sequence[Step] = STEPS,
    ) -> None:
        self._path = path
        self._busy = busy_seconds
        self._steps = steps
        self._connection: sqlite3.Connection | None = None

    @property
    def where(self) -> str:
        """The file, or "memory"."""
        return "memory" if self._path is None else str(self._path)

    def open(self) -> None:
        """Open the file, or make it, and bring it to today's form.

        Raises:
            StoreError: it cannot be opened, or is no store; it is as it was.
        """
        with self._errors():
            self._claim_file()
            self._connection = connection = sqlite3.connect(
                ":memory:" if self._path is None else self._path,
                timeout=self._busy,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._set_up(connection)
            except BaseException:
                self.close()
                raise

    def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        """Do all of `commands` in one transaction, and sync it."""
        connection = self._open()
        with self._errors(), _transaction(connection):
            runs = Runs(self.where, self.row)
            outcomes = [runs.apply(command) for command in commands]
            connection.executemany(
                f"INSERT INTO runs ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (run) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner,"
                " renewed = excluded.renewed, state = excluded.state, last = excluded.last",
                [_columns(row) for row in runs.changed],
            )
            connection.executemany(
                "INSERT INTO events (run, seq, epoch, at, kind, data) VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (run, seq, epoch, at, event.kind, event.data)
                    for run, seq, epoch, at, event in runs.written
                ],
            )
        return outcomes

    def events(self, run: str | None, after: int, limit: int) -> list[StoredEvent]:
        """Acknowledged events, in order."""
        where, order, values = ("run = ? AND seq > ?", "seq", (run, after))
        if run is None:
            where, order, values = ("position > ?", "position", (after,))  # type: ignore[assignment] # one value fewer
        with self._errors():
            found = self._open().execute(
                f"SELECT {_EVENT} FROM events WHERE {where} ORDER BY {order} LIMIT ?",
                (*values, limit),
            )
            return [StoredEvent(*row) for row in found]

    def rows(self, workspace: str | None) -> list[RunRow]:
        """The runs of a workspace, or all, the newest first."""
        with self._errors():
            found = self._open().execute(
                f"SELECT {_ROW} FROM runs WHERE ?1 IS NULL OR workspace = ?1"
                " ORDER BY created DESC, run",
                (workspace,),
            )
            return [_row(row) for row in found]

    def row(self, run: str) -> RunRow | None:
        """One run; None if there is none of that id."""
        with self._errors():
            found = self._open().execute(f"SELECT {_ROW} FROM runs WHERE run = ?", (run,))
            row = found.fetchone()
            return None if row is None else _row(row)

    def close(self) -> None:
        """Close the file.  Twice does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> sqlite3.Connection:
        assert self._connection is not None, "it is opened before it is used"
        return self._connection

    def _claim_file(self) -> None:
        """Make the file readable for its user alone, whatever the umask says."""
        if self._path is None:
            return
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            # SQLite says it in its own words; a file that can be read is worth its trial.
            if not self._path.is_file():
                raise StoreReadOnly(self.where, f"cannot be made: {error.strerror}") from error

    def _set_up(self, connection: sqlite3.Connection) -> None:
        # In one transaction: somebody else may be making the store right now.
        connection.execute("BEGIN")
        had = version_of(connection)
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        connection.execute("COMMIT")
        if mark != APPLICATION_ID and (tables or had):
            raise StoreDamaged(self.where, "is a database of something else")
        if had > len(self._steps):
            raise StoreTooNew(
                self.where, f"has form {had}, and this version knows {len(self._steps)}"
            )
        self._wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if had < len(self._steps):
            with _transaction(connection):
                # Somebody else may have done it since.
                upgrade(connection, self._steps)

    def _wal(self, connection: sqlite3.Connection) -> None:
        """Use the write-ahead log.

        The first who does needs the file for itself, and SQLite does not wait for that.
        """
        until = time.monotonic() + self._busy
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        """Say what SQLite says as one of our errors."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            kind = StoreFull if code == _WRITE_FAILED else _KINDS.get(_code(error), StoreError)
            raise kind(self.where, str(error)) from error


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some errors have rolled back already.  One in the rolling back is not worth more
        # than what led to it: the next who opens the file undoes what was not committed.
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _code(error: sqlite3.Error) -> int:
    """The primary code of an error: its low byte, as SQLite has it."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _columns(row: RunRow) -> tuple[Any, ...]:
    owner = None if row.owner is None else msgspec.json.encode(row.owner).decode()
    return (
        row.run,
        row.workspace,
        row.name,
        row.created,
        row.epoch,
        owner,
        row.renewed,
        row.state,
        row.last,
    )


def _row(columns: tuple[Any, ...]) -> RunRow:
    run, workspace, name, created, epoch, owner, renewed, state, last = columns
    known = None if owner is None else msgspec.json.decode(owner, type=Owner)
    return RunRow(run, workspace, name, created, epoch, known, renewed, state, last)
