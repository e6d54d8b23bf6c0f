"""The log of what actors did starts empty."""

from __future__ import annotations

import pytest

from tests.actors.workers import LOG


@pytest.fixture(autouse=True)
def empty_log() -> None:
    LOG.clear()
