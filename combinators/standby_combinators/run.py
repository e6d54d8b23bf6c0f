"""One agent, one task: the disposable form."""

from __future__ import annotations

from standby_actors.result import Result

from .pool import AgentLike, Spawner, SubagentPool


async def run(agent: AgentLike, task: str, *, spawn: Spawner) -> Result:
    """Spawn a subagent, ask it once, close it.

    Its lifetime is "task" whatever the agent wants.  When this returns, or is
    cancelled, the subagent is closed.

    Args:
        agent: who plays.
        task: what it is asked.
        spawn: how the subagent is opened.

    Raises:
        ModelError: there is no model to ask.
    """
    async with SubagentPool(lifetime="task", spawn=spawn) as pool:
        return await pool.turn(agent, task)
