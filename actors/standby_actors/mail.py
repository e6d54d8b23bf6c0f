"""The run queue of a block, and the mailboxes of its actors.

Here a message comes in, waits, is refused or is counted as lost.  What becomes of
the turn on it is :mod:`outcomes`' business, and how turns are run :mod:`pump`'s.
"""

from __future__ import annotations

import collections
import contextvars
from collections.abc import Callable
from typing import Any

import trio
from trio.lowlevel import Task, enable_ki_protection, reschedule

from .cell import DEAD, Cell, System
from .events import Stream
from .reply import ERROR, Reply, resolve
from .traps import AWAKE

_UNSTARTED: Any = "no task has been started"


class Mail:
    """What brings messages to the actors of a block, and turns to its pump."""

    base: contextvars.Context
    """What the block's tasks start with."""
    nursery: trio.Nursery
    stream: Stream

    def __init__(self) -> None:
        # ---- the run queue and who serves it
        self.runq: collections.deque[Cell[Any]] = collections.deque()
        self.parked: Any = _UNSTARTED
        """The pump's task while it has nothing to do."""
        self.pool: dict[Task, None] = {}
        """Workers that wait to become the pump."""
        self.quarantine: list[Task] = []
        """Workers whose scopes a handler has broken; they may exit after the block only."""
        self.holder: Any = None
        """Who holds the run queue: a task, "pending" for one that starts, or None."""
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
        # ---- counts
        self.dead_letters = 0
        self.late_replies = 0
        self.drops: collections.Counter[str] = collections.Counter()

    # ---- the run queue

    def start_task(self, function: Callable[..., Any], *args: Any) -> None:
        """Start a task of the runtime, with the block's context and nobody else's.

        The pump is started by whoever sends first; it must not inherit their
        context variables.
        """
        self.base.copy().run(self.nursery.start_soon, function, *args)

    def start_pump(self) -> None:
        """Start a task that takes the run queue."""
        raise NotImplementedError

    def close_pump(self) -> None:
        """Let the workers that wait for something to do end."""
        for task in (*self.quarantine, *self.pool):
            reschedule(task, AWAKE)
        self.pool.clear()
        if self.parked is not None and self.parked is not _UNSTARTED:
            reschedule(self.parked, AWAKE)
        self.parked = None

    @enable_ki_protection
    def wake(self) -> None:
        """Let the pump go on, starting it the first time."""
        task = self.parked
        self.parked = None
        if task is _UNSTARTED:
            self.holder = "pending"
            self.start_pump()
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
            self.start_pump()

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
        if cell.keeper is None:
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
                if type(message) is not Reply:
                    self.dead_letter(cell, message)
                elif resolve(message, error, ERROR) and message.target is None:
                    self.dead_letter(cell, message.message)

    # ---- what is counted

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

    def late(self, cell: Cell[Any]) -> None:
        """Count and report an answer that came when its asker had given up."""
        self.late_replies += 1
        if self.stream.listeners:
            self.emit("actor.late_reply", cell)

    def emit(self, type: str, cell: Cell[Any], **data: Any) -> None:  # noqa: A002 - the name that the event's field has
        """Put an event about `cell` on the stream; call it only where somebody listens."""
        parent = cell.parent.path if cell.parent is not None else ""
        self.stream.emit(type, cell.path, cell.incarnation, parent, data)
