"""Loop: until the last step is good enough; the cap is no success.

Prints:

    True until 3 draft+++
    False cap 2 draft++
"""

from __future__ import annotations

import trio

from standby import Result, loop


async def improve(draft: str) -> str:
    """Stands in for a worker."""
    return f"{draft}+"


def is_long(step: Result, iteration: int) -> bool:
    """Good enough."""
    return len(step.output) >= 8


async def main() -> None:
    for cap in (5, 2):
        done = await loop([improve], "draft", until=is_long, max_iterations=cap)
        print(done.converged, done.stopped_by, done.iterations, done.output)


if __name__ == "__main__":
    trio.run(main)
