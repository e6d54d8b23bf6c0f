"""Where the sources under test are: the checkout, or the wheel when the sources are away."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAYERS = ["standby_actors", "standby_supervision", "standby_combinators", "standby"]
"""The packages, lowest first: each may import those before it."""


def folder(package: str) -> Path:
    """Where `package` is imported from."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of ours, as its dotted name and its file."""
    for package in LAYERS:
        top = folder(package)
        for file in sorted(top.rglob("*.py")):
            parts = file.relative_to(top).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")]), file


def parsed(file: Path) -> ast.Module:
    """The syntax tree of `file`."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
