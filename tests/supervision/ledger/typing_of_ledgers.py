"""What type checkers make of a workflow that keeps a ledger.

Nothing here runs: mypy and basedpyright read it.  Each ignored line would be reported as
unused if the checker let it pass.
"""

from __future__ import annotations

from typing import assert_type

from standby_actors.agent import Agent
from standby_supervision.ledger import (
    SUBAGENT,
    Captured,
    CaptureReceipt,
    Closable,
    CloseAck,
    Closed,
    CloseUnavailable,
    Escalation,
    Inventoried,
    LastTurn,
    NotClosed,
    Reservation,
    RetryPermit,
    Row,
    Seat,
    SessionLedger,
    SessionRef,
    SessionSpec,
    SupersededBy,
    Untrusted,
)
from standby_supervision.ledger.names import task_name
from standby_supervision.ledger.roles import (
    IMPLEMENTER,
    SPEC_REVIEWER,
    HeadReview,
    Implementation,
)

CODER = Agent("coder", "Write it.")
DONE = Implementation("DONE", "It parses dates now.")
REVIEW = HeadReview("a" * 40, "Fine.", "COMPLETE_NO_FINDINGS")


async def a_row_knows_what_its_role_captures(ledger: SessionLedger) -> None:
    spec = SessionSpec(CODER, IMPLEMENTER)
    assert_type(spec, SessionSpec[Implementation])
    assert_type(await ledger.reserve(spec), Reservation[Implementation])
    async with ledger.open(spec) as seat:
        assert_type(seat, Seat[Implementation])
        assert_type(seat.row, Row[Implementation])
        assert_type(seat.row.captured, Captured[Implementation] | None)
        receipt = await seat.capture(DONE)
        assert_type(receipt, CaptureReceipt[Implementation])
        assert_type(await seat.supersede(receipt, "why"), SupersededBy)
        await seat.capture(REVIEW)  # type: ignore[arg-type]


async def nothing_is_closed_without_its_receipt(
    ledger: SessionLedger,
    coder: SessionRef[Implementation],
    reviewer: CaptureReceipt[HeadReview],
) -> None:
    await ledger.close(coder)  # type: ignore[call-arg]
    await ledger.close(coder, None)  # type: ignore[arg-type]
    await ledger.close(coder, DONE)  # type: ignore[arg-type]
    await ledger.close(coder, reviewer)  # type: ignore[misc]
    await ledger.supersede(coder, reviewer, "why")  # type: ignore[misc]
    await ledger.supersede(coder)  # type: ignore[call-arg]


def receipts_and_acknowledgements_are_not_made_by_hand() -> None:
    CaptureReceipt(task_name(12, 1))  # type: ignore[call-arg]
    CloseAck("coder#1", "")  # type: ignore[call-arg]
    SupersededBy(task_name(12, 1), "why")  # type: ignore[call-arg]
    Closed()  # type: ignore[call-arg]
    Closed("coder#1")  # type: ignore[arg-type]
    Closed(NotClosed("close failed"))  # type: ignore[arg-type]
    NotClosed("it did not want to")  # type: ignore[arg-type]
    CloseUnavailable("inventory-only")  # type: ignore[arg-type]


async def what_has_no_close_is_not_closed(session: Inventoried, other: Closable) -> None:
    await other.close()
    await session.close()  # type: ignore[attr-defined]


async def a_follow_up_carries_no_configuration(seat: Seat[LastTurn]) -> None:
    await seat.ask("more", timeout=20)
    await seat.ask("more", model="openai/gpt-5")  # type: ignore[call-arg]
    await seat.ask("more", effort="high")  # type: ignore[call-arg]
    await seat.ask("more", lifetime="workflow")  # type: ignore[call-arg]


async def another_takes_its_place_by_a_decision(ledger: SessionLedger) -> None:
    spec = SessionSpec(CODER, SUBAGENT)
    ledger.respawn(spec)  # type: ignore[call-arg]
    ledger.respawn(spec, "a larger model is needed")  # type: ignore[arg-type]


def a_role_without_a_type_is_not_spawned() -> None:
    SessionSpec(CODER)  # type: ignore[call-arg]
    SessionSpec(CODER, "implementer")  # type: ignore[arg-type]


def a_permit_is_for_one_specification(
    permit: RetryPermit[Implementation], spec: SessionSpec[HeadReview]
) -> None:
    permit.use(spec)  # type: ignore[arg-type]


def dimensions_are_not_one_another(row: Row[Implementation]) -> None:
    from standby_supervision.ledger import Cleanup, Identified, Inventory, Operation, Reuse

    operation: Operation | None = row.cleanup  # type: ignore[assignment]
    cleanup: Cleanup | None = row.operation  # type: ignore[assignment]
    inventory: Inventory | None = row.reuse  # type: ignore[assignment]
    reuse: Reuse | None = row.inventory  # type: ignore[assignment]
    identity: Identified = row.identity  # type: ignore[assignment]
    captured: Captured[HeadReview] | None = row.captured  # type: ignore[assignment]
    print(operation, cleanup, inventory, reuse, identity, captured)


def an_escalation_has_the_allowed_fields(said: Untrusted[str]) -> None:
    Escalation(cause="active", role="coder", transcript="…")  # type: ignore[call-arg]
    Escalation(cause="active", role=said)  # type: ignore[arg-type]


SPEC_OF_A_REVIEW = SessionSpec(CODER, SPEC_REVIEWER)
