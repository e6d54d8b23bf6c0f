"""What a ledger writes down: each fact is final, and the rows are a fold of them.

What is about to be done is a fact before it is done, and what came of it before anybody
is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import msgspec

from standby_actors.result import ErrorKind, Status

from .dimensions import (
    Anchor,
    Blocker,
    CapabilityClass,
    Configuration,
    Disposition,
    Inventory,
    InventoryEvidence,
    NotClosedReason,
    Reuse,
    Scope,
    UnavailableReason,
)
from .names import TaskName
from .roles import LastTurn

Unspawned: TypeAlias = Literal["slots exhausted", "start failed", "cut"]
"""Why nothing was spawned for a row; nothing there is to be closed."""

Cause: TypeAlias = Literal["active", "retained", "nested"]
"""Why there is no slot.  `active`: all who have one are at work, or the backend does not
say.  `retained`: some have one and are not at work.  `nested`: one of those who have one
waits for whoever wants it."""


class LedgerFact(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Something that happened to a session, a target or a slot."""


class SessionReserved(LedgerFact, frozen=True, tag="session.reserved"):
    """A row, before anything is spawned for it."""

    name: TaskName
    role: str
    scope: Scope
    configuration: Configuration
    target: str
    anchor: Anchor = Anchor()
    parent: TaskName | None = None
    """The session that it works for."""
    replaces: TaskName | None = None
    """The session that it was decided to supersede by it."""


class SessionNotSpawned(LedgerFact, frozen=True, tag="session.not_spawned"):
    """Its spawn has failed; the row stays, and its name is not given again."""

    name: TaskName
    why: Unspawned


class SessionOpened(LedgerFact, frozen=True, tag="session.opened"):
    """The runtime has returned its id."""

    name: TaskName
    session: str
    inventory: InventoryEvidence


class SessionDispatched(LedgerFact, frozen=True, tag="session.dispatched"):
    """It is about to be asked."""

    name: TaskName
    number: int
    """From 1."""


class DispatchSettled(LedgerFact, frozen=True, tag="dispatch.settled"):
    """That turn is over."""

    name: TaskName
    number: int
    status: Status
    error: ErrorKind | None = None


class SessionNoted(LedgerFact, frozen=True, tag="session.noted"):
    """What its workflow knows of it from now on; None leaves what there is."""

    name: TaskName
    anchor: Anchor | None = None
    reviewer: Disposition | None = None
    fixups: int | None = None
    blocker: Blocker | None = None
    reuse: Reuse | None = None
    inventory: Inventory | None = None


class SessionCaptured(LedgerFact, frozen=True, tag="session.captured"):
    """What its role needs of it is kept: here."""

    name: TaskName
    state: msgspec.Raw

    def __repr__(self) -> str:
        return f"SessionCaptured(name={self.name!r}, {len(bytes(self.state))} bytes)"


class SessionSuperseded(LedgerFact, frozen=True, tag="session.superseded"):
    """Another one is to take its place: a decision, and no state that it is in."""

    name: TaskName
    reason: str

    def __repr__(self) -> str:
        return f"SessionSuperseded(name={self.name!r}, {len(self.reason)} characters)"


class SessionCompleted(LedgerFact, frozen=True, tag="session.completed"):
    """Its work is done: it has no slot any more, and can be closed."""

    name: TaskName
    last: LastTurn = LastTurn()
    """What is left of it, whether its role can use that or not."""


class SessionInterrupted(LedgerFact, frozen=True, tag="session.interrupted"):
    """Whoever held it is gone."""

    name: TaskName
    why: Literal["owner gone"] = "owner gone"


class SessionClosed(LedgerFact, frozen=True, tag="session.closed"):
    """A close of it has returned, and said that it had closed."""

    name: TaskName
    session: str
    export: str = ""


class SessionNotClosed(LedgerFact, frozen=True, tag="session.not_closed"):
    """A close of it was tried and did not say so, or could not be."""

    name: TaskName
    reason: NotClosedReason


class SessionCloseUnavailable(LedgerFact, frozen=True, tag="session.close_unavailable"):
    """Its target has no such operation."""

    name: TaskName
    reason: UnavailableReason


class CapabilityObserved(LedgerFact, frozen=True, tag="capability.observed"):
    """What a target lets us do: as it declares it, or as it turned out."""

    target: str
    level: CapabilityClass
    evidence: Literal["declared", "observed"]


class SlotExhausted(LedgerFact, frozen=True, tag="slot.exhausted"):
    """A spawn has failed for want of a slot, which is nobody's failure at the work."""

    name: TaskName
    cause: Cause
    holders: tuple[str, ...] = ()
    """Ids of the sessions that have one, where they are known."""
    classification: Literal["orchestration resource exhaustion"] = (
        "orchestration resource exhaustion"
    )


class SlotAwaited(LedgerFact, frozen=True, tag="slot.awaited"):
    """An operator is asked to clean up, and to confirm it."""

    name: TaskName
    seconds: float
    """How long that is waited for."""


class SlotConfirmed(LedgerFact, frozen=True, tag="slot.confirmed"):
    """The operator has."""

    name: TaskName
    by: str = ""


class SlotRetried(LedgerFact, frozen=True, tag="slot.retried"):
    """The one retry begins, with the same specification."""

    name: TaskName


class SlotEscalated(LedgerFact, frozen=True, tag="slot.escalated"):
    """It is not spawned: its workflow is blocked."""

    name: TaskName


SessionFact: TypeAlias = (
    SessionReserved
    | SessionNotSpawned
    | SessionOpened
    | SessionDispatched
    | DispatchSettled
    | SessionNoted
    | SessionCaptured
    | SessionSuperseded
    | SessionCompleted
    | SessionInterrupted
    | SessionClosed
    | SessionNotClosed
    | SessionCloseUnavailable
    | SlotExhausted
    | SlotAwaited
    | SlotConfirmed
    | SlotRetried
    | SlotEscalated
)
"""What happens to one row."""

Fact: TypeAlias = SessionFact | CapabilityObserved

Record: TypeAlias = Callable[[Fact], Awaitable[object]]
"""Writes a fact down, and returns when it is durable.  Facts are kept in the order of
the calls."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Fact] = msgspec.json.Decoder(Fact)
LEDGER_KINDS: frozenset[str] = frozenset(str(each.__struct_config__.tag) for each in Fact.__args__)
"""The kinds that the fold of a ledger knows."""


def encode_fact(fact: Fact) -> bytes:
    """`fact` as one JSON object, which names its kind.

    Examples:
        >>> decode_fact(encode_fact(SlotRetried(TaskName("d12_3"))))
        SlotRetried(name='d12_3')
    """
    return _encoder.encode(fact)


def decode_fact(data: bytes | str | Any) -> Fact:
    """The fact that `data` is the JSON of.

    Raises:
        msgspec.DecodeError: it is none of a ledger.
    """
    return _decoder.decode(data)
