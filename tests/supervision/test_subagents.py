"""A subagent below a supervisor: restarted by policy, with as much memory as its agent wants."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.result import TurnError
from standby_actors.session import Memory
from standby_actors.sessions.scripted import Reply
from standby_actors.subagent import Subagent, reset_ids, subagent
from standby_supervision import GaveUp, child, open_supervisor
from tests.agents.minds import Scripts

GONE = Reply("", error=TurnError("dead", "the process is gone"), dead=True)


@pytest.fixture(autouse=True)
def _counted_from_one() -> None:
    reset_ids()


def scout(remember: Any = "fresh") -> Agent:
    return Agent("scout", "Find it.", remember=remember)


async def test_a_session_that_has_died_is_followed_by_another(
    autojump_clock: MockClock,
) -> None:
    minds = Scripts([["one", GONE], ["two"]])
    async with open_supervisor(child(subagent(scout(), backend=minds), id="scout")) as tree:
        first = Subagent(tree["scout"])
        assert (await first.ask("a")).output == "one"
        died = await first.ask("b")
        assert (died.status, died.subagent) == ("crashed", "scout#1")
        after = await first.ask("c")
        assert (after.output, after.subagent) == ("two", "scout#1")
        assert tree["scout"].incarnation == 2
    assert minds.log == ["open 1", "left 1", "open 2", "left 2"]
    assert minds.opened[1].recalled is None


async def test_replay_shows_it_what_was_said(autojump_clock: MockClock) -> None:
    minds = Scripts([["one", GONE], ["two", GONE], ["three"]])
    start = subagent(scout("replay"), backend=minds)
    async with open_supervisor(child(start, id="scout")) as tree:
        handle = Subagent(tree["scout"])
        for each in "abcd":
            await handle.ask(each)
        last = await handle.ask("e")
        assert last.output == "three"
    recalled = minds.opened[2].recalled
    assert recalled is not None
    said = [message.text for message in recalled.messages if message.text]
    assert said == ["a", "one", "b", "c", "two", "d"]


async def test_summary_gives_it_the_gist(autojump_clock: MockClock) -> None:
    minds = Scripts([["one", GONE], ["it was about dates"], ["two"]])
    start = subagent(scout("summary"), backend=minds)
    async with open_supervisor(child(start, id="scout")) as tree:
        handle = Subagent(tree["scout"])
        for each in "abc":
            result = await handle.ask(each)
        assert result.output == "two"
    recalled = minds.opened[2].recalled
    assert recalled == Memory(summary="it was about dates")


async def test_a_mind_that_cannot_be_opened_uses_up_the_intensity(
    autojump_clock: MockClock,
) -> None:
    minds = Scripts([[GONE], [GONE]])

    async def live() -> None:
        async with open_supervisor(
            child(subagent(scout(), backend=minds), id="scout"), intensity=1, period=60
        ) as tree:
            handle = Subagent(tree["scout"])
            for each in "abc":
                await handle.ask(each)
            await tree.join()

    with pytest.raises(GaveUp):
        await live()


async def test_a_plain_agent_is_a_child_too(autojump_clock: MockClock) -> None:
    async def shout(task: str) -> str:
        return task.upper()

    async with open_supervisor(child(Agent("shouter", shout), id="shouter")) as tree:
        assert (await Subagent(tree["shouter"]).ask("hey")).output == "HEY"
        with pytest.raises(RuntimeError, match="terminate it there"):
            await Subagent(tree["shouter"]).close()
