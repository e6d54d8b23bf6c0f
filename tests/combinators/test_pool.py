"""The pool: who shares a subagent, in which order, and what is left when it is gone."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent
from standby_actors.models import NoModel
from standby_actors.result import Result
from standby_combinators.signal import Signal
from standby_combinators.team import SubagentPool
from standby_combinators.trail import Trail

from .players import FakePlayer, FakeTroupe, echo

SCOUT = Agent("scout", "Report.")
KEEPER = Agent("keeper", "Remember.", lifetime="workflow")


async def test_a_task_is_played_by_a_fresh_subagent_that_is_closed_when_it_is_done(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    async with SubagentPool(spawn=troupe.spawn) as pool:
        assert (await pool.turn(SCOUT, "a")).output == "a"
        assert troupe.alive == set()
        assert (await pool.turn(SCOUT, "b")).subagent == "scout#2"
    assert [player.memory for player in troupe.opened] == [["a"], ["b"]]


async def test_a_kept_subagent_plays_every_turn_of_its_key_until_the_pool_closes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    async with SubagentPool(spawn=troupe.spawn) as pool:
        await pool.turn(KEEPER, "a")
        await pool.turn(KEEPER, "b")
        await pool.turn(KEEPER, "c", key="other")
        assert troupe.alive == {"keeper#1", "keeper#2"}
    assert troupe.alive == set()
    assert [player.memory for player in troupe.opened] == [["a", "b"], ["c"]]


async def test_the_lifetime_is_decided_agent_by_agent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    async with SubagentPool(spawn=troupe.spawn) as pool:
        for _ in range(3):
            await pool.turn(KEEPER, "x")
            await pool.turn(SCOUT, "x")
    assert len(troupe.opened) == 4
    insisting = FakeTroupe()
    async with SubagentPool(lifetime="workflow", spawn=insisting.spawn) as pool:
        for _ in range(3):
            await pool.turn(KEEPER, "x")
            await pool.turn(SCOUT, "x")
    assert len(insisting.opened) == 2


async def test_who_asks_at_once_shares_one_spawn_and_is_served_in_the_order_of_asking(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slowly(task: str, player: FakePlayer) -> str:
        await trio.sleep(1)
        return task

    troupe = FakeTroupe(slowly)
    results: dict[str, Result] = {}
    async with SubagentPool(spawn=troupe.spawn) as pool:

        async def ask(task: str) -> None:
            results[task] = await pool.turn(KEEPER, task)

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, str(number))
                # Lets each reach its place in the queue before the next begins.
                await trio.testing.wait_all_tasks_blocked()
    assert len(troupe.opened) == 1
    assert troupe.opened[0].memory == [str(number) for number in range(20)]
    assert all(results[task].output == task for task in results)


async def test_two_agents_of_one_name_never_share_a_memory(
    autojump_clock: trio.testing.MockClock,
) -> None:
    other = Agent("keeper", "Forget.", lifetime="workflow")
    same = Agent("keeper", "Remember.", lifetime="workflow")
    troupe = FakeTroupe()
    async with SubagentPool(spawn=troupe.spawn) as pool:
        await pool.turn(KEEPER, "a")
        await pool.turn(other, "b")
        await pool.turn(same, "c")
    assert [player.memory for player in troupe.opened] == [["a", "c"], ["b"]]


async def test_what_is_held_outlives_its_turns_whatever_the_lifetime(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    async with SubagentPool(lifetime="task", spawn=troupe.spawn) as pool:
        held = await pool.hold(SCOUT)
        assert held.id == "scout#1"
        await held.ask("a")
        await held.ask("b")
        assert troupe.alive == {"scout#1"}
    assert troupe.opened[0].memory == ["a", "b"]
    assert [step.output for step in pool.trail.steps] == ["a", "b"]


async def test_closing_ends_the_subagents_and_not_the_record(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    async with SubagentPool(spawn=troupe.spawn) as pool:
        held = await pool.hold(KEEPER)
        await held.ask("a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.close_all)
            nursery.start_soon(pool.close_all)
        assert troupe.alive == set()
        await pool.close_all()
        # It was closed, and says so to who still holds it.
        assert (await held.ask("b")).status == "refused"
        # Whoever asks anew gets a new one.
        assert (await pool.turn(KEEPER, "c")).subagent == "keeper#2"
    assert [step.status for step in pool.trail.steps] == ["ok", "refused", "ok"]


async def test_all_are_closed_at_the_same_time(autojump_clock: trio.testing.MockClock) -> None:
    troupe = FakeTroupe()
    async with SubagentPool(spawn=troupe.spawn) as pool:
        for number in range(10):
            await pool.turn(KEEPER, "x", key=str(number))
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(0.5)


async def test_a_spawn_that_fails_is_the_result_of_those_who_wait_for_it_and_may_be_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    attempts: list[Agent] = []

    async def fail_once(agent: Agent) -> None:
        attempts.append(agent)
        await trio.sleep(1)
        if len(attempts) == 1:
            raise OSError("no such program")

    troupe = FakeTroupe(opening=fail_once)
    results: list[Result] = []
    async with SubagentPool(spawn=troupe.spawn) as pool:

        async def ask() -> None:
            results.append(await pool.turn(KEEPER, "a"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
        assert [result.status for result in results] == ["crashed", "crashed"]
        error = results[0].error
        assert error is not None
        assert error.kind == "start_failed"
        assert error.message == "no subagent could be spawned: OSError: no such program"
        assert isinstance(error.cause, OSError)
        assert (await pool.turn(KEEPER, "b")).ok
    assert [step.status for step in pool.trail.steps] == ["crashed", "crashed", "ok"]


async def test_a_task_whose_spawn_fails_is_a_result_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fail(agent: Agent) -> None:
        raise OSError("no such program")

    async with SubagentPool(spawn=FakeTroupe(opening=fail).spawn) as pool:
        assert (await pool.turn(SCOUT, "a")).status == "crashed"
        held = await pool.hold(SCOUT, key="mine")
        assert held.id == "mine"
        assert (await held.ask("a")).status == "crashed"


async def test_no_model_is_misuse_and_raises(autojump_clock: trio.testing.MockClock) -> None:
    async def refuse(agent: Agent) -> None:
        raise NoModel

    async with SubagentPool(spawn=FakeTroupe(opening=refuse).spawn) as pool:
        with pytest.raises(NoModel):
            await pool.turn(SCOUT, "a")
        with pytest.raises(NoModel):
            await pool.turn(KEEPER, "a")
        with pytest.raises(NoModel):
            await pool.hold(KEEPER)
    assert pool.trail.steps == ()


async def test_a_close_that_fails_does_not_take_the_answer_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fail(player: FakePlayer) -> None:
        raise RuntimeError("the disk is full")

    troupe = FakeTroupe(closing=fail)
    async with SubagentPool(spawn=troupe.spawn) as pool:
        assert (await pool.turn(SCOUT, "a")).output == "a"
        assert (await pool.turn(KEEPER, "b")).output == "b"
    assert troupe.alive == set()


async def test_the_body_s_own_error_passes_as_it_is_and_all_is_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()

    async def body() -> None:
        async with SubagentPool(spawn=troupe.spawn) as pool:
            await pool.turn(KEEPER, "a")
            raise KeyError("mine")

    with pytest.raises(KeyError):
        await body()
    assert troupe.alive == set()


@pytest.mark.parametrize("moment", [0.25, 0.75, 1.25, 2.25])
async def test_a_cancellation_closes_everything_passes_and_leaves_the_trail_readable(
    autojump_clock: trio.testing.MockClock, moment: float
) -> None:
    async def opening(agent: Agent) -> None:
        await trio.sleep(1)

    async def slowly(task: str, player: FakePlayer) -> str:
        await trio.sleep(1)
        return task

    troupe = FakeTroupe(slowly, opening=opening)
    pool = SubagentPool(spawn=troupe.spawn, trail=Trail())
    with trio.move_on_after(moment) as scope:
        async with pool, trio.open_nursery() as nursery:
            nursery.start_soon(pool.turn, KEEPER, "a")
            nursery.start_soon(pool.turn, KEEPER, "b")
            nursery.start_soon(pool.turn, SCOUT, "c")
    assert scope.cancelled_caught
    assert troupe.alive == set()
    assert {step.status for step in pool.trail.steps} <= {"ok", "cancelled"}


async def test_an_error_of_the_body_is_not_hidden_by_a_cancellation_of_the_owner(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()

    async def body(scope: trio.CancelScope) -> None:
        async with SubagentPool(spawn=troupe.spawn) as pool:
            await pool.turn(KEEPER, "a")
            scope.cancel()
            raise KeyError("mine")

    with trio.CancelScope() as scope, pytest.raises(KeyError):
        await body(scope)
    assert troupe.alive == set()


async def test_a_caller_who_gives_up_while_waiting_leaves_the_queue(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slowly(task: str, player: FakePlayer) -> str:
        await trio.sleep(10)
        return task

    troupe = FakeTroupe(slowly)
    async with SubagentPool(spawn=troupe.spawn) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(pool.turn, KEEPER, "a")
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await pool.turn(KEEPER, "b")
        assert (await pool.turn(KEEPER, "c")).ok
    assert troupe.opened[0].memory == ["a", "c"]


async def test_a_pool_that_is_not_open_plays_nothing() -> None:
    pool = SubagentPool(spawn=FakeTroupe().spawn)
    with pytest.raises(RuntimeError, match="not open"):
        await pool.turn(SCOUT, "a")
    async with pool:
        pass
    with pytest.raises(RuntimeError, match="not open"):
        await pool.turn(KEEPER, "a")
    with pytest.raises(RuntimeError, match="entered once"):
        await pool.__aenter__()


async def test_a_lifetime_that_is_none_is_refused_before_anything_begins() -> None:
    with pytest.raises(ValueError, match="a lifetime is one of"):
        SubagentPool(lifetime="forever", spawn=FakeTroupe(echo).spawn)  # type: ignore[arg-type]


async def test_the_trail_adds_up_what_was_spent_within_the_time_that_went_by(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slowly(task: str, player: FakePlayer) -> str:
        await trio.sleep(3)
        return task

    async with SubagentPool(spawn=FakeTroupe(slowly).spawn) as pool, trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(pool.turn, SCOUT, "x")
    usage = pool.trail.usage()
    assert usage.turns == usage.output_tokens == 4
    assert usage.busy_seconds == pytest.approx(12)
    assert usage.wall_seconds == pytest.approx(3.5)
    assert pool.trail.parallelism == pytest.approx(12 / 3.5)
    # Read later, it has not grown.
    await trio.sleep(100)
    assert pool.trail.wall_seconds == pytest.approx(3.5)
    assert pool.trail.broken is None


@pytest.mark.parametrize("agent", [SCOUT, KEEPER], ids=["task", "workflow"])
async def test_a_signal_cuts_the_turns_in_flight_and_lets_no_other_begin(
    autojump_clock: trio.testing.MockClock, agent: Agent
) -> None:
    async def slowly(task: str, player: FakePlayer) -> str:
        await trio.sleep(10)
        return task

    troupe = FakeTroupe(slowly)
    signal = Signal()
    async with SubagentPool(spawn=troupe.spawn, signal=signal) as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.turn, agent, "a")
            nursery.start_soon(pool.turn, agent, "b")
            await trio.sleep(3)
            signal.set("the meeting is over")
        assert trio.current_time() < 5
        opened = len(troupe.opened)
        after = await pool.turn(agent, "c")
        assert len(troupe.opened) == opened
    assert [str(step.error) for step in pool.trail.steps] == ["aborted: the meeting is over"] * 3
    assert after.status == "aborted"
    assert troupe.alive == set()


async def test_an_answer_that_was_given_before_the_signal_is_kept(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    signal = Signal()
    async with (
        SubagentPool(spawn=troupe.spawn, signal=signal) as pool,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(pool.turn, SCOUT, "a")
        # It has answered, and is being closed.
        await trio.sleep(0.25)
        signal.set()
    [step] = pool.trail.steps
    assert step.output == "a"
    assert pool.trail.usage().turns == 1


async def test_one_turn_may_have_a_signal_of_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    mine = Signal()
    mine.set("enough", kind="cancelled")
    async with SubagentPool(spawn=troupe.spawn) as pool:
        assert (await pool.turn(SCOUT, "a", signal=mine)).status == "cancelled"
        assert (await pool.turn(SCOUT, "a")).ok


@pytest.mark.parametrize("is_held", [False, True], ids=["turn", "hold"])
@pytest.mark.parametrize("others", [0, 1])
async def test_a_spawn_that_nobody_wants_any_more_is_given_up(
    autojump_clock: trio.testing.MockClock, is_held: bool, others: int
) -> None:
    async def slowly(agent: Agent) -> None:
        await trio.sleep(5)

    troupe, signal = FakeTroupe(opening=slowly), Signal()
    said: list[str] = []

    async def want(signal: Signal | None) -> None:
        if is_held:
            held = await pool.hold(KEEPER, signal=signal)
            said.append((await held.ask("a")).status)
        else:
            said.append((await pool.turn(KEEPER, "a", signal=signal)).status)

    async with SubagentPool(spawn=troupe.spawn) as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(want, signal)
            for _ in range(others):
                nursery.start_soon(want, None)
            await trio.sleep(1)
            signal.set("enough")
        await trio.sleep(60)
        # Another who wants it has it; else it was never there, and the next has a new one.
        assert len(troupe.opened) == others
        assert (await pool.turn(KEEPER, "b")).ok
    assert said == ["aborted", "ok"][: 1 + others]
    assert len(troupe.opened) == 1
    assert troupe.alive == set()


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_turn_that_may_take_no_time_is_refused_where_it_is_said(timeout: float) -> None:
    with pytest.raises(ValueError, match="more than 0 seconds"):
        SubagentPool(timeout=timeout)


async def test_a_task_that_is_no_text_is_refused_before_anything_is_spawned() -> None:
    troupe = FakeTroupe()
    async with SubagentPool(spawn=troupe.spawn) as pool:
        with pytest.raises(TypeError, match="a task is a str, not int"):
            await pool.turn(SCOUT, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert (troupe.opened, pool.trail.steps) == ([], ())
