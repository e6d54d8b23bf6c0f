"""The actor that starts, restarts and stops its children, and nobody else does.

It serves one thing at a time, in the order of its mailbox: the ends of its
children, attempts to start one again, and what is asked by those who administer
it.  What to do it asks of :mod:`decision`; here it is only done.
"""

from __future__ import annotations

import logging
import math
import random
from collections import deque
from collections.abc import Iterable
from typing import Any, Literal, cast

import msgspec
import trio
from attrs import define, evolve

from standby_actors import (
    Actor,
    Crashed,
    Exit,
    ExitReason,
    Killed,
    NameTaken,
    Ref,
    Request,
    Shutdown,
    Stuck,
    emit,
)
from standby_actors.cell import Cell, KeptCell
from standby_actors.chaos import point
from standby_actors.failure import described
from standby_actors.kind import kind_of
from standby_actors.pinned import Pinned
from standby_actors.reply import END, ERROR, Reply
from standby_actors.snapshot import ChildStatus, SupervisorStatus, sound
from standby_actors.tree import Overseer

from .answers import (
    AlreadyPresent,
    AlreadyStarted,
    ChildInfo,
    Counts,
    DeleteAnswer,
    Done,
    Ignored,
    NotFound,
    Refused,
    RestartAnswer,
    Restarting,
    Running,
    StartAnswer,
    Started,
    StartError,
    TerminateAnswer,
    TooMany,
    UpdateAnswer,
    WrongStrategy,
)
from .child import (
    ChildSpec,
    SupervisorSpec,
    check_all_arguments,
    check_significant,
    check_spec,
    check_supervisor,
)
from .decision import (
    Again,
    CloseDown,
    Decision,
    Fallen,
    Forget,
    GiveUp,
    count,
    decide,
    is_expected,
    is_normal,
    is_reported,
    steps,
    wants_restart,
)
from .errors import BadSpec, Ignore, StartFailed
from .stall import Stalls

logger = logging.getLogger("standby.supervision")

CAUSES = 10
"""Errors of children that a supervisor remembers, to tell when it gives up."""
REPORTED = 2000
"""Characters of a reason that a report has room for."""


@define(eq=False)
class Record:
    """One child, in all its lives; what its cell knows its supervisor by."""

    spec: ChildSpec
    owner: Supervisor
    cell: KeptCell[Any] | None = None
    state: Literal["running", "restarting", "undefined"] = "undefined"
    expected: bool = False
    """Whether the supervisor is stopping it, and hears of its end by itself."""
    comes_back: bool = False
    """Whether that stop is for a restart."""
    streak: int = 0
    """Restarts in a row, none of them followed by a life long enough."""
    started_at: float = 0.0
    restarts: int = 0
    last_reason: str = ""
    due: float = 0.0
    """When the next attempt is made, where a back-off delayed it."""
    attempt: int = 0
    """Number of the attempt that is due; an older one that arrives is void."""
    ended: ExitReason | None = None
    """How its life ended, until the supervisor has dealt with that."""
    lived: float = 0.0
    """Seconds that this life took."""
    given: tuple[Any, ...] | None = None
    """What it is made with, where its specification does not keep that: a temporary
    child has one life, and its arguments may be large."""
    is_new: bool = False
    """Whether the specification is another than that of the last life."""
    unmade: BaseException | None = None
    """What the constructor of the next life has raised already, ahead of its turn."""
    starter: Reply[Any] | None = None
    """What the start of this life resolves, while the supervisor waits for it."""
    is_static: bool = False
    """Whether it stands in the specification that its supervisor is made of, so that
    the next life of that one brings it back."""
    below: dict[str, KeptCell[Any]] | None = None
    """The static children of a supervisor, by id: the same refs for all its lives."""

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def kind(self) -> str:
        return self.spec.kind

    @property
    def role(self) -> Literal["worker", "supervisor"]:
        return self.spec.type

    @property
    def redeliver(self) -> int:
        return self.spec.redeliver

    @property
    def when_down(self) -> Literal["wait", "fail"]:
        return self.spec.when_down

    def keeps(self, cell: Cell[Any], reason: ExitReason) -> bool:
        """Whether the mailbox stays open for another life."""
        owner = self.owner
        if not owner.is_open or owner.is_stopping or owner.is_doomed:
            return self.is_static and owner.comes_back()
        if self.expected:
            return self.comes_back
        return self.state == "restarting" or wants_restart(self.spec.restart, is_normal(reason))

    def lost(self, cell: Cell[Any], reason: ExitReason) -> None:
        """Hear that a life is over."""
        self.last_reason = str(reason)
        if self.expected or self.owner.is_doomed:
            return
        if self.owner.is_stopping:
            self.owner.child_stopped(self, reason)
        elif self.starter is not None and self.starter.state == ERROR:
            return  # a start that failed, also by a kill, is told to who started it, once
        elif self.owner.is_open:
            self.owner.child_ended(self, reason)

    def replaced(self, cell: Cell[Any], error: BaseException) -> Any | None:
        """The instance of its next life, made on the spot; None if more is to be done."""
        return self.owner.child_replaced(self, cell, error)

    def child_status(self, now: float | None) -> ChildStatus:
        """What is known of it, for a snapshot."""
        uptime = retry = None
        if now is not None and self.state == "running":
            uptime = max(0.0, now - self.started_at)
        if now is not None and self.state == "restarting" and self.due > now:
            retry = self.due - now
        return ChildStatus(
            id=sound(self.spec.id),
            restart=self.spec.restart,
            restarts=self.restarts,
            last_reason=sound(cut(self.last_reason)),
            uptime_seconds=uptime,
            retry_seconds=retry,
            streak=self.streak,
        )


class _Ended(msgspec.Struct):
    record: Any
    reason: Any


class _Attempt(msgspec.Struct):
    record: Any
    number: int
    counts: bool


class StartChild(Request[StartAnswer], frozen=True):
    """Start a child with `spec`; of a dynamic supervisor, from its template with `args`."""

    spec: Any = None
    args: tuple[Any, ...] = ()
    id: str | None = None


class TerminateChild(Request[TerminateAnswer], frozen=True):
    """Stop a child, by id; of a dynamic supervisor, by id or ref."""

    id: Any


class RestartChild(Request[RestartAnswer], frozen=True):
    """Start a child that is known and does not run."""

    id: str


class DeleteChild(Request[DeleteAnswer], frozen=True):
    """Forget a child that does not run."""

    id: str


class WhichChildren(Request[tuple[ChildInfo, ...]], frozen=True):
    """All children, newest first."""


class CountChildren(Request[Counts], frozen=True):
    """How many there are."""


class GetSpec(Request[ChildSpec | NotFound], frozen=True):
    """The specification of a child, by id or ref."""

    id: Any


class UpdateSpecs(Request[UpdateAnswer], frozen=True):
    """Take new specifications; nothing is started or stopped."""

    spec: Any


class Supervisor(Actor, Overseer):
    """An owner with a restart policy.  OTP's ``supervisor``, on a cell.

    Made by :func:`open_supervisor`, or by a :func:`supervisor` specification
    below another.
    """

    capacity = math.inf
    shutdown = math.inf
    start_timeout = math.inf
    stop_mode = "interrupt"
    trap_exits = True

    def __init__(self, spec: SupervisorSpec, source: random.Random | None = None) -> None:
        self.spec = spec
        self.records: dict[str, Record] = {}
        self.restarts: deque[float] = deque()
        self.counted = 0
        """Restarts counted in all."""
        self.causes: deque[BaseException] = deque(maxlen=CAUSES)
        self.is_open = True
        self.gave_up: GiveUp | None = None
        self._numbers = 0
        self._random = source or random.Random()
        self._stalls: Stalls | None = None
        self._comes_back: bool | None = None

    # ---- starting and ending

    async def on_start(self) -> None:
        """Start the children in order; if one fails, stop those that run, and fail."""
        if self.spec.strategy == "dynamic":
            return
        above = self._above()
        known = self._bring_back()
        for spec in self.spec.children:
            record = Record(spec, self)
            self.records[spec.id] = record
            # What comes back with it, only a supervisor can that comes back itself.
            record.is_static = above is not None and spec.restart != "temporary"
            cell = known.get(spec.id)
            if cell is not None:
                keeper = cell.keeper
                if isinstance(keeper, Record):
                    record.below = keeper.below
                cell.keeper = record
                record.cell = cell
                record.is_new = True
            error = await self._start(record, "info")
            if record.is_static and record.cell is not None:
                known[spec.id] = record.cell
            if isinstance(error, Ignore):
                self._forget(record)
            elif error is not None:
                self.is_open = False
                raised = StartFailed(self.ref.path, spec.id)
                raised.__cause__ = error
                raise raised
        # Those of a specification that is not this life's.
        self._cell.block.forsake_heirs(self._cell)

    def _above(self) -> Record | None:
        """What the supervisor above knows this one by; None for the top."""
        keeper = self._cell.keeper
        return keeper if isinstance(keeper, Record) else None

    def _bring_back(self) -> dict[str, KeptCell[Any]]:
        """The children of an earlier life that are to live again, under the names of this one.

        Raises:
            StartFailed: somebody else has one of these names.
        """
        above = self._above()
        if above is None:
            return {}
        known: dict[str, KeptCell[Any]] = {}
        moves: dict[Cell[Any], str | None] = {}
        for spec in self.spec.children:
            cell = (above.below or {}).get(spec.id)
            # One that is stuck is still in its old life.
            if cell is not None and cell.actor is None and spec.restart != "temporary":
                known[spec.id] = cell
                if cell.rare().name != spec.name:
                    moves[cell] = spec.name
        try:
            self._cell.block.names.rename(moves)
        except NameTaken as taken:
            culprit = next(each.id for each in self.spec.children if each.name == taken.name)
            raise StartFailed(self.ref.path, culprit) from taken
        above.below = known
        return known

    def comes_back(self) -> bool:
        """Whether this supervisor, which ends, gets another life; then so do its children."""
        path: list[Supervisor] = []
        here: Supervisor = self
        # Not by recursion: a tree may be deeper than the stack.
        while here._comes_back is None:
            path.append(here)
            above = here._above()
            if above is None:
                here._comes_back = False
                break
            owner = above.owner
            if above.is_static and (not owner.is_open or owner.is_stopping or owner.is_doomed):
                here = owner
                continue
            cell = here._cell
            reason = cell.extra.reason if cell.extra is not None else None
            here._comes_back = above.keeps(cell, reason or Killed())
        for each in path:
            each._comes_back = here._comes_back
        return bool(here._comes_back)

    def on_stop(self, reason: ExitReason) -> None:
        """Everything below has ended."""
        self.is_open = False
        for record in self.records.values():
            if record.ended is not None:  # just before its stop would have begun
                self.child_stopped(record, record.ended)

    def end(self, reason: ExitReason) -> None:
        """End this supervisor: its children first, in reverse order."""
        self.is_open = False
        self.stop(reason)

    def on_exit(self, exit: Exit) -> None:  # noqa: A002 - the hook's own word
        """Let the end of a stranger be: whom a supervisor cares for are its children."""

    @property
    def is_stopping(self) -> bool:
        """Whether its children are ended because it ends itself, and in order."""
        extra = self._cell.extra
        return extra is not None and extra.stopping

    @property
    def is_doomed(self) -> bool:
        """Whether it is being killed, and all below it with it."""
        extra = self._cell.extra
        return extra is not None and extra.doomed

    def child_stopped(self, record: Record, reason: ExitReason) -> None:
        """Hear of the end of a child while everything is being stopped."""
        record.ended = None
        if not is_expected(record.spec.restart, record.spec.shutdown, reason):
            self._report("shutdown_error", record, str(reason))

    # ---- what arrives

    async def receive(self, message: Any) -> Any:
        match message:
            case _Ended(record, reason):
                await self._ended(record, reason)
                return None
            case _Attempt(record, number, counts):
                is_due = record.state == "restarting" and record.attempt == number
                if is_due and record.owner is self:
                    await self._attempt(record, counts)
                return None
            case StartChild():
                return await self._start_child(message)
            case TerminateChild():
                return await self._terminate_child(message.id)
            case RestartChild():
                return await self._restart_child(message.id)
            case DeleteChild():
                return self._delete_child(message.id)
            case WhichChildren():
                return tuple(self._info(each) for each in reversed(self.records.values()))
            case CountChildren():
                return self._count()
            case GetSpec():
                record = self._find(message.id)
                return record.spec if record is not None else NotFound()
            case UpdateSpecs():
                return self._update(message.spec)
            case _:
                name = type(message).__name__
                logger.error("supervisor %s ignored a message: a %s", self.ref.path, name)
                return None

    def child_ended(self, record: Record, reason: ExitReason) -> None:
        """Hear of the end of a child; the easy case is dealt with on the spot."""
        cell = self._cell
        record.lived = trio.current_time() - record.started_at
        if (
            cell.mailbox is None
            and not cell.block.is_busy(cell)
            and self.spec.backoff is None
            and record.cell is not None
            and record.cell.kind.on_start is None
            and not record.cell.kind.dedicated
            and not record.is_new
            and self.spec.strategy in ("one_for_one", "dynamic")
            and wants_restart(record.spec.restart, is_normal(reason))
        ):
            decision = self._judge(record, reason)
            if isinstance(decision, Again):
                # No start hook: the new life begins here, with nobody else in between.
                try:
                    error = self._revive(record, None)
                # Not an error of the child: it ends the program, and leaves bare.  Here
                # nobody above would take it, but who has just ended the old life.
                except BaseException as fatal:
                    cell.block.failed(cell, fatal, None)
                    return
                if error is None:
                    record.restarts += 1
                    self._is_up(record, "info")
                else:
                    self._failed_attempt(record, error)
                return
            self._apply_end(record, decision)
            return
        record.state = "restarting" if record.cell and record.cell.is_alive else record.state
        record.ended = reason
        self.ref.tell(_Ended(record, reason))

    def child_replaced(self, record: Record, cell: Cell[Any], error: BaseException) -> Any | None:
        """Restart a child that has crashed with nothing to its name, if that is all.

        What :meth:`child_ended` does, where nothing but the instance has to be given
        up for another; what that would decide otherwise is left to it.
        """
        flags = self.spec
        spec = record.spec
        own: Any = self.ref  # the cell; this is the way of every crash in a storm of them
        if (
            own.mailbox is not None
            or own.extra.doomed
            or not self.is_open
            or flags.backoff is not None
            or flags.intensity is None
            or flags.strategy not in ("one_for_one", "dynamic")
            or record.state != "running"
            or record.is_new
            or record.expected
            or record.starter is not None
            or spec.restart == "temporary"
            or self._stalls is not None
        ):
            return None
        now = trio.current_time()
        restarts = self.restarts
        while restarts and now - restarts[0] > flags.period:
            restarts.popleft()
        if len(restarts) >= flags.intensity:
            return None
        try:
            instance = own.block.base.copy().run(cell.kind.make, *made_of(spec)[1])
            instance.ref = cell
        # The constructor's own; it is dealt with when the life has ended in order.
        except BaseException as raised:
            record.unmade = raised
            return None
        if own.mailbox is not None:
            return None  # the constructor has stopped who would own it
        restarts.append(now)
        self.counted += 1
        self.causes.append(error)
        record.lived = now - record.started_at
        record.started_at = now
        record.restarts += 1
        record.last_reason = str(Crashed(error))
        # Events have no listener here, or the life would have ended in order.
        if logger.isEnabledFor(logging.ERROR):
            self._report("child_terminated", record, record.last_reason)
            self._progress(record, "info")
        return instance

    async def _ended(self, record: Record, reason: ExitReason) -> None:
        if record.ended is not reason or record.owner is not self:
            return  # a stop has taken note of it, the child is forgotten, or was another life's
        point("supervisor.ended")
        record.ended = None
        decision = self._judge(record, reason)
        if isinstance(decision, Again):
            point("supervisor.counted")
            record.state = "restarting"
            if decision.after > 0:
                self._schedule(record, decision.after, counts=False)
            else:
                await self._apply_strategy(record)
        else:
            self._apply_end(record, decision)

    def _judge(self, record: Record, reason: ExitReason) -> Decision:
        """Report the end of a life, count a restart, and decide."""
        spec = record.spec
        normally = is_normal(reason)
        if is_reported(spec.restart, normally):
            self._report("child_terminated", record, str(reason))
        after = 0.0
        if wants_restart(spec.restart, normally):
            if isinstance(reason, Crashed):
                # Only of those that count: an error holds on to whatever its frames do.
                self.causes.append(reason.error)
            if self.spec.backoff is not None and record.lived > self.spec.backoff.reset_after:
                record.streak = 0
            self._count_restart()
            after = self._next_delay(record)
        # Looked for only where it matters: there may be very many.
        active = spec.significant and any(
            each.spec.significant and each.state != "undefined" and each is not record
            for each in self.records.values()
        )
        fallen = Fallen(spec.id, spec.restart, spec.significant, normally, active)
        return self._decide(fallen, after)

    def _decide(self, fallen: Fallen, after: float) -> Decision:
        spec = self.spec
        decision = decide(
            fallen,
            self.restarts,
            intensity=spec.intensity,
            period=spec.period,
            auto_shutdown=spec.auto_shutdown,
            after=after,
        )
        if self._is_heard:
            self._emit("supervisor.decided", child=fallen.child, decision=repr(decision))
        return decision

    def _count_restart(self) -> None:
        """Count a restart, before it is tried."""
        self.counted += 1
        if self.spec.intensity is None:
            self.restarts.clear()  # nobody counts them
        count(self.restarts, trio.current_time(), self.spec.period)

    def _next_delay(self, record: Record) -> float:
        """The seconds to wait before the next restart of this streak."""
        if self.spec.backoff is None:
            return 0.0
        record.streak += 1
        return self.spec.backoff.draw(record.streak, self._random)

    def _apply_end(self, record: Record, decision: Decision) -> None:
        match decision:
            case Forget():
                self._forget(record)
            case GiveUp(reason):
                self.gave_up = decision
                point("supervisor.give_up")
                self._report("gave_up", record, reason)
                # First, as its mail may be for a life that this supervisor's next one begins.
                self.end(Shutdown(f"gave up: {reason}"))
                self._forget(record)
            case CloseDown(reason):
                self._forget(record)
                self.end(Shutdown(reason))
            case Again():
                raise AssertionError("a restart is not an end")

    # ---- restarting

    async def _attempt(self, record: Record, counts: bool) -> None:
        point("supervisor.attempt")
        if counts:
            self._count_restart()
            # It has been waited for already: what is decided is whether, and at once.
            fallen = Fallen(record.spec.id, "permanent", False, False, False)
            decision = self._decide(fallen, after=0.0)
            if not isinstance(decision, Again):
                self._apply_end(record, decision)
                return
        await self._apply_strategy(record)

    async def _apply_strategy(self, record: Record) -> None:
        plan = steps(self.spec.strategy, list(self.records), record.spec.id)
        for each in plan.stop:
            other = self.records.get(each)
            if other is None or other is record:
                continue
            if other.spec.restart == "temporary":
                await self._stop(other, comes_back=False)
                self._forget(other)
            else:
                await self._stop(other, comes_back=True)
        for each in plan.start:
            other = self.records.get(each)
            if other is None:
                continue
            error = await self._start(other, "info")
            if error is None:
                other.restarts += 1
            elif isinstance(error, Ignore):
                self._forget(other)
            else:
                other.state = "restarting"
                self._again(other)
                break

    def _failed_attempt(self, record: Record, error: BaseException) -> None:
        if isinstance(error, Ignore):
            self._forget(record)
            return
        self._report("start_error", record, described(error), error)
        self.causes.append(error)
        record.state = "restarting"
        self._again(record)

    def _again(self, record: Record) -> None:
        """Queue another attempt behind what waits already, after the back-off."""
        self._schedule(record, self._next_delay(record), counts=True)

    def _schedule(self, record: Record, after: float, *, counts: bool) -> None:
        record.attempt += 1
        message = _Attempt(record, record.attempt, counts)
        if after > 0:
            record.due = trio.current_time() + after
            self.send_after(after, message)
        else:
            self.ref.tell(message)

    # ---- one child

    async def _start(self, record: Record, level: Literal["info", "debug"]) -> BaseException | None:
        """Start a child, first or again; returns what went wrong."""
        point("supervisor.start")
        starter: Reply[Any] = Reply(None)
        extra = self._cell.extra
        has_place = extra is not None and record.cell in (extra.children or ())
        error = (
            self._spawn(record, starter) if record.cell is None else self._revive(record, starter)
        )
        if error is None:
            if not has_place and next(reversed(self.records)) != record.spec.id:
                self._order()  # before the wait, which a stop of all may cut
            point("supervisor.made")
            record.starter = starter
            # So that a start hook that asks its supervisor is refused, and not timed out.
            starter.message, starter.target = END, record.cell
            try:
                await starter
            # A child's start is its own; what it raises is a value to its supervisor.
            except Exception as raised:
                error = raised
            finally:
                record.starter = None
        point("supervisor.started" if error is None else "supervisor.start_failed")
        if error is None:
            self._is_up(record, level)
        elif not isinstance(error, Ignore):
            self._report("start_error", record, described(error), error)
            self.causes.append(error)
        return error

    def _spawn(self, record: Record, starter: Reply[Any] | None) -> BaseException | None:
        spec = record.spec
        start, args = made_of(spec)
        if record.given is not None:
            args, record.given = record.given, None
        try:
            spawned = self._cell.spawn(
                start,
                args,
                True,
                starter,
                record,
                spec.id,
                name=spec.name,
                capacity=spec.capacity,
                overflow=spec.overflow,
                shutdown=spec.seconds,
                start_timeout=spec.start_timeout,
                stop_mode=spec.stop_mode,
                dedicated=spec.dedicated,
            )
        # The constructor of a child is its own, too.
        except Exception as error:
            return error
        record.cell = cast("KeptCell[Any]", spawned)
        return None

    def _revive(self, record: Record, starter: Reply[Any] | None) -> BaseException | None:
        cell = record.cell
        assert cell is not None
        raised, record.unmade = record.unmade, None
        if isinstance(raised, Exception):
            return raised
        if raised is not None:
            raise raised
        start, args = made_of(record.spec)
        if record.is_new:
            spec = record.spec
            record.is_new = False
            cell.kind = kind_of(start).with_options(
                spec.capacity,
                spec.overflow,
                spec.seconds,
                spec.start_timeout,
                spec.stop_mode,
                spec.dedicated,
            )
            cell.rare().untraced = None  # of another kind; nobody traces the new one
        try:
            cell.block.revive(cell, args, starter)
        # The constructor of a child is its own, too.
        except Exception as error:
            return error
        return None

    def _is_up(self, record: Record, level: Literal["info", "debug"]) -> None:
        record.state = "running"
        record.started_at = trio.current_time()
        self._watch(record)
        self._progress(record, level)

    def _progress(self, record: Record, level: Literal["info", "debug"]) -> None:
        """Report that a child is up."""
        if self._is_heard:
            self._emit("supervisor.progress", child=record.spec.id, level=level)
        number = logging.INFO if level == "info" else logging.DEBUG
        # Of a template's children there may be very many, and they come and go.
        if self.spec.strategy != "dynamic" and logger.isEnabledFor(number):
            logger.log(number, "supervisor %s: progress of child %s", self.ref.path, record.spec.id)

    async def _stop(self, record: Record, *, comes_back: bool) -> Stuck | None:
        """Stop a child in order, and wait until it has ended.

        One that outlives its kill is waited for only if it is to come back, as its
        next life cannot begin before.  Otherwise it is told, and nothing is heard
        of the child any more.
        """
        cell = record.cell
        record.attempt += 1  # an attempt that is on its way is void
        if cell is None:
            record.state = "undefined"
            return None
        # If it has just ended by itself, that was its end; nobody is to hear of it twice.
        reason, record.ended = record.ended, None
        point("supervisor.stop")
        if cell.actor is not None:
            record.expected = True
            record.comes_back = comes_back
            answer: ExitReason | Stuck | None = None
            try:
                answer = await cell.stop(Shutdown())
                if isinstance(answer, Stuck) and comes_back:
                    answer = await cell.ended()
            finally:
                record.expected = isinstance(answer, Stuck)
                record.comes_back = False
            if isinstance(answer, Stuck):
                record.state = "undefined"
                self._report("shutdown_error", record, f"stuck: {answer.path} does not end")
                return answer
            reason = answer
        point("supervisor.stopped")
        if reason is not None and not is_expected(
            record.spec.restart, record.spec.shutdown, reason
        ):
            self._report("shutdown_error", record, str(reason))
        if not comes_back:
            self._forsake(record)
        record.state = "undefined"
        return None

    def _watch(self, record: Record) -> None:
        """Look at a child that runs as often as its specification wants it."""
        seconds = record.spec.stalled_after
        if seconds is not None or self._stalls is not None:
            if self._stalls is None:
                self._stalls = Stalls()
            assert record.cell is not None
            self._stalls.watch(record.cell, record.spec.id, seconds)

    def _forsake(self, record: Record) -> None:
        """Let nothing wait for a life that will not be."""
        if record.cell is not None:
            record.cell.block.forsake(record.cell)

    def _forget(self, record: Record) -> None:
        """Let a child be: its specification stays, unless it was a temporary one."""
        point("supervisor.forget")
        if self.is_open or not record.is_static:
            self._forsake(record)
        record.state = "undefined"
        record.attempt += 1
        record.ended = None
        forgets = record.spec.restart == "temporary" or self.spec.strategy == "dynamic"
        if forgets and self.records.get(record.spec.id) is record:
            del self.records[record.spec.id]

    # ---- administration

    def _find(self, key: Any) -> Record | None:
        if isinstance(key, str):
            return self.records.get(key)
        if isinstance(key, Pinned):
            key = key.cell if key.is_alive else None
        record = key.keeper if isinstance(key, Cell) else None
        if isinstance(record, Record) and self.records.get(record.spec.id) is record:
            return record
        return None

    async def _start_child(self, message: StartChild) -> StartAnswer:
        is_dynamic = self.spec.strategy == "dynamic"
        if is_dynamic:
            if message.spec is not None:
                return WrongStrategy("dynamic")
            if len(self.records) >= self.spec.max_children:
                return TooMany(self.spec.max_children)
            template = self.spec.children[0]
            self._numbers += 1
            wanted = message.id or f"{template.id}#{self._numbers}"
            spec = evolve(template, id=wanted, args=(*template.args, *message.args))
        else:
            spec = message.spec
            try:
                check_spec(spec)
                check_significant(spec, self.spec.auto_shutdown)
                check_all_arguments(spec)
            except BadSpec as bad:
                return Refused(bad.rule, bad.detail, bad.actor)
        known = self.records.get(spec.id)
        if known is not None:
            if known.state == "running" and known.cell is not None:
                return AlreadyStarted(known.cell)
            return AlreadyPresent()
        if not is_dynamic and spec.name is not None:
            for each in self.records.values():
                # Of one that runs its ref is the answer: the start itself finds it.
                if each.spec.name == spec.name and each.state != "running":
                    what = f"child {each.spec.id} has the name {spec.name!r}, and may come back"
                    return Refused("duplicate_name", what, spec.id)
        record = Record(spec, self)
        if spec.restart == "temporary" and spec.args:
            record.given = spec.args
            record.spec = evolve(spec, args=())
        self.records[spec.id] = record
        error = await self._start(record, "debug")
        if error is None:
            assert record.cell is not None
            return Started(record.cell)
        if isinstance(error, Ignore):
            if is_dynamic or spec.restart == "temporary":
                self.records.pop(spec.id, None)
            self._forsake(record)
            return Ignored()
        self.records.pop(spec.id, None)
        self._forsake(record)
        if isinstance(error, NameTaken):
            holder = self._cell.block.names.whereis(error.name)
            if holder is not None:
                return AlreadyStarted(holder)
        return StartError(error)

    async def _terminate_child(self, key: Any) -> TerminateAnswer:
        is_dynamic = self.spec.strategy == "dynamic"
        record = self._find(key) if is_dynamic or isinstance(key, str) else None
        if record is None:
            return (
                Done() if is_dynamic and isinstance(key, Ref) and not key.is_alive else NotFound()
            )
        was_restarting = record.state == "restarting"
        stuck = await self._stop(record, comes_back=False)
        self._forget(record)
        if stuck is not None:
            if self.records.get(record.spec.id) is record:
                # Another life of that child has another cell, and another ref.
                self.records[record.spec.id] = Record(record.spec, self)
            return stuck
        if was_restarting and not is_dynamic:
            # Its restart is off, and with it that of those that were to start after it.
            for each in self.records.values():
                if each.state == "undefined":
                    self._forsake(each)
        return Done()

    async def _restart_child(self, key: str) -> RestartAnswer:
        if self.spec.strategy == "dynamic":
            return WrongStrategy("dynamic")
        record = self._find(key)
        if record is None:
            return NotFound()
        if record.state == "running":
            return Running()
        if record.state == "restarting":
            return Restarting()
        error = await self._start(record, "debug")
        if error is None:
            assert record.cell is not None
            return Started(record.cell)
        record.state = "undefined"
        self._forsake(record)
        if isinstance(error, Ignore):
            return Ignored()
        return StartError(error)

    def _delete_child(self, key: str) -> DeleteAnswer:
        if self.spec.strategy == "dynamic":
            return WrongStrategy("dynamic")
        record = self._find(key)
        if record is None:
            return NotFound()
        if record.state == "running":
            return Running()
        if record.state == "restarting":
            return Restarting()
        del self.records[key]
        self._forsake(record)
        return Done()

    def _update(self, new: Any) -> UpdateAnswer:
        try:
            if not isinstance(new, SupervisorSpec):
                raise BadSpec("supervisor", "bad_return", f"{new!r} is no SupervisorSpec")
            check_supervisor(new)
        except BadSpec as error:
            return Refused(error.rule, error.detail, error.actor)
        is_dynamic = self.spec.strategy == "dynamic"
        if is_dynamic is not (new.strategy == "dynamic"):
            what = "a supervisor of a template cannot become one without, nor the other way round"
            return Refused("invalid_strategy", what, "supervisor")
        old = self.records
        specs = {spec.id: spec for spec in new.children}
        if is_dynamic:
            (template,) = new.children
            specs = {
                record.spec.id: evolve(template, id=record.spec.id, args=record.spec.args)
                for record in old.values()
            }
        refused = self._rename(specs)
        if refused is not None:
            return refused
        self.spec = new
        for key, spec in specs.items():
            if key in old:
                self._specify(old[key], spec)
        if not is_dynamic:
            kept = {key: record for key, record in old.items() if key not in specs}
            self.records = {key: old.get(key) or Record(spec, self) for key, spec in specs.items()}
            self.records.update(kept)
            self._order()
        return Done()

    def _rename(self, specs: dict[str, ChildSpec]) -> Refused | None:
        """Let the children have the names that `specs` give them; all of them, or none."""
        names: dict[str, str] = {}
        moves: dict[Cell[Any], str | None] = {}
        for key, spec in ({key: each.spec for key, each in self.records.items()} | specs).items():
            if spec.name is not None and names.setdefault(spec.name, key) != key:
                what = f"child {names[spec.name]} has the name {spec.name!r}, too"
                return Refused("duplicate_name", what, key)
            cell = self.records[key].cell if key in self.records else None
            if cell is not None and spec.name != self.records[key].spec.name:
                moves[cell] = spec.name
        try:
            self._cell.block.names.rename(moves)
        except NameTaken as taken:
            what = f"{taken.actor} has the name {taken.name!r}"
            return Refused("name_taken", what, names[taken.name])
        return None

    def _specify(self, record: Record, spec: ChildSpec) -> None:
        """Give a child another specification; see :meth:`Branch.update_specs`."""
        record.is_new = True
        record.spec = spec
        cell = record.cell
        if cell is None:
            return
        cell.kind = cell.kind.with_options(None, None, spec.seconds, None, None, None)
        rare = cell.rare()
        if rare.untraced is not None:
            rare.untraced = rare.untraced.with_options(None, None, spec.seconds, None, None, None)
        if record.state == "running":
            self._watch(record)

    def _order(self) -> None:
        cells: Iterable[Cell[Any]] = [
            each.cell for each in self.records.values() if each.cell is not None
        ]
        self._cell.block.order_children(self._cell, cells)

    def _info(self, record: Record) -> ChildInfo:
        return ChildInfo(
            id=record.spec.id,
            state=record.state,
            ref=record.cell if record.state == "running" else None,
            type=record.spec.type,
            restarts=record.restarts,
            last_reason=record.last_reason,
            spec=record.spec,
        )

    def _count(self) -> Counts:
        records = self.records.values()
        active = sum(
            each.state == "running" and each.cell is not None and each.cell.actor is not None
            for each in records
        )
        if self.spec.strategy == "dynamic":
            kind = self.spec.children[0].type
            supervisors = len(records) if kind == "supervisor" else 0
            return Counts(1, active, supervisors, len(records) - supervisors)
        supervisors = sum(each.spec.type == "supervisor" for each in records)
        return Counts(len(records), active, supervisors, len(records) - supervisors)

    # ---- what others see

    def keepers(self) -> list[Record]:
        """Its children, in start order."""
        return list(self.records.values())

    def supervisor_status(self, active: int, now: float | None) -> SupervisorStatus:
        """What it does about its children, for a snapshot."""
        spec = self.spec
        recent = 0
        if spec.intensity is not None and now is not None:
            recent = sum(now - each <= spec.period for each in self.restarts)
        return SupervisorStatus(
            strategy=spec.strategy,
            children=len(self.records),
            active=active,
            intensity=spec.intensity,
            period_seconds=spec.period,
            recent_restarts=recent,
            restarts=self.counted,
            gave_up=sound(self.gave_up.reason) if self.gave_up is not None else "",
        )

    # ---- reports

    def _report(
        self,
        what: str,
        record: Record,
        reason: str,
        error: BaseException | None = None,
        children: int = 1,
    ) -> None:
        """Report what is wrong with a child, or the same of `children` like it."""
        spec = record.spec
        reason = cut(reason)
        if self._is_heard:
            self._emit(
                f"supervisor.{what}",
                child=spec.id,
                reason=reason,
                children=children,
                start=spec.kind,
                restart=spec.restart,
                significant=spec.significant,
                shutdown=spec.shutdown,
                child_type=spec.type,
            )
        if not logger.isEnabledFor(logging.ERROR):
            return
        logger.error(
            "supervisor %s: %s of %s: %s",
            self.ref.path,
            what,
            f"child {spec.id}" if children == 1 else f"{children} children",
            reason,
            exc_info=error,
        )

    @property
    def _is_heard(self) -> bool:
        """Whether anybody listens to events."""
        return bool(self._cell.block.stream.listeners)

    def _emit(self, what: str, **data: Any) -> None:
        parent = self._cell.parent
        emit(
            what,
            self.ref.path,
            parent=parent.path if parent is not None else "",
            incarnation=self.ref.incarnation,
            **data,
        )


class DynamicSupervisor(Supervisor):
    """A supervisor of many children of one template; they stop all at once."""

    stops_together = True

    def __init__(self, spec: SupervisorSpec, source: random.Random | None = None) -> None:
        super().__init__(spec, source)
        self._unexpected: dict[str, list[Record]] = {}

    def child_stopped(self, record: Record, reason: ExitReason) -> None:
        """Hear of the end of a child while everything is being stopped."""
        record.ended = None
        if not is_expected(record.spec.restart, record.spec.shutdown, reason):
            self._unexpected.setdefault(str(reason), []).append(record)

    def on_stop(self, reason: ExitReason) -> None:
        """Everything below has ended; tell what went wrong, once for each reason."""
        super().on_stop(reason)
        for why, records in self._unexpected.items():
            self._report("shutdown_error", records[0], why, children=len(records))


def made_of(spec: ChildSpec) -> tuple[Any, tuple[Any, ...]]:
    """The class or function of a child, and what it is called with."""
    if isinstance(spec.start, SupervisorSpec):
        is_dynamic = spec.start.strategy == "dynamic"
        return DynamicSupervisor if is_dynamic else Supervisor, (spec.start,)
    return spec.start, spec.args


def cut(text: str) -> str:
    """`text`, or as much of it as a report has room for.

    Examples:
        >>> len(cut("x" * 5000))
        2002
    """
    return text if len(text) <= REPORTED else f"{text[:REPORTED]} …"
