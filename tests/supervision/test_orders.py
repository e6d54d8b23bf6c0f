"""Stops, crashes, restarts and asks that come at once: every order of them is right.

Not seeds: the choices of trio's scheduler and of the pump are enumerated, from when
the first of the racing tasks begins until nothing happens any more.  Left out are
only orders that differ in when somebody has nothing to do.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field, frozen

from standby_actors import Actor, ActorCrashed, ActorStopped, Event, ExitReason, Reply, open_events
from standby_actors import block as block_module
from standby_supervision import Branch, child, open_supervisor, supervisor
from tests.support.orders import Orders, search

pytestmark = pytest.mark.usefixtures("quiet_reports")

FAST = 300
"""Orders of one race in the fast size; the deep size takes all that there are."""


@define(eq=False)
class World:
    """What the actors of one run have seen, and what was asked of them."""

    handled: dict[str, list[int]] = field(factory=dict)
    asks: list[Reply[Any]] = field(factory=list)
    answers: list[Any] = field(factory=list)
    ends: list[tuple[str, int, str]] = field(factory=list)
    """Who ended, in which life, and how."""
    crashes: int = 0


class Worker(Actor):
    """Crashes when it is told to; otherwise notes the number that it was asked."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name

    async def on_start(self) -> None:
        """Be one that has a hook: its start takes a turn."""

    async def receive(self, message: Any) -> Any:
        if message == "die":
            self.world.crashes += 1
            raise ValueError(message)
        self.world.handled.setdefault(self.name, []).append(message)
        return message

    def on_stop(self, reason: ExitReason) -> None:
        """Be one that has a hook: its end takes a turn."""


Act = Callable[[World, Branch, Branch], Awaitable[object]]


async def crash_a(world: World, top: Branch, sup: Branch) -> None:
    sup["a"].tell("die")


async def crash_b(world: World, top: Branch, sup: Branch) -> None:
    sup["b"].tell("die")


async def ask_a(world: World, top: Branch, sup: Branch) -> None:
    world.asks += [sup["a"].ask(1), sup["a"].ask(2)]


async def ask_b(world: World, top: Branch, sup: Branch) -> None:
    world.asks += [sup["b"].ask(1), sup["b"].ask(2)]


async def kill_a(world: World, top: Branch, sup: Branch) -> None:
    sup["a"].kill()


async def stop_a(world: World, top: Branch, sup: Branch) -> None:
    world.answers.append(type(await sup.terminate_child("a")).__name__)


async def restart_a(world: World, top: Branch, sup: Branch) -> None:
    world.answers.append(type(await sup.restart_child("a")).__name__)


async def stop_all(world: World, top: Branch, sup: Branch) -> None:
    world.answers.append(type(await top.terminate_child("sup")).__name__)


@frozen
class Race:
    """Acts that begin at once, and how the tree may look when all is over."""

    acts: tuple[Act, ...]
    strategy: str = "one_for_one"
    may_be_refused: bool = False
    """Whether an ask may be refused because its actor is not to run any more."""
    stays: bool = True
    """Whether the supervisor runs in the end."""


RACES = {
    # two actors: the supervisor and `a`
    "crash, ask": Race((crash_a, ask_a)),
    "kill, ask": Race((kill_a, ask_a), may_be_refused=True),
    "stop, ask": Race((stop_a, ask_a), may_be_refused=True),
    "crash, stop": Race((crash_a, stop_a)),
    "crash, stop, ask": Race((crash_a, stop_a, ask_a), may_be_refused=True),
    "crash, stop of all": Race((crash_a, stop_all), stays=False),
    "kill, restart, ask": Race((kill_a, restart_a, ask_a), may_be_refused=True),
    "crash, ask, stop of all": Race((crash_a, ask_a, stop_all), may_be_refused=True, stays=False),
}

RACES_OF_THREE = {
    # three: the supervisor, `a` and `b`
    "two crashes": Race((crash_a, crash_b)),
    "two crashes, all restart": Race((crash_a, crash_b), "one_for_all"),
    "two crashes, the later restart": Race((crash_a, crash_b), "rest_for_one"),
    "two crashes, ask": Race((crash_a, crash_b, ask_b), "one_for_all"),
    "crash, ask of the other": Race((crash_a, ask_b), "one_for_all"),
    "crash, stop of the other": Race((crash_b, stop_a), "one_for_all"),
    "kill, crash of the other, restart": Race((kill_a, crash_b, restart_a), "one_for_all"),
    "crash, stop, ask of the other": Race((crash_b, stop_a, ask_b), "rest_for_one"),
    "two crashes, stop of all": Race((crash_a, crash_b, stop_all), "one_for_all", stays=False),
}


def is_racing(task: trio.lowlevel.Task) -> bool:
    """Whether it matters when `task` runs: a pump, or an act that has not begun.

    An act that goes on only notes its answer, and the test only waits.
    """
    return task.name.endswith("work") or inspect.getcoroutinestate(task.coro) == "CORO_CREATED"


def run(race: Race, orders: Orders, *, of_three: bool) -> None:
    world = World()

    async def main() -> None:
        names = ("a", "b") if of_three else ("a",)
        spec = supervisor(
            *(child(Worker, world, name, id=name) for name in names),
            id="sup",
            strategy=race.strategy,  # type: ignore[arg-type]  # one of them
            intensity=5,
        )
        async with open_events() as events, open_supervisor(spec) as top:
            sup = top.branch("sup")
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                for act in race.acts:
                    nursery.start_soon(act, world, top, sup)
                orders.is_armed = True
            await trio.testing.wait_all_tasks_blocked()
            orders.is_armed = False
            await check(race, world, top)
        events.close()
        async for event in events:
            note(world, event)
        check_ends(race, world)

    token = block_module.seam.set(orders)
    try:
        with orders.of_trio():  # the Z checks come once for all orders, after the test
            trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        block_module.seam.reset(token)


def note(world: World, event: Event) -> None:
    name = event.actor.rpartition("/")[2]
    if event.type == "actor.stopped" and name in ("a", "b"):
        world.ends.append((name, event.incarnation, str(event.data["reason"]).split()[0]))


async def check(race: Race, world: World, top: Branch) -> None:
    """What must hold when nothing happens any more."""
    for ask in world.asks:
        assert ask.done, "an ask that nobody answers"
        if not race.may_be_refused:
            ask.result()
            continue
        with contextlib.suppress(ActorStopped, ActorCrashed):
            ask.result()
    for name, handled in world.handled.items():
        assert handled == sorted(set(handled)), f"{name} handled {handled}"
    (below,) = await top.which_children()
    assert (below.state == "running") is race.stays
    assert below.restarts == 0
    if not race.stays:
        return
    for each in await top.branch("sup").which_children():
        if stop_a in race.acts and each.id == "a":
            # Stopped by hand; a restart of all that came later brings it back.
            assert each.state == "undefined" or race.strategy != "one_for_one"
        else:
            assert each.state == "running"
            assert each.ref is not None
            # Each life but the first is a restart, and each restart is counted.
            assert each.ref.incarnation == each.restarts + 1
            assert await each.ref.ask(99) == 99


def check_ends(race: Race, world: World) -> None:
    """Each life ends once, and as it did."""
    lives = [(name, life) for name, life, _ in world.ends]
    assert len(lives) == len(set(lives)), f"a life ended twice: {world.ends}"
    reasons = [reason for _, _, reason in world.ends]
    assert reasons.count("crashed") == world.crashes, (world.ends, world.crashes)
    assert reasons.count("killed") <= race.acts.count(kill_a), world.ends
    assert set(reasons) <= {"crashed", "killed", "shutdown"}, world.ends


@pytest.mark.parametrize("name", RACES)
def test_every_order_of_a_race_of_two_actors_is_right(name: str) -> None:
    orders, is_all = search(lambda each: run(RACES[name], each, of_three=False), FAST, is_racing)
    print(f"{name}: {orders} orders{'' if is_all else ', not all'}")
    assert orders > 1


@pytest.mark.parametrize("name", RACES_OF_THREE)
def test_many_orders_of_a_race_of_three_actors_are_right(name: str) -> None:
    orders, is_all = search(
        lambda each: run(RACES_OF_THREE[name], each, of_three=True), FAST, is_racing
    )
    print(f"{name}: {orders} orders{'' if is_all else ', not all'}")
    assert orders > 1


@pytest.mark.deep
@pytest.mark.parametrize("name", [*RACES, *RACES_OF_THREE])
def test_every_order_of_every_race_is_right(name: str) -> None:
    race = {**RACES, **RACES_OF_THREE}[name]
    orders, is_all = search(
        lambda each: run(race, each, of_three=name in RACES_OF_THREE), counts=is_racing
    )
    print(f"{name}: {orders} orders")
    assert is_all


def test_two_tasks_have_all_their_orders() -> None:
    """Which also says whether trio asks us still."""
    seen: set[tuple[str, ...]] = set()

    def run(orders: Orders) -> None:
        trace: list[str] = []

        async def note(name: str) -> None:
            for _ in range(2):
                trace.append(name)
                await trio.lowlevel.checkpoint()

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                for name in "abc":
                    nursery.start_soon(note, name)
                orders.is_armed = True

        with orders.of_trio():
            trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        seen.add(tuple(trace))

    assert search(run)[1]
    assert len(seen) == 36  # 3! in each of two ticks
