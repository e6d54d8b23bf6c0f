"""Answers that are promised: given once, to who asked, or refused when the actor ends."""

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
    Later,
    Ref,
    Reply,
    open_nursery,
)


class Keeps(Actor):
    """Promises an answer to "ask"; any other message is done to the promises it has made."""

    def __init__(self) -> None:
        self.made: list[Later[Any]] = []

    def receive(self, message: Any) -> Any:
        if message == "ask":
            self.made.append(self.reply_later())
            return self.made[-1]
        return message(self)


class AsyncKeeps(Keeps):
    """The same as a coroutine that waits first."""

    async def receive(self, message: Any) -> Any:
        await trio.sleep(0.1)
        return super().receive(message)


KEEPS = pytest.mark.parametrize(
    ("keeps", "dedicated"),
    [
        pytest.param(Keeps, False, id="def"),
        pytest.param(AsyncKeeps, False, id="async"),
        pytest.param(AsyncKeeps, True, id="dedicated"),
    ],
)


class Owner(Actor):
    """Spawns what it is told; the crashes of its children are their own."""

    def receive(self, message: Any) -> Any:
        actor, dedicated = message
        return self.spawn(actor, link=False, dedicated=dedicated)


@KEEPS
async def test_a_promise_is_kept_in_a_later_message(
    keeps: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(keeps, dedicated=dedicated)
        first, second = ref.ask("ask"), ref.ask("ask")
        await trio.sleep(1)
        assert not first.done
        await ref.ask(lambda self: self.made[1].reply("two"))
        assert await second == "two"
        assert not first.done
        await ref.ask(lambda self: self.made[0].reply("one"))
        assert await first == "one"


@KEEPS
async def test_a_promise_may_end_in_an_error_that_is_no_crash(
    keeps: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(keeps, dedicated=dedicated)
        reply = ref.ask("ask")
        await ref.ask(lambda self: self.made[0].fail(KeyError("none")))
        with pytest.raises(KeyError):
            await reply
        assert ref.is_alive


@KEEPS
async def test_the_first_answer_counts(
    keeps: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    def twice(self: Keeps) -> None:
        self.made[0].reply("first")
        self.made[0].fail(KeyError("second"))
        self.made[0].reply("third")

    async with open_nursery() as nursery:
        ref = nursery.spawn(keeps, dedicated=dedicated)
        reply = ref.ask("ask")
        await ref.ask(twice)
        assert await reply == "first"


async def test_a_promise_may_be_kept_before_it_is_made() -> None:
    class Hasty(Actor):
        def receive(self, message: Any) -> Any:
            later: Later[Any] = self.reply_later()
            later.reply(message)
            return later

    async with open_nursery() as nursery:
        assert await nursery.spawn(Hasty).ask("at once") == "at once"


async def test_a_promise_may_be_kept_by_a_task_outside_the_actor(
    autojump_clock: MockClock,
) -> None:
    async def keeps_soon(later: Later[Any]) -> None:
        await trio.sleep(3)
        later.reply("from outside")

    async with open_nursery() as nursery, trio.open_nursery() as tasks:
        ref = nursery.spawn(Keeps)
        reply = ref.ask("ask")
        tasks.start_soon(keeps_soon, await ref.ask(lambda self: [self.made[0]]) and _made(reply))
        assert await reply == "from outside"
        assert trio.current_time() == 3


def _made(reply: Reply[Any]) -> Later[Any]:
    """The promise behind `reply`."""
    laters = reply.target.rare().laters
    assert laters is not None
    return next(iter(laters))


async def test_a_message_that_was_told_has_nobody_to_promise_to() -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(Keeps)
        ref.tell("ask")
        assert await ref.ask(lambda self: self.made[0].is_waited_for) is False
        await ref.ask(lambda self: self.made[0].reply("to nobody"))


@KEEPS
@pytest.mark.parametrize("end", ["stop", "kill", "leave"])
async def test_a_promise_that_an_actor_leaves_behind_is_refused(
    keeps: Any, dedicated: bool, end: str, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(keeps, dedicated=dedicated)
        reply = ref.ask("ask")
        await trio.sleep(1)
        if end == "stop":
            ref.stop()
        elif end == "kill":
            ref.kill()
        else:
            ref.tell(lambda self: self.stop())
        with pytest.raises(ActorStopped) as caught:
            await reply
        assert caught.value.actor == ref.path


@KEEPS
async def test_a_promise_that_a_crash_leaves_behind_names_the_error(
    keeps: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    def fails(self: Keeps) -> None:
        raise ValueError("of another message")

    async with open_nursery() as nursery:
        ref = await nursery.spawn(Owner).ask((keeps, dedicated))
        promised, failing = ref.ask("ask"), ref.ask(fails)
        with pytest.raises(ActorStopped, match="of another message") as caught:
            await promised
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(ActorCrashed):
            await failing


async def test_a_promise_kept_after_the_end_reaches_nobody(autojump_clock: MockClock) -> None:
    kept: list[Later[Any]] = []
    async with open_nursery() as nursery:
        ref = nursery.spawn(Keeps)
        reply = ref.ask("ask")
        await ref.ask(lambda self: kept.extend(self.made))
        await ref.stop()
        kept[0].reply("too late")
        with pytest.raises(ActorStopped):
            await reply


async def test_an_asker_that_gives_up_is_seen_in_the_promise(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(Keeps)
        reply = ref.ask("ask", timeout=5)
        assert await ref.ask(lambda self: self.made[0].is_waited_for) is True
        with pytest.raises(AskTimeout):
            await reply
        assert await ref.ask(lambda self: self.made[0].is_waited_for) is False
        await ref.ask(lambda self: self.made[0].reply("too late"))
        with pytest.raises(AskTimeout):
            await reply


async def test_one_promise_for_two_asks_is_a_crash_that_says_so() -> None:
    class Same(Actor):
        def __init__(self) -> None:
            self.later: Later[Any] = Later()

        def receive(self, message: Any) -> Any:
            return self.later

    async with open_nursery() as nursery:
        ref = await nursery.spawn(Owner).ask((Same, False))
        first, second = ref.ask(1), ref.ask(2)
        with pytest.raises(ActorCrashed, match="returned the same Later for two asks"):
            await second
        with pytest.raises(ActorStopped):
            await first


# ---- postponed: the promise that a later handling keeps


class Door(Actor):
    """Opens for "open"; until then it postpones whatever else comes."""

    def __init__(self) -> None:
        self.is_open = False
        self.later: Later[Any] | None = None

    def handle(self, message: Any) -> Any:
        if message == "open":
            self.is_open = True
            self.replay_postponed()
            return None
        if message == "answer":
            assert self.later is not None
            self.later.reply("in the end")
            return None
        if not self.is_open:
            return self.postpone(message)
        if message == "fail":
            raise ValueError("behind the door")
        if message == "promise":
            self.later = self.reply_later()
            return self.later
        return ("done", message)

    def receive(self, message: Any) -> Any:
        return self.handle(message)


class AsyncDoor(Door):
    """The same as a coroutine that waits first; "for ever" never ends."""

    async def receive(self, message: Any) -> Any:
        await trio.sleep(0.1)
        if message == "for ever" and self.is_open:
            await trio.sleep_forever()
        return self.handle(message)


DOORS = pytest.mark.parametrize(
    ("door", "dedicated"),
    [
        pytest.param(Door, False, id="def"),
        pytest.param(AsyncDoor, False, id="async"),
        pytest.param(AsyncDoor, True, id="dedicated"),
    ],
)


@DOORS
async def test_a_postponed_ask_is_answered_by_the_handling_that_came_later(
    door: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(door, dedicated=dedicated)
        replies = [ref.ask(number) for number in range(3)]
        await trio.sleep(5)
        assert not any(reply.done for reply in replies)
        ref.tell("open")
        assert [await reply for reply in replies] == [("done", number) for number in range(3)]


@DOORS
async def test_a_promise_is_passed_on_over_a_second_promise(
    door: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(door, dedicated=dedicated)
        reply = ref.ask("promise")
        await ref.ask("open")
        await trio.sleep(1)
        assert not reply.done
        await ref.ask("answer")
        assert await reply == "in the end"


@DOORS
async def test_a_promise_that_was_passed_on_is_refused_when_the_actor_ends(
    door: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(door, dedicated=dedicated)
        reply = ref.ask("promise")
        await ref.ask("open")
        await trio.sleep(1)
        await ref.stop()
        with pytest.raises(ActorStopped):
            await reply


@DOORS
async def test_a_postponed_ask_whose_handling_crashes_hears_of_the_crash(
    door: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref: Ref[Any] = await nursery.spawn(Owner).ask((door, dedicated))
        failing, behind = ref.ask("fail"), ref.ask("behind")
        await trio.sleep(1)
        ref.tell("open")
        with pytest.raises(ActorCrashed, match="behind the door"):
            await failing
        with pytest.raises(ActorStopped, match="behind the door"):
            await behind


@pytest.mark.parametrize("dedicated", [False, True])
async def test_a_postponed_ask_whose_handling_is_killed_hears_of_that(
    dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(AsyncDoor, dedicated=dedicated)
        reply = ref.ask("for ever")
        await ref.ask("open")
        await trio.sleep(1)
        ref.kill()
        with pytest.raises(ActorStopped, match="killed"):
            await reply


async def test_a_postponed_ask_that_is_answered_with_an_awaitable_is_a_crash(
    autojump_clock: MockClock,
) -> None:
    class Forgets(Door):
        def receive(self, message: Any) -> Any:
            if message == "forget" and self.is_open:
                return self.ref.ask("an answer that nobody awaits")
            return self.handle(message)

    async with open_nursery() as nursery:
        ref = await nursery.spawn(Owner).ask((Forgets, False))
        reply = ref.ask("forget")
        ref.tell("open")
        with pytest.raises(ActorCrashed, match="returned an awaitable"):
            await reply


async def test_a_postponed_ask_may_not_be_promised_what_another_was_promised(
    autojump_clock: MockClock,
) -> None:
    class Same(Door):
        def __init__(self) -> None:
            super().__init__()
            self.later = self.reply_later()

        def receive(self, message: Any) -> Any:
            if message == "same" and self.is_open:
                return self.later
            return self.handle(message)

    async with open_nursery() as nursery:
        ref = await nursery.spawn(Owner).ask((Same, False))
        first, second = ref.ask("same"), ref.ask("same")
        ref.tell("open")
        with pytest.raises(ActorCrashed, match="returned the same Later"):
            await second
        with pytest.raises(ActorStopped):
            await first


@DOORS
async def test_what_is_still_postponed_at_the_end_is_refused(
    door: Any, dedicated: bool, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(door, dedicated=dedicated)
        reply = ref.ask(1)
        await trio.sleep(1)
        await ref.stop()
        with pytest.raises(ActorStopped):
            await reply
