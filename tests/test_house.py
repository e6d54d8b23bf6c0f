"""Rules of the house that no linter knows; these tests keep them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.sources import modules, parsed

MODULES = [pytest.param(name, file, id=name) for name, file in modules()]
WIDE = {"Exception", "BaseException"}


def caught(handler: ast.ExceptHandler) -> set[str]:
    """The last names of the types that `handler` catches; everything, if it names none."""
    if handler.type is None:
        return {"BaseException"}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind).rpartition(".")[2] for kind in types}


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def handlers(module: ast.Module) -> list[ast.ExceptHandler]:
    return [node for node in ast.walk(module) if isinstance(node, ast.ExceptHandler)]


@pytest.mark.parametrize(("name", "file"), MODULES)
def test_a_module_says_what_it_is(name: str, file: Path) -> None:
    assert ast.get_docstring(parsed(file)), f"{name} has no docstring"


@pytest.mark.parametrize(("name", "file"), MODULES)
def test_a_wide_except_gives_its_reason(name: str, file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    for handler in handlers(parsed(file)):
        if caught(handler) & WIDE:
            # A comment at its end, or one that ends or starts on a line next to it.
            around = lines[handler.lineno - 2 : handler.body[0].lineno]
            assert any("#" in line for line in around), f"{name}:{handler.lineno} gives no reason"


@pytest.mark.parametrize(("name", "file"), MODULES)
def test_a_cancellation_that_is_caught_is_raised_again(name: str, file: Path) -> None:
    for handler in handlers(parsed(file)):
        if "Cancelled" in caught(handler):
            raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
            assert raises, f"{name}:{handler.lineno}"


def test_one_module_at_most_reads_a_private_part_of_trio() -> None:
    readers: set[str] = set()
    for name, file in modules():
        for node in ast.walk(parsed(file)):
            match node:
                case ast.Attribute(value=ast.Name(id="trio"), attr=attr) if private(attr):
                    readers.add(f"{name} reads trio.{attr}")
                case ast.ImportFrom(module=str(module)) if module.startswith("trio._"):
                    readers.add(f"{name} imports {module}")
                case ast.Attribute(attr="_cancel_status") | ast.Constant(value="_cancel_status"):
                    readers.add(f"{name} reads _cancel_status")
                case _:
                    pass
    assert len(readers) <= 1, sorted(readers)
