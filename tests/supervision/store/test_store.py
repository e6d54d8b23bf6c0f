"""What a store promises to whoever appends, reads and takes over."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from standby_supervision.owner import Owner, this_process
from standby_supervision.store import (
    Append,
    Claim,
    Create,
    Fenced,
    NewEvent,
    NoSuchRun,
    Release,
    RunTaken,
    Store,
    StoreClosed,
    StoreDamaged,
    StoreReadOnly,
    StoreTooNew,
    open_store,
)
from standby_supervision.store.sqlite import SqliteBackend

pytestmark = pytest.mark.real
HERE = this_process()


def event(number: int, kind: str = "step.ended") -> NewEvent:
    return NewEvent(kind, b'{"number": %d}' % number)


@asynccontextmanager
async def opened(folder: Path, run: str = "r") -> AsyncGenerator[Store]:
    async with open_store(folder / "store.db") as store:
        if await store.run(run) is None:
            await create(store, run)
        yield store


async def create(store: Store, run: str, owner: Owner = HERE) -> int:
    opening = (NewEvent("run.opened", b"{}"),)
    made = Create(run, "/work", "nightly", owner, time.time(), opening, "running")
    return await store.submit(made).wait()


async def test_what_was_acknowledged_is_read_again_in_order(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        assert await store.append("r", 1, [event(1), event(2)]) == 3
        assert await store.append("r", 1, [event(3)], state="completed") == 4
    async with open_store(tmp_path / "store.db") as store:
        events = await store.read("r")
        assert [each.seq for each in events] == [1, 2, 3, 4]
        assert [each.data for each in events[1:]] == [event(n).data for n in (1, 2, 3)]
        assert [each.seq for each in await store.read("r", after=3)] == [4]
        (row,) = await store.runs("/work")
        assert (row.state, row.last, row.epoch, row.owner) == ("completed", 4, 1, HERE)
        assert await store.runs("/elsewhere") == []


async def test_many_who_append_at_once_have_numbers_without_gaps(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        seqs: list[int] = []

        async def one(number: int) -> None:
            seqs.append(await store.append("r", 1, [event(number)]))

        async with trio.open_nursery() as nursery:
            for number in range(2_500):
                nursery.start_soon(one, number)
        assert sorted(seqs) == list(range(2, 2_502))
        assert [each.position for each in await store.read("r")] == list(range(1, 2_502))
        assert len(await store.read_all(after=2_400)) == 101


async def test_a_former_owner_writes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        epoch = await store.submit(Claim("r", 1, HERE, time.time())).wait()
        assert epoch == 2
        with pytest.raises(Fenced, match=r"taken over \(epoch 2, ours was 1\)"):
            await store.append("r", 1, [event(1)])
        await store.append("r", 2, [event(2)])
        assert [each.epoch for each in await store.read("r")] == [1, 2]


async def test_of_two_who_take_over_one_wins(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        claims = [store.submit(Claim("r", 1, HERE, time.time())) for _ in range(2)]
        assert await claims[0].wait() == 2
        with pytest.raises(RunTaken, match="taken by another in the meantime"):
            await claims[1].wait()


async def test_an_owner_that_gave_its_run_back_writes_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.submit(Release("r", 1, time.time())).wait()
        with pytest.raises(Fenced, match="nobody owns it now"):
            await store.append("r", 1, [event(1)])


async def test_a_refusal_leaves_the_others_of_its_transaction_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        receipts = [
            store.submit(Append(run, epoch, time.time(), (event(1),)))
            for run, epoch in (("r", 1), ("r", 7), ("none", 1), ("r", 1))
        ]
        assert await receipts[0].wait() == 2
        with pytest.raises(Fenced):
            await receipts[1].wait()
        with pytest.raises(NoSuchRun, match="no run 'none'"):
            await receipts[2].wait()
        assert await receipts[3].wait() == 3


async def test_a_run_is_made_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with pytest.raises(RunTaken, match="there is a run 'r' already"):
            await create(store, "r")
        assert len(await store.read("r")) == 1


async def test_leaving_the_block_writes_what_was_handed_in(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with opened(tmp_path) as store:
            receipts = [
                store.submit(Append("r", 1, time.time(), (event(n),))) for n in range(1_500)
            ]
            scope.cancel()
    assert all(receipt.settled.is_set() for receipt in receipts)
    async with open_store(tmp_path / "store.db") as store:
        assert len(await store.read("r")) == 1_501
    with pytest.raises(StoreClosed, match="takes nothing any more"):
        await store.append("r", 1, [event(1)])


async def test_what_the_body_raises_is_raised_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with opened(tmp_path):
            raise KeyError("mine")


async def test_a_store_in_memory_needs_no_thread(autojump_clock: MockClock) -> None:
    async with open_store(None, inline=True) as store:
        await create(store, "r")
        assert await store.append("r", 1, [event(1)]) == 2
        assert store.where == "memory"


async def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreDamaged, match="keep a copy"):
        async with open_store(path):
            raise AssertionError
    assert path.read_bytes() == b"no database at all" * 100


async def test_a_newer_form_is_left_to_the_newer_version(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    backend = SqliteBackend(tmp_path / "store.db", steps=())
    with pytest.raises(StoreTooNew, match="has form 1, and this version knows 0"):
        backend.open()


async def test_where_nothing_can_be_made_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly, match="cannot be made"):
        async with open_store(tmp_path / "no folder" / "store.db"):
            raise AssertionError


async def test_the_file_is_for_its_user_alone(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    assert (tmp_path / "store.db").stat().st_mode & 0o777 == 0o600
