"""How a life begins, ends, and is followed by another in the same cell.

Who promised or awaited something of it is told here: a starter, monitors, links,
the owner.  What makes it end is decided in :mod:`stopping` and :mod:`outcomes`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from typing import Any

import trio

from .cell import DEAD, Cell, KeptCell, System
from .chaos import point
from .errors import StartTimeout
from .exits import (
    Crashed,
    Exit,
    ExitReason,
    Killed,
    Linked,
    NoProcess,
    abnormal,
    path_of_cause,
    root_cause,
)
from .kind import no_actor
from .mail import Mail
from .names import Names
from .pump import live
from .reply import ERROR, Reply, resolve
from .timers import Timers

logger = logging.getLogger("standby")

CRASHES = (Crashed, Linked)
"""As a tuple: a union would be made anew for each end."""


class Lives(Mail):
    """The beginnings and ends of the lives in a block."""

    body_scope: trio.CancelScope
    names: Names
    root: Cell[Any]
    timers: Timers

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []
        """What the block will raise."""
        self.making: Cell[Any] | None = None
        """Whose next life is being made, for who looks from another thread."""

    # ---- beginning

    def schedule_start(self, cell: Cell[Any], starter: Reply[Any] | None) -> None:
        """Queue the start hook of a new cell, before its first message."""
        kind = cell.kind
        rare = cell.rare()
        rare.starter = starter
        # Without a start hook there is nothing that the stop hook could have to wait
        # for: it is owed from the spawn on, also to a life that has not begun.
        rare.handled_start = kind.on_start is None
        if kind.dedicated:
            self.push_system(cell, System("life", lambda _: live(cell.block, cell)))
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
        cell.block.kill(cell, Killed())

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

    # ---- ending

    def end(self, cell: Cell[Any], reason: ExitReason) -> None:
        """End `cell`.  Exactly once, and in this order: nothing reaches it, what it
        promised is refused, its name is free, its watchers hear of it, its owner
        goes on."""
        if cell.actor is None:
            return
        extra = cell.extra
        kept = cell if type(cell) is KeptCell else None
        keeper = kept.keeper if kept is not None else None
        is_kept = keeper is not None and keeper.keeps(cell, reason)
        cell.actor = None
        cell.args = reason
        if is_kept:
            assert kept is not None
            self._keep_mail(kept)
        else:
            if cell.mailbox is not None and cell.mailbox is not DEAD:
                self.drain(cell)
            cell.mailbox = DEAD
            self.forsake_heirs(cell)
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
            if extra is None or extra.rare is None or not extra.rare.quit:
                keeper.lost(cell, reason)
            return
        # One link a pair: an owner that has linked itself once more has been told.
        if not told and (parent.kind.trap_exits or isinstance(reason, CRASHES)):
            self._tell_linked_owner(cell, parent, reason)

    def _keep_mail(self, cell: KeptCell[Any]) -> None:
        """Let what waits for an ended life wait for the next one, in its order."""
        self.take_no_more(cell)
        cell.is_taken = True
        # A list of its own: whoever takes from the old one, and takes out of it what he
        # has taken, must not count in what is left.
        mailbox = cell.mailbox[self.handled(cell) :]
        if self.batch is cell.mailbox:
            self.batch = None
        cell.mailbox = mailbox
        extra = cell.extra
        if extra is None:
            return
        extra.offset = 0
        extra.rest = None
        rare = extra.rare
        if rare is None:
            return
        if rare.own or rare.pinned:
            self._drop_bound(cell, mailbox, rare.own or (), rare.pinned or ())
        rare.own = rare.pinned = None
        if rare.again is not None:
            mailbox.insert(0, rare.again)
        point("life.kept")

    def _drop_bound(
        self,
        cell: Cell[Any],
        mailbox: list[Any],
        own: Iterable[Reply[Any]],
        pinned: Iterable[Reply[Any]],
    ) -> None:
        """Take out what was for the life of `cell` that has ended, and for no other."""
        waiting = {id(each) for each in mailbox if type(each) is Reply}
        error = cell.stopped_error()
        for each in own:
            resolve(each, error, ERROR)
        for each in pinned:
            if resolve(each, error, ERROR) and each.target is None and id(each) in waiting:
                self.dead_letter(cell, each.message)
        mailbox[:] = [each for each in mailbox if type(each) is not Reply or not each.state]

    def forsake(self, cell: Cell[Any]) -> None:
        """Give up a kept cell between two lives: refuse its mail, free its name.

        Those that would have come back with it are given up as well.
        """
        if cell.actor is None and cell.mailbox is not DEAD:
            self._give_up(cell)
            self.forsake_heirs(cell)

    def _give_up(self, cell: Cell[Any]) -> None:
        self.drain(cell)
        rare = cell.rare()
        self.names.forget(cell, rare.name, rare.groups)
        above = cell.parent.extra if cell.parent is not None else None
        if above is not None and above.children is not None:
            above.children.pop(cell, None)

    def forsake_heirs(self, cell: Cell[Any]) -> None:
        """Give up what the next life of `cell` would have brought back, or has not."""
        todo = [cell]
        while todo:  # not by recursion: a tree may be deeper than the stack
            extra = todo.pop().extra
            rare = extra.rare if extra is not None else None
            if rare is not None and rare.heirs:
                heirs, rare.heirs = rare.heirs, None
                for heir in heirs:
                    self._give_up(heir)
                todo.extend(heirs)

    def part_with(self, cell: Cell[Any]) -> None:
        """Take `cell`, which has ended, from its owner, which is to end.

        It is given up, or left to the next life of its owner.
        """
        keeper = cell.keeper
        parent = cell.parent
        assert parent is not None
        if cell.mailbox is DEAD or keeper is None or not keeper.keeps(cell, cell.args):
            self.forsake(cell)
            return
        assert parent.extra is not None
        if parent.extra.children is not None:
            parent.extra.children.pop(cell, None)
        above = parent.rare()
        if above.heirs is None:
            above.heirs = {}
        above.heirs[cell] = None

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

    # ---- who hears of it

    def _tell_owner(self, cell: Cell[Any], error: BaseException) -> None:
        """Give a crash to the owner: at once to a block, through a link to an actor."""
        if cell.keeper is not None or cell.kind.contained:
            return  # a keeper hears of the end of the life
        if cell.parent is self.root:
            self.record(error, cell.path)
        elif cell.parent is not None and cell.rare().unlinked:
            logger.error("actor %s crashed", cell.path, exc_info=error)

    def record(self, error: BaseException, path: str) -> None:
        """Make `error` the block's: it will raise it, and its body ends now.

        Whoever catches it can see from a note that it was the actor at `path`.
        """
        if not any(each is error for each in self.errors):
            # One that may not be changed, a frozen dataclass, has no room for a note.
            with contextlib.suppress(AttributeError):
                error.add_note(f"in the actor {path}")
            self.errors.append(error)
        self.body_scope.cancel(reason="an actor crashed")

    def _tell_linked_owner(self, cell: Cell[Any], parent: Cell[Any], reason: ExitReason) -> None:
        """Let the end of a linked child reach its owner: a crash, or any if it traps exits."""
        rare = cell.extra.rare if cell.extra is not None else None
        if cell.kind.contained or (rare is not None and (rare.quit or rare.unlinked)):
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

    # ---- another life in the same cell

    def order_children(self, cell: Cell[Any], order: Iterable[Cell[Any]]) -> None:
        """Have the children of `cell` stop in the reverse of `order`, and any others after them."""
        extra = cell.extra
        if extra is not None and extra.children:
            children = extra.children
            known = {each: None for each in order if each in children and not is_stuck(each)}
            extra.children = {each: None for each in children if each not in known} | known

    def revive(
        self, cell: KeptCell[Any], args: tuple[Any, ...], starter: Reply[Any] | None
    ) -> None:
        """Give `cell`, whose life has ended, another one, with what waits in its mailbox.

        Raises whatever making the instance raises; the cell is then as it was.
        """
        assert cell.actor is None
        extra = cell.extra
        rare = extra.rare if extra is not None else None
        parent = cell.parent
        assert parent is not None
        if parent.begins_nothing:
            raise parent.stopped_error()
        context = extra.context if extra is not None else None
        if context is None:
            context = self.base.copy()
        name = rare.name if rare is not None and cell.mailbox is DEAD else None
        if name is not None:
            self.names.check_free(name)
        self.making = cell
        try:
            actor = context.run(cell.kind.make, *args)
        finally:
            self.making = None
        if parent.begins_nothing:
            raise parent.stopped_error()  # the constructor has ended who would own it
        try:
            actor.ref = cell
        except AttributeError:
            raise no_actor(cell.kind, actor) from None
        if name is not None:
            assert rare is not None
            rare.name = None
            self.names.register(name, cell)
        if rare is not None:
            rare.quit = rare.stuck = False
            rare.handled_start = True
            rare.start_error = rare.deadline = None
        if extra is not None:
            extra.killed = extra.stopping = extra.interrupted = False
            extra.hooked = extra.drop = extra.advancing = extra.doomed = False
            extra.leaving = False
            extra.reason = None
            waits = extra.suspended or bool(extra.system)
            extra.alert = waits or (rare is not None and bool(rare.senders))
        cell.lives += 1
        cell.args = None
        cell.actor = actor
        if cell.mailbox is DEAD:
            cell.mailbox = None
        above = parent.extra or parent.grow()
        if above.children is None:
            above.children = {}
        above.children[cell] = None
        if above.rare is not None and above.rare.heirs:
            above.rare.heirs.pop(cell, None)
        if self.stream.listeners:
            self.emit("actor.spawned", cell, kind=cell.kind.name)
        if cell.kind.on_start is not None or cell.kind.dedicated:
            self.schedule_start(cell, starter)
            return
        if cell.mailbox or (extra is not None and extra.alert):
            self.enqueue(cell)
        else:
            cell.mailbox = None
        if starter is not None:
            resolve(starter, cell)


def is_stuck(cell: Cell[Any]) -> bool:
    """Whether `cell` has outlived its kill, or waits for who has."""
    extra = cell.extra
    rare = extra.rare if extra is not None else None
    return cell.actor is not None and rare is not None and rare.stuck
