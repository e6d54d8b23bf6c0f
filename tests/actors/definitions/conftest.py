"""Each test has a user and a project of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from .folders import Folders
from .folders import folders as new_folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return new_folders(tmp_path)
