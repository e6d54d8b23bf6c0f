"""How long does it take to tell an actor something and have it handled?"""

from __future__ import annotations

from . import floors, workloads
from .measure import Line, Suite, on_trio
from .suites import Means


def suite(means: Means) -> Suite:
    messages = means.size(100_000, 5_000)
    many = means.size(1_000_000, 20_000)
    return Suite(
        [
            on_trio("trio memory channel", floors.channel, messages),
            on_trio("tell def", workloads.tell, messages),
            on_trio("tell async def", workloads.tell_async, messages),
            means.peers.case("asyncio", "tell", messages),
            means.peers.case("uvloop", "tell", messages),
            means.peers.case("erlang", "tell", many),
        ],
        [
            Line("1", "tell def", "trio memory channel"),
            Line("2", "tell async def", "trio memory channel"),
            Line("3", "asyncio", "tell def"),
            Line("3", "uvloop", "tell def", note="on uvloop"),
            Line("17", "tell def", "erlang"),
        ],
    )
