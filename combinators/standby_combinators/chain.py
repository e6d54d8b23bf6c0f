"""One after the other: what each says is what the next is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from attrs import field, frozen

from standby_actors.result import Result

from .member import Asked, Member, members_of
from .options import Options
from .team import Stage, Team
from .trail import Report


@frozen(eq=False)
class Chain(Team[Report]):
    """:func:`chain` as a member of a team."""

    members: tuple[Asked, ...] = field(converter=members_of)
    carry_request: bool = field(default=False, kw_only=True)
    name: str = field(default="chain", kw_only=True)
    description: str = field(default="", kw_only=True)

    async def play(self, task: str, stage: Stage, /) -> Report:
        """Ask each in turn; the first that fails ends it."""
        steps: list[Result] = []
        asked = task
        for member in self.members:
            result = await stage.turn(member, asked)
            steps.append(result)
            if not result.ok:
                break
            asked = with_request(task, result.output) if self.carry_request else result.output
        return stage.report(steps[-1], steps)


async def chain(
    members: Sequence[Member],
    task: str,
    *,
    carry_request: bool = False,
    **options: Unpack[Options],
) -> Report:
    """Ask the first `task`, and each other what the one before it has said.

    The steps of the Report are the turns that were played; the last decides.  One
    that fails, or a signal, ends the chain.  A member that stands in it twice
    remembers, if its lifetime lets it.

    Args:
        members: who is asked, at least one.
        task: what the first is asked.
        carry_request: the others are told `task` as well, before what was said; else
            what was said is all they are asked.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member.
    """
    return await Chain(members, carry_request=carry_request).ask(task, **options)


def with_request(request: str, said: str) -> str:
    """`said` with the request that it is about before it.

    Examples:
        >>> print(with_request("Count the files.", "There are 3."))
        ## Request
        <BLANKLINE>
        Count the files.
        <BLANKLINE>
        ## What was said
        <BLANKLINE>
        There are 3.
    """
    return f"## Request\n\n{request}\n\n## What was said\n\n{said}"
