"""A team that is called off answers, one that is cancelled does not; neither leaves anything."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from standby import Actor, open_nursery
from standby_actors.agent import Agent, Lifetime
from standby_actors.result import TurnError
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import Subagent, reset_ids, spawn
from standby_actors.usage import Usage
from standby_combinators import (
    Chain,
    FanOut,
    Report,
    Signal,
    SubagentPool,
    chain,
    fan_out,
    hedge,
    interview,
    race,
    retry,
    signal_below,
)
from standby_combinators.asker import PostedAsker

from .players import FakePlayer, FakeTroupe
from .teams import CHOOSER, EVERY_TEAM, KEEPER, SCOUT, TEAMS, WRITER, Played, good, leaves, says

MOMENTS = [0.25, 0.75, 1.25, 1.75, 2.25, 3.25]


@EVERY_TEAM
async def test_called_off_before_it_begins_nothing_is_spawned_and_the_refusal_is_recorded(
    autojump_clock: trio.testing.MockClock, name: str
) -> None:
    signal = Signal()
    signal.set("not today")
    played = Played(TEAMS[name](), FakeTroupe(good), signal=signal)
    report = await played.run()
    assert played.troupe.opened == []
    assert report.status == "aborted"
    assert str(report.error) == "aborted: not today"
    played.check()
    assert played.pool is not None
    assert played.pool.trail.steps


@EVERY_TEAM
@pytest.mark.parametrize("moment", MOMENTS)
async def test_called_off_at_any_moment_it_answers_soon_and_accounts_for_every_turn(
    autojump_clock: trio.testing.MockClock, name: str, moment: float
) -> None:
    signal = Signal()
    played = Played(TEAMS[name](), FakeTroupe(good), signal=signal)
    async with trio.open_nursery() as nursery:

        async def call_off() -> None:
            await trio.sleep(moment)
            signal.set("that is all")

        nursery.start_soon(call_off)
        report = await played.run()
        over_at = trio.current_time()
        nursery.cancel_scope.cancel()
    # Half a second for those that are being closed, one after another at most.
    assert over_at <= moment + 1.5 or report.ok
    assert report.ok or report.status == "aborted"
    played.check()
    assert {leaf.status for leaf in leaves(report)} <= {"ok", "aborted", "cancelled", "not_started"}


@EVERY_TEAM
@pytest.mark.parametrize("moment", MOMENTS)
async def test_cancelled_at_any_moment_it_leaves_nothing_and_the_trail_can_be_read(
    autojump_clock: trio.testing.MockClock, name: str, moment: float
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    played = Played(TEAMS[name](), FakeTroupe(good))
    with trio.move_on_after(moment) as scope:
        await played.run()
    # It may have come to its end already, and be closing.
    assert scope.cancelled_caught or played.report is not None
    played.check()
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_a_step_that_was_not_begun_is_recorded_in_the_name_of_who_would_have_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    signal = Signal()

    async def last_word(task: str, player: FakePlayer) -> str:
        signal.set("enough")
        return "said"

    done = await chain([SCOUT, WRITER], "a", spawn=FakeTroupe(last_word).spawn, signal=signal)
    assert [(step.agent, step.status) for step in done.steps] == [
        ("scout", "ok"),
        ("writer", "aborted"),
    ]


@pytest.mark.parametrize("kind", ["aborted", "stopped"])
async def test_a_signal_gives_its_kind_to_what_it_cuts(
    autojump_clock: trio.testing.MockClock, kind: str
) -> None:
    signal = Signal()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 2)

        async def call_off() -> None:
            await trio.sleep(0.75)
            signal.set("no more", kind=kind)  # type: ignore[arg-type]

        nursery.start_soon(call_off)
        done = await fan_out([SCOUT, KEEPER], "a", spawn=FakeTroupe(good).spawn, signal=signal)
    assert [step.status for step in done.steps] == [kind, kind]
    assert done.usage.turns == 2


async def test_what_a_race_cuts_in_a_nested_team_is_reported_by_that_team(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(task: str, player: FakePlayer) -> str:
        await trio.sleep(1 if player.agent is WRITER else 5)
        return "said"

    troupe = FakeTroupe(slow)
    done = await race([Chain([KEEPER, SCOUT]), WRITER], "a", spawn=troupe.spawn)
    assert done.output == "said"
    lost = done.steps[0]
    assert isinstance(lost, Report)
    assert [step.status for step in lost.steps] == ["cancelled"]
    assert lost.usage.turns == 1
    assert done.usage.turns == 2
    assert troupe.alive == set()


async def test_a_signal_below_leaves_the_one_above_as_it_is() -> None:
    above = Signal()
    with signal_below(above) as below, signal_below(above) as beside:
        below.set("enough", kind="cancelled")
        assert not above.is_set
        assert not beside.is_set
        above.set("all over")
        assert str(below.error) == "cancelled: enough"
        assert str(beside.error) == "aborted: all over"
        assert await above.wait() == beside.error
    with signal_below(above) as later:
        assert later.is_set


class Slow(Actor):
    """Answers, and takes its time."""

    async def receive(self, message: str) -> str:
        await trio.sleep(10)
        return message


async def test_a_borrowed_member_is_cut_and_lives_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    signal = Signal()
    session = ScriptedSession([Reply("late", seconds=10, usage=Usage(input_tokens=7)), "again"])
    async with open_nursery() as nursery, spawn(SCOUT, session=session) as subagent:
        ref = nursery.spawn(Slow)

        async def call_off() -> None:
            await trio.sleep(1)
            signal.set("enough")

        async with trio.open_nursery() as tasks:
            tasks.start_soon(call_off)
            done = await fan_out([ref, subagent], "x", signal=signal)
        assert [step.status for step in done.steps] == ["aborted", "aborted"]
        assert done.usage.input_tokens == 7
        assert trio.current_time() == 1
        assert (await subagent.ask("more")).output == "again"
        assert ref.is_alive


async def test_the_time_for_a_turn_holds_for_who_is_borrowed_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        done = await chain([nursery.spawn(Slow)], "x", timeout=2)
    assert (done.status, str(done.error)) == ("timed_out", "timeout: timed out after 2 s")


async def test_a_wait_between_two_attempts_ends_with_the_signal(
    autojump_clock: trio.testing.MockClock,
) -> None:
    signal = Signal()
    troupe = FakeTroupe(says(TurnError("provider", "500", True)))
    async with trio.open_nursery() as nursery:

        async def call_off() -> None:
            await trio.sleep(1.7)
            signal.set("enough")

        nursery.start_soon(call_off)
        done = await retry(SCOUT, "x", spawn=troupe.spawn, signal=signal)
    assert [step.status for step in done.steps] == ["failed", "aborted"]


async def test_a_person_who_is_asked_is_let_go_when_all_is_called_off(
    autojump_clock: trio.testing.MockClock,
) -> None:
    signal, asker = Signal(), PostedAsker()
    async with trio.open_nursery() as nursery:

        async def call_off() -> None:
            await trio.sleep(5)
            assert len(asker.pending) == 1
            signal.set("enough")

        nursery.start_soon(call_off)
        done = await interview(CHOOSER, "x", asker, spawn=FakeTroupe(good).spawn, signal=signal)
    assert done.status == "aborted"
    assert asker.pending == {}


async def test_the_spares_of_a_hedge_end_with_the_signal(
    autojump_clock: trio.testing.MockClock,
) -> None:
    signal = Signal()

    async def slow(task: str, player: FakePlayer) -> str:
        await trio.sleep(100)
        return "late"

    async with trio.open_nursery() as nursery:

        async def call_off() -> None:
            await trio.sleep(3)
            signal.set("enough")

        nursery.start_soon(call_off)
        done = await hedge(
            [SCOUT, KEEPER, WRITER], "x", after=2, spawn=FakeTroupe(slow).spawn, signal=signal
        )
    assert [step.status for step in done.steps] == ["aborted", "aborted", "aborted"]
    assert trio.current_time() < 5


async def test_stopping_one_branch_leaves_the_rest_as_they_were(
    autojump_clock: trio.testing.MockClock,
) -> None:
    reset_ids()
    sessions: list[ScriptedSession] = []

    @asynccontextmanager
    async def stop_the_second(
        agent: Agent, /, *, lifetime: Lifetime | None
    ) -> AsyncGenerator[Subagent]:
        session = ScriptedSession([Reply("said", seconds=5)])
        sessions.append(session)

        async def stop(subagent: Subagent) -> None:
            await trio.sleep(1)
            if subagent.id == "scout#2":
                subagent.stop()

        async with (
            spawn(agent, lifetime=lifetime, session=session) as subagent,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(stop, subagent)
            yield subagent
            nursery.cancel_scope.cancel()

    done = await FanOut([SCOUT] * 3).ask("x", spawn=stop_the_second)
    # Which branch is numbered second is the scheduler's.
    ended = {step.subagent: step.status for step in done.steps}
    assert ended == {"scout#1": "ok", "scout#2": "stopped", "scout#3": "ok"}
    assert [session.closed for session in sessions] == [1, 1, 1]


async def test_a_held_subagent_obeys_the_signal(autojump_clock: trio.testing.MockClock) -> None:
    signal = Signal()
    troupe = FakeTroupe(good)
    async with SubagentPool(spawn=troupe.spawn, signal=signal) as pool:
        held = await pool.hold(SCOUT)
        assert (await held.ask("a")).ok
        async with trio.open_nursery() as nursery:
            nursery.start_soon(held.ask, "b")
            await trio.sleep(0.5)
            signal.set("enough")
        assert (await held.ask("c")).status == "aborted"
        late = await pool.hold(WRITER)
        assert late.id == "writer"
        assert (await late.ask("d")).status == "aborted"
    assert [step.status for step in pool.trail.steps] == ["ok", "aborted", "aborted", "aborted"]
    assert len(troupe.opened) == 1
    assert pool.trail.usage().turns == 2


async def test_an_answer_that_comes_as_all_is_called_off_still_counts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    signal = Signal()

    async def last_word(task: str, player: FakePlayer) -> str:
        signal.set("enough")
        return "said"

    spawn_fake = FakeTroupe(last_word).spawn
    done = await fan_out(
        SCOUT, ["a", "b"], quorum=1, concurrency=1, signal=signal, spawn=spawn_fake
    )
    assert (done.status, done.output) == ("ok", "## scout\n\nsaid")
    assert [step.status for step in done.steps] == ["ok", "aborted"]
