"""A budget is what may be spent: reserved before a turn, settled after it, for all below.

What is asked of it is decided by :func:`shortfall`, which reads and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator

import msgspec
import trio
from attrs import define, field

from .agent import Limits
from .usage import NOTHING, Usage


class Refusal(msgspec.Struct, frozen=True):
    """Why something is not to be had from a budget any more."""

    budget: str
    """The name of the budget that has not enough."""
    limit: str
    """Which of its limits, as in "tokens"."""
    reason: str
    """A sentence for people."""

    def __str__(self) -> str:
        return self.reason


@define(eq=False)
class Budget:
    """What a run and everybody below it may spend.

    A budget below another has no more than that one has.  Whoever is about to
    play a turn reserves it in all of them at once, or in none; turns that are
    being played count as what was reserved for them, or as what they have told
    to have cost so far where that is more, until they are settled.
    So a limit is passed by what turns spend before they tell it, and by nothing
    else: each that goes on when it is passed is cut, whoever has passed it.

    Args:
        limits: what may be spent.
        above: the budget that this one is part of.
        name: what messages call it.

    Examples:
        >>> budget = Budget(Limits(turns=1), name="the run")
        >>> budget.reserved_turns = 1
        >>> print(shortfall(budget, turns=1))
        the run has a limit of 1 turn, and 1 is spent or under way
    """

    limits: Limits
    above: Budget | None = None
    name: str = "the budget"
    spent: Usage = field(init=False, default=NOTHING)
    """Settled so far, by everybody below as well."""
    reserved_turns: int = field(init=False, default=0)
    reserved_tokens: int = field(init=False, default=0)
    """Put aside for turns that are being played, or spent by them so far, if that is more."""
    reserved_usd: float = field(init=False, default=0.0)
    descendants: int = field(init=False, default=0)
    """Subagents that were spawned below, ever."""
    dearest: dict[str, int] = field(init=False, factory=dict[str, int], repr=False)
    """Tokens of the most expensive turn of each agent so far: what the next one of that
    agent is expected to cost, whoever plays it."""
    _began: float | None = field(init=False, default=None, repr=False)

    def below(self, limits: Limits | None = None, *, name: str = "") -> Budget:
        """A budget for somebody below, who has `limits` of their own besides."""
        return Budget(limits or Limits(), self, name or self.name)

    def chain(self) -> Iterator[Budget]:
        """This budget and those above, the nearest first."""
        each: Budget | None = self
        while each is not None:
            yield each
            each = each.above

    def reserve(
        self, *, tokens: int = 0, usd: float = 0.0, paid_by: Container[Budget] = ()
    ) -> Reservation | Refusal:
        """Put one turn aside, here and above; settle it when it is over.

        Args:
            tokens: what it is expected to cost, in and out together.
            usd: what it is expected to cost, in dollars.
            paid_by: budgets that whoever plays the turn charges for it: they are left
                out, so that none pays twice.
        """
        parts = tuple(each for each in self.chain() if each not in paid_by)
        for each in parts:
            refusal = shortfall(each, turns=1, tokens=tokens, usd=usd, seconds=each.seconds)
            if refusal is not None:
                return refusal
        reservation = Reservation(parts, tokens, usd)
        for each in parts:
            if each._began is None:
                each._began = trio.current_time()
            each.reserved_turns += 1
            each.reserved_tokens += tokens
            each.reserved_usd += usd
        return reservation

    def expected(self, agent: str) -> int:
        """Tokens that a turn of `agent` is expected to cost: as much as the dearest before."""
        return max(each.dearest.get(agent, 0) for each in self.chain())

    def note_cost(self, agent: str, tokens: int) -> None:
        """Remember what a turn of `agent` has cost, here and above."""
        for each in self.chain():
            if tokens > each.dearest.get(agent, 0):
                each.dearest[agent] = tokens

    def charge(self, cost: Usage) -> None:
        """Count what was spent in no turn, here and above."""
        for each in self.chain():
            each.spent = each.spent.accumulate(cost)

    def admit(self) -> Refusal | None:
        """Count one more subagent below, here and above; or say why there may be none."""
        for levels, each in enumerate(self.chain(), 1):
            limits = each.limits
            if limits.depth is not None and levels > limits.depth:
                return Refusal(
                    each.name,
                    "depth",
                    f"{each.name} allows {_count(limits.depth, 'level')} of subagents below,"
                    f" and this would be {levels} deep",
                )
            if limits.descendants is not None and each.descendants >= limits.descendants:
                return Refusal(
                    each.name,
                    "descendants",
                    f"{each.name} allows {_count(limits.descendants, 'subagent')} below,"
                    f" and {each.descendants} were spawned",
                )
        for each in self.chain():
            each.descendants += 1
        return None

    @property
    def seconds(self) -> float:
        """Since the first turn was reserved; 0 before."""
        return 0.0 if self._began is None else trio.current_time() - self._began

    @property
    def seconds_left(self) -> float:
        """Until the first limit of time, here or above, in seconds; inf without one."""
        return min(
            (
                each.limits.seconds - each.seconds
                for each in self.chain()
                if each.limits.seconds is not None
            ),
            default=math.inf,
        )


@define(eq=False)
class Reservation:
    """One turn, put aside until it is settled."""

    parts: tuple[Budget, ...]
    """Where it was put aside."""
    tokens: int
    """Put aside for it, or spent by it so far, if that is more."""
    usd: float
    _is_open: bool = field(init=False, default=True)

    def spend(self, so_far: Usage) -> Refusal | None:
        """Count what the turn has cost until now, for all to see; or say why that is too much.

        It is counted either way.  One that goes on is told of it also where others have
        spent what there was.
        """
        if not self._is_open:
            return None
        tokens = max(0, so_far.input_tokens + so_far.output_tokens - self.tokens)
        usd = max(0.0, so_far.cost_usd - self.usd)
        refusal: Refusal | None = None
        for each in self.parts:
            refusal = refusal or shortfall(each, tokens=tokens, usd=usd)
            each.reserved_tokens += tokens
            each.reserved_usd += usd
        self.tokens += tokens
        self.usd += usd
        return refusal

    def settle(self, cost: Usage) -> None:
        """Give back what was put aside, and count what the turn really cost; once."""
        if not self._is_open:
            return
        self._is_open = False
        for each in self.parts:
            each.reserved_turns -= 1
            each.reserved_tokens -= self.tokens
            each.reserved_usd -= self.usd
            each.spent = each.spent.accumulate(cost)


def shortfall(
    budget: Budget,
    *,
    turns: int = 0,
    tokens: int = 0,
    usd: float = 0.0,
    seconds: float = 0.0,
) -> Refusal | None:
    """Which limit of `budget` alone does not let this much more be spent, if any.

    What is spent, what is put aside, and what is asked for count together; a
    limit that is reached but not passed is kept.
    """
    limits = budget.limits
    spent = budget.spent
    used_turns = spent.turns + budget.reserved_turns
    if limits.turns is not None and used_turns + turns > limits.turns:
        return Refusal(
            budget.name,
            "turns",
            f"{budget.name} has a limit of {_count(limits.turns, 'turn')},"
            f" and {used_turns} {'is' if used_turns == 1 else 'are'} spent or under way",
        )
    used = spent.input_tokens + spent.output_tokens + budget.reserved_tokens
    if limits.tokens is not None and _is_beyond(used, tokens, limits.tokens, turns):
        return Refusal(
            budget.name,
            "tokens",
            f"{budget.name} has a limit of {_count(limits.tokens, 'token')}: {used} are spent"
            f" or under way{f', and {tokens} more are asked for' if tokens or turns else ''}",
        )
    paid = spent.cost_usd + budget.reserved_usd
    if limits.usd is not None and _is_beyond(paid, usd, limits.usd, turns):
        return Refusal(
            budget.name,
            "usd",
            f"{budget.name} has a limit of ${limits.usd:.4f}: ${paid:.4f} is spent or under"
            f" way{f', and ${usd:.4f} more is asked for' if usd or turns else ''}",
        )
    if limits.seconds is not None and seconds >= limits.seconds:
        return Refusal(
            budget.name,
            "seconds",
            f"{budget.name} has a limit of {limits.seconds:g} s, and it began {seconds:.1f} s ago",
        )
    return None


def _is_beyond(used: float, more: float, limit: float, turns: int) -> bool:
    # A turn costs something, whatever is expected of it: none begins at the limit.
    return used + more > limit or (turns > 0 and used >= limit)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
