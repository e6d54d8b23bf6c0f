"""Trio inside a handler: scopes, deadlines, nurseries and locks mean what they always do.

And what cannot work on a shared worker, a scope kept open across messages, is found.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    AskTimeout,
    ExitReason,
    LeakedScope,
    Ref,
    open_nursery,
    traps,
)
from tests.actors.workers import LOG, AsyncEcho, Do, Echo, Stops, Worker
from tests.support.homes import apart
from tests.support.inside import block_of, needs_private_read

settled = trio.testing.wait_all_tasks_blocked


# ---- scopes and deadlines around an ask


async def test_a_deadline_around_an_ask_fires(autojump_clock: MockClock) -> None:
    async def asks(self: Any, slow: Ref[Any]) -> Any:
        with trio.move_on_after(0.05) as scope:
            return await slow.ask("sleep")
        return "moved on", scope.cancelled_caught

    async with open_nursery() as nursery:
        slow = nursery.spawn(Worker)
        asker = nursery.spawn(Do, slow)
        assert await asker.ask(asks) == ("moved on", True)
        assert trio.current_time() == pytest.approx(0.05)
        # The slow one got the run queue when the asker waited, and gave it on in turn.
        assert block_of(nursery).handoffs == 2
        slow.kill()


async def test_fail_after_around_an_ask_raises_in_the_handler(autojump_clock: MockClock) -> None:
    async def asks(self: Any, slow: Ref[Any]) -> str:
        with pytest.raises(trio.TooSlowError), trio.fail_after(0.05):
            await slow.ask("sleep")
        return "too slow"

    async with open_nursery() as nursery:
        slow = nursery.spawn(Worker)
        assert await nursery.spawn(Do, slow).ask(asks) == "too slow"
        slow.kill()


async def test_a_deadline_that_does_not_fire_changes_nothing(autojump_clock: MockClock) -> None:
    async def asks(self: Any, echo: Ref[Any]) -> Any:
        with trio.fail_after(1):
            first = await echo.ask(1)
        with trio.CancelScope():
            second = await echo.ask(2)
        return first, second, await echo.ask(3)

    async with open_nursery() as nursery:
        assert await nursery.spawn(Do, nursery.spawn(AsyncEcho)).ask(asks) == (1, 2, 3)


async def test_an_outer_deadline_cuts_through_an_inner_scope(autojump_clock: MockClock) -> None:
    async def asks(self: Any, slow: Ref[Any]) -> str:
        with trio.move_on_after(0.05), trio.move_on_after(5):
            await slow.ask("sleep")
            return "answered"
        return "outer"

    async with open_nursery() as nursery:
        slow = nursery.spawn(Worker)
        assert await nursery.spawn(Do, slow).ask(asks) == "outer"
        assert trio.current_time() == pytest.approx(0.05)
        slow.kill()


async def test_a_scope_is_cancelled_by_another_actor(autojump_clock: MockClock) -> None:
    scopes: list[trio.CancelScope] = []

    async def asks(self: Any, slow: Ref[Any]) -> str:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            return str(await slow.ask("sleep"))
        return "cancelled"

    async def cancels(self: Any) -> None:
        scopes[0].cancel()

    async with open_nursery() as nursery:
        slow = nursery.spawn(Worker)
        ask = nursery.spawn(Do, slow).ask(asks)
        await settled()
        await nursery.spawn(Do).ask(cancels)
        assert await ask == "cancelled"
        slow.kill()


async def test_a_scope_cancelled_before_the_ask_is_seen_by_it(autojump_clock: MockClock) -> None:
    async def asks(self: Any, echo: Ref[Any], plain: Ref[Any]) -> list[str]:
        seen: list[str] = []
        for ref in (echo, plain):
            with trio.CancelScope() as scope:
                scope.cancel()
                await ref.ask(1)
                seen.append("answered")
            seen.append("cancelled" if scope.cancelled_caught else "not")
        return seen

    async with open_nursery() as nursery:
        asker = nursery.spawn(Do, nursery.spawn(AsyncEcho), nursery.spawn(Echo))
        answer = await asker.ask(asks)
        assert answer[0] == "cancelled", "a real wait sees it at once"
        # One answered inline is done already, and the next checkpoint sees it.
        assert answer[1:] in (["cancelled"], ["answered", "not"])


@needs_private_read
async def test_a_scope_left_without_waiting_costs_the_handler_no_task(
    autojump_clock: MockClock,
) -> None:
    async def asks(self: Any, echo: Ref[Any]) -> Any:
        with trio.CancelScope():  # noqa: ASYNC100 - that is what is tested
            pass
        return await echo.ask(1)

    async with open_nursery() as nursery:
        assert await nursery.spawn(Do, nursery.spawn(AsyncEcho)).ask(asks) == 1
        assert block_of(nursery).handoffs == 0


async def test_without_the_private_read_every_ask_of_a_coroutine_is_a_real_wait(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traps, "scope_of", None)

    async def asks(self: Any, echo: Ref[Any]) -> Any:
        with trio.move_on_after(0):  # noqa: ASYNC100 - that is what is tested
            pass
        return await echo.ask(1)

    async with open_nursery() as nursery:
        assert await nursery.spawn(Do, nursery.spawn(AsyncEcho)).ask(asks) == 1
        assert block_of(nursery).handoffs == 1


async def test_an_asker_that_gives_up_withdraws_a_message_not_begun(
    autojump_clock: MockClock,
) -> None:
    async def naps(self: Any) -> None:
        await trio.sleep(0.1)

    async def never(self: Any) -> None:
        LOG.append("it ran")

    async with open_nursery() as nursery:
        actor = nursery.spawn(Do)
        actor.tell(naps)
        with trio.move_on_after(0.02):
            await actor.ask(never)
        with pytest.raises(AskTimeout):
            await actor.ask(never, timeout=0.02)
        await actor.ask(naps)
        assert LOG == []


async def test_a_handler_that_gives_up_withdraws_a_message_not_begun(
    autojump_clock: MockClock,
) -> None:
    async def naps(self: Any) -> None:
        await trio.sleep(0.1)

    async def never(self: Any) -> None:
        LOG.append("it ran")

    async def asks(self: Any, busy: Ref[Any]) -> None:
        with trio.move_on_after(0.02):
            await busy.ask(never)

    async with open_nursery() as nursery:
        busy = nursery.spawn(Do)
        busy.tell(naps)
        await nursery.spawn(Do, busy).ask(asks)
        await busy.ask(naps)
        assert LOG == []


# ---- nurseries and locks


async def test_tasks_of_a_handler_may_ask(autojump_clock: MockClock) -> None:
    async def asks(self: Any, plain: Ref[Any], echo: Ref[Any]) -> list[int]:
        answers: list[int] = []

        async def one(number: int) -> None:
            answers.append(await (plain if number % 2 else echo).ask(number))
            await trio.lowlevel.checkpoint()
            answers.append(await echo.ask(-number))

        async with trio.open_nursery() as tasks:
            for number in range(10):
                tasks.start_soon(one, number)
            assert await echo.ask("meanwhile") == "meanwhile"
        return sorted(answers)

    async with open_nursery() as nursery:
        asker = nursery.spawn(Do, nursery.spawn(Echo), nursery.spawn(AsyncEcho))
        assert await asker.ask(asks) == sorted([*range(10), *range(0, -10, -1)])


async def test_the_crash_of_a_handlers_task_is_the_handlers_own(autojump_clock: MockClock) -> None:
    async def asks(self: Any, echo: Ref[Any]) -> None:
        async def fails() -> None:
            await echo.ask(1)
            raise KeyError(7)

        async with trio.open_nursery() as tasks:
            tasks.start_soon(fails)
            await trio.sleep_forever()

    async with open_nursery() as nursery:
        actor = await apart(nursery, Do, nursery.spawn(AsyncEcho))
        with pytest.raises(ActorCrashed) as raised:
            await actor.ask(asks)
        # A group of one is its only member.
        assert type(raised.value.__cause__) is KeyError
        assert block_of(nursery).crashes == 1


async def test_a_lock_may_be_held_over_an_ask(autojump_clock: MockClock) -> None:
    lock = trio.Lock()

    async def usual(self: Any, slow: Ref[Any]) -> str:
        async with lock:
            return str(await slow.ask("short"))

    async def without_waiting(self: Any, slow: Ref[Any]) -> str:
        await trio.lowlevel.checkpoint()  # from here on the task is the handler's own
        lock.acquire_nowait()
        answer = await slow.ask("short")
        lock.release()
        return str(answer)

    async with open_nursery() as nursery:
        slow = nursery.spawn(Worker)
        for handler in (usual, without_waiting):
            assert await nursery.spawn(Do, slow).ask(handler) == "ok"


@needs_private_read
async def test_a_lock_taken_without_any_wait_is_not_the_handlers_after_an_ask(
    autojump_clock: MockClock,
) -> None:
    """A limit, not a promise: a lock belongs to a task, and a parked handler has none."""
    lock = trio.Lock()

    async def takes(self: Any, slow: Ref[Any]) -> None:
        lock.acquire_nowait()
        await slow.ask("short")
        lock.release()

    async with open_nursery() as nursery:
        actor = await apart(nursery, Do, nursery.spawn(Worker))
        with pytest.raises(ActorCrashed) as raised:
            await actor.ask(takes)
        assert type(raised.value.__cause__) is RuntimeError
        assert "own" in str(raised.value.__cause__)


# ---- scopes that outlive a turn


async def leaks(self: Any) -> str:
    self.scope = trio.CancelScope()
    self.scope.__enter__()
    return "left open"


async def leaks_after_a_wait(self: Any) -> str:
    self.scope = trio.CancelScope()
    self.scope.__enter__()
    await trio.lowlevel.checkpoint()
    return "left open"


async def leaks_a_nursery(self: Any) -> str:
    self.manager = trio.open_nursery()
    tasks = await self.manager.__aenter__()
    tasks.start_soon(trio.sleep_forever)
    return "left open"


@needs_private_read
@pytest.mark.parametrize("handler", [leaks, leaks_after_a_wait, leaks_a_nursery])
async def test_a_scope_left_open_by_a_handler_is_its_crash(
    handler: Any, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        sibling = nursery.spawn(Stops, "sibling")
        actor = await apart(nursery, Do)
        with pytest.raises(ActorCrashed) as raised:
            await actor.ask(handler)
        assert type(raised.value.__cause__) is LeakedScope
        assert raised.value.__cause__.actor == actor.path
        assert not actor.is_alive
        # The worker is set apart; nobody else gets it.
        assert len(block_of(nursery).quarantine) == 1
        assert await sibling.ask(1) == 1
        assert await nursery.spawn(AsyncEcho).ask(5) == 5
        assert await nursery.spawn(Worker).ask("short") == "ok"
    assert LOG == ["sibling"]


class LeaksInHook(Actor):
    """Leaves a nursery open in its start hook, to close it in its stop hook."""

    async def on_start(self) -> None:
        self.manager = trio.open_nursery()
        self.tasks = await self.manager.__aenter__()
        self.tasks.start_soon(trio.sleep_forever)

    def receive(self, message: Any) -> Any:
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        self.tasks.cancel_scope.cancel()
        await self.manager.__aexit__(None, None, None)
        LOG.append("closed")


@needs_private_read
async def test_a_nursery_left_open_by_a_start_hook_fails_the_start(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        with pytest.raises(LeakedScope, match="on_start"):
            await nursery.start(LeaksInHook)
        assert nursery.tree().children == ()
        assert await nursery.spawn(AsyncEcho).ask(1) == 1
    assert LOG == []


async def test_a_dedicated_actor_may_keep_a_nursery_open(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        actor = await nursery.start(LeaksInHook, dedicated=True)
        assert [await actor.ask(each) for each in range(5)] == [0, 1, 2, 3, 4]
        assert await nursery.spawn(AsyncEcho).ask(1) == 1
    assert LOG == ["closed"]
    assert block_of(nursery).crashes == 0


@needs_private_read
async def test_a_killed_handler_that_leaves_a_scope_open_ends_and_disturbs_nobody(
    autojump_clock: MockClock,
) -> None:
    async def leaks_when_killed(self: Any) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.scope = trio.CancelScope()
            self.scope.__enter__()

    async with open_nursery() as nursery:
        actor = await apart(nursery, Do)
        ask = actor.ask(leaks_when_killed)
        await settled()
        actor.kill()
        await actor.join()
        with pytest.raises((ActorStopped, ActorCrashed)):
            await ask
        assert await nursery.spawn(AsyncEcho).ask(1) == 1
