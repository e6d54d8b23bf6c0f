"""What a store promises to whoever appends, reads and takes over, in each of its databases."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
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
    Offer,
    Release,
    Renew,
    RunTaken,
    Store,
    StoreClosed,
    StoreError,
    StoreTooNew,
    StoreUrl,
    open_store,
    postgres_schema,
    schema,
)
from standby_supervision.store.backend import Backend
from standby_supervision.store.postgres import PostgresBackend
from standby_supervision.store.sqlite import SqliteBackend

pytestmark = pytest.mark.real
HERE = this_process()


def given(number: int, kind: str = "step.ended") -> NewEvent:
    return NewEvent(kind, b'{"number": %d}' % number)


@asynccontextmanager
async def opened(place: StoreUrl | None, run: str = "r") -> AsyncGenerator[Store]:
    async with open_store(place) as store:
        if await store.run(run) is None:
            await create(store, run)
        yield store


async def create(store: Store, run: str, owner: Owner = HERE) -> int:
    opening = (NewEvent("run.opened", b"{}"),)
    made = Create(run, "/srv", "nightly", owner, time.time(), opening, "running")
    return await store.submit(made).wait()


async def test_what_was_acknowledged_is_read_again_in_order(place: StoreUrl) -> None:
    async with opened(place) as store:
        assert await store.append("r", 1, [given(1), given(2)]) == 3
        assert await store.append("r", 1, [given(3)], state="completed") == 4
    async with open_store(place) as store:
        events = await store.read("r")
        assert [each.seq for each in events] == [1, 2, 3, 4]
        assert [each.data for each in events[1:]] == [given(n).data for n in (1, 2, 3)]
        assert [each.seq for each in await store.read("r", after=3)] == [4]
        (row,) = await store.runs("/srv")
        assert (row.state, row.last, row.epoch, row.owner) == ("completed", 4, 1, HERE)
        assert await store.runs("/elsewhere") == []


async def test_many_who_append_at_once_have_numbers_without_gaps(place: StoreUrl) -> None:
    async with opened(place) as store:
        seqs: list[int] = []

        async def one(number: int) -> None:
            seqs.append(await store.append("r", 1, [given(number)]))

        async with trio.open_nursery() as nursery:
            for number in range(2_500):
                nursery.start_soon(one, number)
        assert sorted(seqs) == list(range(2, 2_502))
        assert [each.position for each in await store.read("r")] == list(range(1, 2_502))
        assert len(await store.read_all(after=2_400)) == 101


async def test_a_former_owner_writes_nothing(place: StoreUrl) -> None:
    async with opened(place) as store:
        epoch = await store.submit(Claim("r", 1, HERE, time.time())).wait()
        assert epoch == 2
        with pytest.raises(Fenced, match=r"taken over \(epoch 2, ours was 1\)"):
            await store.append("r", 1, [given(1)])
        await store.append("r", 2, [given(2)])
        assert [each.epoch for each in await store.read("r")] == [1, 2]


async def test_of_two_who_take_over_one_wins(place: StoreUrl) -> None:
    async with opened(place) as store:
        claims = [store.submit(Claim("r", 1, HERE, time.time())) for _ in range(2)]
        assert await claims[0].wait() == 2
        with pytest.raises(RunTaken, match="taken by another in the meantime"):
            await claims[1].wait()


async def test_an_owner_that_gave_its_run_back_writes_no_more(place: StoreUrl) -> None:
    async with opened(place) as store:
        await store.submit(Release("r", 1, time.time())).wait()
        with pytest.raises(Fenced, match="nobody owns it now"):
            await store.append("r", 1, [given(1)])


async def test_a_refusal_leaves_the_others_of_its_transaction_alone(place: StoreUrl) -> None:
    async with opened(place) as store:
        receipts = [
            store.submit(Append(run, epoch, time.time(), (given(1),)))
            for run, epoch in (("r", 1), ("r", 7), ("none", 1), ("r", 1))
        ]
        assert await receipts[0].wait() == 2
        with pytest.raises(Fenced):
            await receipts[1].wait()
        with pytest.raises(NoSuchRun, match="no run 'none'"):
            await receipts[2].wait()
        assert await receipts[3].wait() == 3


async def test_a_run_is_made_once(place: StoreUrl) -> None:
    async with opened(place) as store:
        with pytest.raises(RunTaken, match="there is a run 'r' already"):
            await create(store, "r")
        assert len(await store.read("r")) == 1


async def test_leaving_the_block_writes_what_was_handed_in(place: StoreUrl) -> None:
    with trio.CancelScope() as scope:
        async with opened(place) as store:
            receipts = [
                store.submit(Append("r", 1, time.time(), (given(n),))) for n in range(1_500)
            ]
            scope.cancel()
    assert all(receipt.settled.is_set() for receipt in receipts)
    async with open_store(place) as store:
        assert len(await store.read("r")) == 1_501
    with pytest.raises(StoreClosed, match="takes nothing any more"):
        await store.append("r", 1, [given(1)])


async def test_what_the_body_raises_is_raised_as_it_is(place: StoreUrl) -> None:
    with pytest.raises(KeyError):
        async with opened(place):
            raise KeyError("mine")


async def test_a_store_in_memory_needs_no_thread(autojump_clock: MockClock) -> None:
    async with open_store(None, inline=True) as store:
        await create(store, "r")
        assert await store.append("r", 1, [given(1)]) == 2
        assert store.where == "memory"


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(NewEvent("a\0b", b"{}"), id="a NUL"),
        pytest.param(NewEvent("a\udce4", b"{}"), id="half a surrogate pair"),
        pytest.param(NewEvent("a", b"[]"), id="no object"),
        pytest.param(NewEvent("a", b'{"a": "\xff"}'), id="no UTF-8"),
        pytest.param(NewEvent("a", b'{"a": '), id="cut"),
        pytest.param(NewEvent("a", b'{"a": "%s"}' % (b"x" * (64 * 2**20))), id="too long"),
    ],
)
async def test_what_no_store_can_keep_is_refused_alone(place: StoreUrl, event: NewEvent) -> None:
    async with opened(place) as store:
        others = [store.submit(Append("r", 1, 1.0, (given(n),))) for n in range(3)]
        with pytest.raises(ValueError, match=r"kept as UTF-8|no JSON object|keep what is so large"):
            await store.append("r", 1, [given(9), event])
        with pytest.raises(ValueError, match="no time"):
            store.submit(Append("r", 1, math.nan, ()))
        assert [await each.wait() for each in others] == [2, 3, 4]
        assert len(await store.read("r")) == 4


async def test_what_is_kept_comes_back_to_the_last_byte(place: StoreUrl) -> None:
    texts = ["", "ä€😀\u2028", "\x01\x1f\x7f", "'\"\\;--%s%%", "x" * 100_000]
    events = [NewEvent(text, json.dumps({text: [text]}).encode() + b" \n") for text in texts]
    async with opened(place) as store:
        await store.submit(Append("r", 1, 0.1 + 0.2, tuple(events), "äöü")).wait()
        found = await store.read("r", after=1)
        assert [(each.kind, each.data) for each in found] == [(e.kind, e.data) for e in events]
        assert {each.at for each in found} == {0.1 + 0.2}
        row = await store.run("r")
        assert row is not None
        assert (row.state, row.owner) == ("äöü", HERE)


async def test_an_offer_and_a_renewal_say_of_the_owner_what_they_should(place: StoreUrl) -> None:
    async with opened(place) as store:
        assert await store.submit(Offer("r", 7.0, (given(1), given(2)))).wait() == 3
        row = await store.run("r")
        assert row is not None
        assert row.renewed != 7.0
        assert await store.submit(Renew("r", 1, 8.0)).wait() == 3
        row = await store.run("r")
        assert row is not None
        assert row.renewed == 8.0
        with pytest.raises(Fenced):
            await store.submit(Renew("r", 2, 9.0)).wait()
        with pytest.raises(Fenced):
            await store.submit(Release("r", 2, 9.0)).wait()


async def test_two_stores_in_one_place_write_one_order(place: StoreUrl) -> None:
    async with opened(place) as one, open_store(place) as other:
        await create(one, "s")
        seen: list[int] = []
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(one.append, "r", 1, [given(number)])
                nursery.start_soon(other.append, "s", 1, [given(number)])
            while len(seen) < 202:
                # A cursor that follows misses nothing, whoever commits first.
                seen += [e.position for e in await one.read_all(seen[-1] if seen else 0)]
        assert seen == list(range(1, 203))
        assert await one.check() == await other.check() == []


async def test_twenty_who_open_a_new_place_at_once_share_it(place: StoreUrl) -> None:
    async def one(number: int) -> None:
        async with open_store(place, busy_seconds=60) as store:
            await create(store, f"r{number}")

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    async with open_store(place) as store:
        assert [e.position for e in await store.read_all()] == list(range(1, 21))


async def test_a_form_that_is_newer_is_refused_and_left(place: StoreUrl) -> None:
    async with opened(place) as store:
        await store.append("r", 1, [given(1)])
        before = await store.read("r")
        newer(place)
        # Whoever has it open notices before the next event.
        with pytest.raises(StoreTooNew, match="has form 99, and this version knows 1"):
            await store.append("r", 1, [given(2)])
        assert await store.read("r") == before
    with pytest.raises(StoreTooNew, match="use the newer version"):
        async with open_store(place):
            raise AssertionError


async def test_a_step_to_a_new_form_that_fails_leaves_the_old_one(place: StoreUrl) -> None:
    async with opened(place) as store:
        before = await store.read("r")
    backend = with_steps(place, "CREATE TABLE more (a integer)", "SELECT nonsense")
    with pytest.raises(StoreError, match="nonsense"):
        backend.open()
    async with open_store(place) as store:
        assert await store.read("r") == before
        await store.append("r", 1, [given(1)])
    backend = with_steps(place, "CREATE TABLE more (a integer)")
    backend.open()
    try:
        assert [each.seq for each in backend.events("r", 0, 10)] == [1, 2]
    finally:
        backend.close()


def newer(place: StoreUrl) -> None:
    """Have a newer version take it over."""
    if isinstance(place, Path):
        with contextlib.closing(sqlite3.connect(place)) as file:
            file.execute("PRAGMA user_version = 99")
    else:
        with psycopg.connect(place, autocommit=True) as server:
            server.execute("UPDATE standby_form SET form = 99")


def with_steps(place: StoreUrl, *statements: LiteralString) -> Backend:
    """A version that knows more forms."""
    if isinstance(place, str):
        return PostgresBackend(place, steps=[*postgres_schema.STEPS, *statements])

    def step(statement: str) -> schema.Step:
        return lambda connection: void(connection.execute(statement))

    return SqliteBackend(place, steps=[*schema.STEPS, *map(step, statements)])


def void(_: object) -> None:
    pass


async def test_nothing_is_kept_of_a_transaction_that_fails_in_its_middle(place: StoreUrl) -> None:
    async with opened(place) as store:
        before = await store.run("r"), await store.read_all()
        sabotage(place, is_on=True)
        with pytest.raises(StoreError, match="no seventh"):
            await store.append("r", 1, [given(n) for n in range(10)], state="odd")
        assert (await store.run("r"), await store.read_all()) == before
        sabotage(place, is_on=False)
        assert await store.append("r", 1, [given(7)]) == 2


def sabotage(place: StoreUrl, *, is_on: bool) -> None:
    """Have the database refuse the seventh event of a run."""
    if isinstance(place, Path):
        with contextlib.closing(sqlite3.connect(place)) as file:
            file.execute(
                "CREATE TRIGGER odd BEFORE INSERT ON events WHEN new.seq = 7"
                " BEGIN SELECT RAISE(ABORT, 'no seventh'); END"
                if is_on
                else "DROP TRIGGER odd"
            )
    else:
        with psycopg.connect(place, autocommit=True) as server:
            server.execute(
                'ALTER TABLE standby_events ADD CONSTRAINT "no seventh" CHECK (seq != 7)'
                if is_on
                else 'ALTER TABLE standby_events DROP CONSTRAINT "no seventh"'
            )
