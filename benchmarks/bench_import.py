"""How long does `import standby` take, beside `import trio`?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from .measure import Case, Line, Sample, Suite
from .suites import Means

ROOT = Path(__file__).parent.parent
COMPILED = Path(__file__).parent / "out" / "compiled"
"""Bytecode of both, kept here: where Python was told to keep none (as in many
containers), we would pay for compiling what pip has compiled for trio."""

PROGRAM = """
import time
cpu = time.process_time(); wall = time.perf_counter()
import {module}
print([time.perf_counter() - wall, time.process_time() - cpu])
"""


def _import(module: str) -> Sample:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(COMPILED)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
    )
    wall, cpu = msgspec.json.decode(done.stdout, type=tuple[float, float])
    return Sample(wall, cpu)


def _case(module: str) -> Case:
    def run() -> Sample:
        _import(module)  # compiles what has changed since, and warms the disk's cache
        return _import(module)

    return Case(f"import {module}", run, ours=False)


def suite(means: Means) -> Suite:
    return Suite(
        [_case("trio"), _case("standby")],
        [Line("import", "import standby", "import trio")],
    )
