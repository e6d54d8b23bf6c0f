"""Nobody waits for long because somebody else has much to do."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby.testing import PumpSeam
from standby_actors import Actor, Ref, open_nursery
from tests.actors.workers import AsyncEcho

MOST = 0.005
"""Seconds of the pump's clock that one actor may keep all others waiting."""
TURN = 0.0001
"""Seconds that each handler takes on that clock."""


class Endless(Actor):
    """Sends itself a message for each that it gets."""

    def __init__(self, seam: PumpSeam) -> None:
        self.seam = seam
        self.turns: list[float] = []

    def receive(self, message: Any) -> Any:
        self.seam.spend(TURN)
        self.turns.append(self.seam.clock())
        self.ref.tell(message)


class AsyncEndless(Endless):
    """The same as a coroutine that does not wait."""

    async def receive(self, message: Any) -> None:
        super().receive(message)


class AskingEndless(Endless):
    """The same as a coroutine that asks an actor each time."""

    def __init__(self, seam: PumpSeam, echo: Ref[Any]) -> None:
        super().__init__(seam)
        self.echo = echo

    async def receive(self, message: Any) -> None:
        await self.echo.ask(message)
        super().receive(message)


ENDLESS = pytest.mark.parametrize("actor", [Endless, AsyncEndless, AskingEndless])


def longest(moments: list[float]) -> float:
    """The longest time between two of them."""
    return max(after - before for before, after in itertools.pairwise(moments))


async def flood(nursery: Any, actor: Any, seam: PumpSeam, mail: int) -> Ref[Any]:
    """An actor with so many messages waiting, and no end to them."""
    args = (seam, nursery.spawn(AsyncEcho)) if actor is AskingEndless else (seam,)
    ref: Ref[Any] = nursery.spawn(actor, *args)
    for number in range(mail):
        ref.tell(number)
    return ref


class Steps(trio.abc.Instrument):
    """Measures each step of each task on the pump's clock."""

    def __init__(self, seam: PumpSeam) -> None:
        self.seam = seam
        self.began = 0.0
        self.longest = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.began = self.seam.clock()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest = max(self.longest, self.seam.clock() - self.began)


@ENDLESS
@pytest.mark.parametrize("mail", [1, 1000])
async def test_endless_mail_never_holds_the_loop_for_longer(
    actor: Any, mail: int, autojump_clock: MockClock
) -> None:
    with PumpSeam(budget=512).installed() as seam:
        async with open_nursery() as nursery:
            steps = Steps(seam)
            trio.lowlevel.add_instrument(steps)
            ref = await flood(nursery, actor, seam, mail)
            moments = [seam.clock()]
            while seam.clock() < 1:
                await trio.lowlevel.checkpoint()
                moments.append(seam.clock())
            trio.lowlevel.remove_instrument(steps)
            ref.kill()
    assert 0 < steps.longest <= MOST
    # trio shuffles what is ready: between two steps of a task may be two of the pump.
    assert longest(moments) <= 2 * MOST


@ENDLESS
@pytest.mark.parametrize("other", [Endless, AsyncEndless])
@pytest.mark.parametrize("mail", [1, 1000])
async def test_endless_mail_keeps_no_other_actor_waiting(
    actor: Any, other: Any, mail: int, autojump_clock: MockClock
) -> None:
    with PumpSeam(budget=512).installed() as seam:
        async with open_nursery() as nursery:
            ref = await flood(nursery, actor, seam, mail)
            starved = nursery.spawn(other, seam)
            starved.tell("the only one")
            while seam.clock() < 1:
                await trio.lowlevel.checkpoint()
            turns = (await starved.get_state())["turns"]
            ref.kill()
            starved.kill()
    assert len(turns) > 100
    assert longest(turns) <= MOST


@ENDLESS
async def test_endless_mail_keeps_no_actor_of_another_block_waiting(
    actor: Any, autojump_clock: MockClock
) -> None:
    with PumpSeam(budget=512).installed() as seam:
        async with open_nursery() as one, open_nursery() as two:
            ref = await flood(one, actor, seam, 1000)
            echo = two.spawn(AsyncEcho)
            moments = [seam.clock()]
            while seam.clock() < 1:
                await echo.ask(1)
                moments.append(seam.clock())
            ref.kill()
    # An answer from another block takes some passes of the scheduler, each bounded.
    assert longest(moments) <= 4 * MOST


async def test_the_budget_holds_where_the_seam_counts_the_turns(
    autojump_clock: MockClock,
) -> None:
    async def passes(self: Actor) -> None:
        self.ref.tell(passes)

    class Runs(Actor):
        async def receive(self, message: Any) -> None:
            await message(self)

    with PumpSeam(turn_seconds=TURN, budget=512).installed() as seam:
        async with open_nursery() as nursery:
            refs = [nursery.spawn(Runs) for _ in range(100)]
            for ref in refs:
                ref.tell(passes)
            steps = Steps(seam)
            trio.lowlevel.add_instrument(steps)
            while seam.clock() < 0.05:
                await trio.lowlevel.checkpoint()
            trio.lowlevel.remove_instrument(steps)
            for ref in refs:
                ref.kill()
    assert 0 < steps.longest <= MOST


async def test_cheap_turns_are_bound_by_their_number(autojump_clock: MockClock) -> None:
    with PumpSeam(budget=512).installed():
        async with open_nursery() as nursery:
            counted = 0

            def counts(message: Any) -> None:
                nonlocal counted
                counted += 1
                ref.tell(message)

            ref = nursery.spawn(counts)
            ref.tell(1)
            most = 0
            for _ in range(100):
                before = counted
                await trio.lowlevel.checkpoint()
                most = max(most, counted - before)
            ref.kill()
    assert 256 <= most <= 2 * 512


@ENDLESS
async def test_an_actor_with_endless_mail_can_be_stopped(
    actor: Any, autojump_clock: MockClock
) -> None:
    with PumpSeam(budget=512).installed() as seam:
        async with open_nursery() as nursery:
            ref = await flood(nursery, actor, seam, 10)
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            await ref.stop()
            assert not ref.is_alive


@ENDLESS
async def test_a_block_with_endless_mail_can_be_left(actor: Any, autojump_clock: MockClock) -> None:
    with PumpSeam(budget=512).installed() as seam:
        async with open_nursery() as nursery:
            await flood(nursery, actor, seam, 10)
            for _ in range(5):
                await trio.lowlevel.checkpoint()


@ENDLESS
async def test_endless_mail_is_looked_into_between_two_messages(
    actor: Any, autojump_clock: MockClock
) -> None:
    with PumpSeam(budget=512).installed() as seam:
        async with open_nursery() as nursery:
            ref = await flood(nursery, actor, seam, 500)
            await trio.lowlevel.checkpoint()
            asked_at = seam.clock()
            await ref.get_state()
            assert seam.clock() - asked_at <= 2 * MOST
            ref.kill()
