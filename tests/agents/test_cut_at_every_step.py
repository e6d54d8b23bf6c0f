"""A subagent that is cut at any step of the scheduler leaves nothing open, and loses no spend."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby_actors.agent import Agent, Limits
from standby_actors.budget import Budget
from standby_actors.session import Capabilities, Handoff, Memory, Session
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import reset_ids, spawn
from standby_actors.usage import Usage
from standby_combinators import SubagentPool, stop_switch
from tests.support.cutting import CutAt

SPENT = Usage(requests=1, input_tokens=10, output_tokens=3)
FULL = Usage(requests=1, input_tokens=10, output_tokens=3, context_tokens=90)


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


@define(eq=False)
class Minds:
    """Opens scripted sessions, and knows which of them were closed."""

    opened: list[ScriptedSession] = field(factory=list[ScriptedSession])

    def __call__(self, agent: Agent) -> Session:
        def rule(task: str) -> Reply:
            handoff = Handoff("clerk") if agent.handoffs else None
            usage = FULL if agent.context == "handover" else SPENT
            return Reply("said", seconds=0.5, usage=usage, handoff=handoff)

        self.opened.append(ScriptedSession(rule, capabilities=Capabilities(context_tokens=100)))
        return self.opened[-1]


@define(eq=False)
class Slow:
    """A backend that takes its time to open a session, and to let go of it."""

    minds: Minds

    @asynccontextmanager
    async def open(self, agent: Agent, /, memory: Memory | None = None) -> AsyncGenerator[Session]:
        """One session."""
        await trio.sleep(0.1)
        try:
            yield self.minds(agent)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.1)


async def asked_and_closed(minds: Minds, folder: Path) -> None:
    async with spawn(Agent("one", "Say."), session=minds, export_dir=folder) as one:
        await one.ask("a")
        await one.ask("b", timeout=0.2)
        await one.close()


async def read_while_played(minds: Minds, folder: Path) -> None:
    async with spawn(Agent("one", "Say."), session=minds) as one:
        async with one.stream("a") as events:
            async for _ in events:
                one.steer("go on")
        one.interrupt()


async def handed_over(minds: Minds, folder: Path) -> None:
    desk = Agent("desk", "Receive.", handoffs=[Agent("clerk", "File.")])
    async with spawn(desk, session=minds, export_dir=folder) as one:
        await one.ask("a")


async def gone_on_with_in_a_new_session(minds: Minds, folder: Path) -> None:
    await _gone_on(minds, session=minds, export_dir=folder)


async def gone_on_with_over_a_backend(minds: Minds, folder: Path) -> None:
    await _gone_on(minds, backend=Slow(minds), export_dir=folder)


async def _gone_on(minds: Minds, **options: Any) -> None:
    agent, budget = Agent("one", "Say.", context="handover"), Budget(Limits())
    try:
        async with spawn(agent, budget=budget, **options) as one:
            await one.ask("a")
            assert (await one.ask("b")).ok
            # In the first, in that which wrote down what is to be known, and in the second.
            assert one.usage.requests == len(minds.opened) == 3
    finally:
        asked = sum(len(each.asked) for each in minds.opened)
        assert (budget.spent.requests, budget.reserved_turns) == (asked, 0)


async def refused_by_a_budget(minds: Minds, folder: Path) -> None:
    budget = Budget(Limits(turns=1))
    async with spawn(Agent("one", "Say."), session=minds, budget=budget) as one:
        await one.ask("a")
        await one.ask("b")
    assert budget.reserved_turns == 0


async def played_by_a_pool(minds: Minds, folder: Path) -> None:
    async def shout(task: str) -> str:
        await trio.sleep(0.1)
        return task.upper()

    switch = stop_switch()
    async with SubagentPool(switch=switch) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(partial(pool.turn, shout, "a"))
        nursery.start_soon(partial(pool.turn, Agent("kept", shout, lifetime="workflow"), "b"))
        await trio.sleep(0.05)
        await switch.one("shout#1")
    assert switch.ids == ()


@pytest.mark.parametrize(
    "program",
    [
        asked_and_closed,
        read_while_played,
        handed_over,
        gone_on_with_in_a_new_session,
        gone_on_with_over_a_backend,
        refused_by_a_budget,
        played_by_a_pool,
    ],
)
async def test_cut_at_any_step_everything_is_closed_once(
    program: Callable[[Minds, Path], Awaitable[None]], tmp_path: Path, autojump_clock: MockClock
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    step = 0
    while True:
        step += 1
        minds = Minds()
        folder = tmp_path / str(step)
        with trio.CancelScope() as scope, CutAt(step, scope.cancel) as cut:
            await program(minds, folder)
        assert [session.closed for session in minds.opened] == [1] * len(minds.opened), step
        assert trio.lowlevel.current_statistics().tasks_living == before, step
        # What is written is whole.
        assert not [path for path in folder.rglob("*") if path.name.endswith((".tmp", ".part"))]
        if cut.was_late:
            break
    # Every step of the program was one at which it was cut.
    assert step > 10


async def test_a_turn_that_is_aborted_at_any_step_of_going_on_in_a_new_session_costs_no_other(
    autojump_clock: MockClock,
) -> None:
    statuses: set[str] = set()
    step = 0
    while True:
        step += 1
        minds, budget = Minds(), Budget(Limits())
        agent = Agent("one", "Say.", context="handover")
        async with spawn(agent, backend=Slow(minds), budget=budget) as one:
            await one.ask("a")
            with CutAt(step, one.abort) as cut:
                statuses.add((await one.ask("b")).status)
            assert (await one.ask("c")).ok, step
            asked = sum(len(each.asked) for each in minds.opened)
            assert one.usage.requests == budget.spent.requests == asked, step
            assert budget.reserved_turns == 0
        assert [session.closed for session in minds.opened] == [1] * len(minds.opened), step
        if cut.was_late:
            break
    assert statuses == {"ok", "aborted"}
    assert step > 10
