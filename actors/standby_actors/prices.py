"""What models cost, where their providers do not say it with each answer.

The prices are public list prices and grow old; give a table of your own where
money matters: ``spawn(…, prices={"openai/gpt-5-mini": Price(0.25, 2.0)})``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from .usage import Usage


class Price(msgspec.Struct, frozen=True):
    """Dollars for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    """Of the input that came from a cache; None for the price of input."""
    cache_write: float | None = None
    """Of what is written to a cache, besides the input; None for nothing."""


Prices: TypeAlias = Mapping[str, Price]
"""Prices by the name of the model, as in "openai/gpt-5-mini".

A name that ends in ``*`` stands for all that begin so; the longest counts.
"""

LIST_PRICES: Prices = MappingProxyType(
    {
        "local/*": Price(0.0, 0.0),
        "scripted": Price(0.0, 0.0),
        "openai/gpt-5": Price(1.25, 10.0, 0.125),
        "openai/gpt-5-mini*": Price(0.25, 2.0, 0.025),
        "openai/gpt-5-nano*": Price(0.05, 0.4, 0.005),
        "openai/gpt-4.1": Price(2.0, 8.0, 0.5),
        "openai/gpt-4.1-mini*": Price(0.4, 1.6, 0.1),
        "openai/gpt-4o-mini*": Price(0.15, 0.6, 0.075),
        "anthropic/claude-opus-4-0": Price(15.0, 75.0, 1.5, 3.75),
        "anthropic/claude-opus-4-1*": Price(15.0, 75.0, 1.5, 3.75),
        "anthropic/claude-opus-4-2*": Price(15.0, 75.0, 1.5, 3.75),
        **{
            # Not with `*` alone: what ends in "-fast" costs more.
            f"anthropic/claude-opus-4-{minor}{ending}": Price(5.0, 25.0, 0.5, 1.25)
            for minor in (5, 6, 7, 8)
            for ending in ("", "-2*")
        },
        "anthropic/claude-sonnet-4*": Price(3.0, 15.0, 0.3, 0.75),
        "anthropic/claude-sonnet-5": Price(3.0, 15.0, 0.3, 0.75),
        "anthropic/claude-haiku-4*": Price(1.0, 5.0, 0.1, 0.25),
        "gemini/gemini-2.5-pro*": Price(1.25, 10.0, 0.31),
        "gemini/gemini-2.5-flash*": Price(0.3, 2.5, 0.075),
    }
)
"""Public list prices, in dollars, as providers or their programs gave them in 2025 and 2026."""


def price_of(model: str, prices: Prices = LIST_PRICES) -> Price | None:
    """What `model` costs, or None when the table does not say.

    Examples:
        >>> price_of("local/smollm2").output, price_of("local/smollm2", {})
        (0.0, None)
        >>> price_of("a/b-1", {"a/*": Price(1.0, 2.0), "a/b*": Price(3.0, 4.0)}).input
        3.0
    """
    exact = prices.get(model)
    if exact is not None:
        return exact
    stems = [name for name in prices if name.endswith("*") and model.startswith(name[:-1])]
    return prices[max(stems, key=len)] if stems else None


def cost_of(usage: Usage, price: Price) -> float:
    """Dollars for the tokens of `usage`.

    Examples:
        >>> cost_of(Usage(input_tokens=1_000_000, output_tokens=500_000), Price(1.0, 4.0))
        3.0
    """
    fresh = usage.input_tokens - usage.cache_read
    read = price.input if price.cache_read is None else price.cache_read
    written = price.cache_write or 0.0
    return (
        fresh * price.input
        + usage.cache_read * read
        + usage.cache_write * written
        + usage.output_tokens * price.output
    ) / 1_000_000
