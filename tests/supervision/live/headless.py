"""A workspace that nobody looks at, for as many quarters of an hour as it is told.

Run by itself: the checks around a test keep what its tasks have known, and so would be
measured as well.  Prints how much memory there was after each quarter, and how many
agents were kept.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import tracemalloc

import msgspec
import trio
from trio.testing import MockClock

from standby_supervision.runs import open_workspace
from standby_supervision.store import open_store


async def agent(task: str) -> str:
    """Take a second."""
    await trio.sleep(1)
    return "done"


async def main(quarters: int) -> None:
    """Two agents a minute."""
    sizes: list[int] = []
    kept: list[int] = []
    async with (
        open_store(None, inline=True) as store,
        open_workspace(tempfile.gettempdir(), store) as workspace,
    ):
        tracemalloc.start()
        for _ in range(quarters):
            async with workspace.open_run() as run:
                for _ in range(30):
                    await run.turn(agent, "a")
                    await trio.sleep(29)
                kept.append(len(workspace.recent_agents()))
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    print(msgspec.json.encode({"sizes": sizes, "kept": kept}).decode())


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), clock=MockClock(autojump_threshold=0))
