# ruff: noqa: PT012 - what raises here is leaving a block, so the block is the statement
"""Killing an actor, whatever it is doing: it ends at once, with a genuine Cancelled.

And ending it in other ways by its own hand, in the middle of a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import (
    Actor,
    ActorStopped,
    Crashed,
    ExitReason,
    Killed,
    Linked,
    Normal,
    Ref,
    Shutdown,
    open_nursery,
)
from tests.actors.phases import PHASES, Phases, enter
from tests.actors.workers import LOG, AsyncEcho, Do, Echo, Stops, Worker, tasks
from tests.support.inside import block_of

settled = trio.testing.wait_all_tasks_blocked


# ---- by others


async def test_an_idle_actor_is_killed_without_a_task(autojump_clock: MockClock) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        echo = nursery.spawn(Stops, "hook")
        echo.kill()
        assert not echo.is_alive
        assert tasks() == before
        assert await echo.join() == Killed()
    assert LOG == []


async def test_a_killed_actor_answers_none_of_the_asks_that_wait(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        echo = nursery.spawn(AsyncEcho)
        asks = [echo.ask(each) for each in range(3)]
        echo.tell("told")
        echo.kill()
        for ask in asks:
            with pytest.raises(ActorStopped):
                await ask
        assert nursery.dead_letters == 1
        assert block_of(nursery).handoffs == 0


async def test_a_handler_that_waits_for_trio_gets_cancelled_and_cleans_up(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        worker = nursery.spawn(Worker, "a")
        ask = worker.ask("cleanup")
        await settled()
        worker.kill()
        assert worker.is_alive
        assert await worker.join() == Killed()
        assert LOG == [("a", "cleaned"), ("a", "Cancelled")]
        with pytest.raises(ActorStopped):
            await ask
        assert await nursery.spawn(AsyncEcho).ask(1) == 1


async def test_a_handler_parked_on_an_ask_gets_a_genuine_cancelled(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        slow = nursery.spawn(Worker, "slow")
        asker = nursery.spawn(Worker, "asker", slow)
        ask = asker.ask("ask")
        await settled()
        asker.kill()
        assert await asker.join() == Killed()
        assert LOG == [("asker", "Cancelled")]
        assert slow.snapshot().state == "waiting"
        with pytest.raises(ActorStopped):
            await ask
        slow.kill()
        await slow.join()


async def test_a_handler_killed_while_parked_may_await_in_a_shield(
    autojump_clock: MockClock,
) -> None:
    async def asks(self: Any, echo: Ref[Any], slow: Ref[Any]) -> None:
        try:
            await slow.ask("sleep")
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.02)
                LOG.append(await echo.ask("cleaned"))

    async with open_nursery() as nursery:
        slow = nursery.spawn(Worker, "slow")
        asker = nursery.spawn(Do, nursery.spawn(AsyncEcho), slow)
        asker.tell(asks)
        await settled()
        asker.kill()
        assert await asker.join() == Killed()
        assert LOG == ["cleaned"]
        slow.kill()


@pytest.mark.parametrize("parked", [True, False])
async def test_cancelled_comes_again_at_every_wait_of_a_killed_handler(
    parked: bool, autojump_clock: MockClock
) -> None:
    async def stubborn(self: Any) -> None:
        if not parked:
            await trio.lowlevel.checkpoint()
        for _ in range(3):
            try:
                await self.peer.ask("sleep")
            except trio.Cancelled:
                LOG.append("again")
        await trio.sleep(1)

    async with open_nursery() as nursery:
        slow = nursery.spawn(Worker, "slow")
        asker = nursery.spawn(Worker, "asker", slow)
        asker.tell(stubborn)
        await settled()
        asker.kill()
        await asker.join()
        assert LOG == ["again"] * 3 + [("asker", "Cancelled")]
        slow.kill()


async def test_a_plain_handler_kills_who_asked_it(autojump_clock: MockClock) -> None:
    def kills(ref: Ref[Any]) -> str:
        ref.kill()
        return "killed"

    async def asks(self: Any) -> None:
        await self.peer.ask(self.ref)
        await trio.sleep(1)
        LOG.append("it went on")

    async with open_nursery() as nursery:
        asker = nursery.spawn(Worker, "asker", nursery.spawn(kills))
        asker.tell(asks)
        assert await asker.join() == Killed()
        assert LOG == [("asker", "Cancelled")]
        assert await nursery.spawn(AsyncEcho).ask(3) == 3


async def test_a_plain_handler_that_stops_who_asked_it_lets_its_turn_end(
    autojump_clock: MockClock,
) -> None:
    def stops(ref: Ref[Any]) -> str:
        ref.stop()
        return "stopped"

    async def asks(self: Any) -> Any:
        answer = await self.peer.ask(self.ref)
        await trio.sleep(0.1)
        return answer

    async with open_nursery() as nursery:
        asker = nursery.spawn(Worker, "asker", nursery.spawn(stops))
        assert await asker.ask(asks) == "stopped"
        assert await asker.join() == Shutdown()


async def test_a_kill_reaches_everybody_below(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        owner = nursery.spawn(Stops, "owner")
        child = await owner.ask("spawn")
        grandchild = await child.ask("spawn")
        busy: Ref[Any] = grandchild.spawn(Worker, ("busy",))
        busy.tell("sleep")
        await settled()
        owner.kill()
        # The idle ones wait for the one whose handler must end first.
        assert await busy.join() == Killed()
        for ref in (owner, child, grandchild):
            assert await ref.join() == Killed()
        assert LOG == [("busy", "Cancelled")]


async def test_a_kill_of_a_child_leaves_its_siblings_and_ends_its_owner(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        owner = nursery.spawn(Stops, "owner")
        child = await owner.ask("spawn")
        sibling = nursery.spawn(Echo)
        child.kill()
        await settled()
        assert await child.join() == Killed()
        assert owner.is_alive
        assert await sibling.ask(1) == 1


async def test_a_killed_actor_is_killed_once(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        worker = nursery.spawn(Worker, "a")
        worker.tell("cleanup")
        await settled()
        for _ in range(3):
            worker.kill()
        await trio.sleep(0.01)
        worker.kill()
        assert await worker.stop() == Killed()
        assert LOG == [("a", "cleaned"), ("a", "Cancelled")]
        worker.kill()


async def test_a_kill_cuts_an_ordered_stop_short(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        worker = nursery.spawn(Worker, "a", shutdown=60)
        worker.tell("sleep")
        await settled()
        stop = worker.stop()
        await trio.sleep(1)
        worker.kill()
        assert await stop == Killed()
        assert trio.current_time() == pytest.approx(1)
        assert LOG == [("a", "Cancelled")]


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize("phase", PHASES)
async def test_a_kill_cuts_every_hook(
    phase: str, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(Phases, phase, name="actor", dedicated=dedicated)
        await enter(actor, phase)
        actor.kill()
        assert await actor.join() == Killed()
        assert [(phase, "Cancelled")] == LOG
        assert trio.current_time() < 4
        assert nursery.whereis("actor") is None


async def test_killing_many_leaves_few_workers(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        for _ in range(50):
            worker = nursery.spawn(Worker, "a")
            worker.tell("sleep")
            await settled()
            worker.kill()
            assert await worker.join() == Killed()
        assert block_of(nursery).workers <= 3
        assert await nursery.spawn(AsyncEcho).ask(3) == 3


async def test_a_killed_block_runs_no_stop_hook(autojump_clock: MockClock) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        nursery.spawn(Stops, "hook").tell("spawn")
        nursery.spawn(Worker, "a").tell("sleep")
        await settled()
        nursery.kill()
        await trio.sleep_forever()
    assert LOG == [("a", "Cancelled")]
    assert tasks() == before
    assert trio.current_time() == 0


# ---- by its own hand


async def waits(self: Any) -> None:
    self.ref.kill()
    await trio.sleep(1)
    LOG.append("it went on")


async def waits_after_a_wait(self: Any) -> None:
    await trio.lowlevel.checkpoint()
    self.ref.kill()
    await trio.sleep(1)
    LOG.append("it went on")


async def asks_a_coroutine(self: Any) -> None:
    self.ref.kill()
    await self.peer.ask(1)
    LOG.append("it went on")


async def asks_inline(self: Any) -> None:
    echo = self.spawn(Echo)
    self.ref.kill()
    await echo.ask(1)
    LOG.append("it went on")


async def spawns(self: Any) -> None:
    self.ref.kill()
    try:
        self.spawn(Echo)
    except ActorStopped:
        await trio.lowlevel.checkpoint()
    LOG.append("it went on")


async def opens_a_nursery(self: Any) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 1)
        self.ref.kill()
    LOG.append("it went on")


async def kills_from_a_task(self: Any) -> None:
    async def kill() -> None:
        self.ref.kill()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(kill)
        await trio.sleep(1)
    LOG.append("it went on")


async def kills_inside_a_scope(self: Any) -> None:
    with trio.move_on_after(5):
        self.ref.kill()
        await trio.sleep(1)
    LOG.append("it went on")


KILLS_AND_WAITS = [
    waits,
    waits_after_a_wait,
    asks_a_coroutine,
    asks_inline,
    spawns,
    opens_a_nursery,
    kills_from_a_task,
    kills_inside_a_scope,
]


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize("how", KILLS_AND_WAITS)
async def test_an_actor_that_kills_itself_gets_cancelled_at_its_next_wait(
    how: Callable[..., Any], dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        peer = nursery.spawn(AsyncEcho)
        worker = nursery.spawn(Worker, "a", peer, dedicated=dedicated)
        ask = worker.ask(how)
        assert await worker.join() == Killed()
        # Out of a nursery of trio it comes in a group.
        in_a_nursery = how in (opens_a_nursery, kills_from_a_task)
        assert [("a", "BaseExceptionGroup" if in_a_nursery else "Cancelled")] == LOG
        with pytest.raises(ActorStopped):
            await ask
        assert trio.current_time() == 0
        assert await nursery.spawn(AsyncEcho).ask(3) == await peer.ask(3) == 3


async def returns(self: Any) -> str:
    self.ref.kill()
    return "value"


async def returns_after_a_wait(self: Any) -> str:
    await trio.lowlevel.checkpoint()
    self.ref.kill()
    return "value"


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize("how", [returns, returns_after_a_wait])
async def test_an_actor_that_kills_itself_and_returns_has_answered(
    how: Callable[..., Any], dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        worker = nursery.spawn(Worker, "a", dedicated=dedicated)
        ask = worker.ask(how)
        behind = worker.ask("behind")
        assert await ask == "value"
        assert await worker.join() == Killed()
        with pytest.raises(ActorStopped):
            await behind
        assert LOG == []
        assert await nursery.spawn(AsyncEcho).ask(3) == 3


@pytest.mark.parametrize("asked", [False, True])
async def test_a_plain_actor_that_kills_itself_delivers_nothing_more(
    asked: bool, autojump_clock: MockClock
) -> None:
    class Kills(Actor):
        def receive(self, message: int) -> int:
            LOG.append(message)
            if message == 2:
                self.ref.kill()
            return message

    async with open_nursery() as nursery:
        actor = nursery.spawn(Kills)
        asks: list[Any] = []
        if asked:
            # The first is answered inline, which leaves the rest to the mailbox.
            asks = [actor.ask(each) for each in range(5)]
        else:
            for each in range(5):
                actor.tell(each)
        assert await actor.join() == Killed()
        assert LOG == [0, 1, 2]
        for each, ask in enumerate(asks):
            if each < 3:
                assert await ask == each
            else:
                with pytest.raises(ActorStopped):
                    await ask


@pytest.mark.parametrize("hook", ["on_start", "on_stop"])
@pytest.mark.parametrize("dedicated", [False, True])
async def test_an_actor_may_kill_itself_in_a_hook(
    hook: str, dedicated: bool, autojump_clock: MockClock
) -> None:
    class Kills(Actor):
        async def on_start(self) -> None:
            if hook == "on_start":
                self.ref.kill()
                await trio.sleep(1)

        def receive(self, message: Any) -> Any:
            return message

        async def on_stop(self, reason: ExitReason) -> None:
            if hook == "on_stop":
                self.ref.kill()
                await trio.sleep(1)

    async with open_nursery() as nursery:
        actor = nursery.spawn(Kills, dedicated=dedicated)
        if hook == "on_stop":
            assert await actor.ask(1) == 1
            assert await actor.stop() == Killed()
        assert await actor.join() == Killed()
        assert trio.current_time() == 0
        if hook == "on_start":
            with pytest.raises(ActorStopped):
                await nursery.start(Kills, dedicated=dedicated)


async def test_an_actor_may_stop_itself_in_its_start_hook(autojump_clock: MockClock) -> None:
    class Leaves(Actor):
        async def on_start(self) -> None:
            self.stop()
            await trio.lowlevel.checkpoint()
            LOG.append("started")

        def receive(self, message: Any) -> Any:
            LOG.append(message)

        def on_stop(self, reason: ExitReason) -> None:
            LOG.append(reason)

    async with open_nursery() as nursery:
        actor = nursery.spawn(Leaves)
        assert await actor.join() == Normal()
        assert ["started", Normal()] == LOG


async def test_the_scope_of_a_killed_handler_never_reaches_the_next_actor(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        first = nursery.spawn(Worker, "first")
        following = nursery.spawn(Worker, "next")
        # Both are served in the same pass of the pump, one after the other.
        first.tell(returns)
        ask = following.ask("short")
        assert await ask == "ok"
        assert await first.join() == Killed()
        assert LOG == []


@pytest.mark.parametrize("kind", ["def", "async", "dedicated"])
async def test_an_actor_that_stops_itself_delivers_nothing_more(
    kind: str, autojump_clock: MockClock
) -> None:
    def act(self: Actor, message: int) -> None:
        LOG.append(message)
        if message == 2:
            self.stop()

    class Plain(Actor):
        receive = act

    class Waits(Actor):
        async def receive(self, message: int) -> None:
            act(self, message)

    async with open_nursery() as nursery:
        actor: Ref[Any] = nursery.spawn(
            Plain if kind == "def" else Waits, dedicated=kind == "dedicated"
        )
        for each in range(10):
            actor.tell(each)
        assert await actor.join() == Normal()
        assert LOG == [0, 1, 2]
        assert nursery.dead_letters == 7


# ---- stopping one actor


async def test_stopping_twice_at_once_is_stopping_once(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(Stops, "a")
        actor.tell(1)
        stops = [actor.stop() for _ in range(5)]
        for stop in stops:
            assert await stop == Shutdown()
        assert await actor.stop() == Shutdown()
        assert LOG == ["a"]


async def test_an_idle_actor_without_a_hook_has_ended_when_stop_returns(
    autojump_clock: MockClock,
) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        echo = nursery.spawn(Echo)
        stop = echo.stop(Shutdown("enough"))
        assert not echo.is_alive
        assert tasks() == before
        assert await stop == Shutdown("enough")


async def test_an_actor_that_overruns_its_shutdown_time_is_killed(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        worker = nursery.spawn(Worker, "a", shutdown=3)
        ask = worker.ask("sleep")
        await settled()
        assert await worker.stop() == Killed("it did not stop within 3 s")
        assert trio.current_time() == pytest.approx(3)
        with pytest.raises(ActorStopped, match="killed"):
            await ask


async def test_the_shutdown_time_of_an_owner_bounds_those_of_its_children(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        owner: Any = nursery.spawn(Stops, "owner", shutdown=1)
        owner.spawn(Worker, ("child",), shutdown=60).tell("sleep")
        await settled()
        assert await owner.stop() == Killed("it did not stop within 1 s")
        assert trio.current_time() == pytest.approx(1)
        assert LOG == [("child", "Cancelled")]


async def test_a_crash_while_stopping_is_how_it_ended(autojump_clock: MockClock) -> None:
    async def late(self: Any) -> None:
        await trio.sleep(0.1)
        raise KeyError("late")

    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            worker = nursery.spawn(Worker)
            worker.tell(late)
            await settled()
            stop = worker.stop()
            with trio.CancelScope(shield=True):
                reason = await stop
    assert isinstance(reason, Crashed)
    assert raised.value.exceptions == (reason.error,)


async def test_a_crash_in_a_stop_hook_is_how_it_ended(autojump_clock: MockClock) -> None:
    class Fails(Actor):
        def receive(self, message: Any) -> Any:
            return message

        async def on_stop(self, reason: ExitReason) -> None:
            raise KeyError("hook")

    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            actor = nursery.spawn(Fails)
            nursery.spawn(Stops, "sibling")
    reason = await actor.join()
    assert isinstance(reason, Crashed)
    assert raised.value.exceptions == (reason.error,)
    assert LOG == ["sibling"]


async def test_an_owner_whose_child_crashes_ends_linked_to_it(autojump_clock: MockClock) -> None:
    async def fails(self: Any) -> None:
        raise KeyError("child")

    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            owner: Any = nursery.spawn(Stops, "owner", name="owner")
            child = owner.spawn(Stops, ("child",), name="child")
            child.spawn(Worker, ("grandchild",), name="grandchild").tell(fails)
            await trio.sleep_forever()
    assert [type(each) for each in raised.value.exceptions] == [KeyError]
    reason = await owner.join()
    assert isinstance(reason, Linked)
    assert str(reason) == (
        "linked to nursery/owner/child and through it to nursery/owner/child/grandchild, "
        "which crashed (KeyError: 'child')"
    )
    assert LOG == [("grandchild", "KeyError"), "child", "owner"]
