"""The checks that run after every test, whatever it tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from standby.testing import z_checks


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Z1, Z4 and Z6: no task, actor, name or open ask outlives a test."""
    with z_checks():
        yield
