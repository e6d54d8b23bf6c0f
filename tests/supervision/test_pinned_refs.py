"""A pinned ref is a ref to one life: no later one is reached over it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    Crashed,
    Down,
    Exit,
    Killed,
    Linked,
    MailboxFull,
    NoProcess,
    Ref,
    Shutdown,
    open_nursery,
)
from standby_supervision import Backoff, Done, NotFound, Tree, child, open_supervisor
from tests.support.homes import apart


class Recorder(Actor):
    """Writes down what it is told, each entry with its life."""

    def __init__(self, diary: list[Any]) -> None:
        self.diary = diary

    async def receive(self, message: Any) -> Any:
        match message:
            case "crash":
                raise ValueError(message)
            case "sleep", seconds:
                await trio.sleep(seconds)
            case "tell yourself", what:
                self.ref.tell(what)
            case "crash later", seconds:
                await trio.sleep(seconds)
                raise ValueError(message)
            case "link", ref:
                self.link(ref)
            case "unlink", ref:
                self.unlink(ref)
            case "monitor", ref:
                self.monitor(ref)
            case "send", ref, seconds:
                self.send_after(seconds, "scheduled", ref)
            case _:
                self.diary.append((self.ref.incarnation, message))
                return self.ref.incarnation
        return None

    def on_down(self, down: Down) -> None:
        self.diary.append(down)

    def on_exit(self, exit: Exit) -> None:  # noqa: A002 - the hook's own word
        self.diary.append(exit)


class Plain(Actor):
    """The same without a task of its own, so that asks are answered in the asker's."""

    def receive(self, message: Any) -> Any:
        if message == "crash":
            raise ValueError(message)
        return self.ref.incarnation


async def quiet() -> None:
    await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def recorder(**options: Any) -> AsyncGenerator[tuple[Tree, Ref[Any], list[Any]]]:
    """A tree with one recorder, and its diary."""
    diary: list[Any] = []
    async with open_supervisor(child(Recorder, diary, id="it", **options), intensity=50) as tree:
        yield tree, tree["it"], diary


async def crash(ref: Ref[Any]) -> None:
    ref.tell("crash")
    await quiet()


async def test_while_its_life_lasts_a_pinned_ref_is_as_good_as_any(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder() as (_, ref, diary):
        pinned = ref.pin()
        pinned.tell("told")
        await pinned.send("sent")
        assert await pinned.ask("asked", timeout=1) == 1
        assert diary == [(1, "told"), (1, "sent"), (1, "asked")]
        assert (pinned.path, pinned.incarnation, pinned.is_alive) == (ref.path, 1, True)
        assert (await pinned.get_state())["diary"] is diary
        assert pinned.snapshot() == ref.snapshot()


async def test_there_is_one_pinned_ref_for_each_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder() as (_, ref, _diary):
        first = ref.pin()
        assert ref.pin() is first
        assert first.pin() is first
        assert first != ref
        await crash(ref)
        second = ref.pin()
        assert second is not first
        assert (first.incarnation, second.incarnation) == (1, 2)
        assert repr(first) == "<Ref supervisor/top/it life 1 ended>"
        assert repr(second) == "<Ref supervisor/top/it life 2>"


async def test_after_its_life_a_pinned_ref_reaches_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder() as (tree, ref, diary):
        pinned = ref.pin()
        await crash(ref)
        before = tree._block.dead_letters  # pyright: ignore[reportPrivateUsage] # no public count of a tree
        pinned.tell("late")
        assert tree._block.dead_letters == before + 1  # pyright: ignore[reportPrivateUsage] # as above
        with pytest.raises(ActorStopped) as caught:
            await pinned.ask("late")
        assert isinstance(caught.value.__cause__, ValueError)
        for ended in (pinned.send("late"), pinned.get_state()):
            with pytest.raises(ActorStopped, match="crash"):
                await ended
        assert not pinned.is_alive
        assert isinstance(await pinned.join(), Crashed)
        assert isinstance(await pinned.stop(), Crashed)
        pinned.kill()
        pinned.suspend()
        pinned.resume()
        pinned.trace(diary.append)
        seen = pinned.snapshot()
        assert (seen.state, seen.incarnation, ref.snapshot().state) == ("ended", 1, "idle")
        assert await ref.ask("still") == 2
        assert diary == [(2, "still")]


async def test_what_waits_over_a_pinned_ref_ends_with_the_life_and_other_mail_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder() as (tree, ref, diary):
        pinned = ref.pin()
        ref.tell(("crash later", 1))
        await quiet()
        same = "the very same object"
        pinned.tell(same)
        ref.tell(same)
        pinned.tell("two")
        ref.tell("three")
        with pytest.raises(ActorStopped):
            await pinned.ask("four")
        await quiet()
        assert diary == [(2, same), (2, "three")]
        assert tree._block.dead_letters == 2  # pyright: ignore[reportPrivateUsage] # no public count of a tree


async def test_an_ask_over_a_pinned_ref_does_not_wait_over_a_restart_as_others_do(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder() as (_, ref, _diary):
        pinned = ref.pin()
        ref.tell(("crash later", 5))
        await quiet()
        answers: dict[str, Any] = {}

        async def ask(who: str, whom: Ref[Any]) -> None:
            try:
                answers[who] = await whom.ask("hello")
            except ActorStopped as error:
                answers[who] = type(error.__cause__), trio.current_time()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "pinned", pinned)
            nursery.start_soon(ask, "logical", ref)
        assert answers == {"pinned": (ValueError, 5.0), "logical": 2}


@pytest.mark.parametrize("kind", [Recorder, Plain])
async def test_an_ask_that_crashes_its_life_is_not_given_to_the_next_one(
    kind: type[Actor], autojump_clock: trio.testing.MockClock
) -> None:
    args: tuple[Any, ...] = ([],) if kind is Recorder else ()
    spec = child(kind, *args, id="it", redeliver=2)
    async with open_supervisor(spec, intensity=50) as tree:
        ref = tree["it"]
        with pytest.raises((ActorCrashed, ActorStopped)) as caught:
            await ref.pin().ask("crash")
        assert isinstance(caught.value.__cause__, ValueError)
        await quiet()
        assert ref.incarnation == 2
        ref.pin().tell("crash")
        await quiet()
        assert ref.incarnation == 3


async def test_a_sender_without_room_waits_for_its_life_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder(capacity=1) as (_, ref, diary):
        pinned = ref.pin()
        ref.tell(("crash later", 3))
        await quiet()
        ref.tell("in the mailbox")
        sent: list[Any] = []

        async def send(who: Ref[Any], message: str) -> None:
            try:
                await who.send(message)
                sent.append(message)
            except ActorStopped:
                sent.append((message, trio.current_time()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, pinned, "pinned")
            await quiet()
            nursery.start_soon(send, ref, "logical")
        await quiet()
        assert sorted(sent, key=str) == [("pinned", 3.0), "logical"]
        assert diary == [(2, "in the mailbox"), (2, "logical")]


async def test_a_sender_that_got_room_is_served_in_its_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder(capacity=1) as (_, ref, diary):
        ref.tell(("sleep", 3))
        await quiet()
        ref.tell("first")
        await ref.pin().send("second")
        assert trio.current_time() == 3.0
        await quiet()
        assert diary == [(1, "first"), (1, "second")]


async def test_a_cancelled_sender_has_added_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder(capacity=1) as (_, ref, diary):
        ref.tell(("sleep", 3))
        await quiet()
        ref.tell("first")
        with trio.move_on_after(1):
            await ref.pin().send("never")
        await trio.sleep(5)
        assert diary == [(1, "first")]


@pytest.mark.parametrize("overflow", ["raise", "drop_new", "drop_oldest"])
async def test_a_full_mailbox_treats_a_pinned_ref_as_any(
    overflow: Any, autojump_clock: trio.testing.MockClock
) -> None:
    async with recorder(capacity=1, overflow=overflow) as (_, ref, diary):
        ref.tell(("sleep", 3))
        await quiet()
        ref.tell("first")
        if overflow == "raise":
            with pytest.raises(MailboxFull):
                ref.pin().tell("second")
        else:
            ref.pin().tell("second")
        await trio.sleep(5)
        assert diary == [(1, "second" if overflow == "drop_oldest" else "first")]


async def test_a_monitor_over_a_pinned_ref_is_of_that_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    notices: list[Any] = []
    async with recorder() as (_, ref, _diary), open_nursery() as nursery:
        watcher: Ref[Any] = nursery.spawn(Recorder, notices)
        pinned = ref.pin()
        await watcher.ask(("monitor", pinned))
        await crash(ref)
        reason = await pinned.join()
        assert notices == [Down(pinned, reason)]
        await watcher.ask(("monitor", pinned))
        await watcher.ask(("monitor", ref))
        await quiet()
        assert notices[1:] == [Down(pinned, NoProcess())]


async def test_a_link_over_a_pinned_ref_is_to_that_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder() as (_, ref, _diary), open_nursery() as nursery:
        one = await apart(nursery, Recorder, [])
        pinned = ref.pin()
        await one.ask(("link", pinned))
        await crash(ref)
        assert await one.join() == Linked(ref.path, await pinned.join())
        two = await apart(nursery, Recorder, [])
        two.tell(("link", pinned))
        assert await two.join() == Linked(ref.path, NoProcess())


async def test_an_unlink_over_a_ref_pinned_to_an_earlier_life_leaves_the_link_to_this_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder() as (_, ref, _diary), open_nursery() as nursery:
        pinned = ref.pin()
        await crash(ref)
        one = await apart(nursery, Recorder, [])
        await one.ask(("link", ref))
        await one.ask(("unlink", pinned))
        await crash(ref)
        assert isinstance(await one.join(), Linked)
        two = await apart(nursery, Recorder, [])
        await two.ask(("link", ref))
        await two.ask(("unlink", ref.pin()))
        await crash(ref)
        assert two.is_alive


async def test_pinned_between_two_lives_it_is_to_the_one_that_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spec = child(Recorder, [], id="it")
    async with open_supervisor(spec, backoff=Backoff(10, jitter=0)) as tree:
        ref = tree["it"]
        await crash(ref)
        pinned = ref.pin()
        assert (ref.is_alive, pinned.is_alive, pinned.incarnation) == (True, False, 1)
        assert isinstance(await pinned.join(), Crashed)
        with pytest.raises(ActorStopped):
            await pinned.ask("hello")
        assert await ref.ask("hello") == 2
        assert isinstance(await pinned.join(), Crashed)


async def test_several_wait_for_the_end_of_one_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    reasons: list[Any] = []
    async with recorder() as (_, ref, _diary):
        pinned = ref.pin()

        async def wait() -> None:
            reasons.append(await pinned.join())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await quiet()
            pinned.kill()
        assert reasons == [Killed()] * 3
        assert await ref.ask("hello") == 2


async def test_a_timed_message_over_a_pinned_ref_finds_nobody_after_a_restart(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder() as (_, ref, diary), open_nursery() as nursery:
        other: Ref[Any] = nursery.spawn(Recorder, [])
        await other.ask(("send", ref.pin(), 5))
        await other.ask(("send", ref, 6))
        await crash(ref)
        await trio.sleep(10)
        assert diary == [(2, "scheduled")]


async def test_a_dynamic_child_is_terminated_by_the_ref_to_its_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Recorder, [], id="t"), strategy="dynamic") as tree:
        ref = await tree.get_or_start("one")
        first = ref.pin()
        await crash(ref)
        assert await tree.terminate_child(first) == Done()
        assert ref.is_alive
        assert not isinstance(await tree.get_spec(ref.pin()), NotFound)
        assert await tree.terminate_child(ref.pin()) == Done()
        assert not ref.is_alive
        assert await ref.join() == Shutdown()


async def test_in_a_plain_block_a_pinned_ref_ends_with_its_actor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        diary: list[Any] = []
        ref: Ref[Any] = nursery.spawn(Recorder, diary)
        pinned = ref.pin()
        ref.tell(("sleep", 3))
        await quiet()
        pinned.tell("waits")
        before = nursery.dead_letters
        stopped = pinned.stop()
        assert await stopped == Shutdown()
        pinned.tell("late")
        assert nursery.dead_letters == before + 2
        assert diary == []


async def test_a_pinned_ref_costs_an_actor_one_entry_however_often_it_is_asked_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with recorder() as (_, ref, _diary):
        for _ in range(1000):
            await ref.pin().ask("hello")
            ref.pin().tell("hello")
        await quiet()
        rare = ref.rare()  # type: ignore[attr-defined] # what it holds on to is seen from inside only
        assert len(rare.joiners) == 1
        assert len(rare.pinned) < 50


async def test_what_an_actor_told_itself_does_not_take_along_what_others_told_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # The same object, as short texts and enum members always are.
    async with recorder() as (_, ref, diary):
        await ref.ask(("tell yourself", "go"))
        await quiet()
        ref.tell(("crash later", 1))
        await quiet()
        ref.tell("go")
        await trio.sleep(2)
        assert diary == [(1, "go"), (2, "go")]
