"""Context variables and suspended code: as if each actor were a task of its own.

No actor has a task of its own, so every one of these could have gone wrong: a
variable that is seen by the next actor on the same pump, a generator that is
resumed by another task than the one that began it.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import AsyncGenerator
from contextvars import ContextVar, Token
from typing import Any

import pytest
import sniffio
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import Actor, ActorCrashed, ExitReason, open_nursery
from standby_actors.traps import AWAKE
from tests.actors.workers import LOG, AsyncEcho, Do, Echo, Worker

PLACE: ContextVar[Any] = ContextVar("place", default="none")
GET = "get"


class Swaps(Actor):
    """Sets the variable to its message, but for GET, and answers what it was."""

    def receive(self, message: Any) -> Any:
        before = PLACE.get()
        if message is not GET:
            PLACE.set(message)
        return before


class AsyncSwaps(Swaps):
    """The same, as a coroutine that does not wait."""

    async def receive(self, message: Any) -> Any:
        return super().receive(message)


class WaitingSwaps(Swaps):
    """The same, after a wait."""

    async def receive(self, message: Any) -> Any:
        await trio.sleep(0.01)
        return super().receive(message)


SWAPS = [
    pytest.param(Swaps, False, id="def"),
    pytest.param(AsyncSwaps, False, id="async def"),
    pytest.param(WaitingSwaps, False, id="waiting"),
    pytest.param(Swaps, True, id="dedicated def"),
    pytest.param(WaitingSwaps, True, id="dedicated waiting"),
]


@pytest.mark.parametrize(("actor", "dedicated"), SWAPS)
async def test_every_actor_has_variables_of_its_own_and_keeps_them(
    actor: type[Swaps], dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        one, two = (nursery.spawn(actor, dedicated=dedicated) for _ in range(2))
        assert await one.ask("one") == "none"
        assert await two.ask("two") == "none"
        one.tell("one again")
        await trio.testing.wait_all_tasks_blocked()
        assert await one.ask(GET) == "one again"
        assert await two.ask(GET) == "two"
        assert PLACE.get() == "none"
        assert await nursery.spawn(actor).ask(GET) == "none"


@pytest.mark.parametrize(("actor", "dedicated"), SWAPS)
async def test_an_actor_has_the_variables_of_who_spawned_it_not_of_who_tells(
    actor: type[Swaps], dedicated: bool, autojump_clock: MockClock
) -> None:
    PLACE.set("block")
    async with open_nursery() as nursery:
        PLACE.set("spawner")
        ref = nursery.spawn(actor, dedicated=dedicated)
        PLACE.set("teller")
        assert await ref.ask(GET) == "spawner"
        ref.tell("its own")
        await trio.testing.wait_all_tasks_blocked()
        assert await ref.ask(GET) == "its own"
        assert PLACE.get() == "teller"


async def test_the_pump_has_the_variables_of_the_block_whoever_wakes_it(
    autojump_clock: MockClock,
) -> None:
    PLACE.set("block")
    async with open_nursery() as nursery:
        ref = nursery.spawn(Swaps)
        PLACE.set("first teller")
        ref.tell(GET)
        await trio.testing.wait_all_tasks_blocked()
        PLACE.set("block")
        assert await nursery.spawn(Swaps).ask(GET) == "block"
        assert await ref.ask(GET) == "block"


async def test_a_child_has_the_variables_of_the_handler_that_spawned_it(
    autojump_clock: MockClock,
) -> None:
    async def spawns(self: Actor) -> Any:
        PLACE.set("parent")
        child = self.spawn(Swaps)
        PLACE.set("parent, later")
        return child

    async with open_nursery() as nursery:
        child = await nursery.spawn(Do).ask(spawns)
        assert await child.ask(GET) == "parent"


async def test_an_actor_asked_inline_does_not_see_the_variables_of_its_asker(
    autojump_clock: MockClock,
) -> None:
    answers: list[Any] = []

    class Asks(Actor):
        def receive(self, message: Any) -> Any:
            PLACE.set("asker")
            reply = message.ask("asked")
            assert reply.done  # it was served inside this call
            answers.append(reply.result())
            return PLACE.get()

    async with open_nursery() as nursery:
        swaps = nursery.spawn(Swaps)
        asks = nursery.spawn(Asks)
        assert await asks.ask(swaps) == "asker"
        assert await swaps.ask(GET) == "asked"
    assert answers == ["none"]


async def test_variables_stay_over_asks_waits_child_tasks_and_threads(
    autojump_clock: MockClock,
) -> None:
    async def handler(self: Actor, echo: Any, place: str) -> list[Any]:
        token = PLACE.set(place)
        seen = [PLACE.get()]
        await echo.ask(1)
        seen.append(PLACE.get())
        await trio.sleep(0.01)
        seen.append(PLACE.get())
        await echo.ask(1)
        seen.append(PLACE.get())

        async def child() -> None:
            seen.append(PLACE.get())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
        PLACE.reset(token)
        seen.append(PLACE.get())
        return seen

    async with open_nursery() as nursery:
        echo = nursery.spawn(AsyncEcho)
        asked = [(place, nursery.spawn(Do, echo, place).ask(handler)) for place in "pq"]
        for place, reply in asked:
            assert await reply == [place] * 5 + ["none"]
        assert PLACE.get() == "none"
        assert await nursery.spawn(Swaps).ask(GET) == "none"


async def test_a_thread_called_from_a_handler_sees_the_variables_of_the_actor(
    autojump_clock: MockClock,
) -> None:
    async def handler(self: Actor) -> tuple[Any, bool]:
        PLACE.set("actor")
        here = threading.get_ident()
        return await trio.to_thread.run_sync(lambda: (PLACE.get(), threading.get_ident() != here))

    async with open_nursery() as nursery:
        assert await nursery.spawn(Do).ask(handler) == ("actor", True)


@pytest.mark.parametrize("dedicated", [False, True])
async def test_what_a_start_hook_sets_its_stop_hook_can_reset(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    class Holds(Actor):
        token: Token[Any]

        def on_start(self) -> None:
            self.token = PLACE.set("held")

        async def receive(self, message: Any) -> Any:
            await trio.sleep(1)
            return PLACE.get()

        async def on_stop(self, reason: ExitReason) -> None:
            await trio.sleep(1)
            PLACE.reset(self.token)  # an error in any context but the one that set it
            LOG.append(PLACE.get())

    async with open_nursery() as nursery:
        holds = nursery.spawn(Holds, dedicated=dedicated)
        other = nursery.spawn(Swaps)
        assert await holds.ask(1) == "held"
        assert await other.ask("other") == "none"
    assert LOG == ["none"]


async def test_two_handlers_in_turn_never_mix_their_variables(
    autojump_clock: MockClock,
) -> None:
    async def handler(self: Actor, name: str) -> None:
        for step in range(20):
            PLACE.set((name, step))
            await trio.sleep(0.01 if step % 3 else 0)
            assert PLACE.get() == (name, step)

    async with open_nursery() as nursery:
        for reply in [nursery.spawn(Do, name).ask(handler) for name in "abcdef"]:
            await reply


async def test_generators_and_context_managers_go_on_over_asks_and_waits(
    autojump_clock: MockClock,
) -> None:
    seen: list[Any] = []

    @contextlib.asynccontextmanager
    async def room() -> AsyncGenerator[None]:
        seen.append("in")
        try:
            yield
        finally:
            await trio.sleep(1)
            seen.append("out")

    async def numbers(echo: Any, plain: Any) -> AsyncGenerator[int]:
        try:
            for number in range(6):
                yield await (echo if number % 2 else plain).ask(number)
                if number == 2:
                    await trio.sleep(1)
        finally:
            await trio.lowlevel.checkpoint()
            seen.append("closed")

    async def handler(self: Actor, echo: Any, plain: Any) -> None:
        async with room(), contextlib.aclosing(numbers(echo, plain)) as generator:
            async for number in generator:
                seen.append(number)

    async with open_nursery() as nursery:
        await nursery.spawn(Do, nursery.spawn(AsyncEcho), nursery.spawn(Echo)).ask(handler)
    assert seen == ["in", 0, 1, 2, 3, 4, 5, "closed", "out"]


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_a_generator_that_a_handler_abandons_is_closed_by_trio(
    autojump_clock: MockClock,
) -> None:
    closed_in: list[str] = []

    async def one() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            closed_in.append(sniffio.current_async_library())

    async def handler(self: Actor) -> None:
        async for _ in one():
            break

    async with open_nursery() as nursery:
        await nursery.spawn(Do).ask(handler)
        gc.collect()
        await trio.testing.wait_all_tasks_blocked()
    assert closed_in == ["trio"]


async def test_a_context_manager_may_be_held_over_an_ask_that_fails(
    autojump_clock: MockClock,
) -> None:
    async def fails(self: Actor) -> None:
        raise KeyError("no")

    async def handler(self: Actor, peer: Any) -> Any:
        token = PLACE.set("inside")
        try:
            await peer.ask(fails)
        except ActorCrashed as error:
            return type(error.__cause__), PLACE.get()
        finally:
            PLACE.reset(token)

    async def spawns(self: Actor) -> Any:
        return self.spawn(Do, link=False)

    async with open_nursery() as nursery:
        peer = await nursery.spawn(Do).ask(spawns)
        assert await nursery.spawn(Do, peer).ask(handler) == (KeyError, "inside")


async def test_a_lock_is_held_over_an_ask(autojump_clock: MockClock) -> None:
    lock = trio.Lock()

    async def handler(self: Actor, worker: Any) -> Any:
        async with lock:
            return await worker.ask("short")

    async with open_nursery() as nursery:
        worker = nursery.spawn(Worker)
        for reply in [nursery.spawn(Do, worker).ask(handler) for _ in range(3)]:
            assert await reply == "ok"


async def test_the_task_changes_between_messages(autojump_clock: MockClock) -> None:
    tasks: list[Any] = []

    async def handler(self: Actor) -> None:
        tasks.append(trio.lowlevel.current_task())
        await trio.sleep(0.002)

    async with open_nursery() as nursery:
        refs = [nursery.spawn(Do) for _ in range(2)]
        for reply in [ref.ask(handler) for _ in range(6) for ref in refs]:
            await reply
    assert len(set(tasks)) > 1


async def test_a_handler_sees_itself_as_a_task_of_trio(autojump_clock: MockClock) -> None:
    async def handler(self: Actor) -> tuple[str, bool]:
        stepped = sniffio.current_async_library()
        await trio.lowlevel.checkpoint()
        return stepped, trio.lowlevel.current_task() is not main

    main = trio.lowlevel.current_task()
    async with open_nursery() as nursery:
        assert await nursery.spawn(Do).ask(handler) == ("trio", True)


async def foreign_future(self: Actor) -> None:
    import asyncio

    loop = asyncio.new_event_loop()
    try:
        await loop.create_future()
    finally:
        loop.close()


async def detaches(self: Actor) -> None:
    await trio.lowlevel.permanently_detach_coroutine_object(AWAKE)


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(foreign_future, id="a future of asyncio"),
        pytest.param(detaches, id="trio's trap to leave its task"),
    ],
)
@pytest.mark.parametrize("waits_first", [False, True])
async def test_awaiting_what_is_not_trios_is_an_error_in_the_handler(
    handler: Any, waits_first: bool, autojump_clock: MockClock
) -> None:
    async def tries(self: Actor) -> Any:
        if waits_first:
            await trio.sleep(1)
        try:
            await handler(self)
        except TypeError as error:
            return str(error)

    async with open_nursery() as nursery:
        ref = nursery.spawn(Do)
        assert "await only what runs on trio" in await ref.ask(tries)
        assert await nursery.spawn(AsyncEcho).ask(1) == 1


class Ambiguous:
    """Cannot be compared, as an array cannot."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = object.__hash__


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(
    "make", [pytest.param(list, id="equal"), pytest.param(Ambiguous, id="without an ==")]
)
@pytest.mark.parametrize("actor", [Swaps, AsyncSwaps, WaitingSwaps])
async def test_a_value_that_equals_the_blocks_is_still_the_actors_own(
    actor: type[Swaps], make: Any, asked: bool, autojump_clock: MockClock
) -> None:
    ours = make()
    PLACE.set(ours)
    theirs = make()
    async with open_nursery() as nursery:
        one, two = (nursery.spawn(actor) for _ in range(2))
        if asked:
            await one.ask(theirs)
        else:
            one.tell(theirs)
            await trio.testing.wait_all_tasks_blocked()
        assert await two.ask(GET) is ours
        assert await one.ask(GET) is theirs
        PLACE.set(theirs)
        assert await nursery.spawn(actor).ask(GET) is theirs
