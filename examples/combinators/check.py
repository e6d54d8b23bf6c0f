"""Check: a loop that ends when a command says that the work is right.

Prints:

    converged after 2: 2 lines
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import trio

from standby import Check, Loop


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = trio.Path(folder) / "poem.txt"

        async def work(task: str) -> str:
            """Stands in for a coder: is told what the check has said."""
            async with await file.open("a") as poem:
                await poem.write("a line\n")
            return "done"

        counts = (
            "import sys; n = len(open('poem.txt').readlines()); print(n, 'lines'); sys.exit(n < 2)"
        )
        check = Check([sys.executable, "-c", counts], cwd=Path(folder))
        done = await Loop([work, check], until=lambda step, _: step.value is True).ask("Two lines.")
        print(f"converged after {done.iterations}: {done.output.splitlines()[-1]}")


if __name__ == "__main__":
    trio.run(main)
