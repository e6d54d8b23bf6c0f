"""What cells of an experiment came to: sums are kept, means and their intervals are shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from standby_actors.result import Status
from standby_actors.usage import NOTHING, Usage, total

from .intervals import student, wilson

if TYPE_CHECKING:
    from rich.table import Table


Key: TypeAlias = tuple[str, int, int]
"""Which cell: its model, the place of its task, and its repetition."""


class ExperimentCell(msgspec.Struct, frozen=True, kw_only=True):
    """One model, one task, one repetition; and, once it was played, what came of it."""

    model: str
    """Its name; empty for whatever the member says."""
    task: str
    place: int
    """Of the task among the tasks, from 0."""
    repetition: int
    """From 1."""
    status: Status = "not_started"
    error: str = ""
    output: str = ""
    usage: Usage = NOTHING
    marks: dict[str, float | bool] = {}
    """`ok`, what else the Result says of itself, and what the judge has said."""
    patch: str = ""
    """The file with what it has changed, where it worked in a copy."""
    settings: dict[str, str] = {}
    fingerprint: str = ""
    """Of its settings."""

    @property
    def key(self) -> Key:
        """Which cell it is."""
        return self.model, self.place, self.repetition


class ExperimentRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one model came to, over all its cells."""

    model: str
    cells: int
    usage: Usage
    """The sum."""
    rates: dict[str, tuple[int, int]]
    """How many cells said yes, of how many that said either."""
    values: dict[str, tuple[float, ...]]
    """What cells said in numbers, and what each has spent."""

    def said(self) -> str:
        """As one line."""
        rates = ", ".join(f"{name} {rate_text(*rate)}" for name, rate in self.rates.items())
        return f"{self.model or 'the model'}: {rates}; {self.usage.format()}"


def row_of(model: str, cells: Sequence[ExperimentCell]) -> ExperimentRow:
    """The sums over `cells`."""
    rates: dict[str, tuple[int, int]] = {}
    values: dict[str, list[float]] = {}
    for cell in cells:
        for name, value in cell.marks.items():
            if isinstance(value, bool):
                good, of = rates.get(name, (0, 0))
                rates[name] = good + value, of + 1
            else:
                values.setdefault(name, []).append(float(value))
        spent = cell.usage
        for name, number in (
            ("turns", spent.turns),
            ("tokens in", spent.input_tokens),
            ("tokens out", spent.output_tokens),
            ("usd", spent.cost_usd),
            ("seconds", spent.wall_seconds),
        ):
            values.setdefault(name, []).append(float(number))
    return ExperimentRow(
        model=model,
        cells=len(cells),
        usage=total(cell.usage for cell in cells),
        rates=rates,
        values={name: tuple(many) for name, many in values.items() if any(many)},
    )


def rows_of(cells: Sequence[ExperimentCell]) -> tuple[ExperimentRow, ...]:
    """A row for each model, in the order of their first cells."""
    models = dict.fromkeys(cell.model for cell in cells)
    return tuple(row_of(model, [each for each in cells if each.model == model]) for model in models)


def rate_text(good: int, of: int) -> str:
    """A rate, with its interval.

    Examples:
        >>> rate_text(3, 4)
        '3/4 75% [30-95]'
    """
    if not of:
        return "-"
    low, high = wilson(good, of)
    return f"{good}/{of} {good / of:.0%} [{low * 100:.0f}-{high * 100:.0f}]"


def mean_text(values: Sequence[float]) -> str:
    """A mean, and how far off it may be.

    Examples:
        >>> mean_text([9.0, 10.0, 11.0]), mean_text([2.0]), mean_text([])
        ('10 ± 2.48', '2', '-')
    """
    if not values:
        return "-"
    mean, interval = fmean(values), student(values)
    if interval is None:
        return f"{mean:.3g}"
    return f"{mean:.3g} ± {(interval[1] - interval[0]) / 2:.3g}"


def columns(rows: Sequence[ExperimentRow]) -> tuple[list[str], list[str]]:
    """The names of all rates, and of all values, in the order in which they first appear."""
    rates = dict.fromkeys(name for row in rows for name in row.rates)
    return list(rates), list(dict.fromkeys(name for row in rows for name in row.values))


def table(rows: Sequence[ExperimentRow]) -> Table:
    """The rows as a table for a terminal: rates with Wilson's interval, means with Student's."""
    # Heavy, and only of use here.
    from rich.table import Table

    rates, values = columns(rows)
    drawn = Table("model", "cells", *rates, *values, caption="95 % intervals")
    for row in rows:
        drawn.add_row(
            row.model or "-",
            str(row.cells),
            *(rate_text(*row.rates.get(name, (0, 0))) for name in rates),
            *(mean_text(row.values.get(name, ())) for name in values),
        )
    return drawn


def plot(rows: Sequence[ExperimentRow], path: str | Path) -> None:
    """Draw the rows into a PNG: a panel for each rate and each value, with its intervals.

    Raises:
        ImportError: matplotlib is not installed, which is the extra ``plot``; nothing
            was written.
        ValueError: there are no rows.
    """
    if not rows:
        raise ValueError("there is nothing to draw: no cell was played")
    # Without a screen, and without changing what whoever calls us draws with.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rates, values = columns(rows)
    panels = [*rates, *values]
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    high = 0.9 + 0.42 * len(rows)
    figure = Figure(figsize=(4.2 * across, high * down), layout="constrained")
    FigureCanvasAgg(figure)
    for number, name in enumerate(panels, start=1):
        axes = figure.add_subplot(down, across, number)
        _panel(axes, rows, name, is_rate=number <= len(rates))
        # Names once a row of panels is enough.
        if (number - 1) % across:
            axes.set_yticklabels([])
    figure.suptitle("Bars are 95 % intervals: Wilson's for rates, Student's for means", fontsize=9)
    where = Path(path)
    where.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(where, format="png", dpi=120)


def _panel(axes: Any, rows: Sequence[ExperimentRow], name: str, *, is_rate: bool) -> None:
    for place, row in enumerate(rows):
        interval: tuple[float, float] | None
        if is_rate:
            good, of = row.rates.get(name, (0, 0))
            if not of:
                continue
            middle, interval, said = good / of, wilson(good, of), f"{good}/{of}"
        else:
            many = row.values.get(name, ())
            if not many:
                continue
            middle, interval, said = fmean(many), student(many), f"{fmean(many):.3g}"
        if interval is not None:
            axes.plot(interval, [place, place], color="#7a9cc6", lw=5, solid_capstyle="butt")
        axes.plot([middle], [place], "o", color="#1f3b63", ms=5)
        axes.annotate(
            said,
            (middle, place),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_title(name, fontsize=10)
    axes.set_yticks(range(len(rows)), [row.model or "-" for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    if is_rate:
        axes.set_xlim(-0.1, 1.1)
        axes.set_xticks([0, 0.5, 1], ["0 %", "50 %", "100 %"], fontsize=8)
    else:
        axes.tick_params(axis="x", labelsize=8)
        axes.margins(x=0.15)
    axes.grid(axis="x", lw=0.4)
