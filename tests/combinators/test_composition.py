"""Teams compose: each is asked as a member is, and keeps the laws that this promises."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing

from standby import Actor, open_nursery
from standby_actors.agent import Agent
from standby_actors.result import Result, succeeded
from standby_actors.sessions.scripted import ScriptedSession
from standby_actors.subagent import reset_ids, spawn
from standby_combinators import (
    Chain,
    Fallback,
    FanOut,
    Loop,
    Race,
    Reduce,
    Report,
    ScriptedAsker,
    Stage,
    SubagentPool,
    Team,
    chain,
    estimate_tokens,
    fallback,
    fan_out,
    hedge,
    interview,
    loop,
    make_plan,
    map_reduce,
    open_fan_out,
    orchestrate,
    race,
    reduce,
    retry,
    review,
    route,
    run,
    vote,
)
from standby_combinators.stop import StopSwitch, stop_switch

from .players import FakePlayer, FakeTroupe, echo
from .teams import CHOOSER, EVERY_TEAM, KEEPER, PLAN, SCOUT, TEAMS, WRITER, Played, good


async def shout(task: str) -> str:
    """Says it louder."""
    return task.upper()


async def twice(task: str) -> str:
    """Says it again."""
    return f"{task} {task}"


def shown(result: Result) -> tuple[str, str, str]:
    """What a Result says, apart from who says it."""
    return result.status, result.output, result.agent


@EVERY_TEAM
async def test_every_team_answers_and_accounts_for_every_turn(
    autojump_clock: trio.testing.MockClock, name: str
) -> None:
    played = Played(TEAMS[name](), FakeTroupe(good))
    report = await played.run()
    assert report.ok, report
    assert report.steps
    played.check()


@EVERY_TEAM
async def test_every_team_is_a_member_of_every_shape_of_team(
    autojump_clock: trio.testing.MockClock, name: str
) -> None:
    for outer in (
        Chain([TEAMS[name](), WRITER]),
        FanOut([TEAMS[name](), TEAMS[name]()]),
        Loop([TEAMS[name]()], max_iterations=2),
        Reduce(WRITER, FanOut([TEAMS[name](), SCOUT])),
        Race([TEAMS[name](), TEAMS[name]()]),
    ):
        played = Played(outer, FakeTroupe(good))
        assert (await played.run()).ok
        played.check()


@EVERY_TEAM
async def test_a_chain_of_one_is_that_one(
    autojump_clock: trio.testing.MockClock, name: str
) -> None:
    alone = await Played(TEAMS[name](), FakeTroupe(good)).run()
    chained = await Played(Chain([TEAMS[name]()]), FakeTroupe(good)).run()
    assert shown(chained) == shown(alone)
    assert chained.usage.turns == alone.usage.turns


async def test_a_chain_of_one_is_a_run_and_a_fan_out_of_one_is_that_branch() -> None:
    alone = await run(shout, "hello")
    assert shown(await chain([shout], "hello")) == shown(alone)
    assert shown(await fan_out(shout, ["hello"])) == shown(alone)


async def test_a_chain_in_a_chain_is_one_chain(autojump_clock: trio.testing.MockClock) -> None:
    flat, nested = FakeTroupe(good), FakeTroupe(good)
    one = await chain([KEEPER, SCOUT, KEEPER], "a", spawn=flat.spawn)
    other = await chain([KEEPER, Chain([SCOUT, KEEPER])], "a", spawn=nested.spawn)
    assert shown(one) == shown(other)
    # Parts that follow one another share who remembers.
    assert len(flat.opened) == len(nested.opened) == 2


async def test_each_link_of_a_chain_is_asked_what_the_one_before_has_said() -> None:
    done = await chain([shout, twice], "hello")
    assert [step.output for step in done.steps] == ["HELLO", "HELLO HELLO"]
    assert done.output == "HELLO HELLO"
    assert done.agent == "twice"


async def test_the_request_can_travel_along_a_chain() -> None:
    asked: list[str] = []

    async def listen(task: str) -> str:
        asked.append(task)
        return "yes"

    await chain([listen, listen], "Who?", carry_request=True)
    assert asked == ["Who?", "## Request\n\nWho?\n\n## What was said\n\nyes"]


async def test_one_task_may_be_asked_of_many_and_is_no_sequence_of_letters() -> None:
    done = await fan_out([shout, twice], "ab")
    assert [step.output for step in done.steps] == ["AB", "ab ab"]
    assert len((await fan_out(shout, "ab")).steps) == 1


async def test_results_of_a_fan_out_can_be_read_while_they_land(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def wait(task: str) -> str:
        await trio.sleep(int(task))
        return task

    seen: list[tuple[int, str, float]] = []
    async with open_fan_out(wait, ["3", "1", "2"]) as landing:
        async for place, result in landing:
            seen.append((place, result.output, trio.current_time()))
    assert seen == [(1, "1", 1.0), (2, "2", 2.0), (0, "3", 3.0)]
    assert [step.output for step in landing.report.steps] == ["3", "1", "2"]


async def test_who_leaves_a_fan_out_early_cuts_what_is_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def wait(task: str) -> str:
        await trio.sleep(int(task))
        return task

    async with open_fan_out(wait, ["1", "9", "9", "9"], concurrency=2) as landing:
        async for _ in landing:
            break
    assert trio.current_time() == 1
    statuses = [step.status for step in landing.report.steps]
    assert statuses == ["ok", "cancelled", "cancelled", "cancelled"]


async def test_a_loop_is_over_when_its_last_step_is_good_enough() -> None:
    async def count(task: str) -> str:
        return str(int(task) + 1)

    seen: list[int] = []

    async def enough(step: Result, iteration: int) -> bool:
        seen.append(iteration)
        return step.output == "4"

    done = await loop([count, count], "0", until=enough)
    assert (done.output, done.iterations, done.converged, done.stopped_by) == (
        "4",
        2,
        True,
        "until",
    )
    assert seen == [1, 2]
    assert len(done.steps) == 4


async def test_the_cap_of_a_loop_is_no_success() -> None:
    done = await loop([shout], "a", until=lambda _step, _n: False, max_iterations=3)
    assert (done.ok, done.converged, done.stopped_by, done.iterations) == (True, False, "cap", 3)
    # Without a condition all was played that was to be played.
    assert (await loop([shout], "a", max_iterations=2)).converged


async def test_a_loop_that_says_the_same_again_has_stalled() -> None:
    done = await loop([shout], "a", until=lambda _step, _n: False, stalled_after=2)
    assert (done.ok, done.converged, done.stopped_by, done.iterations) == (
        True,
        False,
        "stalled",
        2,
    )


async def test_the_parts_of_a_map_are_made_of_its_task() -> None:
    done = await map_reduce(shout, twice, "a\nb", split=str.splitlines)
    assert [step.output for step in done.steps[:2]] == ["A", "B"]
    assert done.output.count("## 1. shout") == 2
    assert done.output.startswith("a\nb\n\n")
    assert done.usage.turns == 3


async def test_a_reduction_that_does_not_fit_is_a_tree() -> None:
    async def short(task: str) -> str:
        return "short"

    results = [succeeded("scout", f"word{number} " * 20) for number in range(8)]
    bound = 4 * estimate_tokens(results[0].output)
    done = await reduce(short, results, "Sum up.", tokens=bound)
    assert done.ok
    assert len(done.steps) > len(results) + 2
    assert done.usage.turns == len(done.steps) - len(results)


async def test_a_route_goes_to_the_one_that_is_named_with_the_task_as_it_is() -> None:
    async def choose(task: str) -> str:
        assert "- shout" in task
        return "I think: **shout**"

    done = await route(choose, [shout, twice], "hello")
    assert (done.output, done.destination, done.fell_back) == ("HELLO", "shout", False)
    assert [step.agent for step in done.steps] == ["choose", "shout"]


@pytest.mark.parametrize("said", ["shout or twice", "nobody", "shoutt", ""])
async def test_a_route_that_names_nobody_or_two_asks_nobody(said: str) -> None:
    async def choose(task: str) -> str:
        return said

    done = await route(choose, [shout, twice], "hello")
    assert not done.ok
    assert done.destination is None
    assert done.usage.turns == 1
    fell = await route(choose, [shout, twice], "hello", fallback=twice)
    assert (fell.output, fell.fell_back, fell.destination) == ("hello hello", True, "twice")


async def test_the_first_answer_wins_a_race_and_the_others_are_cut(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(task: str) -> str:
        await trio.sleep(9)
        return "slow"

    async def broken(task: str) -> str:
        raise KeyError(task)

    async def quick(task: str) -> str:
        await trio.sleep(1)
        return "quick"

    done = await race([slow, broken, quick], "go")
    assert trio.current_time() == 1
    assert (done.output, done.agent) == ("quick", "quick")
    assert [step.status for step in done.steps] == ["cancelled", "crashed", "ok"]


async def test_a_spare_is_asked_only_when_it_is_late(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def wait(task: str) -> str:
        await trio.sleep(3)
        return "done"

    early = await hedge([wait, wait], "go", after=5)
    assert [step.status for step in early.steps] == ["ok", "not_started"]
    assert early.usage.turns == 1
    late = await hedge([wait, wait, wait], "go", after=2)
    assert [step.status for step in late.steps] == ["ok", "cancelled", "not_started"]


async def test_a_spare_is_asked_at_once_when_the_first_fails(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def broken(task: str) -> str:
        await trio.sleep(1)
        raise KeyError(task)

    async def wait(task: str) -> str:
        await trio.sleep(1)
        return "done"

    done = await hedge([broken, wait], "go", after=100)
    assert done.output == "done"
    assert trio.current_time() == 2


async def test_a_vote_is_decided_by_more_than_half() -> None:
    def voter(name: str, said: str) -> Agent:
        async def answer(task: str) -> str:
            assert "VOTE:" in task
            return f"Because.\n{said}"

        return Agent(name, answer)

    yes, no, mute = voter("a", "**VOTE: Yes**"), voter("b", "VOTE: no."), voter("c", "I abstain")
    done = await vote([yes, yes, no], "Well?")
    assert (done.ok, done.decided, done.choice, done.output) == (True, True, "yes", "yes")
    assert done.counts == {"yes": 2, "no": 1}
    tied = await vote([yes, no], "Well?")
    assert (tied.ok, tied.decided, tied.output) == (True, False, "yes: 1, no: 1")
    few = await vote([yes, mute, mute], "Well?")
    assert (few.ok, few.decided, few.invalid) == (True, False, 2)
    assert not (await vote([mute], "Well?")).ok


async def test_what_fails_is_asked_again_after_a_while_and_a_bad_answer_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asked: list[tuple[float, str]] = []
    answers = ["not a number", "7"]

    async def number(task: str) -> str:
        asked.append((trio.current_time(), task))
        if len(asked) == 1:
            raise OSError("down")
        return answers.pop(0)

    done = await retry(Agent("number", number, schema=int), "How many?")
    assert done.value == 7
    assert [step.status for step in done.steps] == ["crashed", "failed", "ok"]
    assert [at for at, _ in asked] == [0.0, 0.5, 0.5]
    assert asked[2][1].startswith("How many?\n\nYour last answer could not be used: ")


async def test_the_next_is_asked_when_one_fails(autojump_clock: trio.testing.MockClock) -> None:
    models: list[str | None] = []

    async def by_model(task: str, player: FakePlayer) -> str:
        models.append(player.agent.model)
        if player.agent.model != "c/c":
            raise OSError("down")
        return "here"

    spawn_fake = FakeTroupe(by_model).spawn
    done = await fallback(SCOUT, "x", models=["a/a", "b/b", "c/c", "d/d"], spawn=spawn_fake)
    assert done.output == "here"
    assert models == ["a/a", "b/b", "c/c"]
    assert [step.status for step in done.steps] == ["crashed", "crashed", "ok"]
    with pytest.raises(ValueError, match="those of one agent"):
        await fallback([SCOUT, WRITER], "x", models=["a/a"])


async def test_a_plan_is_done_in_the_order_of_its_needs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asked: list[tuple[float, str, str]] = []

    async def note(task: str, player: FakePlayer) -> str:
        if player.agent is CHOOSER:
            return "Here you are:\n" + json.dumps(
                [
                    {"id": "sum", "agent": "writer", "task": "sum up", "needs": ["x", "y"]},
                    {"id": "x", "agent": "scout", "task": "look left"},
                    {"id": "y", "agent": "SCOUT", "task": "look right"},
                    {"id": "z", "agent": "boss", "task": "interfere"},
                ]
            )
        asked.append((trio.current_time(), player.agent.name, task))
        await trio.sleep(1)
        return f"did {task.splitlines()[0]}"

    done = await orchestrate(CHOOSER, [SCOUT, WRITER], "go", spawn=FakeTroupe(note).spawn)
    assert done.ok
    assert [step.id for step in done.plan.steps] == ["sum", "x", "y"]
    assert [each.output for each in done.branches] == [
        "did sum up",
        "did look left",
        "did look right",
    ]
    by_name = [(name, task.splitlines()[0]) for _, name, task in asked]
    assert sorted(by_name[:2]) == [("scout", "look left"), ("scout", "look right")]
    assert by_name[2] == ("writer", "sum up")
    assert "did look left" in asked[2][2]
    assert "did look right" in asked[2][2]


async def test_a_plan_alone_can_be_had(autojump_clock: trio.testing.MockClock) -> None:
    done = await make_plan(CHOOSER, [SCOUT, WRITER], "go", spawn=FakeTroupe(good).spawn)
    assert [step.id for step in done.plan.steps] == ["a", "b"]
    assert done.output == PLAN


async def test_work_is_done_again_until_what_was_raised_is_closed_by_its_raiser() -> None:
    seen: list[str] = []
    verdicts = [
        {"approved": False, "raised": ["Test it.", "Name it."]},
        # It leaves one out, and closes one that there is not: the decision stands.
        {"approved": True, "resolved": [{"id": "o1"}, {"id": "o9"}]},
        {"approved": True, "resolved": [{"id": "o2", "how": "withdrawn", "reason": "no matter"}]},
    ]

    async def work(task: str) -> str:
        seen.append(task)
        return f"work {len(seen)}"

    async def judge(task: str) -> str:
        return json.dumps(verdicts[len(seen) - 1])

    done = await review(work, judge, "Build it.")
    assert (done.approved, done.rounds, done.output) == (True, 3, "work 3")
    assert [each.id for each in done.obligations] == ["o1", "o2"]
    assert done.owed == ()
    assert "- o1 (judge): Test it." in seen[1]
    assert "There are 2 rounds left." in seen[1]
    assert "This is the last round." in seen[2]
    assert "o9" in seen[2]
    assert done.entries[-1].id == "o2"


async def test_only_who_raised_it_closes_an_obligation() -> None:
    rounds = 0

    async def work(task: str) -> str:
        nonlocal rounds
        rounds += 1
        return "done"

    async def strict(task: str) -> str:
        return json.dumps(
            {"approved": False, "raised": ["Test it."]} if rounds == 1 else {"approved": True}
        )

    async def mild(task: str) -> str:
        return json.dumps({"approved": True, "resolved": [{"id": "o1"}]})

    done = await review(work, [strict, mild], "Build it.")
    assert not done.approved
    assert done.ok
    assert [each.by for each in done.owed] == ["strict"]


async def test_a_no_without_remarks_is_asked_for_again_and_then_refused() -> None:
    asked: list[str] = []

    async def judge(task: str) -> str:
        asked.append(task)
        return '{"approved": false}'

    done = await review(shout, judge, "Build it.")
    assert len(asked) == 2
    assert "You have not decided" in asked[1]
    assert (done.ok, done.approved) == (False, False)
    assert done.output == "BUILD IT."


async def test_an_interview_asks_one_question_at_a_time_and_writes_a_brief() -> None:
    answers = [
        '{"question": "Which way?", "options": ["left", "right"]}',
        '{"question": "which  way", "options": []}',
        '{"question": "How far?", "options": ["a mile"]}',
        "READY",
        "Go right for two miles.",
    ]
    asker = ScriptedAsker(["2", "two miles"])
    session = ScriptedSession(answers)

    class Model:
        def session(self, agent: Agent, /) -> ScriptedSession:
            return session

    done = await interview(CHOOSER, "A walk.", asker, model=Model())
    assert done.output == "Go right for two miles."
    assert [each.text for each in done.answers] == ["right", "two miles"]
    # What was answered is not asked again.
    assert [each.text for each in asker.asked] == ["Which way?", "How far?"]
    assert "That was answered before: right" in session.asked[2]
    assert "typed, not one of your options" in session.asked[3]
    assert not done.submitted


async def test_a_person_may_submit_and_the_brief_is_written_of_what_they_said(
    autojump_clock: trio.testing.MockClock,
) -> None:
    done = await interview(CHOOSER, "A walk.", ScriptedAsker([]), spawn=FakeTroupe(good).spawn)
    assert done.ok
    assert done.submitted
    assert done.answers == ()


async def test_who_is_alive_already_can_be_a_member_and_is_not_closed() -> None:
    class Echo(Actor):
        def receive(self, message: str) -> str:
            return message[::-1]

    session = ScriptedSession(["one", "two", "three"])
    async with open_nursery() as nursery:
        ref = nursery.spawn(Echo)
        async with spawn(SCOUT, session=session) as subagent:
            done = await chain([ref, subagent, shout], "abc")
            assert [step.output for step in done.steps] == ["cba", "one", "ONE"]
            assert done.steps[1].subagent == subagent.id
            both = await fan_out([ref, subagent], ["xy", "z"])
            assert [step.output for step in both.steps] == ["yx", "two"]
            assert not subagent.is_stopped
            assert (await subagent.ask("more")).output == "three"
        assert ref.is_alive
    assert session.asked == ["cba", "z", "more"]


async def test_a_member_that_cannot_be_asked_is_refused_before_anything_is_spawned() -> None:
    troupe = FakeTroupe(echo)
    for wrong in (7, "scout", Actor, None):
        with pytest.raises(TypeError, match="has ask"):
            await chain([SCOUT, wrong], "a", spawn=troupe.spawn)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="at least 1 member"):
        await chain([], "a", spawn=troupe.spawn)
    with pytest.raises(ValueError, match="whole and at least 1"):
        await loop([SCOUT], "a", max_iterations=0, spawn=troupe.spawn)
    with pytest.raises(ValueError, match="cannot be reached"):
        await fan_out([SCOUT, WRITER], "a", quorum=3, spawn=troupe.spawn)
    with pytest.raises(ValueError, match="two members are called 'Scout'"):
        await route(CHOOSER, [SCOUT, Agent("Scout", "x")], "a", spawn=troupe.spawn)
    assert troupe.opened == []


async def test_a_combinator_of_ones_own_is_a_team_like_any_other() -> None:
    class Debate(Team[Report]):
        name = "debate"

        async def play(self, task: str, stage: Stage, /) -> Report:
            steps = [await stage.turn(shout, task), await stage.turn(twice, task)]
            return stage.report(steps[-1], steps)

    done = await Chain([Debate(), Fallback([shout])]).ask("no")
    assert done.output == "NO NO"
    assert done.usage.turns == 3


async def test_a_pool_plays_turns_of_whoever_can_be_asked(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Echo(Actor):
        def receive(self, message: str) -> str:
            return message[::-1]

    troupe = FakeTroupe(good)
    async with open_nursery() as nursery, SubagentPool(spawn=troupe.spawn) as pool:
        assert (await pool.turn(nursery.spawn(Echo), "abc")).output == "cba"
        team = Chain([KEEPER, KEEPER])
        assert (await pool.turn(team, "x", key="one")).ok
        assert (await pool.turn(team, "x", key="other")).ok
        with pytest.raises(TypeError, match="stands for an agent"):
            await pool.turn(7, "x")  # type: ignore[arg-type]
    assert [len(player.memory) for player in troupe.opened] == [2, 2]
    assert len(pool.trail.steps) == 5


async def test_a_switch_stops_one_of_a_nested_team_or_all(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(task: str) -> str:
        await trio.sleep(9)
        return task

    agent = Agent("slow", slow)
    for everybody in (False, True):
        reset_ids()
        switch = stop_switch()
        async with trio.open_nursery() as tasks:

            async def stop(switch: StopSwitch = switch, everybody: bool = everybody) -> None:
                await trio.sleep(1)
                if everybody:
                    assert await switch.all() == 3
                else:
                    assert await switch.one("slow#2")

            tasks.start_soon(stop)
            team = FanOut([Chain([agent, shout]), FanOut([agent, agent])])
            done = await team.ask("x", switch=switch)
        nested = [step for step in done.steps if isinstance(step, Report)]
        statuses = [[each.status for each in step.steps] for step in nested]
        if everybody:
            assert statuses == [["stopped"], ["stopped", "stopped"]]
        else:
            flat = [status for some in statuses for status in some]
            assert flat.count("stopped") == 1
            assert flat.count("ok") >= 2
