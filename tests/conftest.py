"""The checks that run after every test, whatever it tests."""

from __future__ import annotations

import gc
import os
import secrets
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from standby.testing import z_checks

# In the environment of every test there is a secret that nobody has named: whatever a
# test prints, logs, raises or writes, it must not be in there.
CANARY = f"canary-{secrets.token_hex(16)}"
os.environ["STANDBY_TEST_SECRET_KEY"] = CANARY
_MOST_BYTES = 1_000_000

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test whose output, log or error has the secret of the environment in it."""
    report: pytest.TestReport = yield
    told = [f"{title}: {content}" for title, content in report.sections]
    told.append(str(report.longrepr or ""))
    if call.when == "call":
        told += _written(getattr(item, "funcargs", {}).get("tmp_path"))
    leaks = [each for each in told if CANARY in each]
    if leaks:
        report.outcome = "failed"
        report.longrepr = "the secret of the environment is in:\n" + "\n".join(
            each.replace(CANARY, "<the secret>")[:2_000] for each in leaks
        )
    return report


def _written(folder: Any) -> list[str]:
    """The files that a test has left in its folder, as texts."""
    if not isinstance(folder, Path):
        return []
    texts: list[str] = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MOST_BYTES:
            try:
                texts.append(f"{path.name}: {path.read_bytes().decode(errors='replace')}")
            except OSError:
                continue
    return texts
