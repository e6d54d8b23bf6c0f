"""One agent, one task: the disposable form."""

from __future__ import annotations

from typing import Unpack

from standby_actors.result import Result

from .pool import AgentLike, Options, SubagentPool


async def run(agent: AgentLike, task: str, **options: Unpack[Options]) -> Result:
    """Spawn a subagent, ask it once, close it.

    Its lifetime is "task" whatever the agent wants.  When this returns, or is
    cancelled, the subagent is closed.

    Args:
        agent: who plays.
        task: what it is asked.
        options: about the subagent; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
    """
    options["lifetime"] = "task"
    async with SubagentPool(**options) as pool:
        return await pool.turn(agent, task)
