"""One works, others judge it, until all approve and nothing is owed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from attrs import field, frozen

from standby_actors.result import Result, TurnError

from .checks import at_least
from .fan_out import CONCURRENCY, map_concurrent
from .ledger import Entry, Ledger, Obligation, render_obligations
from .member import Asked, Member, by_name, member_of, members_of, name_of
from .options import Options
from .team import Stage, Team
from .trail import Report
from .verdict import APPROVED, Verdict, VerdictDesk, apply_verdict

MAX_ROUNDS = 3
"""Rounds of work and review, unless another number is given."""


class Reviewed(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a review came to: its output is the work.  `ok` says that every turn was answered."""

    approved: bool = False
    """Every reviewer said yes in the last round, and nothing is owed."""
    rounds: int = 0
    obligations: tuple[Obligation, ...] = ()
    """All that were raised, closed ones too."""
    entries: tuple[Entry, ...] = ()
    """What happened to them: what a later review can go on from."""
    remarks: str = ""
    """What the reviewers said of the last work."""

    @property
    def owed(self) -> tuple[Obligation, ...]:
        """What is still open."""
        return tuple(each for each in self.obligations if each.closed is None)


@frozen(eq=False)
class Review(Team[Reviewed]):
    """:func:`review` as a member of a team."""

    worker: Asked = field(converter=member_of)
    reviewers: tuple[Asked, ...] = field(converter=members_of)
    max_rounds: int = field(default=MAX_ROUNDS, kw_only=True, validator=at_least(1, "rounds"))
    entries: Sequence[Entry] = field(default=(), kw_only=True)
    name: str = field(default="review", kw_only=True)
    description: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        by_name(self.reviewers)

    async def play(self, task: str, stage: Stage, /) -> Reviewed:
        """Work, judge, and again."""
        ledger = Ledger(self.entries)
        desks = [VerdictDesk(each, ledger, name_of(each)) for each in self.reviewers]
        steps: list[Result] = []
        remarks = ""
        work: Result | None = None
        asked = task

        def ended(deciding: Result, rounds: int, approved: bool = False) -> Reviewed:
            return stage.report(
                deciding,
                steps,
                kind=Reviewed,
                output=None if work is None else work.output,
                approved=approved,
                rounds=rounds,
                obligations=ledger.obligations,
                entries=ledger.entries,
                remarks=remarks,
            )

        for number in range(1, self.max_rounds + 1):
            turn = await stage.turn(self.worker, asked)
            steps.append(turn)
            if not turn.ok:
                return ended(turn, number)
            work = turn
            judged = work.output

            async def judge(
                desk: VerdictDesk, judged: str = judged
            ) -> tuple[Result, Verdict | None]:
                return await self._judged(desk, task, judged, ledger, stage, steps)

            verdicts = await map_concurrent(judge, desks, CONCURRENCY)
            for result, verdict in verdicts:
                if verdict is None:
                    return ended(result, number)
            notes: list[str] = []
            for desk, (_, verdict) in zip(desks, verdicts, strict=True):
                assert verdict is not None
                notes += apply_verdict(ledger, name_of(desk.reviewer), verdict, number)
            remarks = _remarks(desks, verdicts, notes)
            if all(v is not None and v.approved for _, v in verdicts) and ledger.is_settled:
                return ended(work, number, approved=True)
            asked = _rework(task, work.output, remarks, ledger, self.max_rounds - number)
        assert work is not None
        return ended(work, self.max_rounds)

    async def _judged(
        self,
        desk: VerdictDesk,
        task: str,
        work: str,
        ledger: Ledger,
        stage: Stage,
        steps: list[Result],
    ) -> tuple[Result, Verdict | None]:
        """The verdict of one reviewer, who is asked a second time if there is none."""
        name = name_of(desk.reviewer)
        asked = prompt = review_prompt(task, work, ledger.owed(name), desk.has_tool)
        for _ in range(2):
            desk.forget()
            result = await stage.turn(desk.reviewer, asked)
            steps.append(result)
            if not result.ok:
                return result, None
            verdict = desk.read(result.output)
            if verdict is not None:
                return result, verdict
            asked = (
                f"{prompt}\n\nYou have not decided: say yes, or say what is missing."
                " A no without remarks does not count."
            )
        refused = stage.refuse(name, TurnError("no_tool", f"{name} gave no verdict that counts"))
        steps.append(refused)
        return refused, None


async def review(
    worker: Member,
    reviewers: Member | Sequence[Member],
    task: str,
    *,
    max_rounds: int = MAX_ROUNDS,
    entries: Sequence[Entry] = (),
    **options: Unpack[Options],
) -> Reviewed:
    """Have work done and judged, until every reviewer approves and nothing is owed.

    A reviewer decides with a tool, `verdict`, or in words if it is no agent of a
    model.  What it raises is owed until it says itself that it is not: nobody else
    closes it, and what it leaves out stays open.  A "no" without a reason is asked
    for again, once.  The rounds being used up is no success: look at `approved`.

    The output is the last work.  The steps of the Report are all turns in the order
    in which they ended.  A worker or reviewer that fails ends the review.

    Args:
        worker: who works; it is told the remarks and what is owed, and how many
            rounds are left.
        reviewers: who judges, side by side; no two of the same name.  One that is to
            see each work with fresh eyes has lifetime "task".
        task: what is to be done.
        max_rounds: of work and review, at least 1.
        entries: of an earlier review, to go on from.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no reviewer, two have the same name, or a number is too small.
    """
    made = Review(worker, reviewers, max_rounds=max_rounds, entries=entries)
    return await made.ask(task, **options)


def review_prompt(task: str, work: str, owed: Sequence[Obligation], has_tool: bool) -> str:
    """What a reviewer is asked."""
    how = (
        "Decide by calling `verdict`."
        if has_tool
        else f"Answer with {APPROVED} alone on a line, or with what is missing; or with a JSON"
        " object with `approved`, `remarks`, `resolved` (`id`, `how`: addressed or withdrawn)"
        " and `raised`."
    )
    parts = [
        "Review this work. Look at what was done, not at what is said about it.",
        f"## Request\n\n{task}",
        f"## Work\n\n{work}",
    ]
    if owed:
        parts.append(
            "## What you have raised\n\n"
            f"{render_obligations(owed)}\n\nOne whose id you leave out stays open."
        )
    return "\n\n".join([*parts, how])


def _rework(task: str, work: str, remarks: str, ledger: Ledger, left: int) -> str:
    parts = [task, f"## Your last work\n\n{work}", f"## Remarks\n\n{remarks or 'none'}"]
    if owed := ledger.owed():
        parts.append(f"## What is still owed\n\n{render_obligations(owed)}")
    parts.append("This is the last round." if left == 1 else f"There are {left} rounds left.")
    return "\n\n".join(parts)


def _remarks(
    desks: Sequence[VerdictDesk],
    verdicts: Sequence[tuple[Result, Verdict | None]],
    notes: Sequence[str],
) -> str:
    said = [
        f"{name_of(desk.reviewer)}: {verdict.remarks.strip()}"
        for desk, (_, verdict) in zip(desks, verdicts, strict=True)
        if verdict is not None and verdict.remarks.strip()
    ]
    return "\n".join([*said, *notes])
