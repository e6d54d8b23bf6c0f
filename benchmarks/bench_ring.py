"""How long does a message take from one actor to the next, around a ring of a thousand?"""

from __future__ import annotations

from . import workloads
from .measure import Line, Suite, on_trio
from .suites import Means


def suite(means: Means) -> Suite:
    many = means.size(1_000_000, 20_000)
    return Suite(
        [
            on_trio("hop", workloads.ring, means.size(100_000, 5_000)),
            means.peers.case("erlang", "ring", many),
            means.peers.case("go", "ring", many),
        ],
        [
            Line("16 erlang", "hop", "erlang"),
            Line("16 go", "hop", "go"),
        ],
    )
