"""How turns are run: one task at a time serves a block's run queue.

Whoever holds the run queue is the *pump*.  A plain ``def`` handler is called by
it.  A coroutine is stepped by it; while it waits for another actor it is parked
in its cell, without a task.  When it really waits, for trio, the pump's task
becomes that handler's for the rest of its turn, and another worker takes the
run queue.

A worker's scope is its handler's kill scope and its shield in one.  A worker
whose scope was cancelled is used up: it leaves the scope, and takes a new one,
before it steps anybody else.

No policy here: what an exception means and what becomes of a cell is asked of
the block.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextlib import AsyncExitStack
from contextvars import Context
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any

import outcome
import trio
from trio.lowlevel import (
    Abort,
    Task,
    cancel_shielded_checkpoint,
    current_task,
    enable_ki_protection,
)

from . import traps
from .cell import DEAD, HELD, Cell, KeptCell, System, changed, youngest
from .errors import LeakedScope
from .reply import REWAIT, VALUE, YIELD, Reply, adopted, now, resolve
from .traps import CHECKPOINT_TRAP, FAILED, SUCCEEDED, WaitTrap, trap

if TYPE_CHECKING:
    from .block import Block

SWALLOWED = 1_000
"""Cancellations in a row that a handler which was cut may swallow before it is dropped."""
_NO_MORE: Any = object()
_EMPTY: list[Any] = []


class Dropped(RuntimeError):
    """What a handler that swallows its cancellation is ended with."""


def _keep(_: Any) -> Abort:
    return FAILED


@enable_ki_protection
async def work(block: Block) -> None:
    """One worker: the pump, a handler's task, or neither, until the block has ended."""
    me = current_task()
    block.workers += 1
    quarantined = False
    try:
        while not block.closed and not quarantined:
            try:
                with trio.CancelScope(shield=True) as scope:
                    try:
                        if not await _serve(block, me, scope):
                            break
                    except trio.Cancelled:
                        raise
                    except LeakedScope:
                        # Its stack of scopes is broken.  It must not exit before the
                        # block has ended: trio would report that into the block.
                        quarantined = True
                        for nursery in me.child_nurseries:
                            nursery.cancel_scope.cancel(reason="left open by an actor")
                        if not block.closed:
                            block.quarantine.append(me)
                            await trap(WaitTrap(_keep))
                    # A bug of the runtime fails the block; but the pump goes on, or
                    # no stop could be ordered any more.
                    except BaseException as error:
                        block.broke(error)
                        block.running = block.stepping = block.batch = block.rest = None
                        if adopted.pop(me, None) is None and block.holder is me:
                            block.holder = None
            except RuntimeError:
                if not quarantined:
                    raise
    finally:
        block.workers -= 1


@coroutine
def _drive(coro: Any, yielded: Any, context: Context, cell: Cell[Any]) -> Generator[Any, Any, Any]:
    """Run a handler from its worker task, which it keeps, to its end.

    Exceptions are forwarded as well as values: trio may throw into the task's
    own coroutine.  Between two steps the handler can be dropped.
    """
    extra = cell.extra
    assert extra is not None
    swallowed = 0
    while True:
        try:
            try:
                if type(yielded) is not WaitTrap and yielded is not CHECKPOINT_TRAP:
                    raise TypeError(
                        f"the handler yielded {yielded!r}, which is not trio's: await only "
                        "what runs on trio"
                    )
                value = yield yielded
            # Whatever trio throws in is the handler's to deal with.
            except BaseException as error:
                if extra.drop:
                    _close(coro)
                    raise Dropped(f"{cell.path} swallowed its cancellation") from error
                yielded = context.run(coro.throw, error)
            else:
                if extra.drop or swallowed > SWALLOWED:
                    _close(coro)
                    raise Dropped(f"{cell.path} swallowed its cancellation")
                # trio sends its Cancelled as a value, which a frame of its own raises.
                if type(value) is outcome.Error and isinstance(value.error, trio.Cancelled):
                    if extra.killed or extra.interrupted:
                        swallowed += 1
                elif yielded is not CHECKPOINT_TRAP:
                    swallowed = 0
                yielded = context.run(coro.send, value)
            if extra.leaving:
                cell.block.bound_stop(cell)
            while type(yielded) is Reply or yielded is YIELD:
                yielded = context.run(coro.send, None if yielded is YIELD else REWAIT)
        except StopIteration as stop:
            return stop.value


_drive = enable_ki_protection(_drive)


def _close(coro: Any) -> None:
    # One that swallows GeneratorExit as well raises this; nothing more can be done.
    with contextlib.suppress(RuntimeError):
        coro.close()


def _leave_early(block: Block, cell: Cell[Any], batch: list[Any], handled: int) -> None:
    """Put back a cell whose batch was not finished."""
    block.batch = None
    if handled * 2 > len(batch):
        del batch[:handled]
        handled = 0
    if handled:
        (cell.extra or cell.grow()).offset = handled
    block.runq.append(cell)


@enable_ki_protection
async def _serve(block: Block, me: Task, scope: trio.CancelScope) -> bool:
    """Hold the run queue until this worker is used up, or the block has ended.

    Returns whether the worker is still needed.
    """
    runq = block.runq
    pop = runq.popleft
    base_context = block.base
    has_variables = block.table is not None
    shared = base_context.copy()
    scope_of = traps.scope_of
    seam = block.seam

    def abort(_: Any) -> Abort:
        if block.parked is me:
            block.parked = None
        else:
            block.pool.pop(me, None)
        return SUCCEEDED

    wait = WaitTrap(abort)
    if block.holder is None or block.holder == "pending":
        block.holder = me
    elif block.holder is not me:
        if len(block.pool) >= block.pooled:
            return False
        block.pool[me] = None
        await trap(wait)
        if block.closed:
            return False
    base_scope = scope_of(me) if scope_of is not None else None

    def take_over() -> None:
        block.holder = me
        block.worker = me
        block.pump_scope = scope
        block.base_scope = base_scope
        now.block = now.blocks[block.thread] = block

    take_over()
    coro: Any
    value: Any
    message: Any
    payload: Any
    yielded: Any
    batch: Any
    rest: Any  # a list's iterator: it tells how many are left, and can be set back
    first_look = min(8, block.budget)
    turns = 0
    limit = first_look
    started = block.clock()
    while True:
        if turns >= limit:
            # A budget of count and of time; the clock is read after 8, 16, 32 … turns.
            if turns < block.budget and (block.clock() - started) * 2 < block.slice:
                limit = min(turns * 2, block.budget)
            else:
                turns = 0
                limit = first_look
                await cancel_shielded_checkpoint()
                now.block = now.blocks[block.thread] = block
                started = block.clock()
        if block.spoiled:
            # A handler was killed while it was stepped, and ended without waiting.
            block.spoiled = False
            if block.holder is me:
                block.holder = None
            return True
        if not runq:
            if block.closed:
                return False
            # What it served last must not live as long as the pump sleeps.
            cell = extra = actor = None
            coro = value = message = batch = rest = None
            payload = yielded = waiting = None
            block.serving = block.batch = block.rest = None
            block.parked = me
            await trap(wait)
            if block.closed:
                return False
            now.block = now.blocks[block.thread] = block
            turns = 0
            limit = first_look
            started = block.clock()
            continue
        if seam is not None:
            seam.before_turn(block)
        cell = pop()
        if type(cell) is KeptCell:
            cell.is_taken = True
        extra = cell.extra
        coro = value = message = None
        is_cut = False
        if extra is None:
            context = shared
            owns_context = False
        else:
            if extra.worker is not None:
                rare = extra.rare
                if rare is not None and rare.mail_wait is not None:
                    task, rare.mail_wait = rare.mail_wait, None
                    trio.lowlevel.reschedule(task, traps.AWAKE)
                continue
            if extra.coro is not None:
                waiting = extra.waiting
                if extra.killed or extra.interrupted:
                    is_cut = True
                    value = REWAIT
                elif waiting is not None and not waiting.state:
                    continue  # queued for another reason; its answer is not there
                coro, extra.coro = extra.coro, None
                message, extra.message = extra.message, None
                turns += 1
            elif extra.alert and not block.attend(cell):
                turns += 1
                continue
            if extra.context is not None:
                context = extra.context
                owns_context = True
            else:
                context = shared
                owns_context = False
        kind = cell.kind
        batch = cell.mailbox
        if coro is None:
            if batch is None or cell.actor is None:
                continue
            if batch is DEAD:
                rest = iter(_EMPTY)
            else:
                rest = iter(batch)
                if extra is not None and extra.offset:
                    rest.__setstate__(extra.offset)
                    extra.offset = 0
            if kind.plain and (extra is None or not extra.system):
                # ---- plain handlers: called, a whole batch at a time
                receive = kind.receive
                actor = cell.actor
                run = context.run
                block.running = cell
                block.batch = batch
                block.rest = rest
                left = -1
                try:
                    for message in rest:
                        turns += 1
                        if type(message) is Reply:
                            if not message.state:
                                value = run(receive, actor, message.message)
                                if type(value) in HELD or (
                                    (extra := cell.extra) is not None and extra.alert
                                ):
                                    block.answer(cell, message, value)
                                elif not resolve(message, value, VALUE):
                                    block.late(cell)
                        else:
                            run(receive, actor, message)
                        if turns >= limit:
                            break
                    else:
                        left = 0
                # The cell: here an exception of a plain handler becomes a value.
                except BaseException as error:
                    block.failed(cell, error, message)
                block.running = None
                extra = cell.extra
                if not owns_context and (
                    changed(shared, block) if has_variables else shared != base_context
                ):
                    extra = extra or cell.grow()
                    extra.context = shared
                    shared = base_context.copy()
                if extra is not None and extra.alert:
                    if (
                        extra.leaving
                        and extra.rare is None
                        and not extra.children
                        and not extra.system
                        and kind.on_stop is None
                        and not extra.killed
                    ):
                        assert extra.reason is not None
                        block.end(cell, extra.reason)
                    else:
                        _after_turn(block, cell, batch, rest)
                elif cell.mailbox is batch:
                    if left and (left := rest.__length_hint__()):
                        _leave_early(block, cell, batch, len(batch) - left)
                    else:
                        cell.mailbox = None
                else:
                    block.settle(cell)
                continue
        else:
            assert extra is not None
            assert extra.rest is not None
            rest = extra.rest
            extra.rest = None
            batch = batch if batch is not None else _EMPTY
        # ---- everything that may wait: handlers, hooks, whole lives
        block.batch = batch
        block.rest = rest
        while True:
            if coro is None:
                extra = cell.extra
                message = _NO_MORE
                if extra is not None and extra.alert:
                    if not block.attend(cell):
                        block.batch = None
                        if cell.mailbox is batch and batch is not DEAD:
                            del batch[: len(batch) - rest.__length_hint__()]
                        break
                    if extra.system:
                        message = extra.system.popleft()
                if message is _NO_MORE:
                    if cell.mailbox is not batch or batch is DEAD:
                        block.settle(cell)
                        break
                    if turns >= limit:
                        left = rest.__length_hint__()
                        if left:
                            _leave_early(block, cell, batch, len(batch) - left)
                        else:
                            cell.mailbox = None
                        break
                    message = next(rest, _NO_MORE)
                    if message is _NO_MORE:
                        cell.mailbox = None
                        break
                turns += 1
                if type(message) is Reply and message.state:
                    continue
            block.serving = message
            yielded = None
            has_ended = True
            try:
                if coro is None:
                    if type(message) is System:
                        block.running = cell
                        value = context.run(message.call, cell.actor)
                        block.running = None
                        if type(value) is CoroutineType:
                            coro, value = value, None
                    elif kind.is_async:
                        payload = message.message if type(message) is Reply else message
                        coro = kind.receive(cell.actor, payload)
                        value = None
                    else:
                        payload = message.message if type(message) is Reply else message
                        block.running = cell
                        value = context.run(kind.receive, cell.actor, payload)
                        block.running = None
                if coro is not None:
                    if is_cut:
                        block.pass_baton()
                        scope.cancel(reason="killed" if extra and extra.killed else "interrupted")
                    block.stepping = cell
                    try:
                        yielded = context.run(coro.send, value)
                        has_ended = False
                    except StopIteration as stop:
                        value = stop.value
                    block.stepping = None
            # The cell, as above: an exception becomes the block's to judge.
            except BaseException as error:
                block.running = block.stepping = None
                coro = None
                block.failed(cell, error, message)
                assert cell.extra is not None
                cell.extra.interrupted = False
                if is_cut:
                    _after_turn(block, cell, batch, rest)
                    break
                continue
            if has_ended:
                was_driven = coro is not None
                coro = None
                if was_driven and scope_of is not None and scope_of(me) is not base_scope:
                    _leaked(block, cell, message, rest, batch, is_cut)
                    raise LeakedScope(cell.path, "a handler")
                extra = cell.extra
                if extra is not None:
                    extra.interrupted = False
                if type(message) is not Reply:
                    if type(message) is System:
                        block.turn_over(cell, message, value)
                elif type(value) in HELD or (extra is not None and extra.alert):
                    # The answer may find fault with the value, and fail the actor.
                    block.answer(cell, message, value)
                elif not resolve(message, value, VALUE):
                    block.late(cell)
                if is_cut:
                    _after_turn(block, cell, batch, rest)
                    break
                continue
            extra = cell.extra or cell.grow()
            extra.message = message
            extra.rest = rest
            if extra.leaving:
                block.bound_stop(cell)
            if not is_cut and (type(yielded) is Reply or yielded is YIELD):
                extra.coro = coro
                if yielded is YIELD or extra.killed or extra.interrupted:
                    block.enqueue(cell)
                break
            # ---- a real wait: this task and its scope are the handler's now
            if not owns_context:
                extra.context = context
                shared = base_context.copy()
                owns_context = True
            extra.coro = coro
            extra.worker = me
            extra.scope = scope
            adopted[me] = cell
            if not is_cut:
                block.pass_baton()
            if block.spoiled and block.pump_scope is scope:
                block.spoiled = False
            try:
                value = await _drive(coro, yielded, context, cell)
            # The cell once more, for a handler that had this task.
            except BaseException as error:
                has_failed = True
                failure: BaseException | None = error
            else:
                has_failed = False
                failure = None
            del adopted[me]
            # `extra.rest` says, until the mailbox is put in order, that this message has
            # been taken: a next life may begin in here, and must not be given it again.
            extra.coro = extra.worker = extra.scope = extra.message = None
            coro = None
            leaked = scope_of is not None and scope_of(me) is not base_scope
            if leaked:
                if failure is not None:
                    block.failed(cell, failure, message)
                _leaked(block, cell, message, rest, batch, True)
                raise LeakedScope(cell.path, "a handler")
            if has_failed:
                assert failure is not None
                block.failed(cell, failure, message)
                failure = None
            else:
                block.turn_over(cell, message, value)
            extra.interrupted = False
            _after_turn(block, cell, batch, rest)
            is_cut = True  # whatever it was: this task is the pump no longer
            break
        if not owns_context and (
            changed(shared, block) if has_variables else shared != base_context
        ):
            (cell.extra or cell.grow()).context = shared
            shared = base_context.copy()
        if is_cut:
            payload = yielded = waiting = None
            cell = extra = batch = rest = message = value = context = None  # type: ignore[assignment]
            if scope.cancel_called:
                return True
            if block.closed:
                return False
            if block.holder is not None:
                if len(block.pool) >= block.pooled:
                    return False
                block.pool[me] = None
                await trap(wait)
                if block.closed:
                    return False
            take_over()
            turns = 0
            limit = first_look
            started = block.clock()


def _after_turn(block: Block, cell: Cell[Any], batch: Any, rest: Any) -> None:
    """Take what was handled out of the mailbox, and let the block decide what follows."""
    if block.batch is batch:
        block.batch = None  # its iterator does not count what is taken out here
    if cell.mailbox is batch and batch is not DEAD:
        del batch[: len(batch) - rest.__length_hint__()]
    if cell.extra is not None:
        cell.extra.rest = None
    block.settle(cell)


def _leaked(
    block: Block,
    cell: Cell[Any],
    message: Any,
    rest: Any,
    batch: Any,
    is_adopted: bool,
) -> None:
    """Crash an actor that left a scope open, and let another worker take the run queue."""
    if not is_adopted:
        block.pass_baton()
    block.failed(cell, LeakedScope(cell.path, _label(message)), message)
    _after_turn(block, cell, batch, rest)


def _label(message: Any) -> str:
    return message.label if type(message) is System else "its handler"


@enable_ki_protection
async def live(block: Block, cell: Cell[Any]) -> None:
    """One incarnation of a dedicated actor: its hooks and handlers, all on one task."""
    await cancel_shielded_checkpoint()  # from here on the worker is ours
    try:
        async with AsyncExitStack() as entered:
            cell.rare().entered = entered
            await _lead(block, cell)
    # As of a hook.  A Cancelled has done its work when all that was entered is left.
    except BaseException as error:
        extra = cell.extra
        if extra is not None and extra.drop and isinstance(error, GeneratorExit):
            raise  # as of a turn
        block.failed(cell, error, None)


async def _lead(block: Block, cell: Cell[Any]) -> None:
    extra = cell.extra
    assert extra is not None
    rare = cell.rare()
    kind = cell.kind
    if kind.on_start is not None and await _turn(
        block, cell, System("on_start", kind.on_start, block.started)
    ):
        return
    if kind.on_start is None:
        block.started(cell, None)
    while not extra.stopping:
        if extra.killed:
            return
        if extra.system:
            await _turn(block, cell, extra.system.popleft())
            continue
        block.admit(cell)
        mailbox = cell.mailbox
        if mailbox and not extra.suspended:
            message = mailbox[0]
            del mailbox[0]
            if type(message) is not Reply or not message.state:
                await _turn(block, cell, message)
            continue
        if not extra.suspended:
            cell.mailbox = None
        rare.mail_wait = current_task()

        def abort(_: Any) -> Abort:
            rare.mail_wait = None
            return SUCCEEDED

        await trap(WaitTrap(abort))
    while extra.children and not extra.killed:
        await youngest(extra.children).stop()
    if kind.on_stop is not None and not extra.killed and rare.handled_start:
        extra.hooked = True
        on_stop = kind.on_stop
        await _turn(block, cell, System("on_stop", lambda actor: on_stop(actor, extra.reason)))


async def _turn(block: Block, cell: Cell[Any], message: Any) -> bool:
    """One turn of a dedicated actor; returns whether it failed."""
    extra = cell.extra
    assert extra is not None
    rare = cell.rare()
    kind = cell.kind
    life = extra.message
    try:
        # What the start hook enters stays open, so no scope of its turn may stand around
        # it; cutting it is cutting the life, which has not begun.
        if (kind.stop_mode == "interrupt" or kind.cut_when_withdrawn) and not (
            type(message) is System and message.label == "on_start"
        ):
            value = None
            with trio.CancelScope() as scope:
                rare.turn_scope = scope
                value = await _call(cell, message)
            if scope.cancelled_caught:
                block.was_cut(cell, message)
                return True
        else:
            value = await _call(cell, message)
    # Killed, the whole life ends here; its Cancelled has done its work.
    except BaseException as error:
        if extra.drop and isinstance(error, GeneratorExit):
            raise  # nobody's error: the pump drops it, as it swallowed its cancellation
        block.failed(cell, error, message)
        return True
    finally:
        rare.turn_scope = None
        extra.interrupted = False
        extra.message = life
    block.turn_over(cell, message, value)
    return False


async def _call(cell: Cell[Any], message: Any) -> Any:
    extra = cell.extra
    assert extra is not None
    extra.message = message
    if type(message) is System:
        value = message.call(cell.actor)
        return await value if type(value) is CoroutineType else value
    value = cell.kind.receive(cell.actor, message.message if type(message) is Reply else message)
    return await value if cell.kind.is_async else value
