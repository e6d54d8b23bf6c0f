"""The rows of a ledger, and how facts come into them; reserving, which is a row and no more."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeVar, cast

import trio

from .dimensions import (
    Anchor,
    Blocker,
    CapabilityClass,
    Disposition,
    Inventory,
    Reuse,
)
from .errors import NotReplaced, RecordLost, SessionNotHere, SpawnBlocked
from .facts import (
    CapabilityObserved,
    Fact,
    Record,
    SessionInterrupted,
    SessionNotClosed,
    SessionNoted,
    SessionNotSpawned,
    SessionReserved,
    Unspawned,
)
from .names import TaskName, place_of, task_name
from .outcomes import (
    ForgedReceipt,
    SupersededBy,
)
from .row import Row, Rows, fold, step
from .seat import Seat
from .spec import (
    Reservation,
    SessionRef,
    SessionSpec,
)

R = TypeVar("R")

RECORD_SECONDS = 10.0
"""How long the end of a session waits for its record."""


class Book:
    """Rows, and the facts that they come from; see :class:`~.ledger.SessionLedger`.

    Args:
        record: keeps a fact, and returns when it is durable; None for rows in memory.
        facts: what was recorded before, to go on from.
    """

    def __init__(self, record: Record | None, facts: Iterable[Fact]) -> None:
        self._record: Record = record or _forget
        # Nobody else writes to these two: to copy them for each fact would cost too much.
        before = fold(facts)
        self._sessions: dict[TaskName, Row[Any]] = dict(before.sessions)
        self._targets: dict[str, CapabilityClass] = dict(before.targets)
        self._ordinals: dict[int, int] = {}
        for route, ordinal in map(place_of, self._sessions):
            self._ordinals[route] = max(ordinal, self._ordinals.get(route, 0))
        self._seats: dict[TaskName, Seat[Any]] = {}
        self._reserved: dict[TaskName, Reservation[Any]] = {}
        self._superseded: dict[TaskName, SupersededBy] = {}
        self._due: dict[TaskName, None] = {}
        """What the gate looks at, the longest due first."""
        self._is_lost = False

    # ---- what it holds

    @property
    def rows(self) -> Rows:
        """All that it holds, as it is now."""
        return Rows(dict(self._sessions), dict(self._targets))

    def row(self, ref: SessionRef[R]) -> Row[R]:
        """One row.

        Raises:
            SessionNotHere: it has no such row.
        """
        row = self._sessions.get(ref.name)
        if row is None:
            raise SessionNotHere(ref.name)
        return cast("Row[R]", row)

    def render(self) -> str:
        """A line for each row, for an operator; what subagents have written is not in it."""
        return "\n".join(map(str, self.rows.ordered()))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self._sessions)} rows, {len(self._seats)} open>"

    # ---- writing down

    async def _write(self, fact: Fact) -> None:
        """Take `fact` in, and return when it is durable.

        There is no wait between the two: facts are kept in the order in which they were
        taken in, so that a fold of the record is what this ledger holds.
        """
        self._take(fact)
        await self._keep(fact)

    async def _write_last(self, fact: Fact) -> None:
        """As :meth:`_write`, also when cancelled; in at most 10 s."""
        self._take(fact)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + RECORD_SECONDS):
            await self._keep(fact)

    async def _keep(self, fact: Fact) -> None:
        is_kept = False
        try:
            await self._record(fact)
            is_kept = True
        finally:
            # A fact whose keeping was only cut is kept all the same.  After one that was
            # not, the rows are ahead of what any recovery could find: nothing more is begun.
            if not is_kept and not is_cut(sys.exception()):
                self._is_lost = True

    def _take(self, fact: Fact) -> None:
        if isinstance(fact, CapabilityObserved):
            self._targets[fact.target] = fact.level
        else:
            row = step(self._sessions.get(fact.name), fact)
            self._sessions[fact.name] = row
            if row.is_due:
                self._due[row.name] = None
            else:
                self._due.pop(row.name, None)

    async def note(
        self,
        ref: SessionRef[Any],
        *,
        anchor: Anchor | None = None,
        reviewer: Disposition | None = None,
        fixups: int | None = None,
        blocker: Blocker | None = None,
        reuse: Reuse | None = None,
        inventory: Inventory | None = None,
    ) -> None:
        """Record what its workflow knows of a session; None leaves what there is."""
        self.row(ref)
        await self._write(
            SessionNoted(ref.name, anchor, reviewer, fixups, blocker, reuse, inventory)
        )

    # ---- reserving

    async def reserve(
        self,
        spec: SessionSpec[R],
        *,
        above: Seat[Any] | None = None,
        replaces: SupersededBy | None = None,
    ) -> Reservation[R]:
        """A row for a session that is to be spawned; it is pending until it has an id.

        The row is no leave to spawn: :meth:`open` spawns from it, through the gate.

        Args:
            spec: who, as what, for what.
            above: the session that it works for.
            replaces: the decision to supersede another one by it.

        Raises:
            NotReplaced: its task has another configuration, and that one is not superseded.
            ForgedReceipt: `replaces` was not given by this ledger.
            RecordLost: an earlier fact could not be recorded.
        """
        if self._is_lost:
            raise RecordLost(spec.role.name)
        configuration = spec.configuration
        if replaces is None:
            self._check_unchanged(spec)
        elif self._superseded.get(replaces.name) is not replaces:
            raise ForgedReceipt("SupersededBy")
        route = spec.role.route
        # Taken at once, and never given back: whoever reserves meanwhile has the next.
        ordinal = self._ordinals[route] = self._ordinals.get(route, 0) + 1
        name = task_name(route, ordinal)
        fact = SessionReserved(
            name,
            spec.role.name,
            spec.scope,
            configuration,
            spec.target,
            spec.anchor,
            None if above is None else above.ref.name,
            None if replaces is None else replaces.name,
        )
        is_there = False
        try:
            await self._write(fact)
            is_there = True
        finally:
            if not is_there:
                await self._write_last(SessionNotSpawned(name, unspawned_by(sys.exception())))
        reservation = Reservation(SessionRef(name, spec.role), spec)
        self._reserved[name] = reservation
        return reservation

    def _check_unchanged(self, spec: SessionSpec[Any]) -> None:
        """A stable task has one configuration at a time; another one needs a decision."""
        if not spec.scope.task:
            return
        for seat in self._seats.values():
            row = self._sessions[seat.ref.name]
            same = (row.role, row.scope) == (spec.role.name, spec.scope)
            if same and not row.is_over and row.configuration != spec.configuration:
                raise NotReplaced(
                    row.name,
                    "another configuration for the same task needs a capture, a decision to"
                    " supersede, and then respawn()",
                )

    async def recover(self) -> tuple[TaskName, ...]:
        """Say of the sessions of earlier processes that nobody holds them any more.

        For a ledger made with the facts of a run whose owner is gone.  They are
        `interrupted`, not closed, and have no slot; what was captured stays.

        Returns which.
        """
        lost = [
            row for row in self.rows.ordered() if not row.is_over and row.name not in self._seats
        ]
        for row in lost:
            await self._write(SessionInterrupted(row.name))
            await self._write(SessionNotClosed(row.name, "owner gone"))
        return tuple(row.name for row in lost)


async def _forget(fact: Fact) -> None:
    """Keep nothing: the rows are all that there is."""
    await trio.lowlevel.checkpoint()


def unspawned_by(error: BaseException | None) -> Unspawned:
    """Why nothing was spawned, where `error` has come of it."""
    if isinstance(error, SpawnBlocked):
        return "slots exhausted"
    return "cut" if is_cut(error) else "start failed"


def is_cut(error: BaseException | None) -> bool:
    """Whether a cancellation is in `error`."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[0] is not None
    return isinstance(error, trio.Cancelled)
