"""How long does a child take that is spawned, takes one turn, hands in its result and stops?"""

from __future__ import annotations

from . import floors, workloads
from .measure import Line, Suite, on_trio
from .suites import Means


def suite(means: Means) -> Suite:
    children = means.size(10_000, 500)
    return Suite(
        [
            on_trio("trio start_soon", floors.start_soon, children),
            on_trio("fan-out child", workloads.fan_out, children),
            means.peers.case("erlang", "fan_out", means.size(100_000, 1_000)),
        ],
        [
            Line("8", "fan-out child", "trio start_soon"),
            Line("19", "fan-out child", "erlang"),
        ],
        gc_matters=True,
    )
