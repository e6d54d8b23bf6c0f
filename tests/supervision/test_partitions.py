"""Very many children by key, over several dynamic supervisors."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from standby_actors import Actor, ActorCrashed, Request
from standby_supervision import (
    AlreadyStarted,
    BadSpec,
    Counts,
    Done,
    NotFound,
    Started,
    TooMany,
    child,
    open_supervisor,
    partitions,
)


class Whose(Request[str], frozen=True):
    """Ask whom it belongs to; it may crash instead."""

    crash: bool = False


class Session(Actor):
    """Belongs to a user."""

    starts: int = 0

    def __init__(self, user: str, seconds: float = 0.0) -> None:
        self.user, self.seconds = user, seconds

    async def on_start(self) -> None:
        """Take a while."""
        await trio.sleep(self.seconds)

    def receive(self, message: Whose) -> str:
        """Say whose it is."""
        if message.crash:
            raise ValueError(self.user)
        return self.user


TEMPLATE = child(Session, restart="transient")


async def test_a_key_is_found_again(autojump_clock: MockClock) -> None:
    async with open_supervisor(partitions(TEMPLATE, count=4, id="sessions")) as tree:
        sessions = tree.partitions("sessions")
        assert len(sessions) == 4
        for number in range(100):
            user = f"user {number}"
            ref = await sessions.get_or_start(user, user)
            assert sessions[user] is ref
            assert await sessions.get_or_start(user, "another") is ref
            assert await ref.ask(Whose()) == user
        assert await sessions.count_children() == Counts(4, 100, 0, 100)
        assert len(await sessions.which_children()) == 100
        each = [await tree.branch("sessions").branch(str(n)).count_children() for n in range(1, 5)]
        assert all(counts.active > 2 for counts in each)  # the hash of a text is drawn anew


async def test_a_key_is_started_once_however_many_ask(autojump_clock: MockClock) -> None:
    async with open_supervisor(partitions(TEMPLATE, count=4)) as tree:
        sessions = tree.partitions("partitions")
        found = []

        async def one() -> None:
            found.append(await sessions.get_or_start("a", "a", 5.0))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(one)
        assert len(set(found)) == 1
        assert trio.current_time() == 5


async def test_slow_starts_of_different_partitions_do_not_wait_for_one_another(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(partitions(TEMPLATE, count=64)) as tree:
        sessions = tree.partitions("partitions")
        keys = [
            "a",
            next(
                k for k in "bcdefgh" if sessions.partition(k).ref is not sessions.partition("a").ref
            ),
        ]
        async with trio.open_nursery() as nursery:
            for key in keys:
                nursery.start_soon(sessions.start, key, key, 10.0)
        assert trio.current_time() == 10


async def test_the_answers_are_those_of_a_dynamic_supervisor(autojump_clock: MockClock) -> None:
    async with open_supervisor(partitions(TEMPLATE, count=1, max_children=2)) as tree:
        sessions = tree.partitions("partitions")
        first = await sessions.start("a", "a")
        assert isinstance(first, Started)
        assert await sessions.start("a", "a") == AlreadyStarted(first.ref)
        await sessions.start("b", "b")
        assert await sessions.start("c", "c") == TooMany(2)
        with pytest.raises(LookupError, match="TooMany"):
            await sessions.get_or_start("c", "c")
        assert await sessions.terminate_child("a") == Done()
        assert await sessions.terminate_child("a") == NotFound()
        assert sessions.find("a") is None
        with pytest.raises(KeyError, match="no child 'a'"):
            sessions["a"]


async def test_a_partition_that_gives_up_costs_the_others_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(partitions(TEMPLATE, count=16, intensity=0)) as tree:
        sessions = tree.partitions("partitions")
        bad = await sessions.get_or_start("a", "a")
        other = next(
            key
            for key in "bcdefgh"
            if sessions.partition(key).ref is not sessions.partition("a").ref
        )
        good = await sessions.get_or_start(other, other)
        with pytest.raises(ActorCrashed):
            await bad.ask(Whose(crash=True))
        await trio.testing.wait_all_tasks_blocked()  # until its partition has been restarted
        again = await sessions.get_or_start("a", "a")
        assert again is not bad
        assert await again.ask(Whose()) == "a"
        assert await good.ask(Whose()) == other
        assert good.incarnation == 1


async def test_ten_thousand_children_leave_nothing_behind(autojump_clock: MockClock) -> None:
    def echo(message: str) -> str:
        return message

    async with open_supervisor(partitions(child(echo), count=8)) as tree:
        many = tree.partitions("partitions")
        refs = [await many.get_or_start(str(number)) for number in range(10_000)]
        assert len(set(refs)) == 10_000
        assert await many["77"].ask("hello") == "hello"
        assert (await many.count_children()).active == 10_000
    assert not any(ref.is_alive for ref in refs)


def test_there_is_at_least_one_partition() -> None:
    with pytest.raises(BadSpec, match="count is an int of 1 or more, not 0"):
        partitions(TEMPLATE, count=0)
