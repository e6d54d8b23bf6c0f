"""What a turn has spent is counted once, however the turn or its process ends.

Turns of three requests, at a hundred tokens each; something happens in the third.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby_actors.agent import Agent, Limits
from standby_actors.budget import Budget
from standby_actors.record import Ended, Opened, Spent, read_record, usage_of
from standby_actors.result import Result
from standby_actors.sessions.chat import ChatModel, open_chat_model
from standby_actors.subagent import Subagent, reset_ids, spawn
from standby_actors.tools.tool import tool
from standby_actors.usage import Usage
from tests.agents.chat.asking import APIS, on_every_api, settings
from tests.support.model_server import SILENT, Answer, Asked, fails, open_model_server, streams
from tests.support.model_server_agents import stream_of

STEP = "CALL:step:{}"
EACH = 100
"""Tokens of the prompt of each request, as the stub tells them."""


@pytest.fixture(autouse=True)
def _counted_from_one(no_certificates: None) -> None:
    reset_ids()


def events(api: str, said: str) -> tuple[bytes, ...]:
    return tuple(each + b"\n\n" for each in stream_of(api, said).split(b"\n\n")[:-1])


def whole(api: str, said: str) -> Answer:
    return streams(*events(api, said))


@define(eq=False)
class Rounds:
    """Two requests that call a tool, and a third one of another kind."""

    api: str
    third: Answer
    asked: list[Asked] = field(factory=list)
    at_third: trio.Event = field(factory=trio.Event)

    def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if len(self.asked) % 3:
            return whole(self.api, STEP)
        self.at_third.set()
        return self.third


@asynccontextmanager
async def played(api: str, rounds: Rounds) -> AsyncGenerator[ChatModel]:
    async with (
        open_model_server(rounds) as server,
        open_chat_model(settings(server.base_url.removesuffix("/v1"), api), retries=0) as model,
    ):
        vars(model.client)["_platform"] = "Linux"
        yield model


@tool
async def step() -> str:
    """Do a step."""
    await trio.lowlevel.checkpoint()
    return "done"


SCOUT = Agent("scout", "You are a scout.", tools=(step,), idle_timeout=60.0)

Ends = Callable[[Subagent, trio.CancelScope], object]
CUTS: dict[str, Ends] = {
    "cancelled": lambda scout, scope: scope.cancel(),
    "stopped": lambda scout, scope: scout.stop(),
    "interrupted": lambda scout, scope: scout.interrupt(),
    "aborted": lambda scout, scope: scout.abort(),
    "killed": lambda scout, scope: scout.ref.kill(),
}


@on_every_api
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
async def test_a_turn_cut_in_its_third_request_has_spent_the_first_two(
    api: str, cut: Ends, tmp_path: Path, autojump_clock: MockClock
) -> None:
    budget = Budget(Limits(tokens=1_000_000))
    rounds = Rounds(api, SILENT)
    results: list[Result] = []
    scope = trio.CancelScope()

    async def ask() -> None:
        with scope:
            results.append(await scout.ask("go"))

    async with played(api, rounds) as model:
        opened = spawn(SCOUT, model=model, budget=budget, export_dir=tmp_path)
        async with opened as scout, trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await rounds.at_third.wait()
            await trio.sleep(1)
            cut(scout, scope)
    lines, _ = read_record(tmp_path / "scout-1.events.jsonl")
    told = [scout.usage, budget.spent, usage_of(lines), *(result.usage for result in results)]
    for usage in told:
        assert (usage.input_tokens, usage.requests, usage.tool_calls) == (2 * EACH, 3, 2)
        # The third one is known to have been made, and nothing else of it.
        assert (usage.turns, usage.unreported) == (1, 1)


THIRDS: dict[str, Callable[[str], Answer]] = {
    "500": lambda api: fails(500),
    "429": lambda api: fails(429),
    "silence": lambda api: SILENT,
    "a reset": lambda api: whole(api, "SLOW:3").cut(0, "reset"),
    "garbage": lambda api: streams(b"data: {\n\n"),
}


@on_every_api
@pytest.mark.parametrize("third", THIRDS.values(), ids=THIRDS.keys())
async def test_a_turn_that_fails_in_its_third_request_has_spent_the_first_two(
    api: str, third: Callable[[str], Answer], autojump_clock: MockClock
) -> None:
    rounds = Rounds(api, third(api))
    async with played(api, rounds) as model, spawn(SCOUT, model=model) as scout:
        result = await scout.ask("go")
        assert not result.ok
        again = await scout.ask("go")
    for usage in (result.usage, again.usage):
        assert (usage.input_tokens, usage.requests, usage.turns) == (2 * EACH, 3, 1)
    assert scout.usage.input_tokens == 4 * EACH


@on_every_api
async def test_no_request_is_made_once_the_budget_is_passed(
    api: str, autojump_clock: MockClock
) -> None:
    budget = Budget(Limits(tokens=250), name="the run")
    rounds = Rounds(api, whole(api, "SLOW:1"))
    async with played(api, rounds) as model:
        statuses: list[str] = []
        for _ in range(2):
            async with spawn(SCOUT, model=model, budget=budget) as scout:
                statuses.append((await scout.ask("go")).status)
    # The third request passes it, and is the last one ever made.
    assert statuses == ["budget", "budget"]
    assert len(rounds.asked) == 3
    assert budget.spent.input_tokens == 3 * EACH
    assert budget.reserved_tokens == 0


_HOST = """
import sys, trio
from pathlib import Path
from tests.agents.chat.asking import settings
from tests.reliability.test_spend_is_never_lost import SCOUT, Rounds, played
from tests.support.model_server import SILENT
from standby_actors.subagent import spawn

async def main(api, folder):
    rounds = Rounds(api, SILENT)
    async with played(api, rounds) as model, trio.open_nursery() as nursery:
        async with spawn(SCOUT, model=model, export_dir=Path(folder)) as scout:
            nursery.start_soon(scout.ask, "go")
            await rounds.at_third.wait()
            print("third", flush=True)
            await trio.sleep_forever()

trio.run(main, *sys.argv[1:])
"""


@pytest.mark.real
def test_a_process_that_is_killed_in_the_third_request_has_spent_the_first_two(
    tmp_path: Path,
) -> None:
    # Side by side: most of their time is spent on starting.
    signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_HOST), api, str(tmp_path / api)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, os.getcwd()])},
        )
        for api in APIS
    ]
    try:
        for process, how in zip(started, signals, strict=True):
            assert process.stdout is not None
            assert process.stdout.readline() == "third\n"
            process.send_signal(how)
            assert process.wait() == -how
    finally:
        for process in started:
            with process:
                process.kill()
    for api in APIS:
        lines, torn = read_record(tmp_path / api / "scout-1.events.jsonl")
        usage = usage_of(lines)
        assert not torn
        assert (usage.input_tokens, usage.output_tokens) == (2 * EACH, 2)


def test_what_a_lost_turn_had_spent_is_counted_once_also_when_it_was_gone_on_from() -> None:
    def spent(tokens: int) -> Usage:
        return Usage(output_tokens=tokens)

    opened = Opened(0.0, "scout#1", "scout")
    lines: list[Any] = [
        opened,
        Spent(1.0, spent(100)),
        Spent(2.0, spent(200)),
        # It was killed here, and its record goes on.
        opened,
        Spent(3.0, spent(100)),
        Ended(4.0, 3.0, "go", "ok", usage=spent(300)),
        Spent(5.0, spent(50)),
    ]
    assert usage_of(tuple(lines)).output_tokens == 200 + 300 + 50
