"""How long does one actor of a skynet take, a tree of actors down to a million leaves?"""

from __future__ import annotations

import functools

from . import workloads
from .measure import Case, Line, Suite
from .suites import Means


def suite(means: Means) -> Suite:
    leaves = means.size(1_000_000, 1_000)
    return Suite(
        [
            Case("an actor", functools.partial(workloads.skynet, leaves), most_rounds=3),
            means.peers.case("erlang", "skynet", leaves),
            means.peers.case("go", "skynet", leaves),
        ],
        [
            Line("20 erlang", "an actor", "erlang"),
            Line("20 go", "an actor", "go"),
        ],
        gc_matters=True,
    )
