"""How sure a few repetitions make us: intervals for rates and for means, and nothing else.

Right for any number of repetitions, also very few; checked against printed tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95


def wilson(good: int, of: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The interval of the rate behind `good` successes `of` so many, as Wilson has it.

    It stays within 0 and 1, and is no point even where all or none were good.  Of
    nothing it is all there is.

    Examples:
        >>> [round(end, 3) for end in wilson(8, 10)]
        [0.49, 0.943]
        >>> wilson(0, 0)
        (0.0, 1.0)
    """
    _check(confidence)
    if not 0 <= good <= of:
        raise ValueError(f"{good} of {of} is no count of successes")
    if of == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, more = good / of, z * z / of
    middle = (rate + more / 2) / (1 + more)
    half = z / (1 + more) * math.sqrt(rate * (1 - rate) / of + more / (4 * of))
    # Exactly there where all or none were good, but for the last digit.
    low = 0.0 if good == 0 else max(0.0, middle - half)
    return low, 1.0 if good == of else min(1.0, middle + half)


def student(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """The interval of the mean behind `values`, as Student has it; None for fewer than two.

    Examples:
        >>> [round(end, 2) for end in student([9.0, 10.0, 11.0])]
        [7.52, 12.48]
    """
    _check(confidence)
    if len(values) < 2:
        return None
    half = t_quantile((1 + confidence) / 2, len(values) - 1) * stdev(values)
    half /= math.sqrt(len(values))
    mean = fmean(values)
    return mean - half, mean + half


def t_quantile(share: float, freedom: int) -> float:
    """Below which value `share` of Student's distribution lies.

    Args:
        share: more than 0, less than 1.
        freedom: degrees of freedom, at least 1.
    """
    if not 0 < share < 1 or freedom < 1:
        raise ValueError(f"there is no quantile {share!r} with {freedom!r} degrees of freedom")
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    low, high = 0.0, 1.0
    while _t_below(high, freedom) < share:
        low, high = high, high * 2
    # Each halves the doubt: to the last digit of a float.
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _t_below(middle, freedom) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_below(t: float, freedom: int) -> float:
    """The share of Student's distribution below `t`, at least 0: a finite sum in its angle."""
    angle = math.atan2(t, math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    is_even = freedom % 2 == 0
    term = 1.0 if is_even else math.cos(angle)
    total, step = 0.0, 1 if is_even else 2
    for _ in range(freedom // 2):
        total += term
        term *= square * step / (step + 1)
        step += 2
    return (1 + sine * total) / 2 if is_even else 0.5 + (angle + sine * total) / math.pi


def _check(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence is more than 0 and less than 1, not {confidence!r}")
