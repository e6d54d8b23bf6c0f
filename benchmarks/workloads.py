"""The work that is timed, done with standby; each checks that it was really done.

Handlers run in full: names, events, exit reasons and typed requests are in
place as in any program, and no private door is used.
"""

from __future__ import annotations

import math
import random
import statistics

import msgspec
import trio

from standby import Actor, Ref, Request, open_nursery

from .floors import BURST
from .measure import Sample, per
from .watch import Watch


class Number(Request[int], frozen=True):
    """Asks for the number that it carries."""

    number: int


class Adder(Actor):
    """Adds up numbers; sets its event when it has had so many."""

    def __init__(self, messages: int, done: trio.Event) -> None:
        self.left = messages
        self.total = 0
        self.done = done

    def receive(self, message: int) -> None:
        self.total += message
        self.left -= 1
        if not self.left:
            self.done.set()


class AsyncAdder(Actor):
    """The same, with an ``async def`` handler."""

    def __init__(self, messages: int, done: trio.Event) -> None:
        self.left = messages
        self.total = 0
        self.done = done

    async def receive(self, message: int) -> None:
        self.total += message
        self.left -= 1
        if not self.left:
            self.done.set()


class Echo(Actor):
    """Answers with the number asked for."""

    def receive(self, message: Number) -> int:
        return message.number


class AsyncEcho(Actor):
    """The same, with an ``async def`` handler."""

    async def receive(self, message: Number) -> int:
        return message.number


class Asker(Actor):
    """Asks another actor so many times within one handler, and answers with the sum."""

    def __init__(self, other: Ref[Number]) -> None:
        self.other = other

    async def receive(self, message: Number) -> int:
        ask = self.other.ask
        total = 0
        for number in range(message.number):
            total += await ask(Number(number))
        return total


def _sum_below(numbers: int) -> int:
    return numbers * (numbers - 1) // 2


async def _tell(adder: type[Adder] | type[AsyncAdder], messages: int, watch: Watch) -> None:
    done = trio.Event()
    async with open_nursery() as nursery:
        ref = nursery.spawn(adder, messages + 1, done, capacity=messages + 1)
        tell = ref.tell
        tell(0)
        await trio.lowlevel.checkpoint()
        with watch:
            for start in range(0, messages, BURST):
                for number in range(start, start + BURST):
                    tell(number)
                await trio.lowlevel.checkpoint()
            await done.wait()
        state = await ref.get_state()
        assert state["total"] == _sum_below(messages)


async def tell(messages: int, watch: Watch) -> None:
    """Tell a ``def`` actor numbers, in bursts; done when it has added them up."""
    await _tell(Adder, messages, watch)


async def tell_async(messages: int, watch: Watch) -> None:
    """Tell an ``async def`` actor numbers, in bursts; done when it has added them up."""
    await _tell(AsyncAdder, messages, watch)


async def ask_in_turn(ref: Ref[Number], questions: int, watch: Watch) -> None:
    """Ask an echo one question after the other."""
    total = 0
    await ref.ask(Number(0))
    ask = ref.ask
    with watch:
        for number in range(questions):
            total += await ask(Number(number))
    assert total == _sum_below(questions)


async def _ask(echo: type[Echo] | type[AsyncEcho], questions: int, watch: Watch) -> None:
    async with open_nursery() as nursery:
        await ask_in_turn(nursery.spawn(echo), questions, watch)


async def ask(questions: int, watch: Watch) -> None:
    """A trio task asks an idle ``def`` actor, one question after the other."""
    await _ask(Echo, questions, watch)


async def ask_async(questions: int, watch: Watch) -> None:
    """A trio task asks an idle ``async def`` actor, one question after the other."""
    await _ask(AsyncEcho, questions, watch)


async def _ask_from_actor(echo: type[Echo] | type[AsyncEcho], questions: int, watch: Watch) -> None:
    async with open_nursery() as nursery:
        asker = nursery.spawn(Asker, nursery.spawn(echo))
        await asker.ask(Number(1))
        with watch:
            total = await asker.ask(Number(questions))
        assert total == _sum_below(questions)


async def ask_from_actor(questions: int, watch: Watch) -> None:
    """An actor asks a ``def`` actor, one question after the other."""
    await _ask_from_actor(Echo, questions, watch)


async def ask_async_from_actor(questions: int, watch: Watch) -> None:
    """An actor asks an ``async def`` actor, one question after the other."""
    await _ask_from_actor(AsyncEcho, questions, watch)


async def spawn_and_stop(actors: int, watch: Watch) -> None:
    """Spawn actors, stop them all, and wait for the end of each."""
    async with open_nursery() as nursery:
        with watch:
            refs = [nursery.spawn(Echo) for _ in range(actors)]
            await trio.lowlevel.checkpoint()
            ends = [ref.stop() for ref in refs]
            reasons = [await end for end in ends]
        assert len(reasons) == actors
        assert not any(ref.is_alive for ref in refs)


class Turn(Actor):
    """Takes one turn: gives its parent a result, and stops."""

    def __init__(self, parent: Ref[int]) -> None:
        self.parent = parent

    def receive(self, message: int) -> None:
        self.parent.tell(message + 1)
        self.stop()


class WaitingTurn(Actor):
    """Takes one turn that waits once in trio: gives its parent a result, and stops."""

    def __init__(self, parent: Ref[int]) -> None:
        self.parent = parent

    async def receive(self, message: int) -> None:
        await trio.lowlevel.checkpoint()
        self.parent.tell(message + 1)
        self.stop()


async def _fan_out(turn: type[Turn] | type[WaitingTurn], children: int, watch: Watch) -> None:
    done = trio.Event()
    async with open_nursery() as nursery:
        parent = nursery.spawn(Adder, children, done, capacity=math.inf)
        with watch:
            for number in range(children):
                nursery.spawn(turn, parent).tell(number)
                if number % 1000 == 999:
                    await trio.lowlevel.checkpoint()
            await done.wait()
        state = await parent.get_state()
        assert state["total"] == _sum_below(children + 1)


async def fan_out(children: int, watch: Watch) -> None:
    """Spawn children that each take a turn, hand in a result and stop."""
    await _fan_out(Turn, children, watch)


async def fan_out_waiting(children: int, watch: Watch) -> None:
    """Spawn children whose turn waits once in trio."""
    await _fan_out(WaitingTurn, children, watch)


class Hop(Actor):
    """One of a ring: passes a number on, less one; sets its event at nought."""

    def __init__(self, done: trio.Event) -> None:
        self.done = done
        self.neighbour: Ref[object] | None = None

    def receive(self, message: object) -> None:
        if isinstance(message, int):
            if message and self.neighbour is not None:
                self.neighbour.tell(message - 1)
            else:
                self.done.set()
        elif isinstance(message, Ref):
            self.neighbour = message


RING = 1000
"""Actors in a ring, here and at the peers."""


async def ring(hops: int, watch: Watch) -> None:
    """Send one message around a ring of actors."""
    done = trio.Event()
    async with open_nursery() as nursery:
        refs = [nursery.spawn(Hop, done) for _ in range(RING)]
        for ref, neighbour in zip(refs, refs[1:] + refs[:1], strict=True):
            ref.tell(neighbour)
        await trio.lowlevel.checkpoint()
        with watch:
            refs[0].tell(hops)
            await done.wait()


class Branch(msgspec.Struct, frozen=True, gc=False):
    """Tells an actor of a skynet to count the leaves below it."""

    first: int
    leaves: int


class Skynet(Actor):
    """Splits its leaves among ten children, and sends up their sum; a leaf sends its number."""

    def __init__(self, parent: Ref[int]) -> None:
        self.parent = parent
        self.left = 10
        self.total = 0

    def receive(self, message: Branch | int) -> None:
        if isinstance(message, int):
            self.total += message
            self.left -= 1
            if not self.left:
                self.parent.tell(self.total)
                self.stop()
        elif message.leaves == 1:
            self.parent.tell(message.first)
            self.stop()
        else:
            share = message.leaves // 10
            for first in range(message.first, message.first + message.leaves, share):
                self.spawn(Skynet, self.ref).tell(Branch(first, share))


async def _skynet(leaves: int, watch: Watch) -> None:
    done = trio.Event()
    async with open_nursery() as nursery:
        top = nursery.spawn(Adder, 1, done)
        with watch:
            nursery.spawn(Skynet, top).tell(Branch(0, leaves))
            await done.wait()
        state = await top.get_state()
        assert state["total"] == _sum_below(leaves)


def skynet(leaves: int) -> Sample:
    """Grow a tree of actors, ten to each, down to so many leaves; add up their numbers."""
    watch = Watch()
    trio.run(_skynet, leaves, watch)
    actors = 0
    while leaves:
        actors += leaves
        leaves //= 10
    return per(actors, watch)


STOPPED = 300
"""How many are stopped one by one, here and at the peers."""


async def _stop_one(actors: int) -> list[tuple[float, float]]:
    latencies: list[tuple[float, float]] = []
    async with open_nursery() as nursery:
        refs = [nursery.spawn(Echo) for _ in range(actors)]
        await trio.lowlevel.checkpoint()
        for ref in random.Random(15).sample(refs, STOPPED):
            watch = Watch()
            with watch:
                await ref.stop()
            latencies.append((watch.wall, watch.cpu))
            assert not ref.is_alive
    return latencies


def stop_one(actors: int) -> Sample:
    """Stop single actors among many; the median time of one."""
    walls, cpus = zip(*trio.run(_stop_one, actors), strict=True)
    return Sample(statistics.median(walls), statistics.median(cpus))
