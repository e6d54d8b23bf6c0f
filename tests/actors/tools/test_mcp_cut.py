"""A connection to an MCP server, and a server of ours, cut at any step of the scheduler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp
import pytest
import trio
from mcp.shared.memory import create_client_server_memory_streams
from trio.testing import MockClock

from standby_actors.agent import Agent, McpServer
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import reset_ids, spawn
from standby_actors.tools import mcp_client
from standby_actors.tools.calls import CallHistory, run_calls
from standby_actors.tools.mcp_client import McpConnection, open_mcp_servers
from standby_actors.tools.mcp_serving import agent_server
from tests.actors.tools.calling import call
from tests.support.cutting import CutAt

SERVER = McpServer("ours", command=sys.executable)
SHOUTER = Agent("shouter", "Shout.", description="Says it louder.")


class House:
    """Serves an agent without a process, and knows what is open of that."""

    def __init__(self) -> None:
        self.sessions: list[ScriptedSession] = []
        self.serving = 0

    def mind(self, agent: Agent) -> ScriptedSession:
        """A session of the agent that is served."""
        self.sessions.append(ScriptedSession(lambda task: Reply("HELLO", seconds=1.0)))
        return self.sessions[-1]

    @asynccontextmanager
    async def stdio(
        self,
        command: tuple[str, ...],
        env: Mapping[str, str],
        cwd: Any,
        ended: Callable[[str], None],
    ) -> AsyncGenerator[tuple[Any, Any]]:
        """In place of a program's stdin and stdout."""
        server = agent_server([SHOUTER], spawn=lambda agent: spawn(agent, session=self.mind))
        async with (
            create_client_server_memory_streams() as (ours, theirs),
            trio.open_nursery() as nursery,
        ):
            self.serving += 1
            nursery.start_soon(server.run, *theirs, server.create_initialization_options())
            try:
                yield ours
            finally:
                self.serving -= 1
                nursery.cancel_scope.cancel()

    @property
    def all_closed(self) -> bool:
        """Nothing is served, and each agent that was asked has been closed, once."""
        return not self.serving and all(each.closed == 1 for each in self.sessions)


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    reset_ids()
    house = House()
    monkeypatch.setattr(mcp_client, "_stdio", house.stdio)
    return house


async def shouted(connection: McpConnection) -> str:
    """What one call of the tool is answered."""
    calls = [call("mcp__ours__shouter", task="hello")]
    answers = await run_calls(calls, connection.tools, CallHistory())
    return answers.answered[0].output.text


async def test_a_connection_and_a_call_through_it_that_are_cut_at_any_step_leave_nothing(
    house: House, autojump_clock: MockClock
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    said: set[str] = set()
    step = 0
    while True:
        step += 1
        with trio.CancelScope() as scope, CutAt(step, scope.cancel) as cut:
            async with open_mcp_servers([SERVER]) as [connection]:
                said.add(await shouted(connection))
        assert house.all_closed, step
        assert trio.lowlevel.current_statistics().tasks_living == before, step
        if cut.was_late:
            break
    # Whoever was not cut was answered.
    assert said == {"HELLO"}
    assert step > 50


async def test_a_call_that_is_cut_at_any_step_leaves_a_connection_that_serves(
    house: House, autojump_clock: MockClock
) -> None:
    step = 0
    async with open_mcp_servers([SERVER]) as [connection]:
        while True:
            step += 1
            with trio.CancelScope() as scope, CutAt(step, scope.cancel) as cut:
                await shouted(connection)
            assert await shouted(connection) == "HELLO", step
            # What was cut here is cut there, too, and nothing is played for nobody.
            with trio.fail_after(0.5):
                while any(each.closed != 1 for each in house.sessions):  # noqa: ASYNC110
                    await trio.sleep(0.01)
            if cut.was_late:
                break
        assert connection.starts == 1
    assert house.all_closed
    assert step > 20


async def test_a_server_of_ours_that_is_cut_at_any_step_of_a_call_closes_what_it_plays(
    house: House, autojump_clock: MockClock
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    outcomes: set[str] = set()
    step = 0
    while True:
        step += 1
        serving = trio.CancelScope()
        with CutAt(step, serving.cancel) as cut:
            outcomes.add(await served_once(house, serving))
        assert house.all_closed, step
        assert trio.lowlevel.current_statistics().tasks_living == before, step
        if cut.was_late:
            break
    assert outcomes == {"HELLO", "gone"}
    assert step > 50


async def served_once(house: House, serving: trio.CancelScope) -> str:
    """What a client hears of one call while we serve it in `serving`, or that we are gone."""
    server = agent_server([SHOUTER], spawn=lambda agent: spawn(agent, session=house.mind))
    asking = trio.CancelScope()
    said = "gone"
    async with create_client_server_memory_streams() as (ours, theirs):

        @asynccontextmanager
        async def streams() -> AsyncGenerator[Any]:
            yield ours

        async def serve() -> None:
            with serving:
                await server.run(*theirs, server.create_initialization_options())
            # What is not heard of our end by then never would be.
            asking.deadline = trio.current_time() + 5

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            try:
                with asking:
                    async with mcp.Client(streams()) as client:
                        result: Any = await client.call_tool("shouter", {"task": "hello"})
                        said = "".join(block.text for block in result.content)
            except* mcp.MCPError:
                pass  # the connection was closed, where it should be
            serving.cancel()
    return said


@pytest.mark.real
def test_serving_over_stdin_and_stdout_that_is_cut_at_any_step_gives_both_back() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.actors.tools.served_cut"],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=110,
        check=False,
    )
    said = done.stderr.decode()
    assert done.returncode == 0, said
    told = json.loads(said.splitlines()[-1])
    # Some were cut before the answer, and some after it.
    assert told["steps"] > told["answered"] > 0
