"""xoscar: actors of one pool in this process."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import xoscar

from ..watch import Watch
from .answer import answer, check

AT_ONCE = 1000
"""Children being created at the same time."""


class Adder(xoscar.Actor):
    """Adds up numbers; sets its event when it has had so many."""

    total = 0
    done: asyncio.Event

    def __init__(self, messages: int) -> None:
        super().__init__()
        self.left = messages

    def add(self, message: int) -> None:
        Adder.total += message
        self.left -= 1
        if not self.left:
            Adder.done.set()


class Echo(xoscar.Actor):
    """Answers with what it is asked."""

    def echo(self, message: int) -> int:
        return message


class Turn(xoscar.Actor):
    """Takes one turn: gives its parent a result, and is destroyed by whoever made it."""

    def __init__(self, parent: Any) -> None:
        super().__init__()
        self.parent = parent

    async def turn(self, message: int) -> None:
        await self.parent.add.tell(message + 1)


async def tell(messages: int, address: str) -> None:
    ref = await xoscar.create_actor(Adder, messages, address=address, uid="adder")
    watch = Watch()
    with watch:
        for number in range(messages):
            await ref.add.tell(number)
        await Adder.done.wait()
    check(Adder.total, messages * (messages - 1) // 2)
    answer(messages, watch)


async def ask(questions: int, address: str) -> None:
    ref = await xoscar.create_actor(Echo, address=address, uid="echo")
    await ref.echo(0)
    watch = Watch()
    total = 0
    with watch:
        for number in range(questions):
            total += await ref.echo(number)
    check(total, questions * (questions - 1) // 2)
    answer(questions, watch)


async def fan_out(children: int, address: str) -> None:
    parent = await xoscar.create_actor(Adder, children, address=address, uid="parent")

    async def child(number: int) -> None:
        ref = await xoscar.create_actor(Turn, parent, address=address, uid=str(number))
        await ref.turn(number)
        await xoscar.destroy_actor(ref)

    watch = Watch()
    with watch:
        for start in range(0, children, AT_ONCE):
            stop = min(start + AT_ONCE, children)
            await asyncio.gather(*[child(number) for number in range(start, stop)])
        await Adder.done.wait()
    check(Adder.total, children * (children + 1) // 2)
    answer(children, watch)


async def main(workload: Callable[[int, str], Awaitable[None]], count: int) -> None:
    Adder.done = asyncio.Event()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    await xoscar.create_actor_pool(address, n_process=0)
    await workload(count, address)


if __name__ == "__main__":
    asyncio.run(main(globals()[sys.argv[1]], int(sys.argv[2])))
