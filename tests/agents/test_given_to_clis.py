"""What an agent has besides its prompt reaches the command line that plays it, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from standby_actors.agent import Agent, McpServer
from standby_actors.sessions.acp import open_acp
from standby_actors.sessions.backends import CodingAgent
from standby_actors.sessions.claude import open_claude
from standby_actors.sessions.codex import open_codex
from standby_actors.sessions.pi import open_pi
from standby_actors.sessions.stdio import StartFailed
from standby_actors.told import BadAgent
from tests.support.coding_agents import recorded
from tests.support.fake_program import FakeProgram

LOCAL = McpServer("notes", command="notes-mcp", args=("--stdio",), env={"KEY": "${NOTES_KEY}"})
REMOTE = McpServer("web", url="http://127.0.0.1:1/mcp", headers={"Authorization": "x"})
ENV = {"NOTES_KEY": "canary-0123456789"}


def program(name: str) -> FakeProgram:
    return FakeProgram(recorded(name))


async def test_codex_is_told_of_servers_over_its_input(
    autojump_clock: trio.testing.MockClock,
) -> None:
    fake = program("codex")
    agent = Agent("scout", "", mcp_servers=(LOCAL, REMOTE))
    async with open_codex(agent, command=["fake"], cwd="/", env=ENV, run=fake.run) as session:
        assert ENV["NOTES_KEY"] not in str(getattr(session, "command", ""))
    (start,) = [frame for frame in fake.sent if frame.get("method") == "thread/start"]
    assert start["params"]["config"]["mcp_servers"] == {
        "notes": {"command": "notes-mcp", "args": ["--stdio"], "env": {"KEY": ENV["NOTES_KEY"]}},
        "web": {"url": REMOTE.url, "http_headers": {"Authorization": "x"}},
    }


async def test_claude_reads_of_servers_in_a_file_that_is_gone_afterwards(
    autojump_clock: trio.testing.MockClock,
) -> None:
    agent = Agent("scout", "", mcp_servers=(LOCAL, REMOTE))
    fake = program("claude")
    async with open_claude(agent, command=["fake"], cwd="/", env=ENV, run=fake.run) as session:
        command: Any = getattr(session, "command", ())
        file = Path(command[command.index("--mcp-config") + 1])
        told = read_private(file)["mcpServers"]
        assert ENV["NOTES_KEY"] not in str(command)
    assert told["notes"]["env"] == {"KEY": ENV["NOTES_KEY"]}
    assert told["web"] == {"type": "http", "url": REMOTE.url, "headers": {"Authorization": "x"}}
    assert not await trio.Path(file).exists()


def read_private(file: Path) -> Any:
    """What a file holds that nobody else may read."""
    assert file.parent.stat().st_mode & 0o077 == 0
    return json.loads(file.read_text())


async def test_acp_agents_are_told_of_servers_when_a_session_begins(
    autojump_clock: trio.testing.MockClock,
) -> None:
    fake = program("gemini")
    agent = Agent("scout", "", mcp_servers=(LOCAL, REMOTE))
    async with open_acp(agent, command=["fake"], cwd="/", env=ENV, run=fake.run):
        pass
    (start,) = [frame for frame in fake.sent if frame.get("method") == "session/new"]
    local, remote = start["params"]["mcpServers"]
    assert local["env"] == [{"name": "KEY", "value": ENV["NOTES_KEY"]}]
    assert (remote["type"], remote["url"]) == ("http", REMOTE.url)


async def test_an_acp_agent_that_speaks_no_http_is_given_no_remote_server(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "fake"}}
    fake = FakeProgram([(">", {"method": "initialize"}), ("<", {"id": 1, "result": told})])
    agent = Agent("scout", "", mcp_servers=(REMOTE,))
    with pytest.raises(StartFailed, match="cannot use the MCP server 'web': it speaks http"):
        async with open_acp(agent, command=["fake"], cwd="/", env={}, run=fake.run):
            raise AssertionError


async def test_pi_refuses_servers_before_it_is_started() -> None:
    fake = program("pi")
    agent = Agent("scout", "", mcp_servers=(LOCAL,))
    with pytest.raises(ValueError, match="pi has no support for them"):
        async with open_pi(agent, command=["fake"], cwd="/", env=ENV, run=fake.run):
            raise AssertionError
    assert fake.lives == 0


async def test_skills_are_named_in_the_instructions(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    note = tmp_path / ".standby" / "skills" / "birds" / "SKILL.md"
    note.parent.mkdir(parents=True)
    note.write_text("---\nname: birds\ndescription: Tells a heron from a crane.\n---\nLook.\n")
    fake = program("codex")
    options = {"command": ["fake"], "cwd": "/", "run": fake.run}
    backend = CodingAgent("codex", {"HOME": str(tmp_path)}, options=options)
    async with backend.open(Agent("scout", "Find it.", skills=("birds",))):
        pass
    (start,) = [frame for frame in fake.sent if frame.get("method") == "thread/start"]
    said = start["params"]["developerInstructions"]
    assert said.startswith("Find it.")
    assert "Tells a heron from a crane." in said
    assert str(note) in said
    with pytest.raises(BadAgent, match="birsd"):
        backend.open(Agent("scout", "Find it.", skills=("birsd",)))
