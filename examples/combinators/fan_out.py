"""Fan-out: many tasks side by side, in order; a failure keeps its place.

Prints:

    ok ALPHA
    crashed KeyError: 'beta'
    ok GAMMA
    as they land: [2, 0]
"""

from __future__ import annotations

import trio

from standby import fan_out, open_fan_out


async def read(name: str) -> str:
    """Stands in for a scout that reads one file."""
    await trio.sleep(0.03 if name == "alpha" else 0.0)
    if name == "beta":
        raise KeyError(name)
    return name.upper()


async def main() -> None:
    done = await fan_out(read, ["alpha", "beta", "gamma"])
    for step in done.steps:
        print(step.status, step.output or (step.error and step.error.message))

    async with open_fan_out(read, ["alpha", "beta", "gamma"]) as landing:
        print("as they land:", [place async for place, result in landing if result.ok])


if __name__ == "__main__":
    trio.run(main)
