"""One question, one answer: in time, to the one who asked, or an error that says why not."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby.testing import PumpSeam
from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    AskCycle,
    AskTimeout,
    Ref,
    Request,
    open_nursery,
)
from tests.actors.workers import AsyncEcho, Do, Echo, Worker
from tests.support.schedule import seeded


class Passes(Actor):
    """Asks its peer with one less, without waiting, and says what it knows of the answer."""

    def __init__(self, peer: Ref[Any] | None = None) -> None:
        self.peer = peer
        self.got: list[Any] = []

    def receive(self, message: Any) -> Any:
        if isinstance(message, Ref):
            self.peer = message
            return None
        self.got.append(message)
        if self.peer is not None and message > 0:
            reply = self.peer.ask(message - 1)
            return reply.result() if reply.done else "not yet"
        return message


class Forwards(Actor):
    """Asks its peer, if it has one, and awaits the answer."""

    def __init__(self, peer: Ref[Any] | None = None) -> None:
        self.peer = peer

    async def receive(self, message: Any) -> Any:
        if isinstance(message, Ref):
            self.peer = message
            return None
        if callable(message):
            return await message(self)
        return await self.peer.ask(message) if self.peer is not None else message


class Takes(Actor):
    """Takes so many seconds, and answers with them; knows what it has begun."""

    def __init__(self) -> None:
        self.begun: list[float] = []

    async def receive(self, message: float) -> float:
        self.begun.append(message)
        await trio.sleep(message)
        return message


# ---- answered within the call


async def test_a_plain_actor_that_is_idle_answers_within_the_call() -> None:
    async with open_nursery() as nursery:
        reply = nursery.spawn(Echo).ask(1)
        assert reply.done
        assert await reply == 1
        assert nursery._block.workers == 0  # no task has been started for it


async def test_a_plain_actor_that_is_at_work_is_not_entered_again() -> None:
    async with open_nursery() as nursery:
        one, two = nursery.spawn(Passes), nursery.spawn(Passes)
        one.tell(two)
        two.tell(one)
        await trio.testing.wait_all_tasks_blocked()
        assert await one.ask(2) == "not yet"  # one asks two, which cannot ask one
        await trio.testing.wait_all_tasks_blocked()
        assert (await one.get_state())["got"] == [2, 0]


async def test_a_plain_actor_that_asks_itself_handles_that_later() -> None:
    async with open_nursery() as nursery:
        one = nursery.spawn(Passes)
        one.tell(one)
        await trio.testing.wait_all_tasks_blocked()
        assert await one.ask(1) == "not yet"
        await trio.testing.wait_all_tasks_blocked()
        assert (await one.get_state())["got"] == [1, 0]


async def test_a_chain_of_plain_asks_is_not_bound_by_the_stack() -> None:
    async with open_nursery() as nursery:
        first = last = nursery.spawn(Passes)
        for _ in range(5_000):
            last = nursery.spawn(Passes, last)
        await last.ask(5_000)
        await trio.testing.wait_all_tasks_blocked()
        assert (await first.get_state())["got"] == [0]


async def test_asks_that_are_answered_at_once_still_let_others_run() -> None:
    ticks = 0

    async def other() -> None:
        nonlocal ticks
        while True:
            await trio.lowlevel.checkpoint()
            ticks += 1

    async with open_nursery() as nursery, trio.open_nursery() as tasks:
        echo = nursery.spawn(Echo)
        tasks.start_soon(other)
        for number in range(1000):
            assert await echo.ask(number) == number
        tasks.cancel_scope.cancel()
    assert ticks >= 10


async def test_a_handler_whose_asks_are_all_answered_at_once_lets_others_run() -> None:
    seen: list[int] = []

    async def asks_until_stopped(self: Actor) -> str:
        while not seen:
            await echo.ask(1)
        return "seen"

    async with open_nursery() as nursery:
        echo = nursery.spawn(Echo)
        reply = nursery.spawn(Do).ask(asks_until_stopped)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        seen.append(1)
        assert await reply == "seen"
        if not _private_read_is_off():
            assert nursery._block.handoffs == 0  # and it needs no task for that


async def test_a_cancellation_is_seen_at_an_ask_that_is_answered_at_once() -> None:
    async with open_nursery() as nursery:
        echo = nursery.spawn(Echo)
        with trio.CancelScope() as scope:
            scope.cancel()
            await echo.ask(1)
            pytest.fail("the await has not seen the cancellation")
        assert scope.cancelled_caught


# ---- cycles


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


@pytest.fixture
def crashes_are_values() -> Any:
    """Makes an actor whose crash ends nobody else."""

    class Owner(Actor):
        def receive(self, message: Any) -> Any:
            return self.spawn(*message, link=False)

    return Owner


async def test_an_ask_that_would_wait_for_itself_is_refused_with_the_way_round(
    crashes_are_values: Any, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        owner = nursery.spawn(crashes_are_values)
        one, two, three = [await owner.ask((Forwards,)) for _ in range(3)]
        await one.ask(two)
        await two.ask(three)
        await three.ask(one)
        with pytest.raises(ActorCrashed) as caught:
            await one.ask(1)
        cycle = _root(caught.value)
        assert isinstance(cycle, AskCycle)
        assert cycle.path == (three.path, one.path, two.path, three.path)
        assert " -> ".join(cycle.path) in str(cycle)


async def test_an_actor_that_awaits_itself_is_refused(crashes_are_values: Any) -> None:
    async with open_nursery() as nursery:
        one = await nursery.spawn(crashes_are_values).ask((Forwards,))
        await one.ask(one)
        with pytest.raises(ActorCrashed) as caught:
            await one.ask(1)
        assert isinstance(caught.value.__cause__, AskCycle)


async def test_a_cycle_is_seen_through_waits_child_tasks_scopes_and_blocks(
    crashes_are_values: Any, autojump_clock: MockClock
) -> None:
    async def first(self: Actor) -> None:
        await trio.sleep(1)

        async def child() -> None:
            await two.ask(second)

        async with trio.open_nursery() as tasks:
            tasks.start_soon(child)

    async def second(self: Actor) -> Any:
        with trio.CancelScope():
            return await one.ask(1)

    async with open_nursery() as outer, open_nursery() as inner:
        one = await outer.spawn(crashes_are_values).ask((Forwards,))
        two = await inner.spawn(crashes_are_values).ask((Forwards,))
        with pytest.raises(ActorCrashed) as caught:
            await one.ask(first)
        assert isinstance(_root(caught.value), AskCycle)


async def test_a_cycle_that_the_handler_catches_is_no_crash_and_leaves_no_message() -> None:
    handled: list[str] = []

    async def never(self: Actor) -> None:
        handled.append("the message of the refused ask")

    async def asks_itself(self: Actor) -> Any:
        try:
            await self.ref.ask(never)
        except AskCycle as error:
            return error.actor

    async with open_nursery() as nursery:
        ref = nursery.spawn(Do)
        assert await ref.ask(asks_itself) == ref.path
        await trio.testing.wait_all_tasks_blocked()
        assert handled == []


async def test_two_ways_to_the_same_actor_are_no_cycle(autojump_clock: MockClock) -> None:
    async def asks_all(self: Actor) -> list[Any]:
        answers: list[Any] = []

        async def child(peer: Any) -> None:
            answers.append(await peer.ask(5))

        async with trio.open_nursery() as tasks:
            for peer in (left, right, shared):
                tasks.start_soon(child, peer)
        return answers

    async with open_nursery() as nursery:
        shared = nursery.spawn(Forwards)
        left, right = nursery.spawn(Forwards, shared), nursery.spawn(Forwards, shared)
        assert await nursery.spawn(Forwards).ask(asks_all) == [5, 5, 5]


# ---- one waiter


async def test_a_reply_may_be_awaited_again_once_it_is_there(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        reply = nursery.spawn(Worker).ask("short")
        assert await reply == "ok"
        assert await reply == "ok"


async def test_a_reply_that_two_tasks_await_is_refused_to_the_second(
    autojump_clock: MockClock,
) -> None:
    answers: list[Any] = []

    async def waits() -> None:
        answers.append(await reply)

    async with open_nursery() as nursery:
        reply = nursery.spawn(Worker).ask("short")
        async with trio.open_nursery() as tasks:
            tasks.start_soon(waits)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RuntimeError, match="await it once"):
                await reply
    assert answers == ["ok"]


async def test_a_reply_that_a_handler_awaits_is_refused_to_another_handler(
    autojump_clock: MockClock,
) -> None:
    async def waits(self: Actor) -> Any:
        return await reply

    async def is_refused(self: Actor) -> str:
        with pytest.raises(RuntimeError, match="await it once"):
            await reply
        return "refused"

    async with open_nursery() as nursery:
        reply = nursery.spawn(Worker).ask("short")
        first = nursery.spawn(Do).ask(waits)
        await trio.testing.wait_all_tasks_blocked()
        assert await nursery.spawn(Do).ask(is_refused) == "refused"
        assert await first == "ok"


# ---- giving up


async def test_an_ask_without_an_answer_in_time_is_an_error_at_that_time(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        takes = nursery.spawn(Takes)
        with pytest.raises(AskTimeout, match="did not answer within 5 s") as caught:
            await takes.ask(6, timeout=5)
        assert trio.current_time() == 5
        assert (caught.value.actor, caught.value.seconds) == (takes.path, 5)
        assert isinstance(caught.value, TimeoutError)


async def test_a_late_answer_reaches_nobody_and_the_next_ask_gets_its_own(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        takes = nursery.spawn(Takes)
        late = takes.ask(6, timeout=5)
        with pytest.raises(AskTimeout):
            await late
        await trio.sleep(0.5)
        assert await takes.ask(1) == 1
        assert trio.current_time() == 7
        for _ in range(2):
            with pytest.raises(AskTimeout):
                await late


async def test_a_message_that_was_given_up_is_not_begun(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        takes = nursery.spawn(Takes)
        first = takes.ask(10)
        with trio.move_on_after(1):
            await takes.ask(100)
        with pytest.raises(AskTimeout):
            await takes.ask(200, timeout=1)
        assert await first == 10
        assert await takes.ask(3) == 3
        assert (await takes.get_state())["begun"] == [10, 3]
        assert trio.current_time() == 13


async def test_the_time_runs_from_the_ask_not_from_the_await(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        reply = nursery.spawn(Takes).ask(10, timeout=5)
        await trio.sleep(8)
        assert reply.done
        with pytest.raises(AskTimeout):
            await reply
        assert trio.current_time() == 8


async def test_a_timeout_of_zero_takes_only_an_answer_that_is_there(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        assert await nursery.spawn(Echo).ask(1, timeout=0) == 1
        with pytest.raises(AskTimeout):
            await nursery.spawn(Takes).ask(1, timeout=0)


async def test_a_timeout_without_end_never_comes(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        assert await nursery.spawn(Takes).ask(1e6, timeout=math.inf) == 1e6


@pytest.mark.parametrize("seconds", [-1, -0.001, math.nan])
@pytest.mark.parametrize("actor", [Echo, AsyncEcho])
async def test_a_timeout_that_is_no_time_is_refused(actor: Any, seconds: float) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(actor)
        with pytest.raises(ValueError, match="timeout must be seconds"):
            ref.ask(1, timeout=seconds)
        assert await ref.ask(2) == 2


async def test_an_ask_inside_an_ask_has_the_time_of_the_outer_one(
    autojump_clock: MockClock,
) -> None:
    gave_up: list[tuple[str, float, float]] = []

    async def asks(self: Actor, name: str, peer: Any, message: Any) -> None:
        try:
            await peer.ask(message)
        except AskTimeout as error:
            gave_up.append((name, error.seconds, trio.current_time()))

    async with open_nursery() as nursery:
        takes = nursery.spawn(Takes)
        inner = nursery.spawn(Do, "inner", takes, 100)
        outer = nursery.spawn(Do, "outer", inner, asks)
        await trio.sleep(2)
        with pytest.raises(AskTimeout):
            await outer.ask(asks, timeout=5)
        await trio.testing.wait_all_tasks_blocked()
        assert ("inner", 5, 7) in gave_up
        assert ("outer", 5, 7) in gave_up
        assert trio.current_time() == 7
        takes.kill()


@pytest.mark.parametrize("where", ["stepped", "after a wait", "in a scope", "in a child task"])
async def test_the_time_is_inherited_wherever_the_handler_asks(
    where: str, autojump_clock: MockClock
) -> None:
    async def asks_there(peer: Any) -> None:
        if where == "after a wait":
            await trio.sleep(1)
        if where == "in a scope":
            with trio.move_on_after(50):
                await peer.ask(100)
        elif where == "in a child task":
            async with trio.open_nursery() as tasks:
                tasks.start_soon(_ask, peer)
        else:
            await peer.ask(100)

    async def asks(self: Actor, peer: Any) -> None:
        try:
            await asks_there(peer)
        except* AskTimeout:
            gave_up.append(trio.current_time())

    gave_up: list[float] = []
    async with open_nursery() as nursery:
        takes = nursery.spawn(Takes)
        reply = nursery.spawn(Do, takes).ask(asks, timeout=5)
        with pytest.raises(AskTimeout):
            await reply
        await trio.testing.wait_all_tasks_blocked()
        assert gave_up == [5]
        takes.kill()


async def _ask(peer: Any) -> None:
    await peer.ask(100)


async def test_of_two_times_the_earlier_counts(autojump_clock: MockClock) -> None:
    async def asks(self: Actor, peer: Any, seconds: float) -> float:
        with pytest.raises(AskTimeout) as caught:
            await peer.ask(100, timeout=seconds)
        return caught.value.seconds

    async with open_nursery() as nursery:
        one, two = nursery.spawn(Takes), nursery.spawn(Takes)
        assert await nursery.spawn(Do, one, 3).ask(asks, timeout=5) == 3
        assert trio.current_time() == 3
        with pytest.raises(AskTimeout):
            await nursery.spawn(Do, two, 50).ask(asks, timeout=5)
        assert trio.current_time() == 8
        one.kill()
        two.kill()


async def test_what_was_told_has_no_time_to_hand_on(autojump_clock: MockClock) -> None:
    async def asks(self: Actor, peer: Any) -> None:
        await peer.ask(100)
        done.set()

    async with open_nursery() as nursery:
        done = trio.Event()
        ref = nursery.spawn(Do, nursery.spawn(Takes))
        with pytest.raises(AskTimeout):
            await nursery.spawn(Takes).ask(6, timeout=5)
        ref.tell(asks)
        await done.wait()
        assert trio.current_time() == 105


@pytest.mark.parametrize("budget", [1, 512])
@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_asks_around_their_timeout_never_get_anothers_answer(
    seed: int, budget: int
) -> None:
    drawn = random.Random(seed)
    outcomes = {"answered": 0, "timed out": 0}

    class Job(Request[int], frozen=True):
        number: int
        seconds: float

    class Answers(Actor):
        """Answers with the number of the job, after its time."""

        async def receive(self, message: Job) -> int:
            await trio.sleep(message.seconds)
            return message.number

    async def asks(ref: Ref[Job], number: int) -> None:
        await trio.sleep(drawn.random() * 10)
        timeout = 0.005 + drawn.random() * 0.05
        latest = trio.current_time() + timeout
        try:
            answer = await ref.ask(Job(number, drawn.random() * 0.06), timeout=timeout)
        except AskTimeout:
            outcomes["timed out"] += 1
            assert trio.current_time() == pytest.approx(latest)
        else:
            outcomes["answered"] += 1
            assert answer == number
            assert trio.current_time() <= latest + 1e-9

    async def main() -> None:
        with PumpSeam(seed, budget=budget).installed():
            async with open_nursery() as nursery:
                refs = [nursery.spawn(Answers) for _ in range(5)]
                async with trio.open_nursery() as tasks:
                    for number in range(1000):
                        tasks.start_soon(asks, drawn.choice(refs), number)

    with seeded(seed):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert sum(outcomes.values()) == 1000
    assert min(outcomes.values()) > 100  # the delays are around the timeout indeed


# ---- an actor that ends


async def test_asks_that_wait_for_an_actor_that_stops_are_refused_without_being_begun(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        takes = nursery.spawn(Takes)
        replies = [takes.ask(2) for _ in range(5)]
        for _ in range(3):
            takes.tell(2)
        await trio.sleep(1)
        stopping = takes.stop()
        for reply in replies[1:]:
            with pytest.raises(ActorStopped):
                await reply
        assert trio.current_time() == 1
        assert await replies[0] == 2
        await stopping
        assert nursery.dead_letters == 3
        with pytest.raises(ActorStopped, match="shutdown"):
            await takes.ask(1)
        assert trio.current_time() == 2


async def test_a_crash_refuses_the_asks_behind_it_and_says_what_it_was(
    crashes_are_values: Any, autojump_clock: MockClock
) -> None:
    async def fails(self: Actor) -> None:
        await trio.sleep(1)
        raise ValueError("why")

    async with open_nursery() as nursery:
        ref = await nursery.spawn(crashes_are_values).ask((Do,))
        first, second = ref.ask(fails), ref.ask(fails)
        with pytest.raises(ActorCrashed):
            await first
        with pytest.raises(ActorStopped, match="why") as caught:
            await second
        assert isinstance(caught.value.__cause__, ValueError)


def _private_read_is_off() -> bool:
    from standby_actors import traps

    return traps.scope_of is None
