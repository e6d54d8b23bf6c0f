"""A subagent for one turn of a function: an actor that plays it, hands in its Result, and ends.

Where nobody listens and nothing is written down, such a subagent needs neither a
block nor a mind of its own: it is a cell among others, and what it costs is what
an actor costs.  Whoever watches, limits or records one is given a whole subagent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio

from .agent import Agent, has_others
from .errors import ActorCrashed, ActorStopped, AskTimeout
from .ids import next_number
from .kind import Kind, interruptible
from .mind import GRACE_SECONDS
from .reply import VALUE, Reply, resolve
from .result import ChatMessage, Result, TurnError, crash_of, failed
from .sessions.function import caller_of, read_answer, wrong_answer
from .usage import Usage

if TYPE_CHECKING:
    from .cell import Cell

Cut = Literal["timeout", "aborted", "stopped"]
# The strongest reason that was given for a cut is the one that is told.
_STRENGTH: dict[str, int] = {"timeout": 1, "aborted": 2, "stopped": 3}


class BriefStart:
    """How to play single turns of one function: worked out once for all of them.

    Args:
        agent: a function, without anything that takes more than calling it.
        timeout: seconds for each turn; None for what the agent says.
    """

    __slots__ = ("actor_kind", "call", "name", "schema", "seconds")

    def __init__(self, agent: Agent, timeout: float | None = None) -> None:
        assert is_brief(agent)
        seconds = agent.timeout if timeout is None else timeout
        self.name = agent.name
        self.schema = agent.schema
        self.seconds = math.inf if seconds is None else seconds
        self.call = caller_of(agent.mind)  # type: ignore[arg-type]  # it is a function's
        self.actor_kind = Kind(
            make=Brief,
            name=agent.name,
            receive=interruptible(Brief.receive),
            is_async=True,
            shutdown=GRACE_SECONDS,
            stop_mode="interrupt",
            cut_when_withdrawn=True,
            contained=True,
        )


def is_brief(agent: Agent) -> bool:
    """Whether a turn of `agent` is a call of its function, and nothing besides."""
    return (
        agent.is_function
        and agent.limits is None
        and not agent.check_input
        and not agent.check_output
        and not has_others(agent)
    )


class Brief:
    """One turn: the actor that plays it, and what its asker holds of it."""

    __slots__ = ("asked_at", "began_at", "cut", "id", "is_left", "ref", "reply", "start", "task")

    ref: Cell[Any]
    reply: Reply[Any]

    def __init__(self, start: BriefStart, id: str, task: str) -> None:  # noqa: A002 - as a subagent has it
        self.start = start
        self.id = id
        self.task = task
        self.asked_at = trio.current_time()
        self.began_at = math.nan
        self.cut: TurnError | None = None
        """Why it is to end, once somebody has said so."""
        self.is_left = False
        """Whether nobody waits for it any more: it was cut, and does not let go."""

    async def receive(self, task: str) -> Result:
        """Call the function with the task."""
        start = self.start
        self.began_at = trio.current_time()
        if self.cut is not None:
            return self.failed(self.cut)
        if start.seconds != math.inf:
            timers = self.ref.block.timers
            timers.at(self.began_at + start.seconds, _expire, self.reply, self)
        try:
            answer = await start.call(task)
        # A failing mind is expected work: here its exception becomes a value, as
        # in a session; the cell deals with what is no Exception.
        except Exception as error:
            return self.failed(crash_of(error))
        if self.cut is not None:
            return self.failed(self.cut)
        try:
            said, value = read_answer(answer, start.schema)
        except (msgspec.MsgspecError, TypeError) as error:
            return self.failed(wrong_answer(error))
        return Result(
            agent=start.name,
            subagent=self.id,
            output=said.strip(),
            messages=(ChatMessage("user", task), ChatMessage("assistant", said)),
            usage=self._usage(),
            value=value,
        )

    async def answer(self) -> Result:
        """Its Result, once the actor has ended.

        Only a function that does not let go within
        :data:`~standby_actors.mind.GRACE_SECONDS` after its turn was cut is left, to the
        block of its owner.  A cancellation cuts the turn, and passes.
        """
        cell = self.ref
        try:
            result: Result = await self.reply
            return result
        except ActorStopped:
            return self.failed(TurnError("stopped", "closed in mid-turn"))
        except ActorCrashed as error:
            return self.failed(crash_of(error.__cause__ or error))
        except AskTimeout as error:
            # The deadline of an ask that the asker itself is serving.
            return self.failed(TurnError("timeout", str(error), True))
        finally:
            if not self.is_left:
                ended = cell.stop()
                if not ended.done:
                    # Bounded by the actor's own `shutdown` and its block's grace.
                    with trio.CancelScope(shield=True):
                        await ended

    def failed(self, error: TurnError) -> Result:
        """The Result without an answer: of `error`, or of what it was cut for."""
        has_begun = not math.isnan(self.began_at)
        return failed(
            self.start.name,
            self.cut or error,
            subagent=self.id,
            messages=(ChatMessage("user", self.task),) if has_begun else (),
            usage=self._usage(),
        )

    def _usage(self) -> Usage:
        now = trio.current_time()
        if math.isnan(self.began_at):
            return Usage(wall_seconds=now - self.asked_at)
        return Usage(wall_seconds=now - self.asked_at, busy_seconds=now - self.began_at, turns=1)

    def end(self, why: Cut, message: str) -> None:
        """Cut the turn, begun or not; the strongest reason stays."""
        if self.reply.state:
            return
        is_first = self.cut is None
        if self.cut is None or _STRENGTH[why] > _STRENGTH[self.cut.kind]:
            self.cut = TurnError(why, message, why == "timeout")
        self.ref.block.interrupt(self.ref)
        if is_first:
            self.ref.block.timers.after(GRACE_SECONDS, _leave, self.reply, self)


def _expire(_: Reply[Any], brief: Brief) -> None:
    brief.end("timeout", f"timed out after {brief.start.seconds:g} s")


def _leave(reply: Reply[Any], brief: Brief) -> None:
    """Answer for a function that was cut and does not let go."""
    if reply.state:
        return
    brief.is_left = True
    assert brief.cut is not None
    resolve(reply, brief.failed(brief.cut), VALUE)
    brief.ref.kill()


def begin_brief(owner: Cell[Any], start: BriefStart, task: str) -> Brief:
    """Let one turn begin in an actor below `owner`; then await :meth:`Brief.answer`.

    Raises:
        ActorStopped: the owner is stopping; nothing was spawned.
    """
    number = next_number(start.name)
    cell = owner.spawn(start, (start, f"{start.name}#{number}", task))
    cell.number = number  # its path ends with its id
    brief: Brief = cell.actor
    brief.reply = cell.ask(task)
    return brief
