"""Whatever lines a coding agent writes, its reader lives, and the next ask is answered.

Case C44: with recordings of real ones, damaged; and with a program of ours, over real pipes.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.process import Frame
from standby_actors.result import ChatMessage
from standby_actors.session import ignore
from standby_actors.sessions.acp import open_acp
from standby_actors.sessions.stdio import StartFailed
from standby_actors.usage import Usage
from tests.support.coding_agents import KINDS, PROMPT, Heard, Kind, converse, recorded
from tests.support.fake_acp import COMMAND
from tests.support.fake_program import FakeProgram

AGENT = Agent("scout", PROMPT, approve="allow", idle_timeout=30.0)
FRAMINGS = ("pi", "codex", "claude", "acp")
LINES = 10
"""Damaged ones before each right one."""


@pytest.fixture(params=[pytest.param(KINDS[name], id=name) for name in FRAMINGS])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def damaged(draw: random.Random, frame: Frame) -> bytes:
    """A line of that protocol, broken somewhere: no JSON, or with values of other types."""
    if draw.random() < 0.4:
        data = bytearray(json.dumps(frame).encode())
        for _ in range(draw.randrange(1, 5)):
            where = draw.randrange(len(data))
            match draw.randrange(3):
                case 0:
                    data[where] = draw.randrange(256)
                case 1:
                    del data[where : where + draw.randrange(20)]
                case _:
                    data[where:where] = draw.randbytes(draw.randrange(20))
            data = data or bytearray(b"x")
        return bytes(data).replace(b"\n", b"") + b"\n"
    return json.dumps(strange(draw, frame)).encode() + b"\n"


def strange(draw: random.Random, value: Any) -> Any:
    """`value` with some of its parts gone, or in place of another type."""
    if draw.random() < 0.08:
        return draw.choice((None, 0, -1, 1e300, "", "x", [], {}, True, [None], {"a": None}))
    if isinstance(value, dict):
        return {key: strange(draw, each) for key, each in value.items() if draw.random() > 0.03}
    if isinstance(value, list):
        return [strange(draw, each) for each in value]
    return value


class Damages(FakeProgram):
    """Says before each of its frames some that are damaged, cut anywhere."""

    def __init__(self, records: Sequence[tuple[str, Frame]], draw: random.Random) -> None:
        self.draw = draw
        self.said = [frame for way, frame in records if way == "<"]
        self.made = 0
        super().__init__(records, cut=self._pieces)

    # A plain field of what is extended; here it is made anew each time that it is read.
    @property
    def noise(self) -> bytes:
        """Other lines each time."""
        lines = [damaged(self.draw, self.draw.choice(self.said)) for _ in range(LINES)]
        self.made += LINES
        return b"".join(lines)

    @noise.setter
    def noise(self, _: bytes) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        pass

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(data):
            size = self.draw.choice((3, 50, 4_096, 65_536))
            yield data[start : start + size]
            start += size


async def fuzz(kind: Kind, times: int, folder: Path) -> None:
    """Lead a session through its conversation among damaged frames, again and again."""
    records = recorded(kind.name)
    made = played = clean = 0
    while made < times:
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        program = Damages(records, random.Random(seed))
        try:
            async with kind.opens(
                AGENT, command=["fake"], cwd="/", env={}, run=program.run, **kind.more
            ) as session:
                # Each ask is answered, and none raises.
                with trio.fail_after(100_000):
                    said = await converse(kind, session)
                    # One that was out of step is replaced by one that is not.
                    session.run = FakeProgram(records).run
                    last = await session.ask("hello", Heard(session))
                assert len(said) == 7
                played += 1
                clean += last.error is None
                path = session.export(folder, f"{kind.name}-{played}")
                read = msgspec.json.Decoder(ChatMessage).decode_lines(path.read_bytes())
                assert tuple(read) == session.transcript()
                # What is counted are numbers, whatever was said.
                usage = msgspec.to_builtins(session.usage)
                assert msgspec.convert(usage, Usage) == session.usage
        except StartFailed:
            # Said among its first frames, which it does not get over: told in order.
            pass
        made += program.made
    assert played
    print(f"{played} conversations, {clean} with a last answer, {made} lines")


async def test_thousands_of_damaged_frames_end_no_reader_and_raise_nothing(
    kind: Kind, tmp_path: Path, autojump_clock: MockClock
) -> None:
    await fuzz(kind, 2_000, tmp_path)


@pytest.mark.deep
async def test_a_hundred_thousand_damaged_frames_end_no_reader_and_raise_nothing(
    kind: Kind, tmp_path: Path, autojump_clock: MockClock
) -> None:
    await fuzz(kind, 100_000, tmp_path)


@pytest.mark.real
async def test_a_program_that_floods_its_stderr_is_heard_and_its_huge_lines_too(
    tmp_path: Path,
) -> None:
    how: Any = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"]}, "max_line": 6_000_000}
    async with open_acp(Agent("scout", ""), command=(*COMMAND, "--floods"), **how) as session:
        huge = await session.ask("HUGE:5000000", ignore)
        assert huge.error is None
        assert len(huge.text) == len("echo: ") + 5_000_000
        over = await session.ask("HUGE:6000000", ignore)
        assert over.error is not None
        assert over.error.kind == "protocol"
        assert "a line of more than 6,000,000 bytes" in over.error.message
        # Another program has taken its place.
        after = await session.ask("and now", ignore)
        assert (after.error, after.text) == (None, "echo: and now")
