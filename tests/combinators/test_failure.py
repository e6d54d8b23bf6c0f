"""What fails in a team is a Result in its place; nothing is lost by it, nothing is left of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent
from standby_actors.models import NoModel
from standby_actors.result import Result, TurnError, failed
from standby_combinators import (
    Chain,
    FanOut,
    Report,
    Step,
    Vote,
    chain,
    fan_out,
    interview,
    loop,
    map_reduce,
    orchestrate,
    problems_of_plan,
    race,
    retry,
    route,
)
from standby_combinators.asker import Answer, PostedAsker, Question

from .players import FakePlayer, FakeTroupe
from .teams import CHOOSER, EVERY_TEAM, KEEPER, SCOUT, TEAMS, WRITER, Played, good, says

PROVIDER = TurnError("provider", "the server answered 500", True)


async def shout(task: str) -> str:
    """Says it louder."""
    return task.upper()


async def broken(task: str) -> str:
    """Knows no answer."""
    raise KeyError(task)


async def raises(task: str, player: FakePlayer) -> str:
    """Dies in the middle of its turn."""
    await trio.sleep(1)
    raise RuntimeError("torn")


async def rubbish(task: str, player: FakePlayer) -> str:
    """Answers what no parser expects."""
    await trio.sleep(1)
    return '{"agent": [], "question": {}, "approved": "maybe", "needs": 7} {{ VOTE: \x00 ¬'


async def no_spawn(agent: Agent) -> None:
    """Cannot be opened."""
    raise OSError("no more processes")


async def bad_close(player: FakePlayer) -> None:
    """Cannot be closed."""
    raise OSError("the disk is full")


FAULTS: dict[str, Callable[[], FakeTroupe]] = {
    "every turn fails": lambda: FakeTroupe(says(PROVIDER)),
    "every turn raises": lambda: FakeTroupe(raises),
    "every answer is rubbish": lambda: FakeTroupe(rubbish),
    "nobody can be spawned": lambda: FakeTroupe(good, opening=no_spawn),
    "no close succeeds": lambda: FakeTroupe(good, closing=bad_close),
}


@EVERY_TEAM
@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_fails_there_is_a_result_and_nothing_is_left(
    autojump_clock: trio.testing.MockClock, name: str, fault: str
) -> None:
    played = Played(TEAMS[name](), FAULTS[fault]())
    report = await played.run()
    assert isinstance(report, Report)
    assert report.ok or report.error is not None
    if fault in ("every turn fails", "every turn raises", "nobody can be spawned"):
        assert not report.ok
        assert report.steps
    if fault == "no close succeeds":
        assert report.ok
    played.check()


async def test_a_link_that_fails_ends_the_chain_and_is_its_result() -> None:
    done = await chain([shout, broken, shout], "a")
    assert [step.status for step in done.steps] == ["ok", "crashed"]
    assert (done.status, done.agent) == ("crashed", "broken")
    assert done.usage.turns == 2


async def test_a_condition_that_raises_is_a_failed_loop_that_keeps_its_steps() -> None:
    def until(step: Result, iteration: int) -> bool:
        if iteration == 2:
            raise ZeroDivisionError("no more")
        return False

    done = await loop([shout], "a", until=until)
    assert (done.status, done.stopped_by, done.iterations, done.converged) == (
        "crashed",
        "failed",
        2,
        False,
    )
    assert [step.status for step in done.steps] == ["ok", "ok"]
    assert done.output == "A"
    assert done.error is not None
    assert isinstance(done.error.cause, ZeroDivisionError)
    assert "after iteration 2" in done.error.message


async def test_a_step_without_a_budget_stops_a_loop_and_says_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns = 0

    async def until_poor(task: str, player: FakePlayer) -> str | Result:
        nonlocal turns
        turns += 1
        return task if turns < 3 else failed(player.agent.name, "budget", "nothing is left")

    done = await loop([SCOUT], "a", spawn=FakeTroupe(until_poor).spawn)
    assert (done.status, done.stopped_by, done.iterations) == ("budget", "budget", 3)


async def test_a_failure_cuts_a_fan_out_that_fails_fast(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def by_the_card(task: str, player: FakePlayer) -> str | Result:
        await trio.sleep(int(task[0]))
        if "bad" in task:
            return failed(player.agent.name, PROVIDER)
        return task

    troupe = FakeTroupe(by_the_card)
    done = await fan_out(
        SCOUT, ["1", "9", "2 bad", "9", "9"], concurrency=3, fail_fast=True, spawn=troupe.spawn
    )
    # What was in flight has spent something, and what had not begun has not.
    statuses = [step.status for step in done.steps]
    assert statuses == ["ok", "cancelled", "failed", "cancelled", "not_started"]
    assert (done.status, done.error) == ("failed", PROVIDER)
    assert done.usage.output_tokens == 4
    assert len(troupe.opened) == 4
    assert trio.current_time() < 4


async def test_enough_answers_cut_the_rest_and_failures_do_not_count(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def wait(task: str) -> str:
        await trio.sleep(int(task))
        if task == "1":
            raise KeyError(task)
        return task

    tasks = ["9", "3", "1", "2", "9"]
    done = await fan_out(wait, tasks, quorum=2, concurrency=5)
    assert trio.current_time() == 3
    assert done.ok
    assert done.output == "## wait\n\n3\n\n## wait\n\n2"
    statuses = [step.status for step in done.steps]
    assert statuses == ["cancelled", "ok", "crashed", "ok", "cancelled"]
    short = await fan_out(wait, ["1", "1", "2"], quorum=2)
    assert short.status == "crashed"
    first = await fan_out(wait, tasks, first=True, concurrency=5)
    assert first.output == "2"


async def test_a_quorum_that_cannot_be_reached_any_more_fails_fast_if_that_is_wanted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def wait(task: str) -> str:
        await trio.sleep(int(task))
        if task != "9":
            raise KeyError(task)
        return task

    done = await fan_out(wait, ["1", "2", "9"], quorum=2, fail_fast=True)
    assert [step.status for step in done.steps] == ["crashed", "crashed", "cancelled"]
    assert trio.current_time() == 2


async def test_a_race_that_everybody_loses_is_the_first_failure() -> None:
    done = await race([broken, broken], "a")
    assert (done.status, len(done.steps)) == ("crashed", 2)


async def test_the_reducer_is_shown_what_failed() -> None:
    asked: list[str] = []

    async def listen(task: str) -> str:
        asked.append(task)
        return "in sum"

    done = await map_reduce([shout, broken], listen, "go")
    assert done.ok
    assert "## 2. broken (failed)\n\ncrashed: KeyError: 'go'" in asked[0]
    assert [step.status for step in done.steps] == ["ok", "crashed", "ok"]


async def test_a_router_that_fails_is_the_result() -> None:
    done = await route(broken, [shout], "go", fallback=shout)
    assert (done.status, len(done.steps)) == ("crashed", 1)


@pytest.mark.parametrize("kind", ["stopped", "aborted", "budget", "context_overflow"])
async def test_what_was_called_off_is_not_tried_again(
    autojump_clock: trio.testing.MockClock, kind: Any
) -> None:
    troupe = FakeTroupe(says(TurnError(kind, "no")))
    done = await retry(SCOUT, "go", spawn=troupe.spawn)
    assert len(done.steps) == 1
    assert done.status == kind


def needing(**needs: str) -> list[Step]:
    """A plan of steps by id, with the ids that each needs."""
    return [Step(name, "x", "t", tuple(others.split())) for name, others in needs.items()]


PLANS = [
    pytest.param(needing(a="b", b="c", c="a"), "a -> b -> c -> a", id="a circle of three"),
    pytest.param(needing(a="a"), "a -> a", id="a circle of one"),
    pytest.param(needing(z="", a="z b", b="a"), "a -> b -> a", id="a circle behind a step"),
    pytest.param(needing(a="") * 2, "two steps have the id 'a'", id="two of one id"),
    pytest.param(needing(a="q"), "needs 'q'", id="a need that is not there"),
    pytest.param(
        [Step(str(n), "x", "t") for n in range(9)], "9 steps, and at most 8", id="too many"
    ),
]


@pytest.mark.parametrize(("steps", "problem"), PLANS)
def test_what_is_wrong_with_a_plan_is_named(steps: list[Step], problem: str) -> None:
    assert problem in "; ".join(problems_of_plan(steps))


def test_a_plan_without_a_circle_is_not_said_to_have_one() -> None:
    diamond = [
        Step("d", "x", "t", ("b", "c")),
        Step("b", "x", "t", ("a",)),
        Step("c", "x", "t", ("a",)),
        Step("a", "x", "t"),
    ]
    assert problems_of_plan(diamond) == ()


async def test_a_plan_is_corrected_once_and_nobody_is_asked_before_it_is_right(
    autojump_clock: trio.testing.MockClock,
) -> None:
    bad = json.dumps(
        [
            {"id": "a", "agent": "scout", "task": "x", "needs": ["b"]},
            {"id": "b", "agent": "scout", "task": "y", "needs": ["a"]},
        ]
    )
    answers = [bad, '[{"agent": "scout", "task": "look"}]']
    asked: list[str] = []

    async def plan(task: str, player: FakePlayer) -> str:
        if player.agent is CHOOSER:
            asked.append(task)
            return answers.pop(0)
        return "seen"

    troupe = FakeTroupe(plan)
    done = await orchestrate(CHOOSER, [SCOUT], "go", spawn=troupe.spawn)
    assert done.ok
    assert "in a circle: a -> b -> a" in asked[1]
    assert [step.agent for step in done.steps] == ["chooser", "chooser", "scout"]

    answers[:] = [bad, bad]
    troupe = FakeTroupe(plan)
    done = await orchestrate(CHOOSER, [SCOUT], "go", spawn=troupe.spawn)
    assert not done.ok
    assert "a -> b -> a" in str(done.error)
    assert {player.agent for player in troupe.opened} == {CHOOSER}
    assert done.branches == ()


async def test_a_step_that_needs_what_failed_is_skipped_and_says_what(
    autojump_clock: trio.testing.MockClock,
) -> None:
    plan = json.dumps(
        [
            {"id": "a", "agent": "scout", "task": "break"},
            {"id": "b", "agent": "writer", "task": "write", "needs": ["a"]},
            {"id": "c", "agent": "writer", "task": "more", "needs": ["b"]},
            {"id": "d", "agent": "writer", "task": "else"},
        ]
    )

    async def play(task: str, player: FakePlayer) -> str | Result:
        if player.agent is CHOOSER:
            return plan
        if player.agent is SCOUT:
            return failed("scout", PROVIDER)
        return "fine"

    done = await orchestrate(CHOOSER, [SCOUT, WRITER], "go", spawn=FakeTroupe(play).spawn)
    assert [each.status for each in done.branches] == ["failed", "skipped", "skipped", "ok"]
    assert str(done.branches[1].error) == "skipped: step 'b' needs 'a', which failed"
    assert done.status == "failed"


async def test_without_a_model_a_team_raises_once_all_is_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    count = 0

    async def third(agent: Agent) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise NoModel

    troupe = FakeTroupe(good, opening=third)
    with pytest.RaisesGroup(NoModel, flatten_subgroups=True, allow_unwrapped=True):
        await Chain([KEEPER, FanOut([SCOUT, WRITER])]).ask("go", spawn=troupe.spawn)
    assert troupe.alive == set()


async def test_a_question_that_nobody_answers_in_time_ends_the_questions(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asker = PostedAsker()
    done = await interview(CHOOSER, "go", asker, patience=60, spawn=FakeTroupe(good).spawn)
    assert done.ok
    assert done.submitted
    assert asker.pending == {}


async def test_a_posted_question_is_answered_from_elsewhere(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asker = PostedAsker()
    answers: list[Answer | None] = []

    async def ask() -> None:
        answers.append(await asker.ask(Question("Well?")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert asker.pending[1].text == "Well?"
        assert asker.answer(1, "yes")
        assert not asker.answer(1, "no")
    assert answers == [Answer("Well?", "yes", custom=True)]


async def test_a_vote_of_rubbish_is_no_vote(autojump_clock: trio.testing.MockClock) -> None:
    done = await Vote([SCOUT, WRITER]).ask("Well?", spawn=FakeTroupe(rubbish).spawn)
    assert not done.decided
