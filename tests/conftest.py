"""The checks that run after every test, whatever it tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest

from standby.testing import z_checks

# A shell that starts us in the background has Ctrl-C ignored, and what is ignored
# stays so in every program that we start.  Those that are about Ctrl-C must get it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Z1, Z4 and Z6: no task, actor, name or open ask outlives a test."""
    # Z6 looks at every object that the garbage collector knows.  The libraries that tests
    # import are two million of them, which no test has made: so what is there before the
    # test is set aside, and what a test before has dropped is collected first.
    gc.collect()
    gc.freeze()
    with z_checks():
        yield
