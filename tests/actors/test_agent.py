"""An agent that could not be kept to is refused when it is made, in words that help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from standby_actors.agent import Agent, Limits, McpServer


def echo(text: str) -> str:
    return text


def test_an_agent_of_two_words_asks_for_nothing() -> None:
    agent = Agent("scout", "Find it.")
    assert agent.tools is None
    assert (agent.skills, agent.mcp_servers, agent.handoffs, agent.fallback_models) == ((),) * 4
    assert (agent.lifetime, agent.backend, agent.limits, agent.approve) == (None,) * 4
    assert (agent.context, agent.context_threshold, agent.remember) == ("fail", 0.8, "fresh")
    assert agent.must_call_tool is False


def test_lists_are_kept_as_tuples_and_each_name_once() -> None:
    agent = Agent(
        "coder",
        "Write it.",
        tools=["read", echo, "edit", "read", echo],
        skills=["python", "python"],
        fallback_models=["openai/a", "openai/b"],
        mcp_servers={"git": McpServer("git", command="git-mcp", args=["--quiet"])},
        handoffs=[Agent("scout", "Find it."), "reviewer"],
        check_input=echo,
        check_output=[echo],
        command=["pi", "--mode", "rpc"],
        cwd=Path("work"),
    )
    assert agent.tools == ("read", echo, "edit")
    assert agent.skills == ("python",)
    assert agent.fallback_models == ("openai/a", "openai/b")
    assert agent.mcp_servers == (McpServer("git", command="git-mcp", args=("--quiet",)),)
    assert agent.handoffs == (Agent("scout", "Find it."), "reviewer")
    assert (agent.check_input, agent.check_output) == ((echo,), (echo,))
    assert agent.command == ("pi", "--mode", "rpc")
    assert isinstance(hash(agent), int)


def test_no_tools_at_all_and_the_default_ones_are_told_apart() -> None:
    assert Agent("a", "b", tools=()).tools == ()
    assert Agent("a", "b", tools=None).tools is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({"lifetime": "workfow"}, "did you mean 'workflow'", id="lifetime"),
        pytest.param({"lifetime": ["task"]}, "a lifetime is one of task", id="lifetime list"),
        pytest.param({"effort": "hihg"}, "did you mean 'high'", id="effort"),
        pytest.param({"backend": "codx"}, "did you mean 'codex'", id="backend"),
        pytest.param({"backend": "acp"}, "needs command=", id="acp without a program"),
        pytest.param({"permission_mode": "yolo"}, "one of default", id="permission mode"),
        pytest.param({"context": "truncate"}, "compact, handover, fail", id="context"),
        pytest.param({"remember": "all"}, "fresh, replay, summary", id="remember"),
        pytest.param({"context_threshold": 80}, "at most 1, not 80", id="threshold in percent"),
        pytest.param({"timeout": 0}, "timeout is more than 0", id="timeout of nothing"),
        pytest.param({"timeout": float("nan")}, "timeout is more than 0", id="no number"),
        pytest.param({"concurrency": 0}, "concurrency is at least 1", id="concurrency"),
        pytest.param({"max_requests": -1}, "max_requests is at least 1", id="requests"),
        pytest.param({"tools": [" "]}, "tools holds a blank name", id="blank tool"),
        pytest.param({"command": []}, "command is a program", id="empty command"),
        pytest.param({"tools": [], "must_call_tool": True}, "must call a tool", id="must call"),
    ],
)
def test_a_wrong_value_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Agent("scout", "Find it.", **fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({"timeout": "5"}, "timeout is a number, not str", id="timeout"),
        pytest.param({"concurrency": True}, "whole number, not bool", id="concurrency"),
        pytest.param({"tools": "read"}, r"write \['read'\]", id="one text for a list of tools"),
        pytest.param({"tools": [7]}, "a tool is a name, a function or a Tool", id="a number"),
        pytest.param({"tools": [Path]}, "a tool is a name, a function or a Tool", id="a class"),
        pytest.param({"skills": "python"}, r"write \['python'\]", id="one text for skills"),
        pytest.param({"skills": [""]}, "skills holds names", id="blank skill"),
        pytest.param({"mcp_servers": [7]}, "an MCP server is a name", id="server"),
        pytest.param({"handoffs": [echo]}, "a handoff goes to an Agent", id="handoff"),
        pytest.param({"check_input": ["no"]}, "check_input holds functions", id="check"),
    ],
)
def test_a_value_of_another_type_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Agent("scout", "Find it.", **fields)


def test_whoever_opens_sessions_is_a_backend() -> None:
    class Own:
        """Opens nothing; it only has the shape of a backend."""

        def open(self) -> None: ...

    own = Own()
    assert Agent("scout", "Find it.", backend=own).backend is own


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"turns": 0}, "limit of turns is a whole number of at least 1"),
        ({"tokens": 1.5}, "limit of tokens is a whole number"),
        ({"usd": 0}, "limit of usd is more than 0"),
        ({"seconds": "1"}, "limit of seconds is more than 0"),
        ({"depth": -1}, "limit of depth is a whole number of at least 0"),
    ],
)
def test_a_limit_that_allows_nothing_is_refused(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Limits(**limits)


def test_a_limit_of_no_subagents_at_all_is_one() -> None:
    assert Limits(depth=0, descendants=0).depth == 0


def test_an_mcp_server_is_a_program_or_an_address() -> None:
    with pytest.raises(ValueError, match="it has neither"):
        McpServer("git")
    with pytest.raises(ValueError, match="it has both"):
        McpServer("git", command="git-mcp", url="http://localhost:1")


def test_no_repr_shows_what_an_mcp_server_is_given_in_secret() -> None:
    server = McpServer("git", command="git-mcp", env={"TOKEN": "hush"}, headers={"X": "hush"})
    assert "hush" not in repr(Agent("scout", "Find it.", mcp_servers=[server]))
