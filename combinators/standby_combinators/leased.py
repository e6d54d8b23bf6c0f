"""A member that works while it holds what its task is about, so that no other writes there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import count
from typing import TypeAlias

import trio
from attrs import field, frozen

from standby_actors.result import Result, TurnError

from .checks import check_seconds
from .claims import Claim, ClaimRefused, Claims, NotGranted
from .member import Asked, member_of, name_of
from .team import Stage, Team
from .trail import Report

KeysOf: TypeAlias = Callable[[str], Iterable[str]]
"""What a task is about: the keys, or paths, that nobody else may hold meanwhile."""

_numbers = count(1)


def _as_keys(keys: KeysOf | Iterable[str]) -> KeysOf:
    if isinstance(keys, str):
        raise TypeError(f"keys are several texts, or a function of the task, not {keys!r}")
    if callable(keys):
        return keys
    fixed = tuple(keys)
    return lambda task: fixed


@frozen(eq=False)
class Leased(Team[Report]):
    """`member`, who is asked only while it holds what its task is about.

    It waits for its turn, in the order of asking; the claims are given up when its turn
    has ended, however that was: it failed, crashed, was stopped or called off.  What it
    cannot get is a turn that was refused.

    ``fan_out([Leased(coder, claims, ["src"]), Leased(writer, claims, ["docs"])], task)``

    Args:
        member: who.
        claims: what all of them share: often :class:`PathClaims`.
        keys: what it holds, all or nothing; a function makes them of the task.
        seconds: to wait for them at most; None for as long as it takes.
        name, description: for whoever chooses among members; the member's own unless given.
    """

    member: Asked = field(converter=member_of)
    claims: Claims
    keys: KeysOf = field(converter=_as_keys)
    seconds: float | None = field(default=None, kw_only=True, validator=check_seconds)
    name: str = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", name_of(self.member))
        if not self.description:
            object.__setattr__(self, "description", getattr(self.member, "description", ""))

    async def play(self, task: str, stage: Stage, /) -> Report:
        """Wait for the claims, then ask the member."""
        signal = stage.signal
        if signal is not None and signal.is_set:
            return self._ended(stage, stage.unstarted(self.member))
        # Each turn holds for itself, also two of one member.
        by = f"{self.name}@{next(_numbers)}"
        granted: tuple[Claim, ...] | ClaimRefused | None = None
        waiting = trio.CancelScope()
        calling = nullcontext() if signal is None else signal.calling(waiting.cancel)
        try:
            with calling, waiting:
                keys = tuple(self.keys(task))
                granted = await self.claims.acquire(by, *keys, seconds=self.seconds)
            if granted is None:
                result = stage.unstarted(self.member)
            elif isinstance(granted, ClaimRefused):
                why = TurnError("workspace_denied", str(NotGranted(by, granted)), True)
                result = stage.refuse(self.member, why)
            else:
                self.claims.keep(by)
                result = await stage.turn(self.member, task)
        finally:
            self.claims.release_all(by)
        return self._ended(stage, result)

    def _ended(self, stage: Stage, result: Result) -> Report:
        return stage.report(result, [result])
