"""One agent, one task: the disposable form."""

from __future__ import annotations

from typing import Unpack

from standby_actors.result import Result

from .member import Member
from .options import Options
from .team import open_stage


async def run(agent: Member, task: str, **options: Unpack[Options]) -> Result:
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
    async with open_stage(**options) as stage:
        return await stage.turn(agent, task)
