"""Backends for tests: what opens scripted sessions, and says what became of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from standby_actors.agent import Agent
from standby_actors.session import Memory
from standby_actors.sessions.scripted import Script, ScriptedSession


@define(eq=False)
class Scripts:
    """A backend whose sessions play one script after the other, each with a task of its own."""

    scripts: list[Script]
    error: Exception | None = None
    """Raised in place of opening the next one, once."""
    opened: list[ScriptedSession] = field(init=False, factory=list)
    log: list[str] = field(init=False, factory=list)
    """What happened, in order."""

    @asynccontextmanager
    async def open(
        self, agent: Agent, /, memory: Memory | None = None
    ) -> AsyncGenerator[ScriptedSession]:
        """The next session."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        session = ScriptedSession(self.scripts[len(self.opened)])
        if memory is not None:
            session.recall(memory)
        self.opened.append(session)
        number = len(self.opened)
        self.log.append(f"open {number}")
        async with trio.open_nursery() as tasks:
            # What a real one has: a task that reads what the process says.
            tasks.start_soon(trio.sleep_forever)
            try:
                yield session
            finally:
                self.log.append(f"left {number}")
                tasks.cancel_scope.cancel()
