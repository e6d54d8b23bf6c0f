"""Which step is meant, across processes: by what is asked, of whom, after what.

A program that is played again asks the same things, though not in the same order: what
runs at the same time may come in any.  So a step has no place in the program, but a digest
of everything that its outcome could depend on, and a number among those that agree in it.
Two steps that agree may change places, as nothing tells them apart.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from standby_actors import Agent
from standby_actors.result import Attachment

from .facts import StepId


def digest(*parts: object) -> str:
    """A digest of texts, bytes and plain data, in their order.

    Examples:
        >>> digest("a", "b") == digest("ab"), len(digest("a", 1))
        (False, 32)
    """
    told = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else msgspec.json.encode(part, order="sorted")
        told.update(b"%d:" % len(data))
        told.update(data)
    return told.hexdigest()[:32]


def digest_of_agent(agent: Agent) -> str:
    """A digest of what an agent is: another prompt or model is another agent.

    Of a function it is the name, and not what it does: a program whose functions
    changed goes on with what was recorded of the former ones.
    """
    mind: Any = agent.mind
    if not isinstance(mind, str):
        mind = name_of(mind)
    tools = None if agent.tools is None else [_name(tool) for tool in agent.tools]
    backend = None if agent.backend is None else _name(agent.backend)
    return digest(agent.name, mind, agent.model, backend, tools)


def name_of(function: Callable[..., Any]) -> str:
    """A function's name with its module, or its class's for what is called like one."""
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


def _name(thing: Any) -> str:
    if isinstance(thing, str):
        return thing
    name = getattr(thing, "name", None)
    return name if isinstance(name, str) else name_of(thing)


def digest_of_task(before: str, task: str, attachments: tuple[Attachment, ...]) -> str:
    """A digest of a turn: what was before it, what is asked, what goes with it."""
    if not attachments:
        return digest(before, task)
    return digest(before, task, *(msgspec.json.encode(each) for each in attachments))


class Steps:
    """Numbers the steps of one process's play of a program."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def next(self, told: str) -> StepId:
        """The step of digest `told` that is asked for now."""
        self._asked[told] += 1
        return StepId(told, self._asked[told])
