"""A combinator of your own: two talk in turns, and a third decides.

Prints:

    ok for
    ['pro: x', 'con: pro: x', 'for']
"""

from __future__ import annotations

from typing import Any

import trio

from standby import Chain, Member, Report, Stage, Team


class Debate(Team[Report]):
    """Two sides speak, and a judge is shown both."""

    name = "debate"

    def __init__(self, one: Member, other: Member, judge: Member) -> None:
        self.members: tuple[Any, ...] = (one, other, judge)

    async def play(self, task: str, stage: Stage, /) -> Report:
        """Stop at the first failure, as a chain does."""
        said = task
        steps = []
        for member in self.members:
            step = await stage.turn(member, said)
            steps.append(step)
            if not step.ok:
                break
            said = step.output
        return stage.report(steps[-1], steps)


async def pro(task: str) -> str:
    """Is for it."""
    return f"pro: {task}"


async def con(task: str) -> str:
    """Is against it."""
    return f"con: {task}"


async def judge(task: str) -> str:
    """Decides."""
    return "for"


async def main() -> None:
    done = await Debate(pro, con, judge).ask("x")
    print(done.status, done.output)
    print([step.output for step in done.steps])
    # It nests like any other.
    assert (await Chain([Debate(pro, con, judge), pro]).ask("x")).output == "pro: for"


if __name__ == "__main__":
    trio.run(main)
