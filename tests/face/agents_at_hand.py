"""Agents as files in a home of their own, and a server that plays them by what they are asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from attrs import define, field

from tests.support.model_server import Answer, Asked, says

NAMES = ("one", "two", "boss")


def make_home(folder: Path) -> Path:
    """A home with the agents `one`, `two` and `boss`, who have no tools."""
    agents = folder / "home" / ".standby" / "agents"
    agents.mkdir(parents=True)
    for name in NAMES:
        write_agent(agents, name)
    return folder / "home"


def write_agent(folder: Path, name: str) -> Path:
    """A definition in `folder`; its prompt is the name, so that the server knows who asks."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\nname: {name}\ndescription: Does things.\ntools: []\n---\nI am {name}.\n")
    return path


def who_asks(asked: Asked) -> str:
    """The name of the agent of a request."""
    prompt: str = asked.body["messages"][0]["content"]
    return prompt.partition("I am ")[2].partition(".")[0]


def task_of(asked: Asked) -> str:
    """What its turn is about: the last thing that a user has said."""
    said = [each["content"] for each in asked.body["messages"] if each["role"] == "user"]
    last: str = said[-1]
    return last


@define
class Playing:
    """Answers as `rule` says, given who asks and the task; remembers both."""

    rule: Callable[[str, str], Answer | str | None] = lambda who, task: None
    asked: list[tuple[str, str]] = field(factory=list[tuple[str, str]])

    def __call__(self, asked: Asked) -> Answer:
        who, task = who_asks(asked), task_of(asked)
        self.asked.append((who, task))
        answer = self.rule(who, task)
        if answer is None:
            answer = f"{who} has seen: {task}"
        return says(answer, usage=(100, 10)) if isinstance(answer, str) else answer


def plan(*steps: tuple[str, str, str, list[str]]) -> str:
    """A plan as a planner writes it."""
    keys = ("id", "agent", "task", "needs")
    return json.dumps([dict(zip(keys, step, strict=True)) for step in steps])
