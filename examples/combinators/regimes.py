"""Two regimes on one workflow: a team that remembers, and fresh eyes; and one who remembers alone.

Prints:

    workflow: 2 subagents, 6 turns, 36 tokens read, $0.0036
    task: 6 subagents, 6 turns, 18 tokens read, $0.0018
    as each says: 4 subagents, 6 turns, 27 tokens read, $0.0027
"""

from __future__ import annotations

import trio

from standby import Agent, Lifetime, Price, ScriptedSession, Usage, loop
from standby_actors.sessions.scripted import Reply


class Model:
    """Stands in for a model: like all of them, it reads the whole conversation at each turn."""

    def session(self, agent: Agent, /) -> ScriptedSession:
        heard = 0

        def answer(task: str) -> Reply:
            nonlocal heard
            heard += len(task.split())
            return Reply("three words each", usage=Usage(requests=1, input_tokens=heard))

        return ScriptedSession(answer)


coder = Agent("coder", "Write it.")
reviewer = Agent("reviewer", "Judge it.")
prices = {"scripted": Price(input=100.0, output=0.0)}  # dollars for a million tokens


async def show(regime: str, lifetime: Lifetime | None, reviewer: Agent) -> None:
    done = await loop(
        [coder, reviewer],
        "write the parser",
        max_iterations=3,
        lifetime=lifetime,
        model=Model(),
        prices=prices,
    )
    spawned, usage = len({step.subagent for step in done.steps}), done.usage
    print(
        f"{regime}: {spawned} subagents, {usage.turns} turns,"
        f" {usage.input_tokens} tokens read, ${usage.cost_usd:.4f}"
    )


async def main() -> None:
    await show("workflow", "workflow", reviewer)
    await show("task", "task", reviewer)
    await show("as each says", None, Agent("reviewer", "Judge it.", lifetime="workflow"))


if __name__ == "__main__":
    trio.run(main)
