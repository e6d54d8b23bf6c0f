"""Links and monitors between actors under different supervisors, and in different blocks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from standby_actors import (
    Actor,
    Crashed,
    Down,
    Exit,
    ExitReason,
    Killed,
    Linked,
    NoProcess,
    Normal,
    Ref,
    Shutdown,
    open_nursery,
)
from standby_supervision import Backoff, Tree, child, open_supervisor, supervisor
from tests.support.homes import apart


@define(eq=False)
class Diary:
    """What the actors of one test were told, and how each of their lives ended."""

    notices: list[Any] = field(factory=list)
    ends: list[tuple[str, int, ExitReason]] = field(factory=list)


class Member(Actor):
    """Watches and ties itself as it is told; writes down its notices and its ends."""

    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    async def receive(self, message: Any) -> Any:
        match message:
            case "monitor", ref:
                return self.monitor(ref)
            case "link", ref:
                return self.link(ref)
            case "unlink", ref:
                return self.unlink(ref)
            case "wait":
                return await trio.sleep_forever()
            case "crash":
                raise ValueError(message)
            case "leave":
                return self.stop()
            case _:
                return self.ref.incarnation

    def on_down(self, down: Down) -> None:
        self.diary.notices.append(down)

    def on_exit(self, exit: Exit) -> None:  # noqa: A002 - the hook's own word
        self.diary.notices.append(exit)

    def on_stop(self, reason: ExitReason) -> None:
        name = self.ref.path.rpartition("/")[2]
        self.diary.ends.append((name, self.ref.incarnation, reason))


class Traps(Member):
    """The same; the ends of others are notices to it."""

    trap_exits = True


ENDS: dict[str, type[Any]] = {"leave": Normal, "stop": Shutdown, "kill": Killed, "crash": Crashed}
ABNORMAL = ("kill", "crash")


async def quiet() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def end(ref: Ref[Any], how: str) -> ExitReason:
    """End this life of `ref`, and wait until that has been dealt with."""
    life = ref.pin()
    if how == "kill":
        ref.kill()
    elif how == "stop":
        ref.stop()
    else:
        ref.tell(how)
    reason: ExitReason = await life.join()
    await quiet()
    assert type(reason) is ENDS[how]
    return reason


@asynccontextmanager
async def two_branches(
    diary: Diary, one: type[Member] = Member, two: type[Member] = Member, **options: Any
) -> AsyncGenerator[tuple[Tree, Ref[Any], Ref[Any]]]:
    """A tree with one child under each of two supervisors."""
    options = {"intensity": 20, **options}
    async with open_supervisor(
        supervisor(child(one, diary, id="one"), id="left", **options),
        supervisor(child(two, diary, id="two"), id="right", **options),
    ) as tree:
        yield tree, tree.branch("left")["one"], tree.branch("right")["two"]


# ---- links


@pytest.mark.parametrize("who", ["one", "two"])
@pytest.mark.parametrize("how", ENDS)
async def test_a_link_ends_the_other_life_after_an_abnormal_end_and_both_are_restarted(
    how: str, who: str, autojump_clock: trio.testing.MockClock
) -> None:
    diary = Diary()
    async with two_branches(diary) as (tree, one, two):
        await one.ask(("link", two))
        ends, stays = (one, two) if who == "one" else (two, one)
        path, life = ends.path, stays.pin()
        reason = await end(ends, how)
        if how in ABNORMAL:
            assert await life.join() == Linked(path, reason)
            assert (one.incarnation, two.incarnation) == (2, 2)
        else:
            assert life.is_alive
            assert (ends.incarnation, stays.incarnation) == (2, 1)
        # The end of each is dealt with by the supervisor of each.
        restarts = [
            (await tree.branch(each).which_children())[0].restarts for each in ("left", "right")
        ]
        assert sorted(restarts) == ([1, 1] if how in ABNORMAL else [0, 1])


async def test_a_link_is_of_two_lives_and_the_next_ones_are_free(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with two_branches(Diary()) as (_, one, two):
        await one.ask(("link", two))
        await end(two, "crash")
        assert (one.incarnation, two.incarnation) == (2, 2)
        await end(two, "crash")
        assert (one.incarnation, two.incarnation) == (2, 3)
        await one.ask(("link", two))  # to the life that is now
        await end(two, "crash")
        assert (one.incarnation, two.incarnation) == (3, 4)


async def test_a_link_cuts_the_handler_in_progress_of_the_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with two_branches(Diary()) as (_, one, two):
        await one.ask(("link", two))
        one.tell("wait")
        await quiet()
        await end(two, "crash")
        assert (one.incarnation, trio.current_time()) == (2, 0.0)


@pytest.mark.parametrize("how", ENDS)
async def test_who_traps_exits_hears_of_each_life_once_and_lives(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    diary = Diary()
    async with two_branches(diary, one=Traps) as (_, one, two):
        for _ in range(2):
            await one.ask(("link", two))
        reason = await end(two, how)
        assert diary.notices == [Exit(two, reason)]
        await end(two, "crash")  # that life is not linked
        assert len(diary.notices) == 1
        assert one.incarnation == 1


@pytest.mark.parametrize("who", ["one", "two"])
async def test_after_an_unlink_neither_feels_the_other(
    who: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with two_branches(Diary()) as (_, one, two):
        await one.ask(("link", two))
        unlinks, other = (one, two) if who == "one" else (two, one)
        await unlinks.ask(("unlink", other))
        await end(two, "crash")
        await end(one, "kill")
        assert (one.incarnation, two.incarnation) == (2, 2)


@pytest.mark.parametrize("number", [2, 3, 5])
async def test_a_circle_of_links_ends_each_of_its_lives_once(
    number: int, autojump_clock: trio.testing.MockClock
) -> None:
    diary = Diary()
    branches = [
        supervisor(child(Member, diary, id=f"m{n}"), id=str(n), intensity=20) for n in range(number)
    ]
    async with open_supervisor(*branches) as tree:
        circle = [tree.branch(str(n))[f"m{n}"] for n in range(number)]
        for n, each in enumerate(circle):
            await each.ask(("link", circle[(n + 1) % number]))
        await end(circle[0], "crash")
        assert [each.incarnation for each in circle] == [2] * number
        assert sorted(name for name, _, _ in diary.ends) == sorted(f"m{n}" for n in range(number))
        causes = [reason for _, _, reason in diary.ends]
        assert sum(isinstance(each, Crashed) for each in causes) == 1
        assert sum(isinstance(each, Linked) for each in causes) == number - 1
        assert [await each.ask("hello") for each in circle] == [2] * number


async def test_a_link_to_what_has_ended_is_one_to_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    diary = Diary()
    async with two_branches(diary) as (tree, one, two):
        await tree.branch("right").terminate_child("two")
        life = one.pin()
        one.tell(("link", two))
        assert await life.join() == Linked(two.path, NoProcess())
        await quiet()
        assert one.incarnation == 2
    trapped = Diary()
    async with two_branches(trapped, one=Traps) as (tree, one, two):
        await tree.branch("right").terminate_child("two")
        await one.ask(("link", two))
        await quiet()
        assert trapped.notices == [Exit(two, NoProcess())]


async def test_a_link_to_one_between_two_lives_is_one_to_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    diary = Diary()
    slow = Backoff(10, jitter=0)
    async with two_branches(diary, one=Traps, backoff=slow) as (_, one, two):
        await end(two, "crash")
        await one.ask(("link", two))
        await quiet()
        assert diary.notices == [Exit(two, NoProcess())]
        assert await two.ask("hello") == 2


async def test_the_ordered_end_of_a_supervisor_is_no_failure_to_those_linked_to_its_children(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with two_branches(Diary()) as (tree, one, two):
        await one.ask(("link", two))
        await tree.terminate_child("right")
        assert (one.incarnation, two.is_alive) == (1, False)


async def test_the_kill_of_a_supervisor_reaches_those_linked_to_its_children(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with two_branches(Diary()) as (tree, one, two):
        await one.ask(("link", two))
        path, life = two.path, one.pin()
        tree["right"].kill()
        await quiet()
        assert await life.join() == Linked(path, Killed())
        assert (one.incarnation, two.incarnation) == (2, 2)


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_siblings_that_are_taken_along_are_no_failure_to_those_linked_to_them(
    strategy: Any, autojump_clock: trio.testing.MockClock
) -> None:
    diary = Diary()
    pair = (child(Member, diary, id="x"), child(Member, diary, id="y"))
    async with open_supervisor(
        supervisor(*pair, id="left", strategy=strategy), child(Member, diary, id="far")
    ) as tree:
        x, y = (tree.branch("left")[each] for each in "xy")
        far = tree["far"]
        await far.ask(("link", y))
        await end(x, "crash")
        assert (x.incarnation, y.incarnation, far.incarnation) == (2, 2, 1)
        await far.ask(("link", x))
        await end(x, "crash")
        assert (x.incarnation, y.incarnation, far.incarnation) == (3, 3, 2)


async def test_siblings_that_are_linked_count_two_restarts_of_their_supervisor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # Each ends by itself, one of them for the link; OTP counts them so, too.
    diary = Diary()
    pair = (child(Member, diary, id="x"), child(Member, diary, id="y"))
    spec = supervisor(*pair, id="sub", intensity=1, restart="temporary")
    async with open_supervisor(spec) as tree:
        x, y = (tree.branch("sub")[each] for each in "xy")
        await x.ask(("link", y))
        sub = tree["sub"]
        x.tell("crash")
        reason = await sub.join()
        assert isinstance(reason, Shutdown)
        assert "2 restarts" in reason.detail


@pytest.mark.parametrize("how", ENDS)
async def test_links_reach_from_one_block_into_another(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    diary = Diary()
    spec = child(Member, diary, id="in")
    async with open_supervisor(spec, intensity=20) as tree, open_nursery() as nursery:
        inside = tree["in"]
        outside = await apart(nursery, Member, diary)
        await outside.ask(("link", inside))
        path = inside.path
        reason = await end(inside, how)
        if how in ABNORMAL:
            assert await outside.join() == Linked(path, reason)
            outside = await apart(nursery, Member, diary)
        assert outside.is_alive
        await outside.ask(("link", inside))
        lives = inside.incarnation
        await end(outside, how)
        assert inside.incarnation == lives + (how in ABNORMAL)


async def test_the_end_of_a_block_is_no_failure_to_those_linked_into_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    diary = Diary()
    async with open_supervisor(child(Member, diary, id="in")) as tree:
        async with open_nursery() as nursery:
            outside: Ref[Any] = nursery.spawn(Member, diary)
            await tree["in"].ask(("link", outside))
        await quiet()
        assert tree["in"].incarnation == 1


# ---- monitors


@pytest.mark.parametrize("how", ENDS)
async def test_a_monitor_fires_once_at_the_end_of_the_life_that_it_was_set_for(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    diary = Diary()
    async with two_branches(diary) as (_, one, two):
        await one.ask(("monitor", two))
        reason = await end(two, how)
        assert diary.notices == [Down(two, reason)]
        await end(two, "crash")
        await end(two, "kill")
        assert len(diary.notices) == 1
        assert (one.incarnation, two.incarnation) == (1, 4)


async def test_whoever_watches_each_life_hears_of_each_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    diary = Diary()

    class Again(Member):
        def on_down(self, down: Down) -> None:
            super().on_down(down)
            if len(self.diary.notices) < 3:
                self.monitor(down.ref)

    async with two_branches(diary, one=Again) as (_, one, two):
        await one.ask(("monitor", two))
        reasons = [await end(two, how) for how in ("crash", "kill", "leave")]
        # Set within the notice of the end, it is for the life that has begun meanwhile.
        assert diary.notices == [Down(two, reason) for reason in reasons]


async def test_two_monitors_are_two_notices_and_one_taken_back_is_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    diary = Diary()
    async with two_branches(diary) as (_, one, two):
        first = await one.ask(("monitor", two))
        for _ in range(2):
            await one.ask(("monitor", two))
        first.cancel()
        await end(two, "crash")
        assert len(diary.notices) == 2


async def test_a_monitor_of_one_that_has_ended_fires_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    diary = Diary()
    async with two_branches(diary, backoff=Backoff(10, jitter=0)) as (tree, one, two):
        await end(two, "crash")  # between two lives
        await one.ask(("monitor", two))
        await tree.branch("right").terminate_child("two")  # and for good
        await one.ask(("monitor", two))
        await quiet()
        assert diary.notices == [Down(two, NoProcess())] * 2


async def test_a_monitor_ends_with_the_life_that_has_set_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    diary = Diary()
    async with two_branches(diary) as (_, one, two):
        await one.ask(("monitor", two))
        await end(one, "crash")
        await end(two, "crash")
        assert diary.notices == []
        assert (one.incarnation, two.incarnation) == (2, 2)


async def test_the_end_of_a_supervisor_is_heard_by_those_who_watch_it_and_its_children(
    autojump_clock: trio.testing.MockClock,
) -> None:
    diary = Diary()
    async with two_branches(diary) as (tree, one, two):
        right = tree["right"]
        for each in (two, right):
            await one.ask(("monitor", each))
        right.kill()
        await quiet()
        assert diary.notices == [Down(two, Killed()), Down(right, Killed())]


async def test_monitors_and_links_leave_nothing_behind(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with two_branches(Diary(), one=Traps, intensity=None, backoff=Backoff(0.001)) as (
        _,
        one,
        two,
    ):
        for _ in range(50):
            await one.ask(("link", two))
            await one.ask(("monitor", two))
            await end(two, "crash")
            await two.ask("hello")
        rare: Any = one.rare()  # type: ignore[attr-defined] # what it holds on to is seen from inside only
        assert not rare.links
        assert not rare.monitors
