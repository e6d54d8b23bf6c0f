"""What outlives kill -9 at any moment, and a power cut that leaves the end of the log damaged."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from standby_supervision.owner import this_process
from standby_supervision.store import Append, Create, NewEvent, StoredEvent, StoreUrl
from standby_supervision.store.sqlite import SqliteBackend
from tests.supervision.store.killed import POINTS

pytestmark = pytest.mark.real
_FRAME = 24 + 4096
_HEAD = 32


def killed(place: StoreUrl, count: int, *points: str) -> dict[str, Any]:
    seed = int(os.environ.get("STANDBY_SEED") or random.randrange(2**32))
    print(f"STANDBY_SEED={seed}")
    arguments = [str(place), str(seed), str(count), *points]
    done = subprocess.run(
        [sys.executable, "-m", "tests.supervision.store.killed", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, os.getcwd()]))},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    print(found)
    assert found["faults"] == []
    assert found["acknowledged"] > 0
    return found


def test_killed_at_any_moment_a_store_has_all_that_it_acknowledged(place: StoreUrl) -> None:
    assert killed(place, 30 if isinstance(place, Path) else 10)["kills"] >= 10


@pytest.mark.deep
def test_a_thousand_kills_lose_nothing(tmp_path: Path) -> None:
    assert killed(tmp_path / "store.db", 1_000)["kills"] == 1_000


def test_killed_around_a_commit_it_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    assert killed(tmp_path / "store.db", 4, *POINTS)["kills"] == 20


@pytest.mark.deep
def test_killed_around_each_of_twenty_commits(tmp_path: Path) -> None:
    assert killed(tmp_path / "store.db", 20, *POINTS)["kills"] == 100


@frozen
class Written:
    """A store as it was when its machine lost its power."""

    file: Path
    events: Sequence[StoredEvent]
    before: int
    """Events that were in the file itself."""
    acknowledged: Sequence[tuple[int, int]]
    """How long the log was, and how many events there were, at each acknowledgement."""
    end: int
    """Where the log ends; what comes after that is of an older log."""


def written(folder: Path, drawn: random.Random) -> Written:
    """Write a store whose log begins anew in the middle, and has the rest of the old one behind."""
    path = folder / "store.db"
    backend = SqliteBackend(path)
    backend.open()
    opening = (NewEvent("opened", b"{}"),)
    backend.apply([Create("r", "/srv", "nightly", this_process(), 0.0, opening, "running")])
    connection = backend._connection  # pyright: ignore[reportPrivateUsage] # to begin a log anew
    assert connection is not None
    events, before = 1, 0
    acknowledged: list[tuple[int, int]] = []
    for number in range(120):
        if number == 80:
            connection.execute("PRAGMA wal_checkpoint(RESTART)")
            acknowledged.clear()
            before = events
        size = drawn.choice([10, 100, 5_000])
        data = json.dumps({"number": number, "text": drawn.randbytes(size).hex()}).encode()
        group = [NewEvent("written", data)] * drawn.randint(1, 4)
        (events,) = (int(str(each)) for each in backend.apply([Append("r", 1, 1.0, tuple(group))]))
        # How far the log goes, as all who have the file open tell each other.
        (frames,) = struct.unpack_from("=I", (folder / "store.db-shm").read_bytes(), 16)
        acknowledged.append((_HEAD + frames * _FRAME, events))
    kept = folder / "kept"
    kept.mkdir()
    for name in ("store.db", "store.db-wal"):
        shutil.copy(folder / name, kept / name)
    found = backend.events("r", 0, 10_000)
    backend.close()
    return Written(kept / "store.db", found, before, acknowledged, acknowledged[-1][0])


def damage(log: bytearray, at: int, drawn: random.Random) -> str:
    """Damage `log` from `at` on, in one of the ways of a power cut."""
    way = drawn.choice(
        ["cut", "zeroed", "scrambled", "zeroed for a while", "scrambled for a while"]
    )
    until = (
        min(len(log), at + drawn.choice([1, 512, 4096, 100_000])) if "while" in way else len(log)
    )
    if way == "cut":
        del log[at:]
    elif way.startswith("zeroed"):
        log[at:until] = bytes(until - at)
    else:
        log[at:until] = drawn.randbytes(until - at)
    return way


def opens_to_a_prefix(tmp_path: Path, images: int) -> None:
    seed = int(os.environ.get("STANDBY_SEED") or random.randrange(2**32))
    print(f"STANDBY_SEED={seed}")
    drawn = random.Random(seed)
    store = written(tmp_path, drawn)
    log = (store.file.with_name("store.db-wal")).read_bytes()
    assert len(log) > store.end, "there is no older log behind"
    image = tmp_path / "image"
    shorter = 0
    for number in range(images):
        shutil.rmtree(image, ignore_errors=True)
        image.mkdir()
        shutil.copy(store.file, image / "store.db")
        damaged = bytearray(log)
        at = drawn.randrange(len(log))
        way = damage(damaged, at, drawn)
        (image / "store.db-wal").write_bytes(damaged)
        backend = SqliteBackend(image / "store.db")
        backend.open()
        try:
            found = backend.events("r", 0, 10_000)
            told = f"image {number}, {way} at {at} of {store.end}"
            assert found == store.events[: len(found)], told
            whole = max((n for end, n in store.acknowledged if end <= at), default=store.before)
            assert len(found) >= whole, told
            assert len(found) in {store.before, *(n for _, n in store.acknowledged)}, told
            assert backend.check() == [], told
            (last,) = backend.apply([Append("r", 1, 2.0, (NewEvent("next", b"{}"),))])
            assert last == len(found) + 1, told
            shorter += len(found) < len(store.events)
        finally:
            backend.close()
    # Most of them have lost something, or nothing was tried.
    assert shorter > images // 4


def test_a_damaged_log_opens_to_an_exact_prefix(tmp_path: Path) -> None:
    opens_to_a_prefix(tmp_path, 150)


@pytest.mark.deep
def test_ten_thousand_damaged_logs_open_to_an_exact_prefix(tmp_path: Path) -> None:
    opens_to_a_prefix(tmp_path, 10_000)


def test_each_commit_is_synced(tmp_path: Path) -> None:
    """Counted at the system, as nothing that survives a kill says anything of a power cut."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("!!! NO STRACE ON THIS MACHINE: nobody has counted the syncs")
    source = (
        "from pathlib import Path\n"
        "from standby_supervision.owner import this_process\n"
        "from standby_supervision.store import Append, Create, NewEvent\n"
        "from standby_supervision.store.sqlite import SqliteBackend\n"
        f"backend = SqliteBackend(Path({str(tmp_path / 'store.db')!r}))\n"
        "backend.open()\n"
        "made = Create('r', '/w', 'n', this_process(), 0.0, (NewEvent('a', b'{}'),), 's')\n"
        "backend.apply([made])\n"
        "for _ in range(100):\n"
        "    backend.apply([Append('r', 1, 0.0, (NewEvent('a', b'{}'),))])\n"
    )
    done = subprocess.run(
        [strace, "-f", "-c", "-e", "trace=fsync,fdatasync", sys.executable, "-c", source],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, os.getcwd()]))},
    )
    calls = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+).*sync", done.stderr, re.MULTILINE)
    assert sum(map(int, calls)) >= 101, done.stderr
