"""A subagent: an actor whose mind is a session, owned by the block that spawned it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import msgspec
import trio
from attrs import define, field

from .actor import Actor
from .agent import Agent, Lifetime, LifetimeSource, MindFunction, agent_of, resolve_lifetime
from .errors import ActorCrashed, ActorStopped, AskCycle, AskTimeout, MailboxFull
from .events import current_stream
from .exits import ExitReason
from .models import open_model
from .nursery import open_nursery
from .ref import Ref
from .result import ChatMessage, Result, TurnError, failed, succeeded
from .session import MessageEnded, Retrying, Session, SessionEvent, TextDelta, Turn
from .sessions.function import FunctionSession
from .usage import NOTHING, Usage

CLOSE_SECONDS = 5.0
"""How long export and dispose may take, together."""
GRACE_SECONDS = 1.0
"""How long a mind that was cut may take to let go, before nobody waits for it."""

_counters: Counter[str] = Counter()

Cut = Literal["stopped", "aborted"]


class Model(Protocol):
    """Whoever opens conversations: an opened model, or a stand-in for one."""

    def session(self, agent: Agent, /) -> Session:
        """A new conversation for `agent`, which remembers nothing of any other."""
        ...


class Closed(msgspec.Struct, frozen=True):
    """What became of closing a subagent."""

    closed: bool
    """Its session was exported, if that was asked for, and let go."""
    reason: str = ""
    """Why not."""
    export: str | None = None
    """The file with its transcript."""


_CUT = Closed(False, "close was cut")


@define(eq=False)
class _Order:
    """One ask, from the call to its Result."""

    task: str
    seconds: float
    """How long its turn may take."""
    asked_at: float
    patience: trio.CancelScope = field(factory=trio.CancelScope)
    """Ends the asker's waiting for a mind that does not let go."""
    scope: trio.CancelScope | None = None
    """The turn, once it has begun."""
    began_at: float = math.inf
    cut: Cut | None = None
    why: str = ""
    before: Usage = NOTHING
    messages: list[ChatMessage] = field(factory=list)
    speech: str = ""
    """What the mind is in the middle of saying."""
    over: trio.Event = field(factory=trio.Event)
    result: Result | None = None


@define(eq=False)
class _Life:
    """What a subagent is, apart from its mailbox."""

    id: str
    agent: Agent
    lifetime: Lifetime
    session: Session
    export_dir: Path | None
    timeout: float | None
    opened_at: float = field(factory=trio.current_time)
    spent: Usage = NOTHING
    stopped: bool = False
    stuck: bool = False
    """A turn that was cut has not let go."""
    last: Result | None = None
    turn: _Order | None = None
    orders: dict[_Order, None] = field(factory=dict[_Order, None])
    """Everything asked and not answered, oldest first."""
    closed_at: float | None = None
    closing: trio.Event | None = None
    outcome: Closed = _CUT

    # ---- turns

    async def play(self, order: _Order) -> Result:
        """Play the turn of `order`; whatever ends it, `order.result` says how."""
        if self.stopped:
            return self.refuse(order, "stopped")
        now = trio.current_time()
        order.before, order.began_at = self.session.usage, now
        scope = order.scope = trio.CancelScope(deadline=now + order.seconds)
        order.patience.deadline = scope.deadline + GRACE_SECONDS
        self.turn = order
        self.tell("status", status="working", task=order.task)
        turn: Turn | None = None
        crash: BaseException | None = None
        try:
            with scope:
                turn = await self.session.ask(order.task, lambda event: self._hear(order, event))
        except Exception as raised:
            # Not swallowed: a session never raises for its mind's failure, so
            # this is a bug, and the cell's to deal with.
            crash = raised
            raise
        finally:
            self.turn = None
            self.stuck = False
            error = self._error(order, turn, crash)
            result = self._finish(order, turn, error)
            order.over.set()
        return result

    def _hear(self, order: _Order, event: SessionEvent) -> None:
        match event:
            case TextDelta(text):
                order.speech += text
                self.tell("text", delta=text)
            case MessageEnded(message):
                order.messages.append(message)
                order.speech = ""
            case Retrying(attempt, seconds, error):
                self.tell("retry", attempt=attempt, seconds=seconds, error=error.message)

    def _error(
        self, order: _Order, turn: Turn | None, crash: BaseException | None
    ) -> TurnError | None:
        """Why there is no answer: what was asked for first, then the deadline, then the mind."""
        if order.cut is not None:
            return TurnError(order.cut, order.why or order.cut)
        scope = order.scope
        if scope is not None and (scope.cancelled_caught or trio.current_time() > scope.deadline):
            return TurnError("timeout", f"timed out after {order.seconds:g} s", True)
        if crash is not None:
            return TurnError("crash", f"{type(crash).__name__}: {crash}").with_cause(crash)
        if turn is None:
            return TurnError("cancelled", "cut from outside")
        return turn.error

    def _finish(self, order: _Order, turn: Turn | None, error: TurnError | None) -> Result:
        """The Result of a turn, counted and told."""
        now = trio.current_time()
        messages = tuple(order.messages)
        if order.speech:
            messages += (ChatMessage("assistant", order.speech, partial=True),)
        usage = msgspec.structs.replace(
            self.session.usage.delta(order.before),
            turns=1,
            busy_seconds=now - order.began_at,
            wall_seconds=now - order.asked_at,
        )
        self.spent = self.spent.accumulate(usage)
        who = self.agent.name
        if error is None:
            assert turn is not None
            result = succeeded(
                who,
                turn.text,
                subagent=self.id,
                messages=messages,
                usage=usage,
                value=turn.value,
            )
        else:
            result = failed(who, error, subagent=self.id, messages=messages, usage=usage)
        order.result = self.last = result
        if current_stream().listeners:
            self.tell("usage", **msgspec.structs.asdict(usage))
            self.tell("status", status="idle" if result.ok else "blocked")
        return result

    def refuse(self, order: _Order, error: TurnError | Literal["stopped", "closed"]) -> Result:
        """The Result of an ask that did not reach the mind, and so cost nothing."""
        order.result = failed(
            self.agent.name,
            error,
            subagent=self.id,
            usage=Usage(wall_seconds=trio.current_time() - order.asked_at),
        )
        order.over.set()
        return order.result

    def ended(self, order: _Order, error: TurnError) -> Result:
        """The Result of a turn that ended with its actor; `error` if it had not begun."""
        return self.refuse(order, error) if order.result is None else order.result

    def given_up(self, order: _Order) -> Result:
        """The Result for an asker who does not wait longer for a mind that does not let go."""
        if order.scope is None:
            return self.refuse(order, "stopped")
        self.stuck = True
        messages = tuple(order.messages)
        if order.speech:
            messages += (ChatMessage("assistant", order.speech, partial=True),)
        error = self._error(order, None, None)
        assert error is not None
        now = trio.current_time()
        # What it costs is counted when it ends: it is spending still.
        usage = Usage(turns=1, wall_seconds=now - order.asked_at)
        return failed(self.agent.name, error, subagent=self.id, messages=messages, usage=usage)

    def cut(self, cut: Cut, why: str) -> bool:
        """End the turn in flight as `cut`; the strongest reason stays."""
        order = self.turn
        if order is None or order.scope is None:
            return False
        if order.cut is None or (order.cut, cut) == ("aborted", "stopped"):
            order.cut, order.why = cut, why
        order.scope.cancel()
        self.hurry(order)
        return True

    def hurry(self, order: _Order) -> None:
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
            with trio.CancelScope(shield=True):
                await self.closing.wait()
            return self.outcome
        self.closing = trio.Event()
        self.closed_at = trio.current_time()
        path: Path | None = None
        problems: list[str] = []
        try:
            with trio.CancelScope(deadline=self.closed_at + CLOSE_SECONDS, shield=True) as scope:
                try:
                    if self.export_dir is not None:
                        path = self.session.export(self.export_dir, file_name(self.id))
                except OSError as error:
                    problems.append(f"export failed: {error}")
                try:
                    await self.session.close()
                # The answer has been given.  A session that cannot let go must
                # not take it back: this is told, and the record says not closed.
                except Exception as error:
                    problems.append(f"close failed: {type(error).__name__}: {error}")
            if scope.cancelled_caught:
                problems.append("close timed out")
            if self.turn is not None:
                problems.append("stuck: its turn does not end")
            self.outcome = Closed(
                not problems, "; ".join(problems), None if path is None else str(path)
            )
        finally:
            self.closing.set()
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

    @property
    def usage(self) -> Usage:
        """Everything spent since the spawn; its time goes on until the close."""
        until = trio.current_time() if self.closed_at is None else self.closed_at
        return msgspec.structs.replace(self.spent, wall_seconds=until - self.opened_at)

    def tell(self, what: str, **data: Any) -> None:
        """Put an event on the stream, if anybody listens."""
        stream = current_stream()
        if stream.listeners:
            stream.emit(f"subagent.{what}", self.id, 1, "", data)


class SubagentActor(Actor):
    """The cell's side of a subagent: one ask at a time, in the order of asking."""

    stop_mode = "interrupt"
    cut_when_withdrawn = True
    shutdown = CLOSE_SECONDS + 2 * GRACE_SECONDS

    def __init__(self, life: _Life) -> None:
        self.life = life

    async def receive(self, order: _Order) -> Result:
        """Play one turn."""
        return await self.life.play(order)

    async def on_stop(self, reason: ExitReason) -> None:
        """Export and dispose, however it came to its end."""
        await self.life.close()


class Subagent:
    """One live conversation with a mind; whoever spawned it, closes it."""

    def __init__(self, life: _Life, ref: Ref[_Order]) -> None:
        self._life = life
        self._ref = ref

    def __repr__(self) -> str:
        return f"<Subagent {self.id}>"

    @property
    def id(self) -> str:
        """The agent's name and a number, as in "scout#2"; unique in this process."""
        return self._life.id

    @property
    def agent(self) -> Agent:
        """Its definition."""
        return self._life.agent

    @property
    def lifetime(self) -> Lifetime:
        """As it was resolved: by the argument, the agent, or the default."""
        return self._life.lifetime

    @property
    def model(self) -> str:
        """Who answers, as in "openai/gpt-5-mini"; empty for a function."""
        return self._life.session.model

    @property
    def usage(self) -> Usage:
        """Everything spent since it was spawned, failed turns included."""
        return self._life.usage

    @property
    def is_stopped(self) -> bool:
        """It answers no more, and is owed a close."""
        return self._life.stopped

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """Its transcript so far."""
        return self._life.session.transcript()

    async def ask(
        self,
        task: str,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it begins with the turn, not with the call
    ) -> Result:
        """Play one turn, after those that were asked for before.

        It never raises for a failure of the mind: that is a Result.  Cancelled,
        it has cut the turn, or withdrawn it if it had not begun; what the turn
        cost is counted.

        Args:
            task: what is asked.
            timeout: seconds that the turn may take once it has begun; None for
                what the spawner said, or else the agent, or else no limit.  A
                mind that does not let go then is left after a second more.

        Raises:
            ActorStopped: it is closed.
            TypeError: the task is no text.
            ValueError: the timeout is not more than 0.
        """
        life = self._life
        if not isinstance(cast("object", task), str):
            raise TypeError(f"a task is a str, not {type(task).__name__}")
        if life.closing is not None:
            raise ActorStopped(life.id, "it is closed")
        seconds = next(
            (s for s in (timeout, life.timeout, life.agent.timeout) if s is not None), math.inf
        )
        if not seconds > 0:
            raise ValueError(f"timeout must be more than 0 seconds, not {seconds!r}")
        order = _Order(task, seconds, trio.current_time())
        if life.stopped:
            await trio.lowlevel.checkpoint()
            return life.refuse(order, "stopped")
        if life.stuck:
            await trio.lowlevel.checkpoint()
            return life.refuse(
                order, TurnError("dead", f"the turn before does not end in {life.id}")
            )
        life.orders[order] = None
        try:
            with order.patience:
                return await self._answer(order)
        finally:
            del life.orders[order]
        return life.given_up(order)

    async def _answer(self, order: _Order) -> Result:
        life = self._life
        try:
            result: Result = await self._ref.ask(order)
        except trio.Cancelled:
            if order.scope is not None and not order.patience.cancel_called:
                # The core has cut the turn; it is over when its mind has let go.
                with trio.move_on_after(GRACE_SECONDS, shield=True):
                    await order.over.wait()
            raise
        except ActorCrashed as error:
            return life.ended(order, _crash(error.__cause__ or error))
        except ActorStopped as error:
            if order.scope is not None and order.result is not None:
                return order.result
            if error.__cause__ is not None:
                return life.refuse(order, TurnError("dead", str(error)).with_cause(error.__cause__))
            return life.refuse(order, "stopped" if life.stopped else "closed")
        except MailboxFull as error:
            return life.refuse(order, TurnError("mailbox_full", str(error), True))
        except AskCycle as error:
            return life.refuse(order, TurnError("would_deadlock", str(error)))
        except AskTimeout as error:
            # The deadline of an ask that the asker itself is serving.
            return life.ended(order, TurnError("timeout", str(error), True))
        return result

    def stop(self) -> None:
        """Cut the turn in flight; this one and every later ask end `stopped`.  One way.

        It is not closed by that: it can be exported, and its close is still owed.
        """
        self._life.stop()

    def abort(self, why: str = "") -> bool:
        """Cut the turn in flight, which ends `aborted`; False if there is none.

        Later turns are played.
        """
        return self._life.cut("aborted", why)

    def export(self, directory: Path | None = None) -> Path:
        """Write the transcript, whole or not at all, to a file named after the id.

        Args:
            directory: where; None for the one given at the spawn.

        Raises:
            ValueError: there is no directory.
            ActorStopped: it is closed.
            OSError: it could not be written.
        """
        life = self._life
        directory = directory or life.export_dir
        if directory is None:
            raise ValueError(f"{life.id} was given no directory to export to")
        if life.closing is not None:
            raise ActorStopped(life.id, "it is closed")
        return life.session.export(directory, file_name(life.id))

    async def close(self) -> Closed:
        """End it: cut the turn in flight, export, dispose, in at most 5 s after the cut.

        Also when cancelled.  Closing twice, or at the same time, is closing once.
        """
        self._life.cut("stopped", "closed in mid-turn")
        with trio.CancelScope(shield=True):
            await self._ref.stop()
        return await self._life.close()


@asynccontextmanager
async def spawn(
    agent: Agent | MindFunction,
    /,
    *,
    lifetime: Lifetime | None = None,
    model: str | Model | None = None,
    session: Session | Callable[[Agent], Session] | None = None,
    export_dir: Path | str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - of each turn, not of this block
    env: Mapping[str, str] | None = None,
) -> AsyncGenerator[Subagent]:
    """One subagent, for the length of the block: a nursery of one.

    It is closed when the block is left, whatever happened inside.

    Args:
        agent: who; a function is an agent of its own name.
        lifetime: what is asked for here; None for what the agent wants, and
            "task" if it says nothing.
        model: the name of a model, or an opened one to share; None for the
            agent's, or else the default of the environment.
        session: the conversation to have, or what makes one; then no model is needed.
        export_dir: where its transcript is written when it is closed.
        timeout: seconds for each turn; None for what the agent says.
        env: the environment to find a model by; None for the process's own.

    Raises:
        ModelError: there is no such model, or no way to ask it.
        ValueError: the lifetime is "session", and there is no session to live in.
    """
    agent = agent_of(agent)
    resolved, source = resolve_lifetime(lifetime, agent)
    if resolved == "session":
        raise ValueError(
            f'lifetime "session" of {agent.name!r}, by the {source}: there is no block here that'
            ' would be the session; ask for "workflow" to have it live as long as this block'
        )
    _counters[agent.name] += 1
    life_id = f"{agent.name}#{_counters[agent.name]}"
    async with _session(agent, model, session, env) as mind:
        life = _Life(
            life_id,
            agent,
            resolved,
            mind,
            None if export_dir is None else Path(export_dir),
            timeout,
        )
        try:
            async with open_nursery(name=life_id) as nursery:
                ref = nursery.spawn(SubagentActor, life)
                _tell_spawn(life, source)
                subagent = Subagent(life, ref)
                try:
                    yield subagent
                finally:
                    await subagent.close()
        finally:
            # The stop hook has done it, unless the actor was killed before.
            await life.close()


@asynccontextmanager
async def _session(
    agent: Agent,
    model: str | Model | None,
    session: Session | Callable[[Agent], Session] | None,
    env: Mapping[str, str] | None,
) -> AsyncGenerator[Session]:
    if session is not None:
        yield session(agent) if callable(session) else session
    elif not isinstance(agent.mind, str):
        yield FunctionSession(agent.mind, agent.schema)
    elif model is not None and not isinstance(model, str):
        yield model.session(agent)
    else:
        async with open_model(model or agent.model, env=env) as opened:
            yield opened.session(agent)


def _tell_spawn(life: _Life, source: LifetimeSource) -> None:
    life.tell(
        "spawn",
        agent=life.agent.name,
        model=life.session.model,
        lifetime=life.lifetime,
        source=source,
    )
    life.tell("status", status="idle")


def _crash(error: BaseException) -> TurnError:
    return TurnError("crash", f"{type(error).__name__}: {error}").with_cause(error)


def file_name(subagent: str) -> str:
    """The id of a subagent as the name of a file, without its ending.

    Examples:
        >>> file_name("scout#2")
        'scout-2'
    """
    return subagent.replace("#", "-")


def reset_ids() -> None:
    """Count from 1 again, for every agent; for tests."""
    _counters.clear()
