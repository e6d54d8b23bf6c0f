"""The ledger of sessions: the one place that applies what its parts decide.

It reserves before it spawns, cleans up before it admits, captures before it closes, and
says of a session only what was observed of it.  It reads git and changes nothing in it, and
what it holds is in no prompt.
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import trio

from standby_actors.agent import Agent, Lifetime, MindFunction, agent_of
from standby_actors.errors import ActorStopped
from standby_actors.result import Result
from standby_actors.subagent import Subagent
from standby_actors.subagent import spawn as spawn_subagent

from .anchors import ReadState, read_repository
from .capability import (
    REASONS,
    Automatic,
    Closable,
    Unavailable,
    evidence_of,
    guidance,
    reason_of,
)
from .dimensions import (
    NOT_CLOSED_REASONS,
    Anchor,
    Blocker,
    CapabilityClass,
    Disposition,
    Identified,
    Inventory,
    NotClosedReason,
    Operation,
    Pending,
    Reuse,
)
from .escalation import Escalation, shown_id, summaries
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
from .gate import (
    Capture,
    Close,
    GateStep,
    Holder,
    OnDeadline,
    SayUnavailable,
    after_clean_up,
    cause_of,
    gate_step,
)
from .names import TaskName, next_ordinal, place_of, task_name
from .outcomes import (
    CaptureReceipt,
    Cleanup,
    CloseAck,
    Closed,
    CloseUnavailable,
    ForgedReceipt,
    SupersededBy,
    acknowledged,
    receipt_of,
    superseded,
)
from .reconstruction import Reconstruction
from .roles import SUBAGENT, CannotCapture, LastTurn, Role
from .row import Row, Rows, fold, step
from .seat import BlockedPlayer, Player, Seat, SessionLimit, Spawns, WindowOpen
from .slots import PATIENCE, Slots, SlotSizes, Ticket
from .spec import (
    Exhaustion,
    Reservation,
    RetryPermit,
    SessionRef,
    SessionSpec,
)
from .waiting import OperatorWait

R = TypeVar("R")

CLOSE_SECONDS = 15.0
"""How long a close may take before it is `close timed out`: a subagent's own bound is less."""
RECORD_SECONDS = 10.0
"""How long the end of a session waits for its record."""
OPERATOR_SECONDS = 600.0
"""How long an operator is waited for."""


class SpawnBlocked(RuntimeError):
    """Raised where a spawn was given up for want of a slot; nothing is open of it.

    Its workflow is blocked: the same spawn is not tried again.
    """

    def __init__(self, name: str, escalation: Escalation) -> None:
        super().__init__(name, escalation)
        self.name = name
        self.escalation = escalation

    def __str__(self) -> str:
        return f"{self.name} was not spawned. {self.escalation.render()}"


class RecordLost(RuntimeError):
    """Raised where a session would be reserved after a fact was lost; nothing was begun."""

    def __init__(self, role: str) -> None:
        super().__init__(role)
        self.role = role

    def __str__(self) -> str:
        return (
            f"no {self.role} is spawned: an earlier fact could not be recorded, and the rows are"
            " ahead of the record; go on with a new ledger, made of the facts that were kept"
        )


class NotReplaced(RuntimeError):
    """Raised where a session cannot take the place of another; nothing was spawned."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(name, detail)
        self.name = name
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.name} is not replaced: {self.detail}"


class SessionNotHere(LookupError):
    """Raised on a session whose block is not open in this ledger; nothing was done."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} is not open here"


class SessionLedger:
    """Rows of sessions, and the only way to spawn them.

    Everything that it holds is a fold of the facts that it records, so that a ledger made
    with the facts of another one holds the same.

    Args:
        record: keeps a fact, and returns when it is durable; None for a ledger in memory.
        facts: what was recorded before, to go on from.
        spawn: what opens subagents.
        slots: how many may be at work at once, on each depth; None for no limit.
        patience: seconds that a spawn stays in line while nobody who has a slot plays a
            turn; then there is no slot.
        longest: seconds that it stays in line in any case.
        operator_seconds: how long an operator is waited for where clean-up freed nothing.
        on_deadline: what is done when that is over.
        on_wait: told when an operator is asked.
        repository: the work tree whose state stands in an escalation.
        read_state: reads it, in place of git.
    """

    def __init__(
        self,
        record: Record | None = None,
        *,
        facts: Iterable[Fact] = (),
        spawn: Spawns | None = None,
        slots: SlotSizes = None,
        patience: float = PATIENCE,
        longest: float = math.inf,
        operator_seconds: float = OPERATOR_SECONDS,
        on_deadline: OnDeadline = "escalate",
        on_wait: Callable[[OperatorWait], object] | None = None,
        repository: Path | None = None,
        read_state: ReadState | None = None,
    ) -> None:
        if not operator_seconds >= 0 or not patience >= 0 or not longest >= 0:
            raise ValueError("patience, longest and operator_seconds are seconds, 0 or more")
        self._record = record or _forget
        self._spawns: Spawns = spawn or spawn_subagent
        # Nobody else writes to these two: to copy them for each fact would cost too much.
        before = fold(facts)
        self._sessions: dict[TaskName, Row[Any]] = dict(before.sessions)
        self._targets: dict[str, CapabilityClass] = dict(before.targets)
        self._ordinals: dict[int, int] = {}
        for name in self._sessions:
            route, _ = place_of(name)
            self._ordinals[route] = next_ordinal(route, self._sessions) - 1
        self._seats: dict[TaskName, Seat[Any]] = {}
        self._is_lost = False
        self._reserved: dict[TaskName, Reservation[Any]] = {}
        self._receipts: dict[TaskName, CaptureReceipt[Any]] = {}
        self._superseded: dict[TaskName, SupersededBy] = {}
        self._waiting: list[OperatorWait] = []
        self._patience, self._longest = patience, longest
        self._operator_seconds, self._on_deadline = operator_seconds, on_deadline
        self._on_wait = on_wait
        self._repository, self._read_state = repository, read_state
        self.slots = Slots(slots)
        """Who is at work, and how many may be."""

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

    @property
    def waiting(self) -> tuple[OperatorWait, ...]:
        """Spawns that wait for an operator, the oldest first."""
        return tuple(self._waiting)

    def render(self) -> str:
        """A line for each row, for an operator; what subagents have written is not in it."""
        return "\n".join(map(str, self.rows.ordered()))

    def __repr__(self) -> str:
        return f"<SessionLedger: {len(self._sessions)} rows, {len(self._seats)} open>"

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
            if not is_kept and not _is_cut(sys.exception()):
                self._is_lost = True

    def _take(self, fact: Fact) -> None:
        if isinstance(fact, CapabilityObserved):
            self._targets[fact.target] = fact.level
        else:
            self._sessions[fact.name] = step(self._sessions.get(fact.name), fact)

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
                await self._write_last(SessionNotSpawned(name, _unspawned(sys.exception())))
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

    # ---- spawning

    @asynccontextmanager
    async def open(
        self,
        what: SessionSpec[R] | Reservation[R],
        /,
        *,
        above: Seat[Any] | None = None,
    ) -> AsyncGenerator[Seat[R]]:
        """One session for the length of the block, spawned through the gate.

        Reserved, then what is done is cleaned up, then it waits for a slot.  Leaving the
        block captures what its role needs if the workflow has not, closes the session and
        records what came of that, whatever happened inside.

        Args:
            what: a specification, or a reservation of one.
            above: the session that it works for: it then has a slot of the next depth.

        Raises:
            SpawnBlocked: there was no slot, and no clean-up has made one.
            ReservationUsed: it was spawned from before.
            SessionNotHere: it is a reservation of another ledger.
        """
        reservation = (
            what if isinstance(what, Reservation) else await self.reserve(what, above=above)
        )
        name = reservation.ref.name
        if not reservation.is_used and self._reserved.get(name) is not reservation:
            raise SessionNotHere(name)
        reservation.use()
        del self._reserved[name]
        depth = 0 if above is None else above.ticket.depth + 1
        try:
            with self.slots.line_up(name, depth) as ticket:
                async with AsyncExitStack() as stack:
                    try:
                        yield await self._seated(reservation, ticket, above, stack)
                    finally:
                        # It is there from the moment that it was opened, whatever
                        # happened after that.
                        seat = self._seats.get(name)
                        if seat is not None:
                            try:
                                await self.settle(seat)
                            finally:
                                del self._seats[name]
        finally:
            if isinstance(self._sessions[name].identity, Pending):
                await self._write_last(SessionNotSpawned(name, _unspawned(sys.exception())))

    @asynccontextmanager
    async def spawn(
        self,
        agent: Agent | MindFunction,
        /,
        *,
        lifetime: Lifetime | None = None,
        above: Seat[Any] | None = None,
        **options: Any,
    ) -> AsyncGenerator[Player]:
        """As :func:`standby.spawn`, through the gate: a pool can be given it as `spawn=`.

        Where there is no slot, whoever is yielded answers every task with a Result of
        status `blocked`.  A lifetime "session" is that of a workflow here: the block is
        the session.

        Args:
            agent: who; a function is an agent of its own name.
            lifetime: None for what the agent wants.
            above: the session that it works for.
            options: what else it is spawned with.
        """
        who = agent_of(agent)
        wanted = lifetime or who.lifetime
        kept: Lifetime | None = "workflow" if wanted == "session" else lifetime
        spec = SessionSpec(who, SUBAGENT, lifetime=kept, options=options)
        async with AsyncExitStack() as stack:
            reservation = await self.reserve(spec, above=above)
            player: Player
            try:
                seat = await stack.enter_async_context(self.open(reservation, above=above))
            except SpawnBlocked as error:
                player = BlockedPlayer(str(reservation.ref), who, error.escalation)
            else:
                player = seat.subagent if isinstance(seat.player, Subagent) else seat
            yield player

    @asynccontextmanager
    async def respawn(
        self,
        spec: SessionSpec[R],
        decision: SupersededBy,
        /,
        *,
        above: Seat[Any] | None = None,
    ) -> AsyncGenerator[Seat[R]]:
        """A session in the place of one that was decided to be superseded.

        That one is cleaned up first.

        Raises:
            NotReplaced: its close did not come off; nothing was spawned.
            SpawnBlocked: there was no slot, and no clean-up has made one.
            ForgedReceipt: the decision was not given by this ledger.
        """
        if self._superseded.get(decision.name) is not decision:
            raise ForgedReceipt("SupersededBy")
        await self.clean_up()
        cleanup = self._sessions[decision.name].cleanup
        if not isinstance(cleanup, Closed | CloseUnavailable):
            raise NotReplaced(
                decision.name, "it is kept open" if cleanup is None else cleanup.reason
            )
        reservation = await self.reserve(spec, above=above, replaces=decision)
        async with self.open(reservation, above=above) as seat:
            yield seat

    async def _seated(
        self,
        reservation: Reservation[R],
        ticket: Ticket,
        above: Seat[Any] | None,
        stack: AsyncExitStack,
    ) -> Seat[R]:
        """Clean up, and spawn; for want of a slot recover, and try once more."""
        await self.clean_up()
        first = await self._try(reservation, ticket, above, stack, self._patience, self._longest)
        if isinstance(first, Seat):
            return first
        await self._recover(reservation, first, ticket)
        state = await self.reconstruct()
        spec = first.permit.use(reservation.spec)
        assert spec is reservation.spec
        await self._write(SlotRetried(reservation.ref.name))
        try:
            again = await self._try(reservation, ticket, above, stack, 0.0, 0.0)
        # Not swallowed: the one retry is spent, whatever it has failed with, and its
        # error is the cause of what whoever asked for it is told.
        except Exception as error:
            raise await self._given_up(reservation, first, state) from error
        if isinstance(again, Seat):
            return again
        raise await self._given_up(reservation, again, state)

    async def _try(
        self,
        reservation: Reservation[R],
        ticket: Ticket,
        above: Seat[Any] | None,
        stack: AsyncExitStack,
        patience: float,
        longest: float,
    ) -> Seat[R] | Exhaustion[R]:
        """Spawn with a slot, or say that there is none."""
        if not await ticket.wait(patience, longest):
            return self._exhausted(reservation, above, ticket.depth)
        spec = reservation.spec
        try:
            player = await stack.enter_async_context(
                self._spawns(spec.agent, lifetime=spec.lifetime, **spec.options)
            )
        except (SessionLimit, BaseExceptionGroup) as error:
            if not _is_limit(error):
                raise
            return self._exhausted(reservation, above, None)
        seat = Seat(reservation.ref, spec, player, ticket, above, self)
        # It is there from here on, and known to be: whatever happens next, it is settled.
        self._seats[reservation.ref.name] = seat
        target = seat.target
        opened = SessionOpened(seat.ref.name, player.id, evidence_of(target))
        await self._write(opened)
        await self._observe(spec.target, target.level, "declared")
        return seat

    def _exhausted(
        self, reservation: Reservation[R], above: Seat[Any] | None, depth: int | None
    ) -> Exhaustion[R]:
        """Why there is no slot, on one depth of ours or in a backend."""
        tickets = self.slots.holders(depth)
        name = reservation.ref.name
        holders = tuple(Holder(t.name, t.is_playing) for t in tickets if t.name != name)
        ancestors: list[TaskName] = []
        while above is not None:
            ancestors.append(above.ref.name)
            above = above.above
        permit = RetryPermit(name, reservation.spec)
        return Exhaustion(cause_of(holders, ancestors), holders, permit, depth is not None)

    # ---- recovering from a want of slots

    async def _recover(
        self, reservation: Reservation[R], exhaustion: Exhaustion[R], ticket: Ticket
    ) -> None:
        """Make room, or have it made; when this returns, the one retry may begin.

        Raises:
            SpawnBlocked: no room was made.
        """
        name, spec = reservation.ref.name, reservation.spec
        holders = (self._sessions[each.name].identity for each in exhaustion.holders)
        ids = tuple(shown_id(each.id) for each in holders if isinstance(each, Identified))
        await self._write(SlotExhausted(name, exhaustion.cause, ids))
        closed = await self.clean_up()
        has_slot = exhaustion.is_ours and ticket.has_slot
        if after_clean_up(closed=len(closed), has_slot=has_slot) == "retry":
            return
        level = self._targets.get(spec.target, "cleanup-unavailable")
        wait = OperatorWait(
            name,
            spec.role.name,
            guidance(level),
            self._inventory(),
            self._operator_seconds,
            trio.current_time() + self._operator_seconds,
        )
        await self._write(SlotAwaited(name, wait.seconds))
        if await self._confirmed(wait, ticket if exhaustion.is_ours else None):
            return
        if self._on_deadline == "escalate":
            raise await self._given_up(reservation, exhaustion, await self.reconstruct())

    async def _confirmed(self, wait: OperatorWait, ticket: Ticket | None) -> bool:
        """Wait for an operator, or for a slot of ours; False at the deadline."""
        self._waiting.append(wait)
        try:
            if self._on_wait is not None:
                self._on_wait(wait)
            with trio.CancelScope(deadline=wait.until):
                while not wait.is_confirmed and not (ticket is not None and ticket.has_slot):
                    wait.answered = trio.Event()
                    if ticket is not None:
                        ticket.wake = wait.answered
                    await wait.answered.wait()
        finally:
            self._waiting.remove(wait)
        if wait.is_confirmed:
            await self._write(SlotConfirmed(wait.name, wait.by))
        return wait.is_confirmed or (ticket is not None and ticket.has_slot)

    def confirm(self, by: str = "") -> int:
        """Say that what was asked of an operator is done; returns how many spawns go on.

        Each is tried once more.

        Args:
            by: who says so.
        """
        waiting = [each for each in self._waiting if not each.is_confirmed]
        for each in waiting:
            each.confirm(by)
        return len(waiting)

    async def reconstruct(self) -> Reconstruction:
        """What is going on: of sessions as the ledger has it, of the source as git has it."""
        state = None
        if self._read_state is not None:
            state = await self._read_state()
        elif self._repository is not None:
            state = await read_repository(self._repository)
        else:
            await trio.lowlevel.checkpoint()
        return Reconstruction(summaries(self.rows.ordered()), self._inventory(), state)

    async def _given_up(
        self, reservation: Reservation[Any], exhaustion: Exhaustion[Any], state: Reconstruction
    ) -> SpawnBlocked:
        """The end of a spawn: recorded, and told with what may be told."""
        name, spec = reservation.ref.name, reservation.spec
        await self._write(SlotEscalated(name))
        escalation = Escalation(
            cause=exhaustion.cause,
            role=spec.role.name,
            scope=spec.scope,
            sessions=state.sessions,
            open=state.open,
            repository=state.repository,
        )
        return SpawnBlocked(name, escalation)

    def _inventory(self) -> tuple[str, ...] | None:
        """Ids of the sessions that are open, where targets list them; None where they do not."""
        seats = [each for each in self._seats.values() if not self._sessions[each.ref.name].is_over]
        listed = [each for each in seats if not isinstance(each.target, Unavailable)]
        return tuple(shown_id(each.id) for each in listed) if listed or not seats else None

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
        for seat in list(self._seats.values()):
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


def _is_limit(error: BaseException) -> bool:
    """Whether nothing but a limit of a backend is in `error`."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_limit, error.exceptions))
    return isinstance(error, SessionLimit)


def _unspawned(error: BaseException | None) -> Unspawned:
    """Why nothing was spawned, where `error` has come of it."""
    if isinstance(error, SpawnBlocked):
        return "slots exhausted"
    return "cut" if _is_cut(error) else "start failed"


def _is_cut(error: BaseException | None) -> bool:
    """Whether a cancellation is in `error`."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[0] is not None
    return isinstance(error, trio.Cancelled)


def _without_result(number: DispatchSettled, error: BaseException | None) -> DispatchSettled:
    """How a turn ended that raised, as it is recorded."""
    if _is_cut(error):
        return DispatchSettled(number.name, number.number, "cancelled", "cancelled")
    if isinstance(error, ActorStopped):
        return DispatchSettled(number.name, number.number, "refused", "closed")
    return number


async def _forget(fact: Fact) -> None:
    """Keep nothing: the rows are all that there is."""
    await trio.lowlevel.checkpoint()
