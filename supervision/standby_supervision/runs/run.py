"""A run: one execution of a program, whose steps are recorded and never done twice."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

import msgspec
import trio
from attrs import frozen

from standby_actors import Agent, Budget, Limits, Result, Subagent
from standby_actors.agent import Lifetime, MindFunction, agent_of
from standby_actors.agent_checks import check_name
from standby_actors.events import emit
from standby_actors.failure import described
from standby_actors.ids import count_from
from standby_actors.process.nursed import beside
from standby_actors.subagent import spawn as spawn_subagent

from ..live.mail import MailReceipt, Rejected
from ..live.refs import NotOurs, Sought, broadcast, find
from ..live.registry import Dormant, LiveAgent, LiveAgents, me
from ..store import Append, Fenced, Receipt, Store, StoreError
from .errors import InDoubt, NotDormant, StepFailed, WorkspaceDenied
from .facts import (
    AgentExited,
    AgentTerminated,
    CancelWanted,
    EffectBegan,
    EffectCut,
    EffectEnded,
    EffectFailed,
    QuestionAnswered,
    QuestionAsked,
    QuestionExpired,
    StepId,
    event_of,
    fact_of,
)
from .player import DurablePlayer, Restore
from .state import Question, RunState
from .steps import Steps, digest, name_of

T = TypeVar("T")

ATTEMPTS = 2
"""How often a step may begin without its end being recorded."""
SYNC_SECONDS = 10.0
"""How long the end of an agent waits for its record."""
LOOK_SECONDS = 0.5
"""How often a run that waits for an answer looks whether another process has written it."""


@frozen
class RunStep:
    """The step that a function is called for; see :func:`current_step`."""

    run: str
    key: str
    """The same each time this step of this run is tried: what an effect is to be
    made unique by, where it leaves this program."""
    attempt: int
    """From 1."""

    @property
    def maybe_repeated(self) -> bool:
        """An earlier attempt began, and nobody recorded how it ended."""
        return self.attempt > 1


_step: ContextVar[RunStep] = ContextVar("standby step")


def current_step() -> RunStep:
    """The step that the caller is called for, by :meth:`Run.step`.

    Raises:
        LookupError: it is called by nobody's step.
    """
    return _step.get()


class Spawns(Protocol):
    """What opens subagents, as :func:`standby.spawn` does."""

    def __call__(
        self, agent: Agent, /, **options: Any
    ) -> AbstractAsyncContextManager[Subagent]: ...


class Run:
    """One durable execution; opened by :meth:`Workspace.open_run`, and not by hand.

    What it plays by :meth:`spawn` and :meth:`step` is recorded before and after, so that
    the same program, played again with the same run, goes on where it was.
    """

    def __init__(
        self,
        store: Store,
        id: str,  # noqa: A002 - as a subagent has it
        epoch: int,
        state: RunState,
        seen: int,
        *,
        restore: Restore = "replay",
        attempts: int = ATTEMPTS,
        options: dict[str, Any] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._clock = clock
        self._options = options or {}
        self._answered = trio.Event()
        self._seen = seen
        self.id = id
        self.epoch = epoch
        self.state = state
        """What the acknowledged facts come to."""
        self.steps = Steps()
        self.live = LiveAgents(id, self.note, terminated)
        self.restore: Restore = restore
        self.attempts = attempts
        self.replayed = 0
        """Steps that were answered from the record in this process."""
        self.output = ""
        """What the run came to, for whoever lists it; set it before the block ends."""
        self.scope = trio.CancelScope()
        self.why = ""
        """Why it was cancelled from inside."""
        self.spawns: Spawns = cast("Spawns", spawn_subagent)
        for agent, number in state.numbers.items():
            count_from(agent, number)

    @property
    def name(self) -> str:
        """As it was opened."""
        return self.state.name

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.state.status}>"

    def note(self, *facts: Any) -> Receipt:
        """Hand `facts` in to be recorded, all or none; waits for nothing.

        Raises:
            StoreError: the store takes nothing any more.
        """

        def fold(outcome: object) -> None:
            if isinstance(outcome, Fenced):
                self.cancel("another process has taken it over")
            elif not isinstance(outcome, StoreError):
                for fact in facts:
                    # What others may write too is taken in in the order of the store.
                    if not isinstance(fact, QuestionAnswered | QuestionExpired):
                        self.state.apply(fact)

        events = tuple(event_of(fact) for fact in facts)
        return self._store.submit(Append(self.id, self.epoch, self._clock(), events), fold)

    async def record(self, *facts: Any) -> int:
        """Record `facts`, all or none: on the disk, once this returns.

        Cancelled, they are recorded all the same.

        Raises:
            Fenced: another process has taken the run over.
            StoreError: they could not be written.
        """
        return await self.note(*facts).wait()

    async def settle(self, entry: LiveAgent, exited: AgentExited) -> None:
        """Record the exit of a live agent, also when cancelled, within 10 s.

        Again, where that has failed before: it is recorded once.
        """
        entry.exit = exited
        with trio.CancelScope(shield=True, deadline=trio.current_time() + SYNC_SECONDS):
            try:
                if entry.written is None or isinstance(entry.written.outcome, StoreError):
                    entry.written = self.note(exited)
                await entry.written.wait()
            except Fenced:
                entry.is_given_up = True
            except StoreError as error:
                entry.failure = str(error)

    @property
    def budget(self) -> Budget | None:
        """What all its subagents spend from."""
        budget: Budget | None = self._options.get("budget")
        return budget

    def limit(self, limits: Limits) -> None:
        """Let all its subagents spend no more than `limits`, earlier lives included."""
        budget = Budget(limits, self.budget, self.id)
        budget.spent = self.state.usage
        budget.descendants = sum(self.state.numbers.values())
        self._options["budget"] = budget

    def cancel(self, why: str = "cancelled") -> None:
        """End the run's block: what it has open is stopped, and it is `cancelled`."""
        self.why = self.why or why
        self.live.end("cancelled", self.why)
        self.scope.cancel()

    def doubt(self, step: StepId, name: str) -> InDoubt | None:
        """Why `step` may not be tried again; None if it may."""
        attempts = self.state.attempts.get(step, 0)
        return InDoubt(self.id, name, attempts, step.key) if attempts >= self.attempts else None

    @asynccontextmanager
    async def spawn(
        self,
        agent: Agent | MindFunction,
        /,
        *,
        lifetime: Lifetime | None = None,
        name: str = "",
        dormant: Dormant | None = None,
        **options: Any,
    ) -> AsyncGenerator[DurablePlayer]:
        """A subagent whose turns are recorded, for the length of the block.

        It stands wherever a pool or a combinator takes `spawn=`.  Nothing is opened
        for turns that are recorded already.

        Args:
            agent: who.
            lifetime: as :func:`standby.spawn` has it; one of "session" lives here as
                long as the block.
            name: what it is called over all its lives, in this process and in later
                ones: words that wait for one life are read by the next, which begins
                when the one before has ended.  It is made as an agent's name is; by
                default each is an agent of its own.
            dormant: what it goes on from; see :meth:`resume`.
            options: as :func:`standby.spawn` has them, over those of the run.
        """
        given = {**self._options, **options}
        if lifetime is not None:
            given["lifetime"] = "workflow" if lifetime == "session" else lifetime
        if name and dormant is None:
            check_name(None, None, name)
        async with beside() as nursery:
            player = DurablePlayer(
                self, agent_of(agent), nursery, given, name=name, dormant=dormant
            )
            try:
                yield player
            # It is raised again: it says how the agent ends.
            except BaseException as error:
                player.left(error)
                raise
            player.left(None)

    @asynccontextmanager
    async def resume(self, dormant: Dormant, /, **options: Any) -> AsyncGenerator[DurablePlayer]:
        """Another life of an agent that has ended well, which knows what was said.

        Args:
            dormant: what :meth:`AgentRef.dormant` gave; nothing else can be resumed.
            options: as for :meth:`spawn`.

        Raises:
            NotDormant: it has been resumed already, or is of another run.
        """
        key = dormant.key
        if key.run != self.id or self.live.lives(key.name) != key.incarnation:
            raise NotDormant(self.id, str(key))
        again = self.spawn(dormant.agent, name=key.name, dormant=dormant, **options)
        async with again as player:
            yield player

    def find(self, text: str) -> Sought | Rejected | WorkspaceDenied:
        """The live agent of this run that is called `text`; see :meth:`Workspace.find`."""
        live = self.live
        there = find(live.workspace, [live], live.recent, text)
        if isinstance(there, NotOurs):
            if there.run and not there.workspace:
                return Rejected(text, "other_run")
            return WorkspaceDenied(live.workspace, text)
        return there

    async def broadcast(
        self, text: str, *, by: str | None = None
    ) -> dict[str, MailReceipt | Rejected]:
        """Tell all live agents of this run, the sender left out; what became of each, by name."""
        return await broadcast(self.live, text, by)

    async def turn(self, agent: Agent | MindFunction, task: str, /, **options: Any) -> Result:
        """One recorded turn of a subagent of its own."""
        async with self.spawn(agent, lifetime="task", **options) as player:
            return await player.ask(task)

    async def step(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        *args: Any,
        type: Any = Any,  # noqa: A002 - what msgspec calls it
        repeat: bool = True,
    ) -> T:
        """Call `function` once, in this process or in one before.

        That it begins is recorded, and what it returns, before this returns; from
        then on that is given, and it is not called again.  It may be called a second
        time, under the same key (:func:`current_step`), where a process was killed in
        the middle.

        Args:
            name: of the step; with the arguments it says which step it is.
            function: an async function; what it returns can be written as JSON.
            args: its arguments, which can be written as JSON too.
            type: what it returns, for the value from the record; plain data by default.
            repeat: whether it may be called again when nobody recorded its end.  If
                not, that is for somebody to decide: :class:`InDoubt`.

        Raises:
            StepFailed: it raised, now or then.
            InDoubt: it began as often as it may, and its end is not recorded.
            StoreError: the record could not be written.
            TypeError: the arguments, or what it returned, cannot be written as JSON.
        """
        step = self.steps.next(digest("step", name, name_of(function), list(args)))
        outcome = self.state.outcomes.get(step)
        if outcome is not None:
            self.replayed += 1
            await trio.lowlevel.checkpoint()
            if isinstance(outcome, EffectFailed):
                raise StepFailed(name, outcome.error)
            value: T = msgspec.json.decode(cast("msgspec.Raw", outcome), type=type)
            return value
        attempts = self.state.attempts.get(step, 0)
        if attempts >= (self.attempts if repeat else 1):
            raise InDoubt(self.id, name, attempts, step.key)
        await self.record(EffectBegan(step, name, attempts + 1))
        return await self._call(step, name, function, args, attempts + 1)

    async def _call(
        self,
        step: StepId,
        name: str,
        function: Callable[..., Awaitable[T]],
        args: tuple[Any, ...],
        attempt: int,
    ) -> T:
        token = _step.set(RunStep(self.id, step.key, attempt))
        fact: Any = EffectCut(step)
        failure: Exception | None = None
        value: Any = None
        try:
            value = await function(*args)
            fact = EffectEnded(step, msgspec.Raw(msgspec.json.encode(value)))
        # A step is where a program says that a failure is an outcome: it is recorded
        # as one, and raised as one.
        except Exception as error:
            failure, fact = error, EffectFailed(step, described(error))
        finally:
            _step.reset(token)
            receipt = self.note(fact)
        await receipt.wait()
        if failure is not None:
            raise StepFailed(name, fact.error) from failure
        returned: T = value
        return returned

    async def ask_human(
        self,
        text: str,
        *,
        choices: tuple[str, ...] = (),
        default: str | None = None,
        seconds: float | None = None,
        id: str | None = None,  # noqa: A002 - as a run has it
    ) -> str | None:
        """Ask somebody outside, and wait for the answer, over restarts too.

        A question that was answered is not asked again.  Its deadline is a point in
        time, which a restart does not move.

        Args:
            text: the question.
            choices: answers to choose among; () for any.
            default: what is taken at the deadline; None for no answer.
            seconds: from the first asking to the deadline; None for as long as it takes.
            id: of the question within the run; one made of the text unless given.
        """
        key = id or self.steps.next(digest("question", text)).key
        question = self.state.questions.get(key)
        if question is None:
            deadline = None if seconds is None else self._clock() + seconds
            await self.record(QuestionAsked(key, text, choices, default, deadline))
            question = self.state.questions[key]
        caller = me()
        if caller is not None and caller.runs is self.live:
            with caller.parked(key):
                return await self._answer_of(key, question)
        return await self._answer_of(key, question)

    async def _answer_of(self, key: str, question: Question) -> str | None:
        while question.is_open:
            left = LOOK_SECONDS
            if question.asked.deadline is not None:
                left = min(left, question.asked.deadline - self._clock())
            if left <= 0:
                await self.record(QuestionExpired(key))
            else:
                self._answered = trio.Event()
                with trio.move_on_after(left):
                    await self._answered.wait()
            await self.look()
        return question.answer

    async def respond(self, question: str, answer: str, *, by: str = "") -> bool:
        """Answer a question of this run; False if it waits for no answer any more.

        Raises:
            KeyError: it has asked no such question.
            ValueError: the answer is none of its choices.
        """
        asked = self.state.questions[question]
        check_answer(asked, answer)
        if not asked.is_open:
            await trio.lowlevel.checkpoint()
            return False
        await self.record(QuestionAnswered(question, answer, by))
        await self.look()
        self._answered.set()
        return asked.answer == answer and asked.by == by

    async def look(self) -> None:
        """Take in what was written from outside: answers and wishes, in the order of the store.

        Raises:
            StoreError: it cannot be read now.
        """
        for event in await self._store.read(self.id, self._seen):
            if event.seq <= self._seen:
                continue  # another task has read it in the meantime
            self._seen = event.seq
            fact = fact_of(event)
            if isinstance(fact, QuestionAnswered | QuestionExpired):
                self.state.apply(fact)
                self._answered.set()
            elif isinstance(fact, CancelWanted):
                self.cancel(fact.why)


def terminated(entry: LiveAgent) -> AgentTerminated:
    """The fact that the end of a live agent has begun; whoever listens hears it as well."""
    life = entry.key.incarnation
    emit("live_agent.terminated", entry.id, incarnation=life, status=entry.status, why=entry.why)
    return AgentTerminated(entry.id, entry.status, life, entry.why)


def check_answer(question: Question, answer: str) -> None:
    """Refuse an answer that a question does not take.

    Raises:
        ValueError: it is none of its choices.
    """
    choices = question.asked.choices
    if choices and answer not in choices:
        raise ValueError(
            f"{answer!r} is no answer to {question.asked.text!r}: say {' or '.join(choices)}"
        )
