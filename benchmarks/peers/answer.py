"""What every peer written in Python needs: its arguments, and how to print its answer.

Of ours it imports `watch` alone: the peers' environment has none of our dependencies.
"""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from ..watch import Watch, resident


def answer(operations: int, watch: Watch) -> NoReturn:
    """Print what `operations` took, and leave at once."""
    _leave({"operations": operations, "wall": watch.wall, "cpu": watch.cpu})


def answer_bytes(actors: int, before: int) -> NoReturn:
    """Print by how much the process has grown per actor since it had `before` bytes."""
    grown = (resident() - before) / actors
    _leave({"operations": actors, "wall": 0.0, "cpu": 0.0, "figure": grown})


def check(done: object, expected: object) -> None:
    """Fail unless the work was really done: `done` is what came of it."""
    if done != expected:
        raise SystemExit(f"wrong result: {done!r} instead of {expected!r}")


def _leave(line: dict[str, float]) -> NoReturn:
    # Some of these libraries never end by themselves: threads and servers wait for more.
    print(json.dumps(line))
    sys.stdout.flush()
    os._exit(0)
