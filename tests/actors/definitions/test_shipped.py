"""The agents that come with the package are there, whole, and say what others rely on."""

from __future__ import annotations

import pytest

from standby_actors.agent import Agent, Lifetime
from standby_actors.definitions.allowlist import check_tools
from standby_actors.definitions.discovery import load_agents
from standby_actors.definitions.vocabulary import READING, granted

FOUND = load_agents("/", scope="project", home="/nowhere", env={})

EXPECTED: dict[str, Lifetime] = {
    "scout": "task",
    "coder": "workflow",
    "reviewer": "workflow",
    "planner": "task",
    "router": "task",
    "synthesiser": "task",
    "interviewer": "workflow",
    "auditor": "task",
    "committer": "task",
}


def test_they_are_all_there_and_nothing_is_wrong_with_them() -> None:
    assert {agent.name: agent.lifetime for agent in FOUND} == EXPECTED
    assert (FOUND.problems, FOUND.shadowed) == ((), ())


@pytest.mark.parametrize("agent", FOUND.agents, ids=lambda agent: agent.name)
def test_each_leaves_the_model_to_its_spawner_and_names_tools_that_exist(agent: Agent) -> None:
    assert agent.model is None
    assert agent.description
    assert agent.source == "builtin"
    assert check_tools(agent) == ()


def test_only_the_coder_can_write_and_nobody_has_a_shell() -> None:
    writers = {agent.name for agent in FOUND if set(granted(agent.tools, ())) - set(READING)}
    assert writers == {"coder"}
    assert FOUND["coder"].tools == (*READING, "edit", "write")


def test_who_must_look_must_call_a_tool() -> None:
    assert {agent.name for agent in FOUND if agent.must_call_tool} == {"scout", "auditor"}


@pytest.mark.parametrize(
    ("name", "word"), [("reviewer", "LGTM"), ("auditor", "APPROVED"), ("interviewer", "READY")]
)
def test_the_word_that_ends_it_stands_alone_in_the_prompt(name: str, word: str) -> None:
    assert word in str(FOUND[name].mind).splitlines()
