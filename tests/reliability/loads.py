"""The loads of ``test_load``, each in a process of its own so that its memory is its own.

Run as ``python -m tests.reliability.loads NAME SIZE SECONDS``; prints one JSON line.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import trio
import trio.lowlevel

from standby_actors import Actor, MailboxFull, Ref, open_nursery

PAGE = os.sysconf("SC_PAGE_SIZE")
Report = dict[str, Any]


def memory() -> int:
    """Bytes that this process has in memory now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE


class Idle(Actor):
    """Waits for nothing in particular; counts those of its kind that have ended."""

    closed = 0

    def receive(self, message: Any) -> Any:
        return message

    def on_stop(self, reason: Any) -> None:
        Idle.closed += 1


class Echo(Actor):
    """Answers with its message; waits once in a while, as real work does."""

    async def receive(self, message: int) -> int:
        if message % 100 == 0:
            await trio.lowlevel.checkpoint()
        return message


class Slow(Actor):
    """Keeps up with a tenth of what it is sent."""

    def __init__(self) -> None:
        self.handled = 0

    async def receive(self, message: bytes) -> None:
        self.handled += 1
        if self.handled % 10 == 0:
            await trio.sleep(0.001)

    def inspect_state(self) -> int:
        return self.handled


async def all_handled(slow: Ref[bytes]) -> int:
    """How many messages it has handled, once none waits."""
    while slow.snapshot().mailbox:  # noqa: ASYNC110 - an actor has no event for this
        await trio.sleep(0.01)
    handled: int = await slow.get_state()
    return handled


async def idle(size: int, seconds: float) -> Report:
    """L1: actors that do nothing, `size` of them."""
    before = memory()
    began = time.perf_counter()
    async with open_nursery(shutdown=math.inf) as nursery:
        refs: list[Ref[Any]] = [nursery.spawn(Idle) for _ in range(size)]
        spawned = time.perf_counter()
        alive = sum(ref.is_alive for ref in refs)
        held = memory()
        answers = sum([await ref.ask(1) for ref in refs[:: max(1, size // 100)]])
        asked = time.perf_counter()
    closed = time.perf_counter()
    return {
        "alive": alive,
        "answers": answers,
        "closed": Idle.closed,
        "still alive": sum(ref.is_alive for ref in refs),
        "memory": held,
        "growth": held - before,
        "spawns per second": size / (spawned - began),
        "seconds to close": closed - asked,
    }


async def asks(size: int, seconds: float) -> Report:
    """L2: a closed loop, every asker with one ask in flight, for so many seconds."""
    waits: list[float] = []
    wrong = 0
    async with open_nursery() as nursery:
        refs: list[Ref[int]] = [nursery.spawn(Echo) for _ in range(size)]
        over = trio.current_time() + seconds

        async def ask(seed: int) -> None:
            nonlocal wrong
            drawn = random.Random(seed)
            while trio.current_time() < over:
                number = drawn.randrange(1_000_000)
                began = time.perf_counter()
                answer = await drawn.choice(refs).ask(number)
                waits.append(time.perf_counter() - began)
                wrong += answer != number

        async with trio.open_nursery() as tasks:
            for seed in range(64):
                tasks.start_soon(ask, seed)
        left = sum(each.mailbox for each in nursery.tree())
    waits.sort()
    return {
        "asks": len(waits),
        "wrong": wrong,
        "left": left,
        "asks per second": len(waits) / seconds,
        "p99 ms": waits[len(waits) * 99 // 100] * 1000,
    }


async def overload(overflow: Literal["raise", "drop_oldest", "drop_new"], seconds: float) -> Report:
    """L4: messages of a kilobyte come ten times faster than they are handled."""
    sent = refused = most = 0
    before = memory()
    async with open_nursery() as nursery:
        slow: Ref[bytes] = nursery.spawn(Slow, overflow=overflow)
        over = trio.current_time() + seconds
        while trio.current_time() < over:
            for _ in range(100):
                sent += 1
                try:
                    slow.tell(os.urandom(1024))
                except MailboxFull:
                    refused += 1
            await trio.sleep(0.001)
            most = max(most, memory())
        waiting = slow.snapshot().mailbox
        handled = await all_handled(slow)
        drops = dict(nursery.drops)
    return {
        "sent": sent,
        "handled": handled,
        "refused": refused,
        "drops": drops,
        "waiting at the end": waiting,
        "growth": most - before,
    }


async def waiting_senders(size: int, seconds: float) -> Report:
    """L4 with ``send``: producers that wait for room lose nothing, and hold little."""
    sent = most = 0
    before = memory()
    async with open_nursery() as nursery:
        slow: Ref[bytes] = nursery.spawn(Slow, capacity=100)
        over = trio.current_time() + seconds

        async def produce() -> None:
            nonlocal sent, most
            while trio.current_time() < over:
                await slow.send(os.urandom(1024))
                sent += 1
                most = max(most, memory())

        async with trio.open_nursery() as tasks:
            for _ in range(size):
                tasks.start_soon(produce)
        handled = await all_handled(slow)
        drops = dict(nursery.drops)
    return {"sent": sent, "handled": handled, "drops": drops, "growth": most - before}


LOADS: dict[str, Callable[[Any, float], Awaitable[Report]]] = {
    "idle": idle,
    "asks": asks,
    "overload": overload,
    "waiting senders": waiting_senders,
}

if __name__ == "__main__":
    name, how_many, how_long = sys.argv[1:]
    what = int(how_many) if how_many.isdigit() else how_many
    print(json.dumps(trio.run(LOADS[name], what, float(how_long))))
