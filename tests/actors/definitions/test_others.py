"""Names of agents that an agent may hand over and delegate to are checked where they are read."""

from __future__ import annotations

from pathlib import Path

from standby import load_agents
from standby_actors.definitions.allowlist import check_others
from tests.actors.definitions.folders import folders


def test_an_agent_that_is_not_there_is_told_with_its_line_and_the_nearest(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    said = "handoffs: [clark, clerk]\nagents: clerk"
    desk_md = f"---\nname: desk\ndescription: Receives.\n{said}\n---\nReceive."
    (folder / "desk.md").write_text(desk_md)
    (folder / "clerk.md").write_text("---\nname: clerk\ndescription: Files.\n---\nFile.")
    found = load_agents(tmp_path, scope="project", builtin=False)
    desk = found["desk"]
    assert (desk.handoffs, desk.agents) == (("clark", "clerk"), ("clerk",))
    (problem,) = found.problems
    assert found.is_broken
    assert (problem.path, problem.nearest, problem.about) == (folder / "desk.md", "clerk", "desk")
    assert (problem.code, problem.line, problem.severity) == ("unknown-agent", 4, "error")
    assert "names the agent 'clark', which is missing" in str(problem)
    assert "did you mean 'clerk'? there are clerk, desk" in str(problem)
    # Who gives it others by hand asks for them by name.
    assert check_others(desk, [*found.names, "clark"]) == ()


def test_others_are_looked_for_among_all_that_count_wherever_they_lie(tmp_path: Path) -> None:
    user = folders(tmp_path)
    user.agent("home/.standby/agents/clerk.md", "clerk")
    desk = user.agent(user.repository / "agents/desk.md", "desk", "handoffs: [clerk, scout]")
    # A farther one of its name, which does not count, may name whom it likes.
    user.agent("home/.standby/agents/desk.md", "desk", "agents: [nobody]")
    assert user.load(builtin=True).problems == ()
    (problem,) = user.load().problems
    assert (problem.path, problem.code, problem.line) == (desk, "unknown-agent", 4)
    assert "names the agent 'scout'" in problem.message
    missing = user.load("project").problems
    assert [each.message.partition(", ")[0] for each in missing] == [
        "desk names the agent 'clerk'",
        "desk names the agent 'scout'",
    ]


def test_one_whose_file_is_broken_is_said_to_be_so(tmp_path: Path) -> None:
    user = folders(tmp_path)
    user.agent(user.repository / "agents/desk.md", "desk", "agents: [clerk]")
    clerk = user.agent(user.repository / "agents/clerk.md", "clerk", "lifetime: tsak")
    first, second = user.load().problems
    assert (first.path, first.code) == (clerk, "bad-value")
    assert second.said == "desk names the agent 'clerk', which is broken; mend its file"


def test_it_may_name_itself(tmp_path: Path) -> None:
    user = folders(tmp_path)
    user.agent(user.repository / "agents/deep.md", "deep", "agents: [deep]")
    assert user.load().problems == ()
