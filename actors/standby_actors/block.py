"""The owner's block: one trio nursery, one pump, and the lives of its actors.

Every exception out of an actor comes to :meth:`Block.failed`, and every change
of an actor's life is made here.  How turns are run is :mod:`pump`'s business.

Two scopes stand around the owner's body: the nursery outside, the body's scope
inside.  A crash cancels the body's scope and never the nursery's, and the body's
own error is never handed to the nursery, which would wrap it.  The shields that
make an ordered stop possible stand on the workers and around the stop itself; a
shield around the body would make it deaf.
"""

from __future__ import annotations

import collections
import contextvars
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterable
from types import CoroutineType, TracebackType
from typing import Any, Protocol

import trio
from trio.lowlevel import Task, enable_ki_protection, reschedule

from . import traps
from .cell import DEAD, HELD, Cell, System, asked, youngest
from .errors import ActorStopped, AskTimeout, StartTimeout
from .events import Stream, current_stream
from .exits import (
    Crashed,
    Exit,
    ExitReason,
    Killed,
    Linked,
    NoProcess,
    Shutdown,
    Stuck,
    abnormal,
    path_of_cause,
    root_cause,
)
from .failure import Crash, Fatal, WasCut, judge
from .kind import Kind
from .later import Later
from .names import Names
from .pump import live, work
from .reply import ERROR, Reply, crashed, current_cell, now, resolve
from .timers import Timers
from .traps import AWAKE
from .tree import await_frames

logger = logging.getLogger("standby")

BUDGET = 512
"""Turns before the pump passes a checkpoint."""
SLICE = 0.005
"""Seconds before it does, however few the turns."""
POOLED = 64
"""Idle workers kept for the next handler that waits."""
STOPPED_AT_ONCE = 512
"""Idle children ended in a row before others get their turn."""
_SHUTDOWN = Shutdown()
_UNSTARTED: Any = "no task has been started"


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


class Block:
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
        # ---- the run queue and who serves it
        self.runq: collections.deque[Cell[Any]] = collections.deque()
        self.parked: Any = _UNSTARTED
        """The pump's task while it has nothing to do."""
        self.pool: dict[Task, None] = {}
        """Workers that wait to become the pump."""
        self.holder: Any = None
        """Who holds the run queue: a task, "pending" for one that starts, or None."""
        self.worker: Any = None
        """The task of the pump."""
        self.base_scope: Any = None
        """Identity of the pump's innermost scope, where it can be read."""
        self.pump_scope: trio.CancelScope | None = None
        self.spoiled = False
        """Whether the pump's scope was cancelled for a handler that it was stepping."""
        self.quarantine: list[Task] = []
        """Workers whose scopes a handler has broken; they may exit after the block only."""
        self.pooled = POOLED
        self.workers = 0
        self.handoffs = 0
        """Times that a handler kept its worker, and another took the run queue."""
        # ---- what runs now
        self.running: Cell[Any] | None = None
        """The cell whose plain handler is being called."""
        self.stepping: Cell[Any] | None = None
        """The cell whose coroutine is being stepped; None at every real wait."""
        self.serving: Any = None
        """The message that the stepped coroutine handles."""
        self.batch: list[Any] | None = None
        self.rest: Any | None = None
        self.stack: list[Cell[Any]] = []
        """Cells whose plain handlers answer asks inline, each asked by the one before."""
        self.scratch: list[contextvars.Context] = []
        # ---- failures
        self.errors: list[BaseException] = []
        self.fatal: list[BaseException] = []
        self.hard = False
        """Whether the block is being killed rather than stopped."""
        self.closed = False
        # ---- counts
        self.numbered = 0
        self.dead_letters = 0
        self.late_replies = 0
        self.drops: collections.Counter[str] = collections.Counter()
        self.masked = 0
        self.crashes = 0

        self.stream: Stream
        self.base: contextvars.Context
        self.table: Any
        """What `base` keeps its values in; None where it has none.  See :func:`cell.changed`."""
        self.root: Cell[Any]
        self.nursery: trio.Nursery
        self.body_scope: trio.CancelScope
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
        for task in (*self.quarantine, *self.pool):
            reschedule(task, AWAKE)
        self.pool.clear()
        if self.parked is not None and self.parked is not _UNSTARTED:
            reschedule(self.parked, AWAKE)
        self.parked = None
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

    def kill_all(self) -> None:
        """Cancel the body and every actor, at once.  No stop hook runs."""
        self.hard = True
        self.kill(self.root, Killed("its block was killed"))
        self.body_scope.cancel(reason="the block was killed")

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

    def broke(self, error: BaseException) -> None:
        """Take a bug of the runtime: it is the block's error, and the block ends."""
        self.errors.append(error)
        self.body_scope.cancel(reason="an error of the runtime")

    def start_task(self, function: Callable[..., Any], *args: Any) -> None:
        """Start a task of the runtime, with the block's context and nobody else's.

        The pump is started by whoever sends first; it must not inherit their
        context variables.
        """
        self.base.copy().run(self.nursery.start_soon, function, *args)

    def time(self) -> float:
        """Seconds on trio's clock."""
        return trio.current_time()

    # ---- the run queue

    @enable_ki_protection
    def wake(self) -> None:
        """Let the pump go on, starting it the first time."""
        task = self.parked
        self.parked = None
        if task is _UNSTARTED:
            self.holder = "pending"
            self.start_task(work, self)
        else:
            reschedule(task, AWAKE)

    @enable_ki_protection
    def enqueue(self, cell: Cell[Any]) -> None:
        """Give `cell` a turn.  One too many does no harm."""
        self.runq.append(cell)
        if self.parked is not None:
            self.wake()

    def pass_baton(self) -> None:
        """Let another worker take the run queue: this one belongs to a handler now."""
        self.handoffs += 1
        if self.pool:
            task, _ = self.pool.popitem()
            self.holder = task
            reschedule(task, AWAKE)
        else:
            self.holder = "pending"
            self.start_task(work, self)

    # ---- the mailbox of a cell

    def _rest_of(self, cell: Cell[Any]) -> Any:
        """The iterator that takes from the mailbox of `cell` now, if one does."""
        if self.batch is not None and self.batch is cell.mailbox:
            return self.rest
        if cell.kind.dedicated:
            return None  # it takes its mail one by one, and leaves nothing standing
        extra = cell.extra
        return extra.rest if extra is not None else None

    def handled(self, cell: Cell[Any]) -> int:
        """Messages that stand in the mailbox of `cell` although they have been taken."""
        mailbox = cell.mailbox
        if mailbox is None or mailbox is DEAD:
            return 0
        rest = self._rest_of(cell)
        if rest is not None:
            return len(mailbox) - int(rest.__length_hint__())
        return cell.extra.offset if cell.extra is not None else 0

    def forget_handled(self, cell: Cell[Any], count: int) -> None:
        """Remove the `count` messages at the front that have been taken."""
        assert cell.mailbox is not None
        del cell.mailbox[:count]
        rest = self._rest_of(cell)
        if rest is not None:
            rest.__setstate__(0)
        elif cell.extra is not None:
            cell.extra.offset = 0

    def waiting_mail(self, cell: Cell[Any]) -> int:
        """Messages that wait for `cell`, those of senders without room included."""
        mailbox = cell.mailbox
        if mailbox is None or mailbox is DEAD:
            return 0
        waiting = len(mailbox) - self.handled(cell)
        rare = cell.extra.rare if cell.extra is not None else None
        if rare is not None and rare.senders:
            waiting += sum(not each.done for each in rare.senders)
        return waiting

    def split_batch(self, cell: Cell[Any]) -> None:
        """End the batch that `cell` is in after this message; the rest waits."""
        batch = self.batch
        if batch is None or batch is DEAD or batch is not cell.mailbox:
            return
        handled = self.handled(cell)
        cell.mailbox = batch[handled:]
        del batch[handled:]

    def push_system(self, cell: Cell[Any], item: System) -> None:
        """Put `item` into the system lane of `cell`."""
        extra = cell.extra or cell.grow()
        if extra.system is None:
            extra.system = collections.deque()
        extra.system.append(item)
        extra.alert = True
        if cell.mailbox is None:
            cell.mailbox = []
        elif self.running is cell:
            self.split_batch(cell)
            return
        self.enqueue(cell)

    def admit(self, cell: Cell[Any]) -> None:
        """Let in who waits for room, as far as there is room."""
        assert cell.extra is not None
        rare = cell.extra.rare
        if rare is None or not rare.senders:
            return
        mailbox = cell.mailbox
        waiting = 0 if mailbox is None else len(mailbox) - self.handled(cell)
        while rare.senders and waiting < cell.kind.capacity:
            place = rare.senders.popleft()
            if resolve(place, None):
                if cell.mailbox is None:
                    cell.mailbox = []
                cell.mailbox.append(place.message)
                waiting += 1

    def take_no_more(self, cell: Cell[Any]) -> None:
        """Begin nothing new in this life of `cell`; refuse its mail, unless it may get another."""
        extra = cell.extra
        if extra is None or extra.rare is None or extra.rare.keeper is None:
            self.drain(cell)
            return
        if cell.mailbox is None:
            cell.mailbox = []
        elif self.running is cell:
            self.split_batch(cell)
        self._drop_system(cell)

    def _drop_system(self, cell: Cell[Any]) -> None:
        extra = cell.extra
        while extra is not None and extra.system:
            item = extra.system.popleft()
            if item.reply is not None:
                resolve(item.reply, cell.stopped_error(), ERROR)

    def drain(self, cell: Cell[Any]) -> None:
        """Take no message any more: refuse those that wait, and all that come."""
        mailbox = cell.mailbox
        messages: list[Any] = []
        if mailbox is not None and mailbox is not DEAD:
            handled = self.handled(cell)
            messages = mailbox[handled:]
            # In place: the batch that is being run ends here.
            del mailbox[handled:]
        cell.mailbox = DEAD
        extra = cell.extra
        if extra is not None:
            extra.offset = 0
            self._drop_system(cell)
            rare = extra.rare
            if rare is not None and rare.senders:
                while rare.senders:
                    resolve(rare.senders.popleft(), cell.stopped_error(), ERROR)
        if messages:
            error = cell.stopped_error()
            for message in messages:
                if type(message) is Reply:
                    resolve(message, error, ERROR)
                else:
                    self.dead_letter(cell, message)

    def dead_letter(self, cell: Cell[Any], message: Any) -> None:
        """Count and report a message that nobody will handle."""
        self.dead_letters += 1
        if self.stream.listeners:
            self.emit("actor.dead_letter", cell, message=type(message).__name__)

    def dropped(self, cell: Cell[Any], how: str) -> None:
        """Count and report a message that the bound of a mailbox kept out."""
        self.drops[how] += 1
        if self.stream.listeners:
            self.emit("actor.overflow", cell, policy=how, capacity=cell.kind.capacity)

    def emit(self, type: str, cell: Cell[Any], **data: Any) -> None:  # noqa: A002 - the name that the event's field has
        """Put an event about `cell` on the stream; call it only where somebody listens."""
        parent = cell.parent.path if cell.parent is not None else ""
        self.stream.emit(type, cell.path, cell.incarnation, parent, data)

    # ---- answers

    def answer(self, cell: Cell[Any], reply: Reply[Any], value: Any) -> None:
        """Answer an ask whose handler returned `value`, which may need thought."""
        if type(value) in HELD:
            if self._is_an_answer(cell, value, reply):
                value.bind(cell, reply)
            return
        extra = cell.extra
        if extra is not None and extra.stopping and extra.leaving:
            # OTP's `{stop, Reason, Reply, State}`: the stop hook runs to its end,
            # then the caller gets its answer.
            rare = cell.rare()
            if rare.farewell is None:
                rare.farewell = []
            rare.farewell.append((reply, value))
            return
        if not resolve(reply, value):
            self.late(cell)

    def late(self, cell: Cell[Any]) -> None:
        """Count and report an answer that came when its asker had given up."""
        self.late_replies += 1
        if self.stream.listeners:
            self.emit("actor.late_reply", cell)

    def _is_an_answer(self, cell: Cell[Any], value: Any, message: Any) -> bool:
        """Whether what a handler returned is a promise that is still free; else it crashes."""
        name = f"{cell.kind.name}.receive"
        if type(value) is Later:
            if value.asked is None:
                return True
            what = f"{name} returned the same Later for two asks; make one for each"
            self.failed(cell, RuntimeError(what), message)
            return False
        if type(value) is CoroutineType:
            value.close()
        what = f"{name} returned an awaitable; make it async def and await"
        self.failed(cell, TypeError(what), message)
        return False

    def turn_over(self, cell: Cell[Any], message: Any, value: Any) -> None:
        """Do what follows a turn that ended with `value`."""
        if type(message) is Reply:
            self.answer(cell, message, value)
        elif type(message) is System:
            if (
                message.later is not None
                and type(value) in HELD
                and not self._is_an_answer(cell, value, message)
            ):
                return
            if message.then is not None:
                message.then(cell, value)
            if message.reply is not None:
                resolve(message.reply, value)

    # ---- starting

    def schedule_start(self, cell: Cell[Any], starter: Reply[Any] | None) -> None:
        """Queue the start hook of a new cell, before its first message."""
        kind = cell.kind
        rare = cell.rare()
        rare.starter = starter
        # Without a start hook there is nothing that the stop hook could have to wait
        # for: it is owed from the spawn on, also to a life that has not begun.
        rare.handled_start = kind.on_start is None
        if kind.dedicated:
            self.push_system(cell, System("life", lambda _: live(self, cell)))
        else:
            assert kind.on_start is not None
            self.push_system(cell, System("on_start", kind.on_start, self.started))
        if kind.start_timeout < float("inf"):
            rare.start_deadline = self.timers.after(kind.start_timeout, self._start_overdue, cell)

    def started(self, cell: Cell[Any], _: Any) -> None:
        """Note that the start hook is done, and tell who waits for it."""
        rare = cell.rare()
        assert cell.extra is not None
        if cell.extra.killed:
            return  # too late; who waits is told so when it has ended
        rare.handled_start = True
        if rare.start_deadline is not None:
            rare.start_deadline.cancel()
            rare.start_deadline = None
        if rare.starter is not None:
            starter, rare.starter = rare.starter, None
            resolve(starter, cell)

    def _start_overdue(self, cell: Cell[Any]) -> None:
        rare = cell.rare()
        if cell.actor is None or rare.handled_start:
            return
        error = StartTimeout(cell.path, cell.kind.start_timeout)
        self._start_failed(cell, error)
        assert cell.extra is not None
        cell.extra.reason = Crashed(error)
        self.kill(cell, Killed())

    def _start_failed(self, cell: Cell[Any], error: BaseException) -> None:
        """Keep the error of a start for who waits for it, or else tell the owner.

        Who waits is told once the actor has ended, so that its name is free then.
        """
        rare = cell.rare()
        if rare.starter is not None and not rare.starter.done:
            rare.start_error = error
            rare.quit = True
        else:
            self._tell_owner(cell, error)

    # ---- failures: the one place where an exception becomes a value

    def failed(self, cell: Cell[Any], error: BaseException, message: Any) -> None:
        """Take an exception out of a handler or hook of `cell`."""
        extra = cell.extra or cell.grow()
        verdict = judge(
            error, "killed" if extra.killed else "interrupted" if extra.interrupted else "no"
        )
        ask = asked(message)
        match verdict:
            case WasCut(masked):
                self.was_cut(cell, message)
                if masked is not None:
                    self._report_masked(cell, masked)
            case Crash(AskTimeout(is_inherited=True)) if ask is not None and ask.done:
                pass  # who asked has given up, and took this turn along: no crash
            case Crash(raised):
                if not self._is_offered_again(cell, message) and ask is not None:
                    resolve(ask, crashed(cell.path, raised), ERROR)
                self._crash(cell, raised, message)
            case Fatal(raised):
                if ask is not None:
                    resolve(ask, crashed(cell.path, raised), ERROR)
                self.fatal.append(raised)
                cell.rare().start_error = raised
                self.begin_stop(cell, Crashed(raised))
                self.body_scope.cancel(reason="an actor raised what ends the program")
                if self.leaving_since is not None and isinstance(raised, KeyboardInterrupt):
                    # Ctrl-C on the way out makes it a kill, also where it lands in a hook.
                    self.kill_all()

    def _is_offered_again(self, cell: Cell[Any], message: Any) -> bool:
        """Whether the message that crashed `cell` is kept for its next life."""
        rare = cell.extra.rare if cell.extra is not None else None
        if rare is None or rare.keeper is None or not rare.keeper.redeliver:
            return False
        if type(message) is System or cell.extra is None or cell.extra.stopping:
            return False
        if rare.again is not message:
            rare.tried = 0
        rare.again = message
        rare.tried += 1
        if rare.tried <= rare.keeper.redeliver:
            return True
        rare.again = None
        if type(message) is not Reply:
            self.dead_letter(cell, message)
        return False

    def was_cut(self, cell: Cell[Any], message: Any) -> None:
        """Tell who asked that the turn on `message` was cut."""
        assert cell.extra is not None
        ask = asked(message)
        reason = cell.extra.reason
        if cell.extra.killed and isinstance(reason, Crashed):
            # Condemned: to who asked, and to who counts, this message has crashed it.
            if not self._is_offered_again(cell, message) and ask is not None:
                resolve(ask, crashed(cell.path, reason.error), ERROR)
            return
        if ask is not None:
            why = "killed" if cell.extra.killed else "the turn was cut"
            resolve(ask, ActorStopped(cell.path, why), ERROR)

    def _crash(self, cell: Cell[Any], error: BaseException, message: Any) -> None:
        self.crashes += 1
        if self.stream.listeners:
            self.emit("actor.crashed", cell, error=f"{type(error).__name__}: {error}")
        extra = cell.extra
        assert extra is not None
        if extra.rare is not None and not extra.rare.handled_start:
            self._start_failed(cell, error)
        else:
            self._tell_owner(cell, error)
        if cell.actor is not None:
            extra.reason = Crashed(error)
            self.begin_stop(cell, extra.reason)

    def condemn(self, cell: Cell[Any], error: BaseException) -> None:
        """Make `error` the crash of a kept `cell`, and kill it for that."""
        if cell.actor is None:
            return
        extra = cell.extra or cell.grow()
        if extra.killed:
            return
        self.crashes += 1
        if self.stream.listeners:
            self.emit("actor.crashed", cell, error=f"{type(error).__name__}: {error}")
        extra.reason = Crashed(error)
        self.kill(cell, Killed())

    def _tell_owner(self, cell: Cell[Any], error: BaseException) -> None:
        """Give a crash to the owner: at once to a block, through a link to an actor."""
        if cell.rare().keeper is not None:
            return  # it hears of the end of the life
        if cell.parent is self.root:
            self.record(error, cell.path)
        elif cell.parent is not None and cell.rare().unlinked:
            logger.error("actor %s crashed", cell.path, exc_info=error)

    def record(self, error: BaseException, path: str) -> None:
        """Make `error` the block's: it will raise it, and its body ends now.

        Whoever catches it can see from a note that it was the actor at `path`.
        """
        if not any(each is error for each in self.errors):
            error.add_note(f"in the actor {path}")
            self.errors.append(error)
        self.body_scope.cancel(reason="an actor crashed")

    def _report_masked(self, cell: Cell[Any], error: BaseException) -> None:
        self.masked += 1
        if self.stream.listeners:
            self.emit("actor.masked", cell, error=f"{type(error).__name__}: {error}")
        logger.warning(
            "actor %s: an error was possibly masked by its cancellation", cell.path, exc_info=error
        )

    # ---- stopping in order

    def is_busy(self, cell: Cell[Any]) -> bool:
        """Whether a handler or hook of `cell` is in progress."""
        if self.running is cell or self.stepping is cell or cell in self.stack:
            return True
        extra = cell.extra
        return extra is not None and (extra.coro is not None or extra.worker is not None)

    def begin_stop(self, cell: Cell[Any], reason: ExitReason, *, cut: bool = False) -> None:
        """Begin the ordered stop of `cell`; what it has in progress ends first."""
        if cell.actor is None:
            return
        extra = cell.extra or cell.grow()
        first = not extra.stopping
        if first:
            if cell.kind.shutdown == 0 and cell.parent is not None:
                self.kill(cell, Killed())
                return
            extra.stopping = extra.alert = True
            if extra.reason is None:
                extra.reason = reason
            self.take_no_more(cell)
        if self.is_busy(cell):
            rare = extra.rare
            if rare is not None and rare.mail_wait is not None:
                self.enqueue(cell)
            elif cut or (cell.kind.stop_mode == "interrupt" and not extra.leaving):
                self.interrupt(cell)
        elif first:
            if (extra.children or cut) and cell.parent is not None:
                # Not by recursion, neither down nor up: a tree may be deeper than the stack.
                self.enqueue(cell)
            else:
                self.advance(cell)
        # One that leaves by its own wish is running now: no deadline could be served
        # before it waits again or returns, and mostly nothing is left to do then.
        if first and cell.actor is not None and not (extra.leaving and self.is_busy(cell)):
            self.bound_stop(cell)

    def bound_stop(self, cell: Cell[Any]) -> None:
        """Let the stop of `cell` turn into a kill in its ``shutdown`` seconds."""
        rare = cell.rare()
        if rare.deadline is None:
            rare.deadline = self.timers.after(cell.kind.shutdown, self._overdue, cell)

    def advance(self, cell: Cell[Any]) -> None:
        """Take the next step of the stop of `cell`, which has nothing in progress."""
        extra = cell.extra
        assert extra is not None
        if extra.advancing or cell.actor is None:
            return
        kind = cell.kind
        children = extra.children
        if children:
            extra.advancing = True
            if kind.stops_together:
                for child in list(children):
                    self.begin_stop(child, _SHUTDOWN)
                    self.forsake(child)
            else:
                self._stop_last(cell, children)
            extra.advancing = False
            if children:
                return  # the end of one of them gives us our next turn
        rare = extra.rare
        if kind.on_stop is not None and not extra.hooked and (rare is None or rare.handled_start):
            extra.hooked = True
            on_stop = kind.on_stop
            reason = extra.reason
            self.push_system(cell, System("on_stop", lambda actor: on_stop(actor, reason)))
            return
        assert extra.reason is not None
        self.end(cell, extra.reason)

    def _stop_last(self, cell: Cell[Any], children: dict[Cell[Any], None]) -> None:
        """Stop children of `cell`, the last first, until one takes its time."""
        for _ in range(STOPPED_AT_ONCE):
            if not children:
                return
            child = youngest(children)
            if child.extra is None and child.mailbox is None and child.kind.on_stop is None:
                self.end(child, _SHUTDOWN)
            elif child.actor is None:
                self.forsake(child)
            else:
                self.begin_stop(child, _SHUTDOWN)
                if child.actor is not None:
                    return
        self.enqueue(cell)

    def _overdue(self, cell: Cell[Any]) -> None:
        if cell.actor is not None:
            if cell.parent is None:
                self.hard = True
            self.kill(cell, Killed(f"it did not stop within {cell.kind.shutdown:g} s"))

    # ---- killing

    @enable_ki_protection
    def kill(self, cell: Cell[Any], reason: Killed) -> None:
        """Cancel what `cell` and all below it do, the blocks that they hold included.

        A walk, because the workers are shielded from one another's scopes.
        """
        todo = [cell]
        order: list[Cell[Any]] = []
        while todo:
            each = todo.pop()
            order.append(each)
            extra = each.extra
            if extra is not None:
                extra.doomed = True
                todo.extend(extra.children or ())
                if extra.rare is not None:
                    for block in extra.rare.blocks:
                        block.hard = True
                        block.body_scope.cancel(reason="the actor that holds the block was killed")
                        if block.root.extra is not None:
                            todo.extend(block.root.extra.children or ())
        for each in reversed(order):
            each.block.kill_one(each, reason)

    def kill_one(self, cell: Cell[Any], reason: Killed) -> None:
        """Kill `cell` alone; those below it have been killed."""
        if cell.actor is None:
            return
        if cell.extra is None and cell.mailbox is None:
            self.end(cell, reason)
            return
        extra = cell.extra or cell.grow()
        if extra.killed:
            return
        extra.killed = extra.alert = True
        if not isinstance(extra.reason, Crashed | Linked):
            extra.reason = reason
        self.take_no_more(cell)
        if self.is_busy(cell):
            self._cut(cell)
        else:
            self.finish(cell)
        if cell.actor is not None:
            rare = cell.rare()
            if rare.deadline is not None:
                rare.deadline.cancel()
            rare.deadline = self.timers.after(self.grace, self._outlived, cell)

    def interrupt(self, cell: Cell[Any]) -> None:
        """Cut the turn in progress of `cell`, if it is one that can be cut.

        A plain ``def`` cannot: it holds the loop, so nobody could ask for it but
        itself.  The cell goes on with its next message, or with its stop.
        """
        extra = cell.extra or cell.grow()
        if extra.worker is not None or extra.coro is not None or self.stepping is cell:
            extra.interrupted = True
            self._cut(cell)

    def _cut(self, cell: Cell[Any]) -> None:
        """Make a genuine ``trio.Cancelled`` reach the turn in progress of `cell`."""
        extra = cell.extra
        assert extra is not None
        if extra.worker is not None:
            assert extra.scope is not None
            rare = extra.rare
            if rare is not None and rare.turn_scope is not None and not extra.killed:
                rare.turn_scope.cancel(reason="interrupted")
            else:
                extra.scope.cancel(reason="killed" if extra.killed else "interrupted")
        elif extra.coro is not None:
            self.enqueue(cell)  # parked: resumed in a scope that is cancelled
        elif self.stepping is cell:
            assert self.pump_scope is not None
            self.pump_scope.cancel(reason="killed" if extra.killed else "interrupted")
            self.spoiled = True

    def _outlived(self, cell: Cell[Any]) -> None:
        """Report an actor that is alive `grace` seconds after its kill."""
        extra = cell.extra
        if cell.actor is None or extra is None:
            return
        if not self.is_busy(cell):
            return  # it waits for a child, which is reported itself
        rare = cell.rare()
        rare.stuck = True
        stuck = self.stuck_report(cell)
        if self.stream.listeners:
            self.emit("actor.stuck", cell, stack=stuck.stack)
        logger.error("%s", stuck)
        self.names.forget(cell, rare.name, rare.groups)
        stoppers, rare.stoppers = rare.stoppers, None
        for stopper in stoppers or ():
            resolve(stopper, stuck)
        if rare.starter is not None:
            starter, rare.starter = rare.starter, None
            resolve(starter, rare.start_error or cell.stopped_error(), ERROR)
        if extra.worker is not None:
            traps.pierce(extra.worker, extra.scope)
        rare.deadline = self.timers.after(self.grace, self._drop, cell)

    def stuck_report(self, cell: Cell[Any]) -> Stuck:
        """What is known of an actor that does not end."""
        coro = cell.extra.coro if cell.extra is not None else None
        return Stuck(cell.path, "\n".join(f"  {frame}" for frame in await_frames(coro)))

    def _drop(self, cell: Cell[Any]) -> None:
        # Its coroutine is closed at its next step; one that takes none (a thread
        # that cannot be abandoned) holds the block, and has been reported.
        if cell.actor is not None and cell.extra is not None:
            cell.extra.drop = True

    # ---- what becomes of a cell between turns

    def attend(self, cell: Cell[Any]) -> bool:
        """Look closer at an alerted cell; returns whether a turn may be taken from it."""
        extra = cell.extra
        if cell.actor is None or extra is None:
            return False
        if extra.killed:
            self.finish(cell)
            return False
        if extra.system:
            return True
        if extra.stopping:
            self.advance(cell)
            return False
        rare = extra.rare
        if rare is not None and rare.senders:
            self.admit(cell)
        if extra.suspended:
            return False
        extra.alert = rare is not None and bool(rare.senders)
        return cell.mailbox is not None

    def settle(self, cell: Cell[Any]) -> None:
        """Decide what `cell` does next, after a turn that left something to decide."""
        if cell.actor is None:
            return
        extra = cell.extra
        if extra is not None and extra.alert:
            if extra.killed:
                self.finish(cell)
                return
            if extra.system:
                self.enqueue(cell)
                return
            if extra.stopping:
                self.advance(cell)
                if cell.actor is not None:
                    self.bound_stop(cell)
                return
            self.admit(cell)
            if extra.suspended:
                if cell.mailbox is None:
                    cell.mailbox = []
                return
        if not cell.mailbox:
            cell.mailbox = None
        else:
            self.enqueue(cell)

    def finish(self, cell: Cell[Any]) -> None:
        """End a killed cell whose own turn is over, once its children have ended."""
        extra = cell.extra
        assert extra is not None
        while extra.children and youngest(extra.children).actor is None:
            self.forsake(youngest(extra.children))
        if not extra.children and not self.is_busy(cell):
            self.end(cell, extra.reason or Killed())

    def end(self, cell: Cell[Any], reason: ExitReason) -> None:
        """End `cell`.  Exactly once, and in this order: nothing reaches it, what it
        promised is refused, its name is free, its watchers hear of it, its owner
        goes on."""
        if cell.actor is None:
            return
        extra = cell.extra
        keeper = extra.rare.keeper if extra is not None and extra.rare is not None else None
        is_kept = keeper is not None and keeper.keeps(cell, reason)
        cell.actor = None
        cell.args = reason
        if is_kept:
            self._keep_mail(cell)
        else:
            if cell.mailbox is not None and cell.mailbox is not DEAD:
                self.drain(cell)
            cell.mailbox = DEAD
        parent = cell.parent
        told = False
        if extra is not None and extra.rare is not None:
            told = extra.rare.links is not None and parent in extra.rare.links
            self._end_rare(cell, reason)
        if self.stream.listeners:
            self.emit("actor.stopped", cell, reason=str(reason))
        if parent is None:
            return
        above = parent.extra
        assert above is not None
        assert above.children is not None
        if not is_kept:
            above.children.pop(cell, None)  # a kept one stays in its place
        if (above.stopping or above.killed) and not above.advancing:
            self.enqueue(parent)
        if keeper is not None:
            if not cell.rare().quit:
                keeper.lost(cell, reason)
            return
        # One link a pair: an owner that has linked itself once more has been told.
        if not told and (parent.kind.trap_exits or isinstance(reason, Crashed | Linked)):
            self._tell_linked_owner(cell, parent, reason)

    def _keep_mail(self, cell: Cell[Any]) -> None:
        """Let what waits for an ended life wait for the next one, in its order."""
        self.take_no_more(cell)
        rare = cell.rare()
        mailbox = cell.mailbox
        del mailbox[: self.handled(cell)]
        extra = cell.extra
        assert extra is not None
        extra.offset = 0
        extra.rest = None
        if self.batch is mailbox:
            self.batch = None
        if rare.own:
            own = {id(each) for each in rare.own}
            mailbox[:] = [each for each in mailbox if id(each) not in own]
        rare.own = None
        if rare.again is not None:
            mailbox.insert(0, rare.again)

    def forsake(self, cell: Cell[Any]) -> None:
        """Give up a kept cell between two lives: refuse its mail, free its name."""
        if cell.actor is None and cell.mailbox is not DEAD:
            self.drain(cell)
            rare = cell.rare()
            self.names.forget(cell, rare.name, rare.groups)
            above = cell.parent.extra if cell.parent is not None else None
            if above is not None and above.children is not None:
                above.children.pop(cell, None)

    def order_children(self, cell: Cell[Any], order: Iterable[Cell[Any]]) -> None:
        """Have the children of `cell` stop in the reverse of `order`."""
        extra = cell.extra
        if extra is not None and extra.children:
            children = extra.children
            extra.children = {each: None for each in order if each in children}

    def revive(self, cell: Cell[Any], args: tuple[Any, ...], starter: Reply[Any] | None) -> None:
        """Give `cell`, whose life has ended, another one, with what waits in its mailbox.

        Raises whatever making the instance raises; the cell is then as it was.
        """
        assert cell.actor is None
        extra = cell.extra or cell.grow()
        rare = cell.rare()
        parent = cell.parent
        assert parent is not None
        context = extra.context if extra.context is not None else self.base.copy()
        name = rare.name if cell.mailbox is DEAD else None
        if name is not None:
            self.names.check_free(name)
        actor = context.run(cell.kind.make, *args)
        if name is not None:
            rare.name = None
            self.names.register(name, cell)
        actor.ref = cell
        extra.killed = extra.stopping = extra.interrupted = False
        extra.hooked = extra.drop = extra.advancing = extra.doomed = False
        extra.reason = None
        extra.leaving = False
        rare.quit = rare.stuck = False
        rare.handled_start = True
        rare.start_error = rare.deadline = None
        rare.incarnation += 1
        extra.alert = extra.suspended or bool(rare.senders) or bool(extra.system)
        cell.args = None
        cell.actor = actor
        if cell.mailbox is DEAD:
            cell.mailbox = None
        above = parent.extra or parent.grow()
        if above.children is None:
            above.children = {}
        above.children[cell] = None
        if self.stream.listeners:
            self.emit("actor.spawned", cell, kind=cell.kind.name)
        if cell.kind.on_start is not None or cell.kind.dedicated:
            self.schedule_start(cell, starter)
            return
        if cell.mailbox or extra.alert:
            self.enqueue(cell)
        else:
            cell.mailbox = None
        if starter is not None:
            resolve(starter, cell)

    def _end_rare(self, cell: Cell[Any], reason: ExitReason) -> None:
        extra = cell.extra
        assert extra is not None
        rare = extra.rare
        assert rare is not None
        for timer in (rare.deadline, rare.silence, rare.start_deadline, *(rare.timers or ())):
            if timer is not None:
                timer.cancel()
        if rare.laters or rare.postponed:
            error = cell.stopped_error()
            laters, rare.laters = rare.laters, None
            for later in laters or ():
                later.break_off(error)
            for _, later in rare.postponed or ():
                later.break_off(error)
            rare.postponed = None
        for reply, value in rare.farewell or ():
            resolve(reply, value)
        rare.farewell = None
        if (rare.name is not None or rare.groups) and cell.mailbox is DEAD:
            self.names.forget(cell, rare.name, rare.groups)
        if rare.starter is not None:
            resolve(rare.starter, rare.start_error or cell.stopped_error(), ERROR)
        monitors, rare.monitors = rare.monitors, None
        for monitor in monitors or ():
            monitor.fire(reason)
        links, rare.links = rare.links, None
        for peer in links or ():
            if peer.extra is not None and peer.extra.rare is not None and peer.extra.rare.links:
                peer.extra.rare.links.pop(cell, None)
            self.linked_end(peer, cell, reason)
        for waiting in (*(rare.stoppers or ()), *(rare.joiners or ())):
            resolve(waiting, reason)
        rare.stoppers = rare.joiners = None

    def _tell_linked_owner(self, cell: Cell[Any], parent: Cell[Any], reason: ExitReason) -> None:
        """Let the end of a linked child reach its owner: a crash, or any if it traps exits."""
        rare = cell.extra.rare if cell.extra is not None else None
        if rare is not None and (rare.quit or rare.unlinked):
            return
        if parent is self.root:
            cause = root_cause(reason)
            if cause is not None and isinstance(cause, Exception | BaseExceptionGroup):
                self.record(cause, path_of_cause(reason, cell.path))
        else:
            self.linked_end(parent, cell, reason)

    def linked_end(self, cell: Cell[Any], peer: Cell[Any], reason: ExitReason) -> None:
        """Let `cell` feel that `peer`, which it is linked to, has ended."""
        if cell.actor is None:
            return
        extra = cell.extra or cell.grow()
        if extra.stopping:
            # It is on its way already; what went wrong meanwhile must not get lost.
            if extra.reason is not None and not abnormal(extra.reason) and abnormal(reason):
                extra.reason = Linked(peer.path, reason)
        elif cell.kind.trap_exits:
            cell.notify(Exit(peer, reason))
        elif abnormal(reason) or isinstance(reason, NoProcess):
            cell.block.begin_stop(cell, Linked(peer.path, reason), cut=True)
