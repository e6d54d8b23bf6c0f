"""The owner's block: one trio nursery, one pump, and the lives of its actors.

What it does is told in four modules, each on top of the one before: :mod:`mail`,
:mod:`lives`, :mod:`stopping`, :mod:`outcomes`.  Here it is opened and left.

Two scopes stand around the owner's body: the nursery outside, the body's scope
inside.  A crash cancels the body's scope and never the nursery's, and the body's
own error is never handed to the nursery, which would wrap it.  The shields that
make an ordered stop possible stand on the workers and around the stop itself; a
shield around the body would make it deaf.
"""

from __future__ import annotations

import contextvars
import gc
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

import trio
from trio.lowlevel import enable_ki_protection

from .cell import Cell
from .events import current_stream
from .exits import Killed, Shutdown
from .kind import Kind
from .names import Names
from .outcomes import Outcomes
from .pump import work
from .reply import Reply, current_cell, now
from .timers import Timers

BUDGET = 512
"""Turns before the pump passes a checkpoint."""
SLICE = 0.005
"""Seconds before it does, however few the turns."""
POOLED = 64
"""Idle workers kept for the next handler that waits."""
_SHUTDOWN = Shutdown()


class Seam(Protocol):
    """What tests put in the pump's way: see :class:`standby.testing.PumpSeam`."""

    budget: int
    slice: float

    def clock(self) -> float:
        """The time that the slice is measured with."""
        ...

    def before_turn(self, block: Block) -> None:
        """Called before a cell is taken from ``block.runq``, which it may reorder."""
        ...


opened_hooks: list[Callable[[Block], object]] = []
"""Called with each block that opens.  For tests."""
_open_blocks: trio.lowlevel.RunVar[dict[Block, None]] = trio.lowlevel.RunVar("standby open blocks")
seam: contextvars.ContextVar[Seam | None] = contextvars.ContextVar("standby seam", default=None)


class _Root:
    """What a block's own cell runs: nothing.  Its children are the block's actors."""

    __slots__ = ("ref",)
    ref: Any


def _receive_nothing(_: Any, message: Any) -> None:
    raise TypeError(f"a block takes no messages, and got {message!r}")


def open_blocks() -> dict[Block, None]:
    """The blocks that are open in this run of trio, oldest first; changes with them."""
    try:
        return _open_blocks.get()
    except LookupError:
        blocks: dict[Block, None] = {}
        _open_blocks.set(blocks)
        return blocks


class Block(Outcomes):
    """The mechanics of a block; :class:`Nursery` is its face."""

    def __init__(
        self,
        *,
        name: str,
        shutdown: float,
        grace: float,
        names: Names | None = None,
        cell: type[Cell[Any]] = Cell,
    ) -> None:
        super().__init__()
        self.name = name
        self.shutdown = shutdown
        self.grace = grace
        self.names = names if names is not None else Names()
        self._given_names = names
        self.cell = cell
        """What its actors are made of."""
        self.thread = 0
        """Identity of the thread that runs it."""
        self.leaving_since: float | None = None
        """When its owner began to leave it, in seconds of :func:`time.monotonic`."""
        # ---- its workers
        self.worker: Any = None
        """The task of the pump."""
        self.base_scope: Any = None
        """Identity of the pump's innermost scope, where it can be read."""
        self.pump_scope: trio.CancelScope | None = None
        self.spoiled = False
        """Whether the pump's scope was cancelled for a handler that it was stepping."""
        self.pooled = POOLED
        self.workers = 0
        self.closed = False
        self.numbered = 0
        self.table: Any
        """What `base` keeps its values in; None where it has none.  See :func:`cell.changed`."""
        self.owner: Cell[Any] | None = None
        self.clock: Callable[[], float] = time.perf_counter
        self.budget = BUDGET
        self.slice = SLICE
        self.seam: Seam | None = None

    # ---- opening and leaving

    async def __aenter__(self) -> Any:
        self.thread = threading.get_ident()
        now.opened_in(self.thread)
        owner = self.owner = current_cell()
        if owner is not None and self._given_names is None:
            self.names = owner.block.names
        self.seam = seam.get()
        if self.seam is not None:
            self.clock = self.seam.clock
            self.budget = self.seam.budget
            self.slice = self.seam.slice
        self.stream = current_stream()
        self.base = contextvars.copy_context()
        self.table = gc.get_referents(self.base)[-1] if len(self.base) else None
        self.timers = Timers(self.start_task, self.broke)
        self._manager = trio.open_nursery()
        self.nursery = await self._manager.__aenter__()
        self.body_scope = trio.CancelScope()
        self.body_scope.__enter__()
        root: Cell[Any] = Cell()
        root.block = self
        root.kind = Kind(
            make=_Root,
            name=self.name,
            receive=_receive_nothing,
            is_async=False,
            shutdown=self.shutdown,
        )
        root.mailbox = None
        root.parent = None
        root.number = 0
        root.args = None
        root.extra = None
        root.actor = _Root()
        root.actor.ref = root
        self.root = root
        if owner is not None:
            owner.rare().blocks.append(self)
        self._registry = open_blocks()
        self._registry[self] = None
        for hook in opened_hooks:
            hook(self)
        return self

    @enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.leaving_since = time.monotonic()
        error = raised
        if isinstance(raised, trio.Cancelled | BaseExceptionGroup):
            try:
                if self.body_scope.__exit__(kind, raised, trace):
                    error = None  # a Cancelled of our own
            except BaseException as rest:
                error = rest  # a group without its Cancelled
        else:
            # It says True even of no exception; that is no word about `raised`.
            self.body_scope.__exit__(None, None, None)
        interrupts = await self._stop_all()
        self.closed = True
        self.timers.close()
        self.close_pump()
        if self.owner is not None:
            self.owner.rare().blocks.remove(self)
        try:
            await self._manager.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            self.errors.extend(
                each
                for each in group.exceptions
                if not (self.quarantine and "stack corrupted" in str(each))
            )
        finally:
            self._registry.pop(self, None)
            now.closed(self)
        return self._raise_what_is_left(error, raised, interrupts)

    async def _stop_all(self) -> list[KeyboardInterrupt]:
        """Stop in order whatever is left, shielded; a Ctrl-C on the way makes it a kill."""
        interrupts: list[KeyboardInterrupt] = []
        ended: Reply[Any] = Reply(None)
        self.root.rare().joiners = [ended]
        while self.root.actor is not None:
            try:
                with trio.CancelScope(shield=True):
                    if self.hard:
                        self.kill(self.root, Killed("its block was killed"))
                    else:
                        self.begin_stop(self.root, _SHUTDOWN)
                    if self.root.actor is not None:
                        await ended
            except KeyboardInterrupt as interrupt:
                interrupts.append(interrupt)
                self.hard = True
                # The wait that was interrupted has withdrawn its reply.
                ended = Reply(None)
                self.root.rare().joiners = [ended]
        return interrupts

    def _raise_what_is_left(
        self,
        error: BaseException | None,
        raised: BaseException | None,
        interrupts: list[KeyboardInterrupt],
    ) -> bool:
        # What ends the program leaves bare: a caller must not look for it in a group.
        fatal: list[BaseException] = [*interrupts, *self.fatal]
        if isinstance(error, KeyboardInterrupt):
            return False
        for each in fatal:
            if isinstance(each, KeyboardInterrupt):
                raise each from None
        if fatal:
            raise fatal[0] from None
        if self.errors:
            # A Cancelled among them is taken out by the scope that it belongs to.
            errors = [*self.errors, *([error] if error is not None else [])]
            try:
                raise BaseExceptionGroup(f"actors of {self.name} crashed", errors) from None
            finally:
                del errors, error
        if error is not None and error is not raised:
            raise error
        return error is None and raised is not None

    def start_pump(self) -> None:
        """Start a task that takes the run queue."""
        self.start_task(work, self)

    def broke(self, error: BaseException) -> None:
        """Take a bug of the runtime: it is the block's error, and the block ends."""
        self.errors.append(error)
        self.body_scope.cancel(reason="an error of the runtime")

    def time(self) -> float:
        """Seconds on trio's clock."""
        return trio.current_time()
