"""The team that explores a directory: a scout for each file, and one who sums up.

It says what it does on the stream of events (``explore.…``), and keeps what
it has so far, so that a run that is cut has its answers all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from standby_actors.agent import Agent
from standby_actors.events import emit
from standby_actors.result import Result, TurnError, failed, succeeded
from standby_actors.usage import Usage
from standby_combinators.fan_out import map_concurrent
from standby_combinators.options import Options
from standby_combinators.reduce import reduce
from standby_combinators.team import SubagentPool
from standby_combinators.tokens import estimate_tokens
from standby_combinators.trail import Trail, join_outputs, said

from .answers import (
    CheckedFinding,
    CheckedSynthesis,
    Style,
    Synthesis,
    check_finding,
    check_synthesis,
    finding_type,
    merged_type,
    point,
    synthesis_type,
)
from .plan import Assignment
from .prompts import member
from .reading import Part, Reading, halves
from .report import Exploration, FileReport, why_unanswered

_HOPELESS = 3
"""Files that fail before any was answered, after which no more are begun."""

_CUT_SHARE = 0.4
"""A server that counted less than this share of a prompt has not read all of it."""
_CUT_FLOOR = 1_000
"""Tokens of a prompt that no context is too small for."""


@define(eq=False)
class Explorer:
    """Explores one directory, and knows at any moment how far it is.

    Args:
        question: what is asked about the directory.
        reading: what there is to read.
        assignments: who reads what.
        model: its name, for people.
        style: whether the model writes its answers or points at them.
        window: tokens of findings that one turn may be shown.
        concurrency: files that are read at the same time.
        options: about the subagents.
    """

    question: str
    reading: Reading
    assignments: Sequence[Assignment]
    model: str
    style: Style
    window: int
    concurrency: int
    options: Options = field(factory=Options, repr=False)
    trail: Trail = field(factory=Trail, repr=False)
    _begun: set[str] = field(init=False, factory=set[str])
    _reports: dict[str, FileReport] = field(init=False, factory=dict[str, FileReport])
    _synthesis: Result | None = field(init=False, default=None)
    _error: TurnError | None = field(init=False, default=None)

    async def run(self) -> Exploration:
        """Ask the scouts, then the synthesiser.

        Cancelled, it has closed every subagent, and :meth:`exploration` tells
        what was answered until then.

        Raises:
            ModelError: there is no model to ask.
        """
        emit(
            "explore.planned",
            "explore",
            question=self.question,
            directory=self.reading.root,
            model=self.model,
            files=[each.file.path for each in self.assignments],
            tokens=sum(each.tokens for each in self.assignments),
            skipped=[str(each) for each in self.reading.skipped],
        )
        async with SubagentPool(trail=self.trail, **self.options) as pool:

            async def scout(assignment: Assignment) -> None:
                await self._scout(pool, assignment)

            await map_concurrent(scout, self.assignments, self.concurrency)
        if any(each.status == "ok" for each in self._reports.values()):
            emit("explore.stage", "explore", stage="summing up")
            emit("explore.began", "explore", key=SYNTHESIS)
            self._synthesis = await self._synthesise()
            done = self.exploration()
            says = done.answer or str(done.error)
            emit("explore.ended", "explore", key=SYNTHESIS, status=done.status, says=says)
        return self.exploration()

    def give_up(self, error: TurnError) -> None:
        """Say why the run was cut from outside; `exploration` tells it from now on."""
        self._error = error

    def exploration(self) -> Exploration:
        """What is known by now."""
        files = tuple(
            self._reports.get(each.file.path) or self._unreported(each) for each in self.assignments
        )
        result = self._synthesis
        checked = CheckedSynthesis("", ())
        error: TurnError | None = None
        if result is None:
            error = why_unanswered(files)
        elif result.error is not None:
            why = f"the files were read, and summing up failed: {result.error.message}"
            error = TurnError(result.error.kind, why, result.error.retryable)
        else:
            read = {each.path for each in files if each.status == "ok"}
            checked = check_synthesis(result.value, read)
            if not checked.answer:
                error = TurnError("protocol", "the model cited only files that were not read")
        error = self._error or error
        return Exploration(
            question=self.question,
            directory=self.reading.root,
            model=self.model,
            style=self.style,
            status="ok" if error is None else failed("explore", error).status,
            error=error,
            answer=checked.answer,
            cited=checked.files,
            dropped=checked.dropped,
            files=files,
            skipped=self.reading.skipped,
            ignored=self.reading.ignored,
            usage=self.trail.usage(),
            parallelism=self.trail.parallelism,
        )

    # ---- scouts

    async def _scout(self, pool: SubagentPool, assignment: Assignment) -> None:
        path = assignment.file.path
        if self._is_hopeless():
            return
        self._begun.add(path)
        emit("explore.began", "explore", key=path)
        results = await self._read(pool, assignment)
        report = await self._report(assignment, results)
        self._reports[path] = report
        says = report.answer if report.error is None else str(report.error)
        emit("explore.ended", "explore", key=path, status=report.status, says=says)

    def _is_hopeless(self) -> bool:
        """Nobody was answered, and often enough: the next would not be either."""
        statuses = [each.status for each in self._reports.values()]
        return "ok" not in statuses and len(statuses) >= _HOPELESS

    async def _read(self, pool: SubagentPool, assignment: Assignment) -> list[Result]:
        """One turn for each part, until one fails."""
        path = assignment.file.path
        results: list[Result] = []
        waiting = list(assignment.parts)
        while waiting:
            part = waiting.pop(0)
            if results or waiting:
                total = len(results) + 1 + len(waiting)
                doing = f"part {len(results) + 1} of {total}"
                emit("explore.began", "explore", key=path, doing=doing)
            agent = member("scout", self.style, finding_type(path, part.text, self.style))
            task = self._task(assignment, part)
            result = _read_whole(await pool.turn(agent, task, key=path), agent, task)
            pieces = halves(part)
            overflow = result.error is not None and result.error.kind == "context_overflow"
            if overflow and len(pieces) > 1:
                waiting[:0] = pieces
                continue
            results.append(result)
            if not result.ok:
                break
        return results

    def _task(self, assignment: Assignment, part: Part) -> str:
        path = assignment.file.path
        notes: list[str] = []
        if assignment.view == "sketch":
            notes.append("what it defines, without the bodies")
        if part.text != assignment.file.text and assignment.view == "whole":
            notes.append(f"lines {part.first_line} to {part.last_line}")
        note = f" ({', '.join(notes)})" if notes else ""
        if self.style == "point":
            # A small model says the file's name instead of an answer when it can.
            path = path.rpartition("/")[2]
            note = ""
        return f"File {path}{note}:\n{part.text}\n\n{self.question}"

    async def _report(self, assignment: Assignment, results: list[Result]) -> FileReport:
        file = assignment.file
        error = next((each.error for each in results if each.error is not None), None)
        if error is not None and len(assignment.parts) > 1:
            where = f"part {len(results)} of {len(assignment.parts)}"
            error = TurnError(error.kind, f"{where}: {error.message}", error.retryable)
        checked = [check_finding(each.value, file) for each in results if each.ok]
        usage = [each.usage for each in results]
        finding = checked[0] if checked else None
        if error is None and len(checked) > 1:
            emit("explore.began", "explore", key=file.path, doing="putting the parts together")
            merged = await self._merge(file.path, checked)
            usage.append(merged.usage)
            error = merged.error
            if error is None:
                finding = check_finding(merged.value, file)
        return FileReport(
            path=file.path,
            lines=file.lines,
            view=assignment.view,
            parts=len(results),
            tokens=assignment.tokens,
            status="ok" if error is None else failed(file.path, error).status,
            answer=finding.answer if finding else "",
            names=finding.names if finding else (),
            dropped=tuple(dict.fromkeys(name for each in checked for name in each.dropped)),
            quoted=finding is not None and finding.quoted,
            replaced=file.replaced,
            error=error,
            usage=_sum(usage),
        )

    async def _merge(self, path: str, findings: Sequence[CheckedFinding]) -> Result:
        """One answer about a file of those about its parts."""
        agent = member("merger", self.style, None)

        def prepare(agent: Agent, group: Sequence[Result]) -> Agent:
            kind = merged_type([each.value for each in group], self.style)
            return member("merger", self.style, kind)

        def show(group: Sequence[Result]) -> str:
            return "\n".join(point(", ".join(r.value.names), r.value.answer) for r in group)

        parts = [succeeded(path, each.answer, value=each) for each in findings]
        return await self._reduce(path, agent, parts, show, prepare)

    # ---- the synthesiser

    async def _synthesise(self) -> Result:
        agent = member("synthesiser", self.style, None)
        findings: list[Result] = []
        for each in (self._reports.get(a.file.path) for a in self.assignments):
            if each is None:
                continue
            if each.error is None:
                findings.append(succeeded(each.path, each.answer))
            else:
                findings.append(failed(each.path, each.error))

        def prepare(agent: Agent, group: Sequence[Result]) -> Agent:
            pairs = [pair for each in group for pair in _pairs(each)]
            return member("synthesiser", self.style, synthesis_type(pairs, self.style))

        show = _show_points if self.style == "point" else _show_findings
        return await self._reduce(SYNTHESIS, agent, findings, show, prepare)

    async def _reduce(
        self, key: str, agent: Agent, results: Sequence[Result], show: Any, prepare: Any
    ) -> Result:
        report = await reduce(
            agent,
            results,
            self.question,
            tokens=self.window,
            show=show,
            prepare=prepare,
            key=key,
            concurrency=self.concurrency,
            **self.options,
        )
        for step in report.steps[len(results) :]:
            self.trail.record(step)
        return report

    def _unreported(self, assignment: Assignment) -> FileReport:
        file = assignment.file
        error = TurnError("not_started", "its turn had not come")
        if file.path in self._begun:
            error = TurnError("cancelled", "cut while it was being read")
        return FileReport(
            path=file.path,
            lines=file.lines,
            view=assignment.view,
            parts=len(assignment.parts),
            tokens=assignment.tokens,
            status=failed(file.path, error).status,
            replaced=file.replaced,
            error=error,
        )


SYNTHESIS = "the answer"
"""What the work of the synthesiser is called among the files."""


def _read_whole(result: Result, agent: Agent, task: str) -> Result:
    """`result`, or a failure if its server has read only a part of the task.

    Some servers drop what exceeds their context and say nothing; but they
    count what they read.
    """
    expected = estimate_tokens(f"{agent.mind}{task}")
    counted = result.usage.input_tokens
    if not result.ok or expected < _CUT_FLOOR or not 0 < counted < _CUT_SHARE * expected:
        return result
    why = f"the model's server read {counted} of about {expected} tokens"
    return failed(
        result.agent,
        "context_overflow",
        why,
        subagent=result.subagent,
        messages=result.messages,
        usage=result.usage,
    )


def _pairs(result: Result) -> list[tuple[str, str]]:
    """The findings in `result`: its own, or those that a synthesis of some pointed at."""
    if not result.ok:
        return []
    points = getattr(result.value, "points", None)
    if points is None:
        return [(result.agent, result.output)]
    return [(path, answer) for path, _, answer in (each.partition(": ") for each in points)]


def _show_points(results: Sequence[Result]) -> str:
    lines = [point(*pair) for each in results for pair in _pairs(each)]
    # Shown, though it cannot be pointed at: a gap is no finding.
    lines += [point(each.agent, f"({said(each)})") for each in results if not each.ok]
    return "\n".join(lines)


def _show_findings(results: Sequence[Result]) -> str:
    shown: list[Result] = []
    for each in results:
        if isinstance(each.value, Synthesis):
            text = f"{each.value.answer}\nFiles: {', '.join(each.value.files)}"
            shown.append(succeeded("several files", text))
        else:
            shown.append(each)
    return join_outputs(tuple(shown))


def _sum(parts: Sequence[Usage]) -> Usage:
    whole = parts[0] if parts else Usage()
    for part in parts[1:]:
        whole = whole.accumulate(part)
    return whole
