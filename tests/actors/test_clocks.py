"""Time is trio's time: exact under a virtual clock, and nobody's business when it is not needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import Actor, AskTimeout, Nursery, Ref, open_nursery
from tests.actors.workers import AsyncEcho, Do, Echo, Worker
from tests.support.inside import block_of


class Ticks(Actor):
    """Notes when which message came; does what the message says if it is a function."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, float]] = []

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self)
        self.got.append((message, trio.current_time()))
        return None

    def on_receive_timeout(self) -> None:
        self.got.append(("silence", trio.current_time()))


async def got(ref: Ref[Any]) -> list[tuple[Any, float]]:
    state: dict[str, Any] = await ref.get_state()
    return list(state["got"])


async def test_virtual_hours_pass_at_once_and_to_the_second(autojump_clock: MockClock) -> None:
    async def sleeps(self: Actor) -> float:
        await trio.sleep(3600)
        return trio.current_time()

    async with open_nursery() as nursery:
        assert await nursery.spawn(Do).ask(sleeps) == 3600
        with pytest.raises(AskTimeout):
            await nursery.spawn(Worker).ask("sleep", timeout=100)
        assert trio.current_time() == 3700
        echo = nursery.spawn(Echo)
        for number in range(900):
            echo.tell(number)
        await trio.sleep(10)
        assert trio.current_time() == 3710
    # The worker that sleeps for ever had its 0.2 s to stop, and was killed then.
    assert trio.current_time() == 3710.2


async def test_messages_come_at_their_time_in_the_order_of_it(autojump_clock: MockClock) -> None:
    def sends(self: Ticks) -> None:
        for seconds in (5, 3, 4, 1):
            self.send_after(seconds, seconds)

    async with open_nursery() as nursery:
        ref = nursery.spawn(Ticks)
        await ref.ask(sends)
        await trio.sleep(10)
        await ref.ask(lambda self: self.send_after(1, "again"))
        await trio.sleep(2)
        assert await got(ref) == [(1, 1), (3, 3), (4, 4), (5, 5), ("again", 11)]


async def test_messages_due_at_the_same_time_keep_their_order(autojump_clock: MockClock) -> None:
    def sends(self: Ticks) -> None:
        for number in range(50):
            self.send_after(1, number)

    async with open_nursery() as nursery:
        ref = nursery.spawn(Ticks)
        await ref.ask(sends)
        await trio.sleep(2)
        assert await got(ref) == [(number, 1) for number in range(50)]


async def test_a_message_that_was_cancelled_does_not_come(autojump_clock: MockClock) -> None:
    sent: list[Any] = []
    async with open_nursery() as nursery:
        ref = nursery.spawn(Ticks)
        await ref.ask(lambda self: sent.append(self.send_after(5, "never")))
        assert sent[0].is_pending
        sent[0].cancel()
        sent[0].cancel()
        assert not sent[0].is_pending
        await trio.sleep(10)
        assert await got(ref) == []


async def test_a_periodic_message_does_not_drift(autojump_clock: MockClock) -> None:
    sent: list[Any] = []
    async with open_nursery() as nursery:
        ref = nursery.spawn(Ticks)
        await ref.ask(lambda self: sent.append(self.send_every(0.1, "tick")))
        await trio.sleep(10.05)
        assert [at for _, at in await got(ref)] == pytest.approx([n / 10 for n in range(1, 101)])
        sent[0].cancel()
        await trio.sleep(10)
        assert len(await got(ref)) == 100


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_messages_on_their_way_end_with_their_sender(
    end: str, autojump_clock: MockClock
) -> None:
    def sends(self: Ticks) -> None:
        self.send_after(5, "once", to=other)
        self.send_every(1, "often", to=other)

    async with open_nursery() as nursery:
        ref, other = nursery.spawn(Ticks), nursery.spawn(Ticks)
        await ref.ask(sends)
        await trio.sleep(2.5)
        if end == "stop":
            await ref.stop()
        else:
            ref.kill()
        await trio.sleep(10)
        assert await got(other) == [("often", 1), ("often", 2)]


async def test_silence_is_noticed_once_and_ended_by_any_message(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(Ticks)
        await ref.ask(lambda self: self.set_receive_timeout(5))
        await trio.sleep(4)
        ref.tell("a message")
        await trio.sleep(10)
        await ref.ask(lambda self: self.set_receive_timeout(5))
        await trio.sleep(20)
        assert await got(ref) == [("a message", 4), ("silence", 19)]


async def test_a_block_with_messages_far_away_ends_at_once(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(Ticks)
        await ref.ask(lambda self: self.send_after(1e6, "never"))
        with trio.move_on_after(0):
            await nursery.spawn(AsyncEcho).ask(1, timeout=1e6)
    assert trio.current_time() == 0


async def test_an_earlier_deadline_comes_first_although_it_was_set_last(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        far, near = nursery.spawn(Worker), nursery.spawn(Worker)
        later = far.ask("sleep", timeout=1000)
        await trio.sleep(1)
        with pytest.raises(AskTimeout):
            await near.ask("sleep", timeout=1)
        assert trio.current_time() == 2
        with pytest.raises(AskTimeout):
            await later
        assert trio.current_time() == 1000


async def test_a_block_at_rest_is_seen_to_be_at_rest() -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(AsyncEcho, capacity=5000)
        for number in range(3000):
            ref.tell(number)
        await trio.testing.wait_all_tasks_blocked()
        assert [each.state for each in nursery.tree().children] == ["idle"]


@pytest.fixture
async def block() -> AsyncGenerator[Nursery]:
    """An actor nursery that is open for the length of a test."""
    async with open_nursery() as nursery:
        yield nursery
    assert nursery.tree().children == ()


async def test_a_block_may_be_a_fixture(block: Nursery, autojump_clock: MockClock) -> None:
    assert await block.spawn(AsyncEcho).ask(1) == 1
    block.spawn(Worker).tell("short")


async def test_a_bug_in_a_deadline_fails_the_block_and_leaves_the_other_deadlines(
    autojump_clock: MockClock,
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        async with open_nursery() as nursery:
            nursery.spawn(Worker).tell("sleep")
            await trio.testing.wait_all_tasks_blocked()
            block_of(nursery).timers.after(1, broken)
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as raised:
        await main()
    assert [type(each) for each in raised.value.exceptions] == [ZeroDivisionError]
    # The sleeping worker was killed by its own deadline, 0.2 s after its stop.
    assert trio.current_time() == 1.2
