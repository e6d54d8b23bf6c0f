"""A store whose askers are cancelled, whose database fails, and whose writer dies."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from standby_supervision.store import (
    Append,
    Create,
    NewEvent,
    Store,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnsure,
    open_store,
)
from standby_supervision.store import store as module
from standby_supervision.store.backend import Backend, Outcome
from standby_supervision.store.records import Command
from standby_supervision.store.sqlite import SqliteBackend
from tests.supervision.store.test_store import HERE, create, given


class Cut(trio.abc.Instrument):
    """Cancels a scope before the step of that number of any task."""

    def __init__(self, scope: trio.CancelScope, number: int) -> None:
        self.scope, self.left = scope, number

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


async def program(path: Path | None, told: list[int], inline: bool) -> None:
    """Everything that can wait for a store."""
    async with open_store(path, inline=inline) as store:
        if await store.run("r") is None:
            await create(store, "r")

        async def append() -> None:
            told.append(await store.append("r", 1, [given(1), given(2)]))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(append)
            receipt = store.submit(Append("r", 1, 1.0, (given(3),)))
            nursery.start_soon(receipt.wait)
        assert len(await store.read("r")) >= 7
        assert len(await store.read_all()) == len(await store.read("r"))
        assert [row.run for row in await store.runs()] == ["r"]
        assert await store.check() == []


async def cut(path: Path | None, number: int, *, inline: bool) -> tuple[bool, list[int]]:
    """Whether it got to its end before the step of that number, and what was told till then."""
    told: list[int] = []
    with trio.CancelScope() as scope:
        instrument = Cut(scope, number)
        trio.lowlevel.add_instrument(instrument)
        try:
            await program(path, told, inline)
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return not scope.cancelled_caught, told


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "in threads"])
@pytest.mark.real
async def test_cut_at_any_step_it_keeps_what_it_told_and_leaves_nothing(
    tmp_path: Path, inline: bool
) -> None:
    number, was_whole = 0, False
    while not was_whole:
        number += 1
        path = tmp_path / f"{number}.db"
        was_whole, told = await cut(path, number, inline=inline)
        async with open_store(path) as store:
            found = [event.seq for event in await store.read("r")]
            assert found == list(range(1, len(found) + 1))
            assert set(told) <= set(found)
            assert len(found) in (0, 1, 3, 5, 7, 8)
            assert await store.check() == []
        # Nobody else has it open any more: its log was taken in and removed.
        assert not path.with_name(f"{path.name}-wal").exists()
    assert number > 15


class Failing:
    """A store in memory that fails when it is told to, before or after it has written."""

    def __init__(self) -> None:
        self.real: Backend = SqliteBackend(None)
        self.fails: Callable[[Sequence[Command]], None] = lambda _: None
        self.where = "a failing store"
        self.reads_apart = False
        for name in ("open", "close", "events", "rows", "row", "check"):
            setattr(self, name, getattr(self.real, name))

    def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        self.fails(commands)
        return self.real.apply(commands)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """The backend of the next store."""
    backend = Failing()
    monkeypatch.setattr(module, "_backend", lambda *_: backend)
    return backend


async def outcome(store: Store, told: list[str]) -> None:
    """Somebody outside of the store's block who waits."""
    try:
        told.append(str(await store.append("r", 1, [given(1)])))
    except StoreError as error:
        told.append(error.kind)


async def test_a_backend_that_breaks_ends_the_store_and_nobody_waits(
    failing: Failing, autojump_clock: MockClock
) -> None:
    def break_down(commands: Sequence[Command]) -> None:
        raise RuntimeError("a fault of the backend")

    told: list[str] = []
    held: list[Store] = []
    async with trio.open_nursery() as outside:
        with pytest.RaisesGroup(RuntimeError):
            async with open_store(None, inline=True) as store:
                held.append(store)
                await create(store, "r")
                failing.fails = break_down
                for _ in range(1_500):
                    outside.start_soon(outcome, store, told)
                with trio.CancelScope(shield=True):  # deaf, but not for ever
                    await outcome(store, told)
                await trio.sleep_forever()
    # Of those that were handed over nothing is known, and the others were not written.
    unsure, closed = told.count("store_unsure"), told.count("store_closed")
    assert unsure + closed == len(told) == 1_501
    assert 0 < unsure <= module.BATCH
    with pytest.raises(StoreClosed):
        held[0].submit(Append("r", 1, 1.0, ()))


async def test_whoever_is_told_and_raises_takes_nobodys_answer_away(
    failing: Failing, autojump_clock: MockClock
) -> None:
    told: list[str] = []

    def odd(_: Outcome) -> None:
        raise KeyError("odd")

    with pytest.RaisesGroup(KeyError):
        async with open_store(None, inline=True) as store, trio.open_nursery() as nursery:
            await create(store, "r")
            nursery.start_soon(outcome, store, told)
            store.submit(Append("r", 1, 1.0, (given(2),)), odd)
            for _ in range(5):
                store.submit(
                    Append("r", 1, 1.0, (given(2),)), lambda seq: told.append(f"then {seq}")
                )
            with trio.CancelScope(shield=True):
                await outcome(store, told)
    assert {f"then {seq}" for seq in range(3, 8)} <= set(told)
    assert len(told) == 7


async def test_a_full_store_is_told_to_each_by_an_error_of_his_own(
    failing: Failing, autojump_clock: MockClock
) -> None:
    def full(_: Sequence[Command]) -> None:
        raise StoreFull("there", "no room")

    async with open_store(None, inline=True) as store:
        await create(store, "r")
        failing.fails = full
        receipts = [store.submit(Append("r", 1, 1.0, (given(n),))) for n in range(3)]
        errors: list[StoreError] = []
        for each in [*receipts, *receipts]:
            with pytest.raises(StoreFull, match="no room") as raised:
                await each.wait()
            errors.append(raised.value)
        assert len({id(error) for error in errors}) == 6
        assert len({id(error.__traceback__) for error in errors}) == 6
        failing.fails = lambda _: None
        assert await store.append("r", 1, [given(1)]) == 2


@pytest.mark.real
async def test_a_hundred_thousand_may_wait_and_not_one_more(failing: Failing) -> None:
    gate = threading.Event()
    failing.fails = lambda _: void(gate.wait())
    async with open_store(None) as store:
        made = Create("r", "/srv", "", HERE, 1.0, (NewEvent("opened", b"{}"),), "running")
        command = Append("r", 1, 1.0, (given(1),))
        receipts = [store.submit(made), *(store.submit(command) for _ in range(99_999))]
        with pytest.raises(StoreBusy, match="100000 commands wait"):
            store.submit(command)
        gate.set()
        assert await receipts[-1].wait() == 100_000
        assert await store.append("r", 1, [given(2)]) == 100_001
        assert [receipt.outcome for receipt in receipts] == list(range(1, 100_001))


def void(_: object) -> None:
    pass


@pytest.mark.real
async def test_the_end_of_a_store_waits_for_what_hangs_no_longer_than_it_says(
    failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINGER", 0.05)
    gate = threading.Event()
    failing.fails = lambda _: void(gate.wait())
    async with open_store(None) as store:
        receipts = [store.submit(Append("r", 1, 1.0, ())) for _ in range(2_500)]
        async with trio.open_nursery() as nursery:

            async def later() -> None:
                await trio.sleep(0.3)
                gate.set()

            nursery.start_soon(later)
            nursery.cancel_scope.shield = True
            store.refuse()
            with trio.move_on_after(0.2):
                await receipts[0].wait()
    # What was in the hands of the database has its outcome, and the rest is told.
    assert all(receipt.settled.is_set() for receipt in receipts)


@pytest.mark.real
async def test_any_order_of_trouble_leaves_each_with_the_truth(failing: Failing) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    drawn = random.Random(seed)

    def now_and_then(_: Sequence[Command]) -> None:
        if drawn.random() < 0.3:
            raise StoreFull("there", "no room")

    failing.fails = lambda _: None
    told: list[str] = []
    async with open_store(None) as store:
        await create(store, "r")
        failing.fails = now_and_then
        for _ in range(40):
            with trio.move_on_after(drawn.random() * 0.01):
                async with trio.open_nursery() as nursery:
                    for _ in range(5):
                        nursery.start_soon(outcome, store, told)
        found = [str(event.seq) for event in await store.read("r")]
    assert found == [str(n) for n in range(1, len(found) + 1)]
    said = [each for each in told if each.isdigit()]
    assert set(said) <= set(found)
    assert len(said) == len(set(said))
    assert {*told} - {*said} <= {"store_full"}


def test_an_error_in_doubt_says_what_to_do() -> None:
    assert "read what is there" in str(StoreUnsure("there", "lost"))
