"""Locks, full disks, missing rights and damage: each is named, and leaves nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from standby_supervision.store import (
    NewEvent,
    StoreBusy,
    StoreDamaged,
    StoreLost,
    StoreReadOnly,
    StoreUrl,
    open_store,
)
from tests.supervision.store.alone import EVENTS, WRITERS
from tests.supervision.store.test_store import create, given, opened

pytestmark = pytest.mark.real


def begin(name: str, *arguments: object, before: Sequence[str] = ()) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.supervision.store.alone", name, *map(str, arguments)]
    return subprocess.Popen(
        [*before, *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, os.getcwd()]))},
    )


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    print(found)
    return found


def alone(name: str, *arguments: object, before: Sequence[str] = ()) -> dict[str, Any]:
    return ended(begin(name, *arguments, before=before))


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("is_held", [False, True], ids=["free", "held for two seconds"])
async def test_two_processes_of_fifty_writers_lose_nothing(place: StoreUrl, is_held: bool) -> None:
    async with open_store(place) as store:
        await create(store, "r")
    holder = begin("hold", place, 2) if is_held else None
    if holder is not None:
        assert line(holder) == "holds"
    # Somebody who reads has no effect on them, and sees what there was.
    with snapshot(place) as seen:
        both = [begin("writers", place, run) for run in ("one", "two")]
        reports = [ended(each) for each in both]
        assert seen() == 1
    assert [report["errors"] for report in reports] == [[], []]
    if holder is not None:
        ended(holder)
    async with open_store(place) as store:
        total = 2 * (WRITERS * EVENTS + 1) + 1
        assert [e.position for e in await store.read_all(0, total + 1)] == [*range(1, total + 1)]
        for run in ("one", "two"):
            assert [e.seq for e in await store.read(run)] == [*range(1, WRITERS * EVENTS + 2)]


class snapshot:
    """A reader who looks at the store as it was, for the length of a block."""

    def __init__(self, place: StoreUrl) -> None:
        self.is_file = isinstance(place, Path)
        self.connection: Any = (
            sqlite3.connect(place, isolation_level=None)
            if isinstance(place, Path)
            else psycopg.connect(place, autocommit=True)
        )

    def __enter__(self) -> Any:
        begin = "BEGIN" if self.is_file else "BEGIN ISOLATION LEVEL REPEATABLE READ"
        self.connection.execute(begin)
        self.count()
        return self.count

    def count(self) -> int:
        table = "events" if self.is_file else "standby_events"
        (found,) = self.connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(found)

    def __exit__(self, *_: object) -> None:
        self.connection.execute("ROLLBACK")
        self.connection.close()


async def test_a_lock_that_is_held_for_too_long_is_told(place: StoreUrl) -> None:
    async with open_store(place, busy_seconds=0.2) as store:
        await create(store, "r")
        holder = begin("hold", place, 600)
        try:
            assert line(holder) == "holds"
            with pytest.raises(StoreBusy, match="nothing was written: try again"):
                await store.append("r", 1, [given(n) for n in range(100)])
            # Who reads does not wait.
            assert len(await store.read("r")) == 1
        finally:
            holder.kill()
            holder.communicate()
        # The server has to notice that its client is gone.
        while True:
            try:
                assert await store.append("r", 1, [given(1)]) == 2
                break
            except StoreBusy:
                continue
        assert await store.check() == []


async def test_twenty_processes_make_one_store(place: StoreUrl) -> None:
    assert alone("opens", place, 20) == {"codes": [0] * 20}
    async with open_store(place) as store:
        assert [e.position for e in await store.read_all()] == list(range(1, 21))
        assert await store.check() == []


def test_a_limit_on_files_is_told_and_once_lifted_it_goes_on(tmp_path: Path) -> None:
    found = alone("limited", tmp_path / "store.db")
    assert found["said"][0:3] == ["2", "store_full", "store_full"]
    # What is small enough still goes in, and what comes after is whole.
    assert found["said"][3:] == ["3", "103"]
    assert found["there"] == list(range(1, 104))
    assert found["faults"] == []


def on_a_small_disk(name: str, folder: Path) -> dict[str, Any]:
    """On a disk of one MiB, which only that process sees."""
    script = f'mount -t tmpfs -o size=1m none {folder} && exec "$@"'
    before = ["unshare", "--mount", "sh", "-c", script, "sh"]
    tried = subprocess.run([*before, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        # The limit on files above is tried everywhere.
        pytest.skip(f"no disk can be mounted here: {tried.stderr.strip()}")
    return alone(name, folder / "store.db", before=before)


def test_a_full_disk_is_told_and_once_it_has_room_it_goes_on(tmp_path: Path) -> None:
    found = on_a_small_disk("filled", tmp_path)
    assert found["said"] == ["2", "store_full", "store_full", "22"]
    assert found["read meanwhile"] == 2
    assert found["there"] == list(range(1, 23))
    assert found["faults"] == []


def test_without_room_for_a_store_it_says_so_and_opens_once_there_is(tmp_path: Path) -> None:
    assert on_a_small_disk("full_from_the_start", tmp_path) == {"said": "store_full"}


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_store_that_is_only_to_be_read_takes_nothing(tmp_path: Path, what: str) -> None:
    (tmp_path / "shop").mkdir()
    found = alone("without_rights", tmp_path / "shop" / "store.db", what)
    assert found["ours"] == {"said": "2", "read": 2}
    assert found["theirs"]["said"] == "store_read_only"
    assert found["as it was"]


async def test_damage_in_the_middle_harms_nobody_else(tmp_path: Path) -> None:
    place = tmp_path / "store.db"
    async with opened(place) as store:
        text = NewEvent("written", json.dumps({"text": "x" * 1_000}).encode())
        for _ in range(20):
            await store.append("r", 1, [text] * 20)
        await create(store, "s")
        await store.append("s", 1, [given(1)])
    with place.open("r+b") as file:
        content = file.read()
        at = content.index(b"xxxx", len(content) // 2) // 4096 * 4096
        file.seek(at)
        file.write(b"\xee" * 4096)
    async with open_store(place) as store:
        with pytest.raises(StoreDamaged):
            await store.read("r")
        assert [event.seq for event in await store.read("s")] == [1, 2]
        assert await store.append("s", 1, [given(2)]) == 3
        assert await store.check() != []


@pytest.mark.parametrize("what", ["store.db", "store.db-wal"])
@pytest.mark.parametrize("is_moved", [True, False], ids=["moved", "deleted"])
async def test_a_file_that_goes_away_is_missed_at_once(
    tmp_path: Path, what: str, is_moved: bool
) -> None:
    async with opened(tmp_path / "store.db") as store:
        await store.append("r", 1, [given(1)])
        if is_moved:
            (tmp_path / what).rename(tmp_path / "elsewhere")
        else:
            (tmp_path / what).unlink()
        with pytest.raises(StoreLost, match=f"{what} was moved or deleted while it was open"):
            await store.append("r", 1, [given(2)])
        if is_moved:
            (tmp_path / "elsewhere").rename(tmp_path / what)
            assert await store.append("r", 1, [given(3)]) == 3


def test_a_fork_is_told_to_open_it_again(place: StoreUrl) -> None:
    found = alone("forked", place)
    assert "from which this one was forked" in found["said"]
    assert found["goes on"] == "2"


async def test_a_log_that_a_reader_keeps_from_being_emptied_holds_all(tmp_path: Path) -> None:
    place = tmp_path / "store.db"
    text = NewEvent("written", json.dumps({"text": "x" * 50_000}).encode())
    async with opened(place) as store:
        with snapshot(place):
            for _ in range(4):
                await store.append("r", 1, [text] * 40)
        log = place.with_name("store.db-wal").stat().st_size
        assert log > 4 * 40 * 50_000
        # Without the reader it is used from its beginning again.
        for _ in range(4):
            await store.append("r", 1, [text] * 40)
        assert place.with_name("store.db-wal").stat().st_size < 2 * log
        assert len(await store.read("r")) == 321
    # Of its log nothing is left beside a store that everybody has closed.
    assert not place.with_name("store.db-wal").exists()
    shutil.copy(place, tmp_path / "copy.db")
    async with open_store(tmp_path / "copy.db") as store:
        assert len(await store.read("r")) == 321


async def test_where_nothing_can_be_made_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly, match="cannot be made"):
        async with open_store(tmp_path / "no folder" / "store.db"):
            raise AssertionError


async def test_the_file_is_for_its_user_alone(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db"):
        found = {name: os.stat(tmp_path / name).st_mode & 0o777 for name in os.listdir(tmp_path)}
        assert found == dict.fromkeys(["store.db", "store.db-wal", "store.db-shm"], 0o600)


@pytest.mark.parametrize(
    "content", [b"no database at all" * 100, b"SQLite format 3\0" + b"x" * 9000]
)
async def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match="keep a copy"):
        async with open_store(path):
            raise AssertionError
    assert path.read_bytes() == content


async def test_the_database_of_somebody_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(StoreDamaged, match="a database of something else"):
        async with open_store(path):
            raise AssertionError
    assert path.read_bytes() == content
