"""How many times better is it than other actor libraries at the same work?"""

from __future__ import annotations

from . import workloads
from .measure import Case, Line, Sample, Suite, figure, on_trio
from .peers.runner import Peers
from .probes import probe
from .suites import Means

LIBRARIES = {
    "pykka": "21",
    "xoscar": "22",
    "autogen-core": "23",
    "async-pykka": "24",
    "everything-is-an-actor": "24",
    "otpylib": "24",
}
"""The libraries, each with the number of its line."""

FULL = {"tell": 20_000, "ask": 5_000, "fan_out": 3_000}
SMALLEST = {"tell": 1_000, "ask": 300, "fan_out": 100}
SLOW = ("xoscar", "autogen-core")
"""A hundred times slower than the others: they get a quarter of the work."""


def _peer(peers: Peers, library: str, workload: str, operations: int) -> Case:
    case = peers.case(library, workload, operations)
    return Case(f"{workload}: {library}", case.run, most_rounds=3, ours=False)


def suite(means: Means) -> Suite:
    sizes = SMALLEST if means.smallest else FULL
    actors = means.size(100_000, 2_000)
    threads = means.size(2_000, 50)

    def weigh() -> Sample:
        return figure(probe("memory", "actor", "rss", actors)["bytes"])

    def weigh_threads() -> Sample:
        return means.peers.case("pykka", "memory", threads, unit="B").run()

    cases = [
        on_trio("tell: standby", workloads.tell, 5 * sizes["tell"]),
        on_trio("ask: standby", workloads.ask, sizes["ask"]),
        on_trio("fan_out: standby", workloads.fan_out, sizes["fan_out"]),
        Case("memory: standby", weigh, unit="B", most_rounds=3, ours=False),
        Case("memory: pykka", weigh_threads, unit="B", most_rounds=3, ours=False),
    ]
    lines = [Line("21 memory", "memory: pykka", "memory: standby")]
    for library, line in LIBRARIES.items():
        for workload, word in (("tell", "tell"), ("ask", "ask"), ("fan_out", "fan-out")):
            operations = sizes[workload] // (4 if library in SLOW else 1)
            cases.append(_peer(means.peers, library, workload, operations))
            note = library if line == "24" else ""
            top, bottom = f"{workload}: {library}", f"{workload}: standby"
            lines.append(Line(f"{line} {word}", top, bottom, note))
    return Suite(cases, lines)
