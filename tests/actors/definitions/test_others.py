"""Names of agents that an agent may hand over and delegate to are checked where they are read."""

from __future__ import annotations

from pathlib import Path

from standby import load_agents
from standby_actors.definitions.allowlist import check_others


def test_an_agent_that_is_not_there_is_told_with_its_line_and_the_nearest(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    said = "handoffs: [clark, clerk]\nagents: clerk"
    desk_md = f"---\nname: desk\ndescription: Receives.\n{said}\n---\nReceive."
    (folder / "desk.md").write_text(desk_md)
    (folder / "clerk.md").write_text("---\nname: clerk\ndescription: Files.\n---\nFile.")
    found = load_agents(tmp_path, scope="project", builtin=False)
    assert not found.problems
    desk = found["desk"]
    assert (desk.handoffs, desk.agents) == (("clark", "clerk"), ("clerk",))
    (problem,) = check_others(desk, [each.name for each in found])
    assert (problem.code, problem.line, problem.severity) == ("unknown-agent", 4, "error")
    assert "names the agent 'clark', which is missing" in str(problem)
    assert "clerk" in str(problem)
