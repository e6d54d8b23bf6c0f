"""One seed, one order of tasks."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator

import trio._core._run as trio_run

_SWITCH = "_ALLOW_DETERMINISTIC_SCHEDULING"


@contextlib.contextmanager
def seeded(seed: int) -> Generator[None]:
    """Have trio choose the order of ready tasks from `seed`, and from nothing else.

    trio has no public name for this.  Only tests use it, and
    ``test_one_seed_gives_one_trace`` says if it no longer works.
    """
    allowed = getattr(trio_run, _SWITCH)
    drawn = trio_run._r  # pyright: ignore[reportPrivateUsage]
    setattr(trio_run, _SWITCH, True)
    trio_run._r = random.Random(seed)  # pyright: ignore[reportPrivateUsage]
    try:
        yield
    finally:
        setattr(trio_run, _SWITCH, allowed)
        trio_run._r = drawn  # pyright: ignore[reportPrivateUsage]
