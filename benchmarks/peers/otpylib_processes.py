"""otpylib: Erlang's words on asyncio, a process is a task."""

from __future__ import annotations

import asyncio
import sys

from otpylib import process
from otpylib.runtime.backends.asyncio_backend.backend import AsyncIOBackend
from otpylib.runtime.registry import set_runtime

from ..watch import Watch
from .answer import answer, check


async def tell(messages: int) -> None:
    total = 0
    done = asyncio.Event()

    async def add_up() -> None:
        nonlocal total
        for _ in range(messages):
            total += await process.receive()
        done.set()

    pid = await process.spawn(add_up, mailbox=True)
    watch = Watch()
    with watch:
        for number in range(messages):
            await process.send(pid, number)
        await done.wait()
    check(total, messages * (messages - 1) // 2)
    answer(messages, watch)


async def ask(questions: int) -> None:
    me = process.self()

    async def echo() -> None:
        while True:
            sender, number = await process.receive()
            await process.send(sender, number)

    pid = await process.spawn(echo, mailbox=True)
    watch = Watch()
    total = 0
    with watch:
        for number in range(questions):
            await process.send(pid, (me, number))
            total += await process.receive()
    check(total, questions * (questions - 1) // 2)
    answer(questions, watch)


async def fan_out(children: int) -> None:
    me = process.self()

    async def turn() -> None:
        await process.send(me, await process.receive() + 1)

    watch = Watch()
    total = 0
    with watch:
        for number in range(children):
            await process.send(await process.spawn(turn, mailbox=True), number)
        for _ in range(children):
            total += await process.receive()
    check(total, children * (children + 1) // 2)
    answer(children, watch)


async def main(workload: str, count: int) -> None:
    backend = AsyncIOBackend()
    await backend.initialize()
    set_runtime(backend)
    await process.spawn(globals()[workload], args=[count], mailbox=True)
    # The workload leaves the process when it has answered.
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
