"""Coding agents that play recordings of real ones: heard whole, cut anywhere, damaged, and dead."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from standby_actors.agent import Agent
from standby_actors.process import Frame
from standby_actors.result import ChatMessage
from standby_actors.session import MessageEnded, Steered, TextDelta, ToolEnded, ToolStarted, Turn
from standby_actors.sessions.stdio import StartFailed, StdioSession
from standby_actors.sessions.wire import Timing
from tests.support.coding_agents import KINDS, PROMPT, Heard, Kind, converse, recorded
from tests.support.fake_program import Cut, FakeProgram, kind_of, pieces, whole

Said = list[tuple[Turn, Heard]]

AGENT = Agent("scout", PROMPT, approve="allow")


@pytest.fixture(params=[pytest.param(kind, id=name) for name, kind in KINDS.items()])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@asynccontextmanager
async def opened(
    kind: Kind, program: FakeProgram, agent: Agent = AGENT, **more: Any
) -> AsyncGenerator[StdioSession]:
    async with kind.opens(
        agent, command=["fake"], cwd="/", env={}, run=program.run, **kind.more, **more
    ) as session:
        yield session


async def replayed(kind: Kind, program: FakeProgram) -> Said:
    async with opened(kind, program) as session:
        return await converse(kind, session)


def first_life(kind: Kind) -> int:
    """How many frames the first program of a recording said."""
    starts = ("initialize", "get_state")
    lives = [
        n
        for n, (way, frame) in enumerate(recorded(kind.name))
        if way == ">" and kind_of(frame) in starts
    ]
    until = lives[1] if kind.name == "acp" else None
    return sum(1 for way, _ in recorded(kind.name)[:until] if way == "<")


def messages(said: Said) -> list[tuple[ChatMessage, ...]]:
    return [turn.messages for turn, _ in said]


async def test_a_recorded_conversation_is_heard_as_it_was(
    kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    program = FakeProgram(recorded(kind.name))
    async with opened(kind, program) as session:
        said = await converse(kind, session)
        transcript = session.transcript()
    turns = [turn for turn, _ in said]
    assert [turn.error and turn.error.kind for turn in turns] == [
        None,
        None,
        None,
        None,
        "stopped",
        "provider",
        None,
    ]
    assert "hello" in turns[0].text
    assert "from the tool" in turns[1].text
    assert "and then" in turns[3].text
    assert "w0" in turns[4].text
    assert "last" in turns[6].text
    assert [heard.answers for _, heard in said[2:5]] == [["queued"], ["queued"], [True]]
    # Nothing was sent that the real one was not sent.
    assert program.surprises == []
    assert session.noise == 0
    assert session.ignored == 0
    assert transcript == tuple(message for turn in turns for message in turn.messages)


async def test_the_events_of_a_turn_are_its_messages_its_tools_and_its_words(
    kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    said = await replayed(kind, FakeProgram(recorded(kind.name)))
    for turn, heard in said:
        ended = [event.message for event in heard.events if isinstance(event, MessageEnded)]
        assert tuple(ended) == turn.messages
        words = "".join(event.text for event in heard.events if isinstance(event, TextDelta))
        spoken = "".join(message.text for message in ended if message.role == "assistant")
        assert words == spoken
        begun = [event.call for event in heard.events if isinstance(event, ToolStarted)]
        done = [event.call for event in heard.events if isinstance(event, ToolEnded)]
        assert begun == done
        # No history has a call without an answer, or an answer without its call.
        asked = [call.id for message in ended for call in message.calls]
        assert asked == [message.call for message in ended if message.role == "tool"]
    steered = [event.text for event in said[2][1].events if isinstance(event, Steered)]
    assert steered == ["put in"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 4_096])
async def test_a_conversation_cut_into_pieces_is_the_same(
    kind: Kind, size: int, autojump_clock: trio.testing.MockClock
) -> None:
    plain = await replayed(kind, FakeProgram(recorded(kind.name)))
    in_pieces = await replayed(kind, FakeProgram(recorded(kind.name), pieces(size)))
    assert messages(in_pieces) == messages(plain)


NOISE = b'\x1b[31mwarn\x1b[0m\n\n\xff\xfe\x00\n[1]\n{"method": \n{"unheard": "of"}\r\n'


@pytest.mark.parametrize("cut", [whole, pieces(5)], ids=["whole", "in pieces"])
async def test_noise_between_frames_changes_nothing_and_is_counted(
    kind: Kind, cut: Cut, autojump_clock: trio.testing.MockClock
) -> None:
    plain = await replayed(kind, FakeProgram(recorded(kind.name)))
    program = FakeProgram(recorded(kind.name), cut, noise=NOISE)
    async with opened(kind, program) as session:
        said = await converse(kind, session)
    assert messages(said) == messages(plain)
    frames = sum(1 for way, _ in program.records if way == "<")
    assert session.noise == 4 * frames
    assert session.ignored >= frames - 10


FATES: Any = ["dies", "leaves", "falls silent", "closes its output"]


async def meets_its_fate(kind: Kind, fate: Any, counts: range) -> None:
    records = recorded(kind.name)
    met = 0
    not_started: set[str] = set()
    for count in counts:
        program = FakeProgram(records, fate=fate, frames=count, stderr="boom")
        with trio.fail_after(100_000):
            try:
                said = await replayed(kind, program)
            except StartFailed as failed:
                not_started.add(failed.error.kind)
                continue
        errors = [turn.error for turn, _ in said]
        # Two are meant to fail, and are not counted.
        met += any(error and error.kind not in ("stopped", "provider") for error in errors)
        for turn, _ in said:
            # Nothing that was cut passes for an answer.
            assert turn.error is not None or turn.text
            assert turn.error is not None or not turn.dead
        if fate == "dies":
            crashed = [error for error in errors if error and error.kind == "crash"]
            assert len(crashed) <= 1
            assert all("SIGKILL; it said: boom" in error.message for error in crashed)
        if fate == "leaves":
            assert not any(error and error.kind == "crash" for error in errors)
    assert met > len(counts) // 2
    assert not_started <= {"crash", "protocol", "start_failed", "timeout"}


@pytest.mark.parametrize("fate", FATES)
async def test_whatever_becomes_of_it_after_some_frame_every_ask_is_answered(
    kind: Kind, fate: Any, autojump_clock: trio.testing.MockClock
) -> None:
    first = random.randrange(9)
    print(f"every ninth frame from {first}")
    await meets_its_fate(kind, fate, range(first, first_life(kind), 9))


@pytest.mark.deep
@pytest.mark.parametrize("fate", FATES)
async def test_whatever_becomes_of_it_after_any_frame_every_ask_is_answered(
    kind: Kind, fate: Any, autojump_clock: trio.testing.MockClock
) -> None:
    await meets_its_fate(kind, fate, range(first_life(kind)))


async def test_after_a_crash_nobody_is_asked_any_more(
    kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    program = FakeProgram(recorded(kind.name), fate="dies", frames=first_life(kind) * 2 // 3)
    said = await replayed(kind, program)
    kinds = [turn.error.kind for turn, _ in said if turn.error is not None]
    first = kinds.index("crash")
    assert kinds[first + 1 :] == ["dead"] * (len(kinds) - first - 1)
    assert all(turn.dead for turn, _ in said if turn.error is not None)
    assert program.lives == 1


DEAF = {"pi": "abort", "codex": "turn/interrupt", "claude": "interrupt"}


async def test_one_that_is_deaf_to_an_interruption_is_ended_and_the_turn_is_stopped(
    kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    program = FakeProgram(
        recorded(kind.name), deaf=frozenset({DEAF.get(kind.name, "session/cancel")})
    )
    async with opened(kind, program, timing=Timing(interrupt=3.0, redirect=3.0)) as session:
        await session.ask("hello", Heard(session))
        # The recording has a tool next, which takes its time.
        began = trio.current_time()
        heard = Heard(session, at_tool=lambda s: s.interrupt())
        turn = await session.ask(kind.call("echo from the tool"), heard)
    if heard.answers:
        assert turn.error is not None
        assert turn.error.kind == "stopped"
        assert trio.current_time() - began <= 3.0 + 0.001


async def test_one_that_falls_silent_is_given_up_after_its_limit(
    kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    records = recorded(kind.name)
    firsts = [n for n, (way, _) in enumerate(records) if way == "<"]
    # After the first frame that belongs to the first answer.
    texts = [n for n, (_, frame) in enumerate(records) if "echo: " in str(frame)]
    frames = firsts.index(texts[0]) + 1
    program = FakeProgram(records, fate="falls silent", frames=frames)
    agent = Agent("scout", PROMPT, idle_timeout=180.0)
    async with opened(kind, program, agent) as session:
        began = trio.current_time()
        turn = await session.ask("hello", Heard(session))
    assert turn.error is not None
    assert turn.error.kind == "idle_timeout"
    assert "180 s" in turn.error.message
    assert trio.current_time() - began == pytest.approx(180.0)
    assert program.killed >= 1


async def test_a_cancelled_ask_lets_go_within_a_second_and_keeps_what_was_said(
    kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    records = recorded(kind.name)
    firsts = [n for n, (way, _) in enumerate(records) if way == "<"]
    texts = [n for n, (_, frame) in enumerate(records) if "echo: " in str(frame)]
    program = FakeProgram(
        records, fate="falls silent", frames=firsts.index(texts[0]) + 1, deaf=frozenset()
    )
    async with opened(kind, program) as session:
        with trio.CancelScope(deadline=trio.current_time() + 5) as scope:
            await session.ask("hello", Heard(session))
        assert scope.cancelled_caught
        assert trio.current_time() <= scope.deadline + 1.0
        assert session.transcript()[0].text == "hello"
        roles = [message.role for message in session.transcript()]
        assert roles in (["user"], ["user", "assistant"])


async def test_a_line_over_the_limit_ends_the_turn_and_the_program(
    kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    noise = b"x" * 70_000 + b"\n"
    records = recorded(kind.name)
    async with opened(kind, FakeProgram(records), max_line=60_000) as session:
        turn = await session.ask("hello", Heard(session))
        assert turn.error is None
    with pytest.raises(StartFailed, match="a line of more than 60,000 bytes"):
        async with opened(kind, FakeProgram(records, noise=noise), max_line=60_000):
            raise AssertionError


async def test_one_that_answers_what_was_never_asked_is_out_of_step(
    kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    strays: dict[str, Frame] = {
        "pi": {"id": "stray", "type": "response", "success": True},
        "codex": {"id": "stray", "result": {}},
        "claude": {"type": "control_response", "response": {"request_id": "stray"}},
    }
    stray = strays.get(kind.name, {"id": "stray", "result": {}})
    records = recorded(kind.name)
    at = next(n for n, (_, frame) in enumerate(records) if "echo: " in str(frame))
    program = FakeProgram([*records[:at], ("<", stray), *records[at:]])
    async with opened(kind, program) as session:
        turn = await session.ask("hello", Heard(session))
    assert turn.error is not None
    assert turn.error.kind == "protocol"
    assert "'stray'" in turn.error.message
    assert program.killed >= 1


async def test_a_pair_of_asks_is_played_one_after_the_other(
    kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    program = FakeProgram(recorded(kind.name))
    async with opened(kind, program) as session, trio.open_nursery() as nursery:
        turns: list[Turn] = []

        async def ask(text: str) -> None:
            turns.append(await session.ask(text, Heard(session)))

        nursery.start_soon(ask, "hello")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, kind.call("echo from the tool"))
    assert sorted(turn.messages[0].text for turn in turns) == sorted(
        ["hello", kind.call("echo from the tool")]
    )
    assert [turn.error for turn in turns] == [None, None]


async def test_a_session_that_was_closed_says_so(
    kind: Kind, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with opened(kind, FakeProgram(recorded(kind.name))) as session:
        await session.ask("hello", Heard(session))
        await session.close()
        await session.close()
        turn = await session.ask("again", Heard(session))
        assert turn.error is not None
        assert turn.error.kind == "closed"
        assert (session.steer("x"), session.follow_up("x"), session.interrupt()) == (
            "idle",
            "idle",
            False,
        )
        path = session.export(tmp_path, "scout")
    assert len(path.read_bytes().splitlines()) == len(session.transcript()) == 2
