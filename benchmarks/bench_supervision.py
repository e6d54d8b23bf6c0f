"""What does supervision add to a tell and to an ask?"""

from __future__ import annotations

import functools

from .measure import Case, Line, Suite
from .suites import Means
from .supervised import ask_overhead, tell_overhead


def suite(means: Means) -> Suite:
    messages, questions = means.size(400_000, 20_000), means.size(80_000, 2_000)
    return Suite(
        [
            Case("tell", functools.partial(tell_overhead, messages), unit="%"),
            Case("ask", functools.partial(ask_overhead, questions), unit="%"),
        ],
        [Line("supervised tell", "tell"), Line("supervised ask", "ask")],
    )
