"""Case C01 and its kind: a cancellation that comes during a close must not lose the close.

A close hook here has the two steps that count: it writes an export, then disposes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from standby.testing import PumpSeam, sweep
from standby_actors import Actor, ActorStopped, ExitReason, Killed, Ref, Shutdown, open_nursery

WHOLE = ["exported", "disposed"]


class Closing(Actor):
    """Exports, then disposes; each takes `seconds`."""

    def __init__(self, log: list[str], seconds: float = 1.0) -> None:
        self.log = log
        self.seconds = seconds

    def receive(self, message: Any) -> Any:
        if message == "leave":
            self.stop()
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep(self.seconds)
        self.log.append("exported")
        await trio.sleep(self.seconds)
        self.log.append("disposed")


class Owner(Actor):
    """Has one closing child."""

    def __init__(self, log: list[str], dedicated: bool) -> None:
        self.log = log
        self.child_is_dedicated = dedicated

    def on_start(self) -> None:
        self.spawn(Closing, self.log, dedicated=self.child_is_dedicated)

    def receive(self, message: Any) -> Any:
        return message


async def by_leaving_the_block(nursery: Any, ref: Ref[Any]) -> None:
    """The close begins where the body ends."""


async def by_a_stop(nursery: Any, ref: Ref[Any]) -> None:
    await ref.stop()


async def by_two_stops_at_once(nursery: Any, ref: Ref[Any]) -> None:
    async with trio.open_nursery() as tasks:
        tasks.start_soon(by_a_stop, nursery, ref)
        tasks.start_soon(by_a_stop, nursery, ref)


async def by_its_own_wish(nursery: Any, ref: Ref[Any]) -> None:
    await ref.ask("leave")


async def by_joining(nursery: Any, ref: Ref[Any]) -> None:
    nursery.stop()
    await nursery.join()


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize(
    "close",
    [by_leaving_the_block, by_a_stop, by_two_stops_at_once, by_its_own_wish, by_joining],
)
async def test_a_close_that_is_cancelled_midway_exports_and_then_disposes_each_once(
    close: Any, dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    log: list[str] = []
    with trio.CancelScope(deadline=1) as scope:
        async with open_nursery() as nursery:
            ref: Ref[Any] = nursery.spawn(Closing, log, dedicated=dedicated)
            await close(nursery, ref)
    assert scope.cancel_called
    assert (log, trio.current_time()) == (WHOLE, 2)
    assert not isinstance(await ref.join(), Killed)


@pytest.mark.parametrize("dedicated", [False, True])
async def test_a_cancellation_during_the_close_of_an_owner_does_not_lose_that_of_its_child(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    log: list[str] = []
    with trio.CancelScope(deadline=1):
        async with open_nursery() as nursery:
            owner: Ref[Any] = await nursery.start(Owner, log, dedicated)
            await owner.stop()
    assert (log, trio.current_time()) == (WHOLE, 2)


async def test_a_cancellation_during_the_close_of_a_block_inside_a_handler_does_not_lose_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []

    class Holder(Actor):
        """Opens a block and leaves it, all in one handler."""

        async def receive(self, message: Any) -> None:
            async with open_nursery(name="inner") as inner:
                inner.spawn(Closing, log)

    with trio.CancelScope(deadline=1):
        async with open_nursery() as nursery:
            holder: Ref[Any] = nursery.spawn(Holder)
            await holder.ask("open")
    assert (log, trio.current_time()) == (WHOLE, 2)


async def test_a_cancellation_of_who_awaits_the_stop_leaves_the_stop_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Closing, log)
        with trio.move_on_after(1):
            await ref.stop()
        assert trio.current_time() == 1
        assert await ref.stop() == Shutdown()
        assert (log, trio.current_time()) == (WHOLE, 2)


async def test_each_cancellation_of_many_during_one_close_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []
    with (
        trio.CancelScope(deadline=0.5),
        trio.CancelScope(deadline=1),
        trio.CancelScope(deadline=1.5),
    ):
        async with open_nursery() as nursery:
            nursery.spawn(Closing, log)
    assert (log, trio.current_time()) == (WHOLE, 2)


async def test_an_error_of_the_body_during_whose_close_a_cancellation_comes_passes_after_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []

    async def fail() -> None:
        async with open_nursery() as nursery:
            nursery.spawn(Closing, log)
            raise KeyError("body")

    with trio.CancelScope(deadline=1), pytest.raises(KeyError):
        await fail()
    assert (log, trio.current_time()) == (WHOLE, 2)


@pytest.mark.parametrize("dedicated", [False, True])
async def test_a_close_that_takes_longer_than_its_bound_is_cut_and_never_called_done(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    log: list[str] = []
    with trio.CancelScope(deadline=1):
        async with open_nursery() as nursery:
            ref: Ref[Any] = nursery.spawn(Closing, log, 60.0, shutdown=5, dedicated=dedicated)
            await ref.stop()
    assert log == []
    assert trio.current_time() == 5
    assert await ref.join() == Killed("it did not stop within 5 s")


async def test_a_close_that_fails_is_how_the_actor_ended_and_is_raised(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Fails(Closing):
        async def on_stop(self, reason: ExitReason) -> None:
            await trio.sleep(1)
            raise OSError("disk full")

    log: list[str] = []
    with (
        trio.CancelScope(deadline=0.5),
        pytest.RaisesGroup(trio.Cancelled, pytest.RaisesExc(OSError, match="disk full")),
    ):
        async with open_nursery() as nursery:
            nursery.spawn(Closing, log)
            nursery.spawn(Fails, [])
            await trio.sleep_forever()
    assert log == WHOLE


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize("close", [by_leaving_the_block, by_a_stop, by_its_own_wish])
def test_cut_before_any_step_the_hook_ran_once_if_the_spawn_had_returned_and_else_never(
    close: Any, dedicated: bool
) -> None:
    runs: list[list[str]] = []

    async def scenario(count: Callable[[int], None]) -> None:
        expected: list[str] = []
        log: list[str] = []
        with PumpSeam(before_turn=count).installed():
            try:
                async with open_nursery() as nursery:
                    await trio.lowlevel.checkpoint()
                    ref: Ref[Any] = nursery.spawn(Closing, log, dedicated=dedicated)
                    expected = WHOLE
                    await close(nursery, ref)
            finally:
                assert log == expected
                runs.append(log)

    assert sweep(scenario) == len(runs)
    assert [] in runs
    assert WHOLE in runs


@pytest.mark.parametrize("dedicated", [False, True])
def test_cut_before_any_step_the_hook_ran_once_if_the_start_had_returned_and_at_most_once_else(
    dedicated: bool,
) -> None:
    class Starting(Closing):
        async def on_start(self) -> None:
            await trio.sleep(1)

    runs: list[list[str]] = []

    async def scenario(count: Callable[[int], None]) -> None:
        has_started = False
        log: list[str] = []
        with PumpSeam(before_turn=count).installed():
            try:
                async with open_nursery() as nursery:
                    await nursery.start(Starting, log, dedicated=dedicated)
                    has_started = True
            finally:
                assert log == (WHOLE if has_started else [])
                runs.append(log)

    assert sweep(scenario) == len(runs)
    assert [] in runs
    assert WHOLE in runs


def test_cut_before_any_step_a_tree_of_three_closes_the_innermost_first_and_each_once() -> None:
    class Node(Actor):
        """Closes after the node below it."""

        def __init__(self, depth: int, log: list[int]) -> None:
            self.depth = depth
            self.log = log

        def receive(self, message: Any) -> Any:
            if self.depth:
                self.spawn(Node, self.depth - 1, self.log).tell(message)

        async def on_stop(self, reason: ExitReason) -> None:
            await trio.sleep(0.1)
            self.log.append(self.depth)

    async def scenario(count: Callable[[int], None]) -> None:
        log: list[int] = []
        with PumpSeam(before_turn=count).installed():
            try:
                async with open_nursery() as nursery:
                    top: Ref[Any] = nursery.spawn(Node, 2, log)
                    top.tell("grow")
                    await trio.sleep(1)
            finally:
                assert log in ([], [2], [1, 2], [0, 1, 2])

    assert sweep(scenario) > 5


async def test_what_is_asked_of_an_actor_that_closes_is_refused_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Closing, [])
        stop = ref.stop()
        await trio.sleep(0.5)
        with pytest.raises(ActorStopped):
            await ref.ask("still there?")
        assert trio.current_time() == 0.5
        assert await stop == Shutdown()
