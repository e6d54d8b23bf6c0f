"""A stop switch stops one subagent, or all, and says so when they are down."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent, Lifetime
from standby_actors.result import Result
from standby_actors.subagent import Subagent, reset_ids, spawn
from standby_combinators import (
    Chain,
    Signal,
    StopSwitch,
    SubagentPool,
    fan_out,
    open_stage,
    stop_switch,
)
from tests.support.heard import heard


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


async def slow(task: str) -> str:
    await trio.sleep(10)
    return task


async def after(seconds: float, call: Any, *args: Any) -> None:
    await trio.sleep(seconds)
    await call(*args)


@pytest.mark.parametrize("is_watched", [False, True], ids=["brief", "whole"])
async def test_one_is_stopped_and_its_siblings_do_not_notice(
    autojump_clock: trio.testing.MockClock, is_watched: bool
) -> None:
    switch = stop_switch()
    down: list[tuple[bool, float]] = []
    start = trio.current_time()

    async def stop_it() -> None:
        down.append((await switch.one("slow#2"), trio.current_time() - start))
        assert "slow#2" not in switch.ids

    async def play() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(after, 3, stop_it)
            report = await fan_out(slow, ["a", "b", "c"], switch=switch)
        assert [step.status for step in report.steps] == ["ok", "stopped", "ok"]
        assert report.steps[1].usage.busy_seconds == 3
        assert down == [(True, 3)]
        assert switch.ids == ()

    if is_watched:
        async with heard():
            await play()
    else:
        await play()


async def test_whoever_is_not_there_cannot_be_stopped() -> None:
    assert not await stop_switch().one("scout#2")


async def test_one_that_is_deaf_is_acknowledged_only_when_it_is_down(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def deaf(task: str) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.5)
        return task

    switch = stop_switch()
    took: list[float] = []

    async def stop_it() -> None:
        start = trio.current_time()
        assert await switch.one("deaf#1")
        took.append(trio.current_time() - start)

    async with SubagentPool(switch=switch) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(after, 0.1, stop_it)
        result = await pool.turn(deaf, "go")
    assert result.status == "stopped"
    assert took == [pytest.approx(0.4)]


async def test_one_that_is_kept_answers_stopped_from_then_on_and_is_closed_by_its_pool(
    autojump_clock: trio.testing.MockClock,
) -> None:
    keeper = Agent("keeper", slow, lifetime="workflow")
    switch = stop_switch()
    async with SubagentPool(switch=switch) as pool:
        assert (await pool.turn(keeper, "one")).ok
        # Idle, it is down at once; and still its pool's to close.
        assert await switch.one("keeper#1")
        assert list(switch.ids) == ["keeper#1"]
        assert (await pool.turn(keeper, "two")).status == "stopped"
        other = Agent("other", slow, lifetime="workflow")
        assert (await pool.turn(other, "three")).ok
    assert not switch.ids
    assert [step.status for step in pool.trail.steps] == ["ok", "stopped", "ok"]


async def test_what_one_has_delegated_is_down_with_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    children: list[Subagent] = []

    async def parent(task: str) -> str:
        async with spawn(slow) as child:
            children.append(child)
            return (await child.ask(task)).output

    switch = stop_switch()
    results: list[Result] = []

    async def stop_it() -> None:
        assert await switch.one("parent#1")
        (child,) = children
        assert not child.ref.is_alive

    async with SubagentPool(switch=switch) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(after, 1, stop_it)
        results.append(await pool.turn(parent, "go"))
    assert [result.status for result in results] == ["stopped"]


async def test_all_are_stopped_and_nothing_is_spawned_afterwards(
    autojump_clock: trio.testing.MockClock,
) -> None:
    switch = stop_switch()
    stopped: list[int] = []

    async def stop_all() -> None:
        stopped.append(await switch.all("the meeting is over"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(after, 4, stop_all)
        async with open_stage(switch=switch) as stage:
            team = Chain([slow, slow])
            report = await team.play("go", stage)
            late = await stage.turn(slow, "late")
    assert stopped == [1]
    assert (report.status, late.status) == ("stopped", "stopped")
    assert late.error is not None
    assert late.error.message == "the meeting is over"
    assert late.subagent == ""
    # The second of the chain and the late one are recorded, and were never spawned.
    assert {step.subagent for step in stage.pool.trail.steps} == {"slow#1", ""}


async def test_a_switch_passes_on_the_signal_that_it_was_made_with(
    autojump_clock: trio.testing.MockClock,
) -> None:
    signal = Signal()
    switch = stop_switch(signal)

    async def abort() -> None:
        signal.set("enough")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(after, 1, abort)
        report = await fan_out(slow, ["a", "b"], switch=switch)
    assert [step.status for step in report.steps] == ["aborted", "aborted"]
    with pytest.raises(ValueError, match=r"stop_switch\(signal\)"):
        SubagentPool(switch=switch, signal=Signal())


async def test_a_stand_in_that_can_be_stopped_is(autojump_clock: trio.testing.MockClock) -> None:
    @asynccontextmanager
    async def spawner(agent: Agent, /, *, lifetime: Lifetime | None) -> AsyncGenerator[Subagent]:
        async with spawn(agent, lifetime=lifetime) as subagent:
            yield subagent

    switch: StopSwitch = stop_switch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(after, 1, switch.one, "slow#1")
        report = await fan_out(slow, ["a", "b"], switch=switch, spawn=spawner)
    ended = {step.subagent: step.status for step in report.steps}
    assert ended == {"slow#1": "stopped", "slow#2": "ok"}


async def test_one_turn_is_cut_and_the_next_of_the_same_subagent_is_played(
    autojump_clock: trio.testing.MockClock,
) -> None:
    switch = stop_switch()
    cut: list[bool] = []

    async def cut_it() -> None:
        cut.append(switch.interrupt("slow#1"))

    async with heard(), open_stage(switch=switch, lifetime="workflow") as stage:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(after, 1, cut_it)
            first = await stage.turn(slow, "a")
        assert not switch.interrupt("slow#1")
        second = await stage.turn(slow, "b")
    assert cut == [True]
    assert (first.status, second.status) == ("stopped", "ok")
    assert first.subagent == second.subagent == "slow#1"
    assert not switch.interrupt("slow#1")


async def test_a_word_reaches_the_subagent_that_it_is_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    switch = stop_switch()
    became: list[object] = []

    async def say() -> None:
        # A function takes no word in the middle of its call, and says so.
        became.append(switch.steer("slow#1", "faster"))
        became.append(switch.steer("slow#7", "faster"))

    async with heard(), trio.open_nursery() as nursery:
        nursery.start_soon(after, 1, say)
        report = await fan_out(slow, ["a"], switch=switch)
    assert report.ok
    assert became == ["unsupported", None]


async def test_a_call_that_nobody_watches_can_be_stopped_and_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    switch = stop_switch()
    became: list[object] = []

    async def try_it() -> None:
        became.extend([switch.interrupt("slow#1"), switch.steer("slow#1", "faster")])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(after, 1, try_it)
        await fan_out(slow, ["a"], switch=switch)
    assert became == [False, "unsupported"]
