"""A store in a PostgreSQL database, for processes of many machines.

One transaction is written at a time, under a lock of the database, as SQLite has it: so
positions count up in the order of the commits, and a reader with a cursor misses nothing.
What was acknowledged is as safe as the server keeps what it has committed: that it syncs
(``fsync``) and to how many machines is set there.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

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
from .postgres_schema import STEPS
from .records import Command, RunRow, StoredEvent, columns_of, row_of
from .runs import Runs
from .schema import APPLICATION_ID

BUSY_SECONDS = 5.0
"""How long one waits for others who write, and for a server that starts again."""
_PAUSE_SECONDS = 0.05
_IDLE_SECONDS = 30
"""After which the server ends a transaction of a process that was stopped in its middle."""
_STATEMENT_SECONDS = 60
_ROW = "run, workspace, name, created, epoch, owner, renewed, state, last"
_EVENT = "position, run, seq, epoch, at, kind, data"
_KINDS: dict[str, type[StoreError]] = {
    "55P03": StoreBusy,  # lock_not_available
    "40P01": StoreBusy,  # deadlock_detected
    "40001": StoreBusy,  # serialization_failure
    "57014": StoreBusy,  # query_canceled: it took too long
    "53300": StoreBusy,  # too_many_connections
    "53100": StoreFull,  # disk_full
    "25006": StoreReadOnly,  # read_only_sql_transaction
    "42501": StoreReadOnly,  # insufficient_privilege
    "XX001": StoreDamaged,  # data_corrupted
    "XX002": StoreDamaged,  # index_corrupted
}


class PostgresBackend:
    """A store in the database at `address`, whose tables are made where they are not there.

    Args:
        address: as in "postgresql://user@host/name".
        busy_seconds: how long one waits for others who write.
        steps: the forms of the tables; tests give others.
    """

    def __init__(
        self,
        address: str,
        *,
        busy_seconds: float = BUSY_SECONDS,
        steps: Sequence[str] = STEPS,
    ) -> None:
        try:
            parts = conninfo_to_dict(address)
        except psycopg.ProgrammingError:
            # What libpq says of it has all of it in it, a password as well.
            raise StoreError(
                "postgresql://…", "is no address of a database: postgresql://user@host:port/name"
            ) from None
        self._address = address
        self._password = str(parts.get("password") or "")
        self._where = _for_people(parts)
        self._busy = busy_seconds
        self._steps = steps
        self._pid = 0
        self._writer: psycopg.Connection | None = None
        self._reader: psycopg.Connection | None = None
        self._is_open = False
        # In every transaction of ours, as a pooler may hand us another session each time.
        self._begin = (
            f"BEGIN; SET LOCAL lock_timeout = {max(1, int(busy_seconds * 1000))};"
            f" SET LOCAL statement_timeout = {_STATEMENT_SECONDS * 1000};"
            f" SET LOCAL idle_in_transaction_session_timeout = {_IDLE_SECONDS * 1000};"
            # A server, or a user, may be set to acknowledge before the sync.
            " SET LOCAL synchronous_commit = on"
        ).encode()

    @property
    def where(self) -> str:
        """Its server and database, without user and password."""
        return self._where

    @property
    def reads_apart(self) -> bool:
        """What is read is read on a connection of its own."""
        return True

    def open(self) -> None:
        """Connect, or say why not, and bring the tables to today's form.

        Raises:
            StoreError: it cannot be opened; it is as it was.
        """
        self._pid = os.getpid()
        self._is_open = True
        try:
            with self._errors():
                self._writer = self._connect()
                self._set_up(self._writer)
        # What is half open is closed, whatever it was.
        except BaseException:
            self.close()
            raise

    def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        """Do all of `commands` in one transaction, and have the server sync it.

        Where the connection is lost before the commit, nothing was written, and it is tried
        once more on another.  Where the answer to the commit is lost, the server is asked
        afterwards what became of it.

        Raises:
            StoreUnsure: it could not be asked.
        """
        with self._errors():
            for attempt in (1, 2):
                connection = self._writing()
                try:
                    return self._transact(connection, commands)
                except psycopg.OperationalError:
                    if attempt == 2 or not connection.closed:
                        raise
        raise AssertionError  # the loop returns or raises

    def events(self, run: str | None, after: int, limit: int) -> list[StoredEvent]:
        """Acknowledged events, in order."""
        if run is None:
            query: LiteralString = (
                f"SELECT {_EVENT} FROM standby_events WHERE position > %s"
                " ORDER BY position LIMIT %s"
            )
            found = self._read(query, (after, limit))
        else:
            query = (
                f"SELECT {_EVENT} FROM standby_events WHERE run = %s AND seq > %s"
                " ORDER BY seq LIMIT %s"
            )
            found = self._read(query, (run, after, limit))
        return [StoredEvent(*row) for row in found]

    def rows(self, workspace: str | None) -> list[RunRow]:
        """The runs of a workspace, or all, the newest first."""
        query: LiteralString = (
            f"SELECT {_ROW} FROM standby_runs WHERE %(workspace)s::text IS NULL"
            ' OR workspace = %(workspace)s ORDER BY created DESC, run COLLATE "C"'
        )
        return [row_of(row) for row in self._read(query, {"workspace": workspace})]

    def row(self, run: str) -> RunRow | None:
        """One run; None if there is none of that id."""
        found = self._read(f"SELECT {_ROW} FROM standby_runs WHERE run = %s", (run,))
        return row_of(found[0]) if found else None

    def check(self) -> list[str]:
        """What is wrong with the numbers of the events, and whether the server syncs."""
        gaps = self._read(
            "SELECT run, last, count(seq), coalesce(max(seq), 0) FROM standby_runs"
            " LEFT JOIN standby_events USING (run) GROUP BY run, last"
            " HAVING count(seq) != last OR coalesce(max(seq), 0) != last",
            (),
        )
        faults = [
            f"run {run!r} has {count} events up to {most}, and says that its last is {last}"
            for run, last, count, most in gaps
        ]
        if self._read("SHOW fsync", ()) != [("on",)]:
            faults.append("the server does not sync (fsync = off): a power cut may lose events")
        return faults

    def close(self) -> None:
        """Disconnect.  Twice does nothing."""
        self._is_open = False
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None

    # Connections

    def _connect(self, *, is_patient: bool = False) -> psycopg.Connection:
        """Connect; `is_patient` waits for a server that starts again."""
        until = time.monotonic() + self._busy
        while True:
            try:
                return psycopg.connect(
                    self._address,
                    autocommit=True,
                    # A pooler may hand us another session, which does not know what was prepared.
                    prepare_threshold=None,
                    client_encoding="utf-8",
                    # A machine that is gone says nothing: these bound how long one waits for it.
                    connect_timeout=10,
                    keepalives_idle=10,
                    keepalives_interval=5,
                    keepalives_count=3,
                    tcp_user_timeout=20_000,
                )
            except psycopg.OperationalError as error:
                if not is_patient or time.monotonic() > until:
                    raise StoreLost(self.where, self._said(error)) from error
            time.sleep(_PAUSE_SECONDS)

    def _ours(self) -> None:
        if not self._is_open:
            raise StoreClosed(self.where, "is not open")
        if self._pid != os.getpid():
            raise StoreError(
                self.where,
                f"was opened by the process {self._pid}, from which this one was forked:"
                " open it again here",
            )

    def _writing(self) -> psycopg.Connection:
        self._ours()
        if self._writer is None or self._writer.closed:
            self._writer = self._connect(is_patient=True)
        return self._writer

    def _read(self, query: LiteralString, values: Any) -> list[Any]:
        """Ask on the reading connection; once more on another one where that is lost."""
        with self._errors():
            for attempt in (1, 2):
                self._ours()
                if self._reader is None or self._reader.closed:
                    self._reader = self._connect(is_patient=True)
                try:
                    return self._reader.execute(query, values).fetchall()
                except psycopg.OperationalError:
                    if attempt == 2 or not self._reader.closed:
                        raise
        raise AssertionError  # the loop returns or raises

    # Transactions

    def _transact(
        self, connection: psycopg.Connection, commands: Sequence[Command]
    ) -> list[Outcome]:
        with self._rolled_back(connection):
            transaction = self._lock(connection)
            runs = Runs(self.where, self._look_up(connection, commands))
            outcomes = [runs.apply(command) for command in commands]
            self._keep(connection, runs)
        try:
            said = connection.execute("COMMIT").statusmessage
        except psycopg.OperationalError:
            if not connection.closed:
                raise  # the server says that it could not
            if not self._was_committed(transaction, runs):
                raise
            return outcomes
        if said != "COMMIT":
            raise StoreError(self.where, f"answers {said!r} to a commit")
        return outcomes

    def _lock(self, connection: psycopg.Connection) -> str:
        """Begin a transaction, which no other of a store runs beside; its number."""
        connection.execute(self._begin)
        # A statement of its own: what comes after it sees what those before have committed.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPLICATION_ID,))
        found = connection.execute(
            "SELECT pg_current_xact_id()::text, max(form) FROM standby_form"
        ).fetchone()
        assert found is not None
        self._check_form(found[1] or 0)
        return str(found[0])

    def _look_up(
        self, connection: psycopg.Connection, commands: Sequence[Command]
    ) -> Callable[[str], RunRow | None]:
        """All runs that the commands are about, in one question."""
        found = connection.execute(
            f"SELECT {_ROW} FROM standby_runs WHERE run = ANY(%s)",
            ([*{command.run for command in commands}],),
        )
        rows = {row.run: row for row in map(row_of, found)}
        return rows.get

    def _keep(self, connection: psycopg.Connection, runs: Runs) -> None:
        rows = [columns_of(row) for row in runs.changed]
        if rows:
            connection.execute(
                f"INSERT INTO standby_runs ({_ROW}) SELECT * FROM unnest(%s::text[], %s::text[],"
                " %s::text[], %s::float8[], %s::bigint[], %s::text[], %s::float8[], %s::text[],"
                " %s::bigint[]) ON CONFLICT (run) DO UPDATE SET epoch = excluded.epoch,"
                " owner = excluded.owner, renewed = excluded.renewed, state = excluded.state,"
                " last = excluded.last",
                [[*column] for column in zip(*rows, strict=True)],
            )
        events = [
            (run, seq, epoch, at, event.kind, event.data)
            for run, seq, epoch, at, event in runs.written
        ]
        if events:
            # `position` from the lock, and not from a sequence: no gaps, and no number that
            # is given before another and committed after it.
            connection.execute(
                f"INSERT INTO standby_events ({_EVENT}) SELECT (SELECT coalesce(max(position), 0)"
                " FROM standby_events) + new.number, run, seq, epoch, at, kind, data FROM"
                " unnest(%s::text[], %s::bigint[], %s::bigint[], %s::float8[], %s::text[],"
                " %s::bytea[]) WITH ORDINALITY AS new (run, seq, epoch, at, kind, data, number)",
                [[*column] for column in zip(*events, strict=True)],
            )

    def _was_committed(self, transaction: str, runs: Runs) -> bool:
        """Whether a transaction, the answer to whose commit was lost, is there.

        Raises:
            StoreUnsure: nobody can say.
        """
        try:
            connection = self._writing()
            with self._rolled_back(connection):
                connection.execute(self._begin)
                # It is over by the time that its lock is free.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPLICATION_ID,))
                found = connection.execute(
                    "SELECT pg_xact_status(%s::xid8)", (transaction,)
                ).fetchone()
                assert found is not None
                is_there = found[0] == "committed" and self._has(connection, runs)
                connection.execute("ROLLBACK")
            if found[0] == "aborted" or is_there:
                return is_there
            # Of another server, perhaps, that has taken the place of the first.
            raise StoreUnsure(self.where, f"says that the transaction is {found[0]!r}")
        except (psycopg.Error, StoreLost) as error:
            why = "the connection was lost in a commit, and it could not be looked up"
            raise StoreUnsure(self.where, f"{why}: {self._said(error)}") from error

    def _has(self, connection: psycopg.Connection, runs: Runs) -> bool:
        """Whether the last event that was to be written is there as it was to be."""
        if not runs.written:
            return True
        run, seq, epoch, at, event = runs.written[-1]
        found = connection.execute(
            "SELECT epoch, at, kind, data FROM standby_events WHERE run = %s AND seq = %s",
            (run, seq),
        ).fetchone()
        return found == (epoch, at, event.kind, event.data)

    def _set_up(self, connection: psycopg.Connection) -> None:
        # Looked at first, so that one may read a store whose database one may not write.
        found = connection.execute("SELECT to_regclass('standby_form')").fetchone()
        if found is not None and found[0] is not None:
            row = connection.execute("SELECT max(form) FROM standby_form").fetchone()
            form = 0 if row is None else row[0] or 0
            self._check_form(form)
            if form == len(self._steps):
                return
        with self._rolled_back(connection):
            connection.execute(self._begin)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPLICATION_ID,))
            # Somebody else may have done it since.
            connection.execute("CREATE TABLE IF NOT EXISTS standby_form (form integer NOT NULL)")
            row = connection.execute("SELECT max(form) FROM standby_form").fetchone()
            form = 0 if row is None else row[0] or 0
            self._check_form(form)
            for step in self._steps[form:]:
                connection.execute(step.encode())
            if form < len(self._steps):
                connection.execute("DELETE FROM standby_form")
                connection.execute("INSERT INTO standby_form VALUES (%s)", (len(self._steps),))
            connection.execute("COMMIT")

    def _check_form(self, form: int) -> None:
        if form > len(self._steps):
            raise StoreTooNew(
                self.where, f"has form {form}, and this version knows {len(self._steps)}"
            )

    @contextlib.contextmanager
    def _rolled_back(self, connection: psycopg.Connection) -> Generator[None]:
        """Leave no transaction open, whatever is raised."""
        try:
            yield
        except BaseException:  # raised again
            # One in the rolling back is not worth more than what led to it: the server
            # rolls back what a connection leaves that is lost.
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        """Say what the server says as one of our errors."""
        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate or ""
            kind = _KINDS.get(state)
            if kind is None:
                is_lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
                kind = StoreLost if is_lost else StoreError
            raise kind(self.where, self._said(error)) from error

    def _said(self, error: BaseException) -> str:
        said = error.detail if isinstance(error, StoreError) else str(error).strip()
        return said.replace(self._password, "…") if self._password else said


def _for_people(parts: dict[str, Any]) -> str:
    """An address without its user and password.

    Examples:
        >>> _for_people({"host": "db", "user": "me", "password": "secret", "dbname": "runs"})
        'postgresql://db/runs'
    """
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{parts.get('host') or ''}{port}/{parts.get('dbname') or ''}"
