"""What is no use of a combinator is refused before anything is spawned, in a sentence that helps.

What a function of the user's raises later is a failure of its team, which keeps its steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio.testing

from standby_actors.result import Result, failed, succeeded
from standby_combinators import (
    Answer,
    Chain,
    FanOut,
    Interview,
    Loop,
    Question,
    Report,
    Retry,
    Route,
    ScriptedAsker,
    Signal,
    Swarm,
    Team,
    Vote,
    chain,
    fallback,
    fan_out,
    hedge,
    interview,
    loop,
    make_plan,
    map_reduce,
    orchestrate,
    race,
    reduce,
    retry,
    review,
    route,
    run,
    stop_switch,
    swarm,
    vote,
)

from .players import FakeTroupe
from .teams import CHOOSER, KEEPER, SCOUT, WRITER, Played, good

Misuse = tuple[Callable[..., Awaitable[Any]], type[Exception], str]
ONE = (succeeded("a", "yes"),)
NOBODY = "a team has at least 1 member"

MISUSES: dict[str, Misuse] = {
    "no members in a chain": (lambda **o: chain([], "x", **o), ValueError, NOBODY),
    "no members in a race": (lambda **o: race([], "x", **o), ValueError, NOBODY),
    "no members in a hedge": (lambda **o: hedge([], "x", after=1, **o), ValueError, NOBODY),
    "no members in a vote": (lambda **o: vote([], "x", **o), ValueError, NOBODY),
    "no members in a loop": (lambda **o: loop([], "x", **o), ValueError, NOBODY),
    "no mappers": (lambda **o: map_reduce([], SCOUT, "x", **o), ValueError, NOBODY),
    "nobody to route to": (lambda **o: route(SCOUT, [], "x", **o), ValueError, NOBODY),
    "nobody to plan for": (lambda **o: orchestrate(SCOUT, [], "x", **o), ValueError, NOBODY),
    "no reviewers": (lambda **o: review(SCOUT, [], "x", **o), ValueError, NOBODY),
    "nobody to fall back on": (lambda **o: fallback([], "x", **o), ValueError, NOBODY),
    "no members in a swarm": (lambda **o: swarm([], "x", **o), ValueError, NOBODY),
    "nobody for one text": (lambda **o: fan_out([], "x", **o), ValueError, NOBODY),
    "nothing to reduce": (lambda **o: reduce(SCOUT, [], "x", **o), ValueError, "at least one"),
    "a name for a member": (
        lambda **o: chain(["scout"], "x", **o),  # type: ignore[list-item]
        TypeError,
        "not 'scout'",
    ),
    "nobody to run": (lambda **o: run(None, "x", **o), TypeError, "not None"),  # type: ignore[arg-type]
    "a task that is no text": (lambda **o: chain([SCOUT], 7, **o), TypeError, "a str, not int"),  # type: ignore[arg-type]
    "one task that is no text": (
        lambda **o: fan_out(SCOUT, ["a", 7], **o),  # type: ignore[list-item]
        TypeError,
        "a task is a str, not int",
    ),
    "a task too many": (
        lambda **o: fan_out([SCOUT, WRITER], ["a", "b", "c"], **o),
        ValueError,
        "2 agents for 3 tasks",
    ),
    "no width": (
        lambda **o: fan_out(SCOUT, ["a"], concurrency=0, **o),
        ValueError,
        "branches at a time is whole and at least 1, not 0",
    ),
    "half a width": (
        lambda **o: fan_out(SCOUT, ["a"], concurrency=1.5, **o),  # type: ignore[arg-type]
        ValueError,
        "not 1.5",
    ),
    "a quorum larger than all": (
        lambda **o: fan_out(SCOUT, ["a", "b"], quorum=3, **o),
        ValueError,
        "a quorum of 3 cannot be reached by 2 branches",
    ),
    "two quorums": (
        lambda **o: fan_out(SCOUT, ["a", "b"], quorum=2, first=True, **o),
        ValueError,
        "first=True is a quorum of 1",
    ),
    "more votes than voters": (
        lambda **o: vote([SCOUT], "x", quorum=2, **o),
        ValueError,
        "1 voters cannot give 2 votes",
    ),
    "a wait of nothing known": (
        lambda **o: hedge([SCOUT], "x", after=None, **o),  # type: ignore[arg-type]
        ValueError,
        "after is a number of seconds, at least 0 and finite, not None",
    ),
    "a wait without an end": (
        lambda **o: hedge([SCOUT], "x", after=float("inf"), **o),
        ValueError,
        "finite",
    ),
    "no iterations": (
        lambda **o: loop([SCOUT], "x", max_iterations=0, **o),
        ValueError,
        "iterations is whole and at least 1, not 0",
    ),
    "iterations without a bound": (
        lambda **o: loop([SCOUT], "x", max_iterations=None, **o),  # type: ignore[arg-type]
        ValueError,
        "iterations is whole and at least 1, not None",
    ),
    "a stall of one": (
        lambda **o: loop([SCOUT], "x", stalled_after=1, **o),
        ValueError,
        "at least 2, not 1",
    ),
    "no tokens": (
        lambda **o: reduce(SCOUT, ONE, "x", tokens=0, **o),
        ValueError,
        "tokens is whole and at least 1, not 0",
    ),
    "two of one name": (
        lambda **o: route(CHOOSER, [SCOUT, SCOUT], "x", **o),
        ValueError,
        "two members are called 'scout'",
    ),
    "no steps of a plan": (
        lambda **o: orchestrate(CHOOSER, [SCOUT], "x", max_tasks=0, **o),
        ValueError,
        "steps is whole and at least 1, not 0",
    ),
    "fewer than no corrections": (
        lambda **o: make_plan(CHOOSER, [SCOUT], "x", corrections=-1, **o),
        ValueError,
        "corrections is whole and at least 0, not -1",
    ),
    "no rounds of review": (
        lambda **o: review(SCOUT, WRITER, "x", max_rounds=0, **o),
        ValueError,
        "rounds is whole and at least 1, not 0",
    ),
    "no attempts": (
        lambda **o: retry(SCOUT, "x", attempts=0, **o),
        ValueError,
        "attempts is whole and at least 1, not 0",
    ),
    "no rounds of a swarm": (
        lambda **o: swarm([SCOUT], "x", rounds=0, **o),
        ValueError,
        "rounds is whole and at least 1, not 0",
    ),
    "free, and deaf": (
        lambda **o: swarm([SCOUT], "x", free_running=True, **o),
        ValueError,
        "give board=Board()",
    ),
    "no questions": (
        lambda **o: interview(SCOUT, "x", ScriptedAsker([]), max_questions=0, **o),
        ValueError,
        "questions is whole and at least 1, not 0",
    ),
    "no such lifetime": (
        lambda **o: chain([SCOUT], "x", lifetime="forever", **o),  # type: ignore[arg-type]
        ValueError,
        "one of task, workflow, session, not 'forever'",
    ),
    "no time": (
        lambda **o: chain([SCOUT], "x", timeout=0, **o),
        ValueError,
        "timeout must be more than 0 seconds, not 0",
    ),
    "a time in words": (
        lambda **o: chain([SCOUT], "x", timeout="5", **o),  # type: ignore[arg-type]
        TypeError,
        "timeout is a number of seconds, not '5'",
    ),
    "a misspelt option": (
        lambda **o: chain([SCOUT], "x", timout=5, **o),  # type: ignore[call-arg]
        TypeError,
        "there is no option timout=; do you mean timeout=?",
    ),
    "an option that there is not": (
        lambda **o: chain([SCOUT], "x", zz=5, **o),  # type: ignore[call-arg]
        TypeError,
        "there is no option zz=; there are: lifetime, model",
    ),
    "a signal that is none": (
        lambda **o: chain([SCOUT], "x", signal=True, **o),  # type: ignore[arg-type]
        TypeError,
        "signal is a Signal, not True",
    ),
    "a switch that is none": (
        lambda **o: chain([SCOUT], "x", switch=Signal(), **o),  # type: ignore[arg-type]
        TypeError,
        "switch is what stop_switch() makes",
    ),
    "a switch and another signal": (
        lambda **o: chain([SCOUT], "x", switch=stop_switch(), signal=Signal(), **o),
        ValueError,
        "say stop_switch(signal)",
    ),
    "a budget that is a number": (
        lambda **o: chain([SCOUT], "x", budget=5, **o),  # type: ignore[arg-type]
        TypeError,
        "budget is a Budget, not 5",
    ),
}


@pytest.mark.parametrize("misuse", MISUSES)
async def test_misuse_is_refused_before_anything_is_spawned(misuse: str) -> None:
    call, kind, says = MISUSES[misuse]
    troupe = FakeTroupe(good)
    with pytest.raises(kind) as raised:
        await call(spawn=troupe.spawn)
    assert says in str(raised.value)
    assert troupe.opened == []


def breaks(*_: Any) -> Any:
    """What a user got wrong."""
    raise LookupError("no such page")


class BrokenAsker:
    """Cannot ask anybody."""

    async def ask(self, question: Question) -> Answer | None:
        raise LookupError("nobody is there")


BROKEN: dict[str, tuple[Callable[[], Team[Any]], int, str]] = {
    "until of a loop": (lambda: Loop([SCOUT], until=breaks), 1, "after iteration 1 until()"),
    "split": (lambda: FanOut(SCOUT, split=breaks), 1, "split()"),
    "split into too many": (
        lambda: FanOut([SCOUT, WRITER], split=lambda task: [task] * 3),
        1,
        "2 agents for 3 tasks",
    ),
    "split into too few": (
        lambda: FanOut(SCOUT, split=lambda task: [task], quorum=2),
        1,
        "a quorum of 2 cannot be reached by 1",
    ),
    "split into what is no text": (
        lambda: FanOut(SCOUT, split=lambda task: [7]),  # type: ignore[list-item]
        1,
        "a task is a str, not int",
    ),
    "pick of a route": (lambda: route_with(breaks), 1, "pick()"),
    "read of a vote": (lambda: vote_with(breaks), 3, "read()"),
    "when of a retry": (lambda: retry_with(breaks), 1, "when()"),
    "an asker": (lambda: interview_with(BrokenAsker()), 2, "the asker"),
}


def route_with(pick: Any) -> Team[Any]:
    return Route(SCOUT, [WRITER], pick=pick)


def vote_with(read: Any) -> Team[Any]:
    return Vote([SCOUT, KEEPER, WRITER], read=read)


def retry_with(when: Any) -> Team[Any]:
    class Fails:
        name = "fails"

        async def ask(self, task: str) -> Result:
            return failed("fails", "provider", "500")

    return Retry(Fails(), when=when)


def interview_with(asker: Any) -> Team[Any]:
    return Interview(CHOOSER, asker)


@pytest.mark.parametrize("function", BROKEN)
async def test_a_function_of_the_users_that_raises_fails_its_team_which_keeps_its_steps(
    autojump_clock: trio.testing.MockClock, function: str
) -> None:
    make, steps, says = BROKEN[function]
    played = Played(Chain([make(), SCOUT]), FakeTroupe(good))
    report = await played.run()
    played.check()
    assert report.status == "crashed"
    assert says in str(report.error)
    # The team alone: the chain has ended with it.
    [team] = report.steps
    assert len(team.steps) == steps


@pytest.mark.parametrize("function", ["show", "prepare"])
@pytest.mark.parametrize("tokens", [None, 60])
async def test_a_reduction_whose_function_raises_shows_the_branches_it_was_given(
    autojump_clock: trio.testing.MockClock, function: str, tokens: int | None
) -> None:
    branches = (*ONE, failed("b", "provider", "500"))
    broken: dict[str, Any] = {function: breaks}
    done = await reduce(
        WRITER, branches, "x", tokens=tokens, spawn=FakeTroupe(good).spawn, **broken
    )
    assert (done.status, done.steps[:2]) == ("crashed", branches)
    assert f"{function}()" in str(done.error)


async def test_a_swarm_without_members_for_its_board_is_a_swarm_of_those_it_has(
    autojump_clock: trio.testing.MockClock,
) -> None:
    done = await Swarm([SCOUT], rounds=1).ask("x", spawn=FakeTroupe(good).spawn)
    assert (done.ok, done.members) == (True, ("scout@1",))


async def test_nothing_to_do_is_done_at_once() -> None:
    reports: list[Report] = [
        await fan_out(SCOUT, []),
        await fan_out([], []),
        await FanOut(SCOUT, split=lambda task: []).ask("x"),
        await map_reduce(SCOUT, WRITER, "x", split=lambda task: []),
    ]
    for done in reports:
        assert (done.ok, done.steps, done.output) == (True, (), "")


async def test_a_signal_that_was_set_before_all_was_opened_spawns_nobody() -> None:
    signal = Signal()
    signal.set("too late")
    troupe = FakeTroupe(good)
    done = await fan_out(SCOUT, ["a", "b"], signal=signal, spawn=troupe.spawn)
    assert [step.status for step in done.steps] == ["aborted", "aborted"]
    switch = stop_switch(signal)
    chained = await chain([SCOUT], "a", switch=switch, spawn=troupe.spawn)
    assert chained.status == "aborted"
    assert troupe.opened == []
