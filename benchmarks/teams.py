"""Fan-outs of functions that are timed: with a pool, a trail and a Result for each branch."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from standby import fan_out

from .measure import Sample, per
from .watch import Watch

WIDTH = 1_000
"""Branches at once."""


async def _echo(task: str) -> str:
    return task


def _tasks(branches: int) -> list[str]:
    return [str(number) for number in range(branches)]


async def fan_out_functions(branches: int, watch: Watch) -> None:
    """Ask a function so many tasks, a thousand at once."""
    tasks = _tasks(branches)
    with watch:
        report = await fan_out(_echo, tasks, concurrency=WIDTH)
    assert [step.output for step in report.steps] == tasks


async def weigh_branches(branches: int) -> float:
    """Bytes that are left of a branch that has ended, in the report of all."""
    tasks = _tasks(branches)
    await fan_out(_echo, tasks[:10], concurrency=WIDTH)
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    report = await fan_out(_echo, tasks, concurrency=WIDTH)
    gc.collect()
    assert len(report.steps) == branches
    return (tracemalloc.get_traced_memory()[0] - before) / branches


def gathered(branches: int) -> Sample:
    """Do the same with asyncio: all tasks made at once, a thousand of them at work."""

    async def main() -> Sample:
        width = asyncio.Semaphore(WIDTH)
        watch = Watch()

        async def branch(task: str) -> str:
            async with width:
                return await _echo(task)

        tasks = _tasks(branches)
        with watch:
            said = await asyncio.gather(*(branch(task) for task in tasks))
        assert said == tasks
        return per(branches, watch)

    return asyncio.run(main())
