"""How long does a child take whose turn really waits once in trio?"""

from __future__ import annotations

from . import floors, workloads
from .measure import Line, Suite, on_trio
from .suites import Means


def suite(means: Means) -> Suite:
    children = means.size(5_000, 300)
    return Suite(
        [
            on_trio("trio task that waits, channel", floors.waiting_task, children),
            on_trio("trio task that waits, list", floors.waiting_task_list, children),
            on_trio("child that waits", workloads.fan_out_waiting, children),
        ],
        # On a channel: a turn of ours hands in its result as a message, too.
        [Line("9", "child that waits", "trio task that waits, channel")],
        gc_matters=True,
    )
