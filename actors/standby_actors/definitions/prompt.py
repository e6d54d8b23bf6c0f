"""The system prompt of an agent: its own words, and of its surroundings what it was given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from ..agent import Agent
from .instructions import Instructions
from .skills import Skill


@frozen
class Surroundings:
    """What an agent is told beside its own prompt; nothing comes of itself.

    Args:
        cwd: where its tools work; None for an agent without such tools.
        skills: what it may read up on.
        instructions: of the project that it works in.
    """

    cwd: Path | None = None
    skills: tuple[Skill, ...] = ()
    instructions: Instructions | None = None


NOWHERE = Surroundings()


def compose_prompt(agent: Agent, surroundings: Surroundings = NOWHERE) -> str:
    """The system prompt of `agent`; that of a function is empty.

    Its own prompt comes first, word for word; then one part for each of its
    surroundings.  Skills that it does not name are not mentioned.

    Examples:
        >>> print(compose_prompt(Agent("scout", "Find it."), Surroundings(Path("/src"))))
        Find it.
        <BLANKLINE>
        You work in the folder /src. Your tools resolve paths from there: write them relative to \
it, and do not make up absolute ones.
    """
    if not isinstance(agent.mind, str):
        return ""
    return "\n\n".join(part for part in _parts(agent, agent.mind, surroundings) if part)


def _parts(agent: Agent, mind: str, around: Surroundings) -> Iterator[str]:
    yield mind
    if around.cwd is not None:
        yield (
            f"You work in the folder {around.cwd}. Your tools resolve paths from there: write "
            "them relative to it, and do not make up absolute ones."
        )
    if skills := [skill for skill in around.skills if skill.name in agent.skills]:
        lines = [f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills]
        yield "\n".join(
            (
                "There are notes for some kinds of work. When one is of use for your task, read "
                "its file before you begin:",
                *lines,
            )
        )
    if around.instructions is not None and around.instructions.text:
        yield (
            f"The project says this of itself, in {around.instructions.path}. What you are asked "
            f"to do comes before it where the two differ.\n\n{around.instructions.text}"
        )
