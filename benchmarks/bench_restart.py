"""How long does it take until a supervised actor that crashed lives again?

Every crash is caused by another actor once it has heard of the life before, as
at Erlang's; so nothing is gained by many crashes that wait in one mailbox.
"""

from __future__ import annotations

from . import floors
from .measure import Line, Suite, on_trio
from .suites import Means
from .supervised import AsyncCrasher, Crasher, HookedCrasher, Reader, restarting


def suite(means: Means) -> Suite:
    crashes = means.size(5_000, 200)
    return Suite(
        [
            on_trio("trio nursery, crash and reopening", floors.crash_and_reopen, crashes),
            on_trio("crash and restart, def", restarting(Crasher), crashes),
            on_trio("crash and restart, async def", restarting(AsyncCrasher), crashes),
            on_trio("crash and restart, with a start hook", restarting(HookedCrasher), crashes),
            on_trio("crash and restart, def, reported", restarting(Crasher, Reader()), crashes),
            means.peers.case("erlang", "restart", means.size(20_000, 200)),
        ],
        [
            Line("13", "crash and restart, def", "trio nursery, crash and reopening"),
            Line("13 erlang", "crash and restart, def", "erlang"),
            Line(
                "13",
                "crash and restart, async def",
                "trio nursery, crash and reopening",
                "(async def)",
            ),
            Line("13 erlang", "crash and restart, async def", "erlang", "(async def)"),
            Line(
                "13",
                "crash and restart, with a start hook",
                "trio nursery, crash and reopening",
                "(start hook)",
            ),
            Line("13 erlang", "crash and restart, with a start hook", "erlang", "(start hook)"),
        ],
    )
