"""Orchestrate: a planner splits the work, and what needs what is waited for.

Prints:

    1 look: the cellar
    2 look: the attic
    3 tell: what was found (after 1, 2)
    ok found the cellar, found the attic
"""

from __future__ import annotations

import json

import trio

from standby import orchestrate


async def plan(task: str) -> str:
    """Stands in for a planner with a model."""
    return json.dumps(
        [
            {"id": 1, "agent": "look", "task": "the cellar"},
            {"id": 2, "agent": "look", "task": "the attic"},
            {"id": 3, "agent": "tell", "task": "what was found", "needs": [1, 2]},
        ]
    )


async def look(task: str) -> str:
    """Finds things."""
    return f"found {task}"


async def tell(task: str) -> str:
    """Tells what others found."""
    return ", ".join(line for line in task.splitlines() if line.startswith("found"))


async def main() -> None:
    done = await orchestrate(plan, [look, tell], "What is in the house?")
    print(done.plan.render())
    print(done.status, done.branches[-1].output)


if __name__ == "__main__":
    trio.run(main)
