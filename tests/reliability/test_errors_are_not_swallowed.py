"""Case C24 (a, b) and its kind: work that failed never looks like work that is done."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import (
    Actor,
    ActorStopped,
    Crashed,
    Exit,
    ExitReason,
    Linked,
    Ref,
    open_nursery,
)
from tests.support.heard import heard
from tests.support.homes import apart


class Link(Actor):
    """Tells what it gets on to the next, unless it is the one that fails."""

    def __init__(self, ran: list[str], name: str, following: Ref[Any] | None = None) -> None:
        self.ran = ran
        self.name = name
        self.following = following

    async def receive(self, message: Any) -> None:
        self.ran.append(self.name)
        if self.name == "b":
            raise ValueError("b cannot")
        if self.following is not None:
            self.following.tell(message)


def notes(error: BaseException) -> str:
    """What was noted on an error, and on all that a group has in it."""
    found = "\n".join(getattr(error, "__notes__", ()))
    for each in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        found += notes(each)
    return found


@pytest.mark.parametrize("dedicated", [False, True])
async def test_a_chain_of_tells_that_breaks_ends_the_run_and_says_who_broke_it(
    dedicated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    ran: list[str] = []
    with trio.fail_after(60):
        with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="b cannot")) as caught:
            async with open_nursery() as nursery:
                c: Ref[Any] = nursery.spawn(Link, ran, "c", name="c")
                b: Ref[Any] = nursery.spawn(Link, ran, "b", c, name="b", dedicated=dedicated)
                a: Ref[Any] = nursery.spawn(Link, ran, "a", b, name="a")
                a.tell("go")
                await trio.sleep_forever()
    assert "nursery/b" in notes(caught.value)
    assert ran == ["a", "b"]
    assert isinstance(await b.join(), Crashed)


async def test_a_body_that_is_done_before_the_crash_comes_raises_it_all_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Late(Actor):
        """Fails while its block is being left."""

        async def receive(self, message: Any) -> None:
            await trio.sleep(1)
            raise ValueError("too late")

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="too late")):
        async with open_nursery() as nursery:
            nursery.spawn(Late).tell("go")
            await trio.testing.wait_all_tasks_blocked()


async def test_a_crash_below_an_owner_ends_the_owner_and_names_the_one_that_failed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Owner(Actor):
        """Has the failing one for a child."""

        def receive(self, message: Any) -> Ref[Any]:
            return self.spawn(Link, [], "b", name="b")

    with pytest.RaisesGroup(ValueError) as caught:
        async with open_nursery() as nursery:
            owner: Ref[Any] = nursery.spawn(Owner, name="owner")
            b = await owner.ask("spawn")
            b.tell("go")
            await trio.sleep_forever()
    assert "nursery/owner/b" in notes(caught.value)
    reason = await owner.join()
    assert isinstance(reason, Linked)
    assert reason.path == "nursery/owner/b"


@pytest.mark.parametrize("how", ["send", "ask"])
async def test_a_message_that_must_arrive_at_an_actor_that_is_dead_is_a_crash_of_its_sender(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    class Sends(Actor):
        """Sends its message on to somebody who is not there."""

        def __init__(self, dead: Ref[Any]) -> None:
            self.dead = dead

        async def receive(self, message: Any) -> None:
            await (self.dead.send(message) if how == "send" else self.dead.ask(message))

    with pytest.RaisesGroup(ActorStopped) as caught:
        async with open_nursery() as nursery:
            dead: Ref[Any] = nursery.spawn(Link, [], "dead", name="dead")
            await dead.stop()
            b: Ref[Any] = nursery.spawn(Sends, dead, name="b")
            b.tell("go")
            await trio.sleep_forever()
    assert "nursery/b" in notes(caught.value)


async def test_a_name_that_does_not_exist_is_found_to_be_nobody_and_using_it_is_a_crash(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Looks(Actor):
        """Tells whoever has the name."""

        def receive(self, message: str) -> None:
            ref: Any = self.whereis(message)
            ref.tell("hello")

    with pytest.RaisesGroup(AttributeError):
        async with open_nursery() as nursery:
            nursery.spawn(Looks).tell("nobody")
            await trio.sleep_forever()


async def test_a_tell_to_the_dead_is_counted_and_reported(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with heard() as events, open_nursery() as nursery:
        dead: Ref[Any] = nursery.spawn(Link, [], "dead", name="dead")
        await dead.stop()
        dead.tell("hello")
        assert nursery.dead_letters == 1
    assert [event.actor for event in events if event.type == "actor.dead_letter"] == [
        "nursery/dead"
    ]


async def test_each_crash_that_ends_nobody_else_is_one_event_and_one_error_in_the_log(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    async with heard() as events, open_nursery() as nursery:
        for _ in range(20):
            b = await apart(nursery, Link, [], "b")
            b.tell("go")
            assert isinstance(await b.join(), Crashed)
    crashes = [event for event in events if event.type == "actor.crashed"]
    assert len(crashes) == 20
    assert all("ValueError: b cannot" in event.data["error"] for event in crashes)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 20
    assert [event.actor for event in crashes] == [
        record.getMessage().split()[1] for record in errors
    ]
    assert all(record.exc_info is not None for record in errors)


@pytest.mark.parametrize(
    "where",
    ["start hook", "stop hook", "down", "exit", "continue", "timeout", "timer", "child task"],
)
async def test_an_error_anywhere_in_an_actor_is_raised_from_its_block(
    where: str, autojump_clock: trio.testing.MockClock
) -> None:
    def fail(place: str) -> None:
        if place == where:
            raise ValueError(where)

    class Fails(Actor):
        """Fails in the one place that the test is about."""

        trap_exits = True

        def on_start(self) -> None:
            fail("start hook")

        async def receive(self, message: Any) -> None:
            if isinstance(message, Ref):
                self.monitor(message)
                self.link(message)
                self.continue_with("go")
                self.set_receive_timeout(1)
                self.send_after(0.5, "tick")
            elif message == "tick":
                fail("timer")
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(self.in_a_task)
                self.set_receive_timeout(1)

        async def in_a_task(self) -> None:
            fail("child task")

        def on_down(self, down: Any) -> None:
            fail("down")

        def on_exit(self, exit: Exit) -> None:  # noqa: A002 - the hook's own word
            fail("exit")

        def on_continue(self, what: Any) -> None:
            fail("continue")

        def on_receive_timeout(self) -> None:
            fail("timeout")

        def on_stop(self, reason: ExitReason) -> None:
            fail("stop hook")

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match=where)):
        async with open_nursery() as nursery:
            other: Ref[Any] = nursery.spawn(Link, [], "other")
            ref: Ref[Any] = nursery.spawn(Fails)
            ref.tell(other)
            await trio.sleep(0.1)
            await other.stop()
            await trio.sleep(5)
            if where != "stop hook":
                pytest.fail("the crash has not ended the body")
