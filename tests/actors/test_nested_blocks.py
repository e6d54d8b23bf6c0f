# ruff: noqa: PT012 - what raises here is leaving a block, so the block is the statement
"""Blocks inside handlers and inside blocks: each is stopped in order, and a kill goes through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import Killed, Nursery, Ref, Shutdown, open_nursery
from standby_actors.cell import as_cell
from tests.actors.workers import LOG, AsyncEcho, Boom, Do, Echo, Stops, Worker, tasks

settled = trio.testing.wait_all_tasks_blocked


def holds(
    then: Callable[[], Awaitable[object]] = trio.sleep_forever, *, busy: bool = True
) -> Callable[..., Awaitable[str]]:
    """A handler that opens a block with two idle actors, and a busy one, and stays in it."""

    async def handler(self: Any, *_: Any) -> str:
        async with open_nursery(name="inner", grace=0.2) as inner:
            for name in ("first", "second"):
                inner.spawn(Stops, name)
            if busy:
                inner.spawn(Worker, "busy").tell("sleep")
            await then()
        LOG.append("left")
        return "value"

    return handler


def held(ref: Ref[Any]) -> int:
    """How many blocks the handlers of an actor hold."""
    return len(as_cell(ref).rare().blocks)


async def test_a_handler_asks_inside_its_block_and_outside(autojump_clock: MockClock) -> None:
    async def asks(self: Any, outside: Ref[Any]) -> Any:
        async with open_nursery() as inner:
            return (
                await inner.spawn(AsyncEcho).ask(1),
                await inner.spawn(Echo).ask(2),
                await outside.ask(3),
            )

    async with open_nursery() as nursery:
        assert await nursery.spawn(Do, nursery.spawn(AsyncEcho)).ask(asks) == (1, 2, 3)


async def nap() -> None:
    await trio.sleep(0.02)


async def test_a_block_left_by_its_handler_has_stopped_in_order(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        holder = nursery.spawn(Do)
        assert await holder.ask(holds(nap, busy=False)) == "value"
        assert LOG == ["second", "first", "left"]
        assert held(holder) == 0


async def test_a_cancelled_inner_block_is_stopped_in_order(autojump_clock: MockClock) -> None:
    async def moves_on(self: Any, echo: Ref[Any]) -> Any:
        with trio.move_on_after(0.05):
            await holds()(self)
        return await echo.ask("after")

    async with open_nursery() as nursery:
        assert await nursery.spawn(Do, nursery.spawn(AsyncEcho)).ask(moves_on) == "after"
        # The busy one has its 0.2 s, and the stop hooks of the others run.
        assert LOG == [("busy", "Cancelled"), "second", "first"]
        assert trio.current_time() == pytest.approx(0.05 + 0.2 + 2 * 0.01)


async def test_a_handler_in_an_inner_block_ends_within_its_time(autojump_clock: MockClock) -> None:
    async def naps(self: Any) -> None:
        await trio.sleep(0.1)
        LOG.append("done")

    async def moves_on(self: Any) -> None:
        with trio.move_on_after(0.02):
            async with open_nursery() as inner:
                inner.spawn(Do).tell(naps)
                await trio.sleep_forever()

    async with open_nursery() as nursery:
        await nursery.spawn(Do).ask(moves_on)
        assert LOG == ["done"]


async def test_a_kill_of_the_holder_kills_the_inner_block_at_once(
    autojump_clock: MockClock,
) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        holder = nursery.spawn(Do)
        holder.tell(holds())
        await settled()
        assert held(holder) == 1
        holder.kill()
        assert await holder.join() == Killed()
        # No stop hook: it was a kill.
        assert LOG == [("busy", "Cancelled")]
        assert held(holder) == 0
        assert trio.current_time() == 0
    assert tasks() == before


async def test_a_stop_of_the_holder_waits_for_it_and_then_kills(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        holder = nursery.spawn(Do)
        holder.tell(holds())
        await settled()
        assert await holder.stop() == Killed("it did not stop within 0.3 s")
        assert trio.current_time() == pytest.approx(0.3)
        assert LOG == [("busy", "Cancelled")]


async def test_an_interrupting_stop_of_the_holder_stops_the_inner_block_in_order(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        holder = nursery.spawn(Do, stop_mode="interrupt")
        holder.tell(holds())
        await settled()
        assert await holder.stop() == Shutdown()
        assert LOG == [("busy", "Cancelled"), "second", "first"]


async def test_a_cancellation_of_the_outer_block_reaches_the_inner_in_time(
    autojump_clock: MockClock,
) -> None:
    before = tasks()
    with trio.move_on_after(0.05):
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "outer")
            nursery.spawn(Do).tell(holds())
            await trio.sleep_forever()
    assert LOG == [("busy", "Cancelled"), "outer"]
    assert trio.current_time() == pytest.approx(0.05 + 0.3 + 0.01)
    assert tasks() == before


async def test_blocks_inside_one_another_stop_from_the_inside(autojump_clock: MockClock) -> None:
    before = tasks()
    with trio.move_on_after(0.05):
        async with open_nursery() as outer:
            echo = outer.spawn(Echo)
            outer.spawn(Stops, "outer")
            async with open_nursery() as inner:
                inner.spawn(Stops, "inner")
                assert await echo.ask(1) == 1
                await trio.sleep_forever()
    assert LOG == ["inner", "outer"]
    assert tasks() == before


async def test_a_crash_in_the_outer_block_stops_the_inner_in_order(
    autojump_clock: MockClock,
) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as outer:
            boom = outer.spawn(Boom)
            outer.spawn(Stops, "outer")
            async with open_nursery() as inner:
                inner.spawn(Stops, "inner")
                boom.tell("crash")
                await trio.sleep_forever()
    assert [type(each) for each in raised.value.exceptions] == [ValueError]
    assert LOG == ["inner", "outer"]


async def test_a_crash_in_an_inner_block_reaches_its_handler_only(
    autojump_clock: MockClock,
) -> None:
    async def catches(self: Any) -> list[type[BaseException]]:
        try:
            async with open_nursery() as inner:
                inner.spawn(Boom).tell(1)
                await trio.sleep_forever()
        except ExceptionGroup as group:
            return [type(each) for each in group.exceptions]
        return []

    async with open_nursery() as nursery:
        holder = nursery.spawn(Do)
        assert await holder.ask(catches) == [ValueError]
        assert holder.is_alive


async def test_a_kill_goes_through_blocks_three_deep(autojump_clock: MockClock) -> None:
    async def third(self: Any) -> None:
        await trio.sleep_forever()

    async def second(self: Any) -> None:
        async with open_nursery() as inner:
            inner.spawn(Do).tell(third)
            inner.spawn(Worker, "deep").tell("sleep")
            await trio.sleep_forever()

    async def first(self: Any) -> None:
        async with open_nursery() as inner:
            inner.spawn(Do).tell(second)
            await trio.sleep_forever()

    before = tasks()
    async with open_nursery() as nursery:
        holder = nursery.spawn(Do)
        holder.tell(first)
        await settled()
        holder.kill()
        await holder.join()
        assert LOG == [("deep", "Cancelled")]
        assert trio.current_time() == 0
    assert tasks() == before


@pytest.mark.parametrize("dedicated", [False, True])
async def test_a_block_in_a_task_of_a_handler_belongs_to_its_actor(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    async def starts(self: Any) -> None:
        async with trio.open_nursery() as children:
            children.start_soon(holds(), self)
            await trio.sleep_forever()

    async with open_nursery() as nursery:
        holder = nursery.spawn(Do, dedicated=dedicated)
        holder.tell(starts)
        await settled()
        assert held(holder) == 1
        assert [child.name for child in holder.snapshot().children] == ["inner"]
        holder.kill()
        await holder.join()
        assert LOG == [("busy", "Cancelled")]
        assert trio.current_time() == 0


async def test_a_kill_cuts_the_ordered_stop_of_an_inner_block_short(
    autojump_clock: MockClock,
) -> None:
    async def leaves(self: Any) -> None:
        async with open_nursery() as inner:
            inner.spawn(Stops, "hook")
            inner.spawn(Worker, "busy", shutdown=60).tell("sleep")
            await trio.sleep(0.02)

    async with open_nursery() as nursery:
        holder = nursery.spawn(Do)
        holder.tell(leaves)
        await trio.sleep(0.06)
        assert holder.is_alive
        holder.kill()
        assert await holder.join() == Killed()
        assert LOG == [("busy", "Cancelled")]
        assert trio.current_time() == pytest.approx(0.06)


async def test_a_kill_of_an_owner_reaches_the_block_that_its_child_holds(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        owner: Any = nursery.spawn(Stops, "owner")
        holder = owner.spawn(Do, ())
        holder.tell(holds())
        await settled()
        owner.kill()
        assert await owner.join() == Killed()
        assert LOG == [("busy", "Cancelled")]
        assert trio.current_time() == 0


async def test_an_actor_of_an_inner_block_may_kill_its_holder(autojump_clock: MockClock) -> None:
    async def kills(self: Any, holder: Ref[Any]) -> None:
        holder.kill()
        await trio.sleep(1)
        LOG.append("it went on")

    async def opens(self: Any) -> None:
        async with open_nursery() as inner:
            inner.spawn(Stops, "hook")
            inner.spawn(Do, self.ref).tell(kills)
            await trio.sleep_forever()

    async with open_nursery() as nursery:
        holder = nursery.spawn(Do)
        holder.tell(opens)
        assert await holder.join() == Killed()
        assert LOG == []
        assert trio.current_time() == 0
        assert await nursery.spawn(AsyncEcho).ask(1) == 1


async def test_an_actor_of_an_inner_block_asks_one_of_the_outer(autojump_clock: MockClock) -> None:
    async def passes_on(self: Any, outer: Ref[Any]) -> Any:
        return await outer.ask("x")

    async def opens(self: Any, *outer: Ref[Any]) -> list[Any]:
        answers: list[Any] = []
        async with open_nursery() as inner:
            for each in outer:
                answers.append(await inner.spawn(Do, each).ask(passes_on))
        return answers

    async with open_nursery() as nursery:
        holder = nursery.spawn(Do, nursery.spawn(Echo), nursery.spawn(AsyncEcho))
        assert await holder.ask(opens) == ["x", "x"]


async def test_an_inner_block_shares_the_names_of_the_outer(autojump_clock: MockClock) -> None:
    async def opens(self: Any) -> Any:
        async with open_nursery() as inner:
            found = inner.whereis("outer")
            inner.spawn(Echo, name="inner")
            assert self.whereis("inner") is not None
        return found

    async with open_nursery() as nursery:
        outer = nursery.spawn(Echo, name="outer")
        assert await nursery.spawn(Do).ask(opens) is outer
        assert nursery.whereis("inner") is None


async def test_a_handler_that_crashes_inside_its_block_stops_it_in_order_first(
    autojump_clock: MockClock,
) -> None:
    async def crashes(self: Any) -> None:
        async with open_nursery() as inner:
            inner.spawn(Stops, "hook")
            raise KeyError("holder")

    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            nursery.spawn(Do).tell(crashes)
            await trio.sleep_forever()
    assert [type(each) for each in raised.value.exceptions] == [KeyError]
    assert LOG == ["hook"]


async def test_many_blocks_in_one_handler_are_all_killed(autojump_clock: MockClock) -> None:
    async def one(inner_name: str) -> None:
        async with open_nursery(name=inner_name) as inner:
            inner.spawn(Worker, inner_name).tell("sleep")
            await trio.sleep_forever()

    async def opens(self: Any) -> None:
        async with trio.open_nursery() as children:
            for name in ("a", "b", "c"):
                children.start_soon(one, name)

    async with open_nursery() as nursery:
        holder = nursery.spawn(Do)
        holder.tell(opens)
        await settled()
        assert held(holder) == 3
        holder.kill()
        assert await holder.join() == Killed()
        assert sorted(LOG) == [(name, "Cancelled") for name in "abc"]


async def nest(depth: int, opened: list[Nursery]) -> None:
    async with open_nursery() as inner:
        opened.append(inner)
        inner.spawn(Stops, str(depth))

        async def deeper(self: Any) -> None:
            await nest(depth - 1, opened)

        if depth:
            inner.spawn(Do, shutdown=60).tell(deeper)
        await trio.sleep_forever()


async def test_blocks_fifty_deep_are_killed_together(autojump_clock: MockClock) -> None:
    before = tasks()
    opened: list[Nursery] = []

    async def outermost(self: Any) -> None:
        await nest(50, opened)

    async with open_nursery() as nursery:
        holder = nursery.spawn(Do)
        holder.tell(outermost)
        await settled()
        assert len(opened) == 51
        holder.kill()
        assert await holder.join() == Killed()
    assert LOG == []
    assert trio.current_time() == 0
    assert tasks() == before
