"""Vote: all are asked the same, and what more than half say counts.

Prints:

    yes {'yes': 2, 'no': 1}
    undecided {'yes': 1, 'no': 1}
"""

from __future__ import annotations

import trio

from standby import vote


async def bold(task: str) -> str:
    """Says yes."""
    return "It will hold.\nVOTE: yes"


async def careful(task: str) -> str:
    """Says no."""
    return "It may not.\nVOTE: no"


async def main() -> None:
    for voters in ([bold, careful, bold], [bold, careful]):
        done = await vote(voters, "Shall we cross the bridge?")
        print(done.choice or "undecided", dict(done.counts))


if __name__ == "__main__":
    trio.run(main)
