"""Reduce: one answer out of many, with what failed shown.

Prints:

    Sum up. | 1. read | 2. read (failed)
"""

from __future__ import annotations

import trio

from standby import fan_out, reduce


async def read(name: str) -> str:
    """Stands in for a scout."""
    if name == "b":
        raise OSError("unreadable")
    return f"{name} is fine"


async def write(task: str) -> str:
    """Stands in for a writer: says which sections it was shown."""
    lines = [line.removeprefix("## ") for line in task.splitlines()]
    return " | ".join(line for line in lines if line[:1].isdigit() or line == "Sum up.")


async def main() -> None:
    done = await fan_out(read, ["a", "b"])
    print((await reduce(write, done.steps, "Sum up.")).output)


if __name__ == "__main__":
    trio.run(main)
