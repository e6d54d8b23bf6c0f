"""An agent stands wherever an actor class may, and its subagent is closed however it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby_actors import Actor, ActorStopped, Killed, open_nursery
from standby_actors.agent import Agent
from standby_actors.events import open_events
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import Subagent, reset_ids, spawn, subagent
from tests.agents.minds import Scripts

SCOUT = Agent("scout", "Find it.")


@pytest.fixture(autouse=True)
def _counted_from_one() -> None:
    reset_ids()


async def test_a_nursery_spawns_an_agent_and_closes_its_subagent(
    autojump_clock: MockClock,
) -> None:
    minds = Scripts([["one", "two"]])
    async with open_nursery() as nursery:
        scout = nursery.spawn(SCOUT, backend=minds)
        assert (await scout.ask("a")).output == "one"
        assert (await scout.ask("b")).output == "two"
        assert nursery.whereis("scout#1") is scout.ref
    assert minds.log == ["open 1", "left 1"]
    assert minds.opened[0].closed == 1


async def test_an_error_of_opening_is_raised_where_it_is_started(
    autojump_clock: MockClock,
) -> None:
    minds = Scripts([["one"]], error=OSError("no such program"))
    async with open_nursery() as nursery:
        with pytest.raises(OSError, match="no such program"):
            await nursery.start(SCOUT, backend=minds)
        scout = await nursery.start(SCOUT, backend=minds)
        assert (await scout.ask("a")).output == "one"


async def test_an_actor_has_subagents_of_its_own_which_end_before_it(
    autojump_clock: MockClock,
) -> None:
    minds = Scripts([["one"]])

    class Owner(Actor):
        async def receive(self, message: str) -> str:
            scout = await self.start(SCOUT, backend=minds)
            return (await scout.ask(message)).output

        def on_stop(self, reason: Any) -> None:
            minds.log.append("owner stopped")

    async with open_nursery() as nursery:
        assert await nursery.spawn(Owner).ask("a") == "one"
    assert minds.log == ["open 1", "left 1", "owner stopped"]


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in mid-turn"])
async def test_a_killed_subagent_exports_and_lets_go_of_its_session(
    busy: bool, tmp_path: Path, autojump_clock: MockClock
) -> None:
    minds = Scripts([["one", Reply("two", seconds=60.0)]])
    async with open_events() as events, open_nursery() as nursery:
        scout = await nursery.start(SCOUT, backend=minds, export_dir=tmp_path)
        await scout.ask("a")
        if busy:
            scout.ref.tell("b")
            await trio.sleep(1)
        scout.ref.kill()
        assert isinstance(await scout.ref.join(), Killed)
        events.close()
        kinds = [event.type async for event in events if event.type.startswith("subagent.")]
    assert minds.log == ["open 1", "left 1"]
    assert minds.opened[0].did[-2:] == ["export", "close"]
    assert (tmp_path / "scout-1.jsonl").exists()
    assert kinds.count("subagent.spawn") == kinds.count("subagent.close") == 1


async def test_a_cancelled_block_closes_its_subagents(autojump_clock: MockClock) -> None:
    minds = Scripts([[Reply("one", seconds=60.0)], ["two"]])
    with trio.move_on_after(1):
        async with open_nursery() as nursery:
            scout = nursery.spawn(SCOUT, backend=minds)
            nursery.spawn(SCOUT, backend=minds)
            await scout.ask("a")
    assert sorted(minds.log) == ["left 1", "left 2", "open 1", "open 2"]
    assert [each.closed for each in minds.opened] == [1, 1]


async def test_an_ask_of_a_text_through_the_ref_is_a_turn(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        scout = nursery.spawn(SCOUT, session=ScriptedSession(["one"]))
        result = await scout.ref.ask("a")
        assert (result.output, result.subagent) == ("one", "scout#1")


async def test_a_subagent_that_was_specified_takes_no_more_options(
    autojump_clock: MockClock,
) -> None:
    start = subagent(SCOUT, session=ScriptedSession(["one"]))
    async with open_nursery() as nursery:
        with pytest.raises(TypeError, match=r"say timeout to subagent"):
            nursery.spawn(start, timeout=1.0)
        assert (await nursery.spawn(start).ask("a")).output == "one"


# A session that lives in a block.


async def test_a_session_is_found_again_by_agent_and_key_in_its_block(
    autojump_clock: MockClock,
) -> None:
    minds = Scripts([["one", "two", "three"], ["other"]])
    async with open_nursery() as session:
        ids: list[str] = []
        for key in (None, None, "other", None):
            async with spawn(
                SCOUT, lifetime="session", within=session, key=key, backend=minds
            ) as scout:
                ids.append(scout.id)
                await scout.ask("a")
        assert ids == ["scout#1", "scout#1", "scout#2", "scout#1"]
        assert minds.log == ["open 1", "open 2"]
    assert sorted(minds.log[2:]) == ["left 1", "left 2"]


async def test_those_who_ask_at_once_share_one_subagent(autojump_clock: MockClock) -> None:
    minds = Scripts([[Reply(str(each), seconds=1.0) for each in range(3)]])
    outputs: list[str] = []

    async def one() -> None:
        async with spawn(SCOUT, lifetime="session", within=session, backend=minds) as scout:
            outputs.append((await scout.ask("a")).output)

    async with open_nursery() as session, trio.open_nursery() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
    assert sorted(outputs) == ["0", "1", "2"]
    assert minds.log == ["open 1", "left 1"]


async def test_one_that_has_ended_is_followed_by_another(autojump_clock: MockClock) -> None:
    minds = Scripts([["one"], ["two"]])
    async with open_nursery() as session:
        for expected in ("one", "two"):
            async with spawn(SCOUT, lifetime="session", within=session, backend=minds) as scout:
                assert (await scout.ask("a")).output == expected
                await scout.close()


async def test_a_session_without_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match=r"name one with within="):
        async with spawn(SCOUT, lifetime="session", session=ScriptedSession([])):
            pass
    with pytest.raises(ValueError, match=r"by the agent"):
        subagent(Agent("friend", "Be kind.", lifetime="session"))


# Words from outside.


async def test_a_word_finds_no_turn_in_flight(autojump_clock: MockClock) -> None:
    async with spawn(SCOUT, session=ScriptedSession([Reply("a", seconds=1.0)])) as scout:
        assert scout.steer("left") == "idle"
        assert scout.follow_up("and then?") == "idle"
        assert not scout.interrupt()


async def test_an_interrupt_ends_one_turn_and_no_other(autojump_clock: MockClock) -> None:
    mind = ScriptedSession([Reply("long", seconds=60.0, pieces=60), "short"])
    async with spawn(SCOUT, session=mind) as scout, trio.open_nursery() as tasks:
        results: list[Any] = []

        async def ask() -> None:
            results.append(await scout.ask("a"))

        tasks.start_soon(ask)
        await trio.sleep(1.5)
        assert scout.steer("left") == "unsupported"
        assert scout.interrupt()
        assert (await scout.ask("b")).output == "short"
    assert [each.status for each in results] == ["stopped"]


async def test_a_handle_is_of_a_subagent_that_has_been_started(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref = nursery.spawn(lambda message: message)
        with pytest.raises(TypeError, match="is no subagent"):
            Subagent(ref)


async def test_a_closed_one_is_closed(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        scout = nursery.spawn(SCOUT, session=ScriptedSession(["one"]))
        await scout.ask("a")
        assert (await scout.close()).closed
        with pytest.raises(ActorStopped):
            await scout.ask("b")
