"""Which worker of a pool gets which message, and what happens while one is down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby_actors import Actor, ActorCrashed, ActorStopped, MailboxFull, Request
from standby_supervision import (
    Backoff,
    BadSpec,
    Broadcast,
    Router,
    child,
    open_supervisor,
    workers,
)


class Job(Request[str], frozen=True):
    """Work of that many seconds for somebody."""

    name: str
    seconds: float = 0.0


class Plain(Actor):
    """Says which worker it is."""

    def receive(self, message: Job) -> str:
        """Answer at once."""
        if message.name == "bad":
            raise ValueError("bad")
        return self.ref.path.rpartition("/")[2]


class Slow(Plain):
    """The same, after the seconds of the job."""

    async def receive(self, message: Job) -> str:  # type: ignore[override]  # as the runtime allows
        """Answer after a while."""
        await trio.sleep(message.seconds)
        return super().receive(message)


async def test_round_robin_gives_each_its_turn(autojump_clock: MockClock) -> None:
    async with open_supervisor(workers(Plain, count=3)) as tree:
        pool = tree.router("Plain")
        assert len(pool) == 3
        assert [await pool.ask(Job("x")) for _ in range(7)] == ["1", "2", "3", "1", "2", "3", "1"]


async def test_least_loaded_counts_what_waits_and_what_is_in_work(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(workers(Slow, count=3, id="pool")) as tree:
        pool = tree.router("pool", "least_loaded")
        first = [pool.ask(Job("x", 10)), pool.ask(Job("x", 20)), pool.ask(Job("x", 30))]
        await trio.sleep(15)  # worker 1 is free, the others have one each
        assert [await pool.ask(Job("x")) for _ in range(3)] == ["1", "1", "1"]
        assert [await each for each in first] == ["1", "2", "3"]


async def test_least_loaded_spreads_over_equals(autojump_clock: MockClock) -> None:
    async with open_supervisor(workers(Plain, count=3, id="pool")) as tree:
        pool = tree.router("pool", "least_loaded")
        assert {await pool.ask(Job("x")) for _ in range(3)} == {"1", "2", "3"}


async def test_least_loaded_does_not_prefer_who_is_down(autojump_clock: MockClock) -> None:
    async with open_supervisor(
        workers(Plain, count=2, id="pool", backoff=Backoff(60, cap=60))
    ) as tree:
        pool = tree.router("pool", "least_loaded")
        with pytest.raises(ActorCrashed):
            await pool.ask(Job("bad"))
        assert [await pool.ask(Job("x")) for _ in range(4)] == ["2"] * 4
        assert trio.current_time() == 0


async def test_the_same_key_goes_to_the_same_worker_in_order(autojump_clock: MockClock) -> None:
    async with open_supervisor(workers(Slow, count=4, id="pool")) as tree:
        pool: Router[Job] = tree.router("pool", "by_key", key=lambda job: job.name)
        names = [f"user {number}" for number in range(40)]
        once = {name: await pool.ask(Job(name)) for name in names}
        assert {name: await pool.ask(Job(name)) for name in names} == once
        assert set(once.values()) == {"1", "2", "3", "4"}
        slow, quick = pool.ask(Job("user 1", 5)), pool.ask(Job("user 1"))
        await trio.testing.wait_all_tasks_blocked()
        assert not quick.done
        await slow
        await quick


async def test_another_router_sends_a_key_to_the_same_worker(autojump_clock: MockClock) -> None:
    async with open_supervisor(workers(Plain, count=4, id="pool")) as tree:
        one, two = (tree.router("pool", "by_key", key=lambda job: job.name) for _ in range(2))
        for name in "abcdefgh":
            assert await one.ask(Job(name)) == await two.ask(Job(name))


async def test_broadcast_tells_all_and_gathers_all_answers(autojump_clock: MockClock) -> None:
    async with open_supervisor(workers(Slow, count=3, id="pool")) as tree:
        everybody: Broadcast[Job] = tree.router("pool", "broadcast")
        everybody.tell(Job("x", 1))
        assert await everybody.ask(Job("x", 2)) == ["1", "2", "3"]
        assert trio.current_time() == 3  # side by side
        await everybody.send(Job("x"))


async def test_a_broadcast_says_who_failed_once_all_are_through(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(workers(Slow, count=3, id="pool")) as tree:
        everybody = tree.router("pool", "broadcast")
        answers = everybody.ask(Job("bad", 4))
        with pytest.RaisesGroup(ActorCrashed, ActorCrashed, ActorCrashed):
            await answers
        assert all(reply.done for reply in answers.replies)


async def test_a_cancelled_broadcast_withdraws_what_has_not_begun(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(workers(Slow, count=2, id="pool")) as tree:
        everybody = tree.router("pool", "broadcast")
        everybody.tell(Job("x", 10))
        answers = everybody.ask(Job("x"))
        with trio.move_on_after(1) as scope:
            await answers
        assert scope.cancelled_caught
        assert all(reply.done for reply in answers.replies)


async def test_a_full_worker_does_not_keep_a_broadcast_from_the_others(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(workers(Slow, count=2, id="pool", capacity=1)) as tree:
        one, two = tree.router("pool").workers
        one.suspend()
        one.tell(Job("x"))
        with pytest.RaisesGroup(MailboxFull):
            tree.router("pool", "broadcast").tell(Job("x", 1))
        assert two.snapshot().mailbox == 1
        one.resume()


async def test_mail_waits_for_a_worker_that_is_down(autojump_clock: MockClock) -> None:
    backoff = Backoff(60, cap=60, jitter=0)
    async with open_supervisor(workers(Plain, count=2, id="pool", backoff=backoff)) as tree:
        pool = tree.router("pool")
        with pytest.raises(ActorCrashed):
            await pool.ask(Job("bad"))
        assert await pool.ask(Job("x")) == "2"
        assert await pool.ask(Job("x")) == "1"
        assert trio.current_time() == 60


async def test_when_down_may_say_that_asks_fail_instead(autojump_clock: MockClock) -> None:
    async with open_supervisor(
        workers(Plain, count=1, id="pool", backoff=Backoff(60, cap=60), when_down="fail")
    ) as tree:
        pool = tree.router("pool")
        with pytest.raises(ActorCrashed):
            await pool.ask(Job("bad"))
        with pytest.raises(ActorStopped):
            await pool.ask(Job("x"))


async def test_who_was_terminated_is_passed_over_until_it_is_back(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(workers(Plain, count=3, id="pool")) as tree:
        pool, least = tree.router("pool"), tree.router("pool", "least_loaded")
        branch = tree.branch("pool")
        await branch.terminate_child("2")
        assert [await pool.ask(Job("x")) for _ in range(4)] == ["1", "3", "1", "3"]
        assert {await least.ask(Job("x")) for _ in range(4)} == {"1", "3"}
        await branch.restart_child("2")
        assert [await pool.ask(Job("x")) for _ in range(3)] == ["1", "2", "3"]


async def test_by_key_nobody_stands_in_for_who_was_terminated(autojump_clock: MockClock) -> None:
    async with open_supervisor(workers(Plain, count=2, id="pool")) as tree:
        pool = tree.router("pool", "by_key", key=lambda job: job.name)
        gone = await pool.ask(Job("a"))
        await tree.branch("pool").terminate_child(gone)
        with pytest.raises(ActorStopped):
            await pool.ask(Job("a"))


async def test_a_further_worker_gets_its_share(autojump_clock: MockClock) -> None:
    async with open_supervisor(workers(Plain, count=1, id="pool")) as tree:
        pool = tree.router("pool")
        await pool.ask(Job("x"))
        await tree.branch("pool").start_child(child(Plain, id="more"))
        assert {await pool.ask(Job("x")) for _ in range(2)} == {"1", "more"}


async def test_a_router_outlives_a_restart_of_its_pool(autojump_clock: MockClock) -> None:
    async with open_supervisor(workers(Plain, count=2, id="pool", intensity=0)) as tree:
        pool = tree.router("pool")
        with pytest.raises(ActorCrashed):
            await pool.ask(Job("bad"))
        await tree.which_children()  # behind the restart of the pool
        assert [await pool.ask(Job("x")) for _ in range(2)] != []
        assert tree["pool"].incarnation == 2


async def test_without_anybody_an_ask_fails_and_a_tell_is_a_dead_letter(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(workers(Plain, count=2, id="pool")) as tree:
        routers = tree.router("pool"), tree.router("pool", "least_loaded")
        for each in ("1", "2"):
            await tree.branch("pool").terminate_child(each)
        for pool in (*routers, tree.router("pool", "broadcast")):
            pool.tell(Job("x"))
        for pool in routers:
            with pytest.raises(ActorStopped, match="none of its children runs"):
                await pool.ask(Job("x"))
            with pytest.raises(ActorStopped):
                await pool.send(Job("x"))
        with pytest.RaisesGroup(ActorStopped):
            await tree.router("pool", "broadcast").ask(Job("x"))


async def test_a_pool_of_functions_needs_no_class(autojump_clock: MockClock) -> None:
    def double(number: int) -> int:
        return 2 * number

    async with open_supervisor(workers(double, count=2)) as tree:
        assert await tree.router("double").ask(21) == 42


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "2"])
def test_a_number_of_workers_is_one_or_more(count: Any) -> None:
    with pytest.raises(BadSpec) as caught:
        workers(Plain, count=count)
    assert caught.value.rule == "invalid_count"


@pytest.mark.parametrize(
    ("routing", "key"),
    [
        pytest.param("by_key", None, id="by_key without a key"),
        pytest.param("round_robin", len, id="a key without by_key"),
        pytest.param("fastest", None, id="no such routing"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    routing: Any, key: Callable[[Any], int] | None, autojump_clock: MockClock
) -> None:
    async with open_supervisor(workers(Plain, count=1, id="pool")) as tree:
        with pytest.raises(ValueError, match="routing"):
            tree.router("pool", routing, key=key)


async def test_a_worker_is_no_pool(autojump_clock: MockClock) -> None:
    async with open_supervisor(child(Plain)) as tree:
        with pytest.raises(TypeError, match="is no supervisor"):
            tree.router("Plain")
