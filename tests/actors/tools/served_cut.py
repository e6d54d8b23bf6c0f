"""Serves one call over stdin and stdout, cut at each step in turn; a program for a test.

Run by itself, because it puts pipes in the place of both.  It says on stderr, as JSON,
how many steps there were and what the client heard; what is left open raises.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import trio

from standby_actors.agent import Agent
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import spawn
from standby_actors.tools.mcp_serving import agent_server, serve_stdio
from tests.support.cutting import CutAt

_CALL: tuple[dict[str, Any], ...] = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "shouter", "arguments": {"task": "hello"}},
    },
)


async def served(step: int) -> tuple[bool, bytes]:
    """Serve one client; whether it came to its end before `step`, and what was heard."""
    theirs, ours = os.pipe()
    heard_at, said_at = os.pipe()
    os.dup2(theirs, 0)
    os.dup2(said_at, 1)
    os.close(theirs)
    os.close(said_at)
    places = [os.fstat(fd).st_ino for fd in (0, 1)]
    os.write(ours, b"".join(json.dumps(each).encode() + b"\n" for each in _CALL))
    sessions: list[ScriptedSession] = []

    def mind(agent: Agent) -> ScriptedSession:
        sessions.append(ScriptedSession(lambda task: Reply("HELLO", seconds=0.01)))
        return sessions[-1]

    heard = b""

    async def hear() -> None:
        nonlocal heard
        async with trio.lowlevel.FdStream(heard_at) as stream:
            while b'"id":2' not in heard:
                heard += await stream.receive_some()
            # It has what it wanted, and goes.
            client.close()

    server = agent_server(
        [Agent("shouter", "Shout.")], spawn=lambda agent: spawn(agent, session=mind)
    )
    tasks = trio.lowlevel.current_statistics().tasks_living
    with os.fdopen(ours, "wb") as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear)
            with trio.fail_after(20), trio.CancelScope() as scope, CutAt(step, scope.cancel) as cut:
                await serve_stdio(server)
            nursery.cancel_scope.cancel()
    assert [os.fstat(fd).st_ino for fd in (0, 1)] == places, f"step {step}: other pipes"
    assert all(each.closed == 1 for each in sessions), f"step {step}: not closed"
    assert trio.lowlevel.current_statistics().tasks_living == tasks, f"step {step}: tasks"
    return cut.was_late, heard


async def main() -> None:
    """Every step."""
    step, answered, over = 0, 0, False
    heard = b""
    while not over:
        step += 1
        over, heard = await served(step)
        answered += b"HELLO" in heard
    assert b"HELLO" in heard
    print(json.dumps({"steps": step, "answered": answered}), file=sys.stderr)


if __name__ == "__main__":
    trio.run(main)
