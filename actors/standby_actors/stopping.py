"""How actors are stopped in order, and killed.

An ordered stop ends what is in progress, then the children, the last first, then
runs the stop hook.  Its deadline makes it a kill: a walk over all below, because
workers are shielded from one another's scopes.
"""

from __future__ import annotations

import logging
from typing import Any

import trio
from trio.lowlevel import enable_ki_protection

from . import traps
from .cell import Cell, System, youngest
from .exits import ExitReason, Killed, Shutdown, Stuck
from .lives import CRASHES, Lives, is_stuck
from .reply import ERROR, resolve
from .tree import await_frames

logger = logging.getLogger("standby")

STOPPED_AT_ONCE = 512
"""Idle children ended in a row before others get their turn."""
_SHUTDOWN = Shutdown()


class Stopping(Lives):
    """What makes the lives in a block end."""

    grace: float
    pump_scope: trio.CancelScope | None
    spoiled: bool

    def __init__(self) -> None:
        super().__init__()
        self.hard = False
        """Whether the block is being killed rather than stopped."""

    # ---- in order

    def is_busy(self, cell: Cell[Any]) -> bool:
        """Whether a handler or hook of `cell` is in progress."""
        if self.running is cell or self.stepping is cell or cell in self.stack:
            return True
        extra = cell.extra
        return extra is not None and (extra.coro is not None or extra.worker is not None)

    def begin_stop(
        self, cell: Cell[Any], reason: ExitReason, *, cut: bool = False, own: bool = False
    ) -> None:
        """Begin the ordered stop of `cell`; what it has in progress ends first.

        Args:
            cell: who is to end.
            reason: how it will have ended.
            cut: whether its turn in progress is cut, whatever its stop mode.
            own: whether it ends by itself, and not because others want it to: then
                it is no kill, also where its ``shutdown`` is 0.
        """
        if cell.actor is None:
            return
        if cell.kind.shutdown == 0 and cell.parent is not None and not own:
            self.kill(cell, Killed())
            return
        extra = cell.extra or cell.grow()
        first = not extra.stopping
        if first:
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
        if first and not (extra.leaving and self.is_busy(cell)):
            self.bound_stop(cell)

    def bound_stop(self, cell: Cell[Any]) -> None:
        """Let the stop of `cell` turn into a kill in its ``shutdown`` seconds.

        Nothing, if it has ended meanwhile: another life may have begun in it already,
        which is not the one that stops.  Nothing either for one of 0 seconds, which is
        killed when others stop it: its own end has no bound until they do.
        """
        extra = cell.extra
        if cell.actor is None or extra is None or not extra.stopping:
            return
        rare = cell.rare()
        if rare.deadline is None and (cell.kind.shutdown or cell.parent is None):
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
                    if child.just_ends:
                        self.end(child, _SHUTDOWN)
                        continue
                    self.begin_stop(child, _SHUTDOWN)
                    self.forsake(child)
            else:
                self._stop_last(cell, children)
            extra.advancing = False
            if children:
                if self._is_held(cell):
                    self._give_up_waiting(cell)
                    self._set_aside(cell)
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
            if child.just_ends:
                self.end(child, _SHUTDOWN)
            elif child.actor is None:
                self.part_with(child)
            elif is_stuck(child):
                return  # it stands first: nobody else is left
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

    # ---- at once

    def kill_all(self) -> None:
        """Cancel the body and every actor, at once.  No stop hook runs."""
        self.hard = True
        self.kill(self.root, Killed("its block was killed"))
        self.body_scope.cancel(reason="the block was killed")

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
        if not isinstance(extra.reason, CRASHES):
            extra.reason = reason
        self.take_no_more(cell)
        if extra.rare is not None and extra.rare.on_kill is not None:
            extra.rare.on_kill()
        if self.is_busy(cell):
            self._cut(cell)
        else:
            self.finish(cell)
        # It may have ended, and live again already.
        if cell.actor is not None and extra.killed:
            rare = cell.rare()
            if rare.deadline is not None:
                rare.deadline.cancel()
            rare.deadline = self.timers.after(self.grace, self._outlived, cell)

    def finish(self, cell: Cell[Any]) -> None:
        """End a killed cell whose own turn is over, once its children have ended."""
        extra = cell.extra
        assert extra is not None
        while extra.children and youngest(extra.children).actor is None:
            self.part_with(youngest(extra.children))
        if not extra.children and not self.is_busy(cell):
            self.end(cell, extra.reason or Killed())

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

    # ---- what outlives its kill

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
        self._part_with(cell, stuck)
        if rare.starter is not None:
            starter, rare.starter = rare.starter, None
            resolve(starter, rare.start_error or cell.stopped_error(), ERROR)
        if extra.worker is not None:
            traps.pierce(extra.worker, extra.scope)
        rare.deadline = self.timers.after(self.grace, self._drop, cell)
        self._set_aside(cell)

    def _set_aside(self, cell: Cell[Any]) -> None:
        """Let the stop of who owns a stuck `cell` go on with its other children.

        Once nobody else is left, whoever waits for that stop is told of `cell`, and
        so are those who wait for the owners above.
        """
        while (owner := cell.parent) is not None and owner.actor is not None:
            above = owner.extra
            assert above is not None
            assert above.children is not None
            # The last is stopped first: those that are stuck stand before all others.
            above.children = {cell: None, **above.children}
            if not (above.stopping or above.killed):
                return
            self.enqueue(owner)
            if not self._is_held(owner):
                return
            self._give_up_waiting(owner)
            cell = owner

    def _is_held(self, cell: Cell[Any]) -> bool:
        """Whether nothing but stuck children keeps `cell` from its end; then once only."""
        extra = cell.extra
        if extra is None or not extra.children or cell.parent is None:
            return False
        if not is_stuck(youngest(extra.children)):
            return False
        return not self.is_busy(cell) and not is_stuck(cell)

    def _give_up_waiting(self, cell: Cell[Any]) -> None:
        """Tell who waits for the stop of `cell` that it does not come to its end."""
        cell.rare().stuck = True
        self._part_with(cell, self.stuck_report(cell))

    def _part_with(self, cell: Cell[Any], stuck: Stuck) -> None:
        """Free what a stuck `cell` holds of others: its name, its mail, who waits for its stop."""
        rare = cell.rare()
        self.names.forget(cell, rare.name, rare.groups)
        assert cell.extra is not None
        if cell.keeper is not None and not cell.keeper.keeps(cell, cell.extra.reason or Killed()):
            self.drain(cell)  # there will be no next life to handle it
        stoppers, rare.stoppers = rare.stoppers, None
        for stopper in stoppers or ():
            resolve(stopper, stuck)

    def stuck_report(self, cell: Cell[Any]) -> Stuck:
        """What is known of an actor that does not end, or of who below it does not."""
        while not self.is_busy(cell) and cell.extra is not None and cell.extra.children:
            cell = youngest(cell.extra.children)
        coro = cell.extra.coro if cell.extra is not None else None
        return Stuck(cell.path, "\n".join(f"  {frame}" for frame in await_frames(coro)))

    def _drop(self, cell: Cell[Any]) -> None:
        # Its coroutine is closed at its next step; one that takes none (a thread
        # that cannot be abandoned) holds the block, and has been reported.
        if cell.actor is not None and cell.extra is not None:
            cell.extra.drop = True

    # ---- between turns

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
            if cell.actor is not None:
                self.bound_stop(cell)  # it left by its own wish, and waits for who is below
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
