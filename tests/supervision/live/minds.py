"""Minds that read what is put into their turns, use tools, and close as badly as they like."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from standby_actors.agent import Agent
from standby_actors.result import Attachment, ToolCall
from standby_actors.session import (
    Compacted,
    Memory,
    ModelCalled,
    OnEvent,
    SessionEvent,
    Steered,
    Steering,
    ToolEnded,
    ToolStarted,
    Turn,
)
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.usage import Usage


@define(eq=False)
class Reader(ScriptedSession):
    """A session that has what was put into its turn before it every second."""

    words: list[str] = field(init=False, factory=list)
    after: list[str] = field(init=False, factory=list)
    read: list[str] = field(init=False, factory=list)

    def steer(self, text: str) -> Steering:
        """Keep a word for the next second."""
        if self.scope is None:
            return "idle"
        self.words.append(text)
        return "queued"

    def follow_up(self, text: str) -> Steering:
        """Keep a word for the end of the turn."""
        if self.scope is None:
            return "idle"
        self.after.append(text)
        return "queued"

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Play the script, reading meanwhile."""
        self.words.clear()
        self.after.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look, on_event)
            turn = await super().ask(text, on_event, attachments)
            nursery.cancel_scope.cancel()
        if turn.error is None:
            self._take(self.after, on_event)
        return turn

    async def _look(self, on_event: OnEvent) -> None:
        while True:
            await trio.sleep(1)
            self._take(self.words, on_event)

    def _take(self, words: list[str], on_event: OnEvent) -> None:
        while words:
            word = words.pop(0)
            self.read.append(word)
            on_event(Steered(word))


@define(eq=False)
class Worker(ScriptedSession):
    """A session that tells of `events`, one a second, and then answers."""

    events: tuple[SessionEvent, ...] = ()

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Tell, then play the script."""
        for event in self.events:
            on_event(event)
            await trio.sleep(1)
        return await super().ask(text, on_event, attachments)


@define(eq=False)
class Minds:
    """A backend: what it opens, and how."""

    make: Callable[[], ScriptedSession]
    open_seconds: float = 0.0
    leave_error: BaseException | None = None
    """Raised when a session is let go of."""
    opened: list[ScriptedSession] = field(init=False, factory=list)
    left: int = field(init=False, default=0)

    @asynccontextmanager
    async def open(
        self, agent: Agent, /, memory: Memory | None = None
    ) -> AsyncGenerator[ScriptedSession]:
        """Another session."""
        await trio.sleep(self.open_seconds)
        session = self.make()
        if memory is not None:
            session.recall(memory)
        self.opened.append(session)
        try:
            yield session
        finally:
            self.left += 1
            if self.leave_error is not None:
                raise self.leave_error


def reader(seconds: float = 10.0, **options: object) -> tuple[Agent, Minds]:
    """An agent that reads, and whose turns take so long."""
    minds = Minds(lambda: Reader(lambda task: Reply(f"done {task}", seconds=seconds)))
    return Agent("reader", "Read.", backend=minds, **options), minds  # type: ignore[arg-type] # of Agent


def deaf(seconds: float = 10.0, **options: object) -> tuple[Agent, Minds]:
    """An agent into whose turns nothing can be put."""
    minds = Minds(lambda: ScriptedSession(lambda task: Reply(f"done {task}", seconds=seconds)))
    return Agent("deaf", "Work.", backend=minds, **options), minds  # type: ignore[arg-type] # of Agent


def hanging(seconds: float = 60.0) -> tuple[Agent, Minds]:
    """An agent that takes so long to close."""
    minds = Minds(lambda: ScriptedSession(lambda task: Reply("done"), close_seconds=seconds))
    return Agent("hanging", "Work.", backend=minds), minds


def uses(name: str, call: str) -> ToolStarted:
    """A call of a tool begins."""
    return ToolStarted(ToolCall(call, name, f'{{"path": "{call}.py"}}'))


def used(name: str, call: str) -> ToolEnded:
    """And ends."""
    return ToolEnded(ToolCall(call, name, ""), "ok")


ONE_OF_EACH: tuple[SessionEvent, ...] = (
    uses("read", "c1"),
    uses("read", "c2"),
    used("read", "c1"),
    ModelCalled("m/small", 0.5, Usage(requests=1, context_tokens=1_200)),
    Compacted(1_200, 300),
)
