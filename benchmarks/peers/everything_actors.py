"""everything-is-an-actor: an actor is an asyncio task with a mailbox."""

from __future__ import annotations

import asyncio
import sys

from actor_for_agents import Actor, ActorRef, ActorSystem, MemoryMailbox

from ..watch import Watch
from .answer import answer, check


class Adder(Actor):
    """Adds up numbers; sets its event when it has had so many."""

    left = 0
    total = 0
    done: asyncio.Event

    async def on_receive(self, message: int) -> None:
        Adder.total += message
        Adder.left -= 1
        if not Adder.left:
            Adder.done.set()


class Echo(Actor):
    """Answers with what it is asked."""

    async def on_receive(self, message: int) -> int:
        return message


class Turn(Actor):
    """Takes one turn: gives its parent a result, and stops."""

    parent: ActorRef

    async def on_receive(self, message: int) -> None:
        await Turn.parent.tell(message + 1)
        self.context.self_ref.stop()


async def tell(messages: int, system: ActorSystem) -> None:
    ref = await system.spawn(Adder, "adder", mailbox=MemoryMailbox(messages + 1))
    watch = Watch()
    with watch:
        for number in range(messages):
            await ref.tell(number)
        await Adder.done.wait()
    check(Adder.total, messages * (messages - 1) // 2)
    answer(messages, watch)


async def ask(questions: int, system: ActorSystem) -> None:
    ref = await system.spawn(Echo, "echo")
    watch = Watch()
    total = 0
    with watch:
        for number in range(questions):
            total += await ref.ask(number)
    check(total, questions * (questions - 1) // 2)
    answer(questions, watch)


async def fan_out(children: int, system: ActorSystem) -> None:
    Turn.parent = await system.spawn(Adder, "adder", mailbox=MemoryMailbox(children + 1))
    watch = Watch()
    with watch:
        for number in range(children):
            ref = await system.spawn(Turn, f"turn-{number}")
            await ref.tell(number)
        await Adder.done.wait()
    check(Adder.total, children * (children + 1) // 2)
    answer(children, watch)


async def main(workload: str, count: int) -> None:
    Adder.left = count
    Adder.done = asyncio.Event()
    await globals()[workload](count, ActorSystem("peer"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
