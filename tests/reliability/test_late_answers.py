"""Case C21 (a, c) and its kind: an answer goes to who asked, or to nobody."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import Actor, AskTimeout, Later, Ref, open_nursery


class Echo(Actor):
    """Answers a payload after as many seconds as the message says."""

    async def receive(self, message: tuple[float, Any]) -> Any:
        seconds, payload = message
        await trio.sleep(seconds)
        return payload


class EchoLater(Actor):
    """The same, without being busy meanwhile: it promises, and keeps it by a timer."""

    def __init__(self) -> None:
        self.owed: dict[Any, Later[Any]] = {}

    def receive(self, message: Any) -> Any:
        if message[0] == "due":
            self.owed.pop(message[1]).reply(message[1])
            return None
        seconds, payload = message
        later = self.owed[payload] = self.reply_later()
        self.send_after(seconds, ("due", payload))
        return later


@pytest.mark.parametrize("dedicated", [False, True])
async def test_the_late_answer_to_one_ask_is_not_the_answer_to_the_next(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        echo: Ref[Any] = nursery.spawn(Echo, dedicated=dedicated)
        with pytest.raises(AskTimeout):
            await echo.ask((6, "one"), timeout=5)
        assert trio.current_time() == 5
        await trio.sleep(0.5)
        assert await echo.ask((1, "two"), timeout=5) == "two"
        assert trio.current_time() == 7


async def test_the_late_answer_to_a_cancelled_ask_is_not_the_answer_to_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        echo: Ref[Any] = nursery.spawn(Echo)
        with trio.move_on_after(5):
            await echo.ask((6, "one"))
        await trio.sleep(0.5)
        assert await echo.ask((1, "two")) == "two"
        assert trio.current_time() == 7


async def test_the_late_answer_reaches_an_actor_neither_as_an_answer_nor_as_a_message(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Asks(Actor):
        """Asks twice, the first time in vain."""

        def __init__(self) -> None:
            self.other: list[Any] = []

        async def receive(self, message: Any) -> Any:
            if message == "other mail":
                return self.other
            if not isinstance(message, Ref):
                return self.other.append(message)
            try:
                await message.ask((6, "one"), timeout=5)
            except AskTimeout:
                await trio.sleep(0.5)
                return await message.ask((1, "two"), timeout=5)

    async with open_nursery() as nursery:
        echo: Ref[Any] = nursery.spawn(Echo)
        asks: Ref[Any] = nursery.spawn(Asks)
        assert await asks.ask(echo) == "two"
        await trio.sleep(10)
        assert await asks.ask("other mail") == []


async def test_a_promise_kept_too_late_reaches_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        echo: Ref[Any] = nursery.spawn(EchoLater)
        with pytest.raises(AskTimeout):
            await echo.ask((6, "one"), timeout=5)
        await trio.sleep(0.5)
        assert await echo.ask((1, "two"), timeout=5) == "two"
        assert trio.current_time() == 6.5


async def test_asks_that_overlap_are_answered_out_of_order_each_with_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        echo: Ref[Any] = nursery.spawn(EchoLater)
        replies = [echo.ask((10 - number, number)) for number in range(10)]
        for number in reversed(range(10)):
            assert await replies[number] == number
            assert trio.current_time() == 10 - number


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [Echo, EchoLater])
async def test_of_a_thousand_asks_around_their_timeout_each_success_has_its_own_answer(
    kind: Any, seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    drawn = random.Random(seed)
    outcomes = {"answered": 0, "timed out": 0, "cancelled": 0}

    async def ask(echo: Ref[Any], payload: int, start: float, delay: float) -> None:
        await trio.sleep(start)
        with trio.move_on_after(0.6) as scope:
            try:
                answer = await echo.ask((delay, payload), timeout=0.5)
            except AskTimeout:
                outcomes["timed out"] += 1
            else:
                outcomes["answered"] += 1
                assert answer == payload
        outcomes["cancelled"] += scope.cancelled_caught

    async with open_nursery() as nursery:
        echoes: list[Ref[Any]] = [nursery.spawn(kind) for _ in range(20)]
        async with trio.open_nursery() as tasks:
            for payload in range(1000):
                tasks.start_soon(
                    ask,
                    echoes[payload % 20],
                    payload,
                    drawn.choice([0, drawn.random() * 30]),
                    drawn.choice([0, 0.5, drawn.uniform(0.1, 1)]),
                )
    assert sum(outcomes.values()) == 1000
    assert outcomes["answered"] > 50
    assert outcomes["timed out"] > 50


async def test_a_late_answer_is_counted_and_reaches_nobody(autojump_clock: MockClock) -> None:
    async def slowly(message: int) -> int:
        await trio.sleep(message)
        return message

    async with open_nursery() as nursery:
        slow = nursery.spawn(slowly)
        with pytest.raises(AskTimeout):
            await slow.ask(3, timeout=2)
        assert await slow.ask(1) == 1
        assert nursery.late_replies == 1
