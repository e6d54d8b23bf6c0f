"""Stand-ins for backends, of which a test says how many they hold and how they close."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field

from standby_actors.agent import Agent, Lifetime
from standby_actors.mind import Closed
from standby_actors.result import Result, succeeded
from standby_supervision.ledger import (
    Fact,
    Rows,
    SessionLedger,
    SessionLimit,
    apply,
    decode_fact,
    encode_fact,
    fold,
)


async def echo(task: str) -> str:
    """Says the task again."""
    await trio.lowlevel.checkpoint()
    return task


async def slow(task: str) -> str:
    """Says it after ten seconds."""
    await trio.sleep(10)
    return task


@define(eq=False)
class Session:
    """Plays turns with a function, and closes as its backend says."""

    id: str
    agent: Agent
    backend: Backend
    tasks: list[str] = field(factory=list[str])

    async def ask(self, task: str, /) -> Result:
        self.tasks.append(task)
        await trio.lowlevel.checkpoint()
        mind: Any = self.agent.mind
        said = await mind(task)
        return said if isinstance(said, Result) else succeeded(self.agent.name, said)


@define(eq=False)
class ClosingSession(Session):
    """One that can be closed."""

    async def close(self) -> Closed:
        self.backend.closes.append(self.id)
        closed = await self.backend.closing(self)
        if closed.closed:
            self.backend.open.pop(self.id, None)
        return closed


async def closes(session: Session) -> Closed:
    """Closes at once."""
    await trio.lowlevel.checkpoint()
    return Closed(True)


@define(eq=False)
class Backend:
    """Opens sessions, as many at a time as it allows."""

    most: float = float("inf")
    closing: Callable[[Session], Awaitable[Closed]] = closes
    can_close: bool = True
    has_ids: bool = True
    open: dict[str, Session] = field(factory=dict[str, Session])
    opened: list[Session] = field(factory=list[Session])
    tried: list[Agent] = field(factory=list[Agent])
    closes: list[str] = field(factory=list[str])
    _count: Counter[str] = field(factory=Counter[str])

    @asynccontextmanager
    async def spawn(
        self, agent: Agent, /, *, lifetime: Lifetime | None, **options: Any
    ) -> AsyncGenerator[Session]:
        self.tried.append(agent)
        await trio.lowlevel.checkpoint()
        if len(self.open) >= self.most:
            raise SessionLimit("the fake backend")
        self._count[agent.name] += 1
        number = f"{agent.name}#{self._count[agent.name]}"
        kind = ClosingSession if self.can_close else Session
        session = kind(number if self.has_ids else "", agent, self)
        self.open[number] = session
        self.opened.append(session)
        try:
            yield session
        finally:
            self.open.pop(number, None)


@define(eq=False)
class Journal:
    """Keeps facts as JSON, each after a moment, in the order of the calls."""

    lines: list[bytes] = field(factory=list[bytes])

    async def record(self, fact: Fact) -> None:
        self.lines.append(encode_fact(fact))
        await trio.lowlevel.checkpoint()

    @property
    def facts(self) -> list[Fact]:
        return [decode_fact(line) for line in self.lines]

    @property
    def kinds(self) -> list[str]:
        return [str(fact.__struct_config__.tag) for fact in self.facts]

    def check(self, ledger: SessionLedger) -> None:
        """What the ledger holds is what its record comes to, in both ways of folding."""
        held, one_by_one = ledger.rows, Rows()
        for fact in self.facts:
            one_by_one = apply(one_by_one, fact)
        assert fold(self.facts) == held
        assert one_by_one == held
        spawned = [n for n, row in held.sessions.items() if row.operation is not None]
        ends = Counter(
            str(getattr(fact, "name", ""))
            for fact in self.facts
            if str(fact.__struct_config__.tag)
            in ("session.closed", "session.not_closed", "session.close_unavailable")
        )
        assert all(ends[name] == 1 for name in spawned), ends


@define(eq=False)
class Stage:
    """A ledger, its record, and the backend below it."""

    backend: Backend
    journal: Journal
    ledger: SessionLedger


def stage(backend: Backend | None = None, **options: Any) -> Stage:
    """A ledger over a fake backend, which records in a journal."""
    backend = backend or Backend()
    journal = Journal()
    options = {"spawn": backend.spawn, **options}
    return Stage(backend, journal, SessionLedger(journal.record, **options))
