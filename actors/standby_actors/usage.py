"""What a turn cost: counted by the provider or by a clock, never estimated."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


# No garbage collector: numbers are in no cycle, and there is one for each turn.
class Usage(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False):
    """What was spent, by one turn or by several.

    Every field but :attr:`context_tokens` only grows.  What nobody reported
    is 0, and :attr:`unreported` tells how many requests that concerns.
    """

    wall_seconds: float = 0.0
    """From the beginning to the end, waiting included."""
    busy_seconds: float = 0.0
    """Spent inside turns.  Over `wall_seconds` it is the parallelism reached."""
    turns: int = 0
    """Turns that reached a mind.  A refused turn is not one."""
    input_tokens: int = 0
    """Tokens of the prompts, those read from a cache included."""
    output_tokens: int = 0
    """Tokens of the answers, reasoning included."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that was thought and not said."""
    cache_read: int = 0
    """The part of `input_tokens` that came from a cache, in tokens."""
    cache_write: int = 0
    """Tokens written to a cache."""
    cost_usd: float = 0.0
    """What the provider said that it charges; 0 when it says nothing."""
    tool_calls: int = 0
    requests: int = 0
    """Requests made to a model, those that failed and were retried included."""
    unreported: int = 0
    """Requests that ended before the server said what they cost.

    Their `output_tokens` are the pieces that arrived, each at least a token:
    a lower bound.  Their input is not counted.
    """
    context_tokens: int | None = None
    """How full the context was at the latest reading: a level, not a sum."""

    def delta(self, before: Usage) -> Usage:
        """What was spent since `before`, an earlier reading of the same counters.

        A counter that went backwards counts as 0.  The level is this reading's.

        Examples:
            >>> Usage(turns=3, context_tokens=70).delta(Usage(turns=2, context_tokens=50)).format()
            '1 turn 0s ctx:70'
        """
        return Usage(
            wall_seconds=max(0.0, self.wall_seconds - before.wall_seconds),
            busy_seconds=max(0.0, self.busy_seconds - before.busy_seconds),
            turns=max(0, self.turns - before.turns),
            input_tokens=max(0, self.input_tokens - before.input_tokens),
            output_tokens=max(0, self.output_tokens - before.output_tokens),
            reasoning_tokens=max(0, self.reasoning_tokens - before.reasoning_tokens),
            cache_read=max(0, self.cache_read - before.cache_read),
            cache_write=max(0, self.cache_write - before.cache_write),
            cost_usd=max(0.0, self.cost_usd - before.cost_usd),
            tool_calls=max(0, self.tool_calls - before.tool_calls),
            requests=max(0, self.requests - before.requests),
            unreported=max(0, self.unreported - before.unreported),
            context_tokens=self.context_tokens,
        )

    def accumulate(self, turn: Usage) -> Usage:
        """This and one more turn of the same subagent: counters add up, the level is replaced.

        Examples:
            >>> before = Usage(turns=1, context_tokens=50)
            >>> before.accumulate(Usage(turns=1, context_tokens=70)).format()
            '2 turns 0s ctx:70'
        """
        level = self.context_tokens if turn.context_tokens is None else turn.context_tokens
        return msgspec.structs.replace(_add(self, turn), context_tokens=level)

    def format(self) -> str:
        """One short line for people; what is 0 is left out.

        Examples:
            >>> Usage(turns=3, busy_seconds=12.4, input_tokens=12_000, output_tokens=2140).format()
            '3 turns 12.4s ↑12k ↓2.1k'
            >>> Usage(turns=1, cost_usd=0.04123, context_tokens=34_000).format()
            '1 turn 0s $0.0412 ctx:34k'
        """
        seconds = self.wall_seconds or self.busy_seconds
        parts = [
            f"{self.turns} turn{'' if self.turns == 1 else 's'}",
            f"{_short(round(seconds, 1))}s",
        ]
        if self.input_tokens or self.output_tokens:
            parts += [f"↑{compact(self.input_tokens)}", f"↓{compact(self.output_tokens)}"]
        if self.cache_read:
            parts.append(f"R{compact(self.cache_read)}")
        if self.cache_write:
            parts.append(f"W{compact(self.cache_write)}")
        if self.cost_usd:
            parts.append(f"${self.cost_usd:.4f}")
        if self.context_tokens is not None:
            parts.append(f"ctx:{compact(self.context_tokens)}")
        return " ".join(parts)


NOTHING = Usage()
"""Nothing was spent."""


def total(parts: Iterable[Usage], wall_seconds: float = 0.0) -> Usage:
    """The sum of `parts`, which may belong to different subagents.

    Args:
        parts: what each turn cost.
        wall_seconds: the time that really went by.  It is given, because turns
            overlap and the sum of their times is longer than the day was.

    Examples:
        >>> total([Usage(turns=1, wall_seconds=4.0), Usage(turns=2)], wall_seconds=5.0).format()
        '3 turns 5s'
    """
    whole = NOTHING
    for part in parts:
        whole = _add(whole, part)
    # The levels of two contexts do not add up to the level of anything.
    return msgspec.structs.replace(whole, wall_seconds=wall_seconds, context_tokens=None)


def compact(number: int) -> str:
    """`number` in at most four characters or so.

    Examples:
        >>> [compact(n) for n in (999, 1_000, 2_140, 34_000, 1_500_000)]
        ['999', '1k', '2.1k', '34k', '1.5M']
    """
    if number < 1_000:
        return str(number)
    if number < 10_000:
        return f"{_short(round(number / 1_000, 1))}k"
    if number < 1_000_000:
        return f"{round(number / 1_000)}k"
    return f"{_short(round(number / 1_000_000, 1))}M"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _add(one: Usage, other: Usage) -> Usage:
    return Usage(
        wall_seconds=one.wall_seconds + other.wall_seconds,
        busy_seconds=one.busy_seconds + other.busy_seconds,
        turns=one.turns + other.turns,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        cost_usd=one.cost_usd + other.cost_usd,
        tool_calls=one.tool_calls + other.tool_calls,
        requests=one.requests + other.requests,
        unreported=one.unreported + other.unreported,
        context_tokens=one.context_tokens,
    )
