"""The rows of a ledger: a pure fold of its facts, the same wherever they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from standby_actors.result import Status

from .dimensions import (
    Anchor,
    Blocker,
    CapabilityClass,
    Captured,
    Configuration,
    Disposition,
    Identified,
    Identity,
    Inventory,
    Operation,
    Pending,
    Reuse,
    Scope,
)
from .facts import (
    CapabilityObserved,
    DispatchSettled,
    Fact,
    SessionCaptured,
    SessionClosed,
    SessionCloseUnavailable,
    SessionCompleted,
    SessionDispatched,
    SessionFact,
    SessionInterrupted,
    SessionNotClosed,
    SessionNoted,
    SessionNotSpawned,
    SessionOpened,
    SessionReserved,
    SessionSuperseded,
    SlotAwaited,
    SlotConfirmed,
    SlotEscalated,
    SlotExhausted,
    SlotRetried,
    Unspawned,
)
from .names import TaskName, place_of
from .outcomes import Cleanup, Closed, CloseUnavailable, NotClosed, acknowledged
from .roles import LastTurn

R = TypeVar("R")

INTERRUPTED: frozenset[Status] = frozenset({"stopped", "aborted", "cancelled", "timed_out"})
"""How a turn ends that somebody cut."""


class BadFact(ValueError):
    """Raised on a fact that cannot be true of a row; the row is as it was.

    A ledger never makes one: its record was written by something else, or is damaged.
    """

    def __init__(self, name: str, kind: str, detail: str) -> None:
        super().__init__(name, kind, detail)
        self.name = name
        self.kind = kind
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.kind} of {self.name} cannot be: {self.detail}"


class Row(msgspec.Struct, Generic[R], frozen=True):
    """One session, pending ones included.  A pending row is no leave to spawn."""

    name: TaskName
    role: str
    scope: Scope
    configuration: Configuration
    target: str
    """Whose capability counts for it."""
    identity: Identity = Pending()
    operation: Operation | None = None
    """None before it was opened: nothing is observed of it."""
    reuse: Reuse | None = None
    inventory: Inventory | None = None
    captured: Captured[R] | None = None
    cleanup: Cleanup | None = None
    """None as long as nothing came of it."""
    parent: TaskName | None = None
    replaces: TaskName | None = None
    anchor: Anchor = Anchor()
    reviewer: Disposition | None = None
    fixups: int = 0
    blocker: Blocker | None = None
    dispatches: int = 0
    status: Status | None = None
    """How its last turn ended; None before one has."""
    superseded: str = ""
    """Why another one is to take its place; empty if none is."""
    last: LastTurn | None = None
    """What was left of it when it was completed."""
    unspawned: Unspawned | None = None
    """Why nothing was spawned for it."""
    retries: int = 0
    """Of its spawn, for want of a slot: 1 at most."""
    escalated: bool = False

    @property
    def is_over(self) -> bool:
        """Nothing will be done about it any more."""
        return self.cleanup is not None or self.unspawned is not None

    @property
    def is_due(self) -> bool:
        """The clean-up gate looks at it: its work is done, or it is superseded."""
        is_done = self.operation is Operation.COMPLETED or bool(self.superseded)
        return is_done and not self.is_over

    def __repr__(self) -> str:
        return f"<Row {self}>"

    def __str__(self) -> str:
        """One line for an operator; what subagents have written is not in it."""
        parts = [str(self.name), self.role, str(self.scope), str(self.identity)]
        parts.append("not opened" if self.operation is None else self.operation.value)
        parts.append("captured" if self.captured is not None else "not captured")
        if self.superseded:
            parts.append("superseded")
        if self.unspawned is not None:
            parts.append(f"not spawned: {self.unspawned}")
        elif self.cleanup is not None:
            parts.append(str(self.cleanup))
            if isinstance(self.cleanup, NotClosed):
                parts.append(f"reason: {self.cleanup.reason}")
        return "  ".join(parts)


def step(row: Row[Any] | None, fact: SessionFact) -> Row[Any]:
    """The row after `fact`; None stands for no row.

    Pure.

    Raises:
        BadFact: that cannot be true of it.
    """
    if isinstance(fact, SessionReserved):
        if row is not None:
            raise _bad(fact, "that name was given before")
        return Row(
            fact.name,
            fact.role,
            fact.scope,
            fact.configuration,
            fact.target,
            anchor=fact.anchor,
            parent=fact.parent,
            replaces=fact.replaces,
        )
    if row is None:
        raise _bad(fact, "there is no such row")
    change = msgspec.structs.replace
    match fact:
        case SessionNotSpawned():
            _need(fact, isinstance(row.identity, Pending), "it was spawned")
            return change(row, unspawned=fact.why)
        case SessionOpened():
            _need(fact, isinstance(row.identity, Pending), "it has an id already")
            _need(fact, row.unspawned is None, "its spawn has failed")
            return change(
                row,
                identity=Identified(fact.session),
                operation=Operation.WAITING,
                inventory=Inventory(fact.inventory),
            )
        case SessionDispatched():
            _need(fact, isinstance(row.identity, Identified), "it has no id")
            _need(fact, fact.number == row.dispatches + 1, "dispatches are numbered in order")
            operation = _unless_completed(row, Operation.ACTIVE)
            return change(row, dispatches=fact.number, operation=operation)
        case DispatchSettled():
            _need(fact, 0 < fact.number <= row.dispatches, "there is no such dispatch")
            cut = fact.status in INTERRUPTED
            operation = Operation.INTERRUPTED if cut else Operation.WAITING
            if fact.number < row.dispatches:
                # A later one is being played, or has been: that is what it is at.
                return row
            return change(row, status=fact.status, operation=_unless_completed(row, operation))
        case SessionNoted():
            noted = {
                name: value
                for name in ("anchor", "reviewer", "fixups", "blocker", "reuse", "inventory")
                if (value := getattr(fact, name)) is not None
            }
            return change(row, **noted)
        case SessionCaptured():
            _need(fact, isinstance(row.identity, Identified), "nothing was spawned")
            _need(fact, row.captured is None or not row.is_over, "it was cleaned up")
            state = msgspec.Raw(bytes(fact.state))
            return change(row, captured=Captured(row.role, state))
        case SessionSuperseded():
            _need(fact, row.captured is not None, "its state was not captured")
            _need(fact, bool(fact.reason), "it has no reason")
            return change(row, superseded=fact.reason)
        case SessionCompleted():
            _need(fact, isinstance(row.identity, Identified), "nothing was spawned")
            return change(row, operation=Operation.COMPLETED, last=fact.last)
        case SessionInterrupted():
            if row.operation is None:
                return row
            return change(row, operation=_unless_completed(row, Operation.INTERRUPTED))
        case SessionClosed():
            _need(fact, row.captured is not None, "its state was not captured")
            _need(fact, row.cleanup is None, "it has another clean-up outcome")
            _need(fact, row.identity == Identified(fact.session), "another session was closed")
            return change(row, cleanup=Closed(acknowledged(fact.session, fact.export)))
        case SessionNotClosed():
            _need(fact, row.cleanup is None, "it has another clean-up outcome")
            return change(row, cleanup=NotClosed(fact.reason))
        case SessionCloseUnavailable():
            _need(fact, row.captured is not None, "its state was not captured")
            _need(fact, row.cleanup is None, "it has another clean-up outcome")
            return change(row, cleanup=CloseUnavailable(fact.reason))
        case SlotExhausted() | SlotAwaited() | SlotConfirmed():
            _need(fact, isinstance(row.identity, Pending), "it was spawned")
            return row
        case SlotRetried():
            _need(fact, row.retries == 0, "it was retried before")
            return change(row, retries=1)
        case SlotEscalated():
            return change(row, escalated=True)


class Rows(msgspec.Struct, frozen=True):
    """All that a ledger holds."""

    sessions: Mapping[TaskName, Row[Any]] = {}
    targets: Mapping[str, CapabilityClass] = {}

    def ordered(self) -> list[Row[Any]]:
        """By route, and the order of their making."""
        return [self.sessions[name] for name in sorted(self.sessions, key=place_of)]


def apply(rows: Rows, fact: Fact) -> Rows:
    """What a ledger holds after `fact`.  Pure.

    Raises:
        BadFact: it cannot be true.
    """
    if isinstance(fact, CapabilityObserved):
        return Rows(rows.sessions, {**rows.targets, fact.target: fact.level})
    return Rows(
        {**rows.sessions, fact.name: step(rows.sessions.get(fact.name), fact)}, rows.targets
    )


def fold(facts: Iterable[Fact]) -> Rows:
    """What a ledger holds after all of `facts`, from none on.

    As :func:`apply` for each, and in time that grows with their number alone.

    Raises:
        BadFact: one of them cannot be true.
    """
    sessions: dict[TaskName, Row[Any]] = {}
    targets: dict[str, CapabilityClass] = {}
    for fact in facts:
        if isinstance(fact, CapabilityObserved):
            targets[fact.target] = fact.level
        else:
            sessions[fact.name] = step(sessions.get(fact.name), fact)
    return Rows(sessions, targets)


def _unless_completed(row: Row[Any], operation: Operation) -> Operation:
    # A turn that was in flight when its session was completed ends afterwards.
    return Operation.COMPLETED if row.operation is Operation.COMPLETED else operation


def _need(fact: SessionFact, holds: bool, detail: str) -> None:
    if not holds:
        raise _bad(fact, detail)


def _bad(fact: SessionFact, detail: str) -> BadFact:
    return BadFact(fact.name, str(fact.__struct_config__.tag), detail)
