"""An experiment plays each cell once, keeps it, goes on after a kill, and never mixes settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from standby import Agent, Budget, Limits, Loop, Signal
from standby_actors.result import Result, TurnError
from standby_combinators import Experiment, SettingsChanged, experiment
from standby_combinators.intervals import student, t_quantile, wilson
from standby_combinators.measured import ExperimentCell, mean_text, rate_text, row_of

from .players import FakePlayer, FakeTroupe
from .repositories import edit, make_repo
from .teams import SCOUT, good, says

# Intervals, against printed tables.


@pytest.mark.parametrize(
    ("freedom", "two_sided_95", "two_sided_99"),
    [
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (3, 3.182, 5.841),
        (4, 2.776, 4.604),
        (5, 2.571, 4.032),
        (10, 2.228, 3.169),
        (29, 2.045, 2.756),
        (30, 2.042, 2.750),
        (60, 2.000, 2.660),
        (120, 1.980, 2.617),
    ],
)
def test_quantiles_of_student_are_those_of_the_tables(
    freedom: int, two_sided_95: float, two_sided_99: float
) -> None:
    assert round(t_quantile(0.975, freedom), 3) == two_sided_95
    assert round(t_quantile(0.995, freedom), 3) == two_sided_99
    assert t_quantile(0.025, freedom) == -t_quantile(0.975, freedom)


@pytest.mark.parametrize(
    ("many", "of", "low", "high"),
    [(0, 10, 0.0, 0.278), (5, 10, 0.237, 0.763), (8, 10, 0.490, 0.943), (20, 20, 0.839, 1.0)],
)
def test_intervals_of_rates_are_those_of_the_tables(
    many: int, of: int, low: float, high: float
) -> None:
    assert tuple(round(end, 3) for end in wilson(many, of)) == (low, high)


def test_little_is_known_of_little() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert student([1.0]) is None
    assert student([2.0, 2.0]) == (2.0, 2.0)
    assert (rate_text(0, 0), mean_text([])) == ("-", "-")
    with pytest.raises(ValueError, match="no count"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="confidence"):
        wilson(1, 2, 1.0)
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(0.5, 0)


# Composition.


async def test_every_model_plays_every_task_so_many_times_each_in_a_pool_of_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    troupe = FakeTroupe(good)
    done = await experiment(
        SCOUT, ["look", "read"], models=["m/a", "m/b"], repetitions=2, spawn=troupe.spawn
    )
    assert [cell.key for cell in done.cells] == [
        (model, place, number) for model in ("m/a", "m/b") for place in (0, 1) for number in (1, 2)
    ]
    assert (done.ok, done.complete, done.planned, done.resumed) == (True, True, 8, 0)
    assert len(troupe.opened) == 8
    assert all(len(player.memory) == 1 for player in troupe.opened)
    assert (troupe.most_alive, troupe.alive) == (1, set())
    assert done.usage.turns == 8
    assert [row.rates for row in done.rows] == [{"ok": (4, 4)}] * 2
    assert done.rows[0].usage.turns == 4


async def test_what_a_result_says_and_what_a_judge_says_is_counted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def judge(cell: ExperimentCell, result: Result) -> dict[str, Any]:
        await trio.sleep(1)
        return {"right": cell.repetition == 1, "length": len(result.output)}

    team = Loop([SCOUT], until=lambda step, _: step.ok, max_iterations=2)
    done = await experiment(
        team, "go", repetitions=2, judge=judge, spawn=FakeTroupe(good).spawn, concurrency=2
    )
    [row] = done.rows
    assert row.rates == {"ok": (2, 2), "converged": (2, 2), "right": (1, 2)}
    assert row.values["length"] == (8.0, 8.0)
    assert "1/2 50% [9-91]" in done.output
    done = await experiment(SCOUT, "go", judge=lambda *_: True, spawn=FakeTroupe(good).spawn)
    assert done.cells[0].marks == {"ok": True, "good": True}


async def test_a_shuffled_order_is_the_seeds_and_the_cells_stand_as_planned(
    autojump_clock: trio.testing.MockClock,
) -> None:
    orders: list[list[str]] = []
    for seed in (1, 1, 2):
        troupe = FakeTroupe(good)
        tasks = [f"task {number}" for number in range(6)]
        done = await experiment(SCOUT, tasks, shuffle=seed, spawn=troupe.spawn)
        orders.append([task for player in troupe.opened for task in player.memory])
        assert [cell.task for cell in done.cells] == tasks
    assert orders[0] == orders[1] != orders[2]


# Failure.


async def test_a_cell_fails_alone_and_is_data(autojump_clock: trio.testing.MockClock) -> None:
    async def answer(task: str, player: FakePlayer) -> str:
        if task == "break":
            raise RuntimeError("it broke")
        return await good(task, player)

    done = await experiment(SCOUT, ["break", "look"], spawn=FakeTroupe(answer).spawn)
    assert (done.ok, done.complete) == (False, True)
    assert [cell.status for cell in done.cells] == ["crashed", "ok"]
    assert "it broke" in done.cells[0].error
    assert done.rows[0].rates == {"ok": (1, 2)}


async def test_what_is_no_fault_of_a_model_is_no_data_of_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    nobody = await experiment(Agent("a", "Say it."), "go", models=["no-such/model"])
    assert (nobody.cells, nobody.complete, nobody.planned) == ((), False, 1)
    assert nobody.status == "failed"
    assert "no-such" in str(nobody.error)
    busy = says(TurnError("rate_limited", "later", True))
    done = await experiment(SCOUT, "go", spawn=FakeTroupe(busy).spawn)
    assert (done.cells, done.complete) == ((), False)


async def test_a_judge_that_fails_loses_no_cell(autojump_clock: trio.testing.MockClock) -> None:
    def judge(cell: ExperimentCell, result: Result) -> object:
        if cell.repetition == 1:
            raise KeyError("what is right?")
        return "good"

    done = await experiment(SCOUT, "go", repetitions=2, judge=judge, spawn=FakeTroupe(good).spawn)
    assert [cell.marks for cell in done.cells] == [{"ok": True, "judged": False}] * 2
    assert "what is right?" in done.cells[0].error
    assert "bools and numbers" in done.cells[1].error
    assert (done.ok, done.complete) == (True, True)


async def test_misuse_is_told_before_anything_is_played(tmp_path: Path) -> None:
    troupe = FakeTroupe(good)
    wrongs: tuple[dict[str, Any], ...] = (
        {"repetitions": 0},
        {"concurrency": 0},
        {"tasks": []},
        {"tasks": ["a", "a"]},
        {"changed": "mix"},
        {"models": ["a"], "model": "b"},
    )
    for wrong in wrongs:
        said: dict[str, Any] = {"tasks": ["go"], **wrong}
        with pytest.raises(ValueError, match=r"."):
            await experiment(SCOUT, said.pop("tasks"), spawn=troupe.spawn, **said)
    with pytest.raises(TypeError, match="a member is"):
        await experiment("scout", ["go"])  # type: ignore[arg-type]  # what is tested
    assert troupe.opened == []
    with pytest.raises(ValueError, match="nothing to draw"):
        Experiment(agent="x").plot(tmp_path / "no.png")


async def test_what_the_budget_does_not_pay_for_is_not_played_and_comes_next_time(
    tmp_path: Path,
) -> None:
    async def scout(task: str) -> str:
        return task

    tasks = [f"task {number}" for number in range(4)]
    budget = Budget(Limits(turns=2))
    done = await experiment(scout, tasks, folder=tmp_path, budget=budget)
    assert (len(done.cells), done.complete, done.status) == (2, False, "budget")
    done = await experiment(scout, tasks, folder=tmp_path)
    assert (len(done.cells), done.resumed, done.complete, done.ok) == (4, 2, True, True)
    assert (done.usage.turns, done.rows[0].usage.turns) == (2, 4)


# Cancellation.


# What is written is written in threads, which virtual time does not wait for: so these
# say in which turn something happens, and not when.


async def test_called_off_it_says_what_it_has_and_that_it_is_not_complete(tmp_path: Path) -> None:
    signal = Signal()

    async def answer(task: str, player: FakePlayer) -> str:
        if len(troupe.opened) == 2:
            signal.set("enough")
            await trio.sleep(60)
        return task

    troupe = FakeTroupe(answer)
    done = await experiment(
        SCOUT, "go", repetitions=4, folder=tmp_path, signal=signal, spawn=troupe.spawn
    )
    assert (len(done.cells), done.complete, done.status) == (1, False, "aborted")
    assert [step.status for step in done.steps] == ["ok", "aborted", "aborted", "aborted"]
    assert len(troupe.opened) == 2
    done = await experiment(SCOUT, "go", repetitions=4, folder=tmp_path, spawn=FakeTroupe().spawn)
    assert (len(done.cells), done.resumed, done.complete) == (4, 1, True)
    assert troupe.alive == set()


@pytest.mark.parametrize("turn", [1, 2, 5])
async def test_cancelled_in_any_turn_it_keeps_what_had_ended(tmp_path: Path, turn: int) -> None:
    async def answer(task: str, player: FakePlayer) -> str:
        if len(troupe.opened) == turn:
            cut.cancel()
        await trio.lowlevel.checkpoint()
        return task

    troupe = FakeTroupe(answer)
    with trio.CancelScope() as cut:
        await experiment(SCOUT, "go", repetitions=6, folder=tmp_path, spawn=troupe.spawn)
    assert cut.cancelled_caught
    assert troupe.alive == set()
    assert len(files(tmp_path, "cell.json")) == turn - 1
    assert files(tmp_path, "*.new") == []
    done = await experiment(SCOUT, "go", repetitions=6, folder=tmp_path, spawn=FakeTroupe().spawn)
    assert (done.resumed, done.complete) == (turn - 1, True)


def files(folder: Path, pattern: str) -> list[Path]:
    """Those of that name, in any folder below."""
    return sorted(folder.rglob(pattern))


# Lifetime.


async def test_cells_of_other_settings_are_named_and_never_mixed(tmp_path: Path) -> None:
    async def play(member: Any, **more: Any) -> Experiment:
        spawn = FakeTroupe().spawn
        return await experiment(member, ["go"], folder=tmp_path, spawn=spawn, **more)

    await play(SCOUT)
    assert (await play(SCOUT)).resumed == 1
    with pytest.raises(SettingsChanged) as refused:
        await play(Agent("scout", "Report, and be brief."), timeout=5.0)
    assert refused.value.what == (
        "member.mind was 'Report.' and is 'Report, and be brief.'",
        "timeout was None and is 5.0",
    )
    assert "1 cells" in str(refused.value)
    # What was refused has changed nothing.
    assert (await play(SCOUT)).resumed == 1
    again = await play(SCOUT, timeout=5.0, changed="again")
    assert again.resumed == 0
    assert (await play(SCOUT, timeout=5.0)).resumed == 1
    assert len(files(tmp_path, "cell.*.json")) == 1
    # One more repetition is no other setting, and damage is no cell.
    [cell] = files(tmp_path, "cell.json")
    cell.write_text('{"model"')
    more = await play(SCOUT, timeout=5.0, repetitions=2)
    assert (more.resumed, len(more.cells)) == (0, 2)
    assert len(files(tmp_path, "*.damaged")) == 1


async def test_a_cell_says_what_it_was_and_the_summary_keeps_sums(tmp_path: Path) -> None:
    await experiment(
        SCOUT, ["go"], models=["a/b", "a-b"], folder=tmp_path, spawn=FakeTroupe().spawn
    )
    cells = files(tmp_path, "cell.json")
    assert len(cells) == 2
    cell = msgspec.json.decode(cells[0].read_bytes(), type=ExperimentCell)
    assert (cell.status, cell.settings["member.mind"]) == ("ok", "'Report.'")
    summary = msgspec.json.decode((tmp_path / "experiment.json").read_bytes())
    assert (summary["planned"], summary["played"], summary["complete"]) == (2, 2, True)
    assert [row["usage"]["turns"] for row in summary["rows"]] == [1, 1]


@pytest.mark.real
async def test_a_kill_loses_at_most_the_cells_in_flight(tmp_path: Path) -> None:
    program = """
import sys, trio
from standby import experiment

async def work(task):
    print(task, flush=True)
    await trio.sleep(60 if task == "task 4" and sys.argv[2] == "hang" else 0)
    return task

async def main():
    done = await experiment(work, [f"task {n}" for n in range(6)], folder=sys.argv[1])
    print("over", done.resumed, len(done.cells), flush=True)

trio.run(main)
"""
    file = tmp_path / "program.py"
    file.write_text(program)
    folder = tmp_path / "cells"
    command = [sys.executable, str(file), str(folder)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(  # noqa: ASYNC220 - killed, not waited for
        [*command, "hang"], env=env, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        while (await trio.to_thread.run_sync(killed.stdout.readline)).strip() != "task 4":
            pass
        # Two at once in one folder would overwrite each other.
        with pytest.raises(BlockingIOError, match="another process"):
            await experiment(edit, ["look"], folder=folder)
        killed.kill()
    done = await trio.run_process([*command, "go"], env=env, capture_stdout=True)
    assert done.stdout.decode().splitlines() == ["task 4", "task 5", "over 4 6"]


@pytest.mark.real
async def test_writers_are_measured_in_copies_and_nothing_lands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    repo = make_repo(tmp_path / "repo")
    done = await experiment(edit, ["new.txt = a", "look"], copies=repo.path)
    assert done.ok
    assert [Path(cell.patch).name for cell in done.cells] == ["0-edit.patch", ""]
    assert repo.changes == []
    repo.check()


def test_rows_are_drawn_and_printed(tmp_path: Path) -> None:
    from rich.console import Console

    cells = [
        ExperimentCell(
            model=model,
            task="go",
            place=0,
            repetition=number,
            status="ok",
            marks={"ok": number > 1, "length": float(number)} if model == "a" else {},
        )
        for model in ("a", "b")
        for number in (1, 2, 3)
    ]
    done = Experiment(agent="x", cells=tuple(cells), planned=6)
    assert row_of("a", cells[:3]).values == {"length": (1.0, 2.0, 3.0)}
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115 - closed below
    console.print(done.table())
    console.file.close()
    said = console.export_text()
    assert "2/3 67% [21-94]" in said
    assert "2 ± 2.48" in said
    done.plot(tmp_path / "deep" / "plot.png")
    data = (tmp_path / "deep" / "plot.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 5_000
