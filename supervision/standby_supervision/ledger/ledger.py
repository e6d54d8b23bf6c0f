"""The ledger of sessions: the one way to spawn them, through clean-up and the line for a slot.

It reserves before it spawns, cleans up before it admits, captures before it closes, and
says of a session only what was observed of it.  It reads git and changes nothing in it, and
what it holds is in no prompt.
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import trio

from standby_actors.agent import Agent, Lifetime, MindFunction, agent_of
from standby_actors.subagent import Subagent
from standby_actors.subagent import spawn as spawn_subagent

from .anchors import ReadState, read_repository
from .book import unspawned_by
from .capability import (
    Unavailable,
    evidence_of,
    guidance,
)
from .cleaning import Cleaning
from .dimensions import (
    Identified,
    Pending,
)
from .errors import NotReplaced, SessionNotHere, SpawnBlocked
from .escalation import Escalation, shown_id, summaries
from .facts import (
    Fact,
    Record,
    SessionNotSpawned,
    SessionOpened,
    SlotAwaited,
    SlotConfirmed,
    SlotEscalated,
    SlotExhausted,
    SlotRetried,
)
from .gate import (
    Holder,
    OnDeadline,
    after_clean_up,
    cause_of,
)
from .names import TaskName
from .outcomes import (
    Closed,
    CloseUnavailable,
    ForgedReceipt,
    SupersededBy,
)
from .reconstruction import Reconstruction
from .roles import SUBAGENT
from .seat import BlockedPlayer, Player, Seat, SessionLimit, Spawns
from .slots import PATIENCE, Slots, SlotSizes, Ticket
from .spec import (
    Exhaustion,
    Reservation,
    RetryPermit,
    SessionSpec,
)
from .waiting import OperatorWait

R = TypeVar("R")

OPERATOR_SECONDS = 600.0
"""How long an operator is waited for."""


class SessionLedger(Cleaning):
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
        super().__init__(record, facts)
        self._spawns: Spawns = spawn or spawn_subagent
        self._waiting: list[OperatorWait] = []
        self._patience, self._longest = patience, longest
        self._operator_seconds, self._on_deadline = operator_seconds, on_deadline
        self._on_wait = on_wait
        self._repository, self._read_state = repository, read_state
        self.slots = Slots(slots)
        """Who is at work, and how many may be."""

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
                await self._write_last(SessionNotSpawned(name, unspawned_by(sys.exception())))

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

    @property
    def waiting(self) -> tuple[OperatorWait, ...]:
        """Spawns that wait for an operator, the oldest first."""
        return tuple(self._waiting)

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


def _is_limit(error: BaseException) -> bool:
    """Whether nothing but a limit of a backend is in `error`."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_limit, error.exceptions))
    return isinstance(error, SessionLimit)
