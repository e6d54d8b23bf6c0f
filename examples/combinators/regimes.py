"""Two regimes on one workflow: a team that remembers, and fresh eyes.

Prints:

    workflow: 2 subagents, 6 turns, 36 tokens read
    task: 6 subagents, 6 turns, 18 tokens read
"""

from __future__ import annotations

import trio

from standby import Agent, Lifetime, ScriptedSession, Usage, loop
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


async def main() -> None:
    regimes: tuple[Lifetime, ...] = ("workflow", "task")
    for lifetime in regimes:
        done = await loop(
            [coder, reviewer],
            "write the parser",
            max_iterations=3,
            lifetime=lifetime,
            model=Model(),
        )
        spawned = len({step.subagent for step in done.steps})
        read = done.usage.input_tokens
        print(f"{lifetime}: {spawned} subagents, {done.usage.turns} turns, {read} tokens read")


if __name__ == "__main__":
    trio.run(main)
