"""A team is asked as one of its members is: so teams nest; its turns are played on a stage.

What a combinator decides stands in its `play`; what all of them do alike stands here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar, Unpack, cast

import trio

from standby_actors.agent import Agent
from standby_actors.agent_checks import check_task
from standby_actors.result import Result, TurnError, failed
from standby_actors.subagent import Subagent
from standby_actors.usage import total

from .member import Asked, Member, member_of, name_of
from .options import AgentLike, Options
from .pool import AgentPool, Held
from .signal import Signal
from .trail import Report
from .workplace import OutsideCopy, Workplace

R_co = TypeVar("R_co", bound=Report, covariant=True)
K = TypeVar("K", bound=Report)


class Team(Generic[R_co]):
    """Members that answer as one: a combinator as a value, which can be asked, and nested.

    ``await Chain([scout, FanOut([critic, editor])]).ask("What is here?")``

    To write one, derive from this class and write :meth:`play`.  It plays every turn
    with :meth:`Stage.turn`, makes its Report with :meth:`Stage.report`, and owes
    nothing else: whoever opened the stage closes what was spawned.
    """

    __slots__ = ()

    name: str = "team"
    """What others call it."""
    description: str = ""
    """What it is good for, for whoever chooses among members."""

    @abstractmethod
    async def play(self, task: str, stage: Stage, /) -> R_co:
        """Answer `task` with turns on `stage`.

        A failure of a member is a Result, and so is this team's.  Cancelled, it
        needs to do nothing: the stage's owner closes everything.
        """

    async def ask(self, task: str, /, **options: Unpack[Options]) -> R_co:
        """Answer `task` with subagents of its own.

        When this returns, raises, or is cancelled, every one of them is closed.

        Args:
            task: what is asked.
            options: about the subagents; see :class:`Options`.

        Raises:
            ModelError: there is no model to ask.
            TypeError: the task is no text; nothing was spawned.
        """
        check_task(task)
        async with open_stage(**options) as stage:
            return await self.play(task, stage)


class Stage:
    """Where a combinator plays its turns: a pool, as it is seen from one place in a nest of teams.

    Make one with :func:`open_stage`, or below another with :meth:`below`.
    """

    __slots__ = ("began", "pool", "signal", "suffix", "workplace")

    def __init__(
        self,
        pool: AgentPool,
        *,
        suffix: str = "",
        signal: Signal | None = None,
        workplace: Workplace | None = None,
    ) -> None:
        self.pool = pool
        self.suffix = suffix
        """Ends every key, so that branches side by side share no memory."""
        self.signal = pool.signal if signal is None else signal
        """Cuts every turn on this stage, once it is set; the pool's unless given."""
        self.workplace = workplace
        """The copy that its members work in; None for where each works by itself."""
        self.began = trio.current_time()
        """When, on trio's clock."""

    def below(self, branch: str = "", *, signal: Signal | None = None) -> Stage:
        """A stage for a part of this work, with a clock of its own.

        Args:
            branch: what tells it from the others beside it; its subagents are then its
                own.  Parts that follow one another give none, and share them.
            signal: cuts its turns, in place of this stage's; see
                :func:`~standby_combinators.signal.signal_below`.
        """
        return Stage(
            self.pool,
            suffix=f"{self.suffix}{branch}",
            signal=signal or self.signal,
            workplace=self.workplace,
        )

    @asynccontextmanager
    async def elsewhere(self, workplace: Workplace, branch: str = "") -> AsyncGenerator[Stage]:
        """A stage for a part of this work that is done in a copy.

        Its subagents are its own, whatever their lifetime, and are closed when the block
        is left: nobody writes to the copy after that.

        Args:
            workplace: the copy.
            branch: as in :meth:`below`.
        """
        pool = cast("SubagentPool", self.pool)
        async with pool.beside(workplace) as beside:
            yield Stage(
                beside,
                suffix=f"{self.suffix}{branch}",
                signal=self.signal,
                workplace=workplace,
            )

    async def turn(
        self, member: Member, task: str, *, key: str | None = None, branch: str = ""
    ) -> Result:
        """Play one turn of `member`, whoever that is, and record it.

        An agent's subagent is spawned, or found by its key; a team plays on a stage
        below; whoever is alive already is asked, and not closed.  A failure is a
        Result, and so is what the signal cuts.

        Args:
            member: who is asked.
            task: what.
            key: who shares a memory; the agent's name unless given.
            branch: as in :meth:`below`.

        Raises:
            ModelError: there is no model to ask.
            TypeError: `member` cannot be asked.
        """
        who = member_of(member)
        if self.workplace is not None:
            try:
                who = _placed(who, self.workplace)
            except OutsideCopy as error:
                return self.refuse(who, TurnError("workspace_denied", str(error)))
        if isinstance(who, Agent):
            full = f"{who.name if key is None else key}{self.suffix}{branch}"
            return await self.pool.turn(who, task, key=full, signal=self.signal)
        if isinstance(who, Team):
            team = cast("Team[Report]", who)
            return await team.play(task, self.below(branch))
        key = f"{name_of(who) if key is None else key}{self.suffix}{branch}"
        return await self.pool.lend(who, task, key=key, signal=self.signal)

    async def hold(self, agent: Agent, *, key: str | None = None) -> Held:
        """A subagent for a conversation, whatever the lifetime; closed with the pool."""
        full = f"{agent.name if key is None else key}{self.suffix}"
        if self.workplace is not None:
            try:
                agent = self.workplace.place(agent)
            except OutsideCopy as error:
                denied, who = TurnError("workspace_denied", str(error)), agent

                async def refuse(task: str) -> Result:
                    await trio.lowlevel.checkpoint()
                    return self.refuse(who, denied)

                return Held(full, refuse)
        return await self.pool.hold(agent, key=full, signal=self.signal)

    def refuse(self, member: Asked | str, error: TurnError) -> Result:
        """Record a turn that was not played: a Result of `member` that says why."""
        name = member if isinstance(member, str) else name_of(member)
        return self.pool.trail.record(failed(name, error))

    def unstarted(self, member: Asked) -> Result:
        """Record a turn that was not needed, or that the signal has called off."""
        off = None if self.signal is None else self.signal.error
        return self.refuse(member, off or TurnError("not_started", "it was not needed"))

    def report(
        self,
        deciding: Result,
        steps: Iterable[Result],
        *,
        kind: type[K] | None = None,
        played: Iterable[Result] | None = None,
        output: str | None = None,
        error: TurnError | None = None,
        **more: Any,
    ) -> K:
        """`deciding` as the Result of a combinator, which it is a record of as well.

        Args:
            deciding: the step that decides how the whole ended.
            steps: what the whole is made of.
            kind: which Report; `more` are its own fields.
            played: the steps that were played here and are to be paid for; all of
                them unless given.
            output: of the whole, when it is not that of `deciding`.
            error: of the whole, when it is not that of `deciding`.
        """
        steps = tuple(steps)
        usage = total(
            (step.usage for step in (steps if played is None else played)),
            wall_seconds=trio.current_time() - self.began,
        )
        decided = failed(deciding.agent, error) if error is not None else deciding
        return (kind or cast("type[K]", Report))(
            agent=deciding.agent,
            subagent=deciding.subagent,
            output=decided.output if output is None else output,
            messages=deciding.messages,
            usage=usage,
            status=decided.status,
            error=decided.error,
            value=decided.value,
            steps=steps,
            **more,
        )


class SubagentPool(AgentPool):
    """Plays turns of whatever can be asked, and closes what it spawned for them.

    ``async with SubagentPool() as pool: result = await pool.turn(scout, task)``.
    When the block is left nothing of it is alive, whatever happened inside; the
    body's own error passes as it is.

    A failure is a Result, also when a subagent cannot be spawned or crashes: no
    turn harms another.  A cancellation is never made one; it ends the turn and
    passes.

    Args:
        trail: where the turns are recorded; a new one unless given.
        options: see :class:`Options`.

    Raises:
        ValueError: the lifetime is none, the timeout not more than 0, or the switch has
            another signal than the one that is given.
    """

    async def turn(
        self,
        agent: Member,
        task: str,
        *,
        key: str | None = None,
        signal: Signal | None = None,
    ) -> Result:
        """As :meth:`AgentPool.turn`; `agent` may also be a ref, a subagent or a team.

        Such a one is asked, and not closed.
        """
        if isinstance(agent, Agent) or not callable(getattr(agent, "ask", None)):
            return await super().turn(cast("AgentLike", agent), task, key=key, signal=signal)
        stage = Stage(self, signal=signal or self.signal)
        return await stage.turn(agent, task, branch="" if key is None else f"@{key}")

    def beside(self, workplace: Workplace) -> SubagentPool:
        """Another pool of the same options, trail, budget and switch, for work in a copy.

        No subagent of lifetime "session" in it outlives it: its folder does not either.
        """
        options = self._options.copy()
        options["within"] = None
        roster = options.get("roster")
        if roster is not None:
            options["roster"] = [workplace.place(each) for each in roster]
        return SubagentPool(trail=self.trail, **options)


def _placed(who: Asked, workplace: Workplace) -> Asked:
    """`who` as it works in a copy.

    Raises:
        OutsideCopy: it works somewhere else, and cannot be moved.
    """
    if isinstance(who, Agent):
        return workplace.place(who)
    if isinstance(who, Subagent):
        where = who.agent.cwd or Path.cwd()
        raise OutsideCopy(f"{who.id}, which is alive already,", str(where), str(workplace.top))
    return who


@asynccontextmanager
async def open_stage(**options: Unpack[Options]) -> AsyncGenerator[Stage]:
    """A stage with a pool of its own, for the length of the block.

    ``async with open_stage(model="openai/gpt-5-mini") as stage: await stage.turn(scout, task)``

    When the block is left, nothing that was spawned is alive; ``stage.pool.trail`` can
    still be read.

    Args:
        options: about the subagents; see :class:`Options`.
    """
    async with SubagentPool(**options) as pool:
        yield Stage(pool)
