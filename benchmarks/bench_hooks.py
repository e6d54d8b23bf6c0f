"""What do the hooks of the event stream cost a message when nobody listens?

Measured against the same core with the hooks cut out of its source: a copy of
the package, made for the occasion, without any ``if … .listeners``.
"""

from __future__ import annotations

import ast
import importlib
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

import standby_actors

from .floors import BURST
from .measure import Case, Line, Suite, Unmeasured, on_trio
from .suites import Means
from .watch import Watch

COPY = "standby_actors_without_hooks"
SOURCES = Path(standby_actors.__file__).parent


class _CutHooks(ast.NodeTransformer):
    """Removes what is done only where somebody listens."""

    def __init__(self) -> None:
        self.cut = 0

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if not _asks_for_listeners(node.test):
            return node
        self.cut += 1
        return ast.copy_location(ast.Pass(), node)


def _asks_for_listeners(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "listeners" for n in ast.walk(test))


def without_hooks() -> Any:
    """Return a copy of the core that has no hooks.

    Raises:
        Unmeasured: no hook was found, so that nothing could be compared.
    """
    if COPY in sys.modules:
        return sys.modules[COPY]
    hooks = _CutHooks()
    with tempfile.TemporaryDirectory() as directory:
        for path in SOURCES.rglob("*.py"):
            copy = Path(directory, COPY, path.relative_to(SOURCES))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(ast.unparse(hooks.visit(ast.parse(path.read_text()))))
        if not hooks.cut:
            raise Unmeasured("no hook was found in the sources")
        sys.path.insert(0, directory)
        try:
            return importlib.import_module(COPY)
        finally:
            sys.path.remove(directory)


def _tell(core: Callable[[], Any]) -> Callable[[int, Watch], Awaitable[None]]:
    async def tell(messages: int, watch: Watch) -> None:
        total = 0

        def add(message: int) -> None:
            nonlocal total
            total += message

        async with core().open_nursery() as nursery:
            ref = nursery.spawn(add, capacity=messages)
            await ref.ask(0)
            with watch:
                for start in range(0, messages, BURST):
                    for number in range(start, start + BURST):
                        ref.tell(number)
                    await trio.lowlevel.checkpoint()
                await ref.ask(0)
            assert total == messages * (messages - 1) // 2

    return tell


def _case(name: str, core: Callable[[], Any], messages: int) -> Case:
    return on_trio(name, _tell(core), messages)


def suite(means: Means) -> Suite:
    messages = means.size(100_000, 5_000)
    return Suite(
        [
            _case("tell, hooks in place", lambda: standby_actors, messages),
            _case("tell, hooks cut out", without_hooks, messages),
        ],
        [Line("26", "tell, hooks in place", "tell, hooks cut out")],
    )
