"""Who is alive already is asked as others are: in time, for a budget, and never closed."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from standby import Actor, open_nursery
from standby_actors.agent import Agent, Lifetime, Limits
from standby_actors.budget import Budget
from standby_actors.result import Result
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import spawn
from standby_actors.usage import Usage
from standby_combinators import Chain, Signal, SubagentPool, chain, fan_out, stop_switch

SCOUT = Agent("scout", "Report.")
SPENT = Usage(requests=1, input_tokens=10, output_tokens=3)


def said(seconds: float = 0.0) -> ScriptedSession:
    """Answers every task, at ten tokens and three."""
    return ScriptedSession(lambda task: Reply(f"heard {task}", seconds=seconds, usage=SPENT))


class Archive(Actor):
    """Answers, and says nothing of what that costs."""

    async def receive(self, question: str) -> str:
        await trio.sleep(1)
        return question


async def test_what_a_borrowed_subagent_costs_is_paid_from_the_budget_of_the_team() -> None:
    budget = Budget(Limits(tokens=30), name="the team")
    async with spawn(SCOUT, session=said()) as mine:
        team = Chain([mine, Chain([mine, mine]), mine])
        done = await team.ask("go", budget=budget)
        # It is known what a turn of it costs: none begins that would cost too much.
        assert done.status == "budget"
        assert done.usage.turns == budget.spent.turns == 2
        assert budget.spent.input_tokens == 20
        assert budget.reserved_turns == 0
        assert (await mine.ask("more")).ok


async def test_who_pays_from_the_same_budget_already_does_not_make_it_pay_twice() -> None:
    run = Budget(Limits(turns=9), name="the run")
    team, other = run.below(name="the team"), run.below(name="another")
    async with spawn(SCOUT, session=said(), budget=other) as mine:
        done = await chain([mine, mine], "go", budget=team)
        assert done.ok
    assert (team.spent.turns, other.spent.turns, run.spent.turns) == (2, 2, 2)
    async with spawn(SCOUT, session=said(), budget=team) as mine:
        await chain([mine], "go", budget=team)
    assert (team.spent.turns, run.spent.turns) == (3, 3)


async def test_a_member_that_does_not_say_what_it_costs_has_had_a_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    budget = Budget(Limits(turns=2))
    signal = Signal()
    async with open_nursery() as nursery:
        archive = nursery.spawn(Archive)
        assert (await chain([archive], "a", budget=budget)).ok
        done = await chain([archive], "b", budget=budget, timeout=0.5)
        assert (done.status, done.usage.turns) == ("timed_out", 1)
        assert (await chain([archive], "c", budget=budget)).status == "budget"
        async with trio.open_nursery() as tasks:

            async def call_off() -> None:
                await trio.sleep(0.5)
                signal.set("enough")

            tasks.start_soon(call_off)
            done = await chain([archive], "d", signal=signal)
        assert (done.status, done.usage.turns, done.usage.busy_seconds) == ("aborted", 1, 0.5)
        assert archive.is_alive
    assert budget.spent.turns == 2


async def test_the_time_of_a_budget_is_up_for_who_is_borrowed_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with spawn(SCOUT, session=said(60)) as mine:
        done = await chain([mine], "go", budget=Budget(Limits(seconds=5)), timeout=100)
        assert (done.status, done.usage.input_tokens) == ("budget", 10)
    assert trio.current_time() < 7


async def test_branches_that_share_a_subagent_pay_for_its_turns_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    signal = Signal()
    async with spawn(SCOUT, session=said(4)) as mine:
        async with trio.open_nursery() as nursery:

            async def call_off() -> None:
                await trio.sleep(6)
                signal.set("enough")

            nursery.start_soon(call_off)
            done = await fan_out([mine] * 4, "go", signal=signal)
        statuses = [step.status for step in done.steps]
        assert statuses.count("ok") == 1
        assert statuses.count("aborted") == 3
        assert done.usage.turns == mine.usage.turns == 2
        assert done.usage.input_tokens == mine.usage.input_tokens == 20


async def test_two_pools_share_an_agent_and_each_has_its_own_subagent_of_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    keeper = Agent("keeper", "Remember.", lifetime="workflow")
    ones, others = Model(), Model()
    async with SubagentPool(model=ones) as one:
        async with SubagentPool(model=others) as other, trio.open_nursery() as nursery:
            for pool in (one, other, one, other):
                nursery.start_soon(pool.turn, keeper, "go")
        # The one that is left does not notice that the other has closed.
        assert (ones.closed, others.closed) == ([0], [1])
        assert (await one.turn(keeper, "more")).ok
    assert [len(each.asked) for each in ones.sessions + others.sessions] == [3, 2]
    assert (ones.closed, others.closed) == ([1], [1])


class Model:
    """Opens conversations whose turns take a second, and keeps them for the test."""

    def __init__(self) -> None:
        self.sessions: list[ScriptedSession] = []

    @property
    def closed(self) -> list[int]:
        """How often each was closed."""
        return [each.closed for each in self.sessions]

    def session(self, agent: Agent, /) -> ScriptedSession:
        self.sessions.append(said(1))
        return self.sessions[-1]


async def test_two_pools_share_a_subagent_and_a_switch_of_one_leaves_it_to_the_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    switch = stop_switch()
    async with spawn(SCOUT, session=said(2)) as mine:
        results: list[Result] = []

        async def ask(pool: SubagentPool) -> None:
            results.append(await pool.turn(mine, "go"))

        async with (
            SubagentPool(switch=switch) as one,
            SubagentPool() as other,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(ask, one)
            nursery.start_soon(ask, other)
            await trio.sleep(1)
            # It is not this switch's to stop, whoever asks it; what it plays is called off.
            assert not await switch.one(mine.id)
            await switch.all()
        assert sorted(each.status for each in results) == ["ok", "stopped"]
        assert not mine.is_stopped


@pytest.mark.parametrize("lifetime", ["task", "workflow"])
async def test_what_fails_because_it_is_cut_is_said_to_be_cut(
    autojump_clock: trio.testing.MockClock, lifetime: Lifetime
) -> None:
    async def torn(task: str) -> str:
        try:
            await trio.sleep(60)
        except trio.Cancelled:
            raise RuntimeError("torn by the cut") from None
        return task

    class Odd:
        name = "odd"

        async def ask(self, task: str) -> str:
            return await torn(task)

    signal = Signal()
    async with trio.open_nursery() as nursery:

        async def call_off() -> None:
            await trio.sleep(1)
            signal.set("enough")

        nursery.start_soon(call_off)
        done = await fan_out([Odd(), Agent("torn", torn)], "go", signal=signal, lifetime=lifetime)
    assert [step.status for step in done.steps] == ["aborted", "aborted"]
