"""Every form that a store has ever had opens in this version, and says what it said.

`golden/` has one store of each released form, as the SQL of its tables.  None of them is ever
changed: a new form has a new file beside them.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from standby_supervision.owner import Owner
from standby_supervision.store import (
    Append,
    Claim,
    Create,
    NewEvent,
    Offer,
    Release,
    Renew,
    open_store,
)
from standby_supervision.store.records import Command
from standby_supervision.store.schema import STEPS
from standby_supervision.store.sqlite import SqliteBackend

pytestmark = pytest.mark.real
GOLDEN = sorted((Path(__file__).parent / "golden").glob("form-*.sql"))
FIRST = Owner("machine", "boot", 4026531836, 4711, 123456)
SECOND = Owner("machine", "another boot", 4026531836, 4712, 654321)
COMMANDS: tuple[Command, ...] = (
    Create("r", "/srv/ä", "nightly", FIRST, 1.5, (NewEvent("run.opened", b"{}"),), "running"),
    Append("r", 1, 2.5, (NewEvent("said", b'{"a": 1}'), NewEvent("said", '{"ä": "😀"}'.encode()))),
    Create("s", "/srv", "", FIRST, 3.5, (), "new"),
    Offer("r", 4.5, (NewEvent("answered", b'{\n"b": null}'),)),
    Claim("r", 1, SECOND, 5.5, (NewEvent("run.resumed", b"{}"),), "resumed"),
    Append("r", 2, 6.5, (NewEvent("ended", b"{}"),), "completed"),
    Renew("s", 1, 7.5),
    Release("r", 2, 8.5),
)
"""What every golden store was written with."""


def made(golden: Path, path: Path) -> Path:
    """The file that a golden text is of."""
    connection = sqlite3.connect(path)
    connection.executescript(golden.read_text(encoding="utf-8"))
    connection.close()
    return path


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
async def test_a_store_of_an_older_version_says_what_it_said(golden: Path, tmp_path: Path) -> None:
    path = made(golden, tmp_path / "store.db")
    now = SqliteBackend(None)
    now.open()
    for command in COMMANDS:
        now.apply([command])
    async with open_store(path) as store:
        assert await store.read_all() == now.events(None, 0, 100)
        assert await store.runs() == now.rows(None)
        assert await store.check() == []
        # It goes on from there.
        await store.append("s", 1, [NewEvent("said", b"{}")], state="running")
        assert [event.seq for event in await store.read("s")] == [1]
    now.close()


def test_there_is_a_store_of_each_form() -> None:
    forms = [int(re.findall(r"\d+", path.stem)[0]) for path in GOLDEN]
    assert forms == list(range(1, len(STEPS) + 1))
