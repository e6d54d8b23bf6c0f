"""What does a branch of a fan-out cost, with its pool, its trail and its Result?"""

from __future__ import annotations

from . import floors, teams
from .measure import Case, Line, Sample, Suite, figure, on_trio
from .probes import probe
from .suites import Means


def suite(means: Means) -> Suite:
    few = means.size(1_000, 100)
    some = means.size(10_000, 200)
    many = means.size(100_000, 300)
    most = means.size(1_000_000, 400)

    def weighed() -> Sample:
        return figure(probe("branches", some)["bytes"])

    return Suite(
        [
            on_trio("trio task, channel", floors.waiting_task, some),
            Case("asyncio.gather, semaphore", lambda: teams.gathered(some)),
            on_trio("fan_out of 10^3", teams.fan_out_functions, few),
            on_trio("fan_out of 10^4", teams.fan_out_functions, some),
            on_trio("fan_out of 10^5", teams.fan_out_functions, many, most_rounds=3),
            on_trio("fan_out of 10^6", teams.fan_out_functions, most, most_rounds=1),
            means.peers.case("autogen-core", "fan_out", some),
            Case("branch that has ended", weighed, unit="B", most_rounds=3, ours=False),
        ],
        [
            Line("branch", "fan_out of 10^4", "trio task, channel"),
            Line("branch asyncio", "fan_out of 10^4", "asyncio.gather, semaphore"),
            Line("branch autogen", "autogen-core", "fan_out of 10^4"),
            Line("branch flat", "fan_out of 10^5", "fan_out of 10^4", note="10^5"),
            Line("branch flat", "fan_out of 10^6", "fan_out of 10^4", note="10^6"),
            Line("branch memory", "branch that has ended"),
        ],
        gc_matters=True,
    )
