"""The watch and the scales: what times a block, and how large the process is."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Times its ``with`` block, in seconds, on both clocks; entered once."""

    __slots__ = ("cpu", "wall")

    def __init__(self) -> None:
        self.wall = 0.0
        self.cpu = 0.0

    def __enter__(self) -> Watch:
        self.cpu = time.process_time()
        self.wall = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self.wall
        self.cpu = time.process_time() - self.cpu


def resident() -> int:
    """Return how many bytes of this process are in memory now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
