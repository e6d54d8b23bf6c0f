"""The benchmarks beside this file: found by their names, asked for their suites."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import attrs

from .measure import Suite
from .peers.runner import Peers


@attrs.frozen
class Means:
    """What a benchmark is given to build its suite: how large, and the peers."""

    smallest: bool
    peers: Peers

    def size(self, full: int, smallest: int) -> int:
        return smallest if self.smallest else full


@attrs.frozen
class Benchmark:
    """One ``bench_*.py``: its name, its question, and its suite once it has its means."""

    name: str
    question: str
    suite: Callable[[Means], Suite]


def find(only: Sequence[str] = ()) -> list[Benchmark]:
    """Return the benchmarks whose names contain one of `only`; all if there is none.

    Raises:
        LookupError: a name in `only` is in no benchmark's name.
    """
    here = str(Path(__file__).parent)
    names = sorted(m.name for m in pkgutil.iter_modules([here]) if m.name.startswith("bench_"))
    for word in only:
        if not any(word in name for name in names):
            raise LookupError(f"no benchmark is called {word!r}; there are {', '.join(names)}")
    chosen = [name for name in names if not only or any(word in name for word in only)]
    return [_benchmark(importlib.import_module(f".{name}", __package__)) for name in chosen]


def _benchmark(module: ModuleType) -> Benchmark:
    question = (module.__doc__ or "").partition("\n")[0]
    return Benchmark(module.__name__.rpartition(".")[2], question, module.suite)
