"""Coding agents by name: which module opens their sessions."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from attrs import define, field

from ..agent import Agent
from ..session import Memory, Session

_OPENS = {
    "pi": ("pi", "open_pi"),
    "codex": ("codex", "open_codex"),
    "claude": ("claude", "open_claude"),
    "acp": ("acp", "open_acp"),
}


@define(eq=False)
class CodingAgent:
    """A command line that is a coding agent, as a backend."""

    name: str
    env: Mapping[str, str] | None = None
    """What its environment is taken from; None for the process's own."""
    options: Mapping[str, Any] = field(factory=dict[str, Any], kw_only=True, repr=False)
    """What else its session is opened with, as in ``{"pass_env": ["OPENAI_API_KEY"]}``:
    no key of ours is passed on that is not named."""

    def open(
        self, agent: Agent, /, memory: Memory | None = None
    ) -> AbstractAsyncContextManager[Session]:
        """Start it, and end it with everything that it started when the block is left.

        Raises:
            BadAgent: `agent` names a skill that there is not.
        """
        if agent.skills:
            from ..told import told_of_skills

            agent = told_of_skills(agent, self.env)
        module, function = _OPENS[self.name]
        opens: Any = getattr(importlib.import_module(f".{module}", __package__), function)
        opened: AbstractAsyncContextManager[Session] = opens(
            agent, **{"env": self.env, "memory": memory, **self.options}
        )
        return opened


def named(name: str, env: Mapping[str, str] | None) -> CodingAgent | None:
    """The coding agent called `name`; None if that is no coding agent."""
    return CodingAgent(name, env) if name in _OPENS else None
