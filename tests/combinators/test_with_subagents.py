"""The combinators with subagents of flesh and blood: actors whose minds follow a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from attrs import define, field

from standby_actors import open_nursery
from standby_actors.agent import Agent, Lifetime, Limits, Remember
from standby_actors.budget import Budget
from standby_actors.events import Event, listen
from standby_actors.models import NoModel
from standby_actors.result import Result
from standby_actors.session import Memory
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import Subagent, reset_ids, spawn
from standby_actors.usage import Usage
from standby_combinators import Signal, StopSwitch, SubagentPool, fan_out, reduce, run, stop_switch


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


@define(eq=False)
class ScriptedModel:
    """Opens conversations that all answer by one rule, and keeps them for the test."""

    rule: Callable[[str], Reply]
    close_error: Exception | None = None
    sessions: list[ScriptedSession] = field(factory=list[ScriptedSession])

    def session(self, agent: Agent, /) -> ScriptedSession:
        self.sessions.append(ScriptedSession(self.rule, close_error=self.close_error))
        return self.sessions[-1]

    @property
    def open(self) -> int:
        """Conversations that were not closed, or closed more than once."""
        return sum(session.closed != 1 for session in self.sessions)


def by_the_card(task: str) -> Reply:
    """Case C36: what is asked says when, and how, the turn ends."""
    after, _, how = task.partition(" ")
    torn = RuntimeError("torn") if how == "crashes" else None
    spent = Usage(requests=1, input_tokens=10, output_tokens=3)
    return Reply(f"said at {after}", seconds=float(after), crash=torn, usage=spent)


SCOUT = Agent("scout", "Report.")
KEEPER = Agent("keeper", "Remember.", lifetime="workflow")
CARD = ["1 ok", "2 crashes", "30 is stopped", "4 ok", "5 ok"]


@pytest.mark.parametrize("agent", [SCOUT, KEEPER], ids=["task", "workflow"])
async def test_one_failing_branch_discards_none_of_the_others(
    autojump_clock: trio.testing.MockClock, agent: Agent
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    model = ScriptedModel(by_the_card)
    ended: dict[str, float] = {}

    @asynccontextmanager
    async def stop_the_third(
        agent: Agent, /, *, lifetime: Lifetime | None
    ) -> AsyncGenerator[Subagent]:
        async def stop(subagent: Subagent) -> None:
            await trio.sleep(3)
            if any("is stopped" in message.text for message in subagent.messages):
                subagent.stop()

        async with (
            spawn(agent, lifetime=lifetime, model=model) as subagent,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(stop, subagent)
            yield subagent
            nursery.cancel_scope.cancel()

    async def note(event: Event) -> None:
        if event.type == "turn.ended":
            ended[event.actor] = event.monotonic

    async with listen(note):
        done = await fan_out(agent, CARD, concurrency=5, spawn=stop_the_third)
    assert trio.current_time() == pytest.approx(5)
    assert [step.status for step in done.steps] == ["ok", "crashed", "stopped", "ok", "ok"]
    assert [step.output for step in done.steps] == ["said at 1", "", "", "said at 4", "said at 5"]
    assert sorted(ended.values()) == [1, 2, 3, 4, 5]
    error = done.steps[1].error
    assert error is not None
    assert isinstance(error.cause, RuntimeError)
    assert done.usage.turns == 5
    assert model.open == 0
    assert trio.lowlevel.current_statistics().tasks_living == before

    answer = await reduce(SCOUT, done.results, "0 Sum up.", model=ScriptedModel(by_the_card))
    assert answer.ok
    assert [step.status for step in answer.steps] == [*(s.status for s in done.steps), "ok"]


async def test_a_subagent_that_crashes_frees_its_key_and_keeps_its_answers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    model = ScriptedModel(by_the_card)
    async with SubagentPool(model=model) as pool:
        assert (await pool.turn(KEEPER, "1 ok")).ok
        assert (await pool.turn(KEEPER, "1 crashes")).status == "crashed"
        again = await pool.turn(KEEPER, "1 ok")
        assert again.ok
        assert again.subagent == "keeper#2"
        held = await pool.hold(KEEPER)
        await held.ask("1 crashes")
        # What is held stays who it was, dead or alive.
        assert (await held.ask("1 ok")).status == "refused"
    statuses = [step.status for step in pool.trail.steps]
    assert statuses == ["ok", "crashed", "ok", "crashed", "refused"]
    assert model.open == 0


async def test_those_who_wait_behind_a_turn_that_crashes_are_served_in_order_by_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    model = ScriptedModel(by_the_card)
    tasks = ["1 crashes", "1 a", "1 b", "1 c"]
    async with SubagentPool(model=model) as pool, trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(pool.turn, KEEPER, task)
            await trio.testing.wait_all_tasks_blocked()
    assert [step.status for step in pool.trail.steps] == ["crashed", "ok", "ok", "ok"]
    assert [session.asked for session in model.sessions] == [["1 crashes"], ["1 a", "1 b", "1 c"]]


async def test_what_the_trail_adds_up_is_what_the_subagents_spent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    model = ScriptedModel(by_the_card)
    async with SubagentPool(model=model) as pool, trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(pool.turn, KEEPER, "1 ok")
            nursery.start_soon(pool.turn, SCOUT, f"{number} crashes")
    usage = pool.trail.usage()
    assert usage.turns == 6
    assert usage.input_tokens == sum(each.usage.input_tokens for each in model.sessions) == 60
    assert usage.output_tokens == sum(each.usage.output_tokens for each in model.sessions) == 18
    assert usage.busy_seconds == pytest.approx(6)
    assert usage.wall_seconds == pytest.approx(3)


async def test_a_session_that_cannot_be_closed_does_not_take_its_answer_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    model = ScriptedModel(by_the_card, close_error=RuntimeError("the disk is full"))
    done = await fan_out(SCOUT, ["1 ok", "2 ok"], model=model)
    assert done.ok


@pytest.mark.parametrize("moment", [0.5, 1.0, 1.5, 2.0, 2.5])
async def test_cut_at_any_moment_a_fan_out_leaves_nothing(
    autojump_clock: trio.testing.MockClock, moment: float
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    model = ScriptedModel(by_the_card)
    with trio.move_on_after(moment):
        await fan_out([SCOUT, KEEPER] * 3, ["1 ok", "2 crashes", "3 ok"] * 2, model=model)
    assert model.open == 0
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_closing_the_pool_cuts_the_turn_in_flight_of_another_task(
    autojump_clock: trio.testing.MockClock,
) -> None:
    model = ScriptedModel(by_the_card)
    async with SubagentPool(model=model) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(pool.turn, KEEPER, "60 ok")
        nursery.start_soon(pool.turn, KEEPER, "60 ok")
        await trio.sleep(1)
        await pool.close_all()
        assert trio.current_time() < 10
    assert [step.status for step in pool.trail.steps] == ["stopped", "refused"]
    assert model.open == 0


async def test_a_turn_has_a_deadline_and_a_transcript_a_place(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    model = ScriptedModel(by_the_card)
    result = await run(SCOUT, "60 ok", model=model, timeout=3, export_dir=tmp_path)
    assert result.status == "timed_out"
    assert trio.current_time() == pytest.approx(3)
    assert await trio.Path(tmp_path / "scout-1.jsonl").is_file()


async def test_a_lifetime_of_a_session_lasts_as_long_as_the_pool(
    autojump_clock: trio.testing.MockClock,
) -> None:
    companion = Agent("companion", "Stay.", lifetime="session")
    model = ScriptedModel(by_the_card)
    async with SubagentPool(model=model) as pool:
        await pool.turn(companion, "1 ok")
        await pool.turn(companion, "1 ok")
    assert len(model.sessions) == 1


async def test_a_function_needs_no_model(autojump_clock: trio.testing.MockClock) -> None:
    async def shout(task: str) -> str:
        return task.upper()

    done = await fan_out(shout, ["a", "b"])
    assert [step.output for step in done.steps] == ["A", "B"]
    assert done.steps[0].agent == "shout"


async def test_without_a_model_nothing_is_asked(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_at_all(env: object = None) -> str:
        raise NoModel

    monkeypatch.setattr("standby_combinators.pool.default_model", none_at_all)
    with pytest.raises(NoModel, match="Three ways"):
        await run(SCOUT, "a")


async def test_a_model_that_is_named_is_opened_once_and_outlives_who_asks_it(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    closed: list[int] = []
    model = ScriptedModel(by_the_card)

    @asynccontextmanager
    async def open_scripted(name: str, api: str | None) -> AsyncGenerator[ScriptedModel]:
        opened.append(name)
        await trio.sleep(1)
        try:
            yield model
        finally:
            closed.append(model.open)

    monkeypatch.setattr("standby_combinators.opened.open_model", open_scripted)
    done = await fan_out([SCOUT, KEEPER], ["1 ok", "1 ok"], model="some/model")
    assert done.ok
    with trio.move_on_after(2.5):
        await fan_out([KEEPER, KEEPER], ["2 ok", "2 ok"], model="some/model")
    assert opened == ["some/model", "some/model"]
    # No conversation was open any more when their model was closed.
    assert closed == [0, 0]


async def test_unplugging_the_listener_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def outcome() -> list[tuple[str, str]]:
        done = await fan_out(SCOUT, CARD, model=ScriptedModel(by_the_card), timeout=10)
        return [(step.status, step.output) for step in done.steps]

    async def broken(event: Event) -> None:
        raise KeyError(event.type)

    alone = await outcome()
    async with listen(broken):
        assert await outcome() == alone


async def test_a_pool_whose_session_is_another_block_leaves_its_residents_there() -> None:
    model = ScriptedModel(lambda task: Reply(f"heard {task}"))
    resident = Agent("resident", "Remember.", lifetime="session")
    async with open_nursery() as block:
        ids: list[str] = []
        for task in ("one", "two"):
            async with SubagentPool(model=model, within=block) as pool:
                result = await pool.turn(resident, task)
                ids.append(result.subagent)
            assert model.open == 1
        assert ids == ["resident#1", "resident#1"]
        async with SubagentPool(model=model, within=block) as pool:
            assert (await pool.turn(resident, "three", key="other")).subagent == "resident#2"
    assert model.open == 0


async def test_a_pool_without_another_block_is_the_session_itself() -> None:
    model = ScriptedModel(lambda task: Reply(f"heard {task}"))
    resident = Agent("resident", "Remember.", lifetime="session")
    async with SubagentPool(model=model) as pool:
        results = [await pool.turn(resident, task) for task in ("one", "two")]
        assert model.open == 1
    assert {result.subagent for result in results} == {"resident#1"}
    assert model.open == 0


@pytest.mark.parametrize("agent", [SCOUT, KEEPER], ids=["task", "workflow"])
async def test_what_all_spend_together_is_bounded_by_the_budget_of_the_pool(agent: Agent) -> None:
    spent = Usage(requests=1, input_tokens=10, output_tokens=3)
    model = ScriptedModel(lambda task: Reply(task, usage=spent))
    budget = Budget(Limits(turns=2))
    async with SubagentPool(model=model, budget=budget) as pool:
        results = [await pool.turn(agent, str(number)) for number in range(3)]
    assert [result.status for result in results] == ["ok", "ok", "budget"]
    assert budget.spent.turns == 2
    assert model.open == 0


async def test_a_budget_counts_the_turns_of_functions_too() -> None:
    async def shout(task: str) -> str:
        return task.upper()

    budget = Budget(Limits(turns=1))
    report = await fan_out(shout, ["a", "b"], concurrency=1, budget=budget)
    assert [step.status for step in report.steps] == ["ok", "budget"]


async def test_an_agent_of_a_backend_needs_no_model_of_the_pool() -> None:
    @define
    class Backend:
        models: list[str | None] = field(factory=list[str | None])

        @asynccontextmanager
        async def open(
            self, agent: Agent, memory: Memory | None = None
        ) -> AsyncGenerator[ScriptedSession]:
            self.models.append(agent.model)
            yield ScriptedSession(lambda task: Reply(f"heard {task}"))

    backend = Backend()
    coder = Agent("coder", "Write.", backend=backend)
    assert (await run(coder, "go")).output == "heard go"
    # One that is named for all of them is named to it.
    assert (await run(coder, "go", model="opus")).output == "heard go"
    assert backend.models == [None, "opus"]


@pytest.mark.parametrize("agent", [SCOUT, KEEPER], ids=["task", "workflow"])
async def test_a_turn_that_would_pass_the_tokens_of_the_pool_is_not_begun(agent: Agent) -> None:
    # Each costs 13; whoever plays the third would pass 30, also if it is new.
    spent = Usage(requests=1, input_tokens=10, output_tokens=3)
    model = ScriptedModel(lambda task: Reply(task, usage=spent))
    budget = Budget(Limits(tokens=30))
    async with SubagentPool(model=model, budget=budget) as pool:
        results = [await pool.turn(agent, str(number)) for number in range(3)]
    assert [result.status for result in results] == ["ok", "ok", "budget"]
    assert [result.usage.turns for result in results] == [1, 1, 0]
    assert budget.spent.input_tokens + budget.spent.output_tokens == 26


@pytest.mark.parametrize("agent", [SCOUT, KEEPER], ids=["task", "workflow"])
async def test_a_turn_that_is_left_because_it_is_deaf_has_cost_what_it_has_cost_by_then(
    autojump_clock: trio.testing.MockClock, agent: Agent
) -> None:
    spent = Usage(requests=1, input_tokens=10, output_tokens=3)
    deaf = Reply("late", seconds=60, deaf_seconds=8, usage=spent)
    switch = stop_switch()
    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            await trio.sleep(1)
            await switch.one(f"{agent.name}#1")

        nursery.start_soon(stop)
        done = await run_as(agent, ScriptedModel(lambda task: deaf), switch)
    assert done.status == "stopped"
    assert (done.usage.turns, done.usage.input_tokens, done.usage.output_tokens) == (1, 10, 3)


async def run_as(agent: Agent, model: ScriptedModel, switch: StopSwitch) -> Result:
    """One turn, with the lifetime that the agent wants."""
    async with SubagentPool(model=model, switch=switch) as pool:
        await pool.turn(agent, "begin")
    return pool.trail.steps[0]


@pytest.mark.parametrize("agent", [SCOUT, KEEPER], ids=["task", "workflow"])
async def test_who_asks_a_deaf_mind_has_the_result_at_the_grace_and_the_pool_closes_it(
    autojump_clock: trio.testing.MockClock, agent: Agent
) -> None:
    spent = Usage(requests=1, input_tokens=10, output_tokens=3)
    model = ScriptedModel(lambda task: Reply("late", seconds=60, deaf_seconds=30, usage=spent))
    closes: list[Event] = []

    async def hear(event: Event) -> None:
        await trio.lowlevel.checkpoint()
        if event.type == "subagent.close" and event.actor != "quick#1":
            closes.append(event)

    start = trio.current_time()
    async with listen(hear), SubagentPool(model=model, timeout=0.5) as pool:
        result = await pool.turn(agent, "go")
        assert result.status == "timed_out"
        assert trio.current_time() - start == pytest.approx(1.5)
        assert closes == []
        # Others are played meanwhile.
        assert (await pool.turn(quick, "and you?")).output == "at once"
        await pool.close_all()
        # It has waited for the close of the deaf one, which is bounded.
        assert 1.5 < trio.current_time() - start < 12
    (told,) = closes
    assert told.data["closed"] is False
    assert "stuck" in told.data["reason"]
    assert [each.status for each in pool.trail.steps] == ["timed_out", "ok"]


async def quick(task: str) -> str:
    await trio.lowlevel.checkpoint()
    return "at once"


@pytest.mark.parametrize("how", ["a signal", "a cancellation"])
async def test_a_deaf_mind_that_is_cut_is_recorded_once_and_holds_up_nobody(
    autojump_clock: trio.testing.MockClock, how: str
) -> None:
    spent = Usage(requests=1, input_tokens=10, output_tokens=3)
    model = ScriptedModel(lambda task: Reply("late", seconds=60, deaf_seconds=30, usage=spent))
    signal = Signal()
    results: list[Result] = []
    start = trio.current_time()
    async with SubagentPool(model=model, signal=signal) as pool:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def cut() -> None:
                    await trio.sleep(1)
                    if how == "a signal":
                        signal.set("enough")
                    else:
                        scope.cancel()

                nursery.start_soon(cut)
                results.append(await pool.turn(SCOUT, "go"))
        assert trio.current_time() - start == pytest.approx(2.0)
    assert len(results) == (how == "a signal")
    (recorded,) = pool.trail.steps
    assert recorded.status == ("aborted" if how == "a signal" else "cancelled")
    assert (recorded.usage.input_tokens, recorded.usage.output_tokens) == (10, 3)


@pytest.mark.parametrize("remember", ["fresh", "replay", "summary"])
@pytest.mark.parametrize("is_held", [False, True], ids=["turn", "hold"])
async def test_who_takes_the_place_of_one_that_crashed_knows_what_its_agent_wants_remembered(
    autojump_clock: trio.testing.MockClock, remember: Remember, is_held: bool
) -> None:
    keeper = Agent("keeper", "Remember.", lifetime="workflow", remember=remember)

    def rule(task: str) -> Reply:
        torn = RuntimeError("torn") if task == "b" else None
        text = "We looked." if task.startswith("Another one") else task
        return Reply(text, crash=torn, usage=Usage(requests=1, output_tokens=1))

    model = ScriptedModel(rule)
    async with SubagentPool(model=model) as pool:
        if is_held:
            held = await pool.hold(keeper)
            await held.ask("a")
            await held.ask("b")
            held = await pool.hold(keeper)
            await held.ask("c")
        else:
            for task in "abc":
                await pool.turn(keeper, task)
        await pool.turn(keeper, "d")
    heir = next(session for session in model.sessions if session.asked == ["c", "d"])
    recalled = heir.recalled
    if remember == "fresh":
        assert recalled is None
    else:
        assert recalled is not None
        said = [message.text for message in recalled.messages]
        assert (said[:2], recalled.summary) == (
            (["a", "a"], "") if remember == "replay" else ([], "We looked.")
        )
    assert [step.status for step in pool.trail.steps] == ["ok", "crashed", "ok", "ok"]
    # A summary is paid for with the turn that it was written for.
    billed = sum(session.usage.output_tokens for session in model.sessions)
    assert pool.trail.usage().output_tokens == billed == (5 if remember == "summary" else 4)
    assert pool.trail.usage().turns == 4
    assert model.open == 0, "whoever wrote it is closed as well"
