"""The nearest of a name counts, what it hides is listed, and nothing broken is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from standby_actors.definitions.discovery import (
    DEPTH_LIMIT,
    BrokenAgent,
    Found,
    UnknownAgent,
    find_agent,
    load_agents,
)

from .folders import Folders

STANDBY = "home/.standby/agents"
CLAUDE = "home/.claude/agents"
PROJECT = "home/work/repository"


def codes(found: Found) -> list[str]:
    return [problem.code for problem in found.problems]


def test_the_nearest_of_a_name_counts_and_the_others_are_listed(folders: Folders) -> None:
    files = [
        folders.agent(f"{PROJECT}/src/part/agents/scout.md", "scout"),
        folders.agent(f"{PROJECT}/src/part/.claude/agents/scout.md", "scout"),
        folders.agent(f"{PROJECT}/src/agents/scout.md", "scout"),
        folders.agent(f"{PROJECT}/agents/scout.md", "scout"),
        folders.agent(f"{PROJECT}/.claude/agents/scout.md", "scout"),
        folders.agent(f"{STANDBY}/scout.md", "scout"),
        folders.agent(f"{CLAUDE}/scout.md", "scout"),
    ]
    nearest, *farther = files
    while farther:
        found = folders.load(builtin=True)
        assert found["scout"].path == nearest
        assert [(each.path, each.by) for each in found.shadowed][:-1] == [
            (file, nearest) for file in farther
        ]
        assert found.shadowed[-1].path.parent.name == "shipped"
        nearest.unlink()
        nearest, *farther = farther
    nearest.unlink()
    assert folders.load(builtin=True)["scout"].source == "builtin"


@pytest.mark.parametrize(
    ("scope", "names"),
    [("user", ("mine",)), ("project", ("theirs",)), ("both", ("theirs", "mine"))],
)
def test_files_of_a_project_are_read_on_request_only(
    folders: Folders, scope: str, names: tuple[str, ...]
) -> None:
    folders.agent(f"{PROJECT}/.claude/agents/a.md", "theirs")
    folders.agent(f"{STANDBY}/b.md", "mine")
    assert folders.load(scope).names == names  # type: ignore[arg-type]  # a str from the table


def test_the_scope_is_the_users_unless_said(folders: Folders) -> None:
    folders.agent(f"{PROJECT}/.claude/agents/a.md", "theirs")
    found = load_agents(folders.cwd, home=folders.home, env={})
    assert found.scope == "user"
    assert "theirs" not in found.names
    assert "scout" in found.names


def test_an_unknown_scope_is_refused(folders: Folders) -> None:
    with pytest.raises(ValueError, match="user, project, both, not 'all'"):
        folders.load("all")  # type: ignore[arg-type]  # that is what is tested


def test_an_agent_knows_where_it_is_from(folders: Folders) -> None:
    file = folders.agent(f"{PROJECT}/agents/a.md", "theirs")
    agent = folders.load()["theirs"]
    assert (agent.path, agent.source) == (file, "project")


def test_what_lies_above_a_repository_is_not_read(folders: Folders) -> None:
    folders.agent("home/work/agents/a.md", "above")
    assert folders.load().names == ()


def test_outside_a_repository_only_the_folder_itself_is_read(folders: Folders) -> None:
    (folders.repository / ".git").rmdir()
    folders.agent(f"{PROJECT}/agents/a.md", "above")
    folders.agent(f"{PROJECT}/src/part/agents/a.md", "here")
    assert folders.load().names == ("here",)


def test_the_users_folder_is_no_project(folders: Folders) -> None:
    folders.agent("home/agents/a.md", "stray")
    folders.agent(f"{CLAUDE}/b.md", "mine")
    found = load_agents(folders.home, scope="project", builtin=False, home=folders.home, env={})
    assert found.names == ()


def test_claude_code_may_keep_its_files_elsewhere(folders: Folders) -> None:
    folders.agent("moved/agents/a.md", "mine")
    env = {"CLAUDE_CONFIG_DIR": str(folders.root / "moved"), "HOME": str(folders.home)}
    assert load_agents(folders.cwd, builtin=False, env=env).names == ("mine",)


def test_files_are_read_anew_each_time(folders: Folders) -> None:
    file = folders.agent(f"{STANDBY}/a.md", "scout", body="One.")
    assert folders.load()["scout"].mind == "One."
    folders.agent(file, "scout", body="Two.")
    assert folders.load()["scout"].mind == "Two."


def test_the_name_in_the_file_counts_not_that_of_the_file(folders: Folders) -> None:
    folders.agent(f"{STANDBY}/zebra.md", "scout")
    assert folders.load().names == ("scout",)


def test_two_of_a_name_in_one_folder_are_a_problem_at_the_second(folders: Folders) -> None:
    first = folders.agent(f"{STANDBY}/a.md", "scout")
    second = folders.agent(f"{STANDBY}/b.md", "scout")
    found = folders.load()
    assert found["scout"].path == first
    (problem,) = found.problems
    assert (problem.code, problem.path, problem.severity) == ("duplicate-name", second, "error")
    assert str(first) in problem.message
    assert found.is_broken


def test_a_broken_file_is_reported_and_no_farther_one_takes_its_place(folders: Folders) -> None:
    broken = folders.agent(f"{PROJECT}/.claude/agents/r.md", "reviewer", "lifetime: workfow")
    found = folders.load(builtin=True)
    assert "reviewer" not in found.names
    assert [each.by for each in found.shadowed] == [broken]
    with pytest.raises(BrokenAgent, match=rf"{broken}:4:1: error: lifetime cannot be 'workfow'"):
        found["reviewer"]
    assert found.is_broken


def test_a_broken_file_without_a_name_has_that_of_the_file(folders: Folders) -> None:
    folders.write(f"{CLAUDE}/spy.md", "no head")
    with pytest.raises(BrokenAgent, match="no frontmatter"):
        folders.load()["spy"]


def test_a_disabled_agent_lets_a_farther_one_through(folders: Folders) -> None:
    folders.agent(f"{STANDBY}/a.md", "scout", "disabled: true")
    far = folders.agent(f"{CLAUDE}/a.md", "scout")
    found = folders.load()
    assert found["scout"].path == far
    assert codes(found) == ["disabled"]
    assert not found.is_broken


def test_in_a_plain_agents_folder_other_files_are_notes(folders: Folders) -> None:
    folders.write(f"{PROJECT}/agents/notes.md", "# Notes")
    folders.write(f"{PROJECT}/agents/page.md", "---\ntitle: A page\n---\nText.")
    folders.write(f"{PROJECT}/.claude/agents/notes.md", "# Notes")
    found = folders.load()
    assert [(problem.code, problem.severity) for problem in found.problems] == [
        ("not-an-agent", "note"),
        ("not-an-agent", "note"),
        ("no-frontmatter", "error"),
    ]


def test_files_for_people_and_hidden_ones_are_no_agents(folders: Folders) -> None:
    for name in ("README.md", "CLAUDE.md", ".draft.md", "notes.txt", ".old/x.md"):
        folders.write(f"{STANDBY}/{name}", "# Text")
    assert folders.load() == Found((), scope="both", searched=folders.load().searched)


def test_folders_within_are_looked_into_and_skills_are_not(folders: Folders) -> None:
    folders.agent(f"{CLAUDE}/team/deep/a.md", "deep")
    folders.write(f"{CLAUDE}/scout/skills/python/SKILL.md", "# no agent")
    folders.write(f"{CLAUDE}/scout/skills/python/more.md", "# no agent")
    found = folders.load()
    assert (found.names, found.problems) == (("deep",), ())


def test_a_folder_that_leads_back_to_itself_is_read_once(folders: Folders) -> None:
    folders.agent(f"{STANDBY}/a.md", "scout")
    loop = folders.root / STANDBY / "loop"
    loop.symlink_to(folders.root / STANDBY)
    found = folders.load()
    assert found.names == ("scout",)
    assert [(problem.code, problem.path) for problem in found.problems] == [("link-loop", loop)]
    assert not found.is_broken


def test_links_to_files_and_folders_are_followed(folders: Folders) -> None:
    file = folders.agent("elsewhere/a.md", "scout")
    folder = folders.root / STANDBY
    folder.mkdir(parents=True)
    (folder / "a.md").symlink_to(file)
    (folder / "gone.md").symlink_to("nowhere.md")
    (folder / "round.md").symlink_to("round.md")
    found = folders.load()
    assert found.names == ("scout",)
    assert codes(found) == ["missing-file", "link-loop"]


def test_two_names_of_one_folder_are_read_once(folders: Folders) -> None:
    folders.agent(f"{PROJECT}/agents/a.md", "scout")
    claude = folders.repository / ".claude"
    claude.mkdir()
    (claude / "agents").symlink_to(folders.repository / "agents")
    found = folders.load()
    assert (found.names, found.shadowed, found.problems) == (("scout",), (), ())


def test_a_place_that_is_no_folder_or_leads_back_to_itself(folders: Folders) -> None:
    folders.write(f"{PROJECT}/agents", "a file")
    claude = folders.repository / ".claude"
    claude.symlink_to(".claude")
    found = folders.load()
    assert found.names == ()
    assert codes(found) == ["unreadable"]


def test_a_very_deep_tree_is_not_walked_to_its_end(folders: Folders) -> None:
    deep = "/".join(["d"] * (DEPTH_LIMIT + 5))
    folders.agent(f"{STANDBY}/{deep}/a.md", "deep")
    assert codes(folders.load()) == ["too-many"]


def test_a_crowded_folder_is_read_in_part_and_says_so(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standby_actors.definitions.discovery.FILES_LIMIT", 3)
    for number in range(5):
        folders.agent(f"{STANDBY}/{number}.md", f"agent{number}")
    found = folders.load()
    assert found.names == ("agent0", "agent1", "agent2")
    assert codes(found) == ["too-many"]


def test_an_unknown_agent_is_told_which_there_are_and_the_nearest(folders: Folders) -> None:
    folders.agent(f"{STANDBY}/a.md", "scout")
    folders.agent(f"{STANDBY}/b.md", "coder")
    with pytest.raises(UnknownAgent) as caught:
        find_agent(folders.load(), "scuot")
    assert str(caught.value) == (
        "there is no agent 'scuot'; did you mean 'scout'? there are scout, coder"
    )


def test_where_nothing_was_loaded_the_scope_and_the_folders_are_blamed(folders: Folders) -> None:
    with pytest.raises(UnknownAgent) as caught:
        folders.load("user")["scout"]
    said = str(caught.value)
    assert "none was loaded: scope='user' looked in" in said
    assert str(folders.home / ".standby" / "agents") in said
    assert str(folders.home / ".claude" / "agents") in said
    assert "scope='both' looks at more" in said


def test_a_folder_that_is_gone_has_no_agents(tmp_path: Path) -> None:
    found = load_agents(tmp_path / "gone", scope="both", builtin=False, home=tmp_path, env={})
    assert (found.names, found.problems) == ((), ())
