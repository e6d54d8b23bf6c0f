"""What a model is told before its first turn: its agent's prompt, and what it was given besides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from .agent import Agent
from .definitions.allowlist import check_tools
from .definitions.instructions import find_instructions
from .definitions.problems import Problem
from .definitions.prompt import Surroundings, compose_prompt
from .definitions.skills import Skill, find_skills
from .definitions.vocabulary import OURS, READING
from .tools.tool import Tool, tool


class BadAgent(ValueError):
    """Raised where an agent asks for what there is not; nothing was spawned."""

    def __init__(self, agent: str, problem: Problem) -> None:
        super().__init__(agent, problem)
        self.agent = agent
        self.problem = problem

    def __str__(self) -> str:
        return f"the agent {self.agent!r} cannot be spawned: {self.problem}"


def told(
    agent: Agent,
    instructions: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[Agent, tuple[Tool, ...]]:
    """`agent` with all that its model is told for a prompt, and the tool that opens its skills.

    Nothing comes of itself: the folder is told to who has tools for files, skills to
    who names them, and the instructions of a project where the spawner says so.

    Args:
        agent: who.
        instructions: a folder of the project whose AGENTS.md, or CLAUDE.md, is told.
        env: where the user's folders are looked up; None for the process's own.

    Raises:
        BadAgent: it names a skill that there is not, or that it could not read.
    """
    if not isinstance(agent.mind, str):
        return agent, ()
    skills = _skills(agent, env)
    said = None
    if instructions is not None:
        said, wrong = find_instructions(instructions, env=env)
        if wrong:
            raise BadAgent(agent.name, wrong[0])
    cwd = (agent.cwd or Path.cwd()) if _has_files(agent) else None
    prompt = compose_prompt(agent, Surroundings(cwd, skills, said))
    return attrs.evolve(agent, mind=prompt), (_opener(skills),) if skills else ()


def told_of_skills(agent: Agent, env: Mapping[str, str] | None = None) -> Agent:
    """`agent` with its skills named in its prompt, for a mind that opens files itself.

    Raises:
        BadAgent: it names a skill that there is not, or that it could not read.
    """
    if not (agent.skills and isinstance(agent.mind, str)):
        return agent
    around = Surroundings(skills=_skills(agent, env))
    return attrs.evolve(agent, mind=compose_prompt(agent, around))


def check_names(agent: Agent, env: Mapping[str, str] | None = None) -> None:
    """Refuse the names of tools, skills and MCP servers of `agent` that are nobody's.

    A function is given none of them: what it names wrongly would never be missed.

    Raises:
        BadAgent: there is no such tool, or no such skill.
        BadMcpConfig: there is no such server.
    """
    _, wrong = find_skills(agent, agent.cwd, env=env)
    for problem in (*check_tools(agent), *wrong):
        # Who needs no tool to open them with may have skills.
        if problem.severity == "error" and problem.code != "skills-without-read":
            raise BadAgent(agent.name, problem)
    if agent.mcp_servers:
        from .tools.mcp_config import servers_of

        servers_of(agent)


def _skills(agent: Agent, env: Mapping[str, str] | None) -> tuple[Skill, ...]:
    skills, problems = find_skills(agent, agent.cwd, env=env)
    for problem in problems:
        if problem.severity == "error":
            raise BadAgent(agent.name, problem)
    return skills


def _has_files(agent: Agent) -> bool:
    names = agent.tools if agent.tools is not None else READING if agent.source else ()
    return any(isinstance(name, str) and name in OURS for name in names)


def _opener(skills: tuple[Skill, ...]) -> Tool:
    """Skills lie where the tools for files do not reach: this opens them, and nothing else."""
    there = {skill.name: skill for skill in skills}

    @tool(read_only=True)
    def skill(name: str) -> str:
        """Read one of the notes that your instructions name.

        Args:
            name: of the note.
        """
        if name not in there:
            raise KeyError(f"there is no note {name!r}: {', '.join(there)}")
        return there[name].path.read_text(encoding="utf-8", errors="replace")

    return skill
