"""Subagents with programs behind them are closed in any order, by any task, and under signals.

Cases C04 and C05: with programs of our own that speak, have children, and stay, and with
real coding agents.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, frozen

from standby_actors import open_nursery
from standby_actors.agent import Agent
from standby_actors.record import Finished, read_record
from standby_actors.session import Memory, Session
from standby_actors.sessions.acp import open_acp
from standby_actors.subagent import Closed, Subagent, reset_ids
from tests.support.coding_agents import KINDS, settings
from tests.support.fake_acp import COMMAND
from tests.support.model_server_agents import AgentServer, agent_server
from tests.support.trees import SPOT, host, new_spot, spotted, wait_until_gone

NATIVE = ("pi", "codex", "claude")
FAKES: dict[str, tuple[str, ...]] = {
    "speaks": (),
    "has a child": ("--child",),
    "stays": ("--stays", "--child"),
}
"""Coding agents of our own, in processes of their own."""
HOOK_SECONDS = 0.5
GONE_SECONDS = 2.0
"""In which two that are closed are gone, says the card of C04; and that of C05, of five:"""
GONE_SECONDS_OF_FIVE = 3.0
AT_ONCE = 2


def tolerance() -> float:
    """Seconds over the limit of a card: 1, and more where more wants to run than there are cores.

    Such a machine gives each process its share only, and ours as late as those of others.
    """
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


PROGRAMS = [
    *(
        pytest.param(pair, marks=pytest.mark.real, id=" and ".join(pair))
        for pair in (("speaks", "has a child"), ("has a child", "stays"), ("stays", "speaks"))
    ),
    *(
        pytest.param(pair, marks=pytest.mark.clis, id=" and ".join(pair))
        for pair in (("pi", "codex"), ("claude", "pi"))
    ),
    *(
        pytest.param(pair, marks=[pytest.mark.clis, pytest.mark.deep], id=" and ".join(pair))
        for pair in (("acp", "gemini"), ("opencode", "codex-acp"))
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
    hook: float = 0.0
    """How long it takes over its end, when the program is gone; in seconds."""

    @asynccontextmanager
    async def open(self, agent: Agent, /, memory: Memory | None = None) -> AsyncGenerator[Session]:
        if self.name in FAKES:
            opens: Any = open_acp
            how: Any = {
                "command": (*COMMAND, *FAKES[self.name]),
                "cwd": self.home,
                "env": {"PATH": os.environ["PATH"]},
                "set_env": {SPOT: self.spot},
            }
        else:
            opens = KINDS[self.name].opens
            how = settings(KINDS[self.name], self.server.url, self.home, self.spot)
        async with opens(agent, memory=memory, **how) as session:
            try:
                yield session
            finally:
                await self._end()

    async def _end(self) -> None:
        if self.hook:
            await trio.sleep(self.hook)
            (self.home / "ended").touch()


def agent_of(name: str, server: AgentServer, home: Path, spot: str, hook: float = 0.0) -> Agent:
    model = "stub/stub" if name in NATIVE else None
    backend = Programs(name, server, home, spot, hook)
    return Agent("scout", "Be short.", model=model, backend=backend)


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
        began = time.monotonic()

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
            await trio.to_thread.run_sync(wait_until_gone, spot, tolerance())
        assert time.monotonic() - began < GONE_SECONDS + tolerance()


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
from pathlib import Path
from types import SimpleNamespace

import trio
import standby
from tests.reliability.test_closes_of_programs import agent_of

async def main():
    server = SimpleNamespace(url={url!r})
    async with standby.open_nursery() as nursery:
        for number, name in enumerate({names!r}):
            home = Path({home!r}, str(number))
            home.mkdir()
            agent = agent_of(name, server, home, {spot!r}, {hook!r})
            await nursery.start(agent, export_dir=home / "kept")
        print("ready")
        await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        print("closing")
    print("closed")

standby.run(main)
"""
CODES = {
    signal.SIGINT: (130, -signal.SIGINT),
    signal.SIGTERM: (143, -signal.SIGTERM),
    signal.SIGHUP: (129, -signal.SIGHUP),
    signal.SIGKILL: (-signal.SIGKILL,),
}
"""What a program is seen to end with that a signal has ended: as it says it, or the system."""


@frozen
class Case:
    """Programs that are being closed, and the signals that come in the middle of it."""

    names: tuple[str, ...]
    signals: tuple[signal.Signals, ...] = (signal.SIGINT,)
    """The later ones 0.2 s apart."""


def interrupted(url: str, case: Case, home: Path, wait: float) -> float:
    """A host is interrupted while it closes its programs: it goes, and so do they.

    Returns how long it took from the first signal.
    """
    spot = new_spot()
    home.mkdir()
    how = {"url": url, "names": case.names, "home": str(home), "spot": spot, "hook": HOOK_SECONDS}
    with host(HOST.format(**how), stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        assert len(spotted(spot)) >= len(case.names)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "closing\n"
        time.sleep(wait)
        began = time.monotonic()
        process.send_signal(case.signals[0])
        for each in case.signals[1:]:
            time.sleep(0.2)
            process.send_signal(each)
        # Each close is bounded by itself; a second signal only shortens the wait.
        code = process.wait(timeout=30)
        took = time.monotonic() - began
        # What a host leaves that was killed is ended by those who keep its programs.
        is_killed = signal.SIGKILL in case.signals
        wait_until_gone(spot, 5.0 if is_killed else tolerance())
        is_late = "closed" in process.stdout.read()
        process.stdin.close()
    told = (
        f"{case.names}, {[*map(str, case.signals)]} after {wait:.3f} s: code {code}, {took:.2f} s"
    )
    # On a busy machine the signal may come when all is over.
    assert code in CODES[case.signals[0]] or (is_late and code == 0), told
    assert took < GONE_SECONDS_OF_FIVE + tolerance(), told
    if not is_killed:
        for number in range(len(case.names)):
            # Whatever was cut, each has its end on record.
            (record,) = (home / str(number) / "kept").glob("*.events.jsonl")
            lines, torn = read_record(record)
            assert not torn, told
            assert isinstance(lines[-1], Finished), told
            if len(case.signals) == 1:
                assert (home / str(number) / "ended").exists(), told
    return took


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
DEEP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
FIVE = ("speaks", "has a child", "speaks", "has a child", "speaks")
CASES = [
    *(
        pytest.param(Case(FIVE, (each,)), 1, marks=pytest.mark.real, id=f"five, {each.name}")
        for each in SIGNALS
    ),
    pytest.param(Case(FIVE, (signal.SIGINT,) * 2), 2, marks=pytest.mark.real, id="five, twice"),
    *(
        pytest.param(
            Case(FIVE, signals),
            50,
            marks=[pytest.mark.real, pytest.mark.deep],
            id=f"five, {' and '.join(each.name for each in signals)}, often",
        )
        for signals in ((signal.SIGINT,), (signal.SIGINT,) * 2, (signal.SIGTERM,))
    ),
    *(
        pytest.param(
            Case(NATIVE, (each,)),
            1,
            # To them these two are as Ctrl-C is.
            marks=[pytest.mark.clis, *[pytest.mark.deep] * (each in DEEP_SIGNALS)],
            id=f"real ones, {each.name}",
        )
        for each in SIGNALS
    ),
    pytest.param(
        Case(NATIVE, (signal.SIGINT,) * 2),
        10,
        marks=[pytest.mark.clis, pytest.mark.deep],
        id="real ones, twice, often",
    ),
]


@pytest.mark.parametrize(("case", "seeds"), CASES)
async def test_a_signal_while_they_are_closed_leaves_neither_them_nor_us(
    case: Case, seeds: int, tmp_path: Path
) -> None:
    at_once = trio.CapacityLimiter(AT_ONCE)
    base = random.randrange(2**32)
    print(f"seed {base}")
    took: list[float] = []

    async def once(number: int, url: str) -> None:
        wait = random.Random(base + number).random() * 0.6
        home = tmp_path / str(number)
        async with at_once:
            took.append(await trio.to_thread.run_sync(interrupted, url, case, home, wait))

    async with agent_server() as server, trio.open_nursery() as nursery:
        for number in range(seeds):
            nursery.start_soon(once, number, server.url)
    print(f"gone after {min(took):.2f} to {max(took):.2f} s")
