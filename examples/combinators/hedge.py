"""Hedge: a spare is asked when the first is late.

Prints:

    prompt ['ok', 'not_started']
    spare ['cancelled', 'ok']
"""

from __future__ import annotations

import trio

from standby import hedge


async def prompt(task: str) -> str:
    """Is in time."""
    return "done"


async def late(task: str) -> str:
    """Is not."""
    await trio.sleep(60)
    return "done"


async def spare(task: str) -> str:
    """Stands by."""
    return "done"


async def main() -> None:
    for first in (prompt, late):
        done = await hedge([first, spare], "Go.", after=0.05)
        print(done.agent, [step.status for step in done.steps])


if __name__ == "__main__":
    trio.run(main)
