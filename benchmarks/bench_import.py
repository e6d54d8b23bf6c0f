"""How long does `import standby` take, beside `import trio`?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from .measure import Case, Line, Sample, Suite
from .suites import Means

ROOT = Path(__file__).parent.parent
PROGRAM = """
import time
cpu = time.process_time(); wall = time.perf_counter()
import {module}
print([time.perf_counter() - wall, time.process_time() - cpu])
"""


def _case(module: str) -> Case:
    def run() -> Sample:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(module=module)],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        wall, cpu = msgspec.json.decode(done.stdout, type=tuple[float, float])
        return Sample(wall, cpu)

    return Case(f"import {module}", run, ours=False)


def suite(means: Means) -> Suite:
    return Suite(
        [_case("trio"), _case("standby")],
        [Line("import", "import standby", "import trio")],
    )
