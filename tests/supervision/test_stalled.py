"""A child that gets no further is reported while it hangs, and ended as a crash."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby_actors import Actor, ActorCrashed, Ref, Request
from standby_supervision import BadSpec, Stalled, SupervisorSpec, child, open_supervisor
from tests.support.heard import heard


class Nap(Request[str], frozen=True):
    """Sleep, and say so."""

    seconds: float


class Sleeper(Actor):
    """Sleeps for as long as the message says."""

    async def receive(self, message: Nap) -> str:
        """Sleep."""
        await trio.sleep(message.seconds)
        return f"slept {message.seconds:g} s"


class OnOneTask(Sleeper):
    """The same on a task of its own."""

    dedicated = True


class Asks(Actor):
    """Asks another actor, and waits for it."""

    def __init__(self, other: Ref[Any]) -> None:
        self.other = other

    async def receive(self, message: Any) -> Any:
        """Pass it on."""
        return await self.other.ask(message)


FOREVER = Nap(1e6)


@pytest.mark.parametrize("sleeper", [Sleeper, OnOneTask])
async def test_a_stalled_child_is_restarted_and_its_asker_hears_of_a_crash(
    sleeper: type[Actor], autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with heard() as events, open_supervisor(child(sleeper, stalled_after=8)) as tree:
        ref = tree[sleeper.__name__]
        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(FOREVER)
        assert 8 <= trio.current_time() <= 10 + 1e-6
        cause = caught.value.__cause__
        assert isinstance(cause, Stalled)
        assert cause.seconds == 8
        assert "receive (test_stalled.py:" in cause.stack
        assert await ref.ask(Nap(1)) == "slept 1 s"
        assert ref.incarnation == 2
        (info,) = await tree.which_children()
        assert info.last_reason.startswith("crashed (Stalled: ")
    told = [event for event in events if event.type == "supervisor.stalled"]
    assert [event.data["child"] for event in told] == [sleeper.__name__]
    assert "receive (test_stalled.py:" in told[0].data["stack"]
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert any("is stalled" in line and "receive (test_stalled.py:" in line for line in lines)


@pytest.mark.parametrize("sleeper", [Sleeper, OnOneTask])
async def test_many_messages_that_each_take_less_are_progress(
    sleeper: type[Actor], autojump_clock: MockClock
) -> None:
    async with open_supervisor(child(sleeper, id="a", stalled_after=4)) as tree:
        same = Nap(3)
        for _ in range(9):
            tree["a"].tell(same)
        assert await tree["a"].ask(Nap(3.5)) == "slept 3.5 s"
        assert tree["a"].incarnation == 1


async def test_an_idle_child_is_not_stalled(autojump_clock: MockClock) -> None:
    async with open_supervisor(
        child(Sleeper, id="a", stalled_after=1), child(OnOneTask, id="b", stalled_after=1)
    ) as tree:
        await trio.sleep(100)
        assert [tree["a"].incarnation, tree["b"].incarnation] == [1, 1]


async def test_the_restart_type_decides_what_becomes_of_it(autojump_clock: MockClock) -> None:
    async with open_supervisor(
        child(Sleeper, id="gone", restart="temporary", stalled_after=1),
        child(Sleeper, id="back", restart="transient", stalled_after=1),
    ) as tree:
        gone, back = tree["gone"], tree["back"]
        for ref in (gone, back):
            with pytest.raises(ActorCrashed):
                await ref.ask(FOREVER)
        assert not gone.is_alive
        assert await back.ask(Nap(0)) == "slept 0 s"


async def test_a_wait_for_another_actor_is_named(autojump_clock: MockClock) -> None:
    async with open_supervisor(child(Sleeper, id="slow")) as tree:
        slow = tree["slow"]
        await tree.start_child(child(Asks, slow, id="front", stalled_after=2))
        with pytest.raises(ActorCrashed) as caught:
            await tree["front"].ask(FOREVER)
        assert isinstance(caught.value.__cause__, Stalled)
        assert f"waits for an answer of {slow.path}" in caught.value.__cause__.stack
        slow.kill()


async def test_what_waited_behind_the_message_is_handled_by_the_next_life(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(child(Sleeper, id="a", stalled_after=2)) as tree:
        tree["a"].tell(FOREVER)
        assert await tree["a"].ask(Nap(1)) == "slept 1 s"
        assert tree["a"].incarnation == 2


async def test_the_message_is_given_again_as_often_as_redeliver_says(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(child(Sleeper, id="a", redeliver=1, stalled_after=2)) as tree:
        with pytest.raises(ActorCrashed):
            await tree["a"].ask(FOREVER)
        assert await tree["a"].ask(Nap(0)) == "slept 0 s"
        assert tree["a"].incarnation == 3


async def test_a_stalled_child_that_shields_itself_is_stuck_and_then_restarted(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Stubborn(Actor):
        async def receive(self, message: str) -> str:
            if message == "hang":
                with trio.CancelScope(shield=True):
                    await trio.sleep(1000)
            return message

    async with open_supervisor(child(Stubborn, id="a", stalled_after=4)) as tree:
        tree["a"].tell("hang")
        assert await tree["a"].ask("next") == "next"
        assert tree["a"].incarnation == 2
    assert "stuck: supervisor/top/a outlived its kill" in caplog.text


async def test_a_stop_in_progress_has_its_own_deadline(autojump_clock: MockClock) -> None:
    async with open_supervisor(child(Sleeper, id="a", shutdown=50, stalled_after=2)) as tree:
        tree["a"].tell(Nap(20))
        await trio.sleep(1)
        await tree.terminate_child("a")
        assert trio.current_time() == pytest.approx(20)
        (info,) = await tree.which_children()
        assert info.last_reason == "shutdown"


async def test_a_held_up_loop_is_nobodys_stall(autojump_clock: MockClock) -> None:
    async with open_supervisor(child(Sleeper, id="a", stalled_after=4)) as tree:
        reply = tree["a"].ask(Nap(500))
        await trio.sleep(1.5)
        autojump_clock.jump(490)  # the loop was held: nobody looked
        await trio.sleep(1)
        assert tree["a"].incarnation == 1
        with pytest.raises(ActorCrashed):
            await reply


async def test_nothing_is_armed_where_no_child_says_it(autojump_clock: MockClock) -> None:
    async with open_supervisor(child(Sleeper, id="a")) as tree:
        before = trio.lowlevel.current_statistics().seconds_to_next_deadline
        reply = tree["a"].ask(Nap(1e5))
        await trio.testing.wait_all_tasks_blocked()
        after = trio.lowlevel.current_statistics().seconds_to_next_deadline
        assert before == float("inf")
        assert after == pytest.approx(1e5)  # the sleeper's own, and no other
        reply.withdraw()
        tree["a"].kill()


async def test_looking_ends_with_the_last_child_that_is_watched(autojump_clock: MockClock) -> None:
    async with open_supervisor(
        child(Sleeper, id="a", restart="temporary", stalled_after=4)
    ) as tree:
        await tree["a"].stop()
        await trio.sleep(10)
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline > 1000


def test_a_supervisor_cannot_be_stalled() -> None:
    with pytest.raises(BadSpec, match="stalled_after is for workers") as caught:
        child(SupervisorSpec(), id="below", stalled_after=5)
    assert caught.value.rule == "bad_combination"
