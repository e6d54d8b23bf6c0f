"""The form of a store in PostgreSQL, and how an older one becomes today's.

The tables carry the brand in their names, as the database may be somebody else's too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_RUNS_AND_EVENTS = """
CREATE TABLE standby_runs (
    run text PRIMARY KEY,
    workspace text NOT NULL,
    name text NOT NULL,
    created double precision NOT NULL,
    epoch bigint NOT NULL,
    owner text,
    renewed double precision NOT NULL,
    state text NOT NULL,
    last bigint NOT NULL
);
CREATE INDEX standby_runs_of_workspace ON standby_runs (workspace, created);
CREATE TABLE standby_events (
    position bigint PRIMARY KEY,
    run text NOT NULL REFERENCES standby_runs (run),
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    at double precision NOT NULL,
    kind text NOT NULL,
    data bytea NOT NULL,
    UNIQUE (run, seq)
)
"""

STEPS: Final[Sequence[str]] = (_RUNS_AND_EVENTS,)
"""`STEPS[n]` leads from form n to form n + 1; form 0 has no tables."""
