"""Checks before and behind a mind."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.sessions.scripted import ScriptedSession
from standby_actors.subagent import spawn


def no_secrets(text: str) -> str | None:
    """Refuses what speaks of passwords."""
    return "it speaks of passwords" if "password" in text else None


async def slow_check(text: str) -> str | None:
    """Refuses nothing, after a second."""
    await trio.sleep(1)
    return None


async def test_a_refused_task_does_not_reach_the_mind() -> None:
    agent = Agent("scout", "Find it.", check_input=no_secrets)
    mind = ScriptedSession(["yes"])
    async with spawn(agent, session=mind) as scout:
        refused = await scout.ask("the password is 1234")
        taken = await scout.ask("hello")
    assert (refused.status, str(refused.error)) == (
        "refused",
        "refused: the input was refused: it speaks of passwords",
    )
    assert refused.usage.turns == 0
    assert taken.ok
    assert mind.asked == ["hello"]


async def test_a_refused_answer_is_not_given_out_and_costs_what_it_cost() -> None:
    agent = Agent("scout", "Find it.", check_output=[slow_check, no_secrets])
    mind = ScriptedSession(["the password is 1234"])
    async with spawn(agent, session=mind) as scout:
        result = await scout.ask("what is it?")
    assert (result.status, result.output) == ("refused", "")
    assert result.usage.turns == 1


async def test_a_check_is_bounded_by_the_turns_time(autojump_clock: MockClock) -> None:
    agent = Agent("scout", "Find it.", check_input=slow_check)
    async with spawn(agent, session=ScriptedSession(["yes"])) as scout:
        assert (await scout.ask("a", timeout=0.5)).status == "timed_out"


async def test_a_check_that_answers_nonsense_is_its_authors_error() -> None:
    agent = Agent("scout", "Find it.", check_input=lambda text: True)
    with pytest.raises(ExceptionGroup) as caught:
        async with spawn(agent, session=ScriptedSession(["yes"])) as scout:
            await scout.ask("a")
    assert caught.group_contains(TypeError, match="as a str")
