"""Case C32 (c): a program that is told to end in mid-turn leaves a record that tells it all.

Real processes and real signals.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from standby_actors.agent import Agent
from standby_actors.record import Ended, Finished, messages_of, read_record
from standby_actors.session import Memory
from tests.agents.chat.asking import APIS
from tests.reliability.test_transcripts_of_cut_turns import Bench, exported, is_sendable
from tests.support.sources import ROOT

HANGS = 60.0
"""Seconds after which a program is taken to hang."""
SIGNALS = {
    "SIGTERM": (signal.SIGTERM, 143),
    "SIGHUP": (signal.SIGHUP, 129),
    "SIGINT": (signal.SIGINT, -signal.SIGINT),
}


async def told_to_end(api: str, folder: Path, signum: int) -> int:
    """Run the program, send it the signal in mid-turn; its exit code."""
    command = [sys.executable, "-m", "tests.reliability.told_to_end", api, str(folder)]
    async with trio.open_nursery() as nursery:
        process: Any = await nursery.start(
            partial(
                trio.run_process,
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
                stdout=subprocess.PIPE,
                check=False,
            )
        )
        output = b""
        with trio.fail_after(HANGS):
            while b"in mid-turn" not in output:
                chunk = await process.stdout.receive_some()
                assert chunk, "it ended before it was in mid-turn"
                output += chunk
            process.send_signal(signum)
            code: int = await process.wait()
    return code


@pytest.mark.real
@pytest.mark.parametrize(
    ("api", "name"),
    [*((api, "SIGTERM") for api in APIS), ("chat", "SIGHUP"), ("chat", "SIGINT")],
)
async def test_who_is_told_to_end_in_mid_turn_leaves_a_history_that_can_be_gone_on_from(
    api: str, name: str, tmp_path: Path
) -> None:
    signum, code = SIGNALS[name]
    assert await told_to_end(api, tmp_path, signum) == code
    lines, torn = read_record(tmp_path / "scout-1.events.jsonl")
    assert not torn
    # The cut turn has its end, and the subagent its close, after it.
    assert [each.status for each in lines if isinstance(each, Ended)] == ["ok", "cancelled"]
    assert isinstance(lines[-1], Finished)
    assert lines[-1].closed
    said = messages_of(lines)
    assert exported(tmp_path) == [*said]
    assert is_sendable(said)
    # What was finished is not lost, and what was not says so.
    answers = {each.call: each for each in said if each.role == "tool"}
    assert len(answers) == 3
    assert sum(each.is_error for each in answers.values()) == 1

    bench = Bench(api, ["I remember"])
    session = bench.model.session(Agent("scout", "You are a scout."))
    session.recall(Memory(said))
    turn = await session.ask("what was it?", lambda event: None)
    assert (turn.error, turn.text) == (None, "I remember")
