"""What a coding agent is told of its tools: no denial gets lost on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from standby_actors.agent import Agent
from standby_actors.sessions.commandline import named_tools
from standby_actors.subagent import spawn
from standby_actors.told import BadAgent
from standby_actors.tools.mcp_config import BadMcpConfig
from standby_actors.tools.toolbox import UnknownTool
from tests.support.coding_agents import KINDS, recorded
from tests.support.fake_program import FakeProgram

CLAUDE = {"read": "Read", "shell": "Bash"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, None, id="nothing is said"),
        pytest.param({"tools": ["read", "shell"]}, ("Read", "Bash"), id="two are named"),
        pytest.param({"tools": []}, (), id="none at all"),
        pytest.param(
            {"tools": ["read", "shell"], "disallowed_tools": ["shell"]}, ("Read",), id="one denied"
        ),
        pytest.param(
            {"disallowed_tools": ["shell"]},
            ("Read", "grep", "find", "ls", "edit", "write"),
            id="only a denial",
        ),
        pytest.param({"source": "user"}, ("Read", "grep", "find", "ls"), id="from a file"),
        pytest.param({"tools": ["shell(git log *)"]}, ("Bash(git log *)",), id="a pattern"),
    ],
)
def test_the_tools_of_an_agent_as_a_program_calls_them(
    given: dict[str, Any], expected: tuple[str, ...] | None
) -> None:
    agent = Agent("scout", "Find it.", **given)
    assert named_tools(agent, "claude", CLAUDE, patterns=True) == expected


def test_a_pattern_that_would_not_be_kept_to_is_refused() -> None:
    agent = Agent("scout", "Find it.", tools=["shell(git log *)"])
    with pytest.raises(ValueError, match=r"pi does not keep to a pattern: 'shell\(git log \*\)'"):
        named_tools(agent, "pi", {})


def test_a_function_is_nothing_for_a_program_with_tools_of_its_own() -> None:
    def look() -> str:
        """Look around."""
        return "seen"

    agent = Agent("scout", "Find it.", tools=[look])
    with pytest.raises(ValueError, match="has its own tools, by name"):
        named_tools(agent, "pi", {})


async def _opened(name: str, agent: Agent) -> int:
    """How many programs were started for `agent`."""
    program = FakeProgram(recorded(name))
    try:
        async with KINDS[name].opens(agent, command=["fake"], cwd="/", env={}, run=program.run):
            pass
    finally:
        assert program.lives == (0 if agent.name == "wrong" else 1)
    return program.lives


@pytest.mark.parametrize("field", ["tools", "disallowed_tools"])
@pytest.mark.parametrize("slip", ["raed", "reead", "Raed", "rea"])
@pytest.mark.parametrize("name", ["pi", "codex", "claude"])
async def test_a_slip_in_the_name_of_a_tool_is_refused_before_the_program_is_started(
    name: str, slip: str, field: str
) -> None:
    given: dict[str, Any] = {field: [slip]}
    with pytest.raises(UnknownTool, match=r"do you mean '[rR]ead'"):
        await _opened(name, Agent("wrong", "Find it.", **given))


@pytest.mark.parametrize(
    ("name", "slip", "meant"),
    [
        ("pi", "Bash", "shell"),
        ("pi", "Grep", "grep"),
        ("pi", "bsah", "bash"),
        ("codex", "Bash", "shell"),
        ("codex", "wriet", "write"),
        ("claude", "web_fetch", "WebFetch"),
        ("claude", "Raed(/etc/*)", "read"),
    ],
)
async def test_what_another_program_calls_it_or_its_own_name_with_a_slip_is_refused(
    name: str, slip: str, meant: str
) -> None:
    with pytest.raises(UnknownTool, match=f"do you mean '{meant}'"):
        await _opened(name, Agent("wrong", "Find it.", tools=[slip]))


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("pi", "bash"),
        ("pi", "lsp"),
        ("pi", "deploy"),
        ("codex", "deploy"),
        ("claude", "WebFetch"),
        ("claude", "Task"),
        ("claude", "mcp__reed__raed"),
        ("claude", "Deploy"),
    ],
)
async def test_what_is_known_or_like_nothing_that_is_known_is_left_to_the_program(
    name: str, tool: str
) -> None:
    assert await _opened(name, Agent("right", "Find it.", tools=[tool])) == 1


@pytest.mark.parametrize(
    ("field", "named", "error", "words"),
    [
        ("tools", "raed", BadAgent, "raed.*read"),
        ("disallowed_tools", "raed", BadAgent, "raed.*read"),
        ("skills", "daets", BadAgent, "daets.*dates"),
        ("mcp_servers", "gti", BadMcpConfig, "do you mean 'git'"),
    ],
)
async def test_a_function_that_names_what_there_is_not_is_not_spawned(
    field: str, named: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    note = tmp_path / ".standby" / "skills" / "dates" / "SKILL.md"
    note.parent.mkdir(parents=True)
    note.write_text("---\nname: dates\ndescription: Tells days apart.\n---\nLook.\n")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"git": {"command": "git-mcp"}}}')
    meant = {"raed": "read", "daets": "dates", "gti": "git"}[named]
    env = {"HOME": str(tmp_path)}

    async def answer(task: str) -> str:
        return task

    given: dict[str, Any] = {field: [named]}
    with pytest.raises(error, match=words):
        async with spawn(Agent("clerk", answer, cwd=tmp_path, **given), env=env):
            raise AssertionError("it was spawned")
    right: dict[str, Any] = {field: [meant]}
    async with spawn(Agent("clerk", answer, cwd=tmp_path, **right), env=env) as clerk:
        assert (await clerk.ask("a")).ok
