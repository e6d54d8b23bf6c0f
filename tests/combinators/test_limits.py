"""Teams have bounds: in width (C35, L3), in depth and number (C39), over a million turns (L5)."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent, Limits
from standby_actors.budget import Budget
from standby_actors.result import Result
from standby_actors.sessions.chat import open_chat_model
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import reset_ids, spawn
from standby_actors.usage import Usage
from standby_combinators import StopSwitch, fan_out, stop_switch
from tests.agents.chat.asking import settings
from tests.support.model_server_agents import agent_server

SCOUT = Agent("scout", "Report.")
ROOT = Path(__file__).parents[2]


def resident() -> int:
    """Bytes of memory that this process has at the moment."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Model:
    """Opens conversations whose turns take a second; a drawn share of them goes wrong."""

    def __init__(self, switch: StopSwitch | None = None, faults: float = 0.0) -> None:
        self.switch = switch
        self.faults = faults
        self.source = random.Random(5)
        self.most = 0
        self.billed = 0
        self.wrong = 0
        self.open = 0

    def session(self, agent: Agent, /) -> ScriptedSession:
        return Counted(self)

    def reply(self, task: str) -> Reply:
        if self.switch is not None:
            self.most = max(self.most, len(self.switch.ids))
        self.billed += 1
        cost = Usage(requests=1, output_tokens=1)
        if self.source.random() >= self.faults:
            return Reply(task, seconds=1, usage=cost)
        self.wrong += 1
        how = self.source.choice(["raises", "hangs", "deaf", "fails"])
        return Reply(
            "" if how == "fails" else task,
            seconds=500 if how in ("hangs", "deaf") else 1,
            deaf_seconds=0.5 if how == "deaf" else 0,
            crash=RuntimeError("torn") if how in ("raises", "fails") else None,
            usage=cost,
        )


class Counted(ScriptedSession):
    """A conversation that its model knows of while it is open."""

    def __init__(self, model: Model) -> None:
        super().__init__(model.reply)
        self.of = model
        model.open += 1

    async def close(self) -> None:
        await super().close()
        self.of.open -= 1


# ---- in width


def l3(branches: int, work: Any, **options: Any) -> tuple[Result, float, int]:
    """Ask so many tasks, 64 at a time: the Report, the time, the memory that it took."""
    tasks = [str(number) for number in range(branches)]

    async def main() -> tuple[Result, float]:
        done = await fan_out(work, tasks, concurrency=64, **options)
        assert [step.output for step in done.steps] == tasks
        return done, trio.current_time()

    gc.collect()
    before = resident()
    done, ended = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    gc.collect()
    return done, ended, resident() - before


def test_l3_ten_thousand_functions_are_asked_sixty_four_at_a_time() -> None:
    at_work = most = 0

    async def work(task: str) -> str:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await trio.sleep(1)
        at_work -= 1
        return task

    _, ended, grown = l3(10_000, work)
    assert most == 64
    assert ended == pytest.approx(157)
    assert grown < 200_000_000


@pytest.mark.parametrize("branches", [640, pytest.param(10_000, marks=pytest.mark.deep)])
def test_l3_never_more_than_sixty_four_subagents_are_alive(branches: int) -> None:
    reset_ids()
    switch = stop_switch()
    model = Model(switch)
    done, ended, grown = l3(branches, SCOUT, model=model, switch=switch)
    assert model.most == 64
    assert ended == pytest.approx(-(-branches // 64))
    assert (model.open, len(switch.ids)) == (0, 0)
    assert done.usage.turns == model.billed == branches
    assert grown < 200_000_000


@pytest.mark.real
@pytest.mark.parametrize(
    "branches",
    [
        100,
        pytest.param(2_000, marks=pytest.mark.deep),
        pytest.param(10_000, marks=pytest.mark.deep),
    ],
)
def test_c35_a_fan_out_over_sockets_has_no_more_descriptors_than_its_width(branches: int) -> None:
    command = [sys.executable, "-m", "tests.combinators.descriptors", str(branches), "64"]
    path = os.pathsep.join(
        str(ROOT / each) for each in (".", "actors", "supervision", "combinators")
    )
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["failed"] == []
    assert (told["right"], told["turns"]) == (branches, branches)
    assert told["more descriptors"] <= 72
    assert (told["subagents"], told["left"]) == (64, 0)


# ---- in depth and number


def copies(budget: Budget, seen: Counter[str], seconds: float = 0.0) -> Agent:
    """One that has five copies of itself at work below it, from its part of the budget."""

    async def copy(task: str) -> str:
        seen["played"] += 1
        await trio.sleep(seconds)
        below = budget.below(name=budget.name)
        done = await fan_out(copies(below, seen, seconds), ["go"] * 5, budget=below, concurrency=8)
        for step in done.steps:
            if step.error is not None:
                seen[step.error.kind] += 1
                seen[step.error.message.split(" allows ")[-1].split(" ")[1].rstrip("s")] += 1
        return "done"

    return Agent("copy", copy)


async def test_c39_one_that_copies_itself_goes_no_deeper_than_it_may(
    autojump_clock: trio.testing.MockClock,
) -> None:
    run, seen = Budget(Limits(depth=2, descendants=50), name="the run"), Counter[str]()
    done = await fan_out(copies(run, seen), ["go"], budget=run)
    assert done.ok
    # Itself and five below; each of those is refused five more, and says so as a Result.
    assert (seen["played"], seen["budget"], seen["level"]) == (6, 25, 25)
    assert run.descendants == 6


async def test_c39_the_number_of_copies_is_that_of_the_tree_and_not_of_each(
    autojump_clock: trio.testing.MockClock,
) -> None:
    run, seen = Budget(Limits(depth=9, descendants=50), name="the run"), Counter[str]()
    done = await fan_out(copies(run, seen), ["go"], budget=run)
    assert done.ok
    assert seen["played"] == run.descendants == 50
    # Each of the fifty wanted five: all but itself and its like were refused.
    assert seen["budget"] == seen["subagent"] == 50 * 5 - 49


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_c39_of_a_thousand_in_turn_as_many_are_spawned_as_may_be(
    autojump_clock: trio.testing.MockClock, concurrency: int
) -> None:
    model = Model()
    budget = Budget(Limits(descendants=100), name="the run")
    tasks = [str(number) for number in range(1_000)]
    done = await fan_out(SCOUT, tasks, model=model, budget=budget, concurrency=concurrency)
    assert Counter(step.status for step in done.steps) == {"ok": 100, "budget": 900}
    assert "the run allows 100 subagents below" in str(done.steps[-1].error)
    assert (model.billed, model.open) == (100, 0)


async def test_c39_a_tree_that_is_stopped_is_gone_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    run, seen = Budget(Limits(depth=9, descendants=500), name="the run"), Counter[str]()
    switch = stop_switch()
    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            await trio.sleep(1)
            await switch.all("enough")
            assert trio.current_time() == 1

        nursery.start_soon(stop)
        done = await fan_out(copies(run, seen, seconds=0.3), ["go"], budget=run, switch=switch)
    assert done.status == "stopped"
    assert trio.current_time() == 1
    # Three levels had begun, of 1, 5, 25, and the fourth was at work.
    assert seen["played"] == 1 + 5 + 25 + 125
    await trio.sleep(100)
    assert seen["played"] == 156
    assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.real
async def test_c39_a_model_that_has_copies_of_itself_work_is_told_when_there_may_be_no_more() -> (
    None
):
    twin = Agent("twin", "Delegate.", tools=["subagent"], agents=["twin"])
    budget = Budget(Limits(descendants=4, depth=9), name="the run")
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, "chat"), retries=0) as model,
        spawn(twin, model=model, roster=[twin], budget=budget) as subagent,
    ):
        tasks = json.dumps(["a", "b", "c", "d", "e"])
        result = await subagent.ask(f'CALL:subagent:{{"agent": "twin", "tasks": {tasks}}}')
    assert result.ok
    assert budget.descendants == 4
    # Itself is one of the four.
    assert result.output.count("twin (failed)") == 2
    assert "the run allows 4 subagents below" in result.output


# ---- over a million turns


def soak(turns: int, block: int, kind: str) -> None:
    """So many turns, one in a hundred goes wrong; nothing may grow, and nothing be left."""
    model = Model(faults=0.01)

    async def function(task: str) -> str:
        reply = model.reply(task)
        await trio.sleep(reply.seconds)
        if reply.crash is not None:
            raise reply.crash
        return task

    async def main() -> tuple[list[int], int, int]:
        sizes: list[int] = []
        played = failed = 0
        tasks = [str(number) for number in range(block)]
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(turns // block):
            who, options = (function, {}) if kind == "functions" else (SCOUT, {"model": model})
            done = await fan_out(who, tasks, concurrency=64, timeout=10, **options)  # type: ignore[arg-type]
            assert done.usage.turns == block
            failed += sum(not step.ok for step in done.steps)
            played += done.usage.turns
            del done
            gc.collect()
            sizes.append(resident())
            assert trio.lowlevel.current_statistics().tasks_living == before
        return sizes, played, failed

    sizes, played, failed = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert played == model.billed == turns
    assert failed == model.wrong
    assert turns * 0.005 < failed < turns * 0.02
    assert model.open == 0
    if turns >= 100_000:
        # From the tenth part on, so that what is allocated once does not count.
        counted = sizes[len(sizes) // 10 :]
        slope = (counted[-1] - counted[0]) / ((len(counted) - 1) * block) * 100_000
        assert slope < 1_000_000, f"{slope:.0f} bytes per 100,000 turns: {counted}"


@pytest.mark.parametrize("kind", ["functions", "subagents"])
def test_l5_turns_with_faults_leave_nothing(kind: str) -> None:
    soak(4_000 if kind == "functions" else 1_000, 1_000, kind)


@pytest.mark.deep
@pytest.mark.parametrize(("kind", "turns"), [("functions", 1_000_000), ("subagents", 200_000)])
def test_l5_a_million_turns_with_faults_leave_no_more_than_their_records(
    kind: str, turns: int
) -> None:
    soak(turns, 5_000, kind)
