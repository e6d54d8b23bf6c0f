"""The direction of imports is a promise; these tests keep it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.sources import LAYERS, modules, parsed

MODULES = [pytest.param(name, file, id=name) for name, file in modules()]


def imported(module: ast.Module) -> set[str]:
    """The top-level packages that `module` imports by name, wherever in it and for whatever use."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize(("name", "file"), MODULES)
def test_imports_point_downwards(name: str, file: Path) -> None:
    above = LAYERS[LAYERS.index(name.partition(".")[0]) + 1 :]
    assert not imported(parsed(file)).intersection(above)


@pytest.mark.parametrize(("name", "file"), MODULES)
def test_a_package_imports_itself_relatively(name: str, file: Path) -> None:
    assert name.partition(".")[0] not in imported(parsed(file))
