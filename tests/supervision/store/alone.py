"""What needs a process of its own around a store: a lock, a limit, other rights.

Started as ``python -m tests.supervision.store.alone NAME ARGUMENT…``; prints one JSON value.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import trio

from standby_supervision.owner import this_process
from standby_supervision.store import Create, NewEvent, Store, StoreError, StoreUrl, open_store
from standby_supervision.store.schema import APPLICATION_ID

WRITERS = 50
EVENTS = 100


def place_of(text: str) -> StoreUrl:
    return text if "://" in text else Path(text)


async def create(store: Store, run: str) -> None:
    opening = (NewEvent("opened", b"{}"),)
    made = Create(run, "/srv", "nightly", this_process(), time.time(), opening, "running")
    await store.submit(made).wait()


def writers(where: str, run: str) -> dict[str, Any]:
    """Fifty who append a hundred events each, and how long the loop was held up meanwhile."""
    errors: list[str] = []
    slowest = 0.0

    async def write(store: Store) -> None:
        for number in range(EVENTS):
            try:
                await store.append(run, 1, [NewEvent("written", b'{"number": %d}' % number)])
            except StoreError as error:
                errors.append(str(error))

    async def watch() -> None:
        nonlocal slowest
        while True:
            before = trio.current_time()
            await trio.sleep(0.005)
            slowest = max(slowest, trio.current_time() - before - 0.005)

    async def main() -> float:
        async with open_store(place_of(where)) as store:
            await create(store, run)
            print("began", flush=True)
            began = time.monotonic()
            async with trio.open_nursery() as watching:
                watching.start_soon(watch)
                async with trio.open_nursery() as nursery:
                    for _ in range(WRITERS):
                        nursery.start_soon(write, store)
                watching.cancel_scope.cancel()
            return time.monotonic() - began

    took = trio.run(main)
    return {"errors": errors, "loop held up for": slowest, "took": took}


def hold(where: str, seconds: str) -> dict[str, Any]:
    """Hold the lock of whoever writes."""
    place = place_of(where)
    if isinstance(place, Path):
        file = sqlite3.connect(place, isolation_level=None, timeout=30)
        file.execute("BEGIN IMMEDIATE")
        print("holds", flush=True)
        time.sleep(float(seconds))
        file.execute("ROLLBACK")
        file.close()
    else:
        with psycopg.connect(place) as server:
            server.execute("SELECT pg_advisory_xact_lock(%s)", (APPLICATION_ID,))
            print("holds", flush=True)
            time.sleep(float(seconds))
    return {}


def opens(where: str, count: str) -> dict[str, Any]:
    """Many processes open a store that is not there yet, and make a run each."""

    async def main(run: str) -> None:
        async with open_store(place_of(where), busy_seconds=60) as store:
            await create(store, run)

    gate = os.pipe()
    pids: list[int] = []
    for number in range(int(count)):
        pids.append(os.fork())
        if pids[-1] == 0:
            code = 1
            try:
                os.close(gate[1])
                os.read(gate[0], 1)  # they begin together, when it is closed
                trio.run(main, f"r{number}")
                code = 0
            finally:
                os._exit(code)
    os.close(gate[1])
    return {"codes": [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]}


async def _append(store: Store, count: int, size: int = 2_000) -> str:
    """Append one group; what came of it."""
    data = json.dumps({"text": "x" * size}).encode()
    try:
        return str(await store.append("r", 1, [NewEvent("written", data)] * count))
    except StoreError as error:
        return error.kind


def limited(where: str) -> dict[str, Any]:
    """A limit on the size of files is met in the middle of an append, and lifted later."""

    async def main() -> dict[str, Any]:
        async with open_store(Path(where)) as store:
            await create(store, "r")
            first = await _append(store, 1)
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            log = os.stat(f"{where}-wal").st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (log + 40_000, hard))
            full = [await _append(store, 100), await _append(store, 100)]
            small = await _append(store, 1)
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            after = await _append(store, 100)
            found = await store.read("r")
            return {
                "said": [first, *full, small, after],
                "there": [event.seq for event in found],
                "faults": await store.check(),
            }

    return trio.run(main)


def filled(where: str) -> dict[str, Any]:
    """The disk is full, and has room again later."""
    path = Path(where)

    async def main() -> dict[str, Any]:
        async with open_store(path) as store:
            await create(store, "r")
            first = await _append(store, 1)
            ballast = path.with_name("ballast")
            with ballast.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass
            full = [await _append(store, 20), await _append(store, 20)]
            read = len(await store.read("r"))
            ballast.unlink()
            after = await _append(store, 20)
            found = await store.read("r")
            return {
                "said": [first, *full, after],
                "read meanwhile": read,
                "there": [event.seq for event in found],
                "faults": await store.check(),
            }

    return trio.run(main)


def full_from_the_start(where: str) -> dict[str, Any]:
    """There is no room for a store at all."""

    async def main() -> dict[str, Any]:
        path = Path(where)
        with path.with_name("ballast").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        try:
            async with open_store(path):
                return {"said": "opened"}
        except StoreError as error:
            said = error.kind
        path.with_name("ballast").unlink()
        async with open_store(path) as store:
            await create(store, "r")
        return {"said": said}

    return trio.run(main)


def without_rights(where: str, what: str) -> dict[str, Any]:
    """The file, or its folder, is another's, who lets us read."""
    path = Path(where)

    async def main(is_ours: bool) -> dict[str, Any]:
        try:
            async with open_store(path) as store:
                if is_ours:
                    await create(store, "r")
                return {"said": await _append(store, 1), "read": len(await store.read("r"))}
        except StoreError as error:
            return {"said": error.kind}

    ours = trio.run(main, True)
    before = path.read_bytes()
    path.chmod(0o444 if what == "file" else 0o644)
    path.parent.chmod(0o777 if what == "file" else 0o555)
    # Others may not look into the folders of tests, but we may into the one that we are in.
    os.chdir(path.parent)
    path = Path(path.name)
    if os.geteuid() == 0:
        os.setgid(65_534)
        os.setuid(65_534)
    theirs = trio.run(main, False)
    return {"ours": ours, "theirs": theirs, "as it was": path.read_bytes() == before}


def forked(where: str) -> dict[str, Any]:
    """A fork appends to the store that its parent has open."""

    async def main() -> dict[str, Any]:
        async with open_store(place_of(where), inline=True) as store:
            await create(store, "r")
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    backend = store._backend  # pyright: ignore[reportPrivateUsage] # no thread outlives a fork
                    try:
                        backend.apply([])
                        said = "written"
                    except StoreError as error:
                        said = error.detail
                    os.write(writing, said.encode())
                finally:
                    os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as pipe:
                said = pipe.read()
            os.waitpid(pid, 0)  # noqa: ASYNC222 - its pipe is closed: it has ended
            return {"said": said, "goes on": await _append(store, 1)}

    return trio.run(main)


NAMES: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each
    for each in (
        writers,
        hold,
        opens,
        limited,
        filled,
        full_from_the_start,
        without_rights,
        forked,
    )
}

if __name__ == "__main__":
    print(json.dumps(NAMES[sys.argv[1]](*sys.argv[2:])), flush=True)
