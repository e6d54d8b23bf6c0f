"""The one-shot slot that an ask waits on, and who is being run right now."""

from __future__ import annotations

from collections.abc import Generator
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec
from trio.lowlevel import (
    Abort,
    Task,
    checkpoint,
    checkpoint_if_cancelled,
    current_task,
    enable_ki_protection,
    reschedule,
)

from . import traps
from .errors import ActorCrashed, AskCycle, AskTimeout
from .traps import AWAKE, SUCCEEDED, WaitTrap

if TYPE_CHECKING:
    from .block import Block
    from .cell import Cell, Extra

R = TypeVar("R")

OPEN, VALUE, ERROR, WITHDRAWN = 0, 1, 2, 3
"""States of a :class:`Reply`.  It leaves ``OPEN`` once and for all."""

INLINE_ASKS = 64
"""Asks answered inline before the asker passes a checkpoint."""

REWAIT: Any = type("REWAIT", (), {"__slots__": ()})()
"""Sent into a parked coroutine: wait again, as a task, in a scope that is cancelled."""
YIELD: Any = type("YIELD", (), {"__slots__": ()})()
"""Yielded by a stepped coroutine that has not waited for long: let others run."""


END: Any = type("END", (), {"__slots__": ()})()
"""The message of a reply that waits for an actor's end."""


class _Now:
    """Who is running: in this thread, if trio runs actors in one thread only."""

    __slots__ = ("block", "blocks", "inline", "is_shared", "threads")

    def __init__(self) -> None:
        self.block: Block | None = None
        """The block whose pump ran last.  Its ``stepping`` is the cell being stepped."""
        self.blocks: dict[int, Block] = {}
        """The same for each thread."""
        self.inline = 0
        self.threads: set[int] = set()
        """Threads that opened a block."""
        self.is_shared = False
        """Whether there were more than one, so that :attr:`block` may be another's."""

    def opened_in(self, thread: int) -> None:
        """Note that a block is opened in `thread`."""
        self.threads.add(thread)
        self.is_shared = len(self.threads) > 1

    def closed(self, block: Block) -> None:
        """Forget `block`, which has ended."""
        if self.blocks.get(block.thread) is block:
            del self.blocks[block.thread]


now = _Now()
adopted: dict[Task, Cell[Any]] = {}
"""The handler that a worker task belongs to, while it really waits."""


def owner_of(task: Task | None) -> Cell[Any] | None:
    """The cell whose handler `task` works for, by trio's public parent links."""
    while task is not None:
        cell = adopted.get(task)
        if cell is not None:
            return cell
        nursery = task.parent_nursery
        task = nursery.parent_task if nursery is not None else None
    return None


def stepped_cell() -> Cell[Any] | None:
    """The cell that a pump is stepping in this thread; None in any other code."""
    block = now.blocks.get(get_ident()) if now.is_shared else now.block
    return block.stepping if block is not None else None


def current_cell() -> Cell[Any] | None:
    """The cell in whose handler, or in whose handler's child task, this code runs."""
    cell = stepped_cell()
    if cell is not None:
        return cell
    return owner_of(current_task()) if adopted else None


def refuse_cycle(asker: Cell[Any], target: Cell[Any]) -> None:
    """Raise :class:`AskCycle` if `target` waits for `asker`, directly or through others.

    A wait in a child task of a handler counts, although the handler could still
    cut it: waiting for a deadline to find a deadlock helps nobody.
    """
    paths: list[tuple[Cell[Any], ...]] = [(asker, target)]
    seen: set[int] = set()
    while paths:
        path = paths.pop()
        cell = path[-1]
        if cell is asker:
            raise AskCycle(asker.path, tuple(each.path for each in path))
        if id(cell) in seen:
            continue
        seen.add(id(cell))
        paths.extend((*path, each) for each in cell.waits_for())


def refuse_end_of_owner(asker: Cell[Any], target: Cell[Any]) -> None:
    """Raise :class:`AskCycle` if `target` owns `asker`, and so ends after it."""
    path = [asker]
    above = asker.parent
    while above is not None:
        path.append(above)
        if above is target:
            raise AskCycle(asker.path, tuple(each.path for each in (*path, asker)))
        above = above.parent


# A Struct, because an ask makes one: its constructor is C.
class Reply(msgspec.Struct, Generic[R], eq=False):
    """The answer to one ask, on its way.  ``await`` it once.

    It resolves exactly once: with a value, with an error, or by being
    withdrawn, which is what happens when its waiter is cancelled.  A message
    that its actor has not begun is then skipped.  Whatever comes after that is
    ignored.  Awaited while a value and a cancellation both are there, the
    cancellation wins.
    """

    message: Any
    target: Any = None
    """The cell that was asked; None where nobody was."""
    state: int = OPEN
    waiter: Any = None
    """The task, or the cell, that awaits it."""
    value: Any = None
    deadline: float | None = None
    seconds: float = 0.0
    """What the asker called the deadline."""
    is_inherited: bool = False
    """Whether the deadline is that of the ask which the asker was serving."""

    def __repr__(self) -> str:
        state = ("open", "answered", "failed", "withdrawn")[self.state]
        return f"<Reply of {self.target} to {self.message!r}, {state}>"

    @property
    def done(self) -> bool:
        """Whether it has resolved."""
        return self.state != OPEN

    def _abort(self, _: Any) -> Abort:
        self.waiter = None
        self.withdraw()
        return SUCCEEDED

    def withdraw(self) -> None:
        """Take the question back: nobody waits for the answer any more."""
        if self.state == OPEN:
            self.state = WITHDRAWN
            if self.target is not None:
                self.target.withdrawn(self)

    def _refuse_cycle(self, asker: Cell[Any]) -> None:
        try:
            refuse_cycle(asker, self.target)
            if self.message is END:
                refuse_end_of_owner(asker, self.target)
        except AskCycle:
            self.withdraw()  # nobody would hear the answer
            raise

    def bound(self, deadline: float, seconds: float) -> None:
        """Give up at `deadline`, with :class:`AskTimeout`, unless one is earlier already."""
        target = self.target
        if target is None or (self.deadline is not None and self.deadline <= deadline):
            return
        self.deadline = deadline
        self.seconds = seconds
        target.block.timers.at(deadline, _expire, self)

    def inherit(self, serving: Any) -> None:
        """Take over the deadline of the ask that the asker is serving, if it has one."""
        if type(serving) is Reply and serving.deadline is not None and self.message is not END:
            self.is_inherited = self.deadline is None or serving.deadline < self.deadline
            self.bound(serving.deadline, serving.seconds)

    @enable_ki_protection
    def __await__(self) -> Generator[Any, Any, R]:
        block = now.block
        cell = block.stepping if block is not None else None
        if now.is_shared:
            cell = stepped_cell()
        if self.state == OPEN:
            if self.waiter is not None:
                raise RuntimeError("two tasks await the same reply; await it once")
            if cell is not None:
                extra = cell.extra or cell.grow()
                target = self.target
                if target is not None:
                    if (
                        target is cell
                        or self.message is END
                        or (target.extra is not None and target.extra.is_waiting())
                    ):
                        self._refuse_cycle(cell)
                    serving = cell.block.serving
                    if type(serving) is Reply and serving.deadline is not None:
                        self.inherit(serving)
                own = cell.block
                reader = traps.scope_of
                if reader is not None and reader(own.worker) is own.base_scope:
                    extra.waiting = self
                    self.waiter = cell
                    try:
                        got = yield self
                    finally:
                        extra.waiting = None
                    if self.state != OPEN:
                        if got is REWAIT:
                            yield from checkpoint_if_cancelled().__await__()  # noqa: ASYNC105 - this is its await
                        return self.result()
                    # Killed or cut while parked: fall through to a real wait, in
                    # a scope that is cancelled, and so to a genuine Cancelled.
                    self.waiter = None
            task = current_task()
            if cell is None and adopted:
                cell = owner_of(task)
            waits: Extra | None = None
            if cell is not None and self.target is not None:
                waits = cell.extra or cell.grow()
                self._refuse_cycle(cell)
                self.inherit(waits.message)
                waits.also = (*waits.also, self)
            self.waiter = task
            try:
                got = yield WaitTrap(self._abort)
                if got is not AWAKE:
                    got.unwrap()
            finally:
                if waits is not None:
                    waits.also = tuple(each for each in waits.also if each is not self)
            return self.result()
        # Answered before it was awaited.  An await must still see a cancellation,
        # and now and then let others run.
        now.inline += 1
        if cell is not None:
            if cell.extra is not None and (cell.extra.killed or cell.extra.interrupted):
                yield from checkpoint_if_cancelled().__await__()  # noqa: ASYNC105 - this is its await
            elif now.inline >= INLINE_ASKS:
                now.inline = 0
                yield YIELD
        elif now.inline >= INLINE_ASKS:
            now.inline = 0
            yield from checkpoint().__await__()  # noqa: ASYNC105 - as above
        elif traps.scope_of is None or traps.scope_of(current_task()).effectively_cancelled:
            yield from checkpoint_if_cancelled().__await__()  # noqa: ASYNC105 - this is its await
        return self.value if self.state == VALUE else self.result()

    def result(self) -> R:
        """What it resolved to: returned, or raised."""
        if self.state == VALUE:
            return cast("R", self.value)
        if self.state == ERROR:
            raise self.value
        raise RuntimeError("the answer is not there: the ask is open, or was withdrawn")


@enable_ki_protection
def resolve(reply: Reply[Any], value: Any, state: int = VALUE) -> bool:
    """Resolve `reply`, waking who waits; returns False if it had resolved before."""
    if reply.state:
        return False
    reply.value = value
    reply.state = state
    waiter = reply.waiter
    if waiter is not None:
        reply.waiter = None
        if type(waiter) is Task:  # its metaclass makes isinstance ten times slower
            reschedule(waiter, AWAKE)
        else:
            waiter.block.enqueue(waiter)
    return True


def _expire(reply: Reply[Any]) -> None:
    assert reply.target is not None
    error = AskTimeout(reply.target.path, reply.seconds)
    error.is_inherited = reply.is_inherited
    if resolve(reply, error, ERROR):
        reply.target.withdrawn(reply)


def resolved(value: Any) -> Reply[Any]:
    """A reply that is there already."""
    return Reply(None, None, VALUE, None, value)


def crashed(path: str, error: BaseException) -> ActorCrashed:
    """The error an asker gets for `error` in the handler."""
    raised = ActorCrashed(path)
    raised.__cause__ = error
    return raised
