"""How long does it take to stop one actor among a hundred thousand?"""

from __future__ import annotations

import functools

from . import workloads
from .measure import Case, Line, Suite
from .suites import Means


def suite(means: Means) -> Suite:
    actors = means.size(100_000, 1_000)
    run = functools.partial(workloads.stop_one, actors)
    return Suite(
        [
            Case("stop one, median", run, most_rounds=5),
            means.peers.case("erlang", "stop_one", actors),
        ],
        [Line("15", "stop one, median", "erlang")],
        gc_matters=True,
    )
