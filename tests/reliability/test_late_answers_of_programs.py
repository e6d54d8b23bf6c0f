"""Answers of a program that come too late, or to nothing that was asked, reach nobody.

Case C21 over JSON lines: a real program that answers each request when that says; and
coding agents, ours and real ones, whose turns are cut about when their answers come.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define

from standby_actors.agent import Agent
from standby_actors.process import Frame
from standby_actors.session import ignore
from standby_actors.sessions.acp import open_acp
from standby_actors.sessions.stdio import StdioSession
from standby_actors.sessions.wire import RequestFailed, Wire
from tests.support.clis import each_of
from tests.support.coding_agents import KINDS, settings
from tests.support.fake_acp import COMMAND
from tests.support.model_server_agents import agent_server
from tests.support.trees import new_spot, spotted

PROGRAM = """
import json, sys, threading

lock = threading.Lock()

def answer(frame):
    with lock:
        said = {"id": frame.get("as", frame["id"]), "said": frame["say"]}
        sys.stdout.write(json.dumps(said) + "\\n")
        sys.stdout.flush()

for line in sys.stdin:
    frame = json.loads(line)
    threading.Timer(frame["after"], answer, [frame]).start()
"""


@define(eq=False, kw_only=True)
class Lines(Wire):
    """A program that answers with lines that name the request."""

    async def greet(self) -> None:
        pass

    def hear(self, frame: Frame) -> None:
        self.answered(str(frame["id"]), frame)

    async def say(self, word: str, after: float, limit: float, **more: int) -> Frame:
        number = self.new_id()
        frame = {"id": number, "say": word, "after": after, **more}
        return await self.request(str(number), frame, limit)


@asynccontextmanager
async def opened() -> AsyncGenerator[Lines]:
    lines = Lines(
        command=(sys.executable, "-u", "-c", PROGRAM),
        cwd=Path.cwd(),
        env={"PATH": os.environ["PATH"]},
    )
    async with trio.open_nursery() as nursery:
        await lines.open(nursery)
        # It has read its program, which takes longer than any answer does.
        await lines.say("ready", 0.0, 10.0)
        yield lines
        nursery.cancel_scope.cancel()


@pytest.mark.real
async def test_the_late_answer_to_one_request_is_not_the_answer_to_the_next() -> None:
    async with opened() as lines:
        with pytest.raises(RequestFailed) as caught:
            await lines.say("one", 0.3, 0.1)
        assert caught.value.error.kind == "timeout"
        assert (await lines.say("two", 0.5, 10.0))["said"] == "two"
        assert lines.late == 1


@pytest.mark.real
async def test_of_many_requests_around_their_limit_each_that_is_answered_has_its_own() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    answered = given_up = 0

    async def ask(lines: Lines, number: int, after: float) -> None:
        nonlocal answered, given_up
        try:
            frame = await lines.say(f"word {number}", after, 0.2)
        except RequestFailed as failed:
            given_up += failed.error.kind == "timeout"
        else:
            assert frame["said"] == f"word {number}"
            answered += 1

    async with opened() as lines:
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(ask, lines, number, draw.random() * 0.4)
        assert answered + given_up == 200
        with trio.fail_after(10):
            while lines.late < given_up:  # noqa: ASYNC110 - nobody there sets an event
                await trio.sleep(0.01)
        assert lines.late == given_up


@pytest.mark.real
@pytest.mark.parametrize("number", [0, -1, 10_000])
async def test_an_answer_to_what_was_never_asked_ends_a_program_that_is_out_of_step(
    number: int,
) -> None:
    async with opened() as lines:
        first = lines.pid
        with pytest.raises(RequestFailed) as caught:
            await lines.say("lost", 0.0, 10.0, **{"as": number})
        assert caught.value.error.kind == "protocol"
        assert "out of step" in caught.value.error.message
        # Another one is started for the next request, and is in step.
        assert await lines.ready() is None
        assert lines.pid != first
        assert (await lines.say("two", 0.0, 10.0))["said"] == "two"


async def each_has_its_own(session: StdioSession, asks: int, limit: float) -> tuple[int, int]:
    """Ask for words that come at about the limit; how many came, and how many were cut.

    The last is waited for: some of the programs are slower than any limit.
    """
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    answered = cut = 0
    for number in range(asks):
        # What is cut first comes late for sure, and the next one in time.
        seconds = (3 * limit, 0.0)[number] if number < 2 else draw.random() * 2 * limit
        # One that was replaced has its start to itself.
        assert await session.ready() is None
        with trio.move_on_after(limit if number < asks - 1 else 60.0) as scope:
            turn = await session.ask(f"LATE:{seconds:.3f}:word{number}", ignore)
            assert turn.error is None, (number, seconds, turn.error)
            assert turn.text.strip() == f"echo: word{number}", (number, seconds)
            assert [m.role for m in turn.messages] == ["user", "assistant"]
            answered += 1
        cut += scope.cancelled_caught
    # Nobody was told what came too late, and each answer stands behind its prompt.
    asked = ""
    for message in session.transcript():
        if message.role == "user":
            asked = message.text
        elif not message.partial:
            assert message.text.strip() == f"echo: {asked.rpartition(':')[2]}"
    assert answered + cut == asks
    return answered, cut


@pytest.mark.real
@pytest.mark.parametrize("flags", [(), ("--deaf",)], ids=["heeds a cut", "is deaf to it"])
async def test_the_late_answer_of_a_turn_that_was_cut_is_not_that_of_the_next(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    how: Any = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"]}}
    async with open_acp(Agent("scout", ""), command=(*COMMAND, *flags), **how) as session:
        assert isinstance(session, StdioSession)
        answered, cut = await each_has_its_own(session, 10, 0.2)
    print(f"{answered} answered, {cut} cut")
    assert answered
    assert cut


@pytest.mark.clis
@pytest.mark.parametrize("asks", [3, pytest.param(20, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", each_of(KINDS))
async def test_a_real_one_gives_each_turn_its_own_answer_around_the_time_it_is_cut(
    name: str, asks: int, tmp_path: Path
) -> None:
    kind, spot = KINDS[name], new_spot()
    model = None if kind.opens is open_acp else "stub/stub"
    async with agent_server() as server:
        how = settings(kind, server.url, tmp_path, spot)
        async with kind.opens(Agent("scout", "", model=model), **how) as session:
            await session.ask("LATE:0:hello", ignore)
            answered, cut = await each_has_its_own(session, asks, 0.6)
        print(f"{name}: {answered} answered, {cut} cut")
        assert answered
        assert cut
    assert spotted(spot) == []
