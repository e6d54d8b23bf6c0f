"""The numbers in the ids of subagents, as in "scout#2": unique in this process."""

from __future__ import annotations

from collections import Counter

_counters: Counter[str] = Counter()


def next_number(agent: str) -> int:
    """The number of the next subagent of an agent called `agent`."""
    number = _counters[agent] + 1
    _counters[agent] = number
    return number


def next_id(agent: str) -> str:
    """The id of the next subagent of an agent called `agent`, as in "scout#2"."""
    return f"{agent}#{next_number(agent)}"


def count_from(agent: str, number: int) -> None:
    """Give no id of `agent` up to `number` any more: earlier processes have."""
    _counters[agent] = max(_counters[agent], number)


def reset_ids() -> None:
    """Count from 1 again, for every agent; for tests."""
    _counters.clear()
