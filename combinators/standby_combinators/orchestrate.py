"""A planner splits the work, members do it, what needs what is waited for; one may sum up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import trio
from attrs import field, frozen

from standby_actors.result import Result, TurnError

from .checks import at_least
from .fan_out import CONCURRENCY
from .member import Asked, Member, by_name, maybe_member, member_of, members_of
from .options import Options
from .plan import MAX_TASKS, Plan, Planning, Step
from .reduce import Reduce
from .team import Stage, Team
from .trail import Report, join_outputs


class Orchestrated(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a planned piece of work came to."""

    plan: Plan = Plan()
    """Empty if there was none that could be used."""
    branches: tuple[Result, ...] = ()
    """One for each step of the plan, in its order."""


async def run_plan(
    plan: Plan, members: Sequence[Member], stage: Stage, *, concurrency: int = CONCURRENCY
) -> tuple[Result, ...]:
    """Do the steps of `plan`, each as soon as what it needs has ended, and return all in order.

    A step is shown the answers that it needs.  If one of these failed, it is not
    played: its Result is `skipped`, and says which.

    Args:
        plan: as :func:`~standby_combinators.plan.make_plan` has checked it.
        members: who does the steps.
        stage: where.
        concurrency: steps at the same time.
    """
    named = by_name(members_of(members))
    results: dict[str, Result] = {}
    waiting = {step.id: set(step.needs) for step in plan.steps}
    steps = {step.id: step for step in plan.steps}
    room = trio.CapacityLimiter(concurrency)

    async def play(step: Step, nursery: trio.Nursery) -> None:
        bad = next((need for need in step.needs if not results[need].ok), None)
        # What is called off is that, and not skipped.
        if bad is not None and not (stage.signal is not None and stage.signal.is_set):
            why = f"step {step.id!r} needs {bad!r}, which {results[bad].status.replace('_', ' ')}"
            results[step.id] = stage.refuse(step.agent, TurnError("skipped", why))
        else:
            async with room:
                results[step.id] = await stage.turn(
                    named[step.agent], _told(step, results), branch=f"#{step.id}"
                )
        begin(step.id, nursery)

    def begin(ended: str | None, nursery: trio.Nursery) -> None:
        """Start what needs nothing any more."""
        for needs in waiting.values():
            needs.discard(ended or "")
        for ready in [name for name, needs in waiting.items() if not needs]:
            del waiting[ready]
            nursery.start_soon(play, steps[ready], nursery)

    async with trio.open_nursery() as nursery:
        begin(None, nursery)
    return tuple(results[step.id] for step in plan.steps)


def _told(step: Step, results: dict[str, Result]) -> str:
    if not step.needs:
        return step.task
    shown = join_outputs(tuple(results[need] for need in step.needs), numbered=True)
    return f"{step.task}\n\n{shown}"


@frozen(eq=False)
class Orchestra(Team[Orchestrated]):
    """:func:`orchestrate` as a member of a team."""

    planner: Asked = field(converter=member_of)
    members: tuple[Asked, ...] = field(converter=members_of)
    reducer: Asked | None = field(default=None, kw_only=True, converter=maybe_member)
    max_tasks: int = field(default=MAX_TASKS, kw_only=True, validator=at_least(1, "steps"))
    corrections: int = field(default=1, kw_only=True, validator=at_least(0, "corrections"))
    concurrency: int = field(
        default=CONCURRENCY, kw_only=True, validator=at_least(1, "branches at a time")
    )
    name: str = field(default="orchestrate", kw_only=True)
    description: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        by_name(self.members)

    async def play(self, task: str, stage: Stage, /) -> Orchestrated:
        """Plan, do, sum up."""
        planning = await Planning(
            self.planner,
            self.members,
            max_tasks=self.max_tasks,
            corrections=self.corrections,
        ).play(task, stage.below())
        if not planning.ok:
            return stage.report(planning, planning.steps, kind=Orchestrated)
        branches = await run_plan(planning.plan, self.members, stage, concurrency=self.concurrency)
        steps = [*planning.steps, *branches]
        deciding = next((each for each in branches if not each.ok), branches[-1])
        output = join_outputs(branches)
        if self.reducer is not None:
            summed = await Reduce(self.reducer, _Given(branches)).play(task, stage.below())
            answer = summed.steps[-1]
            steps.append(answer)
            output = answer.output
            if deciding.ok or not answer.ok:
                deciding = answer
        return stage.report(
            deciding,
            steps,
            kind=Orchestrated,
            output=output,
            plan=planning.plan,
            branches=branches,
        )


class _Given(Team[Report]):
    """What was said already."""

    def __init__(self, results: tuple[Result, ...]) -> None:
        self._results = results

    async def play(self, task: str, stage: Stage, /) -> Report:
        return stage.report(self._results[-1], self._results, played=())


async def orchestrate(
    planner: Member,
    members: Sequence[Member],
    task: str,
    *,
    reducer: Member | None = None,
    max_tasks: int = MAX_TASKS,
    corrections: int = 1,
    concurrency: int = CONCURRENCY,
    **options: Unpack[Options],
) -> Orchestrated:
    """Have a task planned, the steps done by `members`, and the answers made one.

    The whole plan is checked before any member is asked; see
    :func:`~standby_combinators.plan.make_plan`.  Steps begin as soon as what they need
    has ended; one that needs what has failed is `skipped`.  Each step has a subagent
    of its own.  It is `ok` if the plan could be used, no step failed, and the
    reducer answered; a reducer is asked also when steps have failed, and is shown that.

    The steps of the Report are the planner's turns, the steps of the plan in its
    order, and the reducer's answer.

    Args:
        planner: who plans.
        members: who does the steps, at least one; no two of the same name.
        task: what is asked of the whole.
        reducer: who makes one answer; without one the output is all of them.
        max_tasks: steps of a plan at most.
        corrections: how often a plan that cannot be used is corrected.
        concurrency: steps at the same time.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member, two have the same name, or a number is too small.
    """
    made = Orchestra(
        planner,
        members,
        reducer=reducer,
        max_tasks=max_tasks,
        corrections=corrections,
        concurrency=concurrency,
    )
    return await made.ask(task, **options)
