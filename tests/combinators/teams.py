"""Every combinator around the same members, and what must hold after each of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from standby_actors.agent import Agent
from standby_actors.result import Result, TurnError, failed
from standby_combinators import (
    Board,
    Chain,
    Claims,
    Fallback,
    FanOut,
    Hedge,
    Interview,
    Leased,
    Loop,
    Orchestra,
    Planning,
    Race,
    Reduce,
    Report,
    Retry,
    Review,
    Route,
    ScriptedAsker,
    Stage,
    SubagentPool,
    Swarm,
    Team,
    Vote,
    agreed,
    fan_out,
    open_fan_out,
    reduce,
    run,
)
from standby_supervision import Backoff

from .players import FakePlayer, FakeTroupe

SCOUT = Agent("scout", "Report.")
WRITER = Agent("writer", "Sum up.")
KEEPER = Agent("keeper", "Remember.", lifetime="workflow")
CHOOSER = Agent("chooser", "Choose.")
"""Whoever plans, routes, judges or interviews: it answers for each as they must."""

PLAN = json.dumps(
    [
        {"id": "a", "agent": "scout", "task": "look"},
        {"id": "b", "agent": "writer", "task": "write", "needs": ["a"]},
    ]
)

NO_WAIT = Backoff(0.0, cap=0.0, jitter=0.0)

TEAMS: dict[str, Callable[[], Team[Any]]] = {
    "chain": lambda: Chain([SCOUT, KEEPER, WRITER]),
    "fan_out": lambda: FanOut([SCOUT, KEEPER, WRITER], concurrency=2),
    "fail_fast": lambda: FanOut([SCOUT, KEEPER, WRITER], fail_fast=True),
    "quorum": lambda: FanOut([SCOUT, KEEPER, WRITER], quorum=2),
    "loop": lambda: Loop([SCOUT, KEEPER], max_iterations=3),
    "reduce": lambda: Reduce(WRITER, FanOut([SCOUT, KEEPER])),
    "route": lambda: Route(CHOOSER, [SCOUT, WRITER]),
    "race": lambda: Race([SCOUT, KEEPER, WRITER]),
    "hedge": lambda: Hedge([SCOUT, KEEPER, WRITER], after=0.7),
    "vote": lambda: Vote([SCOUT, KEEPER, WRITER]),
    "retry": lambda: Retry(SCOUT, backoff=NO_WAIT),
    "fallback": lambda: Fallback([SCOUT, KEEPER, WRITER]),
    "orchestrate": lambda: Orchestra(CHOOSER, [SCOUT, WRITER], reducer=KEEPER),
    "review": lambda: Review(SCOUT, [CHOOSER, KEEPER]),
    "swarm": lambda: Swarm([SCOUT, KEEPER, WRITER], rounds=2),
    "interview": lambda: Interview(CHOOSER, ScriptedAsker(["left"])),
    "leased": lambda: Leased(FanOut([SCOUT, KEEPER]), Claims(), ["here"]),
}
"""Each around the same three, of which one remembers."""


def in_turn(claims: Claims) -> Team[Any]:
    """Two that need the same, and so one after the other, and a third beside them."""
    return FanOut([Leased(SCOUT, claims, ["a"]), Leased(KEEPER, claims, ["a"]), WRITER])


VARIANTS: dict[str, Callable[[], Team[Any]]] = {
    "first": lambda: FanOut([SCOUT, KEEPER, WRITER], first=True),
    "split": lambda: FanOut(SCOUT, split=lambda task: [task, "other", "last"]),
    "map_reduce": lambda: Reduce(WRITER, FanOut([SCOUT] * 4), tokens=40),
    "loop until": lambda: Loop([SCOUT, KEEPER], until=lambda step, n: n == 2, stalled_after=3),
    "route with a fallback": lambda: Route(SCOUT, [KEEPER, WRITER], fallback=WRITER),
    "make_plan": lambda: Planning(CHOOSER, [SCOUT, WRITER]),
    "swarm with a board": lambda: Swarm(
        [SCOUT, KEEPER, WRITER], board=Board(), claims=Claims(["a"]), until=agreed(2)
    ),
    "swarm running free": lambda: Swarm(
        [SCOUT, KEEPER, WRITER], rounds=2, board=Board(), free_running=True
    ),
    "leased": lambda: Leased(SCOUT, Claims(), ["a"]),
    "leases in turn": lambda: in_turn(Claims()),
    "a nest": lambda: Chain([Race([Chain([KEEPER, SCOUT]), WRITER]), FanOut([Loop([KEEPER])])]),
}
"""The same combinators with other options; only the faults are played to these too."""


async def landed(**options: Any) -> Report:
    """A fan-out whose Results are taken as they land."""
    async with open_fan_out([SCOUT, KEEPER, WRITER], "begin", **options) as landing:
        async for _ in landing:
            pass
    return landing.report


CALLS: dict[str, Callable[..., Awaitable[Result]]] = {
    "run": lambda **options: run(SCOUT, "begin", **options),
    "fan_out()": lambda **options: fan_out(KEEPER, ["a", "b", "c"], concurrency=2, **options),
    "open_fan_out": landed,
    "reduce()": lambda **options: reduce(
        WRITER, [failed("a", "provider", "500")], "begin", **options
    ),
}
"""Functions that are more than a class which is asked; the others are that and no more."""

ELSEWHERE = {
    "Check": "test_check.py",
    "InCopy": "test_copies.py",
    "in_copy": "test_copies.py",
    "experiment": "test_experiment.py",
}
"""What runs programs or whole teams, which takes real time: in no table; where it is tested."""

SECONDS = {"scout": 1.0, "keeper": 1.1, "writer": 1.2}
"""No two answer at the same time, so that it is never chance who is first."""

EVERY_TEAM = pytest.mark.parametrize("name", TEAMS)


def choose(task: str) -> str:
    """What a good member answers to `task`, whoever asks it."""
    if "JSON array" in task:
        return PLAN
    if "one of these names" in task:
        return "scout"
    if "Review this work" in task:
        return "APPROVED"
    if "VOTE:" in task:
        return "VOTE: yes"
    if "Find out what" in task:
        return '{"question": "Which way?", "options": ["left", "right"]}'
    if task.startswith("The answer"):
        return "READY"
    return f"done: {task.splitlines()[0][:40]}"


async def good(task: str, player: FakePlayer) -> str:
    """Answers after a second or so, each after another time."""
    await trio.sleep(SECONDS.get(player.agent.name, 1.3))
    return choose(task)


def says(error: TurnError) -> Callable[[str, FakePlayer], Any]:
    """A mind whose every turn fails like that."""

    async def fail(task: str, player: FakePlayer) -> Result:
        await trio.sleep(1)
        return failed(player.agent.name, error)

    return fail


def leaves(report: Result) -> list[Result]:
    """The turns in `report`, those of the teams in it taken apart."""
    if not isinstance(report, Report):
        return [report]
    return [leaf for step in report.steps for leaf in leaves(step)]


class Played:
    """A team that was played on a stage that a test can look at afterwards."""

    def __init__(self, team: Team[Any], troupe: FakeTroupe, **options: Any) -> None:
        self.team = team
        self.troupe = troupe
        self.options = options
        self.pool: SubagentPool | None = None
        self.report: Any = None

    async def run(self, task: str = "begin") -> Any:
        """Play it."""
        async with SubagentPool(spawn=self.troupe.spawn, **self.options) as self.pool:
            self.report = await self.team.play(task, Stage(self.pool))
        return self.report

    def check(self) -> None:
        """What holds after every combinator, however it ended.

        All that was opened is closed; the trail has every turn; what it adds up to is
        what was spent, and what the Report says.
        """
        assert self.troupe.alive == set()
        assert self.pool is not None
        usage = self.pool.trail.usage()
        assert usage.turns == usage.output_tokens
        assert usage.turns == sum(player.usage.turns for player in self.troupe.opened)
        if self.report is not None:
            assert isinstance(self.report, Report)
            assert self.report.usage.output_tokens == usage.output_tokens
            assert self.report.usage.turns == usage.turns
            turns = leaves(self.report)
            assert sorted(map(id, turns)) == sorted(map(id, self.pool.trail.steps))
