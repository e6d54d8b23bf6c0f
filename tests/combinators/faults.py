"""Members that fail in every way there is, drawn from a seed: stand-ins, and real subagents."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Protocol

import trio
from attrs import define, field

from standby_actors.agent import Agent
from standby_actors.result import Result, TurnError, failed
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.usage import Usage

from .players import FakePlayer, FakeTroupe
from .teams import SECONDS, choose, good

FAULTS = (
    "spawn fails",
    "dies mid-turn",
    "turn fails",
    "hangs",
    "ignores abort",
    "close raises",
    "garbage answers",
)
"""What can be wrong with a member; each play draws some of them."""

PROVIDER = TurnError("provider", "the server answered 500", True)
RUBBISH = '{"agent": [], "question": {}, "approved": "maybe", "needs": 7} {{ VOTE: \x00 ¬'
HANGS = 1_000.0
"""Seconds of a turn that hangs; each play is called off long before."""


@define
class Drawn:
    """Which faults strike, and how often each has."""

    source: random.Random
    kinds: tuple[str, ...]
    chance: float
    struck: Counter[str] = field(factory=Counter[str])

    def strikes(self, fault: str) -> bool:
        """Whether `fault` strikes now."""
        happens = fault in self.kinds and self.source.random() < self.chance
        self.struck[fault] += happens
        return happens

    def of_turn(self) -> str:
        """The fault of one turn; empty for none."""
        turn = ("dies mid-turn", "turn fails", "hangs", "garbage answers")
        return next((each for each in turn if self.strikes(each)), "")


class Cast(Protocol):
    """Whoever plays a combinator's turns, with what a test must know of them."""

    opened_at: list[float]
    """When each was opened."""

    def options(self) -> dict[str, Any]:
        """How a combinator is told to have them play."""
        ...

    def billed(self) -> Usage:
        """What they have asked for, whoever has heard of it."""
        ...

    def not_closed(self) -> int:
        """How many were opened, and not closed, or closed twice."""
        ...

    def most_turns(self) -> int:
        """Of whoever had the most."""
        ...


class StandIns:
    """Stand-ins that the option `spawn=` opens."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.opened_at: list[float] = []
        self.closes: Counter[str] = Counter()
        self.troupe = FakeTroupe(self._answer, opening=self._open, closing=self._close)

    def options(self) -> dict[str, Any]:
        return {"spawn": self.troupe.spawn}

    def billed(self) -> Usage:
        turns = sum(player.usage.turns for player in self.troupe.opened)
        return Usage(turns=turns, output_tokens=turns)

    def not_closed(self) -> int:
        return sum(self.closes[player.id] != 1 for player in self.troupe.opened)

    def most_turns(self) -> int:
        return max((player.usage.turns for player in self.troupe.opened), default=0)

    async def _answer(self, task: str, player: FakePlayer) -> str | Result:
        source, fault = self.drawn.source, self.drawn.of_turn()
        if self.drawn.strikes("ignores abort"):
            with trio.CancelScope(shield=True):
                await trio.sleep(source.random() * 3)
        await trio.sleep(HANGS if fault == "hangs" else source.random() * 2)
        match fault:
            case "turn fails":
                return failed(player.agent.name, PROVIDER)
            case "dies mid-turn":
                raise RuntimeError("torn")
            case "garbage answers":
                return RUBBISH
            case _:
                return await good(task, player)

    async def _open(self, agent: Agent) -> None:
        await trio.sleep(self.drawn.source.random())
        if self.drawn.strikes("spawn fails"):
            raise OSError("no more processes")
        self.opened_at.append(trio.current_time())

    async def _close(self, player: FakePlayer) -> None:
        self.closes[player.id] += 1
        if self.drawn.strikes("close raises"):
            raise OSError("the disk is full")


class FaultySession(ScriptedSession):
    """A scripted conversation that counts its closes, also those that raise."""

    closes = 0

    async def close(self) -> None:
        self.closes += 1
        await super().close()


class Subagents:
    """Subagents as they are, whose model opens conversations that fail."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.opened_at: list[float] = []
        self.sessions: list[FaultySession] = []

    def options(self) -> dict[str, Any]:
        return {"model": self}

    def session(self, agent: Agent, /) -> FaultySession:
        """A new conversation: what a model is asked for."""
        if self.drawn.strikes("spawn fails"):
            raise OSError("no more processes")
        self.opened_at.append(trio.current_time())
        broken = OSError("the disk is full") if self.drawn.strikes("close raises") else None
        made = FaultySession(lambda task: self._reply(task, agent), close_error=broken)
        made.close_seconds = 0.5
        self.sessions.append(made)
        return made

    def billed(self) -> Usage:
        turns = sum(len(session.asked) for session in self.sessions)
        return Usage(turns=turns, output_tokens=turns)

    def not_closed(self) -> int:
        return sum(session.closes != 1 for session in self.sessions)

    def most_turns(self) -> int:
        return max((len(session.asked) for session in self.sessions), default=0)

    def _reply(self, task: str, agent: Agent) -> Reply:
        source, fault = self.drawn.source, self.drawn.of_turn()
        seconds = HANGS if fault == "hangs" else SECONDS.get(agent.name, 1.3) + source.random()
        return Reply(
            RUBBISH if fault == "garbage answers" else choose(task),
            pieces=2,
            seconds=seconds,
            error=PROVIDER if fault == "turn fails" else None,
            crash=RuntimeError("torn") if fault == "dies mid-turn" else None,
            usage=Usage(requests=1, output_tokens=1),
            deaf_seconds=source.random() * 3 if self.drawn.strikes("ignores abort") else 0.0,
        )


CASTS: dict[str, type[StandIns] | type[Subagents]] = {
    "stand-ins": StandIns,
    "subagents": Subagents,
}
