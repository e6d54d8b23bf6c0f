"""Monitors watch one way; links tie two lives."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import trio
import trio.testing

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
from tests.support.homes import apart


class Watches(Actor):
    """Monitors and links as it is told; keeps its notices."""

    def __init__(self, notices: list[Any]) -> None:
        self.notices = notices

    async def receive(self, message: Any) -> Any:
        match message:
            case "spawn", actor, options:
                return self.spawn(actor, [], **options)
            case "monitor", ref:
                return self.monitor(ref)
            case "link", ref:
                return self.link(ref)
            case "unlink", ref:
                return self.unlink(ref)
            case "work", seconds:
                return await trio.sleep(seconds)
            case "crash":
                raise ValueError(message)
            case "leave":
                return self.stop()
            case _:
                return message

    def on_down(self, down: Down) -> None:
        self.notices.append(down)

    def on_exit(self, exit: Exit) -> None:  # noqa: A002 - the hook's own word
        self.notices.append(exit)


class Traps(Watches):
    """The same; the ends of others are notices to it."""

    trap_exits = True


def end(ref: Ref[Any], how: str) -> None:
    """Begin the end of `ref`."""
    if how == "kill":
        ref.kill()
    elif how == "stop":
        ref.stop()
    else:
        ref.tell(how)


ENDS: dict[str, type[Any]] = {"leave": Normal, "stop": Shutdown, "kill": Killed, "crash": Crashed}


@pytest.mark.parametrize("how", ENDS)
async def test_a_monitor_tells_once_how_its_actor_ended(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    notices: list[Any] = []
    async with open_nursery() as nursery:
        watcher: Ref[Any] = nursery.spawn(Watches, notices)
        watched = await apart(nursery, Watches, [])
        await watcher.ask(("monitor", watched))
        end(watched, how)
        reason = await watched.join()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(reason, ENDS[how])
        assert notices == [Down(watched, reason)]
        assert watcher.is_alive


async def test_a_notice_overtakes_the_mail_that_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    order: list[Any] = []

    class Orders(Watches):
        async def receive(self, message: Any) -> Any:
            if isinstance(message, int):
                order.append(message)
                return await trio.sleep(1)
            return await super().receive(message)

    async with open_nursery() as nursery:
        watcher: Ref[Any] = nursery.spawn(Orders, order)
        watched: Ref[Any] = nursery.spawn(Watches, [])
        await watcher.ask(("monitor", watched))
        for number in range(3):
            watcher.tell(number)
        await trio.sleep(0.5)
        await watched.stop()
        await trio.sleep(5)
        assert order == [0, Down(watched, Shutdown()), 1, 2]


async def test_a_watcher_that_has_ended_is_told_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    notices: list[Any] = []
    async with open_nursery() as nursery:
        watcher: Ref[Any] = nursery.spawn(Watches, notices)
        watched: Ref[Any] = nursery.spawn(Watches, [])
        await watcher.ask(("monitor", watched))
        await watcher.stop()
        await watched.stop()
        assert notices == []


@pytest.mark.parametrize("how", ENDS)
async def test_a_link_ends_the_other_only_after_an_abnormal_end(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        one = await apart(nursery, Watches, [])
        two = await apart(nursery, Watches, [])
        await one.ask(("link", two))
        end(two, how)
        reason = await two.join()
        await trio.testing.wait_all_tasks_blocked()
        if how in ("kill", "crash"):
            assert await one.join() == Linked(two.path, reason)
        else:
            assert one.is_alive


@pytest.mark.parametrize("who", [0, 1])
async def test_a_link_works_both_ways_and_cuts_the_handler_in_progress(
    who: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        pair = [await apart(nursery, Watches, []) for _ in range(2)]
        await pair[0].ask(("link", pair[1]))
        pair[1 - who].tell(("work", 100))
        await trio.sleep(1)
        pair[who].tell("crash")
        assert isinstance(await pair[1 - who].join(), Linked)
        assert trio.current_time() == 1


@pytest.mark.parametrize("how", ENDS)
async def test_who_traps_exits_gets_any_end_as_one_notice_and_lives(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    notices: list[Any] = []
    async with open_nursery() as nursery:
        traps: Ref[Any] = nursery.spawn(Traps, notices)
        other = await apart(nursery, Watches, [])
        for _ in range(2):
            await traps.ask(("link", other))
        end(other, how)
        reason = await other.join()
        await trio.testing.wait_all_tasks_blocked()
        assert notices == [Exit(other, reason)]
        assert traps.is_alive


@pytest.mark.parametrize("linked_once_more", [False, True])
@pytest.mark.parametrize("how", ENDS)
async def test_an_owner_that_traps_exits_gets_any_end_of_a_child_as_one_notice(
    how: str, linked_once_more: bool, autojump_clock: trio.testing.MockClock
) -> None:
    notices: list[Any] = []
    async with open_nursery() as nursery:
        owner: Ref[Any] = nursery.spawn(Traps, notices)
        child = await owner.ask(("spawn", Watches, {}))
        if linked_once_more:
            await owner.ask(("link", child))
        end(child, how)
        reason = await child.join()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(reason, ENDS[how])
        assert notices == [Exit(child, reason)]
        assert owner.is_alive


@pytest.mark.parametrize("how", ENDS)
async def test_an_owner_hears_nothing_of_a_child_that_is_not_linked(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    notices: list[Any] = []
    async with open_nursery() as nursery:
        owner: Ref[Any] = nursery.spawn(Traps, notices)
        child = await owner.ask(("spawn", Watches, {"link": False}))
        end(child, how)
        await child.join()
        await trio.testing.wait_all_tasks_blocked()
        assert (notices, owner.is_alive) == ([], True)


async def test_the_children_that_an_owner_takes_along_are_no_notices_to_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    notices: list[Any] = []
    async with open_nursery() as nursery:
        owner: Ref[Any] = nursery.spawn(Traps, notices)
        for _ in range(3):
            await owner.ask(("spawn", Watches, {}))
        assert await owner.stop() == Shutdown()
        assert notices == []


async def test_an_unlinked_child_may_crash_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        owner: Ref[Any] = nursery.spawn(Watches, [])
        child = await owner.ask(("spawn", Watches, {}))
        await owner.ask(("unlink", child))
        child.tell("crash")
        assert isinstance(await child.join(), Crashed)
        assert await owner.ask("still there") == "still there"


async def test_after_an_unlink_neither_feels_the_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        one = await apart(nursery, Watches, [])
        two = await apart(nursery, Watches, [])
        await one.ask(("link", two))
        await two.ask(("unlink", one))
        two.tell("crash")
        await two.join()
        await trio.testing.wait_all_tasks_blocked()
        assert one.is_alive


async def test_a_link_to_the_dead_ends_who_does_not_trap_and_says_nobody_was_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        dead: Ref[Any] = nursery.spawn(Watches, [])
        await dead.stop()
        one = await apart(nursery, Watches, [])
        one.tell(("link", dead))
        assert await one.join() == Linked(dead.path, NoProcess())


async def test_an_end_goes_through_a_chain_of_links_and_each_names_the_one_before(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        chain = [await apart(nursery, Watches, []) for _ in range(4)]
        for one, two in itertools.pairwise(chain):
            await one.ask(("link", two))
        chain[-1].tell("crash")
        reasons: list[ExitReason] = [await ref.join() for ref in chain]
        for place in range(3):
            assert reasons[place] == Linked(chain[place + 1].path, reasons[place + 1])


async def test_a_circle_of_links_ends_each_of_them_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        circle = [await apart(nursery, Watches, []) for _ in range(5)]
        for place, ref in enumerate(circle):
            await ref.ask(("link", circle[place - 1]))
        circle[0].tell("crash")
        reasons = [await ref.join() for ref in circle]
        assert isinstance(reasons[0], Crashed)
        assert all(isinstance(reason, Linked) for reason in reasons[1:])


async def test_a_link_to_oneself_is_no_link(autojump_clock: trio.testing.MockClock) -> None:
    async with open_nursery() as nursery:
        ref = await apart(nursery, Watches, [])
        await ref.ask(("link", ref))
        ref.kill()
        assert await ref.join() == Killed()


async def test_links_and_monitors_reach_over_blocks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    notices: list[Any] = []
    async with open_nursery() as outer:
        traps: Ref[Any] = outer.spawn(Traps, notices)
        async with open_nursery() as inner:
            other: Ref[Any] = inner.spawn(Watches, [])
            await traps.ask(("link", other))
            await traps.ask(("monitor", other))
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(map(type, notices), key=str) == sorted([Down, Exit], key=str)
        assert {notice.reason for notice in notices} == {Shutdown()}
