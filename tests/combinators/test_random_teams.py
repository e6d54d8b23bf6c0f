"""Teams drawn at random, nested in each other, keep the laws that every team keeps."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import standby_combinators
from standby_actors.agent import Agent
from standby_actors.result import Result, failed
from standby_combinators import (
    Answer,
    Board,
    Chain,
    Claims,
    Fallback,
    FanOut,
    Hedge,
    Interview,
    Leased,
    Loop,
    Orchestra,
    Planning,
    Question,
    Race,
    Reduce,
    Report,
    Retry,
    Review,
    Route,
    Signal,
    Stage,
    Swarm,
    Team,
    Vote,
    stop_switch,
)

from .players import FakePlayer, FakeTroupe
from .teams import ELSEWHERE, NO_WAIT, Played

KINDS = ("good", "fails", "raises", "mute")


_drawn = itertools.count()


def agent(kind: str, seconds: int, lifetime: Any) -> Agent:
    """One whose name says how its turns end, and after how long.

    Each takes a little longer or shorter than any other: what happens first among
    things that happen at once is chance, and no law speaks of that.
    """
    more = next(_drawn) * 0.6180339887 % 0.1
    return Agent(f"{kind}-{seconds}", f"{more}", lifetime=lifetime)


AGENTS = st.builds(
    agent, st.sampled_from(KINDS), st.integers(1, 4), st.sampled_from([None, "workflow"])
)


class Always:
    """Answers every question with the same, however often it is played."""

    async def ask(self, question: Question) -> Answer | None:
        return Answer(question.text, "this")


class Talkers(Team[Any]):
    """A swarm that runs free, with a new board for each play."""

    name = "talkers"

    def __init__(self, members: list[Any]) -> None:
        self.members = members

    async def play(self, task: str, stage: Stage, /) -> Any:
        swarm = Swarm(self.members, rounds=2, board=Board(), free_running=True)
        return await swarm.play(task, stage)


def nests(members: st.SearchStrategy[Any]) -> st.SearchStrategy[Team[Any]]:
    """Every combinator around `members`."""
    few = st.lists(members, min_size=1, max_size=3)
    return st.one_of(
        st.builds(Chain, few, carry_request=st.booleans()),
        st.builds(FanOut, few, concurrency=st.integers(1, 3), fail_fast=st.booleans()),
        st.builds(lambda some: FanOut(some, quorum=(len(some) + 1) // 2), few),
        st.builds(Race, few),
        st.builds(lambda some, after: Hedge(some, after=after), few, st.sampled_from([0, 2])),
        st.builds(Fallback, few),
        st.builds(
            lambda some, most, stalled: Loop(some, max_iterations=most, stalled_after=stalled),
            few,
            st.integers(1, 2),
            st.sampled_from([None, 2]),
        ),
        st.builds(lambda one, some: Reduce(one, FanOut(some)), members, few),
        st.builds(lambda one: Retry(one, attempts=2, backoff=NO_WAIT), members),
        st.builds(Vote, few),
        st.builds(lambda one, other: Review(one, other, max_rounds=2), members, members),
        st.builds(lambda one, other: Route(one, [other]), members, members),
        st.builds(lambda some, rounds: Swarm(some, rounds=rounds), few, st.integers(1, 2)),
        st.builds(Talkers, few),
        st.builds(lambda some: FanOut(some, first=True), few),
        st.builds(lambda one: FanOut(one, split=lambda task: [task, "other"]), members),
        st.builds(lambda one, other: Orchestra(one, [other], reducer=one), members, members),
        st.builds(lambda one, other: Planning(one, [other]), members, members),
        st.builds(lambda one: Interview(one, Always(), max_questions=2), members),
        st.builds(lambda one: Leased(one, Claims(), ["a"]), members),
    )


TEAMS = st.recursive(AGENTS, nests, max_leaves=6).filter(lambda drawn: isinstance(drawn, Team))
"""Combinators in combinators, down to agents."""


async def by_name(task: str, player: FakePlayer) -> str | Result:
    """Plays as its agent's name says."""
    kind, _, seconds = player.agent.name.partition("-")
    assert isinstance(player.agent.mind, str)
    await trio.sleep(int(seconds) + float(player.agent.mind))
    match kind:
        case "fails":
            return failed(player.agent.name, "provider", "500")
        case "raises":
            raise RuntimeError("torn")
        case "mute":
            return ""
        case _:
            return said_to(task)


def said_to(task: str) -> str:
    """What a good one answers: whoever plans, asks or routes has to say more than a vote."""
    if "JSON array" in task:
        # A plan for whoever it lists first.
        name = task.partition("\n- ")[2].partition("\n")[0].partition(":")[0]
        return json.dumps([{"agent": name, "task": "go on"}])
    if "Find out what" in task:
        return '{"question": "Which?", "options": ["this", "that"]}'
    return f"VOTE: {len(task) % 2}"


def on_trio(test: Callable[[], Awaitable[None]]) -> None:
    """Run `test` on a clock of its own, which jumps."""
    trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))


def shown(result: Result) -> tuple[Any, ...]:
    """What a Result says, but for when."""
    kind = None if result.error is None else result.error.kind
    return result.status, kind, result.output, result.agent, result.usage.turns


async def play(team: Team[Any], **options: Any) -> Any:
    """Its Report, all that must hold having been checked."""
    played = Played(team, FakeTroupe(by_name), **options)
    report = await played.run("go")
    assert isinstance(report, Report)
    played.check()
    return report


QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


@QUICK
@given(TEAMS)
def test_any_team_ends_and_accounts_for_every_turn(team: Team[Any]) -> None:
    async def test() -> None:
        report = await play(team)
        # The same members on the same clock come to the same.
        assert shown(await play(team)) == shown(report)

    on_trio(test)


@QUICK
@given(TEAMS)
def test_a_chain_and_a_fan_out_of_any_one_team_are_that_team(team: Team[Any]) -> None:
    async def test() -> None:
        alone = shown(await play(team))
        assert shown(await play(Chain([team]))) == alone
        assert shown(await play(FanOut([team]))) == alone
        assert shown(await play(Race([team]))) == alone
        assert shown(await play(Fallback([team]))) == alone

    on_trio(test)


@QUICK
@given(st.lists(TEAMS, min_size=1, max_size=2), st.lists(TEAMS, min_size=1, max_size=2))
def test_chains_in_a_chain_are_one_chain(some: list[Team[Any]], others: list[Team[Any]]) -> None:
    async def test() -> None:
        flat = shown(await play(Chain([*some, *others])))
        assert shown(await play(Chain([Chain(some), Chain(others)]))) == flat

    on_trio(test)


@QUICK
@given(TEAMS, AGENTS)
def test_a_branch_does_not_notice_what_becomes_of_the_one_beside_it(
    team: Team[Any], other: Agent
) -> None:
    async def test() -> None:
        alone = await play(FanOut([team]))
        both = await play(FanOut([team, other]))
        assert shown(both.steps[0]) == shown(alone.steps[0])

    on_trio(test)


@QUICK
@given(TEAMS, st.sampled_from(["fails-1", "raises-1"]))
def test_whoever_reduces_is_shown_what_failed(team: Team[Any], bad: str) -> None:
    async def test() -> None:
        heard: list[str] = []

        async def listen(task: str, player: FakePlayer) -> str | Result:
            if player.agent.name == "reducer":
                heard.append(task)
                return "in sum"
            return await by_name(task, player)

        source = FanOut([team, Agent(bad, "0")])
        played = Played(Reduce(Agent("reducer", "0"), source), FakeTroupe(listen))
        report = await played.run("go")
        played.check()
        assert report.output == "in sum"
        assert f"## 2. {bad} (failed)" in heard[0]

    on_trio(test)


@QUICK
@given(TEAMS, st.floats(0.1, 12), st.booleans())
def test_any_team_can_be_called_off_or_cancelled_at_any_moment(
    team: Team[Any], moment: float, cancels: bool
) -> None:
    async def test() -> None:
        signal = Signal()
        played = Played(team, FakeTroupe(by_name), signal=signal)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def call_off() -> None:
                    await trio.sleep(moment)
                    if cancels:
                        scope.cancel()
                    else:
                        signal.set("enough")

                nursery.start_soon(call_off)
                await played.run("go")
                nursery.cancel_scope.cancel()
        played.check()
        assert played.report is not None or cancels

    on_trio(test)


@QUICK
@given(st.lists(AGENTS, min_size=1, max_size=4), st.integers(1, 4))
def test_a_swarm_of_one_round_without_a_board_is_a_fan_out(
    members: list[Agent], width: int
) -> None:
    async def test() -> None:
        swarm = await play(Swarm(members, rounds=1, concurrency=width))
        fan = await play(FanOut(members, concurrency=width))
        assert [shown(step) for step in swarm.steps] == [shown(step) for step in fan.steps]
        assert swarm.ok == fan.ok
        assert swarm.usage.turns == fan.usage.turns

    on_trio(test)


@QUICK
@given(TEAMS, TEAMS, st.floats(0.1, 8), st.integers(0, 20))
def test_whoever_is_stopped_leaves_the_branch_beside_it_as_it_was(
    team: Team[Any], other: Team[Any], moment: float, which: int
) -> None:
    async def test() -> None:
        alone = await play(FanOut([team]))
        beside = Played(FanOut([other]), FakeTroupe(by_name))
        await beside.run("go")
        theirs = {player.agent.mind for player in beside.troupe.opened}
        switch, troupe = stop_switch(), FakeTroupe(by_name)
        played = Played(FanOut([team, other]), troupe, switch=switch)
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                await trio.sleep(moment)
                there = [each.id for each in troupe.opened if each.agent.mind in theirs]
                there = [each for each in there if each in switch.ids]
                if there:
                    await switch.one(there[which % len(there)])

            nursery.start_soon(stop)
            report = await played.run("go")
            nursery.cancel_scope.cancel()
        played.check()
        assert shown(report.steps[0]) == shown(alone.steps[0])

    on_trio(test)


def test_every_combinator_is_drawn() -> None:
    source = inspect.getsource(nests)
    for name, each in vars(standby_combinators).items():
        if inspect.isclass(each) and issubclass(each, Team) and each is not Team:
            assert name in ELSEWHERE or name in source, f"{name} is in no random team"
