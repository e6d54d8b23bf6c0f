"""How many bytes does an idle actor take?"""

from __future__ import annotations

from .measure import Case, Line, Sample, Suite, figure
from .probes import probe
from .suites import Means


def _case(name: str, what: str, scales: str, count: int) -> Case:
    def run() -> Sample:
        return figure(probe("memory", what, scales, count)["bytes"])

    return Case(name, run, unit="B", most_rounds=3, ours=False)


def suite(means: Means) -> Suite:
    actors = means.size(100_000, 2_000)
    tasks = means.size(20_000, 1_000)
    return Suite(
        [
            _case("idle trio task, RSS", "task", "rss", tasks),
            _case("idle actor, RSS", "actor", "rss", actors),
            _case("idle actor, tracemalloc", "actor", "tracemalloc", actors),
            _case("idle actor with __slots__, RSS", "slotted", "rss", actors),
            _case("idle actor with __slots__, tracemalloc", "slotted", "tracemalloc", actors),
        ],
        [
            Line("11", "idle actor, RSS", note="(RSS)"),
            Line("11", "idle actor, tracemalloc", note="(tracemalloc)"),
            Line("11", "idle actor with __slots__, RSS", note="with __slots__ (RSS)"),
            Line("11", "idle actor with __slots__, tracemalloc", note="with __slots__ (traced)"),
        ],
    )
