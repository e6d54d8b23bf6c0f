"""An agent is told of its surroundings what it names and what it is given, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from standby_actors.agent import Agent, McpServer
from standby_actors.definitions.allowlist import check_tools
from standby_actors.definitions.instructions import Instructions, find_instructions
from standby_actors.definitions.problems import Problem
from standby_actors.definitions.prompt import Surroundings, compose_prompt
from standby_actors.definitions.skills import Skill, find_skills
from standby_actors.definitions.vocabulary import ELSEWHERE, granted

from .folders import Folders

PROJECT = "home/work/repository"
MINE = "home/.standby/skills"


def said(problems: tuple[Problem, ...]) -> list[tuple[str, str | None]]:
    return [(problem.code, problem.nearest) for problem in problems]


# ---- tools


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, [], id="the default"),
        pytest.param({"tools": []}, [], id="none"),
        pytest.param({"tools": ["read", "shell"]}, [], id="ours"),
        pytest.param({"tools": [len]}, [], id="a function is there"),
        pytest.param({"tools": ["raed"]}, [("unknown-tool", "read")], id="a slip"),
        pytest.param({"tools": ["Bash"]}, [("unknown-tool", "shell")], id="another's name for it"),
        pytest.param({"tools": ["zebra"]}, [("unknown-tool", None)], id="nothing like it"),
        pytest.param({"disallowed_tools": ["wirte"]}, [("unknown-tool", "write")], id="denied"),
        pytest.param({"tools": ["mcp__gh__x"]}, [("unknown-tool", None)], id="no server"),
        pytest.param({"tools": ["mcp__gh__x"], "mcp_servers": ["gh"]}, [], id="server by name"),
        pytest.param(
            {"tools": ["mcp__gh"], "mcp_servers": [McpServer("gh", url="http://localhost")]},
            [],
            id="all of a server",
        ),
        pytest.param({"tools": ["WebFetch"]}, [("tool-elsewhere", None)], id="elsewhere"),
        pytest.param({"tools": ["WebFetch"], "backend": "claude"}, [], id="and there it is"),
        pytest.param({"tools": ["shell(ls *)"]}, [("tool-pattern", None)], id="pattern"),
        pytest.param({"tools": ["shell(ls *)"], "backend": "claude"}, [], id="kept by Claude"),
    ],
)
def test_a_tool_that_is_missing_is_a_problem(
    fields: dict[str, Any], expected: list[tuple[str, str | None]]
) -> None:
    assert said(check_tools(Agent("scout", "Find it.", **fields))) == expected


@pytest.mark.parametrize(
    ("backend", "severity"), [(None, "warning"), ("pi", "error"), ("chat", "error")]
)
@pytest.mark.parametrize("tool", ["WebFetch", "shell(git log *)"])
def test_what_only_claude_code_has_is_an_error_once_another_plays(
    backend: str | None, severity: str, tool: str
) -> None:
    (problem,) = check_tools(Agent("scout", "Find it.", tools=[tool]), backend=backend)
    assert problem.severity == severity


def test_tools_that_a_program_gives_are_known_by_name() -> None:
    agent = Agent("scout", "Find it.", tools=["board", "bord"])
    (problem,) = check_tools(agent, ["board"])
    assert (problem.nearest, str(problem.path)) == ("board", "<code>")
    assert "there are board" in problem.advice


def test_a_missing_tool_is_reported_at_the_line_that_names_it(folders: Folders) -> None:
    folders.agent("home/.claude/agents/a.md", "scout", "model: opus", "disallowedTools: raed")
    (problem,) = check_tools(folders.load()["scout"])
    assert (problem.line, problem.column) == (5, 1)


def test_no_tool_of_another_is_one_of_ours() -> None:
    assert not said(check_tools(Agent("a", "b", tools=sorted(ELSEWHERE), backend="claude")))


def test_an_allowlist_less_what_is_denied_is_what_is_granted() -> None:
    assert granted(None, ()) == ("read", "grep", "find", "ls")
    assert granted((), ()) == ()
    assert granted(["edit", len], ["len"]) == ("edit",)


# ---- skills


def skill(folders: Folders, path: str, *head: str, name: str = "") -> Path:
    name = name or Path(path).name
    lines = ["---", f"name: {name}", *(head or ("description: About it.",)), "---", "Text."]
    return folders.write(f"{path}/SKILL.md", "\n".join(lines))


def find(folders: Folders, agent: Agent, scope: Any = "both") -> tuple[Any, Any]:
    return find_skills(agent, folders.cwd, scope=scope, home=folders.home, env={})


def test_the_nearest_skill_of_a_name_counts(folders: Folders) -> None:
    file = folders.agent("home/.claude/agents/scout.md", "scout", "skills: python")
    places = [
        "home/.claude/agents/scout/skills/python",
        f"{PROJECT}/src/part/skills/python",
        f"{PROJECT}/.claude/skills/python",
        f"{MINE}/python",
        "home/.claude/skills/python",
    ]
    files = [skill(folders, place) for place in places]
    agent = folders.load()["scout"]
    assert agent.path == file
    for nearest in files:
        skills, problems = find(folders, agent)
        assert (skills, problems) == ((Skill("python", "About it.", nearest),), ())
        nearest.unlink()
    assert said(find(folders, agent)[1]) == [("unknown-skill", None)]


def test_skills_of_a_project_are_read_on_request_only(folders: Folders) -> None:
    skill(folders, f"{PROJECT}/skills/python")
    agent = Agent("scout", "Find it.", skills=["python"])
    assert find(folders, agent, "user")[0] == ()
    assert len(find(folders, agent, "project")[0]) == 1


def test_skills_come_in_the_order_of_their_names_and_others_do_not_come(folders: Folders) -> None:
    for name in ("a", "b", "c"):
        skill(folders, f"{MINE}/{name}")
    skills, problems = find(folders, Agent("scout", "Find it.", skills=["c", "a", "c"]))
    assert [each.name for each in skills] == ["c", "a"]
    assert problems == ()


def test_who_cannot_read_cannot_read_up(folders: Folders) -> None:
    skill(folders, f"{MINE}/python")
    without: list[dict[str, Any]] = [
        {"tools": ["grep"]},
        {"tools": []},
        {"disallowed_tools": ["read"]},
    ]
    for fields in without:
        agent = Agent("scout", "Find it.", skills=["python"], **fields)
        assert said(find(folders, agent)[1]) == [("skills-without-read", None)]


def test_an_unknown_skill_is_told_which_there_are_and_where_it_was_looked_for(
    folders: Folders,
) -> None:
    skill(folders, f"{MINE}/python")
    _, (problem,) = find(folders, Agent("scout", "Find it.", skills=["pyhton"]))
    assert said((problem,)) == [("unknown-skill", "python")]
    assert "there are python; looked in" in problem.advice
    assert str(folders.home / ".claude" / "skills") in problem.advice


@pytest.mark.parametrize(
    ("head", "name", "code", "line"),
    [
        pytest.param((), "snake", "skill-misnamed", 2, id="another name than its folder"),
        pytest.param(
            ("description: d", "disable-model-invocation: true"),
            "",
            "skill-hidden",
            4,
            id="kept from models",
        ),
        pytest.param(("license: MIT",), "", "missing-description", 1, id="no description"),
        pytest.param(("description: [",), "", "bad-yaml", 3, id="broken"),
    ],
)
def test_a_skill_that_cannot_be_given_is_a_problem(
    folders: Folders, head: tuple[str, ...], name: str, code: str, line: int
) -> None:
    file = skill(folders, f"{MINE}/python", *head, name=name)
    skills, (problem,) = find(folders, Agent("scout", "Find it.", skills=["python"]))
    assert skills == ()
    assert (problem.code, problem.path, problem.line) == (code, file, line)
    assert problem.about == "scout"


@pytest.mark.parametrize("name", ["../python", "..", "a/b", "a\0b"])
def test_the_name_of_a_skill_leads_nowhere_else(folders: Folders, name: str) -> None:
    skill(folders, "home/.standby/python", name="python")
    assert said(find(folders, Agent("scout", "Find it.", skills=[name]))[1])[0][0] == (
        "unknown-skill"
    )


# ---- instructions


def instructions(folders: Folders) -> tuple[Instructions | None, tuple[Problem, ...]]:
    return find_instructions(folders.cwd, home=folders.home, env={})


def test_the_nearest_agents_md_counts_and_claude_md_stands_in_for_it(folders: Folders) -> None:
    assert instructions(folders) == (None, ())
    folders.write("home/work/AGENTS.md", "Above the project.")
    assert instructions(folders) == (None, ())
    claude = folders.write(f"{PROJECT}/src/CLAUDE.md", "\nFor Claude.\n")
    assert instructions(folders) == (Instructions(claude, "For Claude."), ())
    far = folders.write(f"{PROJECT}/AGENTS.md", "For all.")
    assert instructions(folders) == (Instructions(far, "For all."), ())
    near = folders.write(f"{PROJECT}/src/part/AGENTS.md", "For this part.")
    assert instructions(folders) == (Instructions(near, "For this part."), ())


def test_instructions_that_cannot_be_read_are_a_problem(folders: Folders) -> None:
    (folders.repository / "AGENTS.md").write_bytes(b"\xff")
    found, (problem,) = instructions(folders)
    assert (found, problem.code) == (None, "bad-encoding")


# ---- the prompt

PYTHON = Skill("python", "How we write it.", Path("/skills/python/SKILL.md"))
RULES = Instructions(Path("/src/AGENTS.md"), "Use tabs.")


def test_an_agent_alone_has_its_own_prompt_word_for_word() -> None:
    assert compose_prompt(Agent("scout", " Find it. ")) == " Find it. "


def test_a_function_has_no_prompt() -> None:
    assert compose_prompt(Agent("scout", str.upper), Surroundings(Path("/work"))) == ""


def test_what_surrounds_it_comes_after_its_own_words_in_one_order() -> None:
    agent = Agent("scout", "Find it.", skills=["python"])
    around = Surroundings(Path("/work"), (PYTHON,), RULES)
    own, place, notes, rules, text = compose_prompt(agent, around).split("\n\n")
    assert own == "Find it."
    assert "/work" in place
    assert notes.endswith("- python: How we write it. (/skills/python/SKILL.md)")
    assert "/src/AGENTS.md" in rules
    assert text == "Use tabs."


def test_a_skill_that_it_does_not_name_is_not_mentioned() -> None:
    prompt = compose_prompt(Agent("scout", "Find it."), Surroundings(skills=(PYTHON,)))
    assert prompt == "Find it."
