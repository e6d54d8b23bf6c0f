"""Somebody who is alive already, as a pool plays a turn of them: asked, bounded, and not closed."""

from __future__ import annotations

import math

import trio
from attrs import define, field

from standby_actors.budget import Budget, Refusal
from standby_actors.result import ErrorKind, Result, TurnError, failed
from standby_actors.usage import NOTHING, Usage

from .member import Askable, answer_of, name_of, spent_by


@define(eq=False)
class Lent:
    """One turn of a member that was handed in, alive: bounded and paid for as others are."""

    member: Askable
    timeout: float | None = None
    budget: Budget | None = None
    """What it is paid from, unless the member pays from that, or from a budget below, itself."""
    _began: float | None = field(init=False, default=None)

    @property
    def name(self) -> str:
        """Of the agent, or whoever it is."""
        return name_of(self.member)

    @property
    def id(self) -> str:
        """As in "scout#2" or "office/archive"; its name, if it has neither."""
        for attribute in ("id", "path"):
            said = getattr(self.member, attribute, None)
            if isinstance(said, str) and said:
                return said
        return self.name

    @property
    def usage(self) -> Usage:
        """All that it says it has spent; of one that says nothing, that it was asked, and when."""
        if isinstance(getattr(self.member, "usage", None), Usage):
            return spent_by(self.member)
        if self._began is None:
            return NOTHING
        seconds = trio.current_time() - self._began
        return Usage(turns=1, busy_seconds=seconds, wall_seconds=seconds)

    async def ask(self, task: str, /) -> Result:
        """Have it answer; cancelled, what it has cost by then is paid."""
        limit = self.timeout or math.inf
        budget = self.budget
        if budget is None:
            return await self._within(task, limit)
        theirs = getattr(self.member, "budget", None)
        paying = tuple(theirs.chain()) if isinstance(theirs, Budget) else ()
        paid = budget.reserve(tokens=budget.expected(self.name), paid_by=paying)
        if isinstance(paid, Refusal):
            await trio.lowlevel.checkpoint()
            return failed(self.name, "budget", paid.reason)
        before, cost = self.usage, NOTHING
        try:
            result = await self._within(task, limit, budget.seconds_left)
            cost = result.usage
        except trio.Cancelled:
            cost = self.usage.delta(before)
            raise
        finally:
            paid.settle(cost)
            budget.note_cost(self.name, cost.input_tokens + cost.output_tokens)
        return result

    async def _within(self, task: str, limit: float, left: float = math.inf) -> Result:
        before, self._began = self.usage, trio.current_time()
        result: Result | None = None
        with trio.move_on_after(min(limit, left)):
            result = await answer_of(self.member, task)
        if result is not None:
            return result
        kind: ErrorKind = "timeout" if limit <= left else "budget"
        why = f"timed out after {limit:g} s" if limit <= left else "the time of its budget is up"
        error = TurnError(kind, why, kind == "timeout")
        return failed(self.name, error, usage=self.usage.delta(before))
