"""An agent that must call a tool, whoever plays its turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.result import ToolCall
from standby_actors.session import Handoff, Memory, Session
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import spawn
from tests.support.coding_agents import KINDS, PROMPT, recorded
from tests.support.fake_program import FakeProgram

SCOUT = Agent("scout", PROMPT, approve="allow", must_call_tool=True)
LOOKED = Reply("it is there", calls=(ToolCall("c1", "grep", '{"what": "x"}'),))


async def test_a_turn_that_called_nothing_has_failed_and_the_next_counts_anew() -> None:
    async with spawn(SCOUT, session=ScriptedSession([LOOKED, "by heart", LOOKED])) as scout:
        looked, guessed, again = [await scout.ask("where?") for _ in range(3)]
    assert (looked.status, looked.output) == ("ok", "it is there")
    assert (guessed.status, guessed.output) == ("failed", "")
    assert str(guessed.error) == "no_tool: called no tool (must_call_tool)"
    assert guessed.error is not None
    assert guessed.error.retryable
    assert guessed.usage.turns == 1
    assert again.ok


async def test_a_turn_that_failed_otherwise_says_why_and_one_without_the_rule_may_guess() -> None:
    free = Agent("scout", PROMPT)
    async with spawn(free, session=ScriptedSession(["by heart"])) as scout:
        assert (await scout.ask("where?")).ok
    async with spawn(SCOUT, session=ScriptedSession([])) as scout:
        failed = await scout.ask("where?")
    assert failed.error is not None
    assert failed.error.kind == "protocol"


async def test_to_hand_over_is_to_call_a_tool() -> None:
    coder = Agent("coder", PROMPT)
    giver = Agent("scout", PROMPT, must_call_tool=True, handoffs=[coder])

    def session(agent: Agent) -> ScriptedSession:
        return ScriptedSession(
            [Reply("over", handoff=Handoff("coder")) if agent.name == "scout" else "done"]
        )

    async with spawn(giver, session=session) as scout:
        result = await scout.ask("do it")
    assert (result.status, result.output, result.agent) == ("ok", "done", "coder")


class Recorded:
    """Opens sessions with programs that play a recording."""

    def __init__(self, name: str) -> None:
        self.kind = KINDS[name]
        self.program = FakeProgram(recorded(name))

    @asynccontextmanager
    async def open(self, agent: Agent, memory: Memory | None = None) -> AsyncGenerator[Session]:
        """A session with such a program."""
        opened: Any = self.kind.opens(
            agent, command=["fake"], cwd="/", env={}, run=self.program.run, **self.kind.more
        )
        async with opened as session:
            yield session


@pytest.mark.parametrize("name", ["pi", "codex", "claude", "gemini"])
async def test_a_coding_agent_that_called_nothing_has_failed_too(
    name: str, autojump_clock: MockClock
) -> None:
    backend = Recorded(name)
    async with spawn(SCOUT, backend=backend) as scout:
        said = await scout.ask("hello")
        called = await scout.ask(backend.kind.call("echo from the tool"))
    assert said.error is not None
    assert (said.status, said.error.kind) == ("failed", "no_tool")
    assert called.ok


async def test_a_function_has_no_tools_and_is_not_made_to_call_one() -> None:
    async def answer(task: str) -> str:
        return task

    with pytest.raises(ValueError, match=r"'clerk' must call a tool, and its mind is a function"):
        Agent("clerk", answer, must_call_tool=True)
