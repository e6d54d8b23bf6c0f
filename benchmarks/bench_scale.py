"""Does a child cost more among a million than among a hundred thousand?"""

from __future__ import annotations

from . import workloads
from .measure import Line, Suite, on_trio
from .suites import Means


def suite(means: Means) -> Suite:
    few, many = means.size(100_000, 1_000), means.size(1_000_000, 10_000)
    return Suite(
        [
            on_trio("a child of the few", workloads.fan_out, few, most_rounds=3),
            on_trio("a child of the many", workloads.fan_out, many, most_rounds=3),
        ],
        [Line("10", "a child of the many", "a child of the few")],
        gc_matters=True,
    )
