"""A ref to one life of an actor, which no later life takes for its own.

A message that came over it and still waits when that life ends must not wait for
the next one.  So it stands in the mailbox as an envelope, a :class:`Reply`, which
the life keeps a list of; refs that are not pinned pay nothing for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from trio.lowlevel import checkpoint

from .exits import ExitReason, Stuck
from .ref import Ref
from .reply import ERROR, OPEN, VALUE, Reply, resolve, resolved
from .snapshot import Snapshot

if TYPE_CHECKING:
    from .cell import Cell

M_contra = TypeVar("M_contra", contravariant=True)


class Pinned(Ref[M_contra]):
    """One life of an actor.  Made by :meth:`Ref.pin`, once for each life."""

    __slots__ = ("_cell", "_incarnation", "_over")

    def __init__(self, cell: Cell[Any]) -> None:
        self._cell = cell
        self._incarnation = cell.incarnation
        # Asked for now: once there is another life, nobody knows how this one ended.
        self._over: Reply[ExitReason] = cell.ended()

    def __repr__(self) -> str:
        return f"<Ref {self.path} life {self._incarnation}{'' if self.is_alive else ' ended'}>"

    @property
    def path(self) -> str:
        return self._cell.path

    @property
    def incarnation(self) -> int:
        return self._incarnation

    @property
    def is_alive(self) -> bool:
        cell = self._cell
        return cell.actor is not None and cell.incarnation == self._incarnation

    @property
    def cell(self) -> Cell[Any]:
        """The cell of the actor, whichever life it is in."""
        return self._cell

    def pin(self) -> Pinned[M_contra]:
        return self

    # ---- messages

    def tell(self, message: M_contra, /) -> None:
        if self.is_alive:
            envelope: Reply[Any] = Reply(message)
            self._cell.put(envelope)
            if envelope.state == OPEN:
                self._cell.bind(envelope)
        else:
            self._cell.block.dead_letter(self._cell, message)

    async def send(self, message: M_contra, /) -> None:
        await checkpoint()
        cell = self._cell
        if not self.is_alive or cell.is_closed:
            raise self._stopped()
        if cell.has_room():
            self.tell(message)
            return
        envelope: Reply[Any] = Reply(message)
        place = cell.queue(envelope)
        # Both: it may have come in, and this task not know it yet.
        cell.bind(envelope)
        cell.bind(place)
        await place

    def ask(self, message: Any, /, *, timeout: float | None = None) -> Reply[Any]:
        cell = self._cell
        if not self.is_alive:
            reply: Reply[Any] = Reply(message, cell)
            resolve(reply, self._stopped(), ERROR)
            return reply
        reply = cell.ask(message, timeout=timeout)
        if reply.state == OPEN:
            if self.is_alive:
                cell.bind(reply)
            else:  # it crashed this life at once, and is to be given to the next one
                resolve(reply, self._stopped(), ERROR)
        return reply

    def _stopped(self) -> Exception:
        return self._cell.stopped_error(self._reason())

    # ---- life

    def _reason(self) -> ExitReason:
        """How this life, which is over, has ended."""
        # Those who wait for an end are the last to hear of it.
        reason: ExitReason = self._over.value if self._over.state == VALUE else self._cell.args
        return reason

    def stop(self, reason: ExitReason | None = None) -> Reply[ExitReason | Stuck]:
        if self.is_alive:
            return self._cell.stop(reason)
        return resolved(self._reason())

    def kill(self) -> None:
        if self.is_alive:
            self._cell.kill()

    async def join(self) -> ExitReason:
        if self.is_alive:
            return await self._cell.ended()
        over: Reply[ExitReason] = resolved(self._reason())
        return await over

    # ---- inspection

    def get_state(self) -> Reply[Any]:
        if self.is_alive:
            return self._cell.get_state()
        reply: Reply[Any] = Reply(None, self._cell)
        resolve(reply, self._stopped(), ERROR)
        return reply

    def suspend(self) -> None:
        if self.is_alive:
            self._cell.suspend()

    def resume(self) -> None:
        if self.is_alive:
            self._cell.resume()

    def trace(self, note: Callable[[Any], object] | None) -> None:
        if self.is_alive:
            self._cell.trace(note)

    def snapshot(self) -> Snapshot:
        now = self._cell.snapshot()
        if self.is_alive:
            return now
        return Snapshot(
            path=now.path,
            kind=now.kind,
            state="ended",
            mailbox=0,
            waits_for="",
            incarnation=self._incarnation,
            children=(),
        )
