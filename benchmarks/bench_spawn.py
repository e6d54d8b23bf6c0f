"""How long does it take to spawn an actor and stop it?"""

from __future__ import annotations

from . import floors, workloads
from .measure import Line, Suite, on_trio
from .suites import Means


def suite(means: Means) -> Suite:
    actors = means.size(10_000, 500)
    return Suite(
        [
            on_trio("trio start_soon", floors.start_soon, actors),
            on_trio("spawn and stop", workloads.spawn_and_stop, actors),
        ],
        [Line("7", "spawn and stop", "trio start_soon")],
        gc_matters=True,
    )
