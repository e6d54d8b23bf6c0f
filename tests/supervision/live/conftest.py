"""A store in memory and a workspace over it, both checked at the end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from trio.testing import MockClock

from standby_supervision.runs import Run, Workspace
from standby_supervision.store import Store, open_store

from .invariant import checked_workspace


@pytest.fixture
def clock() -> MockClock:
    """Virtual time.  It counts only for tests that ask for it by name, so all do."""
    return MockClock(autojump_threshold=0)


@pytest.fixture
async def store() -> AsyncGenerator[Store]:
    """In memory, and in one thread with the test."""
    async with open_store(None, inline=True) as opened:
        yield opened


@pytest.fixture
async def workspace(store: Store, tmp_path: Path) -> AsyncGenerator[Workspace]:
    """Of one folder; its records are checked when it is left."""
    async with checked_workspace(tmp_path, store) as opened:
        yield opened


@pytest.fixture
async def run(workspace: Workspace) -> AsyncGenerator[Run]:
    """The run "r" of it."""
    async with workspace.open_run("nightly", id="r") as opened:
        yield opened
