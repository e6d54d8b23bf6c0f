"""A store takes events from many, and acknowledges each once it is on the disk.

Whoever appends waits for a transaction that has been synced; all who ask while one is
being written share the next (group commit), so that a hundred waiting cost little more
than one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias, TypeVar

import trio
from attrs import define, field

from standby_actors.process.nursed import beside

from .backend import Backend, Outcome
from .checked import check
from .errors import StoreBusy, StoreClosed, StoreError, StoreUnsure
from .records import Append, Command, NewEvent, RunRow, StoredEvent
from .sqlite import SqliteBackend

T = TypeVar("T")

BATCH = 1_000
"""Commands of one transaction at most."""
WAITING = 100_000
"""Commands that may wait to be written, before more are refused."""
LINGER = 30.0
"""Seconds that the end of a store waits for what was accepted to be written."""
PAGE = 1_000
"""Events that are read at once."""

StoreUrl: TypeAlias = Path | str
"""A file, or the address of a PostgreSQL database as in "postgresql://host/name"."""


@define(eq=False)
class Receipt:
    """Stands for a command that was handed in; it is settled once, with the sync."""

    command: Command
    then: Callable[[Outcome], None] | None = None
    """Told of the outcome before anybody who waits, in the order of the transactions."""
    outcome: Outcome | None = None
    settled: trio.Event = field(factory=trio.Event)

    async def wait(self) -> int:
        """The last `seq` of the run, or the new epoch, once it is on the disk.

        Cancelled, it leaves the command: that is written all the same.

        Raises:
            StoreError: it was not written, and nothing of it is there.
        """
        await self.settled.wait()
        if isinstance(self.outcome, StoreError):
            # Several may wait: each has an error of his own, as a traceback is not to be shared.
            raise _another(self.outcome)
        assert self.outcome is not None
        return self.outcome

    def settle(self, outcome: Outcome) -> None:
        """Tell whoever waits; for the store."""
        self.outcome = outcome
        try:
            if self.then is not None:
                self.then(outcome)
        finally:
            self.settled.set()


class Store:
    """Append-only events of runs, and who owns each run; see :func:`open_store`.

    Args:
        backend: the database.
        inline: call it where one stands, and not in threads: for tests under a virtual
            clock, which would not wait for a thread.
    """

    def __init__(self, backend: Backend, *, inline: bool = False) -> None:
        self._backend = backend
        self._inline = inline
        self._waiting: deque[Receipt] = deque()
        self._woken = trio.Event()
        self._is_closing = False
        # One call at a time on each connection; askers are served in order.
        self._writing = trio.CapacityLimiter(1)
        self._reading = trio.CapacityLimiter(1) if backend.reads_apart else self._writing

    @property
    def where(self) -> str:
        """Its file or server, without a password."""
        return self._backend.where

    def submit(self, command: Command, then: Callable[[Outcome], None] | None = None) -> Receipt:
        """Hand `command` in, to be written with the next transaction; waits for nothing.

        Commands are written in the order of their handing in.

        Args:
            command: what to do.
            then: called with what it came to, before anybody who waits goes on; it must
                neither wait nor raise.

        Raises:
            StoreClosed: the store's block was left.
            StoreBusy: 100,000 commands are waiting already.
            ValueError: no store could keep it: a text with a NUL or half a surrogate pair,
                data that is no JSON object or longer than 64 MiB, a time that is none.
        """
        check(command)
        if self._is_closing:
            raise StoreClosed(self.where, "is closed, and takes nothing any more")
        if len(self._waiting) >= WAITING:
            raise StoreBusy(self.where, f"{WAITING} commands wait to be written")
        receipt = Receipt(command, then)
        self._waiting.append(receipt)
        self._woken.set()
        return receipt

    async def append(
        self, run: str, epoch: int, events: Iterable[NewEvent], *, state: str | None = None
    ) -> int:
        """Keep `events` as the next of `run`; their last `seq`, once all are on the disk.

        All of them or none.  Cancelled while they are being written, they are kept.

        Raises:
            Fenced: the run has another owner since.
            StoreError: they could not be written.
        """
        return await self.submit(Append(run, epoch, time.time(), tuple(events), state)).wait()

    async def read(self, run: str, after: int = 0) -> list[StoredEvent]:
        """All acknowledged events of `run` whose `seq` is above `after`, in order."""
        found: list[StoredEvent] = []
        while True:
            page = await self._read(partial(self._backend.events, run, after, PAGE))
            found += page
            if len(page) < PAGE:
                return found
            after = page[-1].seq

    async def read_all(self, after: int = 0, limit: int = PAGE) -> list[StoredEvent]:
        """Up to `limit` acknowledged events of all runs, in the order of the store.

        Args:
            after: the `position` of the last that one has: a cursor.
            limit: of events.
        """
        return await self._read(lambda: self._backend.events(None, after, limit))

    async def runs(self, workspace: str | None = None) -> list[RunRow]:
        """The runs of a workspace, or of all, the newest first."""
        return await self._read(lambda: self._backend.rows(workspace))

    async def run(self, run: str) -> RunRow | None:
        """One run; None if there is none of that id."""
        return await self._read(lambda: self._backend.row(run))

    async def check(self) -> list[str]:
        """What is wrong with what is kept, a line for each fault; reads all of it."""
        return await self._read(self._backend.check)

    async def serve(self) -> None:
        """Write what is handed in, until the store closes; for :func:`open_store`.

        However it ends, nobody waits any more, and nobody can begin to.
        """
        try:
            while True:
                while not self._waiting:
                    if self._is_closing:
                        return
                    self._woken = trio.Event()
                    await self._woken.wait()
                await self._write([*islice(self._waiting, BATCH)])
        finally:
            self.refuse()
            self._give_up()

    async def _write(self, batch: list[Receipt]) -> None:
        """Write `batch`, which stays among those that wait until it is known what came of it."""
        commands = [receipt.command for receipt in batch]
        outcomes: Sequence[Outcome] = []
        has_begun = False

        def write() -> list[Outcome]:
            nonlocal has_begun
            has_begun = True
            return self._backend.apply(commands)

        try:
            outcomes = await self._call(write, self._writing)
        except StoreError as error:
            outcomes = [error] * len(batch)
        finally:
            if has_begun:
                # A backend that raises what it must not is a fault, which ends the store.
                why = "the backend has failed, and does not say what it has written"
                outcomes = outcomes or [StoreUnsure(self.where, why)] * len(batch)
                for _ in batch:
                    self._waiting.popleft()
                _settle(zip(batch, outcomes, strict=True))

    def _give_up(self) -> None:
        """Tell whoever still waits that it was not written."""
        left, self._waiting = self._waiting, deque()
        why = StoreClosed(self.where, "was closed before this was written")
        _settle((receipt, why) for receipt in left)

    async def _read(self, work: Callable[[], T]) -> T:
        return await self._call(work, self._reading)

    async def _call(self, work: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
        if self._inline:
            await trio.lowlevel.checkpoint()
            return work()
        # Not to be abandoned: the connection is in use until it is done, which
        # the time that one waits for a lock bounds.
        return await trio.to_thread.run_sync(work, limiter=limiter)

    async def open(self) -> None:
        """Connect; for :func:`open_store`."""
        await self._call(self._backend.open, self._writing)

    def refuse(self) -> None:
        """Take nothing any more; what was handed in is still written."""
        self._is_closing = True
        self._woken.set()

    async def close(self) -> None:
        """Disconnect; whoever still waits is told that it was not written."""
        self._give_up()
        async with AsyncExitStack() as stack:
            if self._reading is not self._writing:
                # Whoever still reads is not to have the connection closed under his hands.
                await stack.enter_async_context(self._reading)
            await self._call(self._backend.close, self._writing)

    def __repr__(self) -> str:
        return f"<Store {self.where}>"


@asynccontextmanager
async def open_store(
    where: StoreUrl | None, *, inline: bool = False, busy_seconds: float = 5.0
) -> AsyncGenerator[Store]:
    """A store for the length of a block; leaving it writes what was handed in.

    Args:
        where: a file, which is made where it is not there; the address of a PostgreSQL
            database ("postgresql://…"); None for one in memory.
        inline: work where one stands and not in threads, for tests under a virtual clock.
        busy_seconds: how long one waits for others who write.

    Raises:
        StoreError: it cannot be opened; nothing was changed.
    """
    store = Store(_backend(where, busy_seconds), inline=inline)
    await store.open()
    try:
        async with beside() as nursery:
            # Whatever ends the block, what was accepted is written: in a scope that
            # nobody outside can cancel, and that ends by itself.
            writing = trio.CancelScope(shield=True)
            nursery.start_soon(_serve, store, writing)
            try:
                yield store
            finally:
                store.refuse()
                writing.deadline = trio.current_time() + LINGER
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LINGER):
            await store.close()


async def _serve(store: Store, scope: trio.CancelScope) -> None:
    with scope:
        await store.serve()


def _another(error: StoreError) -> StoreError:
    """The same error, to be raised once more."""
    return type(error)(error.where, error.detail)


def _settle(outcomes: Iterable[tuple[Receipt, Outcome]]) -> None:
    """Tell all of them in order, also where one who is told raises."""
    left = deque(outcomes)
    try:
        while left:
            receipt, outcome = left.popleft()
            receipt.settle(outcome)
    finally:
        if left:
            with ExitStack() as stack:
                while left:
                    receipt, outcome = left.pop()
                    stack.callback(receipt.settle, outcome)


def _backend(where: StoreUrl | None, busy_seconds: float) -> Backend:
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        # An extra, and imported only when used.
        try:
            from .postgres import PostgresBackend
        except ImportError as error:
            why = "needs psycopg: pip install 'standby[postgres]'"
            raise StoreError("postgresql://…", why) from error
        return PostgresBackend(where, busy_seconds=busy_seconds)
    path = None if where is None else Path(where)
    return SqliteBackend(path, busy_seconds=busy_seconds)
