"""Route: one chooses by name who is asked; two names are no choice.

Prints:

    math 42
    failed: choose chose nobody: math or prose
"""

from __future__ import annotations

import trio

from standby import route


async def choose(task: str) -> str:
    """Stands in for a router with a model."""
    return "math or prose" if "poem" in task else "**math**"


async def math(task: str) -> str:
    """Counts."""
    return "42"


async def prose(task: str) -> str:
    """Writes."""
    return "Once upon a time."


async def main() -> None:
    done = await route(choose, [math, prose], "What is 6 times 7?")
    print(done.destination, done.output)
    lost = await route(choose, [math, prose], "A poem about 7?")
    print(f"{lost.status}: {lost.error and lost.error.message}")


if __name__ == "__main__":
    trio.run(main)
