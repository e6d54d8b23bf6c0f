"""Teams nest: a chain whose first link is a race, and whose second is a fan-out.

Prints:

    ok
    ## critic
    <BLANKLINE>
    fine: quick facts
    <BLANKLINE>
    ## editor
    <BLANKLINE>
    Quick facts.
    4 turns
"""

from __future__ import annotations

import trio

from standby import Chain, FanOut, Race


async def slow(task: str) -> str:
    """Is too late."""
    await trio.sleep(60)
    return "slow facts"


async def quick(task: str) -> str:
    """Is in time."""
    return "quick facts"


async def critic(text: str) -> str:
    """Judges."""
    return f"fine: {text}"


async def editor(text: str) -> str:
    """Polishes."""
    return f"{text.capitalize()}."


async def main() -> None:
    team = Chain([Race([slow, quick]), FanOut([critic, editor])])
    done = await team.ask("Facts!")
    print(done.status)
    print(done.output)
    print(done.usage.turns, "turns")


if __name__ == "__main__":
    trio.run(main)
