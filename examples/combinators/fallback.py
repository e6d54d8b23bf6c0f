"""Fallback: who cannot answer is followed by the next.

Prints:

    ok an answer of the small one
    ['large', 'small']
"""

from __future__ import annotations

import trio

from standby import fallback


async def large(task: str) -> str:
    """Stands in for a model that is down; `models=` names several for one agent."""
    raise ConnectionError("overloaded")


async def small(task: str) -> str:
    """Stands in for another model."""
    return "an answer of the small one"


async def main() -> None:
    done = await fallback([large, small], "Go.")
    print(done.status, done.output)
    print([step.agent for step in done.steps])


if __name__ == "__main__":
    trio.run(main)
