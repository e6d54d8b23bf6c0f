"""async-pykka: pykka's shape, an actor is an asyncio task."""

from __future__ import annotations

import asyncio
import sys

import async_pykka

from ..watch import Watch
from .answer import answer, check


class Adder(async_pykka.AsyncioActor):
    """Adds up numbers; sets its event when it has had so many."""

    total = 0

    def __init__(self, messages: int, done: asyncio.Event) -> None:
        super().__init__()
        self.left = messages
        self.done = done

    async def on_receive(self, message: int) -> None:
        Adder.total += message
        self.left -= 1
        if not self.left:
            self.done.set()


class Echo(async_pykka.AsyncioActor):
    """Answers with what it is asked."""

    async def on_receive(self, message: int) -> int:
        return message


class Turn(async_pykka.AsyncioActor):
    """Takes one turn: gives its parent a result, and stops."""

    def __init__(self, parent: async_pykka.ActorRef) -> None:
        super().__init__()
        self.parent = parent

    async def on_receive(self, message: int) -> None:
        self.parent.tell(message + 1)
        self.stop()


async def tell(messages: int) -> None:
    done = asyncio.Event()
    ref = Adder.start(messages, done)
    watch = Watch()
    with watch:
        for number in range(messages):
            ref.tell(number)
        await done.wait()
    check(Adder.total, messages * (messages - 1) // 2)
    answer(messages, watch)


async def ask(questions: int) -> None:
    ref = Echo.start()
    watch = Watch()
    total = 0
    with watch:
        for number in range(questions):
            total += await ref.ask(number).get()
    check(total, questions * (questions - 1) // 2)
    answer(questions, watch)


async def fan_out(children: int) -> None:
    done = asyncio.Event()
    parent = Adder.start(children, done)
    watch = Watch()
    with watch:
        for number in range(children):
            Turn.start(parent).tell(number)
        await done.wait()
    check(Adder.total, children * (children + 1) // 2)
    answer(children, watch)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](int(sys.argv[2])))
