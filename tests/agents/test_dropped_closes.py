"""A second Ctrl-C while a session is closed: it ends soon and quietly, nothing is half torn."""

from __future__ import annotations

import textwrap

import pytest

from tests.support.programs import run_program

pytestmark = pytest.mark.real

PROGRAM = """
import trio
import standby
from contextlib import asynccontextmanager
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import spawn

class Slow(ScriptedSession):
    async def close(self):
        if WHERE == "close":
            print("closing")
            await trio.sleep(30)

class Slows:
    @asynccontextmanager
    async def open(self, agent, memory):
        try:
            yield Slow([Reply("said", seconds=30)])
        finally:
            try:
                if WHERE != "close":
                    print("closing")
                    with trio.CancelScope(shield=WHERE == "deaf"):
                        await trio.sleep(30)
            finally:
                print("let go")

AGENT = standby.Agent("scout", "Find it.")

async def spawned():
    async with spawn(AGENT, backend=Slows()) as scout:
        print("ready")
        await scout.ask("go")

async def child():
    async with standby.open_nursery() as nursery:
        scout = await nursery.start(AGENT, backend=Slows())
        print("ready")
        await scout.ask("go")

try:
    standby.run(HOW)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("how", ["spawned", "child"])
@pytest.mark.parametrize("where", ["close", "leave", "deaf"])
def test_a_second_ctrl_c_ends_a_close_quietly_and_its_session_is_let_go_of(
    how: str, where: str
) -> None:
    source = textwrap.dedent(PROGRAM).replace("HOW", how).replace("WHERE", repr(where))
    ended = run_program(source, "ready", "closing")
    assert ended.lines == ["ready", "closing", "let go", "interrupted"], ended
    said = ended.errors.splitlines()
    # Only of one that does not let go at all there is something to tell.
    assert said == (["a session of scripted did not let go: it is torn"] if where == "deaf" else [])
