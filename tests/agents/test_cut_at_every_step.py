"""A subagent that is cut at any step of the scheduler leaves nothing open, and loses no spend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby_actors.agent import Agent, Limits
from standby_actors.budget import Budget
from standby_actors.session import Handoff, Session
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import reset_ids, spawn
from standby_actors.usage import Usage
from standby_combinators import SubagentPool, stop_switch

SPENT = Usage(requests=1, input_tokens=10, output_tokens=3)


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


class CutAt(trio.abc.Instrument):
    """Cancels `scope` at the `step`th step of any task from here on."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.scope, self.left = scope, step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


@define(eq=False)
class Minds:
    """Opens scripted sessions, and knows which of them were closed."""

    opened: list[ScriptedSession] = field(factory=list[ScriptedSession])

    def __call__(self, agent: Agent) -> Session:
        def rule(task: str) -> Reply:
            handoff = Handoff("clerk") if agent.handoffs else None
            return Reply("said", seconds=0.5, usage=SPENT, handoff=handoff)

        self.opened.append(ScriptedSession(rule))
        return self.opened[-1]


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
    [asked_and_closed, read_while_played, handed_over, refused_by_a_budget, played_by_a_pool],
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
        with trio.CancelScope() as scope:
            cut = CutAt(scope, step)
            trio.lowlevel.add_instrument(cut)
            try:
                await program(minds, folder)
            finally:
                trio.lowlevel.remove_instrument(cut)
        assert [session.closed for session in minds.opened] == [1] * len(minds.opened), step
        assert trio.lowlevel.current_statistics().tasks_living == before, step
        # What is written is whole.
        assert not [path for path in folder.rglob("*") if path.name.endswith((".tmp", ".part"))]
        if cut.left > 0:
            break
    # Every step of the program was one at which it was cut.
    assert step > 10
