"""Subagents with programs behind them are closed in any order, by any task, and under Ctrl-C.

Cases C04 and C05: with a program that only stands there, and with real coding agents.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import textwrap
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define

from standby_actors import open_nursery
from standby_actors.agent import Agent
from standby_actors.process import open_process
from standby_actors.session import Memory, Session
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import Closed, Subagent, reset_ids
from tests.support.coding_agents import KINDS, settings
from tests.support.model_server_agents import AgentServer, agent_server
from tests.support.trees import SPOT, host, new_spot, spotted, wait_until_gone

NATIVE = ("pi", "codex", "claude")
PROGRAMS = [
    pytest.param(("stands there", "stands there"), marks=pytest.mark.real, id="stands there"),
    *(
        pytest.param(pair, marks=pytest.mark.clis, id=" and ".join(pair))
        for pair in (("pi", "codex"), ("claude", "pi"))
    ),
]


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


@define(eq=False)
class Programs:
    """Opens a session behind which a program runs, marked with `spot`."""

    name: str
    server: AgentServer
    home: Path
    spot: str

    @asynccontextmanager
    async def open(self, agent: Agent, /, memory: Memory | None = None) -> AsyncGenerator[Session]:
        if self.name not in KINDS:
            env = {"PATH": os.environ["PATH"], SPOT: self.spot}
            async with open_process(["cat"], cwd=self.home, env=env):
                yield ScriptedSession(lambda task: Reply(f"heard {task}"))
            return
        how: Any = settings(KINDS[self.name], self.server.url, self.home, self.spot)
        async with KINDS[self.name].opens(agent, memory=memory, **how) as session:
            yield session


def agent_of(name: str, server: AgentServer, home: Path, spot: str) -> Agent:
    return Agent(
        "scout", "Be short.", model="stub/stub", backend=Programs(name, server, home, spot)
    )


@pytest.mark.parametrize("names", PROGRAMS)
async def test_two_are_closed_in_the_wrong_order_by_other_tasks_and_twice(
    names: tuple[str, str], tmp_path: Path
) -> None:
    first, second = new_spot(), new_spot()
    async with agent_server() as server, open_nursery() as nursery:
        a = await nursery.start(agent_of(names[0], server, tmp_path, first))
        b = await nursery.start(agent_of(names[1], server, tmp_path, second))
        assert [(await each.ask("hello")).status for each in (a, b)] == ["ok", "ok"]
        closed: list[Closed] = []

        async def close(each: Subagent) -> None:
            closed.append(await each.close())

        async with trio.open_nursery() as tasks:
            # A, which was opened first, by one task, and at the same time by another.
            tasks.start_soon(close, a)
            tasks.start_soon(close, a)
            await close(b)
        assert all(each.closed and not each.reason for each in closed)
        # Both said the same, of one close.
        assert closed.count(await a.close()) >= 2
        # They are gone while the block that owns them is open.
        for spot in (first, second):
            await trio.to_thread.run_sync(wait_until_gone, spot, 2.0)


@pytest.mark.parametrize("names", PROGRAMS)
async def test_two_that_are_left_open_are_closed_by_the_block_that_owns_them(
    names: tuple[str, str], tmp_path: Path
) -> None:
    spot = new_spot()
    async with agent_server() as server:
        async with open_nursery() as nursery:
            open_yet = [
                await nursery.start(
                    agent_of(name, server, tmp_path, spot), export_dir=tmp_path / "kept"
                )
                for name in names
            ]
            assert spotted(spot)
        assert spotted(spot) == []
    outcomes = [await each.close() for each in open_yet]
    assert [each.closed for each in outcomes] == [True, True]
    assert len({each.export for each in outcomes}) == 2


HOST = """
import sys
import trio
import standby
from standby import open_nursery
from pathlib import Path
from types import SimpleNamespace
from tests.reliability.test_closes_of_programs import agent_of

async def main():
    server = SimpleNamespace(url={url!r})
    async with open_nursery() as nursery:
        for number, name in enumerate({names!r}):
            home = Path({home!r}, str(number))
            home.mkdir(exist_ok=True)
            await nursery.start(agent_of(name, server, home, {spot!r}))
        print("ready")
        await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        print("closing")

standby.run(main)
"""


def interrupted(url: str, names: tuple[str, ...], home: Path, waits: list[float]) -> None:
    """A host with programs is interrupted while it closes them: it goes, and so do they."""
    spot = new_spot()
    home.mkdir()
    source = textwrap.dedent(HOST).format(url=url, names=names, home=str(home), spot=spot)
    with host(source, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        assert len(spotted(spot)) >= len(names)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "closing\n"
        for seconds in waits:
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
        began = time.monotonic()
        # Each close is bounded by itself; a second Ctrl-C only shortens the wait.
        code = process.wait(timeout=20)
        took = time.monotonic() - began
        wait_until_gone(spot, 2.0)
        process.stdin.close()
    # On a busy machine the signal may come when all is over.
    assert code in (0, 130, -signal.SIGINT), (code, waits)
    assert took < 10, (took, waits)


@pytest.mark.parametrize(
    ("names", "seeds"),
    [
        pytest.param(("stands there",) * 5, 6, marks=pytest.mark.real, id="stands there"),
        pytest.param(
            ("stands there",) * 5,
            50,
            marks=[pytest.mark.real, pytest.mark.deep],
            id="stands there, often",
        ),
        pytest.param(NATIVE, 2, marks=pytest.mark.clis, id="real ones"),
    ],
)
async def test_a_ctrl_c_while_they_are_closed_leaves_neither_them_nor_us(
    names: tuple[str, ...], seeds: int, tmp_path: Path
) -> None:
    limit = trio.CapacityLimiter(3)
    base = random.randrange(2**32)
    print(f"seed {base}")

    async def once(number: int, url: str) -> None:
        draw = random.Random(base + number)
        waits = [draw.random() * 0.6, *([0.2] if number % 2 else [])]
        home = tmp_path / str(number)
        async with limit:
            await trio.to_thread.run_sync(interrupted, url, names, home, waits)

    async with agent_server() as server, trio.open_nursery() as nursery:
        for number in range(seeds):
            nursery.start_soon(once, number, server.url)
