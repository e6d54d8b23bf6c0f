"""What tests of supervision share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet_reports() -> Iterator[None]:
    """Log no report: a search makes a hundred thousand of them, which nobody reads."""
    logger = logging.getLogger("standby.supervision")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)
