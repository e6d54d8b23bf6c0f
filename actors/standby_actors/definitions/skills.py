"""Skills: what an agent may read up on, by names that it lists.

Nothing of a skill is loaded before it is needed: the prompt has its name, what
it is for, and where the file is; the agent opens that file itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ..agent import Agent
from ..agent_checks import nearest
from .definition import problem_of
from .files import read_text
from .frontmatter import Head, split
from .places import Place, Scope, home_of, skill_places
from .problems import Problem, quoted
from .vocabulary import READING, granted, snake

FILE = "SKILL.md"


class Skill(msgspec.Struct, frozen=True):
    """Something that an agent may read up on."""

    name: str
    description: str
    path: Path
    """Its SKILL.md."""


def find_skills(
    agent: Agent,
    cwd: str | Path | None = None,
    *,
    scope: Scope = "user",
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[tuple[Skill, ...], tuple[Problem, ...]]:
    """The skills that `agent` names, in its order, and what is wrong with them.

    The nearest counts: those beside the agent's own file (``scout/skills/`` for
    ``scout.md``), of the project where `scope` says so, and of the user
    (``~/.standby/skills/``, ``~/.claude/skills/``).  Never raises for what is in
    a file.

    Args:
        agent: whose skills.
        cwd: where the project is; None for where the process works.
        scope: "user", "project" or "both".
        home: the user's folder; None for that of `env`.
        env: None for the process's own.
    """
    if not agent.skills:
        return (), ()
    env = os.environ if env is None else env
    places = list(
        skill_places(
            Path.cwd() if cwd is None else Path(cwd),
            scope,
            home_of(env) if home is None else Path(home),
            env,
            agent.path,
        )
    )
    problems: list[Problem] = []
    has_read = "read" in granted(agent.tools, agent.disallowed_tools, READING)
    if not has_read:
        problems.append(
            problem_of(
                agent,
                "skills",
                "skills-without-read",
                f"{agent.name} names skills, and has no tool `read` to open them with",
                "add read to its tools, or leave out the skills",
            )
        )
    skills: list[Skill] = []
    for name in agent.skills:
        path = _nearest_file(name, places)
        if path is None:
            problems.append(_unknown(agent, name, places))
            continue
        skill, wrong = read_skill(path)
        problems += [msgspec.structs.replace(each, about=agent.name) for each in wrong]
        if skill is not None:
            skills.append(skill)
    return tuple(skills), tuple(problems)


def read_skill(path: Path) -> tuple[Skill | None, tuple[Problem, ...]]:
    """The skill of a SKILL.md; or None, and why not."""
    text, problems = read_text(path)
    if text is None:
        return None, problems
    head, problems = split(text, path)
    if head is None:
        return None, problems
    problems = tuple(each for each in problems if each.severity != "note")
    said = {snake(entry.key): entry for entry in head.entries}
    folder = path.parent.name
    name = said["name"].value.text if "name" in said else folder
    line = said["name"].line if "name" in said else 1
    if name != folder:
        return None, (
            *problems,
            Problem(
                path=path,
                code="skill-misnamed",
                message=f"it calls itself {quoted(name)}, and its folder is called {folder!r}",
                line=line,
                column=1,
                advice="give both the same name",
            ),
        )
    hidden = said.get("disable_model_invocation")
    if hidden is not None and hidden.value.text.casefold() in ("true", "yes", "on"):
        return None, (
            *problems,
            Problem(
                path=path,
                code="skill-hidden",
                message=f"the skill {name!r} is kept from models by {hidden.key}",
                line=hidden.line,
                column=hidden.column,
                advice="remove that line, or the skill from the agent",
            ),
        )
    description = _description(head)
    if not description:
        return None, (
            *problems,
            Problem(
                path=path,
                code="missing-description",
                message=f"the skill {name!r} has no description, so that no model would open it",
                line=1,
                advice="write `description: ` and when it is of use",
            ),
        )
    return Skill(name, description, path), problems


def _description(head: Head) -> str:
    for entry in head.entries:
        if snake(entry.key) == "description" and entry.value.kind == "text":
            return " ".join(entry.value.text.split())
    return ""


def _nearest_file(name: str, places: list[Place]) -> Path | None:
    # A name is one folder, never a way to another.
    if "/" in name or "\0" in name or name in (".", ".."):
        return None
    for place in places:
        path = place.path / name / FILE
        if os.path.lexists(path):
            return path
    return None


def _there(places: list[Place]) -> list[str]:
    found: dict[str, None] = {}
    for place in places:
        try:
            entries = sorted(place.path.iterdir())
        except OSError:
            continue  # not there, or not ours to see
        found |= {each.name: None for each in entries if os.path.lexists(each / FILE)}
    return list(found)


def _unknown(agent: Agent, name: str, places: list[Place]) -> Problem:
    there = _there(places)
    folders = ", ".join(str(place.path) for place in places)
    found = f"there are {', '.join(there)}; " if there else ""
    return problem_of(
        agent,
        "skills",
        "unknown-skill",
        f"{agent.name} names the skill {quoted(name)}, which is missing",
        f"{found}looked in {folders}",
        near=nearest(name, there),
    )
