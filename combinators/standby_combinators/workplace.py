"""A workplace is the folder that a part of a nest of teams works in, where it is not our own."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from standby_actors.agent import Agent

FOLDER = "folder"
"""The parameter by which a function learns where it works."""


class OutsideCopy(ValueError):
    """Raised where an agent works elsewhere than in what was copied."""

    def __init__(self, agent: str, cwd: str, top: str) -> None:
        super().__init__(agent, cwd, top)
        self.agent = agent
        self.cwd = cwd
        self.top = top

    def __str__(self) -> str:
        return (
            f"{self.agent} works in {self.cwd}, which is not in {self.top}: what it writes there "
            "would be in no copy. Leave its cwd out, or copy the repository that it works in"
        )


@define(eq=False)
class Workplace:
    """The copy that some members work in, in place of the folder that it is a copy of."""

    folder: Path
    """Where they work."""
    top: Path
    """The uppermost folder of the copy."""
    original: Path
    """What that is a copy of."""
    _placed: dict[int, tuple[Agent, Agent]] = field(init=False, factory=dict[int, Any])

    def place(self, agent: Agent) -> Agent:
        """`agent` as it works here, and whoever works for it; the same for the same.

        Raises:
            OutsideCopy: it says itself that it works somewhere else.
        """
        # With the agent itself, so that its identity stays its own.
        known = self._placed.get(id(agent))
        if known is None:
            known = self._placed[id(agent)] = agent, self._place(agent)
        return known[1]

    def place_all(self, agents: Iterable[Agent | str]) -> tuple[Agent | str, ...]:
        """As :meth:`place`, of several; names stay names."""
        return tuple(each if isinstance(each, str) else self.place(each) for each in agents)

    def here(self, name: str, cwd: str | Path | None) -> Path:
        """Where in the copy `name` works, who says that it works in `cwd`.

        Raises:
            OutsideCopy: that is not in what was copied.
        """
        if cwd is None:
            return self.folder
        real = Path(os.path.realpath(cwd))
        if real.is_relative_to(self.top):
            return real
        if not real.is_relative_to(self.original):
            raise OutsideCopy(name, str(cwd), str(self.original))
        return self.top / real.relative_to(self.original)

    def _place(self, agent: Agent) -> Agent:
        more: dict[str, Any] = {}
        if not isinstance(agent.mind, str) and _asks_where(agent.mind):
            more["mind"] = partial(agent.mind, **{FOLDER: self.folder})
        return evolve(
            agent,
            cwd=self.here(agent.name, agent.cwd),
            handoffs=self.place_all(agent.handoffs),
            agents=self.place_all(agent.agents),
            **more,
        )


def _asks_where(function: Any) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get(FOLDER)
    # Builtins have none, and are no functions of ours.
    except (TypeError, ValueError):
        return False
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return parameter is not None and parameter.kind in by_name
