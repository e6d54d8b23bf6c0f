"""Cases that others have reported of their teams, played on ours."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from standby import Actor, Ref, open_nursery
from standby_actors.agent import Agent, Limits
from standby_actors.budget import Budget
from standby_actors.modeltext import says_word
from standby_actors.result import Result, failed
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.usage import Usage
from standby_combinators import Chain, FanOut, chain, fan_out, loop

from .players import FakePlayer, FakeTroupe

SCOUT = Agent("scout", "Report.")


async def test_c35_of_ten_thousand_branches_one_fails_and_the_others_do_not_notice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def work(task: str) -> str:
        await trio.sleep(1)
        if task == "5000":
            raise ValueError(task)
        return task

    done = await fan_out(work, [str(n) for n in range(10_000)], concurrency=64)
    assert trio.current_time() == pytest.approx(157)
    assert [n for n, step in enumerate(done.steps) if not step.ok] == [5_000]
    assert all(step.output == str(n) for n, step in enumerate(done.steps) if step.ok)


async def test_c35_no_branch_begins_once_the_whole_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[float] = []

    async def work(task: str) -> str:
        begun.append(trio.current_time())
        await trio.sleep(1)
        return task

    with trio.move_on_after(10.5):
        await fan_out(work, [str(n) for n in range(10_000)], concurrency=64)
    assert len(begun) == 11 * 64
    assert trio.current_time() == pytest.approx(10.5)


SAID = ["Not LGTM", "I cannot say LGTM yet", "Say LGTM when done", "**LGTM**.", "never"]


async def test_c37_a_loop_ends_on_the_word_and_not_on_a_text_that_has_it() -> None:
    said = iter(SAID)

    async def reviewer(task: str) -> str:
        return next(said)

    done = await loop(
        [reviewer], "x", until=lambda step, _: says_word(step.output, "LGTM"), max_iterations=5
    )
    assert (done.converged, done.iterations) == (True, 4)


async def test_c37_a_failure_whose_text_has_the_word_is_a_failure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fail(task: str, player: FakePlayer) -> Result:
        return failed("scout", "provider", "LGTM")

    done = await loop(
        [SCOUT],
        "x",
        until=lambda step, _: says_word(step.output, "LGTM"),
        spawn=FakeTroupe(fail).spawn,
    )
    assert (done.ok, done.converged, done.stopped_by) == (False, False, "failed")
    with pytest.raises(ValueError, match="whole and at least 1"):
        await loop([SCOUT], "x", max_iterations=-1)


async def test_c24_what_fails_in_the_middle_is_the_result_of_all() -> None:
    ran: list[str] = []

    async def a(task: str) -> str:
        return task

    async def b(task: str) -> str:
        raise ValueError("no such page")

    async def c(task: str) -> str:
        ran.append(task)
        return task

    done = await chain([a, Chain([b]), c], "x")
    assert (done.status, done.agent, ran) == ("crashed", "b", [])
    assert "ValueError: no such page" in str(done.error)


class Model:
    """A model whose every turn costs ten tokens."""

    def session(self, agent: Agent, /) -> ScriptedSession:
        usage = Usage(requests=1, input_tokens=6, output_tokens=4)
        return ScriptedSession(lambda task: Reply("said", usage=usage))


async def test_a_budget_is_one_for_all_that_is_nested_in_a_team(
    autojump_clock: trio.testing.MockClock,
) -> None:
    budget = Budget(Limits(turns=4), name="the run")
    team = Chain([FanOut([SCOUT, SCOUT]), Chain([SCOUT, SCOUT, SCOUT])])
    done = await team.ask("x", model=Model(), budget=budget)
    assert done.status == "budget"
    assert done.usage.turns == budget.spent.turns == 4
    assert done.usage.input_tokens == budget.spent.input_tokens == 24


async def test_a_loop_that_has_spent_its_budget_says_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    budget = Budget(Limits(tokens=35), name="the run")
    # One who remembers knows what a turn costs: none begins that would cost too much.
    done = await loop(
        [SCOUT], "x", max_iterations=9, model=Model(), budget=budget, lifetime="workflow"
    )
    assert (done.status, done.stopped_by, done.converged) == ("budget", "budget", False)
    assert done.usage.turns == 3
    assert done.iterations == 4


async def test_c39_a_team_that_would_wait_for_itself_is_refused_and_the_circle_is_named() -> None:
    members: dict[str, Ref[str]] = {}

    class Asks(Actor):
        def __init__(self, other: str) -> None:
            self.other = other

        async def receive(self, message: str) -> Result:
            return await chain([members[self.other]], message)

    with trio.fail_after(5):
        async with open_nursery(name="office") as nursery:
            members["a"] = nursery.spawn(Asks, "b", name="a")
            members["b"] = nursery.spawn(Asks, "a", name="b")
            done = await chain([members["a"]], "x")
    assert done.status == "refused"
    assert done.error is not None
    assert done.error.kind == "would_deadlock"
    assert "office/a" in done.error.message
    assert "office/b" in done.error.message
