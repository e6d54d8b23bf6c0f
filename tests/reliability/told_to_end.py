"""A program to be told to end: a subagent in mid-turn, two of whose three tools have answered.

Run as ``python -m tests.reliability.told_to_end API FOLDER``.  It prints ``in
mid-turn`` when it is, and its subagent is exported to FOLDER.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import standby_actors
from standby_actors.agent import Agent
from standby_actors.session import SessionEvent, ToolEnded
from standby_actors.subagent import spawn
from tests.reliability.test_transcripts_of_cut_turns import Bench, three_calls


async def main(api: str, folder: Path) -> None:
    """Play a whole turn, and one that never ends."""
    bench = Bench(api, ["hi", three_calls()])
    agent = Agent("scout", "You are a scout.", tools=bench.tools())
    async with spawn(agent, model=bench.model, export_dir=folder) as scout:
        await scout.ask("hello")
        async with scout.stream("three things") as stream:
            ended = 0
            async for event in stream:
                ended += is_end_of_tool(event)
                if ended == 2:
                    print("in mid-turn", flush=True)


def is_end_of_tool(event: SessionEvent) -> bool:
    """Whether a tool has answered."""
    return isinstance(event, ToolEnded)


if __name__ == "__main__":
    # Whoever starts the tests may ignore them, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    standby_actors.run(main, sys.argv[1], Path(sys.argv[2]))
