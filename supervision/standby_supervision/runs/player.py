"""A subagent whose turns are recorded: what has been answered before is not asked again."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import trio

from standby_actors import Agent, Result, Subagent, TurnError, failed
from standby_actors.failure import described
from standby_actors.ids import next_id
from standby_actors.result import Attachment, ChatMessage, ErrorKind
from standby_actors.session import Memory
from standby_actors.usage import NOTHING, Usage

from ..store import StoreError
from .facts import (
    AgentExited,
    AgentRegistered,
    AgentStatus,
    AgentTerminated,
    StepId,
    TurnBegan,
    TurnCut,
    TurnEnded,
)
from .steps import digest, digest_of_agent, digest_of_task

if TYPE_CHECKING:
    from .run import Run

Restore: TypeAlias = Literal["replay", "fresh"]
"""What a conversation knows, in a later process, of turns that are not played again:
what was said in them, or nothing."""

_UNFINISHED = frozenset({"stopped", "aborted", "cancelled", "not_started", "budget", "blocked"})
"""Statuses that are no outcome of a turn: somebody did not want it to go on, or not yet."""
_KINDS: dict[str, ErrorKind] = {"store_full": "store_full", "store_busy": "store_busy"}


class DurablePlayer:
    """A subagent of a run, which is spawned when there is something to be asked.

    Turns that the run has recorded are answered from the record, in the order of the
    conversation.  The first that is not has the subagent spawned, with what was said
    before as its memory.
    """

    def __init__(
        self, run: Run, agent: Agent, nursery: trio.Nursery, options: dict[str, Any]
    ) -> None:
        self._run = run
        self._agent = agent
        self._nursery = nursery
        self._options = options
        self._before = digest("turn", digest_of_agent(agent))
        self._said: tuple[ChatMessage, ...] = ()
        self._turns = trio.Lock()
        self._subagent: Subagent | None = None
        self._is_stopped = False
        self.id = next_id(agent.name)
        """As in "scout#2"; of a recorded turn its Result says who played it."""

    @property
    def agent(self) -> Agent:
        """Its definition."""
        return self._agent

    @property
    def usage(self) -> Usage:
        """What was spent in this process."""
        return NOTHING if self._subagent is None else self._subagent.usage

    @property
    def subagent(self) -> Subagent | None:
        """The one that plays, once there is something to play."""
        return self._subagent

    def stop(self) -> None:
        """End the turn in flight as `stopped`, and every later one."""
        self._is_stopped = True
        if self._subagent is not None:
            self._subagent.stop()

    async def ask(
        self,
        task: str,
        /,
        *attachments: Attachment,
        timeout: float | None = None,  # noqa: ASYNC109 - it begins with the turn, not with the call
    ) -> Result:
        """Play one turn, or give the Result that is recorded of it.

        That it begins is on the disk before it begins, and what it came to before this
        returns.  Cancelled, the turn is cut, and is played again when the run goes on.
        Where the record cannot be written, the Result says so (`store_full`,
        `store_busy`, `recovery_failed`) and holds what the turn cost.
        """
        async with self._turns:
            step = self._run.steps.next(digest_of_task(self._before, task, attachments))
            recorded = self._recorded(step)
            if recorded is None:
                recorded = await self._play(step, task, attachments, timeout)
            else:
                await trio.lowlevel.checkpoint()
            self._before = digest(step.digest, recorded.output, recorded.status)
            self._said += recorded.messages
            return recorded

    def _recorded(self, step: StepId) -> Result | None:
        outcome = self._run.state.outcomes.get(step)
        if not isinstance(outcome, Result):
            return None
        self._run.replayed += 1
        if outcome.value is None or self._agent.schema is None:
            return outcome
        value = msgspec.convert(outcome.value, self._agent.schema)
        return msgspec.structs.replace(outcome, value=value)

    async def _play(
        self,
        step: StepId,
        task: str,
        attachments: tuple[Attachment, ...],
        timeout: float | None,  # noqa: ASYNC109 - as above
    ) -> Result:
        run, name = self._run, self._agent.name
        doubt = run.doubt(step, name)
        if doubt is not None:
            return failed(name, "blocked", str(doubt), subagent=self.id)
        if self._is_stopped:
            return failed(name, "stopped", subagent=self.id)
        attempt = run.state.attempts.get(step, 0) + 1
        try:
            subagent = self._subagent or await self._open()
            await run.record(TurnBegan(step, name, self.id, attempt))
        except StoreError as error:
            return self._unwritten(error, NOTHING)
        result: Result | None = None
        try:
            result = await subagent.ask(task, *attachments, timeout=timeout)
        finally:
            # No wait between the answer and its record; whether it was cut is said at once.
            cut = result is None or result.status in _UNFINISHED
            fact = TurnCut(step, result) if result is None or cut else TurnEnded(step, result)
            receipt = run.note(fact)
        assert result is not None
        try:
            await receipt.wait()
        except StoreError as error:
            return self._unwritten(error, result.usage)
        return result

    async def _open(self) -> Subagent:
        """Spawn the one that plays, on a task that holds it until the player is left."""
        said, options = self._said, dict(self._options)
        if said and self._run.restore == "replay":
            options["memory"] = Memory(said)
        block = self._run.spawns(self._agent, id=self.id, **options)
        await self._run.record(AgentRegistered(self._agent.name, self.id))
        self._subagent = await self._nursery.start(self._host, block)
        return self._subagent

    async def _host(
        self,
        block: AbstractAsyncContextManager[Subagent],
        *,
        task_status: trio.TaskStatus[Subagent],
    ) -> None:
        run, why = self._run, ""
        status: AgentStatus = "failed"
        subagent: Subagent | None = None
        with run.live.standing(self.id, self._agent.name) as entry:
            try:
                async with block as subagent:
                    entry.begin(subagent)
                    task_status.started(subagent)
                    try:
                        await trio.sleep_forever()
                    finally:
                        status = "stopped" if subagent.is_stopped else "completed"
                        entry.status = status
                        run.note(AgentTerminated(self.id, status))
            finally:
                error = sys.exception()
                if error is not None and not isinstance(error, trio.Cancelled):
                    why, status = described(error), "failed"
                closed = subagent is not None and not why
                spent = NOTHING if subagent is None else subagent.usage
                exited = AgentExited(self.id, status, 1, closed, why, spent)
                # The entry is there until it is known whether the record is.
                await run.settle(exited, entry)

    def _unwritten(self, error: StoreError, usage: Usage) -> Result:
        """A turn whose record could not be written."""
        kind = _KINDS.get(error.kind, "recovery_failed")
        why = TurnError(kind, str(error), error.kind == "store_busy").with_cause(error)
        return failed(self._agent.name, why, subagent=self.id, usage=usage)
