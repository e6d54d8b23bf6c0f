"""The databases that a store is tried on, both of them real."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from standby_supervision.store import StoreUrl
from tests.supervision.store.server import Server, programs, running

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests of this process."""
    found = programs()
    if found is None:
        # `.ci/run` installs it, and says in its last line where it could not.
        pytest.skip("!!! NO POSTGRESQL ON THIS MACHINE: stores in it are not tried at all")
    with running(found) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StoreUrl:
    """Where there is no store yet."""
    if request.param == "sqlite":
        return tmp_path / "store.db"
    return schema(request.getfixturevalue("server"))


def schema(server: Server) -> str:
    """The address of a schema that is new, and has no tables."""
    name = f"place_{next(_numbers)}"
    server.sql(f"CREATE SCHEMA {name}")
    return server.url(name)
