"""The sessions of one subagent: one follows another, and is told what the last one knew.

What was said belongs here, and to nobody else: a session knows its own turns, and
what it was told of those before is not repeated in its transcript.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio
from attrs import define, field

from .agent import Agent
from .context import summary_task
from .opening import Opener, recall
from .result import ChatMessage, TurnError
from .session import Condenses, Memory, Owned, Resumable, Session, export_jsonl, ignore
from .usage import Usage

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
    _hosts: trio.Nursery | None = None
    _hosted: _Hosted | None = None

    @asynccontextmanager
    async def held(self, close: Callable[[], Any], *, life: int) -> AsyncGenerator[Session]:
        """A session, open for one life of the actor, and let go of however that ends.

        Args:
            close: called, shielded by itself, before the session is let go of.
            life: which one it is, from 1; of a life before the agent says what is
                remembered.
        """
        memory = await self.inheritance() if life > 1 else self.before
        # Each session is held open by a task of its own, so that one can follow another
        # in mid-turn, and none is torn down before it has been exported and closed.
        async with trio.open_nursery() as hosts:
            hosts.cancel_scope.shield = True
            self._hosts = hosts
            try:
                yield await self._enter(memory, f"life {life}")
            finally:
                self._hosts = None
                try:
                    await close()
                finally:
                    await self._leave()

    async def hand_over(self) -> int:
        """Go on in a new session that knows a summary; returns its length in characters.

        Raises:
            NoSummary: none could be written; the session is the one it was.
            CannotRecall: there is one session only.
        """
        memory = await self._summarised(self.known())
        assert self.session is not None
        await self.session.close()
        await self._leave()
        await self._enter(memory, "a new session")
        return len(memory.summary)

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

    async def _enter(self, memory: Memory | None, what: str) -> Session:
        """Open a session, and hold it open until :meth:`_leave`."""
        assert self.opens is not None
        if self._hosts is None:
            # Of a shared actor: its sessions hold nothing open.
            async with self.opens(memory) as session:
                self._follow(session, memory, what)
        else:
            hosted = await self._hosts.start(self._host, memory)
            self._hosted = hosted
            self._follow(hosted.session, memory, what)
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

    async def _host(self, memory: Memory | None, *, task_status: trio.TaskStatus[_Hosted]) -> None:
        assert self.opens is not None
        left = trio.Event()
        try:
            with trio.CancelScope() as scope:
                async with self.opens(memory) as session:
                    hosted = _Hosted(session, scope, left=left)
                    task_status.started(hosted)
                    await hosted.leave.wait()
        finally:
            left.set()

    async def _leave(self) -> None:
        """Let go of the session that is held open; what takes its time is cut."""
        hosted, self._hosted = self._hosted, None
        if hosted is None:
            return
        hosted.leave.set()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LEAVE_SECONDS) as scope:
            await hosted.left.wait()
        if scope.cancelled_caught:
            hosted.outer.cancel()

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
        async with self.opens(None) as writer:
            with trio.fail_after(SUMMARY_SECONDS):
                turn = await writer.ask(summary_task(said), ignore)
            self.charge(writer.usage)
        if turn.error is not None:
            raise NoSummary(self.subagent, turn.error)
        return Memory(summary=turn.text)


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
