"""Residents, of lifetime "session": who asks pays, and one whose session died is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from standby_actors import open_nursery
from standby_actors.agent import Agent, Limits, Remember
from standby_actors.budget import Budget
from standby_actors.result import TurnError
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import reset_ids, spawn
from standby_actors.usage import Usage
from standby_combinators import SubagentPool
from tests.agents.minds import Scripts

COST = Usage(requests=1, output_tokens=10)
GONE = Reply("", error=TurnError("dead", "the process is gone"), dead=True, usage=COST)


@pytest.fixture(autouse=True)
def _counted_from_one() -> None:
    reset_ids()


def resident(*scripts: list[str | Reply], limits: Limits | None = None) -> Agent:
    """One whose sessions play one script after the other."""
    minds = Scripts([list(each) for each in scripts])
    return Agent("friend", "Be kind.", lifetime="session", backend=minds, limits=limits)


def paid(count: int) -> list[str | Reply]:
    """Turns that cost ten tokens each."""
    return [Reply("yes", usage=COST)] * count


@pytest.mark.parametrize("remember", ["fresh", "replay"])
async def test_one_whose_session_died_is_replaced_and_closed(remember: Remember) -> None:
    minds = Scripts([[GONE], ["two", "three"]])
    agent = Agent("friend", "Be kind.", lifetime="session", backend=minds, remember=remember)
    async with open_nursery() as session:
        told: list[tuple[str, str]] = []
        for task in "abc":
            async with spawn(agent, within=session) as friend:
                told.append((friend.id, (await friend.ask(task)).status))
        assert told == [("friend#1", "crashed"), ("friend#2", "ok"), ("friend#2", "ok")]
        # What nobody holds is not kept until the end of the session.
        assert "left 1" in minds.log
        assert "left 2" not in minds.log
    recalled = minds.opened[1].recalled
    texts = None if recalled is None else [each.text for each in recalled.messages if each.text]
    assert texts == (None if remember == "fresh" else ["a"])


async def test_a_pool_replaces_a_resident_whose_session_died() -> None:
    agent = resident([GONE], ["two"], ["three"])
    async with open_nursery() as session:
        told: list[tuple[str, str]] = []
        async with SubagentPool(within=session) as pool:
            for task in "ab":
                result = await pool.turn(agent, task)
                told.append((result.subagent, result.status))
        assert told == [("friend#1", "crashed"), ("friend#2", "ok")]


async def test_one_that_died_is_closed_by_who_holds_it_last() -> None:
    minds = Scripts([[GONE], ["two"]])
    agent = Agent("friend", "Be kind.", lifetime="session", backend=minds)
    async with open_nursery() as session:
        async with spawn(agent, within=session) as old:
            await old.ask("a")
            async with spawn(agent, within=session) as new:
                assert (await new.ask("b")).output == "two"
                # It answers as before, with a Result.
                assert (await old.ask("c")).status == "crashed"
            assert "left 1" not in minds.log
        assert minds.log[-1] == "left 1"


async def test_whoever_asks_pays(autojump_clock: MockClock) -> None:
    first, second = Budget(Limits(turns=2), name="one"), Budget(Limits(turns=1), name="two")
    agent = resident(paid(9))
    async with open_nursery() as session:
        statuses: list[list[str]] = []
        for budget in (first, second, None):
            async with SubagentPool(within=session, budget=budget) as pool:
                statuses.append([(await pool.turn(agent, "a")).status for _ in range(3)])
            async with spawn(agent, within=session, budget=budget) as friend:
                assert friend.budget is budget
    assert statuses == [["ok", "ok", "budget"], ["ok", "budget", "budget"], ["ok"] * 3]
    assert (first.spent.turns, first.spent.output_tokens) == (2, 20)
    assert (second.spent.turns, second.spent.output_tokens) == (1, 10)
    assert (first.reserved_turns, second.reserved_turns) == (0, 0)


async def test_its_agents_own_limits_hold_for_all_who_ask_and_theirs_besides() -> None:
    agent = resident(paid(9), limits=Limits(turns=3))
    one, two = Budget(Limits(tokens=10)), Budget(Limits())
    async with open_nursery() as session:
        statuses: list[list[str]] = []
        for budget in (one, two):
            async with spawn(agent, within=session, budget=budget) as friend:
                statuses.append([(await friend.ask("a")).status for _ in range(3)])
    assert statuses == [["ok", "budget", "budget"], ["ok", "ok", "budget"]]
    assert (one.spent.turns, two.spent.turns) == (1, 2)


async def test_two_who_hold_it_at_once_each_pay_their_own_and_wait_their_own_time(
    autojump_clock: MockClock,
) -> None:
    one, two = Budget(Limits(tokens=15)), Budget(Limits())
    agent = resident([Reply("yes", seconds=3.0, usage=COST)] * 4)
    async with (
        open_nursery() as session,
        spawn(agent, within=session, budget=one) as here,
        spawn(agent, within=session, budget=two, timeout=1.0) as there,
    ):
        statuses: dict[str, str] = {}

        async def ask(name: str) -> None:
            handle = here if name == "here" else there
            statuses[name] = (await handle.ask("a")).status

        async with trio.open_nursery() as tasks:
            for name in ("here", "there"):
                tasks.start_soon(ask, name)
                await trio.sleep(0.1)
    assert statuses == {"here": "ok", "there": "timed_out"}
    assert (one.spent.output_tokens, two.spent.output_tokens) == (10, 10)


async def test_a_later_limit_in_dollars_needs_a_price() -> None:
    dear = ScriptedSession(["yes"], model="acme/large")
    agent = Agent("friend", "Be kind.", lifetime="session")
    async with open_nursery() as session:
        async with spawn(agent, within=session, session=dear) as friend:
            assert friend.model == "acme/large"
        with pytest.raises(ValueError, match="nobody says what acme/large costs"):
            async with spawn(agent, within=session, budget=Budget(Limits(usd=1.0))):
                pass


async def test_what_belongs_to_it_is_as_it_was_spawned_with(tmp_path: Path) -> None:
    agent = resident(["one", "two"])
    async with open_nursery() as session:
        for folder in ("first", "second"):
            async with spawn(agent, within=session, export_dir=tmp_path / folder) as friend:
                assert (await friend.ask("a")).ok
    assert (tmp_path / "first").exists()
    assert not (tmp_path / "second").exists()
