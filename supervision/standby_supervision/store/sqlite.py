"""A store in one SQLite file, for all processes of one machine.

Write-ahead log and ``synchronous=FULL``: what was acknowledged outlives a kill -9 and a
power cut, as far as the disk keeps what it has confirmed (SQLite, "PRAGMA synchronous").
The file must not lie on a network file system, where its locks do not work.

What is read is read on a connection of its own, so that a reader waits neither for a
transaction that is being written nor for whoever else holds the lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path

from .backend import Outcome
from .errors import (
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLost,
    StoreReadOnly,
    StoreTooNew,
    StoreUnsure,
)
from .records import Command, RunRow, StoredEvent, columns_of, row_of
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
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LOG_BYTES = 64 * 2**20
"""To what a log is cut that has grown larger, while somebody read for long."""
# What is more exact than its primary code.
_EXACTLY: dict[int, type[StoreError]] = {
    # Also what a limit on the size of files comes to, or a quota.
    sqlite3.SQLITE_IOERR_WRITE: StoreFull,
    sqlite3.SQLITE_IOERR_SHMSIZE: StoreFull,
    sqlite3.SQLITE_IOERR_TRUNCATE: StoreFull,
    sqlite3.SQLITE_READONLY_DBMOVED: StoreLost,
    # What was to be synced may have come to the disk or not.
    sqlite3.SQLITE_IOERR_FSYNC: StoreUnsure,
    sqlite3.SQLITE_IOERR_DIR_FSYNC: StoreUnsure,
}


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
        self._reader: sqlite3.Connection | None = None
        self._pid = 0
        self._files: list[tuple[Path, tuple[int, int]]] = []
        """What was opened: the file and its log, and which they are on their disk."""

    @property
    def where(self) -> str:
        """The file, or "memory"."""
        return "memory" if self._path is None else str(self._path)

    @property
    def reads_apart(self) -> bool:
        """A store in memory has one connection."""
        return self._path is not None

    def open(self) -> None:
        """Open the file, or make it, and bring it to today's form.

        Raises:
            StoreError: it cannot be opened, or is no store; it is as it was.
        """
        with self._errors():
            self._claim_file()
            self._pid = os.getpid()
            self._connection = self._connect()
            try:
                self._set_up(self._connection)
                if self._path is not None:
                    self._reader = self._connect()
                    self._reader.execute("PRAGMA query_only = ON")
                    version_of(self._reader)  # the first who reads makes the log
                    log = self._path.with_name(f"{self._path.name}-wal")
                    self._files = [(each, _which(each)) for each in (self._path, log)]
            except FileNotFoundError as error:
                self.close()
                raise StoreLost(self.where, "was deleted while it was opened") from error
            # What is half open is closed, whatever it was.
            except BaseException:
                self.close()
                raise

    def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        """Do all of `commands` in one transaction, and sync it."""
        connection = self._open()
        with self._errors(), _transaction(connection):
            self._check_form(version_of(connection))
            self._check_place()
            runs = Runs(self.where, partial(self._row, connection))
            outcomes = [runs.apply(command) for command in commands]
            connection.executemany(
                f"INSERT INTO runs ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (run) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner,"
                " renewed = excluded.renewed, state = excluded.state, last = excluded.last",
                [columns_of(row) for row in runs.changed],
            )
            connection.executemany(
                "INSERT INTO events (run, seq, epoch, at, kind, data) VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (run, seq, epoch, at, event.kind, event.data)
                    for run, seq, epoch, at, event in runs.written
                ],
            )
        # What was written into a file that nobody will find again is not acknowledged.
        self._check_place()
        return outcomes

    def events(self, run: str | None, after: int, limit: int) -> list[StoredEvent]:
        """Acknowledged events, in order."""
        where, order, values = ("run = ? AND seq > ?", "seq", (run, after))
        if run is None:
            where, order, values = ("position > ?", "position", (after,))  # type: ignore[assignment] # one value fewer
        with self._errors():
            found = self._open(self._reader).execute(
                f"SELECT {_EVENT} FROM events WHERE {where} ORDER BY {order} LIMIT ?",
                (*values, limit),
            )
            return [StoredEvent(*row) for row in found]

    def rows(self, workspace: str | None) -> list[RunRow]:
        """The runs of a workspace, or all, the newest first."""
        with self._errors():
            found = self._open(self._reader).execute(
                f"SELECT {_ROW} FROM runs WHERE ?1 IS NULL OR workspace = ?1"
                " ORDER BY created DESC, run",
                (workspace,),
            )
            return [row_of(row) for row in found]

    def row(self, run: str) -> RunRow | None:
        """One run; None if there is none of that id."""
        with self._errors():
            return self._row(self._open(self._reader), run)

    def check(self) -> list[str]:
        """What is wrong with the pages of the file, and with the numbers of its events."""
        try:
            with self._errors():
                reader = self._open(self._reader)
                faults = [str(line) for (line,) in reader.execute("PRAGMA quick_check")]
                gaps = reader.execute(
                    "SELECT runs.run, runs.last, count(seq), coalesce(max(seq), 0) FROM runs"
                    " LEFT JOIN events USING (run) GROUP BY runs.run"
                    " HAVING count(seq) != runs.last OR coalesce(max(seq), 0) != runs.last"
                ).fetchall()
        except StoreDamaged as error:
            return [error.detail]
        return [line for line in faults if line != "ok"] + [
            f"run {run!r} has {count} events up to {most}, and says that its last is {last}"
            for run, last, count, most in gaps
        ]

    def close(self) -> None:
        """Close the file.  Twice does nothing."""
        for connection in (self._reader, self._connection):
            if connection is not None:
                connection.close()
        self._reader = self._connection = None

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            ":memory:" if self._path is None else self._path,
            timeout=self._busy,
            isolation_level=None,
            check_same_thread=False,
        )

    def _open(self, reader: sqlite3.Connection | None = None) -> sqlite3.Connection:
        connection = reader or self._connection
        if connection is None:
            raise StoreClosed(self.where, "is not open")
        if self._pid != os.getpid():
            # Its locks belong to the process that has opened it, and are not inherited.
            raise StoreError(
                self.where,
                f"was opened by the process {self._pid}, from which this one was forked:"
                " open it again here",
            )
        return connection

    def _row(self, connection: sqlite3.Connection, run: str) -> RunRow | None:
        row = connection.execute(f"SELECT {_ROW} FROM runs WHERE run = ?", (run,)).fetchone()
        return None if row is None else row_of(row)

    def _check_form(self, form: int) -> None:
        if form > len(self._steps):
            raise StoreTooNew(
                self.where, f"has form {form}, and this version knows {len(self._steps)}"
            )

    def _check_place(self) -> None:
        """Raise if the file or its log is not that which was opened."""
        for path, which in self._files:
            try:
                is_there = _which(path) == which
            except OSError:
                is_there = False
            if not is_there:
                raise StoreLost(self.where, f"{path.name} was moved or deleted while it was open")

    def _claim_file(self) -> None:
        """Make the file readable for its user alone, whatever the umask says."""
        if self._path is None:
            return
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return
        except OSError as error:
            # SQLite says it in its own words; a file that can be read is worth its trial.
            if not self._path.is_file():
                kind = StoreFull if error.errno in _FULL else StoreReadOnly
                raise kind(self.where, f"cannot be made: {error.strerror}") from error
        else:
            # That there is such a file has to outlive a power cut as well.
            _sync(self._path.parent)

    def _set_up(self, connection: sqlite3.Connection) -> None:
        # One view of all three, or another process that makes the file just now shows us
        # the first before it and the last after it.
        connection.execute("BEGIN")
        had = version_of(connection)
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        connection.execute("ROLLBACK")
        if mark != APPLICATION_ID and (tables or had):
            raise StoreDamaged(self.where, "is a database of something else")
        self._check_form(had)
        self._wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
        if had < len(self._steps):
            with _transaction(connection):
                # Somebody else may have done it since, or more than that.
                self._check_form(upgrade(connection, self._steps))

    def _wal(self, connection: sqlite3.Connection) -> None:
        """Use the write-ahead log.

        The first who does needs the file for itself, and SQLite does not wait for that.
        """
        until = time.monotonic() + self._busy
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                if mode not in ("wal", "memory"):
                    raise StoreReadOnly(self.where, f"has no write-ahead log, but {mode!r}")
                return

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        """Say what SQLite says as one of our errors."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0)
            kind = _EXACTLY.get(code) or _KINDS.get(_code(error), StoreError)
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


def _which(path: Path) -> tuple[int, int]:
    """Identity of a file on its disk."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _code(error: sqlite3.Error) -> int:
    """The primary code of an error: its low byte, as SQLite has it."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
