"""Children that get no further: found by looking now and then, ended as a crash.

Nothing is counted or armed for a message.  While a child with a
``stalled_after`` is alive, a timer looks four times in that many seconds at the
turn in progress; one that is seen at five looks in a row is stalled.  Looks are
counted, not seconds: where somebody else holds up the loop there are none, and
nobody is blamed for it.
"""

from __future__ import annotations

import logging
from typing import Any

from attrs import define, field

from standby_actors import emit
from standby_actors.cell import Cell
from standby_actors.tree import await_frames, waits_on

from .errors import Stalled

logger = logging.getLogger("standby.supervision")

LOOKS = 4
"""Looks in ``stalled_after`` seconds."""


@define(eq=False)
class _Seen:
    """What the last look at a child has shown."""

    child: str
    turn: object = None
    """What stands for the turn in progress; held, so that no later one can pass for it."""
    looks: int = 0
    """How many looks since its first have shown the same turn."""


@define(eq=False)
class _Group:
    """Children with the same deadline, which one timer is enough for."""

    seconds: float
    children: dict[Cell[Any], _Seen] = field(factory=dict)
    is_armed: bool = False


class Stalls:
    """The children of one supervisor that may not be at one message for too long.

    A stalled child is reported, with where it stands, and killed; the reason of
    its end is ``Crashed(Stalled(…))``, so that its restart type decides.
    """

    def __init__(self) -> None:
        self._groups: dict[float, _Group] = {}

    def watch(self, cell: Cell[Any], child: str, seconds: float | None) -> None:
        """Watch a life of `cell` that begins, as of the child with that id.

        Args:
            cell: who is watched, until it has ended for good.
            child: its id.
            seconds: how long it may be at one message; None: for ever.
        """
        for group in self._groups.values():
            group.children.pop(cell, None)
        if seconds is None:
            return
        group = self._groups.setdefault(seconds, _Group(seconds))
        group.children[cell] = _Seen(child)
        if not group.is_armed:
            self._arm(group, cell)

    def _arm(self, group: _Group, cell: Cell[Any]) -> None:
        group.is_armed = True
        cell.block.timers.after(group.seconds / LOOKS, self._look, group)

    def _look(self, group: _Group) -> None:
        group.is_armed = False
        for cell, seen in list(group.children.items()):
            if not cell.is_alive:
                del group.children[cell]
                continue
            turn = turn_of(cell)
            if turn is None or turn is not seen.turn:
                seen.turn, seen.looks = turn, 0
                continue
            seen.looks += 1
            if seen.looks >= LOOKS:
                seen.turn = None
                _end(cell, seen.child, group.seconds, turn)
        for cell in group.children:
            self._arm(group, cell)
            return
        del self._groups[group.seconds]


def turn_of(cell: Cell[Any]) -> object:
    """What stands for the turn that `cell` has in progress and waits in.

    None between two turns, and where another deadline holds: while it starts, or stops.
    """
    extra = cell.extra
    if cell.actor is None or extra is None or extra.coro is None:
        return None
    if extra.stopping or extra.killed:
        return None
    rare = extra.rare
    if rare is not None and (rare.mail_wait is not None or not rare.handled_start):
        return None
    if not cell.kind.dedicated:
        return extra.coro
    # A dedicated actor has one coroutine for its life, which awaits one that awaits
    # one for each turn.
    return getattr(extra.coro.cr_await, "cr_await", None)


def _end(cell: Cell[Any], child: str, seconds: float, turn: object) -> None:
    frames = [f"  {frame}" for frame in await_frames(turn)]
    assert cell.extra is not None
    if cell.extra.is_waiting():
        frames.append(f"  waits for {waits_on(cell)}")
    error = Stalled(cell.path, seconds, "\n".join(frames))
    supervisor = cell.parent
    assert supervisor is not None
    emit(
        "supervisor.stalled",
        supervisor.path,
        parent=supervisor.parent.path if supervisor.parent is not None else "",
        incarnation=supervisor.incarnation,
        child=child,
        seconds=seconds,
        stack=error.stack,
    )
    logger.error("supervisor %s: child %s is stalled: %s", supervisor.path, child, error)
    cell.block.condemn(cell, error)
