"""From an agent to the command line of a coding agent."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..agent import Agent


def program(agent: Agent, command: Sequence[str] | None, default: Sequence[str]) -> tuple[str, ...]:
    """The program behind a session: as it was called, the agent's own, or the default."""
    return tuple(command or agent.command or default)


def named_tools(agent: Agent, who: str) -> tuple[str, ...] | None:
    """The names of the tools that `agent` may use; None where it does not say.

    Raises:
        ValueError: one of them is not a name.  A coding agent has tools of its own.
    """
    if agent.tools is None:
        return None
    for each in agent.tools:
        if not isinstance(each, str):
            raise ValueError(f"{who} has its own tools, by name; it cannot be given {each!r:.80}")
    away = frozenset(agent.disallowed_tools)
    return tuple(str(each) for each in agent.tools if each not in away)


def model_parts(model: str | None) -> tuple[str, str]:
    """Provider and name in "provider/name" or "provider:name"; the first may be empty.

    Examples:
        >>> model_parts("openai/gpt-5-mini"), model_parts("sonnet"), model_parts(None)
        (('openai', 'gpt-5-mini'), ('', 'sonnet'), ('', ''))
    """
    parts = re.split("[/:]", model or "", maxsplit=1)
    return ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
