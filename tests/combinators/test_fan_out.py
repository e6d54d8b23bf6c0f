"""Fan-outs are in order, bounded and isolated, and what reduces them sees their failures."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent
from standby_actors.models import NoModel
from standby_actors.result import Result, failed
from standby_combinators.fan_out import fan_out, map_concurrent
from standby_combinators.reduce import in_groups, reduce
from standby_combinators.run import run
from standby_combinators.tokens import estimate_tokens

from .players import FakePlayer, FakeTroupe, echo

SCOUT = Agent("scout", "Report.")
KEEPER = Agent("keeper", "Remember.", lifetime="workflow")
WRITER = Agent("writer", "Sum up.")


async def random_time(task: str, player: FakePlayer) -> str:
    """Takes a time that depends on the task alone, and says the task."""
    await trio.sleep(random.Random(task).random() * 10)
    return task


async def by_the_card(task: str, player: FakePlayer) -> str | Result:
    """Case C36: what is asked says when, and how, the turn ends."""
    after, _, how = task.partition(" ")
    await trio.sleep(float(after))
    match how:
        case "raises":
            raise RuntimeError("torn")
        case "stopped":
            return failed(player.agent.name, "stopped", subagent=player.id)
        case _:
            return f"said at {after}"


async def test_results_are_in_the_order_of_the_tasks_and_no_more_run_than_allowed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe(random_time)
    tasks = [f"task {number}" for number in range(30)]
    done = await fan_out(SCOUT, tasks, concurrency=3, spawn=troupe.spawn)
    assert [step.output for step in done.steps] == tasks
    assert troupe.most_alive == 3
    assert troupe.alive == set()


@pytest.mark.parametrize("agent", [SCOUT, KEEPER], ids=["task", "workflow"])
async def test_no_two_branches_share_a_memory(
    autojump_clock: trio.testing.MockClock, agent: Agent
) -> None:
    troupe = FakeTroupe()
    await fan_out(agent, ["a", "b", "c", "d", "e"], concurrency=2, spawn=troupe.spawn)
    assert sorted(player.memory for player in troupe.opened) == [["a"], ["b"], ["c"], ["d"], ["e"]]
    assert troupe.alive == set()


async def test_one_failing_branch_discards_none_of_the_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # As a subagent does, the pool makes a Result of what is raised.
    troupe = FakeTroupe(by_the_card)
    tasks = ["1 ok", "2 raises", "3 stopped", "4 ok", "5 ok"]
    done = await fan_out(SCOUT, tasks, concurrency=5, spawn=troupe.spawn)
    assert trio.current_time() == pytest.approx(5.5)
    assert [step.status for step in done.steps] == ["ok", "crashed", "stopped", "ok", "ok"]
    assert [step.output for step in done.steps] == ["said at 1", "", "", "said at 4", "said at 5"]
    error = done.steps[1].error
    assert error is not None
    assert isinstance(error.cause, RuntimeError)
    assert not done.ok
    assert done.status == "crashed"

    asked: list[str] = []

    async def listen(task: str, player: FakePlayer) -> str:
        asked.append(task)
        return "in sum"

    answer = await reduce(WRITER, done.steps, "What is said?", spawn=FakeTroupe(listen).spawn)
    assert answer.output == "in sum"
    assert answer.ok
    [seen] = asked
    assert seen.startswith("What is said?\n\n## 1. scout\n\nsaid at 1\n\n## 2. scout (failed)\n\n")
    assert "crashed: " in seen
    assert "## 3. scout (failed)\n\nstopped: stopped" in seen
    assert [step.status for step in answer.steps] == [
        *(step.status for step in done.steps),
        "ok",
    ]


async def test_many_agents_have_a_task_each(autojump_clock: trio.testing.MockClock) -> None:
    troupe = FakeTroupe()
    done = await fan_out([SCOUT, WRITER], ["a", "b"], spawn=troupe.spawn)
    assert [(step.agent, step.output) for step in done.steps] == [("scout", "a"), ("writer", "b")]
    assert done.output == "## scout\n\na\n\n## writer\n\nb"
    assert done.ok


async def test_misuse_is_raised_before_anything_is_spawned() -> None:
    troupe = FakeTroupe()
    with pytest.raises(ValueError, match="2 agents for 3 tasks"):
        await fan_out([SCOUT, WRITER], ["a", "b", "c"], spawn=troupe.spawn)
    with pytest.raises(ValueError, match="not 0"):
        await fan_out(SCOUT, ["a"], concurrency=0, spawn=troupe.spawn)
    with pytest.raises(TypeError, match=r"has ask\(\) like a Ref"):
        await fan_out(7, ["a"], spawn=troupe.spawn)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one Result"):
        await reduce(WRITER, [], "?", spawn=troupe.spawn)
    assert troupe.opened == []


async def test_no_tasks_are_no_steps() -> None:
    done = await fan_out(SCOUT, [], spawn=FakeTroupe().spawn)
    assert done.ok
    assert done.steps == ()
    assert done.output == ""


async def test_what_a_fan_out_costs_is_the_sum_in_the_time_that_went_by(
    autojump_clock: trio.testing.MockClock,
) -> None:
    done = await fan_out(SCOUT, ["1 ok", "2 ok", "3 ok"], spawn=FakeTroupe(by_the_card).spawn)
    assert done.usage.turns == 3
    assert done.usage.busy_seconds == pytest.approx(6)
    assert done.usage.wall_seconds == pytest.approx(3.5)


async def test_cancelled_it_leaves_nothing_and_passes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe(random_time)
    with trio.move_on_after(3) as scope:
        await fan_out(KEEPER, [str(n) for n in range(20)], spawn=troupe.spawn)
    assert scope.cancelled_caught
    assert troupe.alive == set()
    stats = trio.lowlevel.current_statistics()
    # This test, trio's own init, and what pytest-trio runs it on.
    assert stats.tasks_living <= 4


async def test_without_a_model_it_raises_once_all_is_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    count = 0

    async def third(agent: Agent) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise NoModel

    troupe = FakeTroupe(random_time, opening=third)
    with pytest.RaisesGroup(NoModel):
        await fan_out(KEEPER, ["a", "b", "c", "d"], spawn=troupe.spawn)
    assert troupe.alive == set()


async def test_run_forces_a_task(autojump_clock: trio.testing.MockClock) -> None:
    troupe = FakeTroupe()
    assert (await run(KEEPER, "a", spawn=troupe.spawn)).output == "a"
    assert troupe.opened[0].lifetime == "task"
    assert troupe.alive == set()


async def test_a_function_is_an_agent(autojump_clock: trio.testing.MockClock) -> None:
    async def shout(task: str) -> str:
        return task.upper()

    troupe = FakeTroupe()
    await run(shout, "a", spawn=troupe.spawn)
    assert troupe.opened[0].agent.name == "shout"


async def test_the_first_error_of_a_map_ends_the_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ended: list[int] = []

    async def work(number: int) -> int:
        try:
            await trio.sleep(number)
            if number == 2:
                raise KeyError(number)
            return number
        finally:
            ended.append(number)

    with pytest.RaisesGroup(KeyError):
        await map_concurrent(work, range(1, 10), 4)
    # 5 had begun in the place of 1; nothing began after the error.
    assert sorted(ended) == [1, 2, 3, 4, 5]
    assert await map_concurrent(work, [], 4) == []


def outputs(count: int, words: int) -> list[Result]:
    return [
        Result(agent=f"a{number}", output=" ".join([f"w{number}"] * words))
        for number in range(count)
    ]


async def test_what_exceeds_one_turn_is_reduced_in_a_tree_and_nothing_is_left_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asked: list[str] = []

    async def count(task: str, player: FakePlayer) -> str:
        asked.append(task)
        # A summary: the words that it was shown, each once.
        return " ".join(
            sorted({word for word in task.split() if word[0] == "w" and word[1:].isdigit()})
        )

    results = outputs(20, 20)
    answer = await reduce(
        WRITER, results, "Q", tokens=250, concurrency=2, spawn=FakeTroupe(count).spawn
    )
    assert answer.ok
    assert answer.output.split() == sorted(f"w{number}" for number in range(20))
    assert len(asked) > 1
    for task in asked:
        assert estimate_tokens(task.removeprefix("Q\n\n")) <= 250
    assert answer.steps[:20] == tuple(results)
    assert len(answer.steps) == 20 + len(asked)
    assert answer.usage.turns == len(asked)


async def test_what_fits_nowhere_is_a_failure_and_not_cut(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe()
    answer = await reduce(WRITER, outputs(3, 200), "Q", tokens=100, spawn=troupe.spawn)
    assert answer.status == "context_overflow"
    assert len(answer.steps) == 4
    assert troupe.opened == []


async def test_a_group_that_fails_is_shown_to_the_next_as_a_failure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asked: list[str] = []

    async def second_fails(task: str, player: FakePlayer) -> str | Result:
        asked.append(task)
        if len(asked) == 2:
            return failed("writer", "timeout", "timed out after 3 s")
        return "short"

    answer = await reduce(
        WRITER,
        outputs(6, 20),
        "Q",
        tokens=150,
        concurrency=1,
        spawn=FakeTroupe(second_fails).spawn,
    )
    assert answer.ok
    assert "writer (failed)\n\ntimed out: timed out after 3 s" in asked[-1]


async def test_the_agent_of_a_group_can_be_made_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe(echo)

    def prepare(agent: Agent, group: object) -> Agent:
        assert isinstance(group, tuple)
        return Agent(f"{agent.name} of {len(group)}", agent.mind)

    def show(group: object) -> str:
        assert isinstance(group, list | tuple)
        return ",".join(each.agent for each in group)

    answer = await reduce(
        WRITER, outputs(3, 1), "Q", show=show, prepare=prepare, spawn=troupe.spawn
    )
    assert answer.agent == "writer of 3"
    assert answer.output == "Q\n\na0,a1,a2"


@pytest.mark.parametrize(
    ("texts", "tokens", "expected"),
    [
        pytest.param(["a"], 1, [(0, 1)], id="one that fits"),
        pytest.param(["a a"], 1, None, id="one that does not"),
        pytest.param(["a", "a"], 2, [(0, 2)], id="all that fit"),
        pytest.param(["a", "a", "a"], 2, [(0, 2), (2, 3)], id="one left alone"),
        pytest.param(["a a", "a", "a"], 2, [(0, 1), (1, 3)], id="one that fills its group"),
        pytest.param(["a", "a a"], 2, None, id="no two together"),
    ],
)
def test_groups(texts: list[str], tokens: int, expected: list[tuple[int, int]] | None) -> None:
    assert in_groups(texts, tokens) == expected
