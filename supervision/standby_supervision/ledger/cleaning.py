"""Turns and endings of sessions: captured, then closed, and said to be what was seen."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypeVar, cast

import trio

from standby_actors.errors import ActorStopped
from standby_actors.result import Result
from standby_actors.subagent import Subagent

from .book import RECORD_SECONDS, Book, is_cut
from .capability import (
    REASONS,
    Automatic,
    Closable,
    reason_of,
)
from .dimensions import (
    NOT_CLOSED_REASONS,
    CapabilityClass,
    NotClosedReason,
    Operation,
)
from .errors import SessionNotHere
from .facts import (
    CapabilityObserved,
    DispatchSettled,
    Fact,
    Record,
    SessionCaptured,
    SessionClosed,
    SessionCloseUnavailable,
    SessionCompleted,
    SessionDispatched,
    SessionNotClosed,
    SessionSuperseded,
)
from .gate import (
    Capture,
    Close,
    GateStep,
    SayUnavailable,
    gate_step,
)
from .names import TaskName
from .outcomes import (
    CaptureReceipt,
    Cleanup,
    CloseAck,
    Closed,
    ForgedReceipt,
    SupersededBy,
    acknowledged,
    receipt_of,
    superseded,
)
from .roles import SUBAGENT, CannotCapture, LastTurn, Role
from .seat import Seat, WindowOpen
from .spec import (
    SessionRef,
)

R = TypeVar("R")

CLOSE_SECONDS = 15.0
"""How long a close may take before it is `close timed out`: a subagent's own bound is less."""


class Cleaning(Book):
    """What is done with sessions that are there; see :class:`~.ledger.SessionLedger`."""

    def __init__(self, record: Record | None, facts: Iterable[Fact]) -> None:
        super().__init__(record, facts)
        self._receipts: dict[TaskName, CaptureReceipt[Any]] = {}

    # ---- turns

    async def dispatch(self, seat: Seat[Any], play: Callable[[], Awaitable[Result]]) -> Result:
        """Record a turn of `seat` before and after `play` plays it; for seats."""
        name = seat.ref.name
        number = self._sessions[name].dispatches + 1
        seat.in_flight += 1
        settled = DispatchSettled(name, number, "crashed", "crash")
        try:
            seat.ticket.playing(True)
            await self._write(SessionDispatched(name, number))
            result = await play()
            kind = None if result.error is None else result.error.kind
            settled = DispatchSettled(name, number, result.status, kind)
            seat.last = result
            return result
        finally:
            if settled.status == "crashed" and settled.error == "crash":
                settled = _without_result(settled, sys.exception())
            seat.in_flight -= 1
            if not seat.in_flight:
                seat.ticket.playing(False)
            await self._write_last(settled)

    async def complete(self, seat: Seat[Any]) -> None:
        """As :meth:`Seat.complete`."""
        if seat.in_flight:
            raise RuntimeError(f"{seat.ref} is at work: it is completed when its turn has ended")
        await self._complete(seat)

    async def _complete(self, seat: Seat[Any]) -> None:
        # Finished agents have no slot, whatever becomes of their sessions.
        seat.ticket.give_back()
        if self._sessions[seat.ref.name].operation is not Operation.COMPLETED:
            last = _last_turn(seat)
            await self._write_last(SessionCompleted(seat.ref.name, last))

    # ---- capturing, superseding, closing

    async def capture(self, ref: SessionRef[R], state: R) -> CaptureReceipt[R]:
        """Keep what the role of a session needs of it; the receipt lets it be closed.

        What is captured later, before it is cleaned up, takes the place of what was.

        Raises:
            CannotCapture: it is not of the role's type; nothing was recorded.
            SessionNotHere: there is no such row.
        """
        row = self.row(ref)
        if row.role != ref.role.name:
            raise CannotCapture(ref.role.name, f"{ref} is a {row.role}")
        captured = ref.role.check(state)
        await self._write(SessionCaptured(ref.name, captured.state))
        return self._receipt(ref)

    def _receipt(self, ref: SessionRef[R]) -> CaptureReceipt[R]:
        receipt = self._receipts.get(ref.name)
        if receipt is None:
            receipt = self._receipts[ref.name] = receipt_of(ref.name)
        return cast("CaptureReceipt[R]", receipt)

    async def supersede(
        self, ref: SessionRef[R], receipt: CaptureReceipt[R], reason: str
    ) -> SupersededBy:
        """Record the decision that another session is to take the place of this one.

        Raises:
            ForgedReceipt: the receipt was not given by this ledger for this session.
            BadFact: there is no reason.
        """
        self._check(ref, receipt)
        await self._write(SessionSuperseded(ref.name, reason))
        decision = self._superseded[ref.name] = superseded(ref.name, reason)
        return decision

    async def close(self, ref: SessionRef[R], receipt: CaptureReceipt[R]) -> Cleanup:
        """Close a session before its block is left, and record what came of that.

        It is completed by that, if it was not.  Also when cancelled; in at most 15 s, and
        the time of the record.  Closing twice is closing once.

        Raises:
            ForgedReceipt: the receipt was not given by this ledger for this session.
            WindowOpen: it is kept open.
            SessionNotHere: its block is not open here, and it was not cleaned up.
        """
        self._check(ref, receipt)
        row = self.row(ref)
        if row.cleanup is not None:
            await trio.lowlevel.checkpoint()
            return row.cleanup
        seat = self._seats.get(ref.name)
        if seat is None:
            raise SessionNotHere(ref.name)
        if seat.windows:
            raise WindowOpen(ref.name)
        if not row.is_due:
            await self._complete(seat)
        return await self._close(seat)

    def _check(self, ref: SessionRef[Any], receipt: CaptureReceipt[Any]) -> None:
        known = self._receipts.get(ref.name)
        if known is None or known is not receipt:
            raise ForgedReceipt("CaptureReceipt")

    async def clean_up(self) -> tuple[TaskName, ...]:
        """The clean-up gate: what is done or superseded is captured and closed.

        Returns which were seen to close.  What cannot be captured, and what is kept open,
        stays open; where a target cannot close, that is recorded.
        """
        closed: list[TaskName] = []
        await trio.lowlevel.checkpoint()
        for seat in [self._seats[name] for name in self._due if name in self._seats]:
            step_ = self._gate_step(seat)
            if isinstance(step_, Capture) and await self._capture_last(seat):
                step_ = self._gate_step(seat)
            if isinstance(step_, Close | SayUnavailable):
                cleanup = await self._close(seat)
                if isinstance(cleanup, Closed):
                    closed.append(seat.ref.name)
        return tuple(closed)

    def _gate_step(self, seat: Seat[Any]) -> GateStep | None:
        row = self._sessions[seat.ref.name]
        if not row.is_due:
            return None
        return gate_step(row, is_kept_open=bool(seat.windows), level=seat.target.level)

    async def _capture_last(self, seat: Seat[Any]) -> bool:
        """Capture what its last Result has of what its role needs; False if it has not."""
        row = self._sessions[seat.ref.name]
        role: Role[Any] = seat.ref.role
        state = role.of_result(seat.last, row.dispatches, _export(seat))
        if state is None:
            return False
        captured = role.check(state)
        await self._write_last(SessionCaptured(seat.ref.name, captured.state))
        self._receipt(seat.ref)
        return True

    async def settle(self, seat: Seat[Any]) -> None:
        """Complete, capture and close; once, also when cancelled; for seats."""
        name = seat.ref.name
        await self._complete(seat)
        if self._sessions[name].is_over:
            return
        if self._sessions[name].captured is None and not await self._capture_last(seat):
            # Its block ends, so it will be gone; but nobody has what it was there for, and
            # nobody is to read that it came to a good end.
            await self._write_last(SessionNotClosed(name, "not captured"))
            return
        await self._close(seat)

    async def _close(self, seat: Seat[Any]) -> Cleanup:
        """Try to close, and record what came of it; once, whoever wants it."""
        name = seat.ref.name
        limit = CLOSE_SECONDS + 2 * RECORD_SECONDS
        with trio.CancelScope(shield=True, deadline=trio.current_time() + limit):
            async with seat.settling:
                done = self._sessions[name].cleanup
                if done is not None:
                    return done
                fact: Fact = SessionNotClosed(name, "close failed")
                try:
                    fact = await self._tried(seat)
                finally:
                    await self._write_last(fact)
        cleanup = self._sessions[name].cleanup
        assert cleanup is not None
        return cleanup

    async def _tried(self, seat: Seat[Any]) -> Fact:
        """What a close of it comes to, as it is to be recorded."""
        name, target = seat.ref.name, seat.target
        await self._observe(seat.spec.target, target.level, "observed")
        if not isinstance(target, Automatic):
            return SessionCloseUnavailable(name, reason_of(target))
        session: Closable = target.session
        returned: object = None
        with trio.CancelScope(deadline=trio.current_time() + CLOSE_SECONDS) as scope:
            try:
                returned = await session.close()
            except NotImplementedError:
                # It has the method, and not the operation: what was concluded is wrong.
                await self._observe(seat.spec.target, "inventory-only", "observed")
                return SessionCloseUnavailable(name, REASONS["inventory-only"])
        if scope.cancelled_caught:
            return SessionNotClosed(name, "close timed out")
        outcome = outcome_of(seat.id, returned)
        if isinstance(outcome, CloseAck):
            return SessionClosed(name, outcome.session, outcome.export)
        return SessionNotClosed(name, outcome)

    async def _observe(
        self, target: str, level: CapabilityClass, evidence: Literal["declared", "observed"]
    ) -> None:
        if self._targets.get(target) != level:
            await self._write(CapabilityObserved(target, level, evidence))


def outcome_of(session: str, returned: object) -> CloseAck | NotClosedReason:
    """What a close that returned `returned` has shown.

    A value with a `closed` that is false says that it did not; its words are a backend's,
    and only what kind of trouble they tell of is kept.

    Examples:
        >>> from standby_actors.mind import Closed
        >>> outcome_of("scout#2", None)
        <CloseAck scout#2>
        >>> outcome_of("scout#2", Closed(False, "export failed: no space in /home/ann"))
        'export failed'
    """
    if getattr(returned, "closed", True):
        export = getattr(returned, "export", None)
        return acknowledged(session, export if isinstance(export, str) else "")
    for part in str(getattr(returned, "reason", "")).split("; "):
        kind = part.partition(":")[0].strip()
        if kind == "stuck":
            return "did not stop"
        if kind in NOT_CLOSED_REASONS:
            return cast("NotClosedReason", kind)
    return "close failed"


def _last_turn(seat: Seat[Any]) -> LastTurn:
    last = SUBAGENT.of_result(seat.last, seat.row.dispatches, _export(seat))
    assert last is not None
    return last


def _export(seat: Seat[Any]) -> str:
    """The file with its transcript, if it is to have one and could be written."""
    player = seat.player
    if not isinstance(player, Subagent) or seat.spec.options.get("export_dir") is None:
        return ""
    try:
        return str(player.export())
    except (OSError, ActorStopped):
        # Its close tries again, and says so where it cannot.
        return ""


def _without_result(number: DispatchSettled, error: BaseException | None) -> DispatchSettled:
    """How a turn ended that raised, as it is recorded."""
    if is_cut(error):
        return DispatchSettled(number.name, number.number, "cancelled", "cancelled")
    if isinstance(error, ActorStopped):
        return DispatchSettled(number.name, number.number, "refused", "closed")
    return number
