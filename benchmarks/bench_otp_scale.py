"""Do very many children of one supervisor take about as long each as few do?

Cases of OTP's own suite, with its numbers and its bounds:
``simple_one_for_one_scale_many_temporary_children`` (77) and
``scale_start_stop_many_children`` (88).
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from .measure import Case, Line, Suite
from .suites import Means
from .supervised import scaling, start_and_terminate, start_of, stop_of, terminate_temporary
from .watch import Watch


def suite(means: Means) -> Suite:
    temporary = means.size(10_000, 1_000), means.size(1_000, 100)
    many = means.size(100_000, 1_000), means.size(1_000, 100)
    start, stop = start_of(start_and_terminate), stop_of(start_and_terminate)

    def case(name: str, workload: Callable[[int, Watch], Awaitable[None]], *of: int) -> Case:
        run = functools.partial(scaling, workload, *of)
        return Case(name, run, unit="", most_rounds=3)

    return Suite(
        [
            case("terminate temporary", terminate_temporary, *temporary),
            case("start", start, *many),
            case("terminate", stop, *many),
        ],
        [
            Line("otp 77", "terminate temporary"),
            Line("otp 88 start", "start"),
            Line("otp 88 stop", "terminate"),
        ],
    )
