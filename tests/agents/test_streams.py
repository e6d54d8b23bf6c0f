"""A turn that is read while it is played."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from standby_actors import open_nursery
from standby_actors.agent import Agent
from standby_actors.session import MessageEnded, TextDelta
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import spawn

SCOUT = Agent("scout", "Find it.")


async def test_events_come_one_by_one_and_the_result_after_them(
    autojump_clock: MockClock,
) -> None:
    mind = ScriptedSession([Reply("abcd", pieces=4, seconds=4.0)])
    async with spawn(SCOUT, session=mind) as scout:
        stream = scout.stream("say it")
        with pytest.raises(RuntimeError, match="not over"):
            _ = stream.result
        began = trio.current_time()
        pieces: list[tuple[str, float]] = []
        roles: list[str] = []
        async for event in stream:
            match event:
                case TextDelta(text):
                    pieces.append((text, trio.current_time() - began))
                case MessageEnded(message):
                    roles.append(message.role)
                case _:
                    pytest.fail(f"{event} was not expected")
        assert pieces == [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)]
        assert roles == ["user", "assistant"]
        assert stream.result.output == "abcd"


async def test_a_loop_that_is_left_lets_the_turn_go_on(autojump_clock: MockClock) -> None:
    mind = ScriptedSession([Reply("abcd", pieces=4, seconds=4.0), "next"])
    async with spawn(SCOUT, session=mind) as scout:
        async for event in scout.stream("say it"):
            if isinstance(event, TextDelta):
                break
        assert (await scout.ask("and now?")).output == "next"
    assert [message.partial for message in mind.transcript()] == [False] * 4


async def test_a_block_that_is_left_cuts_the_turn(autojump_clock: MockClock) -> None:
    mind = ScriptedSession([Reply("abcd", pieces=4, seconds=4.0), "next"])
    async with spawn(SCOUT, session=mind) as scout:
        async with scout.stream("say it") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
        with pytest.raises(RuntimeError, match="was cut"):
            _ = stream.result
        assert (await scout.ask("and now?")).output == "next"
    assert mind.transcript()[1].partial


async def test_a_reader_who_dawdles_loses_no_text(autojump_clock: MockClock) -> None:
    text = "x" * 2_000
    mind = ScriptedSession([Reply(text, pieces=2_000, seconds=2.0)])
    async with spawn(SCOUT, session=mind) as scout:
        stream = scout.stream("say it")
        said = ""
        events = 0
        async for event in stream:
            if events == 1:
                await trio.sleep(10)
            events += 1
            said += event.text if isinstance(event, TextDelta) else ""
    assert said == text
    assert events < 400


async def test_a_stream_ends_with_its_subagent(autojump_clock: MockClock) -> None:
    mind = ScriptedSession([Reply("abcd", pieces=4, seconds=4.0)])
    statuses: list[str] = []

    async def read() -> None:
        stream = scout.stream("say it")
        async for _ in stream:
            pass
        statuses.append(stream.result.status)

    async with trio.open_nursery() as tasks, open_nursery() as nursery:
        scout = nursery.spawn(SCOUT, session=mind)
        tasks.start_soon(read)
        await trio.sleep(1.5)
    assert statuses == ["cancelled"]


async def test_misuse_is_raised_by_the_reading(autojump_clock: MockClock) -> None:
    async with spawn(SCOUT, session=ScriptedSession(["one"])) as scout:
        with pytest.raises(ValueError, match="timeout must be more than 0"):
            async for _ in scout.stream("say it", timeout=0):
                pass
