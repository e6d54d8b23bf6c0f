"""Those who took over and those at work below: steered, shown pictures, cut, begun anew."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby_actors.agent import Agent, Limits
from standby_actors.budget import Budget
from standby_actors.result import Attachment
from standby_actors.session import Capabilities, Handoff, Session, Steering
from standby_actors.sessions.chat import ChatModel, open_chat_model
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import Subagent, reset_ids, spawn, subagent
from standby_actors.usage import Usage
from standby_supervision import child, open_supervisor
from tests.agents.chat.asking import settings
from tests.support.cutting import CutAt
from tests.support.model_server_agents import agent_server
from tests.support.strict_server import Called, StrictServer

SPENT = Usage(requests=1, input_tokens=10, output_tokens=3)
SEES = Capabilities(images=True)
PICTURE = Attachment("image/png", b"pixels", "plan.png")

CLERK = Agent("clerk", "You file.")
DESK = Agent("desk", "You receive.", handoffs=[CLERK])
BOSS = Agent("boss", "You decide.", agents=[CLERK])


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


@define(eq=False)
class Told(ScriptedSession):
    """Takes words in mid-turn, and keeps them."""

    words: list[str] = field(init=False, factory=list[str])

    def steer(self, text: str) -> Steering:
        """Keep it."""
        self.words.append(text)
        return "queued"

    def follow_up(self, text: str) -> Steering:
        """Keep it, marked."""
        return self.steer(f"later: {text}")


class Cast:
    """A script for each agent by name; the sessions of each, in the order of opening."""

    def __init__(self, **scripts: Callable[[str], Reply]) -> None:
        self.scripts = scripts
        self.can: dict[str, Capabilities] = {}
        self.sessions: dict[str, list[Told]] = {}

    def __call__(self, agent: Agent) -> Session:
        session = Told(self.scripts[agent.name])
        session.capabilities = self.can.get(agent.name, session.capabilities)
        self.sessions.setdefault(agent.name, []).append(session)
        return session

    def asked(self, name: str) -> list[str]:
        """Every task of every session of this agent."""
        return [task for session in self.sessions.get(name, ()) for task in session.asked]

    @property
    def closed(self) -> list[int]:
        return [each.closed for many in self.sessions.values() for each in many]


def says(text: str, seconds: float = 0.0, **more: Any) -> Callable[[str], Reply]:
    return lambda task: Reply(text, seconds=seconds, usage=SPENT, **more)


def in_turn(*replies: Callable[[str], Reply]) -> Callable[[str], Reply]:
    """The first reply, then the second, …; the last for ever."""
    left = list(replies)
    return lambda task: (left.pop(0) if len(left) > 1 else left[0])(task)


def gives(to: str, text: str = "") -> Callable[[str], Reply]:
    return says(text, handoff=Handoff(to))


# ---- steering


async def test_a_word_goes_to_whoever_is_answering_and_to_nobody_else(
    autojump_clock: MockClock,
) -> None:
    boss = Agent("boss", "You decide.", handoffs=["desk"])
    clerk = Agent("clerk", "You file.", handoffs=[boss])
    desk = Agent("desk", "You receive.", handoffs=[clerk])
    cast = Cast(
        desk=in_turn(says("", 2, handoff=Handoff("clerk")), says("Back.", 2)),
        clerk=says("", 2, handoff=Handoff("boss")),
        boss=says("", 2, handoff=Handoff("desk")),
    )
    async with spawn(desk, session=cast, roster=[desk]) as subagent:
        assert (subagent.steer("early"), subagent.follow_up("early")) == ("idle", "idle")

        async def steer() -> None:
            await trio.sleep(1)
            for number in range(4):
                assert subagent.steer(str(number)) == "queued"
                assert subagent.follow_up(str(number)) == "queued"
                await trio.sleep(2)
            assert subagent.steer("late") == "idle"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(steer)
            assert (await subagent.ask("go")).output == "Back."
    assert [each.words for each in cast.sessions["desk"]] == [["0", "later: 0", "3", "later: 3"]]
    assert [each.words for each in cast.sessions["clerk"]] == [["1", "later: 1"]]
    assert [each.words for each in cast.sessions["boss"]] == [["2", "later: 2"]]


async def test_an_interrupt_ends_the_turn_of_who_took_over_and_the_next_is_played(
    autojump_clock: MockClock,
) -> None:
    cast = Cast(desk=gives("clerk"), clerk=in_turn(says("late", 60), says("Filed.")))
    async with spawn(DESK, session=cast) as desk, trio.open_nursery() as nursery:

        async def interrupt() -> None:
            await trio.sleep(1)
            assert desk.interrupt()

        nursery.start_soon(interrupt)
        assert (await desk.ask("one")).status == "stopped"
        result = await desk.ask("two")
    assert (result.status, result.output, result.subagent) == ("ok", "Filed.", "clerk#1")
    assert cast.closed == [1, 1]


# ---- pictures


async def test_who_takes_over_is_shown_what_it_can_see_and_told_of_the_rest() -> None:
    cast = Cast(desk=gives("clerk"), clerk=says("Seen."))
    cast.can = {"desk": SEES, "clerk": SEES}
    async with spawn(DESK, session=cast) as desk:
        result = await desk.ask("Look.", PICTURE)
        assert [each.attachments for each in result.messages if each.role == "user"] == [
            (PICTURE,),
            (PICTURE,),
        ]
        # A picture belongs to its turn, and is not sent again with the next.
        result = await desk.ask("And now?")
        assert not any(each.attachments for each in result.messages)
    cast = Cast(desk=gives("clerk"), clerk=says("Blind."))
    cast.can = {"desk": SEES}
    async with spawn(DESK, session=cast) as desk:
        result = await desk.ask("Look.", PICTURE)
        assert [len(each.attachments) for each in result.messages if each.role == "user"] == [1, 0]
    assert "Attached, and not shown to you: plan.png." in cast.asked("clerk")[0]


async def test_who_takes_over_twice_in_a_turn_is_shown_a_picture_once() -> None:
    clerk = Agent("clerk", "You file.", handoffs=["desk"])
    desk = Agent("desk", "You receive.", handoffs=[clerk])
    cast = Cast(desk=gives("clerk"), clerk=in_turn(gives("desk"), says("Seen.")))
    cast.can = {"desk": SEES, "clerk": SEES}
    async with spawn(desk, session=cast, roster=[desk]) as subagent:
        result = await subagent.ask("Look.", PICTURE)
    assert result.output == "Seen."
    shown = [len(each.attachments) for each in result.messages if each.role == "user"]
    # To the desk, to the clerk; the two after that have them already.
    assert shown == [1, 1, 0, 0]
    assert "not shown" not in cast.asked("clerk")[1]


async def test_who_takes_over_later_is_told_what_was_attached_before() -> None:
    cast = Cast(desk=in_turn(says("I see."), gives("clerk")), clerk=says("Filed."))
    cast.can = {"desk": SEES, "clerk": SEES}
    async with spawn(DESK, session=cast) as desk:
        await desk.ask("Look.", PICTURE)
        await desk.ask("File it.")
    assert "user: Look.  (attached: plan.png)" in cast.asked("clerk")[0]


# ---- lives


@pytest.mark.parametrize("remember", ["fresh", "replay"])
async def test_after_a_restart_a_conversation_is_handed_over_as_its_agent_remembers(
    remember: Any, autojump_clock: MockClock
) -> None:
    agent = Agent("desk", "You receive.", handoffs=[CLERK], remember=remember)
    cast = Cast(
        desk=in_turn(gives("clerk"), says("Bye.", dead=True), gives("clerk")), clerk=says("Filed.")
    )
    async with open_supervisor(child(subagent(agent, session=cast), id="desk")) as tree:
        desk = Subagent(tree["desk"])
        assert (await desk.ask("one")).subagent == "clerk#1"
        assert (await desk.ask("two")).output == "Bye."
        result = await desk.ask("three")
        # The clerk of the life before has ended with it; another one is told.
        assert (result.status, result.subagent) == ("ok", "clerk#2")
        assert [each.closed for each in cast.sessions["clerk"]] == [1, 0]
        told = cast.asked("clerk")[1]
        before = ("user: one", "clerk: Filed.", "user: two", "desk: Bye.")
        assert [each in told for each in before] == [remember == "replay"] * 4
        assert "user: three" in told
        # The desk knows by itself what it has said, and is not told it twice.
        assert "user: one" not in cast.sessions["desk"][-1].asked[0]
        # Both lives are paid for, once.
        assert desk.usage_with_others.input_tokens == 50
    assert cast.closed == [1] * 4


async def test_a_crash_in_the_middle_of_a_handover_leaves_the_next_life_whole(
    autojump_clock: MockClock,
) -> None:
    cast = Cast(
        desk=in_turn(gives("clerk"), says("", crash=RuntimeError("torn")), says("Here again.")),
        clerk=says("", handoff=Handoff("desk")),
    )
    clerk = Agent("clerk", "You file.", handoffs=["desk"])
    agent = Agent("desk", "You receive.", handoffs=[clerk], remember="replay")
    start = subagent(agent, session=cast, roster=[agent])
    async with open_supervisor(child(start, id="desk")) as tree:
        desk = Subagent(tree["desk"])
        # It hands over, is handed back to, and crashes.
        lost = await desk.ask("one")
        assert (lost.status, lost.usage.input_tokens) == ("crashed", 30)
        result = await desk.ask("two")
        assert (result.status, result.output) == ("ok", "Here again.")
        assert desk.usage_with_others.input_tokens == 40
    assert cast.closed == [1] * 3


@pytest.mark.parametrize("how", ["dead", "crashed"])
async def test_of_one_who_took_over_and_is_gone_the_next_handover_opens_another(
    how: str, autojump_clock: MockClock
) -> None:
    end = says("", dead=True) if how == "dead" else says("", crash=RuntimeError("torn"))
    cast = Cast(desk=gives("clerk"), clerk=in_turn(end, says("Filed.")))
    async with spawn(DESK, session=cast) as desk:
        await desk.ask("one")
        result = await desk.ask("two")
        assert (result.status, result.output, result.subagent) == ("ok", "Filed.", "clerk#2")
        assert "user: one" in cast.asked("clerk")[1]
        assert [each.closed for each in cast.sessions["clerk"]] == [1, 0]
    assert cast.closed == [1] * 3


# ---- delegation


@define(eq=False)
class Office:
    """A boss that delegates two tasks, and clerks that take their time; no network."""

    seconds: float = 2.0
    requests: int = 0

    @asynccontextmanager
    async def create(self, **parameters: Any) -> AsyncGenerator[Any]:
        """One answer, by who asks."""
        self.requests += 1
        messages = parameters["messages"]
        answer: str | Sequence[Called] = "Filed."
        if "You decide" in str(messages[0]):
            called = Called("c1", "subagent", '{"agent": "clerk", "tasks": ["a", "b"]}')
            answer = "Done." if messages[-1]["role"] == "tool" else [called]
        else:
            await trio.sleep(self.seconds)
        async with StrictServer("chat", lambda: answer).create(**parameters) as response:
            yield response

    @property
    def model(self) -> ChatModel:
        """What asks it."""
        server = StrictServer("chat", lambda: "")
        client = server.client
        client.chat.completions.with_streaming_response.create = self.create
        model = ChatModel(settings("http://127.0.0.1:9", "chat"), retries=0)
        # There is no public way to bring a client of one's own.
        model._client = client  # pyright: ignore[reportPrivateUsage]
        return model


@pytest.mark.parametrize("how", ["deadline", "cancel", "interrupt", "abort", "seconds"])
async def test_whatever_cuts_a_turn_in_the_middle_of_a_delegation_ends_those_below(
    how: str, autojump_clock: MockClock
) -> None:
    office = Office(seconds=60.0)
    budget = Budget(Limits(seconds=2.0) if how == "seconds" else Limits())
    async with spawn(BOSS, model=office.model, budget=budget) as boss:

        async def cut() -> None:
            await trio.sleep(2)
            if how in ("interrupt", "abort"):
                getattr(boss, how)()

        began = trio.current_time()
        with trio.move_on_after(2 if how == "cancel" else 100) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cut)
                result = await boss.ask("go", timeout=2 if how == "deadline" else None)
                statuses = {
                    "deadline": "timed_out",
                    "interrupt": "stopped",
                    "abort": "aborted",
                    "seconds": "budget",
                }
                assert result.status == statuses[how]
                # Who delegated and the two below it: what was asked for was spent.
                assert result.usage.requests == 3
        assert scope.cancelled_caught == (how == "cancel")
        assert trio.current_time() - began < 4
        assert boss.ref.snapshot().children == ()
        assert (boss.usage_with_others.requests, office.requests) == (3, 3)
        assert (budget.spent.requests, budget.reserved_turns) == (3, 0)
        office.seconds = 0.0
        if how != "seconds":
            assert (await boss.ask("again")).output == "Done."


async def test_an_abort_at_any_step_of_a_delegation_leaves_nobody_at_work(
    autojump_clock: MockClock,
) -> None:
    statuses: set[str] = set()
    step = 0
    while True:
        step += 1
        office, budget = Office(), Budget(Limits())
        async with spawn(BOSS, model=office.model, budget=budget) as boss:
            with CutAt(step, boss.abort) as cut:
                result = await boss.ask("go")
            statuses.add(result.status)
            assert boss.ref.snapshot().children == (), step
            assert boss.usage_with_others.requests == office.requests, step
            assert (budget.spent.requests, budget.reserved_turns) == (office.requests, 0), step
            assert (await boss.ask("again")).status == "ok", step
        if cut.was_late:
            break
    assert statuses == {"ok", "aborted"}
    assert step > 30


async def test_an_abort_at_any_step_of_a_handover_leaves_one_of_each_at_most(
    autojump_clock: MockClock,
) -> None:
    statuses: set[str] = set()
    step = 0
    while True:
        step += 1
        cast = Cast(desk=gives("clerk"), clerk=says("Filed.", 0.5))
        async with spawn(DESK, session=cast) as desk:
            with CutAt(step, desk.abort) as cut:
                statuses.add((await desk.ask("go")).status)
            asked = len(cast.asked("desk")) + len(cast.asked("clerk"))
            assert desk.usage_with_others.requests == asked, step
            assert len(desk.ref.snapshot().children) <= 1, step
            result = await desk.ask("again")
            assert (result.status, result.output) == ("ok", "Filed."), step
            assert len(desk.ref.snapshot().children) == 1, step
        assert set(cast.closed) == {1}, step
        if cut.was_late:
            break
    assert statuses == {"ok", "aborted"}
    assert step > 10


async def test_a_budget_that_runs_out_below_is_told_and_ends_who_delegated_no_sooner(
    autojump_clock: MockClock,
) -> None:
    office, budget = Office(), Budget(Limits(turns=2))
    async with spawn(BOSS, model=office.model, budget=budget) as boss:
        result = await boss.ask("go")
    # Its own turn, that of one clerk, and none for the other.
    assert (result.status, result.output, office.requests) == ("ok", "Done.", 3)
    (told,) = [each.text for each in result.messages if each.role == "tool"]
    assert "Filed." in told
    assert "a limit of 2 turns" in told
    assert (budget.spent.turns, budget.reserved_turns) == (2, 0)


async def test_tokens_that_are_spent_below_end_the_turn_of_who_delegated() -> None:
    budget = Budget(Limits(tokens=250))
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, "chat"), retries=0) as model,
        spawn(BOSS, model=model, budget=budget) as boss,
    ):
        result = await boss.ask('CALL:subagent:{"agent": "clerk", "tasks": ["a"]}')
        assert result.status == "budget"
        assert boss.ref.snapshot().children == ()
        # Three answers of a hundred each: what was there, and the one that was too much.
        assert budget.spent.input_tokens == result.usage.input_tokens == 300
        refused = await boss.ask("more")
    assert (refused.status, len(server.seen)) == ("budget", 3)
