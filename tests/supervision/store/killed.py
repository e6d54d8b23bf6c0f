"""Writers of a store that are killed with -9, and what is found of them afterwards.

Started as ``python -m tests.supervision.store.killed PLACE SEED COUNT [POINT…]``: `COUNT` lives
one after another on one store, or for each labelled point one that is killed there at each of
its first `COUNT` transactions.  Each life is forked from here, as importing takes longer than
a life.  Prints one JSON object; `faults` is empty if nothing is wrong.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from standby_supervision.owner import this_process
from standby_supervision.store import Create, NewEvent, Store, StoreUrl, open_store
from standby_supervision.store.backend import Outcome
from standby_supervision.store.records import Command
from standby_supervision.store.sqlite import SqliteBackend
from standby_supervision.store.store import Receipt

POINTS = ("before", "within", "commit", "after", "acknowledge")
"""Where around a commit: before its transaction, between its statements, when all is written
but the commit, when the commit is synced, and when the first who waits is told."""
WRITERS = 4
GROUP = 3
"""Events that are appended at once, and so are there together or not at all."""
_LIFE_SECONDS = 0.08
"""How long a life may last; it is killed at a drawn moment within that."""


async def live(place: StoreUrl, run: str, pipe: int, groups: int = 10**9) -> None:
    """Append for ever, and tell of what was acknowledged."""
    async with open_store(place, busy_seconds=30) as store:
        opening = (NewEvent("opened", b"{}"),)
        made = Create(run, "/srv", "nightly", this_process(), time.time(), opening, "running")
        await store.submit(made).wait()
        os.write(pipe, b"1\n")
        async with trio.open_nursery() as nursery:
            for writer in range(WRITERS):
                nursery.start_soon(write, store, run, writer, pipe, groups)


async def write(store: Store, run: str, writer: int, pipe: int, groups: int) -> None:
    for number in range(groups):
        group = b'{"group": "%d.%d"}' % (writer, number)
        last = await store.append(run, 1, [NewEvent("written", group)] * GROUP)
        os.write(pipe, b"%d\n" % last)


def forked(place: StoreUrl, run: str, point: str = "", number: int = 0) -> tuple[int, int]:
    """A life in a process of its own: its pid, and the pipe on which it acknowledges."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            if point:
                die_at(point, number)
            trio.run(live, place, run, writing, 40 if point else 10**9)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return pid, reading


def die_at(point: str, number: int) -> None:
    """Have this process killed at that point of its transaction of that number."""
    done = 0
    apply, settle = SqliteBackend.apply, Receipt.settle

    def kill(here: str) -> None:
        if here == point and done == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def statement(text: str) -> None:
        if text.startswith("INSERT INTO events"):
            kill("within")
        elif text == "COMMIT":
            kill("commit")

    def applied(self: SqliteBackend, commands: Sequence[Command]) -> list[Outcome]:
        nonlocal done
        done += 1
        kill("before")
        connection = self._connection  # pyright: ignore[reportPrivateUsage] # to see its statements
        assert connection is not None
        connection.set_trace_callback(statement)
        outcomes = apply(self, commands)
        kill("after")
        return outcomes

    def settled(self: Receipt, outcome: Outcome) -> None:
        kill("acknowledge")
        settle(self, outcome)

    SqliteBackend.apply = applied  # type: ignore[method-assign] # the points to be killed at
    Receipt.settle = settled  # type: ignore[method-assign] # as above


def ended(pid: int, pipe: int) -> tuple[int, int]:
    """How it ended, and the last `seq` that it has seen acknowledged; 0 for none."""
    with os.fdopen(pipe, "rb") as said:
        # A line that was cut is of a number that was acknowledged, but not which.
        acknowledged = [int(line) for line in said.read().split(b"\n")[:-1]]
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), max(acknowledged, default=0)


class Inspection:
    """Reads the store after each life, from where it has read before."""

    def __init__(self, place: StoreUrl) -> None:
        self.place = place
        self.cursor = 0
        self.faults: list[str] = []
        self.unacknowledged = 0
        """Events that were kept, and that nobody was told of."""

    async def look(self, run: str, acknowledged: int) -> int:
        """Judge what is there of `run`; how many events."""
        async with open_store(self.place, busy_seconds=30) as store:
            found = await store.read_all(self.cursor, 1_000_000)
            row = await store.run(run)
            again = Create(f"{run} checked", "/", "", this_process(), 0.0, (), "")
            await store.submit(again).wait()  # it takes more
        places = [event.position for event in found]
        if places != list(range(self.cursor + 1, self.cursor + 1 + len(found))):
            self.faults.append(f"{run}: positions after {self.cursor} are {places[:20]}…")
        self.cursor += len(found)
        if {event.run for event in found} - {run}:
            self.faults.append(f"{run}: events of others have come after theirs")
        seqs = [event.seq for event in found]
        if seqs != list(range(1, len(found) + 1)):
            self.faults.append(f"{run}: its events are {seqs[:20]}…")
        if len(found) < acknowledged:
            self.faults.append(f"{run}: {acknowledged} acknowledged, {len(found)} there")
        if (row.last if row else 0) != len(found):
            self.faults.append(f"{run}: its row says {row}, and {len(found)} are there")
        groups: dict[bytes, int] = {}
        for event in found[1:]:
            groups[event.data] = groups.get(event.data, 0) + 1
        if set(groups.values()) - {GROUP}:
            self.faults.append(f"{run}: half a transaction: {groups}")
        self.unacknowledged += len(found) - acknowledged
        return len(found)

    async def check(self) -> None:
        """Judge all of it."""
        async with open_store(self.place) as store:
            self.faults += await store.check()


def lives(place: StoreUrl, seed: int, count: int) -> dict[str, Any]:
    """Kill `count` lives at drawn moments, from before they have opened the store."""
    drawn = random.Random(seed)
    inspection = Inspection(place)
    acknowledged = 0
    for number in range(count):
        run = f"k{number}"
        pid, pipe = forked(place, run)
        if drawn.random() < 0.9:
            select.select([pipe], [], [], 60)  # most have begun
        time.sleep(drawn.random() * _LIFE_SECONDS)
        os.kill(pid, signal.SIGKILL)
        code, last = ended(pid, pipe)
        if code != -signal.SIGKILL:
            inspection.faults.append(f"{run} ended by itself: {code}")
        acknowledged += last
        trio.run(inspection.look, run, last)
        if inspection.faults:
            break
    trio.run(inspection.check)
    return told(inspection, count, acknowledged)


def points(place: StoreUrl, count: int, names: Sequence[str]) -> dict[str, Any]:
    """Kill lives at each of the points of each of their first transactions."""
    inspection = Inspection(place)
    acknowledged = 0
    for point in names:
        for number in range(1, count + 1):
            run = f"{point} {number}"
            code, last = ended(*forked(place, run, point, number))
            if code != -signal.SIGKILL:
                inspection.faults.append(f"{run} ended by itself: {code}")
            acknowledged += last
            there = trio.run(inspection.look, run, last)
            # What was not acknowledged is there from the commit on, and not before.
            if (there > last) != (point in ("after", "acknowledge")):
                inspection.faults.append(f"{run}: {there} there, {last} acknowledged")
    trio.run(inspection.check)
    return told(inspection, count * len(names), acknowledged)


def told(inspection: Inspection, kills: int, acknowledged: int) -> dict[str, Any]:
    return {
        "kills": kills,
        "acknowledged": acknowledged,
        "kept and not acknowledged": inspection.unacknowledged,
        "faults": inspection.faults,
    }


if __name__ == "__main__":
    where, seed, count, *names = sys.argv[1:]
    place: StoreUrl = where if "://" in where else Path(where)
    found = points(place, int(count), names) if names else lives(place, int(seed), int(count))
    print(json.dumps(found))
