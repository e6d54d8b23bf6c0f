# ruff: noqa: PT012 - what raises here is leaving a block, so the block is the statement
"""A dedicated actor: one task for all of one life, and otherwise an actor like any other.

What shall be the same for both is tested for both.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    Crashed,
    ExitReason,
    Killed,
    Normal,
    Ref,
    Shutdown,
    open_nursery,
)
from tests.actors.phases import PHASES, Phases, enter
from tests.actors.workers import LOG, AsyncEcho, Do, Echo, Stops, Worker, tasks
from tests.support.homes import apart
from tests.support.inside import block_of

settled = trio.testing.wait_all_tasks_blocked
on_both = pytest.mark.parametrize("dedicated", [False, True], ids=["shared", "dedicated"])


class OneTask(Actor):
    """Logs the task of each hook and handler."""

    dedicated = True

    def _note(self, phase: str) -> None:
        LOG.append((phase, trio.lowlevel.current_task()))

    async def on_start(self) -> None:
        self._note("on_start")
        self.continue_with(None)

    def on_continue(self, what: Any) -> None:
        self._note("on_continue")

    async def receive(self, message: Any) -> Any:
        self._note("receive")
        await trio.lowlevel.checkpoint()
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        self._note("on_stop")


async def test_all_hooks_and_handlers_of_one_life_run_on_one_task(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(OneTask)
        others = [nursery.spawn(Worker) for _ in range(5)]
        for each in range(5):
            asks = [other.ask("short") for other in others]
            assert await actor.ask(each) == each
            assert [await ask for ask in asks] == ["ok"] * 5
    assert [phase for phase, _ in LOG] == [
        "on_start",
        "on_continue",
        *["receive"] * 5,
        "on_stop",
    ]
    assert len({task for _, task in LOG}) == 1


class Scoped(Actor):
    """Keeps a scope and a task group open from its start to its stop."""

    dedicated = True

    def __init__(self) -> None:
        self.done: list[int] = []

    async def on_start(self) -> None:
        self.manager = trio.open_nursery()
        self.tasks = await self.manager.__aenter__()

    async def _work(self, number: int) -> None:
        try:
            await trio.sleep(number)
            self.done.append(number)
        except trio.Cancelled:
            LOG.append(number)
            raise

    async def receive(self, message: Any) -> Any:
        if message == "done":
            return self.done
        if message == "crash":
            raise KeyError(message)
        self.tasks.start_soon(self._work, message)
        return None

    async def on_stop(self, reason: ExitReason) -> None:
        self.tasks.cancel_scope.cancel()
        await self.manager.__aexit__(None, None, None)
        LOG.append("closed")


async def test_its_tasks_go_on_between_messages_and_end_in_its_stop_hook(
    autojump_clock: MockClock,
) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        actor = await nursery.start(Scoped)
        for seconds in (1, 2, 60):
            await actor.ask(seconds)
        await trio.sleep(3)
        assert await actor.ask("done") == [1, 2]
        assert await actor.stop() == Shutdown()
    assert LOG == [60, "closed"]
    assert tasks() == before


async def test_after_a_crash_its_stop_hook_closes_what_it_keeps_open(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        actor = await apart(nursery, Scoped)
        await actor.ask(60)
        with pytest.raises(ActorCrashed):
            await actor.ask("crash")
        assert isinstance(await actor.join(), Crashed)
    assert LOG == [60, "closed"]


@asynccontextmanager
async def kept(
    name: str, seconds: float = 0.0, error: Exception | None = None
) -> AsyncGenerator[str]:
    """A task group with a task in it; says whether it was left or cut."""
    how = "cut"
    try:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(trio.sleep_forever)
            yield name
            await trio.sleep(seconds)
            how = "left"
            tasks.cancel_scope.cancel()
            if error is not None:
                raise error
    finally:
        LOG.append(f"{how} {name}")


class Keeping(Actor):
    """Enters two managers in its start hook, and more when told."""

    dedicated = True

    def __init__(self, *later: Any) -> None:
        self.later = later

    async def on_start(self) -> None:
        assert await self.enter(kept("one")) == "one"
        await self.enter(kept("two", *self.later))

    async def receive(self, message: str) -> str:
        if message == "crash":
            raise KeyError(message)
        if message == "wait":
            await trio.sleep_forever()
        return await self.enter(kept(message))

    async def on_stop(self, reason: ExitReason) -> None:
        LOG.append("on_stop")


async def test_what_it_has_entered_is_left_after_its_stop_hook(autojump_clock: MockClock) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        actor = await nursery.start(Keeping)
        assert await actor.ask("three") == "three"
        assert await actor.stop() == Shutdown()
        assert LOG == ["on_stop", "left three", "left two", "left one"]
    assert tasks() == before


@pytest.mark.parametrize("busy", [False, True])
async def test_what_it_has_entered_is_left_when_it_is_killed(
    busy: bool, autojump_clock: MockClock
) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        actor = await nursery.start(Keeping)
        if busy:
            actor.tell("wait")
            await trio.sleep(1)
        actor.kill()
        assert isinstance(await actor.join(), Killed)
        assert LOG == ["cut two", "cut one"]
    assert tasks() == before


async def test_what_it_has_entered_is_left_when_it_crashes(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        actor = await apart(nursery, Keeping)
        with pytest.raises(ActorCrashed):
            await actor.ask("crash")
        assert isinstance(await actor.join(), Crashed)
    assert LOG == ["on_stop", "left two", "left one"]


async def test_what_leaving_raises_is_its_crash(autojump_clock: MockClock) -> None:
    error = OSError("the disk is gone")
    async with open_nursery() as nursery:
        actor = await apart(nursery, Keeping, 0.0, error)
        assert await actor.ask("three") == "three"
        reason = await actor.stop()
        assert reason == Crashed(error)
    assert LOG == ["on_stop", "left three", "left two", "cut one"]


async def test_leaving_is_bounded_by_its_shutdown(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        actor = await nursery.start(Keeping, 60.0)
        began = trio.current_time()
        assert isinstance(await actor.stop(), Killed)
        assert trio.current_time() - began == 5.0
    assert LOG == ["on_stop", "cut two", "cut one"]


async def test_one_that_may_be_cut_enters_in_its_start_hook_only(
    autojump_clock: MockClock,
) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        actor = await apart(nursery, Keeping, stop_mode="interrupt")
        with pytest.raises(ActorCrashed, match="in its start hook") as caught:
            await actor.ask("three")
        assert isinstance(caught.value.__cause__, RuntimeError)
        await actor.join()
        again = await apart(nursery, Keeping, stop_mode="interrupt")
        again.tell("wait")
        await trio.sleep(1)
        assert await again.stop() == Shutdown()
    assert LOG == ["on_stop", "left two", "left one"] * 2
    assert tasks() == before


async def test_a_start_that_is_cut_leaves_what_it_had_entered(autojump_clock: MockClock) -> None:
    class Slow(Keeping):
        async def on_start(self) -> None:
            await super().on_start()
            await trio.sleep_forever()

    async with open_nursery() as nursery:
        actor = nursery.spawn(Slow, stop_mode="interrupt")
        await trio.sleep(1)
        assert await actor.stop() == Shutdown()
    assert LOG == ["cut two", "cut one"]


async def test_only_a_dedicated_actor_keeps_something_open(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        actor = await apart(nursery, Keeping, dedicated=False)
        assert isinstance(reason := await actor.join(), Crashed)
        assert "dedicated = True" in str(reason.error)


@on_both
@pytest.mark.parametrize("phase", PHASES)
async def test_an_interrupting_stop_cuts_every_hook(
    phase: str, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(Phases, phase, dedicated=dedicated, stop_mode="interrupt")
        await enter(actor, phase)
        began = trio.current_time()
        assert await actor.stop() == Shutdown()
        assert [(phase, "Cancelled")] == LOG
        assert trio.current_time() == began


@on_both
@pytest.mark.parametrize("phase", PHASES)
async def test_a_stop_waits_for_every_hook(
    phase: str, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(Phases, phase, dedicated=dedicated)
        await enter(actor, phase)
        assert await actor.stop() == Shutdown()
        assert LOG == []
        assert 60 <= trio.current_time() <= 63


@on_both
@pytest.mark.parametrize("phase", PHASES)
async def test_a_crash_in_every_hook_is_the_actors_end(
    phase: str, dedicated: bool, autojump_clock: MockClock
) -> None:
    error = KeyError(phase)
    with pytest.raises(ExceptionGroup) as raised:
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "sibling")
            actor = nursery.spawn(Phases, phase, error, name="actor", dedicated=dedicated)
            await enter(actor, phase)
            await trio.sleep_forever()
    assert raised.value.exceptions == (error,)
    assert await actor.join() == Crashed(error)
    assert [(phase, "KeyError"), "sibling"] == LOG
    assert block_of(nursery).crashes == 1


@on_both
@pytest.mark.parametrize("phase", PHASES)
async def test_a_cancelled_block_waits_for_every_hook(
    phase: str, dedicated: bool, autojump_clock: MockClock
) -> None:
    before = tasks()
    with trio.move_on_after(2.5) as scope:
        async with open_nursery(shutdown=100) as nursery:
            actor = nursery.spawn(Phases, phase, dedicated=dedicated)
            await enter(actor, phase)
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert LOG == []
    assert await actor.join() == Shutdown()
    assert tasks() == before


@on_both
async def test_a_crash_answers_what_waits_that_the_actor_has_stopped(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    async def fails(self: Any) -> None:
        await trio.sleep(0.01)
        raise KeyError("why")

    async with open_nursery() as nursery:
        actor = await apart(nursery, Worker, dedicated=dedicated)
        asks = [actor.ask(fails), actor.ask("behind")]
        with pytest.raises(ActorCrashed):
            await asks[0]
        with pytest.raises(ActorStopped) as raised:
            await asks[1]
        assert type(raised.value.__cause__) is KeyError


@on_both
async def test_an_ask_that_waits_in_an_idle_actor_is_served(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(Echo, dedicated=dedicated)
        for _ in range(3):
            await settled()
            assert await actor.ask(1) == 1
            actor.tell(2)
            await actor.send(3)
        await settled()
        assert (actor.snapshot().state, actor.snapshot().mailbox) == ("idle", 0)


@on_both
async def test_it_may_be_suspended_and_looked_at(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(Worker, "a", dedicated=dedicated)
        assert await actor.ask(1) == 1
        actor.suspend()
        ask = actor.ask(2)
        await settled()
        assert not ask.done
        assert await actor.get_state() == {"name": "a", "peer": None}
        assert actor.snapshot().mailbox == 1
        actor.resume()
        assert await ask == 2
        actor.suspend()
        actor.tell("never")
        assert await actor.stop() == Shutdown()
        assert nursery.dead_letters == 1


@on_both
async def test_its_mailbox_has_its_bound(dedicated: bool, autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(Worker, dedicated=dedicated, capacity=2)
        first = actor.ask("short")
        await settled()
        asks = [actor.ask(each) for each in range(2)]
        sent: list[int] = []

        async def send(number: int) -> None:
            await actor.send(number)
            sent.append(number)

        async with trio.open_nursery() as senders:
            for each in range(5):
                senders.start_soon(send, each)
            await settled()
            assert sent == []
            assert await first == "ok"
        assert sorted(sent) == [0, 1, 2, 3, 4]
        assert [await ask for ask in asks] == [0, 1]


@on_both
async def test_it_ends_by_its_own_wish_after_its_stop_hook(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    class Leaves(Actor):
        async def receive(self, message: Any) -> str:
            self.stop()
            await trio.sleep(0.1)
            return "last"

        async def on_stop(self, reason: ExitReason) -> None:
            await trio.sleep(0.1)
            LOG.append(reason)

    async with open_nursery() as nursery:
        # Its own wish to stop is no reason to cut the turn that wished it.
        actor = nursery.spawn(Leaves, dedicated=dedicated, stop_mode="interrupt")
        assert await actor.ask("x") == "last"
        assert [Normal()] == LOG
        assert trio.current_time() == pytest.approx(0.2)
        assert await actor.join() == Normal()


@on_both
async def test_its_children_stop_before_its_hook(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    class Owner(Actor):
        async def on_start(self) -> None:
            self.spawn(Stops, "first")
            self.spawn(Stops, "second")

        def receive(self, message: Any) -> Any:
            return message

        def on_stop(self, reason: ExitReason) -> None:
            LOG.append("owner")

    async with open_nursery() as nursery:
        actor = await nursery.start(Owner, dedicated=dedicated)
        assert await actor.stop() == Shutdown()
        assert LOG == ["second", "first", "owner"]


@on_both
async def test_a_kill_while_its_children_stop_ends_all(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    class Owner(Actor):
        shutdown = 60

        async def on_start(self) -> None:
            self.spawn(Worker, "child", shutdown=60).tell("sleep")

        def receive(self, message: Any) -> Any:
            return message

        def on_stop(self, reason: ExitReason) -> None:
            LOG.append("owner")

    async with open_nursery() as nursery:
        actor = await nursery.start(Owner, dedicated=dedicated)
        await settled()
        stop = actor.stop()
        await trio.sleep(1)
        actor.kill()
        assert await stop == Killed()
        assert LOG == [("child", "Cancelled")]
        assert trio.current_time() == pytest.approx(1)


async def waits(self: Any) -> Any:
    return await self.peers[0].ask("short")


async def scoped(self: Any) -> Any:
    with trio.move_on_after(0.01):
        return await self.peers[0].ask("sleep")
    return "moved on"


@on_both
@pytest.mark.parametrize(("handler", "answer"), [(waits, "ok"), (scoped, "moved on")])
async def test_it_asks_as_any_actor(
    handler: Callable[..., Any], answer: str, dedicated: bool, autojump_clock: MockClock
) -> None:
    async def call(self: Any, *_: Ref[Any]) -> Any:
        return await handler(self)

    async with open_nursery() as nursery:
        slow = nursery.spawn(Worker)
        actor = nursery.spawn(Do, slow, dedicated=dedicated)
        assert await actor.ask(call) == answer
        slow.kill()


async def test_many_dedicated_actors_have_a_task_each_and_leave_none(
    autojump_clock: MockClock,
) -> None:
    before = tasks()
    async with open_nursery() as nursery:
        actors = [nursery.spawn(AsyncEcho, dedicated=True) for _ in range(200)]
        assert [await actor.ask(1) for actor in actors] == [1] * 200
        assert tasks() >= before + 200
        for actor in actors[:100]:
            actor.kill()
        for actor in actors[:100]:
            assert await actor.join() == Killed()
        await settled()
        assert tasks() <= before + 100 + 64 + 2
    assert tasks() == before
