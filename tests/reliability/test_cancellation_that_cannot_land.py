"""Case C03 and its kind: what cannot be cancelled yet must wait, not spin."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import Actor, Ref, open_nursery

MOST_STEPS = 20
"""Steps of trio's scheduler, for each actor, from the cancellation to the last end."""


class Steps(trio.abc.Instrument):
    """Counts the steps that trio takes."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Called by trio."""
        self.count += 1


class Waits(Actor):
    """Waits 30 s in a shield, or for ever, or has finished at once."""

    async def receive(self, message: str) -> None:
        if message == "shielded":
            with trio.CancelScope(shield=True):
                await trio.sleep(30)
        elif message == "normal":
            await trio.sleep_forever()


class Asks(Actor):
    """Waits for what it asks."""

    async def receive(self, message: tuple[Ref[str], str]) -> None:
        other, word = message
        await other.ask(word)


def fifty(nursery: Any, **options: Any) -> list[Ref[Any]]:
    """10 actors in a shield, 10 that have finished, 30 that wait."""
    words = ["shielded"] * 10 + ["nothing"] * 10 + ["normal"] * 30
    refs: list[Ref[Any]] = []
    for word in words:
        refs.append(nursery.spawn(Waits, **options))
        refs[-1].tell(word)
    return refs


async def steps_until_all_have_ended(end: Any, **options: Any) -> tuple[int, float]:
    """Steps from `end(nursery)` at 1 s to the end of the block, and when that was."""
    steps = Steps()
    with trio.CancelScope() as scope:
        async with open_nursery(grace=60, shutdown=120) as nursery:
            refs = fifty(nursery, **options)
            await trio.sleep(1)
            trio.lowlevel.add_instrument(steps)
            end(nursery, scope)
            for ref in refs:
                await ref.join()
    trio.lowlevel.remove_instrument(steps)
    return steps.count, trio.current_time()


def by_a_kill(nursery: Any, scope: trio.CancelScope) -> None:
    nursery.kill()


def by_a_cancellation(nursery: Any, scope: trio.CancelScope) -> None:
    scope.cancel()


@pytest.mark.parametrize("dedicated", [False, True])
async def test_fifty_killed_actors_cost_few_steps_until_the_last_has_left_its_shield(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    steps, ended = await steps_until_all_have_ended(by_a_kill, dedicated=dedicated)
    assert ended == 30
    assert steps <= MOST_STEPS * 50


@pytest.mark.parametrize("dedicated", [False, True])
async def test_fifty_actors_that_a_cancellation_stops_cost_few_steps(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    # Stopped one after the other: the shields end together, at 30 s.
    steps, ended = await steps_until_all_have_ended(
        by_a_cancellation, stop_mode="interrupt", shutdown=100, dedicated=dedicated
    )
    assert ended == 30
    assert steps <= MOST_STEPS * 50


async def test_actors_parked_on_actors_in_shields_cost_few_steps_when_killed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    steps = Steps()
    async with open_nursery(grace=60) as nursery:
        for _ in range(10):
            shielded: Ref[str] = nursery.spawn(Waits)
            for _ in range(4):
                nursery.spawn(Asks).tell((shielded, "shielded"))
        await trio.sleep(1)
        trio.lowlevel.add_instrument(steps)
        nursery.kill()
    trio.lowlevel.remove_instrument(steps)
    assert trio.current_time() == 30
    assert steps.count <= MOST_STEPS * 50


async def test_a_handler_that_swallows_its_cancellation_and_waits_on_costs_few_steps(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Swallows(Actor):
        """Waits again after its cancellation, in a shield."""

        async def receive(self, message: Any) -> None:
            with contextlib.suppress(trio.Cancelled):
                await trio.sleep_forever()
            with trio.CancelScope(shield=True):
                await trio.sleep(10)

    steps = Steps()
    async with open_nursery(grace=60) as nursery:
        for _ in range(50):
            nursery.spawn(Swallows).tell("wait")
        await trio.sleep(1)
        trio.lowlevel.add_instrument(steps)
        nursery.kill()
    trio.lowlevel.remove_instrument(steps)
    assert trio.current_time() == 11
    assert steps.count <= MOST_STEPS * 50


async def test_a_thousand_idle_actors_take_no_step_for_an_hour(
    autojump_clock: trio.testing.MockClock,
) -> None:
    steps = Steps()
    async with open_nursery() as nursery:
        refs: list[Ref[Any]] = [nursery.spawn(Waits) for _ in range(1000)]
        for ref in refs:
            await ref.ask("nothing")
        trio.lowlevel.add_instrument(steps)
        await trio.sleep(3600)
        trio.lowlevel.remove_instrument(steps)
    assert steps.count <= 2


async def test_a_suspended_actor_with_mail_takes_no_step(
    autojump_clock: trio.testing.MockClock,
) -> None:
    steps = Steps()
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Waits)
        ref.suspend()
        ref.tell("nothing")
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(steps)
        await trio.sleep(3600)
        trio.lowlevel.remove_instrument(steps)
        assert ref.snapshot().mailbox == 1
        assert steps.count <= 2
