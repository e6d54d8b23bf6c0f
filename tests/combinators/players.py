"""Stand-ins for subagents, of which a test says how they open, answer, fail and close."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import trio
from attrs import define, field

from standby_actors.agent import Agent, Lifetime
from standby_actors.result import Result, failed, succeeded
from standby_actors.usage import NOTHING, Usage

Answer = Callable[[str, "FakePlayer"], Awaitable[str | Result]]


@define(eq=False)
class FakePlayer:
    """Answers with what its `answer` makes of the task, and remembers the tasks."""

    id: str
    agent: Agent
    lifetime: Lifetime | None
    answer: Answer
    memory: list[str] = field(factory=list[str])
    working: bool = False
    usage: Usage = NOTHING
    """What was billed: a token as soon as it is asked, and its time when it ends."""
    is_stopped: bool = False
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    """The turn in flight, or the next one."""

    def stop(self) -> None:
        """Cut the turn in flight, and every later one."""
        self.is_stopped = True
        self.scope.cancel()

    async def ask(self, task: str, /) -> Result:
        assert not self.working, f"{self.id} was asked while it worked"
        self.working = True
        began, before = trio.current_time(), self.usage
        self.usage = before.accumulate(Usage(turns=1, output_tokens=1))
        said: str | Result = failed(self.agent.name, "stopped")
        try:
            self.memory.append(task)
            with self.scope:
                if self.is_stopped:
                    await trio.lowlevel.checkpoint()
                said = await self.answer(task, self)
        finally:
            self.working = False
            if not self.is_stopped:
                # A scope is entered once.
                self.scope = trio.CancelScope()
            busy = Usage(busy_seconds=trio.current_time() - began)
            self.usage = self.usage.accumulate(busy)
        spent = self.usage.delta(before)
        if isinstance(said, Result):
            return msgspec.structs.replace(said, usage=spent, subagent=self.id)
        return succeeded(self.agent.name, said, subagent=self.id, usage=spent)


async def echo(task: str, player: FakePlayer) -> str:
    """Says the task again."""
    await trio.lowlevel.checkpoint()
    return task


@define(eq=False)
class FakeTroupe:
    """Spawns players, and knows which were opened and which are still open."""

    answer: Answer = echo
    opening: Callable[[Agent], Awaitable[None]] | None = None
    closing: Callable[[FakePlayer], Awaitable[None]] | None = None
    opened: list[FakePlayer] = field(factory=list[FakePlayer])
    alive: set[str] = field(factory=set[str])
    most_alive: int = 0
    _count: Counter[str] = field(factory=Counter[str])

    @asynccontextmanager
    async def spawn(
        self, agent: Agent, /, *, lifetime: Lifetime | None
    ) -> AsyncGenerator[FakePlayer]:
        self._count[agent.name] += 1
        player = FakePlayer(f"{agent.name}#{self._count[agent.name]}", agent, lifetime, self.answer)
        if self.opening is not None:
            await self.opening(agent)
        await trio.lowlevel.checkpoint()
        self.opened.append(player)
        self.alive.add(player.id)
        self.most_alive = max(self.most_alive, len(self.alive))
        try:
            yield player
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)
            self.alive.discard(player.id)
            if self.closing is not None:
                await self.closing(player)
