"""asyncio, and the same on uvloop: tasks and queues in place of actors."""

from __future__ import annotations

import asyncio
import sys

from ..watch import Watch
from .answer import answer, check

BURST = 500


async def tell(messages: int) -> None:
    """Put numbers into a queue, in bursts; another task adds them up."""
    queue = asyncio.Queue[int]()
    total = 0

    async def add_up() -> None:
        nonlocal total
        for _ in range(messages):
            total += await queue.get()

    task = asyncio.create_task(add_up())
    await asyncio.sleep(0)
    watch = Watch()
    with watch:
        for start in range(0, messages, BURST):
            for number in range(start, start + BURST):
                queue.put_nowait(number)
            await asyncio.sleep(0)
        await task
    check(total, messages * (messages - 1) // 2)
    answer(messages, watch)


def main() -> None:
    loop, workload, count = sys.argv[1:]
    work = {"tell": tell}[workload]
    if loop == "uvloop":
        import uvloop

        uvloop.run(work(int(count)))
    else:
        asyncio.run(work(int(count)))


if __name__ == "__main__":
    main()
