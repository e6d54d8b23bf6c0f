"""What a subagent is, apart from its mailbox: a session, its turns, and what they cost.

A mind outlives its session: after a restart, or when a context is full, it goes
on with another one, and with as much memory as its agent wants.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio
from attrs import define, field

from .agent import Agent, Lifetime, LifetimeSource
from .budget import Budget, Refusal, Reservation
from .context import crowded
from .events import current_stream, emit
from .failure import described
from .guards import refusal_of_idleness, refusal_of_input, refusal_of_output
from .opening import CannotRecall
from .prices import LIST_PRICES, Price, Prices, cost_of, price_of
from .record import (
    ENDING,
    Ended,
    Finished,
    Line,
    Noted,
    Opened,
    Recorder,
    Said,
    Spent,
    Used,
    claim,
    claimed_for_a_transcript,
    wall_time,
)
from .result import Attachment, ChatMessage, Result, TurnError, crash_of, failed, succeeded
from .sendable import sendable
from .session import (
    Compacted,
    Compacts,
    Handoff,
    MessageEnded,
    ModelCalled,
    OnEvent,
    Retrying,
    Session,
    SessionEvent,
    Steered,
    TextDelta,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    ignore,
    sendable_event,
)
from .sittings import Life, NoSummary, Sittings
from .usage import NOTHING, Usage

if TYPE_CHECKING:
    from .block import Block
    from .others import Others, Passed
    from .subagent import Subagent

CLOSE_SECONDS = 5.0
"""How long export and dispose may take, together."""
GRACE_SECONDS = 1.0
"""How long a mind that was cut may take to let go, before nobody waits for it."""

_KILLED_SHARE = 0.75
"""What of the grace of a kill closing may take."""

# File systems take 255; endings, and what stands before a file that is being written, come on top.
_FILE_NAME_BYTES = 200

Cut = Literal["stopped", "aborted", "budget"]
# The strongest reason that was given for a cut is the one that is told.
_STRENGTH: dict[Cut | None, int] = {None: 0, "budget": 1, "aborted": 2, "stopped": 3}


class Closed(msgspec.Struct, frozen=True):
    """What became of closing a subagent."""

    closed: bool
    """Its session was exported, if that was asked for, and let go."""
    reason: str = ""
    """Why not."""
    export: str | None = None
    """The file with its transcript."""


CLOSE_WAS_CUT = Closed(False, "close was cut")


def _sendable_names(attachments: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
    if all(sendable(each.name) is each.name for each in attachments):
        return attachments
    return tuple(msgspec.structs.replace(each, name=sendable(each.name)) for each in attachments)


@define(eq=False)
class Order:
    """One ask, from the call to its Result."""

    task: str = field(converter=sendable)
    seconds: float
    """How long its turn may take."""
    asked_at: float
    attachments: tuple[Attachment, ...] = field(default=(), converter=_sendable_names)
    hear: Callable[[SessionEvent], None] = ignore
    """Told of what happens in the turn; it must not raise."""
    on_handoff: Callable[[Handoff], None] | None = None
    """Takes it on where its mind hands over; None: its own mind sees to that."""
    passed: Passed | None = None
    """What others did in this turn, if any did."""
    patience: trio.CancelScope = field(factory=trio.CancelScope)
    """Ends the asker's waiting for a mind that does not let go."""
    scope: trio.CancelScope | None = None
    """The turn, once it has begun."""
    began_at: float = math.inf
    is_reached: bool = False
    """Whether the mind has seen the task."""
    has_called: bool = False
    """Whether the mind has called a tool, whatever became of that."""
    cut: Cut | None = None
    why: str = ""
    before: Usage = NOTHING
    beside: Usage = NOTHING
    """What was spent in it outside its session: on a summary, say."""
    noted: Usage = NOTHING
    """What it had cost when that was last written down."""
    reservation: Reservation | None = None
    """What is put aside for it, where there is a budget."""
    payer: Budget | None = None
    """What it is paid from besides, where its subagent has many askers."""
    messages: list[ChatMessage] = field(factory=list)
    speech: str = ""
    """What the mind is in the middle of saying."""
    over: trio.Event = field(factory=trio.Event)
    result: Result | None = None


@define(eq=False)
class Mind:
    """A session in the hands of a subagent, and everything that is counted of it."""

    id: str
    agent: Agent
    lifetime: Lifetime
    export_dir: Path | None = None
    timeout: float | None = None
    budget: Budget | None = None
    prices: Prices = LIST_PRICES
    parent: str = ""
    """The subagent that had it spawned."""
    is_resident: bool = False
    """Many ask it: each turn is paid by who asks."""
    incarnation: int = 1
    opened_at: float = field(factory=trio.current_time)
    spent: Usage = NOTHING
    below: Usage = NOTHING
    """What those have spent, for its turns, that it had at work below it; not its time."""
    stopped: bool = False
    stuck: bool = False
    """A turn that was cut has not let go."""
    fenced: bool = False
    """A turn has outlived its kill, and what it has left behind is known to nobody."""
    dead: TurnError | None = None
    """Why its session answers no more."""
    last: Result | None = None
    turn: Order | None = None
    orders: dict[Order, None] = field(factory=dict[Order, None])
    """Everything asked and not answered, oldest first."""
    closed_at: float | None = None
    closing: trio.Event | None = None
    outcome: Closed = CLOSE_WAS_CUT
    names: dict[Path, str] = field(factory=dict[Path, str], init=False)
    """What its files are called, by folder."""
    recorder: Recorder | None = None
    """Writes down what happens, as it happens, where there is an `export_dir`."""
    others: Others | None = None
    """Whom it may hand over and delegate to, where it may."""
    sittings: Sittings = field(init=False)
    """Its sessions."""
    _closing: trio.CancelScope | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.sittings = Sittings(self.id, self.agent, self._charge)

    @property
    def session(self) -> Session | None:
        """The conversation now; None before the first, and between two."""
        return self.sittings.session

    def opened(self, source: LifetimeSource) -> None:
        """Tell and record that its session is open."""
        assert self.session is not None
        if self.export_dir is not None and self.recorder is None:
            # Ids begin anew in each process, and what an earlier one has left stays as it is.
            if self.export_dir not in self.names:
                self.names[self.export_dir] = claim(self.export_dir, file_name(self.id))
            name = self.names[self.export_dir]
            self.recorder = Recorder(self.export_dir / f"{name}{ENDING}")
        if self.recorder is not None:
            self._record_opened()
        self.tell(
            "spawn",
            agent=self.agent.name,
            model=self.session.model,
            lifetime=self.lifetime,
            source=source,
        )
        self.tell("status", status="idle")

    def _record_opened(self) -> None:
        """Write down that a session was opened, and what it knows of those before."""
        assert self.session is not None
        self.record(
            Opened(
                wall_time(),
                self.id,
                self.agent.name,
                self.session.model,
                self.lifetime,
                self.parent,
                self.incarnation,
                note=self.sittings.note,
            )
        )

    def record(self, line: Line) -> None:
        """Write `line` down, where there is a record."""
        if self.recorder is not None:
            self.recorder.write(line)

    # ---- sessions

    def alive(self, block: Block) -> Life:
        """A session, open for one life of the actor in `block`, closed however that ends.

        A second life begins with what the agent wants to have remembered.
        """
        # Nothing of the life before holds for this one.
        self.dead, self.closing, self.closed_at, self.outcome = None, None, None, CLOSE_WAS_CUT
        self.fenced = False
        return Life(self.sittings, block, self.close, self.incarnation)

    def killed(self, grace: float) -> None:
        """Its actor was killed: be done with closing before it is taken for one that hangs."""
        self.sittings.hurry(grace * _KILLED_SHARE)
        if self._closing is not None:
            self._closing.deadline = min(self._closing.deadline, self.sittings.close_by)

    async def _make_room(self, level: int, limit: int) -> TurnError | None:
        """Do what the agent wants done when its context is nearly full."""
        policy = self.agent.context
        self.tell("context", tokens=level, limit=limit, policy=policy)
        full = TurnError(
            "context_overflow",
            f"the context of {self.id} holds {level} of {limit} tokens, more than"
            f" {self.agent.context_threshold:.0%}, and its agent says context={policy!r}",
        )
        if policy == "fail":
            return full
        session = self.session
        assert session is not None
        if policy == "compact" and isinstance(session, Compacts):
            error = await session.compact(lambda event: self._tell(event))
            return None if error is None else TurnError("context_overflow", str(error))
        try:
            characters = await self.sittings.hand_over()
        except (NoSummary, CannotRecall) as error:
            return TurnError("context_overflow", str(error)).with_cause(error)
        if self.recorder is not None:
            self._record_opened()
        self.tell("handover", summary=characters)
        return None

    def transcript(self) -> tuple[ChatMessage, ...]:
        """Everything said so far, in all sessions, each message once and in order."""
        return self.sittings.transcript()

    # ---- turns

    async def play(self, order: Order) -> Result:
        """Play the turn of `order`; whatever ends it, `order.result` says how."""
        if self.stopped:
            return self.refuse(order, "stopped")
        if self.dead is not None:
            return self.refuse(order, self.dead)
        payer, own = order.payer, self.budget
        if payer is None:
            return await self._paid(order)
        # For one turn its own budget, and so all of those below, are part of the asker's.
        if own is None or own in payer.chain():
            self.budget = payer
        else:
            own.above = payer
        try:
            return await self._paid(order)
        finally:
            self.budget = own
            if own is not None and own.above is payer:
                own.above = None

    async def _paid(self, order: Order) -> Result:
        """The turn of `order`, put aside before it is played and settled after it."""
        reservation = self._reserve()
        if isinstance(reservation, Refusal):
            return self.refuse(order, TurnError("budget", reservation.reason))
        order.reservation = reservation
        before = self.spent
        try:
            return await self._play(order)
        finally:
            if reservation is not None:
                reservation.settle(self.spent.delta(before))

    async def _play(self, order: Order) -> Result:
        assert self.session is not None
        now = trio.current_time()
        left = math.inf if self.budget is None else self.budget.seconds_left
        scope = order.scope = trio.CancelScope(deadline=now + min(order.seconds, left))
        order.before, order.began_at = self.session.usage, now
        order.patience.deadline = scope.deadline + GRACE_SECONDS
        self.turn = order
        self.tell("status", status="working", task=order.task)
        turn: Turn | None = None
        crash: BaseException | None = None

        def hear(event: SessionEvent) -> None:
            self._hear(order, event)
            if order.reservation is not None:
                self._watch_cost(order, order.reservation)

        try:
            with scope:
                turn = await self._turn(order, hear)
        except Exception as raised:
            # Not swallowed: a session never raises for its mind's failure, so
            # this is a bug, and the cell's to deal with.
            crash = raised
            raise
        finally:
            self.turn = None
            self.stuck = False
            if turn is not None and turn.dead:
                self.dead = turn.error or TurnError("dead", f"the session of {self.id} has ended")
            error = self._error(order, turn, crash, left)
            result = self._finish(order, turn, error)
            order.over.set()
        return result

    async def _turn(self, order: Order, hear: Callable[[SessionEvent], None]) -> Turn:
        """One turn of the session, if its task may reach it and there is room for it."""
        refusal = await refusal_of_input(self.agent, order.task)
        if refusal is not None:
            return Turn(error=refusal)
        session = self.session
        assert session is not None
        room = crowded(self.agent, session)
        if room is not None:
            overflow = await self._make_room(*room)
            if overflow is not None:
                return Turn(error=overflow)
        if self.session is not session:
            # A new one has counted nothing; in the same one a compaction is a cost of this turn.
            session = self.session
            assert session is not None
            order.before = session.usage
        order.is_reached = True
        others = self.others
        task = order.task if others is None else others.told(order.task, order.attachments)
        turn = await session.ask(task, hear, order.attachments)
        if turn.error is not None and turn.error.kind == "refused" and not turn.messages:
            # A session that takes no such attachments: nobody was asked.
            order.is_reached = False
        if others is not None:
            others.heard(turn)
        if turn.handoff is not None and turn.error is None:
            # To hand over is to call a tool; whoever takes over has a rule of their own.
            order.has_called = True
            turn = await self._hand_over(order, turn, hear)
        if turn.error is not None:
            return turn
        refusal = refusal_of_idleness(self.agent, order.has_called)
        if refusal is None:
            refusal = await refusal_of_output(self.agent, turn.text)
        return turn if refusal is None else msgspec.structs.replace(turn, error=refusal)

    async def _hand_over(self, order: Order, turn: Turn, hear: OnEvent) -> Turn:
        assert turn.handoff is not None
        if order.on_handoff is not None:
            order.on_handoff(turn.handoff)
            return turn
        if self.others is None:
            why = f"{self.id} hands over to {turn.handoff.to!r}, and was given nobody"
            return Turn(turn.text, error=TurnError("protocol", why))
        return await self.others.pass_on(order, turn, hear)

    def _hear(self, order: Order, event: SessionEvent) -> None:
        event = sendable_event(event)
        match event:
            case TextDelta(text):
                order.speech += text
            case MessageEnded(message):
                order.messages.append(message)
                order.speech = ""
            case ToolStarted() | ToolEnded():
                # One that was refused has ended, and never begun.
                order.has_called = True
            case _:
                pass
        self._tell(event)
        if self.recorder is not None and not isinstance(event, TextDelta | ThoughtDelta):
            self._note_cost(order)
        order.hear(event)

    def _note_cost(self, order: Order) -> None:
        """Write down what the turn has cost, if that is more than was written down last.

        A process that is killed in mid-turn has spent it all the same.
        """
        if self.session is None or not order.is_reached:
            return
        cost = self._priced(self.session.usage.delta(order.before))
        known = order.noted
        spent = (cost.input_tokens, cost.output_tokens, cost.cost_usd)
        if spent != (known.input_tokens, known.output_tokens, known.cost_usd):
            order.noted = cost
            self.record(Spent(wall_time(), cost))

    def _tell(self, event: SessionEvent) -> None:
        if self.recorder is not None:
            line = line_of(event)
            if line is not None:
                self.recorder.write(line)
        if not current_stream().listeners:
            return
        match event:
            case TextDelta(text):
                self.tell("text", delta=text)
            case ThoughtDelta(text):
                self.tell("thought", delta=text)
            case Retrying(attempt, seconds, error):
                self.tell("retry", attempt=attempt, seconds=seconds, error=error.message)
            case ToolStarted(call):
                self.tell("tool", call=call.id, name=call.name, arguments=call.arguments)
            case ToolEnded(call, output, is_error, seconds, is_cut):
                self.tell(
                    "tool_end",
                    call=call.id,
                    name=call.name,
                    is_error=is_error,
                    seconds=seconds,
                    output=output,
                    is_cut=is_cut,
                )
            case ModelCalled(model, seconds, usage, finish, error):
                self.tell(
                    "model_call",
                    model=model,
                    seconds=seconds,
                    usage=usage,
                    finish=finish,
                    error=None if error is None else error.kind,
                )
            case Steered(text):
                self.tell("steer", text=text)
            case Compacted(before, after):
                self.tell("compacted", before=before, after=after)
            case MessageEnded():
                pass

    # ---- what it costs

    def _reserve(self) -> Reservation | Refusal | None:
        if self.budget is None:
            return None
        tokens = max(self.budget.expected(self.agent.name), self.agent.max_tokens or 0)
        price = self._price()
        usd = 0.0 if price is None else tokens * price.output / 1_000_000
        return self.budget.reserve(tokens=tokens, usd=usd)

    def _watch_cost(self, order: Order, reservation: Reservation) -> None:
        """Charge what a turn has cost so far; cut it where that is more than there is."""
        so_far = NOTHING if self.session is None else self.session.usage.delta(order.before)
        so_far = self._priced(so_far)
        if order.beside is not NOTHING:
            so_far = so_far.accumulate(order.beside)
        refusal = reservation.spend(so_far)
        if refusal is not None:
            self.cut("budget", refusal.reason)

    def _price(self) -> Price | None:
        return None if self.session is None else price_of(self.session.model, self.prices)

    def _priced(self, usage: Usage) -> Usage:
        """`usage` with what it costs, where the provider has not said so."""
        price = self._price()
        if usage.cost_usd or price is None:
            return usage
        return msgspec.structs.replace(usage, cost_usd=cost_of(usage, price))

    def _cost(self, order: Order) -> Usage:
        """What the turn of `order` has cost so far."""
        now = trio.current_time()
        cost = NOTHING if self.session is None else self.session.usage.delta(order.before)
        return msgspec.structs.replace(
            self._priced(cost).accumulate(order.beside),
            turns=1 if order.is_reached else 0,
            busy_seconds=now - order.began_at,
            wall_seconds=now - order.asked_at,
        )

    def _charge(self, usage: Usage) -> None:
        """Count what was spent outside the session: in the turn in flight, if there is one."""
        beside = msgspec.structs.replace(self._priced(usage), context_tokens=None)
        if self.turn is None:
            self.spent = self.spent.accumulate(beside)
        else:
            order = self.turn
            order.beside = order.beside.accumulate(beside)
            if order.reservation is not None:
                self._watch_cost(order, order.reservation)

    # ---- how a turn ends

    def _error(
        self,
        order: Order,
        turn: Turn | None,
        crash: BaseException | None,
        left: float = math.inf,
    ) -> TurnError | None:
        """Why there is no answer: what was asked for first, then the deadline, then the mind."""
        if order.cut in ("stopped", "aborted"):
            return TurnError(order.cut, order.why or order.cut)
        scope = order.scope
        if scope is not None and trio.current_time() >= scope.deadline:
            if order.seconds > left:
                return TurnError("budget", f"the time of the budget of {self.id} is up")
            late = scope.cancelled_caught or trio.current_time() > scope.deadline
            if late:
                return TurnError("timeout", f"timed out after {order.seconds:g} s", True)
        if order.cut == "budget":
            return TurnError("budget", order.why)
        if crash is not None:
            return crash_of(crash)
        if turn is None:
            return TurnError("cancelled", "cut from outside")
        return turn.error

    def _finish(self, order: Order, turn: Turn | None, error: TurnError | None) -> Result:
        """The Result of a turn, counted and told."""
        messages = tuple(order.messages)
        if order.speech:
            messages += (ChatMessage("assistant", order.speech, partial=True),)
        usage = self._cost(order)
        self.spent = self.spent.accumulate(usage)
        if self.budget is not None:
            self.budget.note_cost(self.agent.name, usage.input_tokens + usage.output_tokens)
        who = self.agent.name
        if error is None:
            assert turn is not None
            result = succeeded(
                who,
                sendable(turn.text),
                subagent=self.id,
                messages=messages,
                usage=usage,
                value=turn.value,
            )
        else:
            result = failed(who, error, subagent=self.id, messages=messages, usage=usage)
        if order.passed is not None:
            result = order.passed.merged(result)
        order.result = self.last = result
        if self.recorder is not None:
            if order.speech:
                self.record(Said(wall_time(), messages[-1]))
            began = wall_time() - usage.busy_seconds
            self.record(Ended(wall_time(), began, order.task, result.status, error, usage))
        if current_stream().listeners:
            self.tell("usage", **msgspec.structs.asdict(usage))
            kind = None if error is None else error.kind
            self.tell("turn", status=result.status, error=kind, output=result.output)
            self.tell("status", status="idle" if result.ok else "blocked")
        return result

    def refuse(self, order: Order, error: TurnError | Literal["stopped", "closed"]) -> Result:
        """The Result of an ask that did not reach the mind, and so cost nothing."""
        order.result = failed(
            self.agent.name,
            error,
            subagent=self.id,
            usage=Usage(wall_seconds=trio.current_time() - order.asked_at),
        )
        order.over.set()
        return order.result

    def ended(self, order: Order, error: TurnError) -> Result:
        """The Result of a turn that ended with its actor; `error` if it had not begun."""
        return self.refuse(order, error) if order.result is None else order.result

    def given_up(self, order: Order) -> Result:
        """The Result for an asker who does not wait longer for a mind that does not let go."""
        if order.scope is None:
            return self.refuse(order, "stopped")
        self.stuck = True
        messages = tuple(order.messages)
        if order.speech:
            messages += (ChatMessage("assistant", order.speech, partial=True),)
        error = self._error(order, None, None)
        assert error is not None
        # It is spending still: whatever comes is the subagent's, and no Result has it.
        usage = self._cost(order)
        return failed(self.agent.name, error, subagent=self.id, messages=messages, usage=usage)

    @property
    def answering(self) -> Session | Subagent | None:
        """Who is answering in the turn in flight; None without one."""
        if self.turn is None:
            return None
        taker = None if self.others is None else self.others.taker
        return self.session if taker is None else taker

    def cut(self, cut: Cut, why: str) -> bool:
        """End the turn in flight as `cut`; the strongest reason stays."""
        order = self.turn
        if order is None or order.scope is None:
            return False
        if _STRENGTH[cut] > _STRENGTH[order.cut]:
            order.cut, order.why = cut, why
        order.scope.cancel()
        self.hurry(order)
        return True

    def hurry(self, order: Order) -> None:
        """Let the asker of `order` wait for the grace, and no longer."""
        until = trio.current_time() + GRACE_SECONDS
        order.patience.deadline = min(order.patience.deadline, until)

    # ---- ending

    def stop(self) -> None:
        """Let every turn, begun or not, end as `stopped`."""
        if self.stopped:
            return
        self.stopped = True
        self.cut("stopped", "stopped")
        for order in self.orders:
            if order.scope is None:
                # Answered in its turn; or soon, if the turn before does not end.
                self.hurry(order)

    async def close(self) -> Closed:
        """Export, then dispose; once, whoever asks, also when cancelled."""
        if self.closing is not None:
            if self.closing.is_set():
                return self.outcome
            with trio.CancelScope(shield=True):
                await self.closing.wait()
            return self.outcome
        self.closing = trio.Event()
        self.closed_at = trio.current_time()
        path: Path | None = None
        problems: list[str] = []
        try:
            until = min(self.closed_at + CLOSE_SECONDS, self.sittings.close_by)
            with trio.CancelScope(deadline=until, shield=True) as scope:
                self._closing = scope
                try:
                    if self.export_dir is not None and self.session is not None:
                        path = self.export(self.export_dir)
                # The answer has been given.  A session that can write nothing, or that
                # cannot let go, must not take it back: that is told, and the record
                # says not closed.
                except Exception as error:
                    said = str(error) if isinstance(error, OSError) else described(error)
                    problems.append(f"export failed: {sendable(said)}")
                try:
                    await self.sittings.dispose()
                # As above.
                except Exception as error:
                    problems.append(f"close failed: {described(error)}")
            if scope.cancelled_caught:
                problems.append("close timed out")
            if self.turn is not None:
                problems.append("stuck: its turn does not end")
            elif self.fenced:
                problems.append("stuck: its turn has outlived its kill")
            self.outcome = Closed(
                not problems, "; ".join(problems), None if path is None else str(path)
            )
        finally:
            self.closing.set()
            self.record(Finished(wall_time(), self.outcome.closed, self.outcome.reason, self.usage))
            if self.recorder is not None:
                recorder, self.recorder = self.recorder, None
                recorder.close()
            self.tell("status", status="done")
            self.tell(
                "close",
                closed=self.outcome.closed,
                reason=self.outcome.reason,
                export=self.outcome.export,
                status="ok" if self.last is None else self.last.status,
                usage=self.usage,
            )
        return self.outcome

    def export(self, directory: Path) -> Path:
        """Write everything said so far, whole or not at all; no file of another is replaced."""
        if directory in self.names:
            return self.sittings.export(directory, self.names[directory])
        with claimed_for_a_transcript(directory, file_name(self.id)) as name:
            path = self.sittings.export(directory, name)
        self.names[directory] = name
        return path

    @property
    def usage(self) -> Usage:
        """Everything spent since the spawn, in the turn in flight too; its time goes on until
        the close."""
        until = trio.current_time() if self.closed_at is None else self.closed_at
        spent = self.spent if self.turn is None else self.spent.accumulate(self._cost(self.turn))
        return msgspec.structs.replace(spent, wall_seconds=until - self.opened_at)

    def tell(self, what: str, **data: Any) -> None:
        """Put an event on the stream, if anybody listens."""
        emit(f"subagent.{what}", self.id, parent=self.parent, incarnation=self.incarnation, **data)


def line_of(event: SessionEvent) -> Line | None:
    """What a record keeps of an event; the pieces of a text it has as a whole."""
    match event:
        case MessageEnded(message):
            return Said(wall_time(), message)
        case ToolEnded(call, _, is_error, seconds):
            return Used(wall_time(), call, seconds, is_error)
        case Retrying(attempt, seconds, error):
            return Noted(
                wall_time(), "retry", f"request {attempt} failed, again in {seconds:g} s: {error}"
            )
        case Steered(text):
            return Noted(wall_time(), "steer", text)
        case Compacted(before, after):
            return Noted(wall_time(), "compacted", f"from {before} to {after} tokens")
        case _:
            return None


def file_name(subagent: str) -> str:
    """The id of a subagent as the name of a file, without its ending.

    Examples:
        >>> file_name("scout#2")
        'scout-2'
    """
    name = subagent.replace("#", "-")
    raw = name.encode()
    if len(raw) <= _FILE_NAME_BYTES:
        return name
    # An agent's name is bounded in characters, a file's in bytes.
    start = raw[: _FILE_NAME_BYTES - 33].decode(errors="ignore")
    return f"{start}-{hashlib.sha256(raw).hexdigest()[:32]}"
