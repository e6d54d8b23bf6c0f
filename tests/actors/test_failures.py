# ruff: noqa: PT012 - what raises here is leaving a block, so the block is the statement
"""What an exception out of a handler or a hook becomes, and whom it reaches."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Coroutine
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
    Exit,
    ExitReason,
    Killed,
    NameTaken,
    Nursery,
    Ref,
    Shutdown,
    StartTimeout,
    open_nursery,
)
from standby_actors.failure import StrayCancelled
from tests.actors.workers import LOG, AsyncEcho, Boom, Do, Echo, Stops, Worker
from tests.support.heard import heard


class Owner(Actor):
    """Spawns what it is told; the crashes of its children are their own."""

    def receive(self, message: Any) -> Any:
        return self.spawn(message[0], *message[1:], link=False)


async def loose(nursery: Nursery, actor: Any, *args: Any) -> Ref[Any]:
    """An actor whose crash ends nobody else."""
    ref: Ref[Any] = await nursery.spawn(Owner).ask((actor, *args))
    return ref


def cause(error: BaseException) -> BaseException:
    """The first of a chain of causes."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


# ---- exceptions and groups of them


async def test_an_asker_gets_the_handlers_error_as_the_cause(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        boom = await loose(nursery, Boom)
        with pytest.raises(ActorCrashed, match="ValueError: why") as caught:
            await boom.ask("why")
        assert type(caught.value.__cause__) is ValueError
        assert caught.value.actor == boom.path
        assert await boom.join() == Crashed(caught.value.__cause__)


async def test_a_group_of_several_stays_a_group(autojump_clock: MockClock) -> None:
    async def fails(self: Actor) -> None:
        raise ExceptionGroup("two", [KeyError(1), ValueError(2)])

    async with open_nursery() as nursery:
        with pytest.raises(ActorCrashed) as caught:
            await (await loose(nursery, Do)).ask(fails)
        assert isinstance(caught.value.__cause__, ExceptionGroup)
        assert caught.value.__cause__.message == "two"


async def test_a_group_of_one_is_its_only_member(autojump_clock: MockClock) -> None:
    async def child() -> None:
        raise KeyError(1)

    async def fails(self: Actor) -> None:
        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            outer.start_soon(trio.sleep_forever)
            inner.start_soon(child)

    async with open_nursery() as nursery:
        with pytest.raises(ActorCrashed) as caught:
            await (await loose(nursery, Do)).ask(fails)
        assert type(caught.value.__cause__) is KeyError


async def test_an_error_in_the_cleanup_of_a_child_task_is_not_lost(
    autojump_clock: MockClock,
) -> None:
    async def child() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("in cleanup")

    async def fails(self: Actor) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            await trio.lowlevel.checkpoint()
            raise ValueError("first")

    async with open_nursery() as nursery:
        with pytest.raises(ActorCrashed) as caught:
            await (await loose(nursery, Do)).ask(fails)
        group = caught.value.__cause__
        assert isinstance(group, ExceptionGroup)
        assert {type(each) for each in group.exceptions} == {KeyError, ValueError}


async def test_a_cancelled_that_is_not_the_handlers_own_is_a_crash(
    autojump_clock: MockClock,
) -> None:
    stray: list[BaseException] = []

    async def keeps(self: Actor) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as cancelled:
                stray.append(cancelled)
                raise

    async def raises(self: Actor) -> None:
        raise stray[0]

    async with open_nursery() as nursery:
        await nursery.spawn(Do).ask(keeps)
        with pytest.raises(ActorCrashed) as caught:
            await (await loose(nursery, Do)).ask(raises)
        assert type(caught.value.__cause__) is StrayCancelled


class Stopping(Actor):
    """Raises StopIteration in a plain handler."""

    def receive(self, message: Any) -> Any:
        raise StopIteration(message)


async def raises_stop_iteration(self: Actor) -> None:
    raise StopIteration("what a coroutine must not raise")


async def raises_it_after_a_wait(self: Actor) -> None:
    await trio.sleep(1)
    raise StopIteration("what a coroutine must not raise")


@pytest.mark.parametrize(
    ("actor", "message", "dedicated"),
    [
        pytest.param(Stopping, 1, False, id="def"),
        pytest.param(Stopping, 1, True, id="dedicated def"),
        pytest.param(Do, raises_stop_iteration, False, id="stepped"),
        pytest.param(Do, raises_it_after_a_wait, False, id="waiting"),
        pytest.param(Do, raises_it_after_a_wait, True, id="dedicated"),
    ],
)
@pytest.mark.parametrize("idle", [True, False])
async def test_a_stop_iteration_is_a_crash_and_no_answer(
    actor: Any, message: Any, dedicated: bool, idle: bool, autojump_clock: MockClock
) -> None:
    class Spawns(Actor):
        def receive(self, message: Any) -> Any:
            return self.spawn(actor, link=False, dedicated=dedicated)

    async with open_nursery() as nursery:
        ref = await nursery.spawn(Spawns).ask(1)
        if not idle:
            ref.suspend()
        reply = ref.ask(message)
        ref.resume()
        with pytest.raises(ActorCrashed) as caught:
            await reply
        assert type(cause(caught.value)) is StopIteration
        assert isinstance(await ref.join(), Crashed)


# ---- what ends the program


class Ends(Actor):
    """Raises what ends the program, where it is told to."""

    def __init__(self, where: str, error: BaseException) -> None:
        self.where = where
        self.error = error

    def on_start(self) -> None:
        if self.where == "start hook":
            raise self.error

    def receive(self, message: Any) -> Any:
        if self.where in ("def", "inline", "dedicated def"):
            raise self.error
        if self.where == "continue hook":
            self.continue_with(1)
        if self.where == "down hook":
            self.monitor(message).ref.kill()
        if self.where == "receive timeout":
            self.set_receive_timeout(1)
        if self.where == "stop hook":
            self.stop()

    def on_continue(self, what: Any) -> None:
        raise self.error

    def on_down(self, down: Any) -> None:
        raise self.error

    def on_receive_timeout(self) -> None:
        raise self.error

    def on_stop(self, reason: ExitReason) -> None:
        if self.where == "stop hook":
            raise self.error

    def inspect_state(self) -> Any:
        raise self.error


class AsyncEnds(Actor):
    """The same in a coroutine, before or after it has waited."""

    def __init__(self, where: str, error: BaseException) -> None:
        self.where = where
        self.error = error

    async def on_start(self) -> None:
        if self.where == "waiting start hook":
            await trio.sleep(1)
            raise self.error

    async def receive(self, message: Any) -> Any:
        if self.where in ("waiting", "dedicated"):
            await trio.sleep(1)
        if self.where == "asking":
            await message.ask(1)
        if self.where == "child task":

            async def child() -> None:
                raise self.error

            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)
        raise self.error


WHERE = [
    *((Ends, where) for where in ("def", "inline", "dedicated def", "start hook", "stop hook")),
    *((Ends, where) for where in ("continue hook", "down hook", "receive timeout", "state")),
    *((AsyncEnds, where) for where in ("stepped", "waiting", "dedicated", "asking")),
    *((AsyncEnds, where) for where in ("child task", "waiting start hook")),
]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
@pytest.mark.parametrize(("actor", "where"), WHERE)
async def test_what_ends_the_program_leaves_the_block_bare_and_in_order(
    actor: Any, where: str, error: BaseException, autojump_clock: MockClock
) -> None:
    after: list[str] = []
    with pytest.raises(type(error)) as caught:
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "other")
            echo = nursery.spawn(AsyncEcho)
            ends = nursery.spawn(actor, where, error, dedicated="dedicated" in where)
            if where == "inline":
                # Who asked is told as well; the exit itself goes to the block's owner.
                with pytest.raises(ActorCrashed):
                    await ends.ask(echo)
            elif where == "state":
                ends.get_state()
            else:
                ends.tell(echo)
            await trio.sleep_forever()
            after.append("the body was not ended")
    assert caught.value is error
    assert LOG == ["other"]
    assert after == []


async def test_what_ends_the_program_reaches_who_awaits_a_start_as_it_is(
    autojump_clock: MockClock,
) -> None:
    error = SystemExit(3)
    with pytest.raises(SystemExit) as caught:
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "other")
            await nursery.start(Ends, "start hook", error)
    assert caught.value is error
    assert LOG == ["other"]


async def test_what_ends_the_program_passes_through_the_blocks_around_it(
    autojump_clock: MockClock,
) -> None:
    async def holds(self: Actor) -> None:
        async with open_nursery() as inner:
            inner.spawn(Stops, "inner")
            inner.spawn(Ends, "def", SystemExit(4)).tell(1)
            await trio.sleep_forever()

    with pytest.raises(SystemExit) as caught:
        async with open_nursery() as outer:
            outer.spawn(Stops, "outer")
            outer.spawn(Do).tell(holds)
            await trio.sleep_forever()
    assert caught.value.code == 4
    assert LOG == ["inner", "outer"]


async def test_an_interrupt_beats_an_exit_and_an_exit_beats_a_crash(
    autojump_clock: MockClock,
) -> None:
    async def all_at_once(*errors: BaseException) -> None:
        async with open_nursery() as nursery:
            for error in errors:
                nursery.spawn(Ends, "def", error).tell(1)
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        await all_at_once(ValueError(), SystemExit(), KeyboardInterrupt())
    with pytest.raises(SystemExit):
        await all_at_once(ValueError(), SystemExit())


# ---- errors and kills


async def masks_in_flight(self: Actor) -> None:
    try:
        await trio.sleep_forever()
    finally:
        try:
            raise KeyError("real")
        finally:
            await trio.sleep(1)


async def raises_instead(self: Actor) -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise KeyError("in cleanup")


async def waits_while_handling(self: Actor) -> None:
    try:
        raise KeyError("handled")
    except KeyError:
        await trio.sleep_forever()


async def raises_in_a_child_task(self: Actor) -> None:
    async def child() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("in a child")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
        nursery.start_soon(trio.sleep_forever)


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(masks_in_flight, id="in flight when the kill came"),
        pytest.param(raises_instead, id="raised in place of Cancelled"),
        pytest.param(raises_in_a_child_task, id="raised by a child task"),
        # Nobody can tell this one from the first: an await inside `except` looks the same.
        pytest.param(waits_while_handling, id="handled already"),
    ],
)
async def test_an_error_masked_by_a_kill_is_reported_and_is_no_crash(
    handler: Any, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with heard() as events, open_nursery() as nursery:
        ref = nursery.spawn(Do)
        ref.tell(handler)
        await trio.testing.wait_all_tasks_blocked()
        ref.kill()
        assert await ref.join() == Killed()
    types = [event.type for event in events]
    assert types.count("actor.masked") == 1
    assert "actor.crashed" not in types
    assert "possibly masked" in caplog.text
    assert any("KeyError" in event.data["error"] for event in events if "masked" in event.type)


async def test_a_kill_that_masks_nothing_reports_nothing(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async def sleeps(self: Actor) -> None:
        with trio.move_on_after(1):
            await trio.sleep_forever()
        await trio.sleep_forever()

    async with heard() as events, open_nursery() as nursery:
        ref = nursery.spawn(Do)
        ref.tell(sleeps)
        await trio.sleep(2)
        ref.kill()
        await ref.join()
    assert "actor.masked" not in [event.type for event in events]
    assert caplog.text == ""


async def test_an_asker_of_a_killed_actor_hears_that_it_stopped_not_that_it_crashed(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(Do)
        reply = ref.ask(raises_instead)
        await trio.testing.wait_all_tasks_blocked()
        ref.kill()
        with pytest.raises(ActorStopped, match="killed"):
            await reply


async def test_a_crash_while_it_stops_is_how_it_ended(autojump_clock: MockClock) -> None:
    async def slow_crash(self: Actor) -> None:
        await trio.sleep(0.1)
        raise ValueError("late")

    async with open_nursery() as nursery:
        ref = await loose(nursery, Do)
        reply = ref.ask(slow_crash)
        await trio.testing.wait_all_tasks_blocked()
        reason = await ref.stop()
        assert isinstance(reason, Crashed)
        assert str(reason.error) == "late"
        with pytest.raises(ActorCrashed):
            await reply


async def test_a_crash_in_a_stop_hook_is_how_it_ended(autojump_clock: MockClock) -> None:
    class Fails(Echo):
        def on_stop(self, reason: ExitReason) -> None:
            raise ValueError("in the hook")

    async with open_nursery() as nursery:
        ref = await loose(nursery, Fails)
        reason = await ref.stop()
        assert isinstance(reason, Crashed)
        assert str(reason.error) == "in the hook"


# ---- starting


class FailsLate(Echo):
    """Its start hook waits, then fails."""

    async def on_start(self) -> None:
        await trio.sleep(1)
        raise KeyError("late")


class FailsAtOnce(Echo):
    """Its start hook fails."""

    def on_start(self) -> None:
        raise KeyError("at once")


class FailsToBe(Echo):
    """Cannot be made."""

    def __init__(self) -> None:
        raise KeyError("never there")


class StartsSlowly(Echo):
    """Its start hook takes a minute."""

    async def on_start(self) -> None:
        await trio.sleep(60)


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize("actor", [FailsLate, FailsAtOnce, FailsToBe])
async def test_a_failed_start_is_raised_where_it_was_awaited_and_nowhere_else(
    actor: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        sibling = nursery.spawn(Echo)
        with pytest.raises(KeyError):
            await nursery.start(actor, name="one", dedicated=dedicated)
        assert nursery.whereis("one") is None
        assert await sibling.ask(1) == 1
        assert [each.name for each in nursery.tree().children] == [sibling.path.split("/")[1]]
        nursery.spawn(Echo, name="one")


@pytest.mark.parametrize("actor", [FailsLate, FailsAtOnce])
async def test_a_failed_start_that_nobody_awaits_is_a_crash(
    actor: Any, autojump_clock: MockClock
) -> None:
    early: Any = None
    with pytest.raises(ExceptionGroup) as caught:
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "other")
            early = nursery.spawn(actor).ask("early")
            await trio.sleep_forever()
    assert [type(each) for each in caught.value.exceptions] == [KeyError]
    assert LOG == ["other"]
    with pytest.raises(ActorStopped):
        await early


async def test_a_start_that_its_starter_gives_up_is_killed(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        with trio.move_on_after(1) as scope:
            await nursery.start(StartsSlowly, name="slow")
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.tree().children == ()
        assert nursery.whereis("slow") is None
        assert trio.current_time() == 1


async def test_a_start_that_takes_too_long_is_an_error_and_leaves_no_name(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        with pytest.raises(StartTimeout, match="longer than 30 s"):
            await nursery.start(StartsSlowly, name="slow")
        assert trio.current_time() == 30
        assert nursery.whereis("slow") is None
        with pytest.raises(StartTimeout, match="longer than 2 s"):
            await nursery.start(StartsSlowly, name="slow", start_timeout=2)
        assert trio.current_time() == 32


async def test_the_first_message_waits_for_the_start_hook_and_nobody_else_does(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        slow = nursery.spawn(StartsSlowly, start_timeout=100)
        reply = slow.ask(1)
        assert await nursery.spawn(AsyncEcho).ask(2) == 2
        assert trio.current_time() == 0
        assert not reply.done
        assert await reply == 1
        assert trio.current_time() == 60


async def test_a_name_that_is_taken_starts_nothing(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        nursery.spawn(Echo, name="one")
        with pytest.raises(NameTaken):
            nursery.spawn(Stops, "never", name="one")
        assert len(nursery.tree().children) == 1
    assert LOG == []


# ---- who hears of a crash


async def test_a_crash_during_the_stop_that_a_cancellation_began_is_raised(
    autojump_clock: MockClock,
) -> None:
    async def fails_in_the_stop(self: Actor) -> None:
        await trio.sleep(1.1)
        raise ValueError("while stopping")

    with pytest.raises(ExceptionGroup) as caught, trio.move_on_after(1):
        async with open_nursery() as nursery:
            nursery.spawn(Do).tell(fails_in_the_stop)
            await trio.sleep_forever()
    # The Cancelled that came with it was taken out by the scope that it belongs to.
    assert [type(each) for each in caught.value.exceptions] == [ValueError]
    assert trio.current_time() == 1.1


async def test_a_crash_through_an_ask_from_another_block_goes_to_its_own_owner(
    autojump_clock: MockClock,
) -> None:
    async def asks(self: Actor, boom: Any) -> Any:
        try:
            await boom.ask(1)
        except ActorCrashed as error:
            return type(error.__cause__)

    reply: Any = None
    async with open_nursery(name="asker") as outer:
        with pytest.raises(ExceptionGroup) as caught:
            async with open_nursery(name="asked") as inner:
                reply = outer.spawn(Do, inner.spawn(Boom)).ask(asks)
                await trio.sleep_forever()
        assert "actors of asked crashed" in str(caught.value)
        assert [type(each) for each in caught.value.exceptions] == [ValueError]
        assert await reply is ValueError


async def test_only_the_actor_that_failed_crashes_in_a_chain_of_inline_asks(
    autojump_clock: MockClock,
) -> None:
    answers: list[Any] = []

    class Asks(Actor):
        def receive(self, message: Any) -> Any:
            reply = message.ask("no")
            try:
                reply.result()
            except ActorCrashed as error:
                answers.append(type(error.__cause__))
            return "alive"

    async with open_nursery() as nursery:
        boom = await loose(nursery, Boom)
        asks = nursery.spawn(Asks)
        assert await asks.ask(boom) == "alive"
        assert not boom.is_alive
        assert asks.is_alive
    assert answers == [ValueError]


async def test_two_blocks_may_ask_each_other_and_end_in_any_order(
    autojump_clock: MockClock,
) -> None:
    async def asks(self: Actor, peer: Any) -> Any:
        return await peer.ask(1)

    async with open_nursery() as outer:
        async with open_nursery() as inner:
            target = inner.spawn(AsyncEcho)
            asker = outer.spawn(Do, target)
            assert await asker.ask(asks) == 1

        async def is_refused(self: Actor, peer: Any) -> Any:
            with pytest.raises(ActorStopped):
                await peer.ask(1)
            return "told"

        assert await asker.ask(is_refused) == "told"


async def test_an_asker_parked_in_another_block_hears_of_the_end(autojump_clock: MockClock) -> None:
    async def asks(self: Actor, peer: Any) -> Any:
        try:
            await peer.ask("sleep")
        except ActorStopped as error:
            return error.actor

    target: Any = None
    reply: Any = None
    async with open_nursery() as outer:
        async with open_nursery() as inner:
            target = inner.spawn(Worker, "x")
            reply = outer.spawn(Do, target).ask(asks)
            await trio.testing.wait_all_tasks_blocked()
        assert await reply == target.path


async def test_an_actor_that_awaits_the_stops_of_its_children_holds_nobody_up(
    autojump_clock: MockClock,
) -> None:
    class Renews(Actor):
        """Stops its children in reverse order, and starts others in their place."""

        def __init__(self) -> None:
            self.children: list[Ref[Any]] = []

        async def receive(self, message: Any) -> Any:
            for child in reversed(self.children):
                assert await child.stop() == Shutdown()
            self.children = [self.spawn(Stops, name) for name in "abc"]
            return self.children

    async with open_nursery() as nursery:
        renews = nursery.spawn(Renews)
        first = await renews.ask(1)
        reply = renews.ask(2)
        assert await nursery.spawn(AsyncEcho).ask(1) == 1
        assert LOG == []
        second = await reply
        assert LOG == ["c", "b", "a"]
        assert [ref.is_alive for ref in (*first, *second)] == [False] * 3 + [True] * 3
    assert LOG == ["c", "b", "a"] * 2


async def test_a_bug_of_the_runtime_fails_the_block_and_the_stop_is_still_ordered(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "a")
            nursery.spawn(Stops, "b")
            boom = nursery.spawn(Boom)
            block = nursery._block  # pyright: ignore[reportPrivateUsage]
            monkeypatch.setattr(block, "failed", broken)
            boom.tell(1)
            await trio.sleep_forever()
    assert [type(each) for each in caught.value.exceptions] == [ZeroDivisionError]
    assert LOG == ["b", "a"]


async def test_a_crashed_actor_is_freed_once_nobody_holds_its_ref(
    autojump_clock: MockClock,
) -> None:
    made: list[weakref.ref[Boom]] = []

    class Weak(Boom):
        def __init__(self) -> None:
            made.append(weakref.ref(self))

    class Hears(Actor):
        """Has a child, and does not mind its crash."""

        trap_exits = True

        def receive(self, message: Any) -> Any:
            return self.spawn(Weak)

        def on_exit(self, notice: Exit) -> None:
            LOG.append(str(notice.reason))

    async with open_nursery() as nursery:
        ref = await nursery.spawn(Hears).ask(1)
        ref.tell("no")
        await ref.join()
        del ref
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        assert LOG == ["crashed (ValueError: no)"]
        assert [each() for each in made] == [None]


# ---- what a plain handler must not do


class Calls(Actor):
    """Calls its message."""

    def receive(self, message: Callable[[], Any]) -> Any:
        return message()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(lambda: trio.from_thread.run_sync(int), "created by Trio", id="from_thread"),
        pytest.param(lambda: trio.run(trio.sleep, 0), "inside a run", id="trio.run"),
    ],
)
async def test_calling_into_trio_from_a_def_is_a_crash_that_says_why(
    call: Any, words: str, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        with pytest.raises(ActorCrashed) as caught:
            await (await loose(nursery, Calls)).ask(call)
        assert type(caught.value.__cause__) is RuntimeError
        assert words in str(caught.value.__cause__)


async def _nothing() -> None:
    pass


def a_coroutine(peer: Ref[Any]) -> Coroutine[Any, Any, None]:
    return _nothing()


def a_reply(peer: Ref[Any]) -> Any:
    return peer.ask(1)


class Returns(Actor):
    """Returns what its function makes of its peer."""

    def __init__(self, function: Any, peer: Any) -> None:
        self.function = function
        self.peer = peer

    def receive(self, message: Any) -> Any:
        return self.function(self.peer)


class AsyncReturns(Returns):
    """The same as a coroutine that has forgotten an await."""

    async def receive(self, message: Any) -> Any:
        return self.function(self.peer)


@pytest.mark.parametrize("is_idle", [True, False])
@pytest.mark.parametrize("returns", [a_coroutine, a_reply])
@pytest.mark.parametrize("actor", [Returns, AsyncReturns])
async def test_to_answer_with_an_awaitable_is_a_crash_that_says_what_to_write(
    actor: Any, returns: Any, is_idle: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = await loose(nursery, actor, returns, nursery.spawn(AsyncEcho))
        if not is_idle:
            ref.suspend()
        reply = ref.ask(1)
        ref.resume()
        with pytest.raises(ActorCrashed, match=f"{actor.__name__}.receive returned an awaitable"):
            await reply
        reason = await ref.join()
        assert isinstance(reason, Crashed)
        assert isinstance(reason.error, TypeError)
        assert "make it async def and await" in str(reason.error)


# ---- who waits for a turn that is no message


async def test_a_failing_look_at_the_state_is_raised_to_who_looked_and_is_a_crash(
    autojump_clock: MockClock,
) -> None:
    class Opaque(Echo):
        def inspect_state(self) -> Any:
            raise ValueError("not to be seen")

    async with open_nursery() as nursery:
        ref = await loose(nursery, Opaque)
        with pytest.raises(ActorCrashed, match="not to be seen"):
            await ref.get_state()
        assert isinstance(await ref.join(), Crashed)


@pytest.mark.parametrize("dedicated", [False, True])
async def test_a_look_at_the_state_that_a_kill_cuts_is_answered(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    class Slow(Echo):
        async def inspect_state(self) -> Any:
            await trio.sleep_forever()

    async with open_nursery() as nursery:
        ref = nursery.spawn(Slow, dedicated=dedicated)
        reply = ref.get_state()
        await trio.testing.wait_all_tasks_blocked()
        ref.kill()
        with pytest.raises(ActorStopped, match="killed"):
            await reply


class Crowd(Actor):
    """Waits in two tasks at once."""

    stop_mode = "interrupt"

    async def receive(self, message: Any) -> None:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(trio.sleep_forever)
            tasks.start_soon(trio.sleep_forever)


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_handler_with_several_tasks_that_is_cut_masks_nothing(
    how: str, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(Crowd)
        actor.tell("wait")
        await trio.sleep(1)
        if how == "kill":
            actor.kill()
        else:
            await actor.stop()
        assert isinstance(await actor.join(), Killed if how == "kill" else Shutdown)
    assert not caplog.records
