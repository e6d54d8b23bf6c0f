"""Real coding agents as supervised subagents: killed, started again, and gone on with."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field

from standby_actors.agent import Agent, McpServer, Remember
from standby_actors.session import Memory, ToolStarted, ignore
from standby_actors.sessions.acp import open_acp
from standby_actors.sessions.backends import CodingAgent
from standby_actors.sessions.stdio import StdioSession
from standby_actors.subagent import Subagent, spawn, subagent
from standby_supervision import child, open_supervisor
from tests.support.clis import each_of
from tests.support.coding_agents import KINDS, PROMPT, Kind, settings
from tests.support.model_server_agents import AgentServer, agent_server
from tests.support.trees import new_spot, spotted, wait_until_gone

pytestmark = pytest.mark.clis

NATIVE = ("pi", "codex", "claude")


@define(eq=False)
class Watched:
    """A backend that remembers what it opened."""

    kind: Kind
    how: dict[str, Any]
    sessions: list[StdioSession] = field(factory=list[StdioSession])

    @asynccontextmanager
    async def open(
        self, agent: Agent, /, memory: Memory | None = None
    ) -> AsyncGenerator[StdioSession]:
        async with self.kind.opens(agent, memory=memory, **self.how) as session:
            self.sessions.append(session)
            yield session

    def kill(self) -> None:
        """Kill the program of the last one, as an out-of-memory killer would."""
        pid = self.sessions[-1].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)


def heard_of(server: AgentServer, word: str) -> bool:
    """Whether the latest request has `word` in what was said before it."""
    return word in str(server.seen[-1].body)


# To forget is the same for all; what to remember is each one's own.
@pytest.mark.parametrize(
    ("name", "remember"),
    [
        pytest.param("codex", "fresh", id="codex-fresh"),
        *(
            pytest.param(name, "fresh", id=f"{name}-fresh", marks=pytest.mark.deep)
            for name in ("pi", "claude")
        ),
        *(
            pytest.param(*each.values, "replay", id=f"{each.id}-replay", marks=each.marks)
            for each in each_of(KINDS)
        ),
    ],
)
async def test_one_that_is_killed_is_started_again_by_policy_and_goes_on(
    name: str, remember: Remember, tmp_path: Path
) -> None:
    kind, spot = KINDS[name], new_spot()
    async with agent_server() as server:
        backend = Watched(kind, settings(kind, server.url, tmp_path, spot))
        model = None if kind.opens is open_acp else "stub/stub"
        agent = Agent("scout", PROMPT, model=model, approve="allow", remember=remember)
        async with open_supervisor(
            child(subagent(agent, backend=backend), id="scout"), intensity=5, period=600
        ) as tree:
            scout = Subagent(tree["scout"])
            first = await scout.ask("remember the heron")
            assert first.ok

            # Between turns: whoever asks next is told, and the one after is answered.
            backend.kill()
            await trio.to_thread.run_sync(wait_until_gone, spot, 10.0)
            lost = await scout.ask("anybody there")
            assert lost.status == "crashed"
            after = await scout.ask("what was it")
            assert after.ok
            assert heard_of(server, "the heron") == (remember == "replay")

            # In mid-turn, with a tool at work.
            async for event in (turn := scout.stream(kind.call("sleep 600"))):
                if isinstance(event, ToolStarted):
                    backend.kill()
            assert turn.result.status == "crashed"
            # The answer with the call is counted, also where nobody told what it cost.
            assert turn.result.usage.requests == 1
            # One that was killed before it had saved its conversation is told of it, the
            # call included, which the stub must not take for a new one.
            last = await scout.ask("and now SLOW:1")
            assert last.ok
            assert heard_of(server, "the heron") == (remember == "replay")
            assert len(backend.sessions) == 3
    await trio.to_thread.run_sync(wait_until_gone, spot, 5.0)


@pytest.mark.parametrize("name", NATIVE)
async def test_it_is_spawned_asked_and_closed_as_any_other(name: str, tmp_path: Path) -> None:
    kind, spot = KINDS[name], new_spot()
    async with agent_server() as server:
        how = settings(kind, server.url, tmp_path, spot)
        backend = CodingAgent(name, how.pop("env"), options=how)
        agent = Agent("coder", PROMPT, model="stub/stub", approve="allow", backend=backend)
        async with spawn(agent, export_dir=tmp_path / "kept") as coder:
            said = await coder.ask("hello")
            worked = await coder.ask(kind.call("echo from the tool"))
        closed = await coder.close()
        assert (said.status, worked.status) == ("ok", "ok")
        assert "hello" in said.output
        assert "from the tool" in worked.output
        assert worked.usage.tool_calls == 1
        assert worked.usage.input_tokens >= 200
        assert closed.export is not None
        assert "from the tool" in await trio.Path(closed.export).read_text()
    assert spotted(spot) == []


@pytest.mark.parametrize("name", each_of(["codex", "claude", "acp", "gemini", "codex-acp"]))
async def test_its_model_is_offered_the_tools_of_its_servers(name: str, tmp_path: Path) -> None:
    kind, spot = KINDS[name], new_spot()
    server_file = Path(__file__).parents[1] / "actors" / "tools" / "mcp_server.py"
    stub = McpServer("stub", command=sys.executable, args=(str(server_file),))
    model = None if kind.opens is open_acp else "stub/stub"
    agent = Agent("scout", PROMPT, model=model, approve="allow", mcp_servers=(stub,))
    async with agent_server() as server:
        async with kind.opens(agent, **settings(kind, server.url, tmp_path, spot)) as session:
            # They start a server beside the first turn; the next one has its tools.
            for _ in range(20):
                turn = await session.ask("hello", ignore)
                assert turn.error is None
                if "Add two numbers" in str(server.seen[-1].body):
                    break
                await trio.sleep(0.5)
        assert "Add two numbers" in str(server.seen[-1].body)
    assert spotted(spot) == []
