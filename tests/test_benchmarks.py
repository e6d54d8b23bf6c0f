"""The benchmarks' own machinery: what is measured, how it is judged, what is printed.

No time is asserted here; whether every benchmark runs is for the gate to see.
"""

from __future__ import annotations

import doctest
import gc
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from benchmarks import goals, report
from benchmarks import measure as measuring
from benchmarks.__main__ import main
from benchmarks.goals import GOALS, Goal, judge
from benchmarks.measure import (
    DEFAULT_GC,
    Case,
    GcSetting,
    Line,
    Row,
    Unmeasured,
    collecting,
    figure,
    measure,
    ratio,
)
from benchmarks.peers.runner import PYTHON_PEERS, Peers
from benchmarks.report import Report, judge_line
from benchmarks.suites import Benchmark, Means, find

BENCHMARKS = find()


@pytest.fixture
def no_peers(tmp_path: Path) -> Peers:
    return Peers(wanted=False, home=tmp_path)


def fixed(name: str, *values: float) -> Case:
    """Measures one of its values after the other."""
    left = iter(values)
    return Case(name, lambda: figure(next(left)), unit="B")


@pytest.mark.parametrize("module", [goals, measuring, report], ids=lambda each: each.__name__)
def test_the_examples_in_the_docstrings_run(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def test_every_promised_line_has_a_goal() -> None:
    lines = {goal.line for goal in GOALS.values()}
    promised = {*map(str, range(1, 13)), *map(str, range(13, 25)), "26", "import"}
    promised |= {"flat", "OTP 77", "OTP 88"}
    assert lines >= promised


@pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS.keys())
def test_an_aim_lies_beyond_its_must(goal: Goal) -> None:
    assert judge(goal, goal.aim) == "aim met"
    assert judge(goal, goal.must) == "must met"


@pytest.mark.parametrize("benchmark_", BENCHMARKS, ids=lambda each: each.name)
def test_a_benchmark_asks_one_question(benchmark_: Benchmark) -> None:
    assert benchmark_.question.endswith("?")


@pytest.mark.parametrize("smallest", [True, False])
@pytest.mark.parametrize("benchmark_", BENCHMARKS, ids=lambda each: each.name)
def test_every_line_is_made_of_rows_that_are_measured(
    benchmark_: Benchmark, smallest: bool, no_peers: Peers
) -> None:
    suite = benchmark_.suite(Means(smallest, no_peers))
    names = [case.name for case in suite.cases]
    assert len(names) == len(set(names))
    for line in suite.lines:
        assert line.goal in GOALS
        assert line.top in names
        assert line.bottom is None or line.bottom in names


def test_every_goal_is_answered_by_a_benchmark(no_peers: Peers) -> None:
    suites = [each.suite(Means(True, no_peers)) for each in BENCHMARKS]
    assert {line.goal for suite in suites for line in suite.lines} == GOALS.keys()


def test_rounds_are_interleaved_and_every_other_one_runs_backwards() -> None:
    ran: list[str] = []

    def case(name: str) -> Case:
        def run() -> float:
            ran.append(name)
            return 1.0

        return Case(name, lambda: figure(run()))

    measure([case("a"), case("b")], rounds=3)
    assert ran == ["a", "b", "b", "a", "a", "b"]


def test_a_ratio_is_taken_within_a_round() -> None:
    # The second round ran on a machine ten times slower; the ratio is none the worse.
    rows = measure([fixed("top", 4, 40, 4), fixed("bottom", 2, 20, 2)], rounds=3)
    assert ratio(rows["top", "default GC"], rows["bottom", "default GC"], "wall") == 2


def test_what_takes_long_has_fewer_rounds() -> None:
    ran = measure([Case("slow", lambda: figure(1.0), most_rounds=2)], rounds=5)
    assert sorted(ran["slow", "default GC"].samples) == [0, 1]


def test_what_cannot_be_measured_says_why_and_is_not_tried_again() -> None:
    tries: list[int] = []

    def fail() -> float:
        tries.append(1)
        raise Unmeasured("no such program")

    rows = measure([Case("peer", lambda: figure(fail()), ours=False)], rounds=3)
    judged = judge_line(Line("21 tell", "peer"), rows, DEFAULT_GC, "wall", smallest=False)
    assert len(tries) == 1
    assert judged.figure is None
    assert judged.verdict is None
    assert judged.unmeasured == "no such program"


def test_a_gc_setting_ends_with_its_sample() -> None:
    before = gc.get_threshold()
    with collecting(GcSetting("rare", lambda: gc.set_threshold(100_000, 50, 1000))):
        assert gc.get_threshold() == (100_000, 50, 1000)
    assert gc.get_threshold() == before


def test_another_process_is_measured_once_for_all_gc_settings() -> None:
    settings = (DEFAULT_GC, GcSetting("tuned GC", lambda: None))
    rows = measure([Case("peer", lambda: figure(8.0), unit="B", ours=False)], 1, settings)
    assert [*rows] == [("peer", "own process")]
    judged = judge_line(Line("11", "peer"), rows, settings[1], "wall", smallest=False)
    assert judged.figure == 8


def test_the_smallest_size_is_not_judged() -> None:
    rows = {("row", "default GC"): Row("row", "default GC", "B", {0: figure(1.0)})}
    judged = judge_line(Line("11", "row"), rows, DEFAULT_GC, "wall", smallest=True)
    assert judged.figure == 1
    assert judged.verdict is None


@pytest.mark.parametrize("peer", [*PYTHON_PEERS, "erlang", "go"])
def test_a_peer_that_was_not_asked_for_is_not_measured(peer: str, no_peers: Peers) -> None:
    with pytest.raises(Unmeasured, match="--peers"):
        no_peers.case(peer, "tell", 10).run()
    assert not any(no_peers.home.iterdir())


def test_a_name_that_no_benchmark_has_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "teleport"]) == 2
    assert "bench_tell" in capsys.readouterr().err


@pytest.mark.real
def test_a_run_prints_its_lines_and_writes_json_and_a_chart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, chart = tmp_path / "run.json", tmp_path / "run.png"
    arguments = ["--only", "bench_tell", "--smallest", "--json", str(written)]
    assert main([*arguments, "--chart", str(chart)]) == 0
    assert "7b.1 " in capsys.readouterr().out
    found = msgspec.json.decode(written.read_bytes(), type=Report)
    assert found.gc_settings.keys() == {"default GC", "tuned GC"}
    assert [answer.benchmark for answer in found.answers] == ["bench_tell"]
    assert chart.read_bytes().startswith(b"\x89PNG")
