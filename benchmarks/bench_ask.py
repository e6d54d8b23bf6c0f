"""How long does it take to ask an actor and have its answer?"""

from __future__ import annotations

from . import floors, workloads
from .measure import Line, Suite, on_trio
from .suites import Means


def suite(means: Means) -> Suite:
    questions = means.size(20_000, 1_000)
    return Suite(
        [
            on_trio("trio hand-off", floors.hand_off, questions),
            on_trio("ask def", workloads.ask, questions),
            on_trio("ask async def", workloads.ask_async, questions),
            on_trio("ask def from an actor", workloads.ask_from_actor, questions),
            on_trio("ask async def from an actor", workloads.ask_async_from_actor, questions),
            means.peers.case("erlang", "ask", means.size(300_000, 10_000)),
        ],
        [
            Line("4", "ask def", "trio hand-off"),
            Line("5", "ask async def from an actor", "trio hand-off"),
            Line("6", "ask async def", "trio hand-off"),
            Line("18 def", "ask def from an actor", "erlang"),
            Line("18 async", "ask async def from an actor", "erlang"),
        ],
    )
