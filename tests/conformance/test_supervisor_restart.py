"""OTP's supervisor suite, cases 29 to 43: restart strategies and their escalation.

The name of each test contains the name of the original case; its numbers are the
original ones.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import trio

from standby_actors import Crashed, Killed, Ref, Shutdown
from standby_supervision import Backoff, Branch, Done, Ignore, Started
from tests.conformance.children import (
    Answers,
    Died,
    Outcome,
    W,
    World,
    Z,
    counts,
    crash,
    crash_together,
    end,
    fails_later,
    life,
    lives,
    own,
    quiet,
    reason_of,
    stays,
    supervised,
    w,
    which,
)


async def started(sup: Branch, *args: Any, id: str | None = None) -> Ref[Any]:  # noqa: A002 - OTP's word
    """A further child of a dynamic supervisor."""
    answer = await sup.start(*args, id=id)
    assert isinstance(answer, Started)
    return answer.ref


def gave_up(reason: object, culprit: str) -> bool:
    """Whether a supervisor ended for too many restarts.

    A difference on purpose: OTP says a bare ``shutdown``, ours is a shutdown that
    names the child.
    """
    return isinstance(reason, Shutdown) and reason.detail.startswith(f"gave up: child {culprit}")


async def test_multiple_restarts_that_are_far_apart_do_not_add_up(autojump_clock: object) -> None:
    world = World()
    async with supervised(w(world, "c1", shutdown="brutal_kill"), intensity=1, period=1) as sup:
        await crash(sup["c1"])
        for _ in range(3):
            await trio.sleep(2.1)
            await crash(sup["c1"])
        assert await stays(sup.ref)
        assert world.starts["c1"] == 5
        assert await sup.terminate_child("c1") == Done()
        assert await sup.delete_child("c1") == Done()


async def test_one_for_one_restarts_the_one_and_gives_up_at_the_third(
    autojump_clock: object,
) -> None:
    world = World()
    async with supervised(w(world, "c1"), w(world, "c2"), intensity=2, period=3600) as sup:
        before = await lives(sup)
        await crash(sup["c1"])
        after = await lives(sup)
        assert after["c1"] != before["c1"]
        assert after["c2"] == before["c2"]
        assert await counts(sup) == [2, 2, 0, 2]
        await crash(sup["c1"])
        await crash(sup["c1"])
        assert gave_up(await reason_of(sup.ref), "c1")


async def test_one_for_one_escalation_ends_the_supervisor_and_the_sibling(
    autojump_clock: object,
) -> None:
    world = World(scripts={"c1": fails_later})
    async with supervised(w(world, "c1"), w(world, "c2"), intensity=4, period=3600) as sup:
        c2 = sup["c2"]
        await crash(sup["c1"])
        assert gave_up(await reason_of(sup.ref), "c1")
        assert await reason_of(c2) == Shutdown()
        assert world.starts["c1"] == 1 + 4


async def test_one_for_all_restarts_all_and_gives_up_at_the_third(autojump_clock: object) -> None:
    world = World()
    async with supervised(
        w(world, "c1"), w(world, "c2"), strategy="one_for_all", intensity=2, period=3600
    ) as sup:
        before = await lives(sup)
        world.take()
        await crash(sup["c1"])
        assert world.take() == [
            ("down", "c1", "crash"),
            ("down", "c2", "shutdown"),
            ("up", "c1", 2),
            ("up", "c2", 2),
        ]
        after = await lives(sup)
        assert after.keys() == before.keys()
        assert all(after[each] != before[each] for each in after)
        assert await counts(sup) == [2, 2, 0, 2]
        await crash(sup["c1"])
        await crash(sup["c1"])
        assert gave_up(await reason_of(sup.ref), "c1")


async def test_one_for_all_escalation_ends_all(autojump_clock: object) -> None:
    world = World(scripts={"c2": fails_later})
    async with supervised(
        w(world, "c1"), w(world, "c2"), strategy="one_for_all", intensity=4, period=3600
    ) as sup:
        c2 = sup["c2"]
        dead = life(c2)
        await crash(sup["c1"])
        assert gave_up(await reason_of(sup.ref), "c2")
        assert not c2.is_alive
        assert dead[1] == 1


async def test_one_for_all_other_child_fails_restart_and_all_begin_again(
    autojump_clock: object,
) -> None:
    world = World()
    answers = Answers(world, "c1", "c2")
    async with trio.open_nursery() as nursery:

        async def first_start() -> None:
            await answers.next_asks("c1")
            await answers.next_asks("c2")

        nursery.start_soon(first_start)
        async with supervised(
            w(world, "c1"), w(world, "c2"), strategy="one_for_all", intensity=3, period=3600
        ) as sup:
            world.take()
            sup["c1"].tell("die")
            await answers.next_asks("c1")
            await answers.next_asks("c2", Died("c2 does not want to"))
            await answers.next_asks("c1")
            await answers.next_asks("c2")
            await quiet()
            assert world.take() == [
                ("down", "c1", "crash"),
                ("down", "c2", "shutdown"),
                ("up", "c1", 2),
                ("down", "c1", "shutdown"),
                ("up", "c1", 3),
                ("up", "c2", 3),
            ]
            assert await counts(sup) == [2, 2, 0, 2]


async def test_simple_one_for_one_restarts_the_one_and_gives_up_at_the_third(
    autojump_clock: object,
) -> None:
    world = World()
    async with supervised(own(world), strategy="dynamic", intensity=2, period=3600) as sup:
        one, two = await started(sup, "one"), await started(sup, "two")
        before = life(one), life(two)
        await crash(one)
        assert life(one) != before[0]
        assert life(two) == before[1]
        assert await counts(sup) == [1, 2, 0, 2]
        await crash(one)
        await crash(two)
        reason = await reason_of(sup.ref)
        assert isinstance(reason, Shutdown)
        assert not one.is_alive
        assert not two.is_alive


async def test_simple_one_for_one_shutdown_waits_for_all_at_once(autojump_clock: object) -> None:
    world = World()
    template = own(world, Z, shutdown=2.0)
    async with supervised(template, strategy="dynamic", intensity=2, period=3600) as sup:
        for name, seconds in (("one", 1), ("two", 1), ("three", 5)):
            await started(sup, name, seconds)
        began = trio.current_time()
        assert await sup.ref.stop() == Shutdown()
        assert 1.0 <= trio.current_time() - began < 5.0


async def test_simple_one_for_one_extra_is_asked_of_the_child_itself(
    autojump_clock: object,
) -> None:
    # OTP's start may answer with extra information; our answer is a ref, which can be asked.
    world = World()
    async with supervised(own(world), strategy="dynamic", intensity=2, period=3600) as sup:
        one, two = await started(sup, "one"), await started(sup, "two")
        assert await one.ask("extra") == "extra"
        before = life(one), life(two)
        await crash(one)
        assert life(one) != before[0]
        assert life(two) == before[1]
        assert await counts(sup) == [1, 2, 0, 2]
        await crash(one)
        await crash(two)
        assert isinstance(await reason_of(sup.ref), Shutdown)


async def test_simple_one_for_one_escalation_ends_the_supervisor_and_the_other(
    autojump_clock: object,
) -> None:
    world = World(scripts={"one": fails_later})
    async with supervised(own(world), strategy="dynamic", intensity=4, period=3600) as sup:
        one, two = await started(sup, "one", id="one"), await started(sup, "two")
        await crash(one)
        assert gave_up(await reason_of(sup.ref), "one")
        assert await reason_of(two) == Shutdown()


class Payload:
    """A large argument; what holds it can be found out."""

    def __init__(self) -> None:
        self.elements = list(range(50_000))


async def test_simple_one_for_one_corruption_no_argument_of_an_ended_child_is_kept(
    autojump_clock: object,
) -> None:
    world = World()
    template = own(world, restart="temporary")
    async with supervised(template, strategy="dynamic", intensity=2, period=3600) as sup:
        await crash(await started(sup, "first", id="first"))
        payload = Payload()
        seen = weakref.ref(payload)
        later = await started(sup, "later", payload, id="later")
        del payload
        await crash(later)
        del later
        gc.collect()
        assert seen() is None
        assert await which(sup) == []


@pytest.mark.parametrize("restart", ["transient", "permanent"])
async def test_simple_one_for_one_restart_ignore_drops_the_child(
    restart: str, autojump_clock: object
) -> None:
    def script(number: int) -> Outcome:
        return Ignore() if number == 3 else None

    world = World(scripts={"one": script})
    template = own(world, restart=restart)
    async with supervised(template, strategy="dynamic", intensity=10, period=3600) as sup:
        one = await started(sup, "one")
        assert isinstance(await end(one, "kill"), Killed)
        assert await counts(sup) == [1, 1, 0, 1]
        assert isinstance(await end(one, "kill"), Killed)
        assert await which(sup) == []
        assert not one.is_alive
        assert await sup.ref.stop() == Shutdown()


async def test_rest_for_one_leaves_the_earlier_alone_and_gives_up_at_the_third(
    autojump_clock: object,
) -> None:
    world = World()
    async with supervised(
        *(w(world, each) for each in ("c1", "c2", "c3")),
        strategy="rest_for_one",
        intensity=2,
        period=3600,
    ) as sup:
        before = await lives(sup)
        world.take()
        await crash(sup["c2"])
        assert ("down", "c3", "shutdown") in world.take()
        after = await lives(sup)
        assert after["c1"] == before["c1"]
        assert after["c2"] != before["c2"]
        assert after["c3"] != before["c3"]
        assert await counts(sup) == [3, 3, 0, 3]
        await crash(sup["c3"])
        await crash(sup["c2"])
        assert gave_up(await reason_of(sup.ref), "c2")


async def test_rest_for_one_escalation_ends_all(autojump_clock: object) -> None:
    world = World(scripts={"c2": fails_later})
    async with supervised(
        w(world, "c1"), w(world, "c2"), strategy="rest_for_one", intensity=4, period=3600
    ) as sup:
        c2 = sup["c2"]
        await crash(sup["c1"])
        assert gave_up(await reason_of(sup.ref), "c2")
        assert not c2.is_alive


async def test_rest_for_one_other_child_fails_restart_and_it_alone_is_tried_again(
    autojump_clock: object,
) -> None:
    world = World()
    answers = Answers(world, "c1", "c2")
    async with trio.open_nursery() as nursery:

        async def first_start() -> None:
            await answers.next_asks("c1")
            await answers.next_asks("c2")

        nursery.start_soon(first_start)
        async with supervised(
            w(world, "c1"), w(world, "c2"), strategy="rest_for_one", intensity=3, period=3600
        ) as sup:
            world.take()
            sup["c1"].tell("die")
            await answers.next_asks("c1")
            await answers.next_asks("c2", Died("c2 does not want to"))
            await answers.next_asks("c2")
            await quiet()
            assert world.take() == [
                ("down", "c1", "crash"),
                ("down", "c2", "shutdown"),
                ("up", "c1", 2),
                ("up", "c2", 3),
            ]
            assert await counts(sup) == [2, 2, 0, 2]


# ---- not in the suite: what follows from the rules


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_two_that_crash_together_are_restarted_once(
    strategy: str, autojump_clock: object
) -> None:
    world = World()
    async with supervised(
        w(world, "c1"), w(world, "c2"), strategy=strategy, intensity=1, period=3600
    ) as sup:
        await crash_together(sup, "c1", "c2")
        assert await stays(sup.ref)
        assert world.starts == {"c1": 2, "c2": 2}


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
async def test_children_started_again_in_between_still_stop_in_reverse_order(
    strategy: str, autojump_clock: object
) -> None:
    world = World()
    async with supervised(
        *(w(world, each) for each in ("c1", "c2", "c3")), strategy=strategy, intensity=5
    ) as sup:
        await sup.terminate_child("c1")
        await sup.terminate_child("c2")
        assert isinstance(await sup.restart_child("c1"), Started)
        await crash(sup["c1"])
        await sup.restart_child("c2")
        world.take()
    assert [name for _, name, _ in world.diary] == ["c3", "c2", "c1"]


async def test_a_child_that_ends_abnormally_by_itself_says_so(autojump_clock: object) -> None:
    world = World()
    async with supervised(w(world, "c1", W)) as sup:
        reason = await end(sup["c1"], "crash")
        assert isinstance(reason, Crashed)
        assert isinstance(reason.error, Died)


# ---- a difference on purpose: OTP restarts at once, and as fast as it can


async def test_a_backoff_waits_longer_each_time_until_a_life_was_long_enough(
    autojump_clock: object,
) -> None:
    world = World()
    backoff = Backoff(1.0, factor=2.0, cap=8.0, jitter=0.0, reset_after=10.0)
    async with supervised(w(world, "c1"), intensity=9, period=3600, backoff=backoff) as sup:
        ref = sup["c1"]

        async def downtime() -> float:
            began = trio.current_time()
            await crash(ref)
            assert await which(sup) == [("c1", "restarting")]  # calls are served meanwhile
            assert await ref.ask("back?") == "back?"
            return trio.current_time() - began

        assert [await downtime() for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]
        await trio.sleep(10.5)
        assert await downtime() == 1.0


async def test_a_backoff_of_attempts_that_fail_goes_on_where_the_crash_began(
    autojump_clock: object,
) -> None:
    at: list[float] = []

    def script(number: int) -> Outcome:
        at.append(trio.current_time())
        return Died("not yet") if 1 < number < 4 else None

    world = World(scripts={"c1": script})
    backoff = Backoff(1.0, factor=2.0, cap=60.0, jitter=0.0)
    async with supervised(w(world, "c1"), intensity=9, period=3600, backoff=backoff) as sup:
        await crash(sup["c1"])
        assert await sup["c1"].ask("back?") == "back?"
        assert at == [0.0, 1.0, 3.0, 7.0]


async def test_a_backoff_does_not_hold_up_a_stop(autojump_clock: object) -> None:
    world = World()
    backoff = Backoff(1000.0, cap=1000.0)
    async with supervised(w(world, "c1"), intensity=9, backoff=backoff) as sup:
        await crash(sup["c1"])
        assert await sup.ref.stop() == Shutdown()
        assert trio.current_time() == 0.0
        assert world.starts["c1"] == 1
