"""How long does the garbage collector stop a program with a million actors alive?"""

from __future__ import annotations

from .measure import Case, Line, Sample, Suite
from .probes import probe
from .suites import Means


def _case(setting: str, count: int) -> Case:
    def run() -> Sample:
        found = probe("million", setting, count)
        return Sample(
            found["wall"],
            found["cpu"],
            {
                "spawn each": (found["spawn"] / 1e6, "µs"),
                "a message": (found["tell"] / 1e6, "µs"),
                "stop each": (found["stop"] / 1e6, "µs"),
                "pause while spawning": (found["spawn_pause"], "ms"),
                "pause at messages": (found["tell_pause"], "ms"),
                "pause while stopping": (found["stop_pause"], "ms"),
                "grown by": (found["megabytes"], "MB"),
            },
        )

    return Case(f"longest pause, {setting}", run, unit="ms", most_rounds=3, ours=False)


def suite(means: Means) -> Suite:
    actors = means.size(1_000_000, 10_000)
    return Suite(
        [_case("default", actors), _case("tuned", actors)],
        [
            Line("12", "longest pause, tuned", note="(tuned GC)"),
            Line("12", "longest pause, default", note="(default GC)"),
        ],
    )
