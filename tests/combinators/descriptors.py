"""A fan-out over real sockets, with few descriptors to be had: a program, for `test_limits`.

Run as ``python -m tests.combinators.descriptors BRANCHES WIDTH``; prints one JSON line.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

import trio

from benchmarks.sessions import SAID, SCOUT, served
from standby_actors.models import ModelSettings, Secret
from standby_actors.sessions.connection import open_chat_model
from standby_combinators import StopSwitch, fan_out, stop_switch

FEW = 256
"""Descriptors that the program may have: less than a tenth of the smaller fan-out."""


def descriptors() -> int:
    """Those that are open now, but for the one that looks."""
    return len(os.listdir("/proc/self/fd")) - 1


class Most(trio.abc.Instrument):
    """The most descriptors and subagents that there were whenever the program waited."""

    def __init__(self, switch: StopSwitch) -> None:
        self.switch = switch
        self.descriptors = 0
        self.subagents = 0

    def before_io_wait(self, timeout: float) -> None:
        self.descriptors = max(self.descriptors, descriptors())
        self.subagents = max(self.subagents, len(self.switch.ids))


async def ask(address: str, branches: int, width: int) -> dict[str, Any]:
    """Ask a model so many tasks, so many at a time, and count."""
    settings = ModelSettings("openai", "m", address, Secret("none"))
    switch = stop_switch()
    async with open_chat_model(settings) as model:
        # What is opened once is no branch's.
        await fan_out(SCOUT, ["go"], model=model)
        before, most = descriptors(), Most(switch)
        trio.lowlevel.add_instrument(most)
        tasks = [str(number) for number in range(branches)]
        done = await fan_out(SCOUT, tasks, concurrency=width, model=model, switch=switch)
        trio.lowlevel.remove_instrument(most)
    return {
        "failed": [str(step.error) for step in done.steps if not step.ok][:3],
        "right": sum(step.output == SAID.strip() for step in done.steps),
        "turns": done.usage.turns,
        "more descriptors": most.descriptors - before,
        "subagents": most.subagents,
        "left": len(switch.ids),
    }


def main(branches: int, width: int) -> None:
    """Do it."""
    with served() as address:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))
        print(json.dumps(trio.run(ask, address, branches, width)))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
