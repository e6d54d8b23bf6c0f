"""Every turn that was played, refusals included, and what the turns add up to."""

from __future__ import annotations

import trio

from standby_actors.result import Result
from standby_actors.usage import Usage, total


class Trail:
    """The turns of one piece of work, in the order in which they ended.

    Its clock starts when it is made, so make it before the pools whose turns it
    is to hold.  Read it when the work is done: it outlives the pools.
    """

    def __init__(self) -> None:
        self._steps: list[Result] = []
        self._start = trio.current_time()
        self._end = self._start

    @property
    def steps(self) -> tuple[Result, ...]:
        """The Results recorded so far."""
        return tuple(self._steps)

    def record(self, result: Result) -> Result:
        """Add `result`, which is also returned."""
        self._steps.append(result)
        self._end = trio.current_time()
        return result

    @property
    def wall_seconds(self) -> float:
        """From the making of the trail to its latest step."""
        return self._end - self._start

    def usage(self) -> Usage:
        """What all steps cost together, within :attr:`wall_seconds`."""
        return total((step.usage for step in self._steps), wall_seconds=self.wall_seconds)

    @property
    def parallelism(self) -> float:
        """How many turns ran at once, on average; 0 while nothing took any time."""
        usage = self.usage()
        return usage.busy_seconds / usage.wall_seconds if usage.wall_seconds else 0.0

    @property
    def broken(self) -> Result | None:
        """The first step that is not ok; None if all are."""
        return next((step for step in self._steps if not step.ok), None)

    def __repr__(self) -> str:
        return f"<Trail: {len(self._steps)} steps, {self.usage().format()}>"


class Report(Result, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a combinator came to: a Result that is also a record of its steps.

    Its `usage` is that of all steps, with the time that went by; its `output`
    is there also when a part failed, because the other parts are in it.
    """

    steps: tuple[Result, ...] = ()
    """One Result for each turn, in the order that the combinator promises."""

    @property
    def results(self) -> tuple[Result, ...]:
        """The steps, as the next combinator takes them: ``reduce(agent, report.results, …)``."""
        return self.steps


def join_outputs(results: tuple[Result, ...], *, numbered: bool = False) -> str:
    """The outputs of `results` as one text, each under its agent's name.

    A failure is shown as one, never left out.

    Examples:
        >>> from standby_actors.result import failed, succeeded
        >>> print(join_outputs((succeeded("a", "Yes."), failed("b", "timeout")), numbered=True))
        ## 1. a
        <BLANKLINE>
        Yes.
        <BLANKLINE>
        ## 2. b (failed)
        <BLANKLINE>
        timed out: timeout
    """
    sections: list[str] = []
    for number, result in enumerate(results, start=1):
        place = f"{number}. " if numbered else ""
        note = "" if result.ok else " (failed)"
        sections.append(f"## {place}{result.agent}{note}\n\n{said(result)}")
    return "\n\n".join(sections)


def said(result: Result) -> str:
    """What `result` says to a reader: its output, or why there is none.

    Examples:
        >>> from standby_actors.result import failed, succeeded
        >>> said(succeeded("a", "")), said(failed("b", "crash", "KeyError: 'x'"))
        ('(no output)', "crashed: KeyError: 'x'")
    """
    if result.error is None:
        return result.output or "(no output)"
    return f"{result.status.replace('_', ' ')}: {result.error.message}"
