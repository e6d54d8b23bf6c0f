"""Leases: writers in one folder, of whom no two are ever in the same part of it.

Prints:

    3 writers, at most 2 at once, never two in one place
"""

from __future__ import annotations

import trio

from standby import Leased, PathClaims, fan_out

at_work: list[str] = []
most = 0


async def writer(path: str) -> str:
    """Stands in for an Agent with tools that write below `path`."""
    global most
    at_work.append(path)
    most = max(most, len(at_work))
    # `src/a.py` is in `src`, and waits for it, or the reverse; nobody minds `docs`.
    assert sum(each.startswith("src") for each in at_work) <= 1
    await trio.sleep(0.05)
    at_work.remove(path)
    return path


async def main() -> None:
    # What a task is about: here the task itself is a path.
    careful = Leased(writer, PathClaims("."), lambda task: [task])
    done = await fan_out(careful, ["src", "src/a.py", "docs"])
    print(len(done.steps), "writers, at most", most, "at once, never two in one place")


if __name__ == "__main__":
    trio.run(main)
