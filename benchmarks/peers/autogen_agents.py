"""autogen-core: agents of its single-threaded runtime.

It has no message to one agent that nobody answers; the nearest thing to a tell
is a message published to a topic with one subscriber.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from autogen_core import (
    AgentId,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    TypeSubscription,
    message_handler,
)

from ..watch import Watch
from .answer import answer, check


@dataclass
class Number:
    number: int


@dataclass
class Outcome:
    number: int


class Adder(RoutedAgent):
    """Adds up numbers; sets its event when it has had so many."""

    left = 0
    total = 0
    done: asyncio.Event

    def __init__(self) -> None:
        super().__init__("adds up")

    @message_handler
    async def add(self, message: Outcome, ctx: MessageContext) -> None:
        Adder.total += message.number
        Adder.left -= 1
        if not Adder.left:
            Adder.done.set()


class Echo(RoutedAgent):
    """Answers with what it is asked."""

    def __init__(self) -> None:
        super().__init__("answers")

    @message_handler
    async def echo(self, message: Number, ctx: MessageContext) -> Outcome:
        return Outcome(message.number)


class Turn(RoutedAgent):
    """Takes one turn: gives its parent a result."""

    def __init__(self) -> None:
        super().__init__("takes a turn")

    @message_handler
    async def turn(self, message: Number, ctx: MessageContext) -> None:
        await self.send_message(Outcome(message.number + 1), AgentId("adder", "parent"))


async def tell(messages: int, runtime: SingleThreadedAgentRuntime) -> None:
    await runtime.add_subscription(TypeSubscription("topic", "adder"))
    topic = TopicId("topic", "parent")
    watch = Watch()
    with watch:
        for number in range(messages):
            await runtime.publish_message(Outcome(number), topic)
        await Adder.done.wait()
    check(Adder.total, messages * (messages - 1) // 2)
    answer(messages, watch)


async def ask(questions: int, runtime: SingleThreadedAgentRuntime) -> None:
    echo = AgentId("echo", "one")
    await runtime.send_message(Number(0), echo)
    watch = Watch()
    total = 0
    with watch:
        for number in range(questions):
            total += (await runtime.send_message(Number(number), echo)).number
    check(total, questions * (questions - 1) // 2)
    answer(questions, watch)


async def fan_out(children: int, runtime: SingleThreadedAgentRuntime) -> None:
    watch = Watch()
    with watch:
        await asyncio.gather(
            *[
                runtime.send_message(Number(number), AgentId("turn", str(number)))
                for number in range(children)
            ]
        )
        await Adder.done.wait()
    check(Adder.total, children * (children + 1) // 2)
    answer(children, watch)


async def main(
    workload: Callable[[int, SingleThreadedAgentRuntime], Awaitable[None]], count: int
) -> None:
    Adder.left = count
    Adder.done = asyncio.Event()
    runtime = SingleThreadedAgentRuntime()
    await Adder.register(runtime, "adder", Adder)
    await Echo.register(runtime, "echo", Echo)
    await Turn.register(runtime, "turn", Turn)
    runtime.start()
    await workload(count, runtime)


if __name__ == "__main__":
    asyncio.run(main(globals()[sys.argv[1]], int(sys.argv[2])))
