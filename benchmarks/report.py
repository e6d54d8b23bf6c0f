"""What a run found: verdicts from rows, and the text, JSON and chart made of them."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .goals import GOALS, Goal, Verdict, judge, share_of_must
from .measure import OWN_GC, Clock, GcSetting, Line, Row, ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Mapping[tuple[str, str], Row]


class Figure(msgspec.Struct, frozen=True):
    """One row of a benchmark: a median over the rounds."""

    name: str
    gc: str
    unit: str
    median: float | None = None
    """In `unit` per operation; None where it was not measured."""
    rounds: int = 0
    unmeasured: str | None = None


class Judged(msgspec.Struct, frozen=True):
    """One line of the table of goals, with what this run says of it."""

    goal: str
    line: str
    what: str
    gc: str
    must: float
    aim: float
    sense: str
    unit: str
    figure: float | None = None
    verdict: Verdict | None = None
    """None where it was not measured, and at the smallest size, which shows nothing."""
    unmeasured: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """What one benchmark says to its question."""

    benchmark: str
    question: str
    figures: list[Figure]
    lines: list[Judged]


class Report(msgspec.Struct, frozen=True):
    """A whole run, and what one must know to read it."""

    python: str
    trio: str
    machine: str
    clock: Clock
    rounds: int
    smallest: bool
    gc_settings: dict[str, tuple[int, int, int]]
    answers: list[Answer]


def describe(
    settings: Mapping[str, tuple[int, int, int]],
    answers: list[Answer],
    *,
    clock: Clock,
    rounds: int,
    smallest: bool,
) -> Report:
    """Return the report of a run on this machine."""
    return Report(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        trio=version("trio"),
        machine=f"{platform.system()} {platform.machine()}",
        clock=clock,
        rounds=rounds,
        smallest=smallest,
        gc_settings=dict(settings),
        answers=answers,
    )


def figures_of(rows: Rows, clock: Clock) -> list[Figure]:
    """Return the median of every row, times in microseconds."""
    found: list[Figure] = []
    for row in rows.values():
        if row.unmeasured is not None:
            found.append(Figure(row.name, row.gc, row.unit, unmeasured=row.unmeasured))
            continue
        median = row.median(clock) * (1e6 if row.unit == "µs" else 1)
        found.append(Figure(row.name, row.gc, row.unit, median, len(row.samples)))
    return found


def judge_line(
    line: Line, rows: Rows, setting: GcSetting, clock: Clock, *, smallest: bool
) -> Judged:
    """Return what the rows taken under `setting` say of `line`.

    A row of another process was taken once, for all settings.
    """
    goal = GOALS[line.goal]
    figure, unmeasured = _figure_of(line, rows, setting, clock)
    is_own = all((name, OWN_GC.name) in rows for name in (line.top, line.bottom or line.top))
    return Judged(
        goal=line.goal,
        line=goal.line,
        what=f"{goal.what} {line.note}".rstrip(),
        gc=OWN_GC.name if is_own else setting.name,
        must=goal.must,
        aim=goal.aim,
        sense=goal.sense,
        unit=goal.unit,
        figure=figure,
        verdict=None if figure is None or smallest else judge(goal, figure),
        unmeasured=unmeasured,
    )


def _figure_of(
    line: Line, rows: Rows, setting: GcSetting, clock: Clock
) -> tuple[float | None, str | None]:
    top = _row(rows, line.top, setting)
    bottom = None if line.bottom is None else _row(rows, line.bottom, setting)
    for row in (top, bottom):
        if row is not None and row.unmeasured is not None:
            return None, row.unmeasured
    if bottom is None:
        return top.median(clock), None
    found = ratio(top, bottom, clock)
    return ((found - 1) * 100 if GOALS[line.goal].unit == "%" else found), None


def _row(rows: Rows, name: str, setting: GcSetting) -> Row:
    return rows.get((name, setting.name)) or rows[name, OWN_GC.name]


def number(value: float) -> str:
    """Write `value` with three digits that matter.

    Examples:
        >>> number(0.04567), number(12.345), number(268.4), number(0.0)
        ('0.0457', '12.3', '268', '0')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def lines_of(answer: Answer) -> list[str]:
    """Return the lines that show `answer` on a terminal."""
    out = ["", f"{answer.benchmark}: {answer.question}"]
    for row in answer.figures:
        what = (
            f"{number(row.median):>10} {row.unit:<3} {row.gc}, median of {row.rounds}"
            if row.median is not None
            else f"{'-':>10}     not measured: {row.unmeasured}"
        )
        out.append(f"    {row.name:<44}{what}")
    out.extend(f"  {text_of(line)}" for line in answer.lines)
    return out


def text_of(line: Judged) -> str:
    """Return the one line that shows how `line` stands to its goal."""
    sign = "≤" if line.sense == "at most" else "≥"
    goal = f"must {sign} {number(line.must)}, aim {sign} {number(line.aim)}"
    name = f"7b.{line.line}" if line.line.isdigit() else line.line
    head = f"{name:<10}{line.what:<62}"
    if line.figure is None:
        return f"{head}{'-':>8}  ({goal})  not measured: {line.unmeasured}"
    unit = "" if line.unit == "times better" else line.unit
    verdict = line.verdict or "smallest size: not judged"
    return f"{head}{number(line.figure):>8}{unit:<3} ({goal})  {verdict}  [{line.gc}]"


def summary_of(report: Report) -> list[str]:
    """Return the table of all lines in the order of their numbers, and the counts."""
    lines = sorted(
        (line for answer in report.answers for line in answer.lines),
        key=lambda line: [*GOALS].index(line.goal),
    )
    out = ["", "All lines", *(text_of(line) for line in lines if line.figure is not None)]
    missing: dict[str, list[str]] = {}
    for line in lines:
        if line.unmeasured is not None and line.line not in missing.setdefault(line.unmeasured, []):
            missing[line.unmeasured].append(line.line)
    out.extend(f"not measured: {', '.join(which)}: {why}" for why, which in missing.items())
    if not report.smallest:
        verdicts: tuple[Verdict, ...] = ("aim met", "must met", "missed")
        counts = (f"{sum(line.verdict == v for line in lines)} {v}" for v in verdicts)
        out.append(", ".join(counts))
    return out


def draw(report: Report, path: Path) -> None:
    """Draw how much of what is allowed each line uses up, on a logarithmic axis.

    Raises:
        ImportError: matplotlib is not installed; nothing was written.
    """
    # Heavy, and only of use here.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = [line for answer in report.answers for line in answer.lines if line.figure is not None]
    lines.sort(key=lambda line: [*GOALS].index(line.goal), reverse=True)
    figure, axes = pyplot.subplots(figsize=(11, 1.5 + 0.3 * len(lines)))
    _bars(axes, lines)
    axes.set_title(f"standby: {report.python}, trio {report.trio}, {report.rounds} rounds")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _bars(axes: Axes, lines: Sequence[Judged]) -> None:
    colours = {"aim met": "#2a7f4f", "must met": "#8fbf6a", "missed": "#c8452e", None: "#999999"}
    for place, line in enumerate(lines):
        assert line.figure is not None
        goal: Goal = GOALS[line.goal]
        # What costs nothing has no place on a logarithmic axis.
        share = max(share_of_must(goal, line.figure), 0.01)
        axes.barh(place, share, color=colours[line.verdict], height=0.7)
        axes.plot([share_of_must(goal, goal.aim)], [place], "|", color="black", ms=10, mew=2)
        axes.text(share * 1.03, place, number(line.figure), va="center", fontsize=8)
    axes.axvline(1.0, color="black", lw=1)
    axes.set_xscale("log")
    axes.set_yticks(
        range(len(lines)), [f"{line.line}  {line.what}  [{line.gc}]" for line in lines], fontsize=8
    )
    axes.set_xlabel("share of what is allowed (1 = must; the tick marks the aim); less is better")
    axes.margins(x=0.1, y=0.01)


def machine_line() -> str:
    """Return the words that say what ran this."""
    return f"Python {sys.version.split()[0]}, trio {version('trio')}, {platform.machine()}"
