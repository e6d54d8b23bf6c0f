"""What a coding agent is told of its tools: no denial gets lost on the way."""

from __future__ import annotations

from typing import Any

import pytest

from standby_actors.agent import Agent
from standby_actors.sessions.commandline import named_tools

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
