"""Race: the first answer counts, and the others are cut.

Prints:

    quick here
    ['cancelled', 'ok']
"""

from __future__ import annotations

import trio

from standby import race


async def thorough(task: str) -> str:
    """Takes its time."""
    await trio.sleep(60)
    return "there"


async def quick(task: str) -> str:
    """Answers at once."""
    return "here"


async def main() -> None:
    done = await race([thorough, quick], "Where?")
    print(done.agent, done.output)
    print([step.status for step in done.steps])


if __name__ == "__main__":
    trio.run(main)
