"""Map and reduce: a task is split, its parts are played, one answer is made.

Prints:

    5 letters, 3 letters
    3 turns
"""

from __future__ import annotations

import trio

from standby import map_reduce


async def count(word: str) -> str:
    """Stands in for a scout."""
    return f"{len(word)} letters"


async def gather(task: str) -> str:
    """Stands in for a writer."""
    return ", ".join(line for line in task.splitlines() if line.endswith("letters"))


async def main() -> None:
    done = await map_reduce(count, gather, "hello you", split=str.split)
    print(done.output)
    print(done.usage.turns, "turns")


if __name__ == "__main__":
    trio.run(main)
