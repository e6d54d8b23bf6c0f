"""What a model is told, and that nothing comes of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field

from standby_actors.agent import Agent
from standby_actors.result import ToolCall
from standby_actors.sessions.scripted import ScriptedSession
from standby_actors.subagent import spawn
from standby_actors.told import BadAgent, told
from standby_actors.tools.tool import ToolContext
from standby_actors.tools.toolbox import tools_of


@define(eq=False)
class Listening:
    """A model that keeps what its sessions are made with."""

    agents: list[Agent] = field(factory=list)

    def session(self, agent: Agent, /, **more: Any) -> ScriptedSession:
        """One that answers once."""
        self.agents.append(agent)
        return ScriptedSession(["yes"])


def test_an_agent_made_in_code_is_told_its_prompt_and_has_no_tools() -> None:
    agent = Agent("scout", "Find it.")
    assert told(agent) == (agent, ())
    assert tools_of(agent) == ()


def test_one_that_was_read_from_a_file_has_tools_that_read_and_knows_where(
    tmp_path: Path,
) -> None:
    agent = Agent("scout", "Find it.", source="user", cwd=tmp_path)
    assert [tool.name for tool in tools_of(agent)] == ["read", "grep", "find", "ls"]
    assert str(tmp_path) in str(told(agent)[0].mind)
    assert tools_of(evolve(agent, tools=())) == ()


async def test_the_instructions_of_a_project_are_told_on_request(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    agent = Agent("scout", "Find it.")
    for instructions, expected in ((None, False), (tmp_path, True)):
        model = Listening()
        async with spawn(agent, model=model, instructions=instructions) as scout:
            await scout.ask("go")
        assert ("Use tabs." in str(model.agents[0].mind)) is expected
        assert scout.agent is agent


async def test_a_skill_is_named_in_the_prompt_and_opened_by_a_tool(tmp_path: Path) -> None:
    folder = tmp_path / ".standby" / "skills" / "dates"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: dates\ndescription: How dates are written here.\n---\nISO, always.\n"
    )
    agent = Agent("scout", "Find it.", skills=["dates"], tools=["read"], cwd=tmp_path)
    knowing, tools = told(agent, env={"HOME": str(tmp_path)})
    assert "How dates are written here." in str(knowing.mind)
    (skill,) = tools
    context = ToolContext(ToolCall("c", "skill", "{}"), "scout#1", lambda text: None)
    assert "ISO, always." in str(await skill.run({"name": "dates"}, context))


def test_a_skill_that_there_is_not_is_told_before_anything_is_spawned(tmp_path: Path) -> None:
    agent = Agent("scout", "Find it.", skills=["dates"], tools=["read"], cwd=tmp_path)
    with pytest.raises(BadAgent, match="dates"):
        told(agent, env={"HOME": str(tmp_path)})
