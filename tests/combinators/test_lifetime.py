"""Who is born when, who remembers what, and who closes whom, in every combinator."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent, Lifetime
from standby_actors.sessions.scripted import ScriptedSession
from standby_actors.subagent import spawn
from standby_combinators import (
    Chain,
    FanOut,
    Loop,
    Reduce,
    chain,
    fan_out,
    interview,
    loop,
    review,
    run,
)
from standby_combinators.asker import ScriptedAsker

from .players import FakeTroupe, echo
from .teams import CHOOSER, EVERY_TEAM, KEEPER, SCOUT, TEAMS, Played, good

CODER = Agent("coder", "Write.", lifetime="workflow")
REVIEWER = Agent("reviewer", "Judge.", lifetime="workflow")

LOOPS: list[tuple[list[Agent], Lifetime | None, int]] = [
    ([CODER, REVIEWER], "task", 6),
    ([CODER, REVIEWER], "workflow", 2),
    ([CODER, REVIEWER], None, 2),
    ([CODER, SCOUT], None, 4),
    ([SCOUT, SCOUT], None, 6),
    ([SCOUT, SCOUT], "workflow", 1),
]


@pytest.mark.parametrize(("members", "lifetime", "spawned"), LOOPS)
async def test_a_loop_of_three_iterations_spawns_as_its_lifetimes_say(
    autojump_clock: trio.testing.MockClock,
    members: list[Agent],
    lifetime: Lifetime | None,
    spawned: int,
) -> None:
    troupe = FakeTroupe()
    await loop(members, "a", max_iterations=3, lifetime=lifetime, spawn=troupe.spawn)
    assert len(troupe.opened) == spawned
    assert troupe.alive == set()


async def test_a_member_of_a_nested_team_remembers_as_one_beside_it_does(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    await loop([Chain([CODER, REVIEWER])], "a", max_iterations=3, spawn=troupe.spawn)
    assert [len(player.memory) for player in troupe.opened] == [3, 3]


async def test_branches_share_no_memory_however_deep_they_nest(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    inner = FanOut([KEEPER, KEEPER])
    await fan_out([inner, Chain([KEEPER, KEEPER])], "a", spawn=troupe.spawn)
    assert sorted(len(player.memory) for player in troupe.opened) == [1, 1, 2]


async def test_a_branch_keeps_its_own_memory_over_the_iterations_of_a_loop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    await Loop([FanOut([KEEPER, KEEPER])], max_iterations=3).ask("a", spawn=troupe.spawn)
    assert [len(player.memory) for player in troupe.opened] == [3, 3]


@pytest.mark.parametrize("lifetime", ["task", "workflow"])
async def test_a_reduction_spawns_its_reducer_once_whatever_the_lifetime(
    autojump_clock: trio.testing.MockClock, lifetime: Lifetime
) -> None:
    troupe = FakeTroupe()
    team = Reduce(CODER, FanOut([SCOUT, SCOUT]))
    await team.ask("a", lifetime=lifetime, spawn=troupe.spawn)
    assert [player.agent for player in troupe.opened].count(CODER) == 1


@EVERY_TEAM
@pytest.mark.parametrize("lifetime", ["task", "workflow", None])
async def test_whoever_opens_closes(
    autojump_clock: trio.testing.MockClock, name: str, lifetime: Lifetime | None
) -> None:
    played = Played(TEAMS[name](), FakeTroupe(good), lifetime=lifetime)
    assert (await played.run()).ok
    played.check()


async def test_a_run_is_for_one_task_whatever_its_agent_wants(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    await run(KEEPER, "a", spawn=troupe.spawn, lifetime="workflow")
    assert troupe.opened[0].lifetime == "task"


async def test_an_interviewer_is_held_whatever_its_lifetime(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe(good)
    done = await interview(CHOOSER, "x", ScriptedAsker(["1"]), lifetime="task", spawn=troupe.spawn)
    assert done.ok
    assert [len(player.memory) for player in troupe.opened] == [3]


async def test_a_reviewer_that_remembers_is_one_and_fresh_eyes_are_many(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def never(task: str, player: object) -> str:
        return "It is not good enough."

    for reviewer, spawned in ((REVIEWER, 2), (SCOUT, 4)):
        troupe = FakeTroupe(never)
        done = await review(CODER, reviewer, "Build it.", spawn=troupe.spawn)
        assert (done.ok, done.approved, done.rounds) == (True, False, 3)
        assert len(troupe.opened) == spawned


async def test_a_subagent_that_was_handed_in_outlives_the_team(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = ScriptedSession(["a", "b", "c"])
    async with spawn(CODER, session=session) as mine:
        await chain([mine, SCOUT], "x", spawn=FakeTroupe(echo).spawn)
        await Loop([mine], max_iterations=1).ask("y", spawn=FakeTroupe().spawn)
        assert session.closed == 0
        assert (await mine.ask("z")).output == "c"
    assert session.closed == 1


async def test_every_member_of_a_team_is_exported_where_it_was_asked_for(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async def shout(task: str) -> str:
        return task.upper()

    agent = Agent("shout", shout)
    await fan_out([agent, Chain([agent, agent])], "a", export_dir=tmp_path)
    written = [path.suffix for path in await trio.Path(tmp_path).iterdir()]
    assert written.count(".jsonl") >= 3
