"""Many Results into one: by one turn, or by a tree of turns where one cannot hold them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, Unpack

from attrs import frozen

from standby_actors.agent import Agent, agent_of
from standby_actors.result import Result, failed

from .fan_out import CONCURRENCY, map_concurrent
from .pool import AgentLike, Options, SubagentPool
from .tokens import estimate_tokens
from .trail import Report, join_outputs, report

Show: TypeAlias = Callable[[Sequence[Result]], str]
"""How Results are put before the one who is to reduce them."""

Prepare: TypeAlias = Callable[[Agent, Sequence[Result]], Agent]
"""The agent as it should be for these Results, such as with a schema made of them."""


async def reduce(
    agent: AgentLike,
    results: Sequence[Result],
    question: str,
    *,
    tokens: int | None = None,
    show: Show | None = None,
    prepare: Prepare | None = None,
    concurrency: int = CONCURRENCY,
    **options: Unpack[Options],
) -> Report:
    """Ask one agent for one answer out of many.

    A branch that failed is shown as a failure, never left out.  With a bound in
    `tokens`, Results that exceed it together are reduced in groups, the answers
    of the groups again, until one turn holds the rest.  A group whose turn fails
    is shown as a failure to the next.

    The steps of the Report are `results`, then every turn played, in order; the
    last decides how the whole ended.  Its usage is that of the turns played here.

    Args:
        agent: who reduces.
        results: what is reduced, at least one.
        question: what is asked of it; it stands before the Results.
        tokens: most that the Results may take in one turn, as
            `estimate_tokens` counts; None for no bound.
        show: how Results become text; sections with number, name and output
            unless given.
        prepare: changes the agent for each group.
        concurrency: groups that are reduced at the same time.
        options: about the subagents; see :class:`Options`.

    Raises:
        ValueError: `results` is empty; nothing was spawned.
        ModelError: there is no model to ask.
    """
    if not results:
        raise ValueError("reduce() needs at least one Result")
    one = agent_of(agent)
    shown = show or _sections
    steps = list(results)
    async with SubagentPool(**options) as pool:

        async def turn(place: _Place) -> Result:
            if place.alone:
                return place.group[0]
            player = one if prepare is None else prepare(one, place.group)
            task = f"{question}\n\n{shown(place.group)}"
            result = await pool.turn(player, task, key=place.key)
            steps.append(result)
            return result

        level, height = tuple(results), 0
        while height == 0 or len(level) > 1:
            groups = in_groups([shown([each]) for each in level], tokens)
            if groups is None:
                why = f"{len(level)} results do not fit in pairs in the {tokens} tokens of a turn"
                steps.append(pool.trail.record(failed(one.name, "context_overflow", why)))
                break
            places = [
                # One that is alone in its group is handed on as it is, unless
                # it is all there is. Groups share no memory, so each has a key.
                _Place(
                    f"{one.name}@{height}.{at}", level[start:stop], stop - start == 1 < len(groups)
                )
                for at, (start, stop) in enumerate(groups)
            ]
            level = tuple(await map_concurrent(turn, places, concurrency))
            height += 1
    return report(steps[-1], tuple(steps), pool.trail.usage())


@frozen
class _Place:
    """One group in the tree of groups."""

    key: str
    group: tuple[Result, ...]
    alone: bool


def in_groups(texts: Sequence[str], tokens: int | None) -> list[tuple[int, int]] | None:
    """Consecutive groups of `texts` of at most `tokens` each, as few as possible.

    Returns start and stop of each; None if no grouping would make them fewer,
    because a text alone, or any two together, exceed the bound.

    Examples:
        >>> in_groups(["a b", "c d", "e f"], 4)
        [(0, 2), (2, 3)]
        >>> in_groups(["a b", "c d", "e f"], 3) is None
        True
        >>> in_groups(["a b"], None)
        [(0, 1)]
    """
    if tokens is None:
        return [(0, len(texts))]
    groups: list[tuple[int, int]] = []
    start, size = 0, 0
    for place, text in enumerate(texts):
        cost = estimate_tokens(text)
        if cost > tokens:
            return None
        if place > start and size + cost > tokens:
            groups.append((start, place))
            start, size = place, 0
        size += cost
    groups.append((start, len(texts)))
    return groups if len(groups) < len(texts) or len(texts) == 1 else None


def _sections(results: Sequence[Result]) -> str:
    return join_outputs(tuple(results), numbered=True)
