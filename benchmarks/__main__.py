"""The command: run the benchmarks, print them, write JSON, draw a chart."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import standby

from .measure import DEFAULT_GC, Clock, GcSetting, measure
from .peers.runner import Peers
from .report import (
    Answer,
    describe,
    draw,
    figures_of,
    judge_line,
    lines_of,
    machine_line,
    summary_of,
)
from .suites import Benchmark, Means, find

OUT = Path(__file__).parent / "out"
"""Where results go unless told otherwise; git ignores it."""

TUNED_GC = GcSetting("tuned GC", standby.tune_gc)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that `arguments` ask for; return the exit code, 2 for misuse."""
    options = _parser().parse_args(arguments)
    try:
        benchmarks = find(options.only)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    clock: Clock = options.clock
    rounds: int = options.rounds or (1 if options.smallest else 9)
    means = Means(options.smallest, Peers(options.peers, options.peers_home))
    settings = {setting.name: _thresholds(setting) for setting in (DEFAULT_GC, TUNED_GC)}
    print(f"{machine_line()}; {rounds} rounds, {clock} time")
    for name, thresholds in settings.items():
        print(f"{name}: thresholds {thresholds}")
    answers: list[Answer] = []
    for benchmark in benchmarks:
        answers.append(_answer(benchmark, means, rounds, clock))
        print("\n".join(lines_of(answers[-1])), flush=True)
    report = describe(settings, answers, clock=clock, rounds=rounds, smallest=means.smallest)
    print("\n".join(summary_of(report)))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    print(f"written: {options.json}")
    try:
        draw(report, options.chart)
    except ImportError:
        print("no chart: matplotlib is missing; it comes with the extra `plot`")
    else:
        print(f"written: {options.chart}")
    return 0


def _answer(benchmark: Benchmark, means: Means, rounds: int, clock: Clock) -> Answer:
    suite = benchmark.suite(means)
    settings = (DEFAULT_GC, TUNED_GC) if suite.gc_matters else (DEFAULT_GC,)
    rows = measure(suite.cases, rounds, settings, _progress(benchmark.name))
    return Answer(
        benchmark.name,
        benchmark.question,
        figures_of(rows, clock),
        [
            judge_line(line, rows, setting, clock, smallest=means.smallest)
            for line in suite.lines
            for setting in settings
        ],
    )


def _progress(benchmark: str) -> Callable[[str], None]:
    """Return what shows, on a terminal alone, which case is running."""

    def show(what: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{benchmark}: {what}")
            sys.stderr.flush()

    return show


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="What standby costs, as ratios to raw trio and to peers of the same run.",
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="NAME", help="benchmarks named so; repeat")
    add("--smallest", action="store_true", help="each at its smallest size: does it run?")
    add("--peers", action="store_true", help="also other libraries, and Erlang and Go if there")
    add("--rounds", type=int, help="interleaved rounds; 9, or 1 at the smallest size")
    add("--clock", choices=("wall", "cpu"), default="wall", help="cpu for a busy machine")
    add("--json", type=Path, default=OUT / "latest.json", metavar="FILE")
    add("--chart", type=Path, default=OUT / "latest.png", metavar="FILE")
    add("--peers-home", type=Path, default=OUT / "peers", metavar="DIR", help="peers' environment")
    return parser


def _thresholds(setting: GcSetting) -> tuple[int, int, int]:
    before = gc.get_threshold()
    setting.apply()
    thresholds = gc.get_threshold()
    gc.set_threshold(*before)
    return thresholds


if __name__ == "__main__":
    sys.exit(main())
