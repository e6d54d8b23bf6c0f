"""Case C30: an answer goes to whoever asked for it, and to nobody else; a lost one is told.

Root has B work, and B has C; C is asked again later, by B and by a stranger.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from standby import Actor, Ref, open_events, open_nursery
from standby_actors.agent import Agent
from standby_actors.result import Result
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import Subagent, spawn
from standby_combinators import Chain, FanOut, Signal, SubagentPool, chain, fan_out
from standby_supervision import child, open_supervisor

C = Agent("c", "Look.", lifetime="workflow")


@define(eq=False)
class Office:
    """Who has heard what, and when."""

    heard: list[tuple[float, str, str]] = field(factory=list[tuple[float, str, str]])

    def note(self, who: str, what: str) -> str:
        self.heard.append((trio.current_time(), who, what))
        return what

    def of(self, who: str) -> list[tuple[float, str]]:
        return [(at, what) for at, name, what in self.heard if name == who]


class Asks(Actor):
    """Asks whoever it was given, notes what it hears, and passes it on."""

    def __init__(self, office: Office, name: str, other: Any) -> None:
        self.office, self.name, self.other = office, name, other

    async def receive(self, task: str) -> str:
        answer = await self.other.ask(task)
        return self.office.note(self.name, answer.output if isinstance(answer, Result) else answer)


async def asks(who: Ref[str], task: str) -> None:
    await who.ask(task)


def slow(answers: dict[str, float]) -> ScriptedSession:
    """Says each task again, after its own time."""
    return ScriptedSession(lambda task: Reply(f"to {task}", seconds=answers[task]))


async def test_one_that_is_asked_again_answers_who_asked_again_and_not_the_root(
    autojump_clock: trio.testing.MockClock,
) -> None:
    office = Office()
    async with open_nursery() as nursery, spawn(C, session=slow({"one": 1, "two": 29})) as c:
        b = nursery.spawn(Asks, office, "b", c)
        root = nursery.spawn(Asks, office, "root", b)
        assert await root.ask("one") == "to one"
        # B asks again, though nobody has asked it to.
        assert await b.ask("two") == "to two"
    assert office.of("b") == [(1, "to one"), (30, "to two")]
    assert office.of("root") == [(1, "to one")]


async def test_a_stranger_gets_its_own_answer_and_the_owner_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    office = Office()
    async with open_nursery() as nursery, spawn(C, session=slow({"two": 29, "mine": 5})) as c:
        b = nursery.spawn(Asks, office, "b", c)
        d = nursery.spawn(Asks, office, "d", c)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(asks, b, "two")
            await trio.sleep(1)
            tasks.start_soon(asks, d, "mine")
    assert office.of("b") == [(29, "to two")]
    assert office.of("d") == [(34, "to mine")]


class Root(Actor):
    """Has B work, and crashes once on the way; B tells whoever is root by then."""

    def __init__(self, office: Office, lives: list[int]) -> None:
        lives.append(len(lives) + 1)
        self.office, self.life = office, lives[-1]

    async def receive(self, said: str) -> None:
        if said == "crash":
            raise RuntimeError("torn")
        self.office.note(f"root, life {self.life}", said)


class Tells(Actor):
    """Works, and tells whoever it was given of the result."""

    def __init__(self, c: Subagent, parent: Ref[str]) -> None:
        self.c, self.parent = c, parent

    async def receive(self, task: str) -> None:
        self.parent.tell((await self.c.ask(task)).output)


async def test_a_result_goes_to_the_life_that_its_parent_has_by_then(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    office, lives = Office(), list[int]()
    async with (
        spawn(C, session=slow({"one": 30})) as c,
        open_supervisor(child(Root, office, lives, id="root")) as supervisor,
        open_nursery() as nursery,
    ):
        root: Ref[str] = supervisor["root"]
        nursery.spawn(Tells, c, root).tell("one")
        await trio.sleep(10)
        root.tell("crash")
        await trio.sleep(30)
    assert lives == [1, 2]
    assert office.heard == [(30, "root, life 2", "to one")]


async def test_a_result_for_a_parent_that_is_gone_is_told_and_counted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    office = Office()
    async with open_events() as events:
        async with open_nursery() as nursery, spawn(C, session=slow({"one": 30})) as c:
            root = nursery.spawn(Root, office, [])
            nursery.spawn(Tells, c, root).tell("one")
            await trio.sleep(10)
            await root.stop()
            await trio.sleep(30)
            assert nursery.dead_letters == 1
        events.close()
        lost = [event async for event in events if event.type == "actor.dead_letter"]
    assert [event.actor for event in lost] == [root.path]
    assert office.heard == []


async def test_a_team_that_is_called_off_hears_nothing_of_what_others_ask_its_members(
    autojump_clock: trio.testing.MockClock,
) -> None:
    signal = Signal()
    async with spawn(C, session=slow({"one": 20, "two": 5})) as c:
        done: list[Result] = []

        async def ask(task: str, signal: Signal | None) -> None:
            done.append(await chain([c], task, signal=signal))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "one", signal)
            await trio.sleep(1)
            nursery.start_soon(ask, "two", None)
            await trio.sleep(1)
            signal.set("enough")
    assert [(each.status, each.output) for each in done] == [("aborted", ""), ("ok", "to two")]


@pytest.mark.parametrize("seed", range(5))
async def test_of_many_turns_in_a_pool_each_answer_is_that_to_its_own_task(
    autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    await play_many(seed, 200)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(5, 25))
async def test_of_ten_thousand_turns_in_a_pool_each_answer_is_that_to_its_own_task(
    autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    await play_many(seed, 10_000)


async def play_many(seed: int, turns: int) -> None:
    """So many askers of few subagents: kept, held, lent, in teams; crashing, and cut."""
    source = random.Random(seed)

    class Model:
        def session(self, agent: Agent, /) -> ScriptedSession:
            return ScriptedSession(answer)

    def answer(task: str) -> Reply:
        torn = RuntimeError("torn") if source.random() < 0.05 else None
        return Reply(f"to {task}", seconds=source.random(), crash=torn)

    keepers = [Agent(name, "Keep.", lifetime="workflow") for name in ("one", "two", "one")]
    counts: Counter[str] = Counter()
    async with (
        spawn(C, session=ScriptedSession(lambda task: Reply(f"to {task}"))) as lent,
        SubagentPool(model=Model()) as pool,
        trio.open_nursery() as nursery,
    ):

        async def turn(number: int) -> None:
            task, keeper = f"task {number}", source.choice(keepers)
            with trio.move_on_after(source.choice([5.0, 500.0])):
                match source.randrange(5):
                    case 0:
                        result = await pool.turn(keeper, task, key=source.choice("ab"))
                    case 1:
                        held = await pool.hold(keeper, key="held")
                        result = await held.ask(task)
                    case 2:
                        result = await pool.turn(lent, task)
                    case 3:
                        result = await pool.turn(Chain([FanOut([keeper])]), task)
                    case _:
                        result = await pool.turn(FanOut([lent, keeper], first=True), task)
                counts[result.status] += 1
                if result.ok:
                    assert result.output == f"to {task}", seed

        for number in range(turns):
            nursery.start_soon(turn, number)
            if source.random() < 0.3:
                await trio.sleep(source.random())
    assert counts["ok"] > turns / 4
    assert set(counts) <= {"ok", "crashed", "refused", "failed"}, counts


async def test_answers_of_a_fan_out_stand_at_the_places_of_their_tasks_however_they_land(
    autojump_clock: trio.testing.MockClock,
) -> None:
    source = random.Random(30)
    seconds = {f"task {n}": source.random() for n in range(500)}
    async with spawn(C, session=slow(seconds)) as c:
        done = await fan_out(c, list(seconds), concurrency=50)
    assert [step.output for step in done.steps] == [f"to {task}" for task in seconds]
