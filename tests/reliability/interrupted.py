"""A program to be interrupted: five actors, each with a close hook of half a second.

Run as ``python -m tests.reliability.interrupted DOOR``.  It prints ``closing`` when
its close begins, and at its end one JSON line: what became of each actor and hook.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import trio

import standby_actors
from standby_actors import Actor, ExitReason, Ref, open_nursery


class Closing(Actor):
    """Takes half a second to close."""

    def __init__(self, number: int, hooks: dict[int, str]) -> None:
        self.number = number
        self.hooks = hooks

    async def receive(self, message: Any) -> None:
        await trio.sleep_forever()

    async def on_stop(self, reason: ExitReason) -> None:
        assert self.number not in self.hooks, "a close hook ran twice"
        self.hooks[self.number] = "begun"
        try:
            await trio.sleep(0.5)
        except trio.Cancelled:
            self.hooks[self.number] = "cut"
            raise
        self.hooks[self.number] = "done"


async def main(refs: list[Ref[Any]], hooks: dict[int, str]) -> None:
    """Open the block, and close it."""
    async with open_nursery() as nursery:
        for number in range(5):
            refs.append(nursery.spawn(Closing, number, hooks))
        await trio.lowlevel.checkpoint()
        print("closing", flush=True)


def report(refs: list[Ref[Any]], hooks: dict[int, str]) -> None:
    """Print what became of them."""

    async def reasons() -> list[str]:
        return [type(await ref.join()).__name__ for ref in refs]

    alive = [ref.is_alive for ref in refs]
    what = {"reasons": trio.run(reasons), "alive": alive, "hooks": hooks}
    print()  # an interrupt may have come before the end of the line
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    # A shell starts background jobs with SIGINT ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    started: list[Ref[Any]] = []
    closed: dict[int, str] = {}
    try:
        if sys.argv[1] == "standby":
            standby_actors.run(main, started, closed)
        else:
            trio.run(main, started, closed)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        report(started, closed)
