"""The same work for many, side by side: in order, bounded, each on its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar, Unpack

import trio

from standby_actors.agent import Agent, agent_of
from standby_actors.result import Result, succeeded

from .pool import AgentLike, Options, SubagentPool
from .trail import Report, join_outputs, report

T = TypeVar("T")
R = TypeVar("R")

CONCURRENCY = 4
"""Branches that run at the same time, unless another number is asked for."""


async def map_concurrent(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], concurrency: int = CONCURRENCY
) -> list[R]:
    """What `work` makes of each of `items`, in their order, `concurrency` at a time.

    They begin in order.  If one raises, the others are cancelled, and have
    ended when the error is raised, in an ``ExceptionGroup`` as trio has it.

    Raises:
        ValueError: `concurrency` is less than 1.
    """
    _check(concurrency)
    waiting = list(items)
    made: dict[int, R] = {}
    pending = iter(enumerate(waiting))

    async def worker() -> None:
        for place, item in pending:
            made[place] = await work(item)

    async with trio.open_nursery() as nursery:
        for _ in range(min(concurrency, len(waiting))):
            nursery.start_soon(worker)
    return [made[place] for place in range(len(waiting))]


async def fan_out(
    agent: AgentLike | Sequence[AgentLike],
    tasks: Sequence[str],
    *,
    concurrency: int = CONCURRENCY,
    **options: Unpack[Options],
) -> Report:
    """Ask one agent many tasks, or each of many agents its own.

    The steps of the Report are the Results, in the order of `tasks`.  A branch
    that fails keeps its place, and the others do not notice.  No two branches
    share a memory, whatever the lifetime.  As one Result it is that of the first
    branch that failed, else of the last; its output is that of all branches.

    When this returns, raises, or is cancelled, every subagent is closed.

    Args:
        agent: who plays; of several, one for each task.
        tasks: what is asked; none is answered with no steps.
        concurrency: branches at the same time, at least 1.
        options: about the subagents; see :class:`Options`.

    Raises:
        ValueError: there are not as many agents as tasks, or `concurrency` is
            less than 1; nothing was spawned.
        ModelError: there is no model to ask.
    """
    _check(concurrency)
    agents = _agents(agent, len(tasks))
    async with SubagentPool(**options) as pool:

        async def branch(place: int) -> Result:
            one = agents[place]
            return await pool.turn(one, tasks[place], key=f"{one.name}#{place}")

        results = tuple(await map_concurrent(branch, range(len(tasks)), concurrency))
    deciding = next((each for each in results if not each.ok), results[-1] if results else None)
    if deciding is None:
        deciding = succeeded("fan_out", "")
    return report(deciding, results, pool.trail.usage(), output=join_outputs(results))


def _agents(agent: AgentLike | Sequence[AgentLike], count: int) -> list[Agent]:
    if isinstance(agent, Sequence):
        if len(agent) != count:
            raise ValueError(f"each task has an agent: {len(agent)} agents for {count} tasks")
        return [agent_of(each) for each in agent]
    return [agent_of(agent)] * count


def _check(concurrency: int) -> None:
    if concurrency < 1:
        raise ValueError(f"at least 1 branch runs at a time, not {concurrency}")
