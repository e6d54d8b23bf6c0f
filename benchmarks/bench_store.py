"""How many events a second does a store acknowledge, each of them synced, and how soon?

The file lies where the system puts temporary files: a disk, if the figures are to say
anything of disks.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import trio

from standby_supervision.owner import this_process
from standby_supervision.store import Create, NewEvent, Store, open_store

from .measure import Case, Line, Sample, Suite, figure, on_trio
from .suites import Means
from .watch import Watch

ASKERS = 256
"""Tasks that append at once."""
TOGETHER = 50
"""Rows of one commit, in the floor."""
RATE = 1_000
"""Events a second of the open loop."""
EVENT = NewEvent("turn.ended", b'{"agent": "scout", "status": "completed", "output": "done"}')


@asynccontextmanager
async def store_of_one_run() -> AsyncGenerator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(Path(folder) / "store.db") as store:
            run = Create("r", "/work", "bench", this_process(), 0.0, (), "running")
            await store.submit(run).wait()
            yield store


async def append(events: int, watch: Watch) -> None:
    """Append events from many tasks, each of which waits for every one of its own."""

    async def one(count: int) -> None:
        for _ in range(count):
            await store.append("r", 1, (EVENT,))

    async with store_of_one_run() as store:
        with watch:
            async with trio.open_nursery() as nursery:
                for number in range(ASKERS):
                    share = events // ASKERS + (number < events % ASKERS)
                    nursery.start_soon(one, share)
        assert (await store.runs())[0].last == events


def raw_file(folder: str) -> sqlite3.Connection:
    file = sqlite3.connect(f"{folder}/raw.db", isolation_level=None)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = FULL")
    file.execute(
        "CREATE TABLE events (position INTEGER PRIMARY KEY, run TEXT, seq INTEGER,"
        " kind TEXT, data BLOB, UNIQUE (run, position))"
    )
    return file


async def raw_into(file: sqlite3.Connection, events: int, watch: Watch) -> None:
    await trio.lowlevel.checkpoint()
    with watch:
        for start in range(0, events, TOGETHER):
            seqs = range(start, min(start + TOGETHER, events))
            file.execute("BEGIN IMMEDIATE")
            file.executemany(
                "INSERT INTO events (run, seq, kind, data) VALUES ('r', ?, ?, ?)",
                [(seq, EVENT.kind, EVENT.data) for seq in seqs],
            )
            file.execute("COMMIT")


async def raw(events: int, watch: Watch) -> None:
    """Insert rows with nothing around it, many to a commit that is synced as ours are."""
    with tempfile.TemporaryDirectory() as folder, closing(raw_file(folder)) as file:
        await raw_into(file, events, watch)


def a_second(events: int) -> Sample:
    watch = Watch()
    trio.run(append, events, watch)
    return figure(events / watch.wall)


def open_loop(seconds: float) -> Sample:
    """How long an append waits, where they come at a fixed rate, whether or not it keeps up."""
    waited: list[float] = []
    late: list[float] = []

    async def one(store: Store, due: float) -> None:
        # What the machine, and not the store, has it wait for.
        late.append(trio.current_time() - due)
        await store.append("r", 1, (EVENT,))
        # From when it should have begun: whoever is held up has waited as well.
        waited.append(trio.current_time() - due)

    async def main() -> None:
        async with store_of_one_run() as store, trio.open_nursery() as nursery:
            began = trio.current_time()
            for number in range(int(RATE * seconds)):
                due = began + number / RATE
                await trio.sleep_until(due)
                nursery.start_soon(one, store, due)

    trio.run(main)
    percentiles = statistics.quantiles(waited, n=1000)
    return figure(
        percentiles[989] * 1e3,
        median=(percentiles[499] * 1e3, "ms"),
        slowest=(max(waited) * 1e3, "ms"),
        late=(statistics.quantiles(late, n=1000)[989] * 1e3, "ms"),
    )


def alone(commits: int) -> Sample:
    """How long sqlite3 takes to commit one row and sync it, one after another."""
    took: list[float] = []

    async def main() -> None:
        for _ in range(commits):
            watch = Watch()
            await raw_into(file, 1, watch)
            took.append(watch.wall)

    with tempfile.TemporaryDirectory() as folder, closing(raw_file(folder)) as file:
        trio.run(main)
    percentiles = statistics.quantiles(took, n=100)
    return figure(percentiles[98] * 1e3, median=(percentiles[49] * 1e3, "ms"))


def suite(means: Means) -> Suite:
    events = means.size(50_000, 2_000)
    return Suite(
        [
            on_trio(f"sqlite3, {TOGETHER} rows to a commit", raw, events),
            on_trio(f"append, {ASKERS} askers", append, events),
            Case(
                "sqlite3, p99 of a commit alone",
                lambda: alone(means.size(500, 20)),
                unit="ms",
            ),
            Case("acknowledged", lambda: a_second(events), unit="/s"),
            Case(
                f"p99 at {RATE}/s",
                lambda: open_loop(10.0 if not means.smallest else 0.5),
                unit="ms",
            ),
        ],
        [
            Line("store", f"append, {ASKERS} askers", f"sqlite3, {TOGETHER} rows to a commit"),
            Line("store rate", "acknowledged"),
            Line("store p99", f"p99 at {RATE}/s"),
        ],
    )
