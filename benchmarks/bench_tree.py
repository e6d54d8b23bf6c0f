"""How long does a tree of a hundred thousand children take to start, and to stop in order?"""

from __future__ import annotations

from .measure import Case, Line, Suite, on_trio
from .suites import Means
from .supervised import populated_tree, specified_tree, start_of, stop_of

ROUNDS = 3


def suite(means: Means) -> Suite:
    children = means.size(100_000, 200)

    def erlang(workload: str) -> Case:
        return means.peers.case("erlang", workload, children, name=f"erlang {workload}")

    return Suite(
        [
            on_trio("start", start_of(specified_tree), children, most_rounds=ROUNDS),
            erlang("tree_start"),
            on_trio("stop", stop_of(specified_tree), children, most_rounds=ROUNDS),
            erlang("tree_stop"),
            on_trio("start one by one", start_of(populated_tree), children, most_rounds=ROUNDS),
            erlang("dynamic_start"),
            on_trio("stop of those", stop_of(populated_tree), children, most_rounds=ROUNDS),
            erlang("dynamic_stop"),
        ],
        [
            Line("14 start", "start", "erlang tree_start"),
            Line("14 stop", "stop", "erlang tree_stop"),
            Line("14 start", "start one by one", "erlang dynamic_start", "(dynamic)"),
            Line("14 stop", "stop of those", "erlang dynamic_stop", "(dynamic)"),
        ],
        gc_matters=True,
    )
