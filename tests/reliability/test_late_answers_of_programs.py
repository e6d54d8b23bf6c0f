"""Answers of a program that come too late, or to nothing that was asked, reach nobody.

Case C21 over JSON lines: a real program that answers each request when that says.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import define

from standby_actors.process import Frame
from standby_actors.sessions.wire import RequestFailed, Wire

pytestmark = pytest.mark.real

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


async def test_the_late_answer_to_one_request_is_not_the_answer_to_the_next() -> None:
    async with opened() as lines:
        with pytest.raises(RequestFailed) as caught:
            await lines.say("one", 0.3, 0.1)
        assert caught.value.error.kind == "timeout"
        assert (await lines.say("two", 0.5, 10.0))["said"] == "two"
        assert lines.late == 1


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
