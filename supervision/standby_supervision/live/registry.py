"""The live agents of a run: an entry is there as long as the task that holds its agent."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from standby_actors import Subagent

if TYPE_CHECKING:
    from ..runs.facts import AgentStatus


@define(eq=False)
class LiveAgent:
    """One agent that is at work, or about to be, or waits."""

    id: str
    agent: str
    incarnation: int = 1
    status: AgentStatus = "queued"
    subagent: Subagent | None = None
    began: float = field(factory=trio.current_time)
    is_recorded: bool = False
    """Its exit has been acknowledged by the store."""
    failure: str = ""
    """Why it has not."""

    def begin(self, subagent: Subagent) -> None:
        """Its session is open."""
        self.subagent, self.status = subagent, "running"


class LiveAgents:
    """Those of one run, the oldest first."""

    def __init__(self) -> None:
        self._there: dict[str, LiveAgent] = {}

    @contextmanager
    def standing(self, id: str, agent: str) -> Generator[LiveAgent]:  # noqa: A002 - as a subagent has it
        """List an agent while the block is open, in the task that holds it."""
        entry = self._there[id] = LiveAgent(id, agent)
        try:
            yield entry
        finally:
            del self._there[id]

    def all(self) -> list[LiveAgent]:
        """All of them."""
        return list(self._there.values())

    def get(self, id: str) -> LiveAgent | None:  # noqa: A002 - as above
        """The one of that id, if it is there."""
        return self._there.get(id)
