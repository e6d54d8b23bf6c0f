"""Chain: what each says is what the next is asked.

Prints:

    ok The moon is far away!
    ['find', 'polish']
"""

from __future__ import annotations

import trio

from standby import chain


async def find(question: str) -> str:
    """Stands in for a scout with a model."""
    return "the moon is far away"


async def polish(draft: str) -> str:
    """Stands in for a writer."""
    return f"{draft.capitalize()}!"


async def main() -> None:
    done = await chain([find, polish], "Where is the moon?")
    print(done.status, done.output)
    print([step.agent for step in done.steps])


if __name__ == "__main__":
    trio.run(main)
