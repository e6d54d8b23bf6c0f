"""The form of a store in SQLite, and how an older one becomes today's.

Every form that was ever released stays here as the steps that lead on from it, and as a
file among the tests, which each new version has to open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

APPLICATION_ID: Final = 0x53744279
"""What marks a file as ours: "StBy"."""

Step: TypeAlias = Callable[[sqlite3.Connection], None]


def _runs_and_events(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE runs (
            run TEXT PRIMARY KEY,
            workspace TEXT NOT NULL,
            name TEXT NOT NULL,
            created REAL NOT NULL,
            epoch INTEGER NOT NULL,
            owner TEXT,
            renewed REAL NOT NULL,
            state TEXT NOT NULL,
            last INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
        """
    )
    # Nothing is ever deleted: `position` counts up without gaps of itself, and
    # a transaction that fails takes its numbers back.
    connection.execute(
        """
        CREATE TABLE events (
            position INTEGER PRIMARY KEY,
            run TEXT NOT NULL REFERENCES runs (run),
            seq INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            at REAL NOT NULL,
            kind TEXT NOT NULL,
            data BLOB NOT NULL,
            UNIQUE (run, seq)
        ) STRICT
        """
    )
    connection.execute("CREATE INDEX runs_of_workspace ON runs (workspace, created)")


STEPS: Final[Sequence[Step]] = (_runs_and_events,)
"""`STEPS[n]` leads from form n to form n + 1; form 0 is an empty file."""


def version_of(connection: sqlite3.Connection) -> int:
    """The form that a file has."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def upgrade(connection: sqlite3.Connection, steps: Sequence[Step] = STEPS) -> int:
    """Bring a file to today's form, inside the transaction that the caller has begun.

    Returns the form that it had.  All steps are taken, or none.
    """
    had = version_of(connection)
    for step in steps[had:]:
        step(connection)
    if had < len(steps):
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return had
