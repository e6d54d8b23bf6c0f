"""A host that is killed with -9: what was recorded stays, and is done once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.supervision.runs.killed import POINTS

pytestmark = pytest.mark.real
OUTPUT = "seen a, seen b, seen c, 2, 4, seen d, seen e"
WRITES = range(1, 40)
"""More transactions than the program has."""


def cases(folder: Path, named: Iterable[str]) -> list[dict[str, Any]]:
    """Play them; see the module `killed`."""
    program = [sys.executable, "-m", "tests.supervision.runs.killed", str(folder), *named]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=1_800)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(case: dict[str, Any]) -> None:
    """Nothing that was recorded is lost or done again, and the end is that of a quiet run."""
    assert case["first"] in (0, -9)
    assert case["last"] == 0
    assert case["output"] == OUTPUT
    end, between = case["end"], case["between"]
    assert end["status"] == "completed"
    assert (end["outcomes"], end["agents"], end["open"]) == (7, 0, 0)
    assert end["registered"] == end["exited"]
    # Whoever looks first finds that its owner is gone; who looks later adds nothing.
    if case["first"] == -9:
        assert between["status"] in (None, "interrupted", "completed")
    assert between["again"] == end["again"] == []
    # Only what was in doubt is done again: once, under the same key, and it is told so.
    times = Counter(line.rpartition(" ")[0] or line for line in effects(case, "effect"))
    turns = Counter(effects(case, "turn"))
    again = [n for n in (*times.values(), *turns.values()) if n > 1]
    assert all(n == 2 for n in again)
    assert len(again) <= between["open"]
    told = Counter(effects(case, "effect"))
    for key, n in times.items():
        # Killed between the word that it begins and its beginning, it is told as well.
        assert told[f"{key} False"] <= 1
        assert n == told[f"{key} False"] + told[f"{key} True"]


def effects(case: dict[str, Any], what: str) -> list[str]:
    return [line for line in case["effects"] if line.startswith(what)]


def test_killed_at_any_write_a_run_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    named = [f"{POINTS[number % len(POINTS)]}:{number}" for number in WRITES]
    played = cases(tmp_path, named)
    for case in played:
        check(case)
    # It was killed at each of its writes, and the last were beyond its end.
    assert {case["first"] for case in played[:15]} == {-9}
    assert played[-1]["first"] == 0


@pytest.mark.deep
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_write_at_each_point_twenty_times(point: str, tmp_path: Path) -> None:
    for turn in range(20):
        for case in cases(tmp_path / str(turn), [f"{point}:{number}" for number in WRITES]):
            check(case)


ACCEPT = """
import sys, standby, trio
from standby_supervision.runs import open_workspace

async def one(workspace):
    async with workspace.open_run("job") as run:
        print(run.id, flush=True)
        await trio.sleep_forever()

async def main():
    async with open_workspace(sys.argv[1]) as workspace, trio.open_nursery() as nursery:
        for _ in range(int(sys.argv[2])):
            nursery.start_soon(one, workspace)

standby.run(main)
"""
"""Opens runs, tells their ids, and waits for its end."""

RACE = """
import sys, standby
from standby_supervision.runs import RunOwned, open_workspace

async def main():
    async with open_workspace(sys.argv[1]) as workspace:
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            async with workspace.open_run("job", id=sys.argv[2]) as run:
                print("won", run.epoch, flush=True)
                sys.stdin.readline()
        except RunOwned as error:
            print("lost", flush=True)

standby.run(main)
"""
"""Goes on with a run when it is told to, unless somebody else does."""

LIST = """
import json, sys, standby
from standby_supervision.runs import open_workspace

async def main():
    async with open_workspace(sys.argv[1]) as workspace:
        print(json.dumps({row.run: row.state for row in await workspace.runs()}))

standby.run(main)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A program that can be told to go on, and talks."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line_of(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def accepted(folder: Path, runs: int, kill_after: int) -> list[str]:
    """Ids that a program told before it was killed."""
    program = start(ACCEPT, folder, runs)
    ids = [line_of(program) for _ in range(kill_after)]
    program.kill()
    rest, _ = program.communicate()
    return [*ids, *rest.split("\n")[:-1]]


def listed(folder: Path) -> dict[str, str]:
    """The runs of a folder, by their state, after somebody has opened it."""
    told, _ = start(LIST, folder).communicate()
    found: dict[str, str] = json.loads(told)
    return found


@pytest.mark.parametrize("races", [2, pytest.param(30, marks=pytest.mark.deep)])
def test_of_two_processes_that_go_on_with_a_run_one_wins(races: int, tmp_path: Path) -> None:
    (run,) = accepted(tmp_path, 1, kill_after=1)
    for _ in range(races):
        both = [start(RACE, tmp_path, run) for _ in range(2)]
        assert [line_of(each) for each in both] == ["ready"] * 2
        for each in both:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        assert sorted(line_of(each).split()[0] for each in both) == ["lost", "won"]
        for each in both:
            each.kill()
            each.communicate()


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=pytest.mark.deep)])
def test_every_run_whose_id_was_told_is_there(kills: int, tmp_path: Path) -> None:
    told: list[str] = []
    for turn in range(kills):
        told += accepted(tmp_path, 10, kill_after=1 + turn % 5)
    states = listed(tmp_path)
    assert len(told) >= kills
    assert set(told) <= set(states)
    assert set(states.values()) == {"interrupted"}


def test_a_gentle_stop_leaves_what_waits_to_be_gone_on_with(tmp_path: Path) -> None:
    program = start(ACCEPT, tmp_path, 20)
    ids = {line_of(program) for _ in range(20)}
    program.terminate()
    program.communicate()
    states = listed(tmp_path)
    assert set(states) == ids
    assert set(states.values()) == {"interrupted"}


GHOST = """
import sys, standby, trio

async def scout(task):
    if task != "a":
        await trio.sleep_forever()
    return f"seen {task}"

async def main():
    async with standby.open_workspace(sys.argv[1]) as workspace, workspace.open_run("job") as run:

        async def one(task):
            print((await run.turn(scout, task)).output, flush=True)
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            for task in "abc":
                nursery.start_soon(one, task)

standby.run(main)
"""
"""Three agents, of which one has answered, and is gone."""

LOOK = """
import json, sys, standby

async def main():
    async with standby.open_workspace(sys.argv[1]) as workspace:
        (row,) = await workspace.runs()
        state = await workspace.state(row.run)
        events = await workspace.events(row.run)
        print(json.dumps({
            "state": row.state,
            "owner": row.owner is None,
            "agents": len(state.agents),
            "outputs": [result.output for result in state.outcomes.values()],
            "orphaned": [e.data.decode() for e in events if e.kind == "agent.exited"],
            "events": len(events),
        }))

standby.run(main)
"""


def test_of_an_owner_that_is_killed_no_ghost_is_left(tmp_path: Path) -> None:
    program = start(GHOST, tmp_path)
    assert line_of(program) == "seen a"
    while json.loads(start(LOOK, tmp_path).communicate()[0])["agents"] != 2:
        assert program.poll() is None
    program.kill()
    program.communicate()
    seen = [json.loads(start(LOOK, tmp_path).communicate()[0]) for _ in range(3)]
    assert (seen[0]["state"], seen[0]["owner"], seen[0]["agents"]) == ("interrupted", True, 0)
    assert seen[0]["outputs"] == ["seen a"]
    told = [json.loads(each) for each in seen[0]["orphaned"]]
    assert sorted(each["status"] for each in told) == ["completed", "orphaned", "orphaned"]
    assert [each["why"] for each in told if each["status"] == "orphaned"] == ["owner gone"] * 2
    assert seen[1] == seen[2] == seen[0]
