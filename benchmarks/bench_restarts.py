"""Do a hundred thousand restarts leave time per restart and memory as they were?"""

from __future__ import annotations

from .measure import Case, Line, Sample, Suite, figure
from .probes import probe
from .suites import Means


def suite(means: Means) -> Suite:
    tenth = means.size(10_000, 100)

    def time() -> Sample:
        found = probe("restarts", tenth)
        return Sample(
            found["last_wall"] / found["first_wall"],
            found["last_cpu"] / found["first_cpu"],
            {
                "first, each": (found["first_wall"] / tenth, "µs"),
                "last, each": (found["last_wall"] / tenth, "µs"),
            },
        )

    def memory() -> Sample:
        return figure(probe("restarts", tenth)["megabytes"])

    return Suite(
        [
            Case("last tenth / first tenth", time, unit="", most_rounds=5, ours=False),
            Case("grown since the first tenth", memory, unit="MB", most_rounds=3, ours=False),
        ],
        [
            Line("flat time", "last tenth / first tenth"),
            Line("flat memory", "grown since the first tenth"),
        ],
    )
