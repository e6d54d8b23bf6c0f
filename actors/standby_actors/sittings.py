"""The sessions of one subagent: one follows another, and is told what the last one knew.

What was said belongs here, and to nobody else: a session knows its own turns, and
what it was told of those before is not repeated in its transcript.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from attrs import define, field

from . import traps
from .agent import Agent
from .context import summary_task
from .opening import Opener, recall
from .result import ChatMessage, TurnError
from .sendable import sendable
from .session import (
    Condenses,
    Memory,
    Owned,
    Resumable,
    Session,
    Turn,
    export_jsonl,
    ignore,
)
from .usage import Usage

if TYPE_CHECKING:
    from .block import Block

logger = logging.getLogger("standby")

LEAVE_SECONDS = 5.0
"""How long letting go of a session may take before it is cut."""
NO_MEMORY = Memory()
SUMMARY_SECONDS = 120.0
"""How long a mind may take to write down what another one is to know."""


class NoSummary(RuntimeError):
    """Raised where a mind was to write down what it knows, and did not."""

    def __init__(self, subagent: str, error: TurnError) -> None:
        super().__init__(subagent, error)
        self.subagent = subagent
        self.error = error

    def __str__(self) -> str:
        return f"what {self.subagent} knows could not be summarised: {self.error}"


@define(eq=False)
class _Hosted:
    """A session, held open by a task."""

    session: Session
    outer: trio.CancelScope
    """Cuts its closing."""
    task: trio.lowlevel.Task
    failure: BaseException | None = field(default=None, init=False)
    """What it ended with, and nobody has been told yet."""
    leave: trio.Event = field(factory=trio.Event)
    left: trio.Event = field(factory=trio.Event)


@define(eq=False)
class Sittings:
    """The sessions that a subagent has, one at a time.

    Args:
        subagent: its id.
        agent: what it is.
        charge: told what is spent beside the turns.
    """

    subagent: str
    agent: Agent
    charge: Callable[[Usage], None]
    session: Session | None = None
    """The conversation now; None before the first, and between two."""
    opens: Opener | None = None
    """Opens them."""
    past: tuple[ChatMessage, ...] = ()
    """What was said in the sessions before this one, each message once, and a line of
    role "system" where the next one began."""
    note: str = ""
    """What that line says of the session now; empty of the first."""
    before: Memory | None = None
    """What the first session is to know, where the conversation began elsewhere."""
    _told: Memory = NO_MEMORY
    """What the session now was told of those before."""
    close_by: float = math.inf
    """When all is to be let go of, as its actor was killed."""
    block: Block | None = None
    """Where its sessions are held open, for as long as its actor lives."""
    hosted: _Hosted | None = None
    life: trio.CancelScope | None = None
    """Ends the life of its actor, for a session that fails while it is held open."""
    _leaving: trio.CancelScope | None = None
    _disposed: Session | None = None
    """The last one whose close has come to its end."""
    abandoned: trio.Event | None = None
    """Set when the session that a killed life has left is gone."""

    async def hand_over(self) -> int:
        """Go on in a new session that knows a summary; returns its length in characters.

        Raises:
            NoSummary: none could be written; the session is the one it was.
            CannotRecall: there is one session only.
        """
        memory = await self._summarised(self.known())
        await self.dispose()
        await self.leave()
        await self.enter(memory, "a new session")
        return len(memory.summary)

    async def dispose(self) -> None:
        """Close the session, once: also where one that was to follow it did not open."""
        session = self.session
        if session is not None and session is not self._disposed:
            await session.close()
            self._disposed = session

    def transcript(self) -> tuple[ChatMessage, ...]:
        """Everything said so far, in all sessions, each message once and in order."""
        return self.past if self.session is None else (*self.past, *self.session.transcript())

    def known(self) -> Memory:
        """What the session now would go on from: what it was told, and its own turns."""
        session = self.session
        if session is None:
            return NO_MEMORY
        # One that names its conversations may keep none of them all the same.
        resume = ""
        if isinstance(session, Resumable) and session.capabilities.resume:
            resume = session.resume_id
        if isinstance(session, Condenses):
            return msgspec.structs.replace(session.known(), resume=resume)
        told = self._told
        return Memory((*told.messages, *session.transcript()), told.summary, resume)

    def export(self, directory: Path, name: str) -> Path:
        """Write everything said so far to a file under `directory`, whole or not at all.

        Raises:
            OSError: nothing was written under the final name.
        """
        assert self.session is not None
        if not self.past:
            return self.session.export(directory, name)
        return export_jsonl(self.transcript(), directory, name)

    async def enter(self, memory: Memory | None, what: str) -> Session:
        """Open a session, and hold it open until :meth:`leave`."""
        assert self.opens is not None
        if self.block is None:
            # Of a shared actor: its sessions hold nothing open.
            async with self.opens(memory) as session:
                self._follow(session, memory, what)
        else:
            await self.block.nursery.start(self._host, memory, what)
        assert self.session is not None
        return self.session

    def _follow(self, session: Session, memory: Memory | None, what: str) -> None:
        """Go on with `session`; what was said in the one before is past from now on."""
        if self.session is not None:
            self.note = f"{what} begins, {_knows(memory)}"
            self.past = (*self.transcript(), ChatMessage("system", self.note))
        self._told = memory or NO_MEMORY
        self.take(session)

    def begin(self, session: Session) -> None:
        """Have the first session, which is open already."""
        recall(session, self.before)
        self._told = self.before or NO_MEMORY
        self.take(session)

    def take(self, session: Session) -> None:
        """Go on with `session`, which is told whose it is if it wants to know."""
        self.session = session
        if isinstance(session, Owned):
            session.subagent = self.subagent

    async def _host(
        self, memory: Memory | None, what: str, *, task_status: trio.TaskStatus[None]
    ) -> None:
        assert self.opens is not None
        hosted: _Hosted | None = None
        left = trio.Event()
        try:
            with trio.CancelScope() as outer:
                async with self.opens(memory) as session:
                    hosted = _Hosted(session, outer, trio.lowlevel.current_task(), left=left)
                    self._follow(session, memory, what)
                    # Whoever opens may be cut, and then trio does not let go of this task.
                    await trio.lowlevel.checkpoint_if_cancelled()
                    # From here on only who has it lets go of it.
                    outer.shield = True
                    self.hosted = hosted
                    task_status.started()
                    await hosted.leave.wait()
        # Raised where it is let go of: a block is not to end over it.
        except (Exception, BaseExceptionGroup) as error:
            if hosted is None:
                raise
            hosted.failure = error
            if not hosted.leave.is_set() and self.life is not None:
                self.life.cancel()
        finally:
            left.set()

    async def leave(self) -> None:
        """Let go of the session that is held open; what takes its time is cut."""
        hosted = self.hosted
        if hosted is None:
            return
        hosted.leave.set()
        until = min(trio.current_time() + LEAVE_SECONDS, self.close_by)
        with trio.CancelScope(shield=True, deadline=until) as self._leaving:
            await hosted.left.wait()
        hosted.outer.cancel()
        if self.close_by == math.inf:
            await hosted.left.wait()
        elif not hosted.left.is_set():
            self.abandon()
        self.hosted = None
        if hosted.failure is not None:
            failure, hosted.failure = hosted.failure, None
            raise failure

    def hurry(self, seconds: float) -> None:
        """Be done with letting go in `seconds`; what takes longer goes on without its actor."""
        self.close_by = trio.current_time() + seconds
        if self._leaving is not None:
            self._leaving.deadline = min(self._leaving.deadline, self.close_by)

    def abandon(self) -> None:
        """Leave the session that is held open to end by itself, cut; it waits for nothing."""
        hosted, self.hosted = self.hosted, None
        if hosted is not None and self.block is not None:
            hosted.outer.cancel()
            hosted.leave.set()
            if not hosted.left.is_set():
                self.abandoned = hosted.left
                self.block.start_task(_tear, hosted, self.block.grace)

    async def inheritance(self) -> Memory | None:
        """What a life after this one is to know, as its agent says; None for nothing.

        Raises:
            NoSummary: it is to know a summary, and none could be written.
        """
        remember = self.agent.remember
        if remember == "replay":
            return self.known()
        if remember == "summary":
            return await self._summarised(self.known())
        return None

    async def _summarised(self, known: Memory) -> Memory:
        """A memory in short, written by a session that is opened for it."""
        assert self.opens is not None
        said = known.messages
        if known.summary:
            said = (ChatMessage("user", f"Before that: {known.summary}"), *said)
        if not said:
            return NO_MEMORY
        turn: Turn | None = None
        async with self.opens(None) as writer:
            try:
                with trio.move_on_after(SUMMARY_SECONDS):
                    turn = await writer.ask(sendable(summary_task(said)), ignore)
            # Also of one that is cut: what it has spent is spent, and it is nobody else's
            # to close.
            finally:
                self.charge(writer.usage)
                with trio.move_on_after(LEAVE_SECONDS, shield=True):
                    await writer.close()
        if turn is None:
            late = TurnError("timeout", f"it took longer than {SUMMARY_SECONDS:g} s", True)
            raise NoSummary(self.subagent, late)
        if turn.error is not None:
            raise NoSummary(self.subagent, turn.error)
        return Memory(summary=turn.text)


class Life:
    """A session, open for one life of an actor, and let go of however that ends.

    Each session is held open by a task of its own in the actor's block: so one can follow
    another in mid-turn, none is torn down before it has been exported and closed, and an
    actor that is dropped where it stands leaves none half torn down.

    Not a generator: one that waits for something in its end cannot be dropped there.

    Args:
        sittings: whose session.
        block: where its actor lives.
        close: called, shielded by itself, before the session is let go of.
        number: which life it is, from 1; of a life before the agent says what is
            remembered.
    """

    def __init__(
        self, sittings: Sittings, block: Block, close: Callable[[], Any], number: int
    ) -> None:
        self._sittings = sittings
        self._block = block
        self._close = close
        self._number = number
        self._scope = trio.CancelScope()

    async def __aenter__(self) -> Session:
        sittings = self._sittings
        gone, sittings.abandoned = sittings.abandoned, None
        if gone is not None:
            # Two sessions of one conversation do not run side by side.
            await gone.wait()
        sittings.close_by = math.inf
        memory = await sittings.inheritance() if self._number > 1 else sittings.before
        sittings.block = self._block
        before = sittings.session
        try:
            session = await sittings.enter(memory, f"life {self._number}")
        except BaseException as error:
            # Cut in the step in which it was opened.
            try:
                is_open = sittings.session is not before
                if is_open and not isinstance(error, GeneratorExit):
                    await self._close()
            finally:
                sittings.abandon()
                sittings.block = None
            raise
        sittings.life = self._scope
        self._scope.__enter__()
        return session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        sittings = self._sittings
        sittings.life = None
        is_ours = bool(self._scope.__exit__(kind, error, trace))
        try:
            await self._close()
            await sittings.leave()
        # Of a kill that comes meanwhile, or where it is dropped, which no wait survives.
        finally:
            sittings.abandon()
            sittings.block = None
        return is_ours


async def _tear(hosted: _Hosted, grace: float) -> None:
    """Take the shields off a session that does not let go in `grace` seconds."""
    with trio.CancelScope(shield=True):
        with trio.move_on_after(grace):
            await hosted.left.wait()
        if not hosted.left.is_set():
            logger.error("a session of %s did not let go: it is torn", hosted.session.model)
            traps.pierce(hosted.task, hosted.outer)
            await hosted.left.wait()


def _knows(memory: Memory | None) -> str:
    """What a session knows of those before, in words that end a sentence.

    Examples:
        >>> _knows(None)
        'and knows nothing of what was said before'
        >>> _knows(Memory(summary="They sought a bug."))
        'and knows of what was said before: They sought a bug.'
    """
    if memory is None or memory == NO_MEMORY:
        return "and knows nothing of what was said before"
    if memory.messages or memory.resume:
        return "and knows what was said before"
    return f"and knows of what was said before: {memory.summary}"
