"""A subagent whose turns are recorded: what has been answered before is not asked again."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import trio

from standby_actors import ActorStopped, Agent, Closed, Result, Subagent, TurnError, failed
from standby_actors.events import emit
from standby_actors.failure import described
from standby_actors.ids import next_id
from standby_actors.result import CUT, Attachment, ChatMessage, ErrorKind
from standby_actors.session import Memory
from standby_actors.subagent import ask_heard
from standby_actors.usage import NOTHING, Usage

from ..live.refs import AgentRef
from ..live.registry import Dormant, LiveAgent, Terminal, being, me
from ..store import StoreError
from .facts import (
    AgentExited,
    AgentRegistered,
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

_UNFINISHED = CUT | {"budget", "blocked"}
"""Statuses that are no outcome of a turn: somebody did not want it to go on, or not yet."""
NOT_OPENED = Closed(False, "it was not opened")
_KINDS: dict[str, ErrorKind] = {"store_full": "store_full", "store_busy": "store_busy"}


class DurablePlayer:
    """A subagent of a run, which is spawned when there is something to be asked.

    Turns that the run has recorded are answered from the record, in the order of the
    conversation.  The first that is not has the subagent spawned, with what was said
    before as its memory.
    """

    def __init__(
        self,
        run: Run,
        agent: Agent,
        nursery: trio.Nursery,
        options: dict[str, Any],
        *,
        name: str = "",
        dormant: Dormant | None = None,
    ) -> None:
        self._run = run
        self._agent = agent
        self._nursery = nursery
        self._options = options
        self._before = digest("turn", digest_of_agent(agent))
        self._said: tuple[ChatMessage, ...] = ()
        self._turns = trio.Lock()
        self._is_stopped = False
        self._name = name
        self._entry: LiveAgent | None = None
        self._was_open = False
        self._closed = NOT_OPENED
        self._spent = NOTHING
        self._last: Result | None = None
        caller = me()
        self._parent = caller if caller is not None and caller.key.run == run.id else None
        if dormant is not None:
            self._before, self._said = dormant.before, dormant.said
        self.id = next_id(agent.name)
        """As in "scout#2"; of a recorded turn its Result says who played it."""

    @property
    def agent(self) -> Agent:
        """Its definition."""
        return self._agent

    @property
    def usage(self) -> Usage:
        """What was spent in this process."""
        return self._spent if self.subagent is None else self.subagent.usage

    @property
    def subagent(self) -> Subagent | None:
        """The one that plays, once there is something to play."""
        return None if self._entry is None else self._entry.subagent

    @property
    def ref(self) -> AgentRef | None:
        """By which the one that plays is reached, once there is something to play."""
        return None if self._entry is None else AgentRef(self._entry.key, self._run.live)

    def stop(self) -> None:
        """End the turn in flight as `stopped`, and every later one."""
        self._is_stopped = True
        if self.subagent is not None:
            self.subagent.stop()

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
            entry = self._entry or await self._open()
            subagent = entry.subagent
            if subagent is None or entry.is_ending:
                return self._gone(entry)
            words, injected = entry.inbox.begin_turn(entry.activity.turns + 1)
            await run.record(TurnBegan(step, name, self.id, attempt), *injected)
        except StoreError as error:
            if self._entry is not None:
                self._entry.inbox.end_turn(is_recorded=False, answer=None)
            return self._unwritten(error, NOTHING)
        told = f"{words}\n\n{task}" if words else task
        result: Result | None = None
        entry.activity.begin_turn()
        entry.touch()
        try:
            with being(entry):
                result = await ask_heard(subagent, told, attachments, timeout, entry.hear)
        except ActorStopped:
            # Its end began while it was recorded that the turn begins.
            if not entry.is_ending:
                raise
            result = self._gone(entry)
        finally:
            # No wait between the answer and its record; whether it was cut is said at once.
            cut = result is None or result.status in _UNFINISHED
            fact = TurnCut(step, result) if result is None or cut else TurnEnded(step, result)
            answer = result.output if result is not None and result.ok else None
            mail = entry.inbox.end_turn(is_recorded=not cut, answer=answer)
            entry.activity.end_turn(None if result is None else result.usage)
            entry.touch()
            receipt = run.note(fact, *mail)
        assert result is not None
        try:
            await receipt.wait()
        except StoreError as error:
            return self._unwritten(error, result.usage)
        self._last = result
        if subagent.is_dead:
            entry.end("failed", str(result.error))
        return result

    def _gone(self, entry: LiveAgent) -> Result:
        """The Result of a turn that was asked of an agent whose end has begun."""
        error = None if self._last is None else self._last.error
        if entry.status == "failed" and error is not None:
            return failed(self._agent.name, error, subagent=self.id)
        return failed(self._agent.name, "stopped", entry.why, subagent=self.id)

    def left(self, error: BaseException | None) -> None:
        """Whoever has it does not need it any more, or cannot go on, because of `error`."""
        entry, last = self._entry, self._last
        if entry is None:
            return
        if entry.is_ending:
            if error is None and last is not None and last.ok:
                entry.end("completed", "its work was done meanwhile")
            return
        if error is not None and cut_from_outside(error):
            entry.end("cancelled", "cancelled")
        elif error is not None:
            entry.end("failed", reason(error))
        elif self._is_stopped:
            entry.end("stopped", "stopped")
        elif last is not None and not last.ok:
            how: Terminal = "stopped" if last.status in ("stopped", "aborted") else "failed"
            entry.end(how, str(last.error))
        else:
            entry.end("completed")

    async def _open(self) -> LiveAgent:
        """Spawn the one that plays, on a task that holds it until the player is left."""
        said, options = self._said, dict(self._options)
        if said and self._run.restore == "replay":
            options["memory"] = Memory(said)
        if self._parent is not None:
            options.setdefault("parent", self._parent.id)
        block = self._run.spawns(self._agent, id=self.id, **options)
        try:
            entry: LiveAgent = await self._nursery.start(self._host, block)
        # It is raised again: there is no agent, and the next turn may try anew.
        except BaseException:
            self._entry = None
            raise
        return entry

    async def _host(
        self,
        block: AbstractAsyncContextManager[Subagent],
        *,
        task_status: trio.TaskStatus[LiveAgent],
    ) -> None:
        run = self._run
        parent = "" if self._parent is None else self._parent.key.name
        standing = run.live.standing(self.id, self._agent, name=self._name, parent=parent)
        async with standing as entry:
            self._entry = entry
            life = entry.key.incarnation
            name = self._agent.name
            registered = run.note(
                AgentRegistered(name, self.id, life, name=self._name, parent=parent)
            )
            is_registered = True
            try:
                try:
                    await registered.wait()
                except StoreError:
                    is_registered = False
                    raise
                emit("live_agent.registered", self.id, incarnation=life, agent=name)
                with being(entry), entry.opening:
                    async with block as subagent:
                        await self._stay(entry, subagent, task_status)
                if entry.opening.cancelled_caught and not self._was_open:
                    task_status.started(entry)
            finally:
                if is_registered:
                    await self._exit(entry, sys.exception())

    async def _stay(
        self, entry: LiveAgent, subagent: Subagent, task_status: trio.TaskStatus[LiveAgent]
    ) -> None:
        """Hold it open until its end begins; then abort, export and dispose, in 7 s."""
        self._was_open = True
        entry.begin(subagent)
        try:
            task_status.started(entry)
            await entry.leave.wait()
        finally:
            self._end(entry, sys.exception())
            self._closed = await subagent.close()
            self._spent = subagent.usage

    async def _exit(self, entry: LiveAgent, error: BaseException | None) -> None:
        """Record that nothing of it is left.  Its entry is there until that is known."""
        if error is not None and not cut_from_outside(error):
            self._closed = Closed(False, reason(error))
        self._end(entry, error)
        why = "; ".join(filter(None, dict.fromkeys((entry.why, self._closed.reason))))
        closed, life = self._closed.closed, entry.key.incarnation
        if entry.status in ("completed", "stopped"):
            entry.dormant = Dormant(entry.key, self._agent, self._said, self._before)
        entry.failure = ""
        await self._run.settle(
            entry, AgentExited(self.id, entry.status, life, closed, why, self._spent)
        )
        emit("agent.exited", self.id, incarnation=life, status=entry.status, why=why)

    def _end(self, entry: LiveAgent, error: BaseException | None) -> None:
        """Say how it ends, where that was not said before: it was never open, say."""
        if entry.is_ending:
            return
        if error is None:
            entry.end("completed")
        elif cut_from_outside(error):
            entry.end("cancelled", "cancelled")
        else:
            entry.end("failed", reason(error))

    def _unwritten(self, error: StoreError, usage: Usage) -> Result:
        """A turn whose record could not be written."""
        kind = _KINDS.get(error.kind, "recovery_failed")
        why = TurnError(kind, str(error), error.kind == "store_busy").with_cause(error)
        return failed(self._agent.name, why, subagent=self.id, usage=usage)


def cut_from_outside(error: BaseException) -> bool:
    """Whether `error` is a cancellation, and nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)


def reason(error: BaseException) -> str:
    """What `error` says, where it is alone in its groups too."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        (error,) = error.exceptions
    return described(error)
