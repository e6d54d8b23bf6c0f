"""Checks that stand before and behind a mind: an agent's own functions, which may refuse."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .agent import Agent
from .result import TurnError


def refusal_of_idleness(agent: Agent, has_called: bool) -> TurnError | None:
    """Why a turn in which no tool was called is no answer; None where it is one.

    A call that was refused or failed counts: the mind has tried.
    """
    if agent.must_call_tool and not has_called:
        return TurnError("no_tool", "called no tool (must_call_tool)", True)
    return None


async def refusal_of_input(agent: Agent, task: str) -> TurnError | None:
    """Why `task` does not reach the mind, by the first check that says so."""
    return await _first_refusal(agent, "input", agent.check_input, task)


async def refusal_of_output(agent: Agent, answer: str) -> TurnError | None:
    """Why `answer` is not given out, by the first check that says so."""
    return await _first_refusal(agent, "output", agent.check_output, answer)


async def _first_refusal(
    agent: Agent, which: str, checks: tuple[Callable[[str], Any], ...], text: str
) -> TurnError | None:
    for check in checks:
        said = check(text)
        if inspect.isawaitable(said):
            said = await said
        if said is not None and not isinstance(said, str):
            name = getattr(check, "__name__", repr(check))
            raise TypeError(
                f"the {which} check {name} of {agent.name} says why it refuses, as a str,"
                f" or None; it returned {said!r}"
            )
        if said is not None:
            why = f": {said}" if said else ""
            return TurnError("refused", f"the {which} was refused{why}")
    return None
