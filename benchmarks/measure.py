"""How a figure is taken: samples, cases, interleaved rounds and medians.

The machine that runs this is noisy: one and the same program varies by a factor
of two from minute to minute.  A ratio is therefore taken between two samples
of the *same round*, and the median over the rounds is what is printed.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import attrs
import trio

from .watch import Watch

Clock = Literal["wall", "cpu"]
"""What is counted: seconds that pass, or seconds that the process computes.

All work here is computing, so both agree on an idle machine.  On a busy one,
``cpu`` leaves out the time for which somebody else had the processor.
"""


class Unmeasured(Exception):
    """Raised by a case that cannot be measured here; its text says why."""


@attrs.frozen
class Sample:
    """One figure of one round, per operation: seconds, or the case's own unit."""

    wall: float
    cpu: float
    also: Mapping[str, tuple[float, str]] = attrs.field(factory=dict[str, tuple[float, str]])
    """Further figures of the same run, with their units, by name."""

    def on(self, clock: Clock) -> float:
        return self.wall if clock == "wall" else self.cpu


def figure(value: float, **also: tuple[float, str]) -> Sample:
    """Return a sample of something other than time, which no clock changes."""
    return Sample(value, value, also)


def per(operations: int, watch: Watch) -> Sample:
    """Return what one of `operations` took, of the time on `watch`."""
    return Sample(watch.wall / operations, watch.cpu / operations)


@attrs.frozen
class Case:
    """Something that can be measured, under the name that its row has."""

    name: str
    run: Callable[[], Sample]
    unit: str = "µs"
    """``µs`` for time: its samples are seconds.  Any other unit is printed as it is."""
    most_rounds: int | None = None
    """For what takes long: after so many rounds it has been measured enough."""
    ours: bool = True
    """Runs in this process, so that its GC setting concerns it."""


def on_trio(
    name: str,
    workload: Callable[[int, Watch], Awaitable[object]],
    operations: int,
    *,
    most_rounds: int | None = None,
) -> Case:
    """Return the case of an async `workload`, which times its own middle part.

    Starting and ending trio, and setting the stage, are outside of the watch.
    """

    def run() -> Sample:
        watch = Watch()
        trio.run(workload, operations, watch)
        return per(operations, watch)

    return Case(name, run, most_rounds=most_rounds)


@attrs.frozen
class Line:
    """A figure to be judged: the goal's key, and which rows make it."""

    goal: str
    top: str
    """Row whose figure is judged, or is divided by that of `bottom`."""
    bottom: str | None = None
    note: str = ""


@attrs.frozen
class Suite:
    """What one benchmark measures, and which goals that answers."""

    cases: Sequence[Case]
    lines: Sequence[Line]
    gc_matters: bool = False
    """Measure under both GC settings: many objects are alive at once."""


@attrs.frozen
class GcSetting:
    """A way to set Python's cyclic garbage collector, and the words for it."""

    name: str
    apply: Callable[[], object]


def _leave() -> None:
    pass


DEFAULT_GC = GcSetting("default GC", _leave)
OWN_GC = GcSetting("own process", _leave)
"""For what runs in a process of its own: our setting does not reach it."""


@contextmanager
def collecting(setting: GcSetting) -> Generator[None]:
    """Collect, then hold `setting` for the block; the thresholds come back after it."""
    before = gc.get_threshold()
    gc.collect()
    setting.apply()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@attrs.define(eq=False)
class Row:
    """All samples of one figure under one GC setting, by round."""

    name: str
    gc: str
    unit: str
    samples: dict[int, Sample] = attrs.field(factory=dict[int, Sample])
    unmeasured: str | None = None
    """Why there is no sample, in words for the reader."""

    def median(self, clock: Clock) -> float:
        return statistics.median(sample.on(clock) for sample in self.samples.values())


def ratio(top: Row, bottom: Row, clock: Clock) -> float:
    """Return the median over the rounds that both rows have of their ratio in that round.

    Examples:
        >>> slow, fast = Row("slow", "", "µs"), Row("fast", "", "µs")
        >>> slow.samples = {0: figure(6.0), 1: figure(20.0), 2: figure(8.0)}
        >>> fast.samples = {0: figure(3.0), 1: figure(10.0), 2: figure(1.0)}
        >>> ratio(slow, fast, "wall")
        2.0
    """
    both = top.samples.keys() & bottom.samples.keys()
    return statistics.median(
        top.samples[n].on(clock) / bottom.samples[n].on(clock) for n in sorted(both)
    )


def measure(
    cases: Sequence[Case],
    rounds: int,
    settings: Sequence[GcSetting] = (DEFAULT_GC,),
    progress: Callable[[str], None] = lambda _: None,
) -> dict[tuple[str, str], Row]:
    """Run every case once a round, every other round backwards; return rows by (name, gc).

    Every row of a round is taken within seconds of the others, and none always
    comes first.  A case that raises `Unmeasured` is not tried again.
    """
    rows: dict[tuple[str, str], Row] = {}

    def note(number: int, name: str, setting: str, unit: str, sample: Sample) -> None:
        row = rows.setdefault((name, setting), Row(name, setting, unit))
        row.samples[number] = sample

    given_up: set[str] = set()
    for number in range(rounds):
        for case in cases if number % 2 == 0 else reversed(cases):
            if case.name in given_up or number >= (case.most_rounds or rounds):
                continue
            for setting in settings if case.ours else (OWN_GC,):
                progress(f"round {number + 1} of {rounds}: {case.name}")
                try:
                    with collecting(setting):
                        sample = case.run()
                except Unmeasured as reason:
                    given_up.add(case.name)
                    row = Row(case.name, setting.name, case.unit, unmeasured=str(reason))
                    rows[case.name, setting.name] = row
                    break
                note(number, case.name, setting.name, case.unit, sample)
                for key, (value, unit) in sample.also.items():
                    note(number, f"{case.name}: {key}", setting.name, unit, figure(value))
    return rows
