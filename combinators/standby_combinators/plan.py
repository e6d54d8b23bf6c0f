"""A plan is steps that need one another: read from what a planner wrote, and checked whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

import msgspec
from attrs import field, frozen

from standby_actors.modeltext import json_objects, truncate
from standby_actors.result import Result, TurnError
from standby_supervision.graph.graph import circle_of

from .checks import at_least
from .member import Asked, Member, by_name, member_of, members_of, name_of, roster
from .options import Options
from .team import Stage, Team
from .trail import Report

MAX_TASKS = 8
"""Steps of a plan at most, unless another number is given."""

_LINE = re.compile(r"\s*(?:[-*+]|\d+[.)])?\s*\**(?P<agent>[^:*]+?)\**\s*:\s*(?P<task>.+)")


class Step(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A part of a plan."""

    id: str
    agent: str
    """The name of the member that is to do it."""
    task: str
    needs: tuple[str, ...] = ()
    """Ids of the steps whose answers it is shown; it begins when they have ended."""


class Plan(msgspec.Struct, frozen=True):
    """Steps that need one another, without a circle."""

    steps: tuple[Step, ...] = ()

    def render(self) -> str:
        """For people: a line for each step.

        Examples:
            >>> steps = Step("1", "scout", "Look."), Step("2", "writer", "Sum up.", ("1",))
            >>> print(Plan(steps).render())
            1 scout: Look.
            2 writer: Sum up. (after 1)
        """
        return "\n".join(
            f"{step.id} {step.agent}: {truncate(step.task, 200)}"
            + (f" (after {', '.join(step.needs)})" if step.needs else "")
            for step in self.steps
        )


def parse_plan(text: str, names: Sequence[str]) -> tuple[Step, ...]:
    """The steps that `text` names, in order, as far as somebody of `names` is to do them.

    Every JSON object with an `agent` and a `task`, wherever it stands; if there is
    none, every line ``agent: task``.  A name that is none of `names` is dropped with
    its step, and never taken for another; so is a step without a task.  A step
    without an id has its place, from 1, for one.

    Examples:
        >>> parse_plan('[{"agent": "Scout", "task": "Look."}]', ["scout"])
        (Step(id='1', agent='scout', task='Look.'),)
        >>> parse_plan("1. scout: Look: here\\n2. boss: Rest", ["scout"])
        (Step(id='1', agent='scout', task='Look: here'),)
    """
    known = {name.casefold(): name for name in names}
    steps: list[Step] = []
    objects = [each for each in json_objects(text) if "agent" in each and "task" in each]
    nested = [
        step
        for each in json_objects(text)
        if isinstance(each.get("steps"), list)
        for step in cast("list[Any]", each["steps"])
        if isinstance(step, dict)
    ]
    for place, each in enumerate(objects or nested, 1):
        agent, task = each.get("agent"), each.get("task")
        if not isinstance(agent, str) or not isinstance(task, str):
            continue
        name = known.get(agent.strip().casefold())
        if name is None or not task.strip():
            continue
        steps.append(Step(_id(each.get("id"), place), name, task.strip(), _needs(each)))
    if objects or nested:
        return tuple(steps)
    lines = [found for line in text.splitlines() if (found := _LINE.fullmatch(line))]
    for place, found in enumerate(lines, 1):
        name = known.get(found["agent"].strip(" `\"'").casefold())
        if name is not None and found["task"].strip():
            steps.append(Step(str(place), name, found["task"].strip()))
    return tuple(steps)


def _id(said: Any, place: int) -> str:
    return str(said).strip() if isinstance(said, (str, int)) and str(said).strip() else str(place)


def _needs(each: Mapping[str, Any]) -> tuple[str, ...]:
    said: Any = each.get("needs") or ()
    if isinstance(said, (str, int)):
        said = [said]
    if not isinstance(said, Sequence):
        return ()
    # Once each, in order.
    return tuple(dict.fromkeys(str(one).strip() for one in said))


def problems_of_plan(steps: Sequence[Step], max_tasks: int = MAX_TASKS) -> tuple[str, ...]:
    """Everything that is wrong with a plan, a sentence each; empty if it can be carried out.

    Examples:
        >>> one = Step("a", "scout", "Look.", ("b",))
        >>> problems_of_plan([one, Step("b", "scout", "Go.", ("a",))])
        ('the steps wait for one another in a circle: a -> b -> a',)
        >>> problems_of_plan([Step("a", "scout", "Look.", ("c",))])
        ("step 'a' needs 'c', and there is no such step",)
        >>> problems_of_plan([])
        ('there is no step that a member could do',)
    """
    if not steps:
        return ("there is no step that a member could do",)
    problems: list[str] = []
    if len(steps) > max_tasks:
        problems.append(f"there are {len(steps)} steps, and at most {max_tasks} are allowed")
    there: dict[str, Step] = {}
    for step in steps:
        if step.id in there:
            problems.append(f"two steps have the id {step.id!r}")
        there[step.id] = step
    problems.extend(
        f"step {step.id!r} needs {need!r}, and there is no such step"
        for step in steps
        for need in step.needs
        if need not in there
    )
    circle = circle_of({step.id: step.needs for step in there.values()})
    if circle is not None:
        problems.append(f"the steps wait for one another in a circle: {' -> '.join(circle)}")
    return tuple(problems)


def planning_prompt(task: str, members: Mapping[str, Asked], max_tasks: int) -> str:
    """What the planner is asked."""
    return (
        f"Split the request below into at most {max_tasks} steps, each for one of:\n\n"
        f"{roster(members)}\n\n"
        "Answer with a JSON array of objects with `id`, `agent`, `task` and `needs`, the ids of"
        " the steps whose answers a step is to be shown. Steps that need nothing of one another"
        " are done at the same time; each sees its own task and what it needs, and nothing"
        f" else.\n\n## Request\n\n{task}"
    )


class Planned(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a planner came to; its steps are the planner's turns."""

    plan: Plan = Plan()
    """Checked; empty if it failed."""


@frozen(eq=False)
class Planning(Team[Planned]):
    """:func:`make_plan` as a member of a team."""

    planner: Asked = field(converter=member_of)
    members: tuple[Asked, ...] = field(converter=members_of)
    max_tasks: int = field(default=MAX_TASKS, kw_only=True, validator=at_least(1, "steps"))
    corrections: int = field(default=1, kw_only=True, validator=at_least(0, "corrections"))
    name: str = field(default="plan", kw_only=True)
    description: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        by_name(self.members)

    async def play(self, task: str, stage: Stage, /) -> Planned:
        """Ask for a plan, check it whole, and have it corrected."""
        named = by_name(self.members)
        prompt = planning_prompt(task, named, self.max_tasks)
        asked = prompt
        turns: list[Result] = []
        while True:
            turns.append(said := await stage.turn(self.planner, asked))
            if not said.ok:
                return stage.report(said, turns, kind=Planned)
            steps = parse_plan(said.output, tuple(named))
            problems = problems_of_plan(steps, self.max_tasks)
            if not problems:
                return stage.report(said, turns, kind=Planned, plan=Plan(steps))
            if len(turns) > self.corrections:
                break
            # Whole, because a planner of lifetime "task" has forgotten what it was asked.
            asked = (
                f"{prompt}\n\n## Your last answer\n\n{said.output}\n\n## What is wrong with it\n\n"
                + "\n".join(f"- {problem}" for problem in problems)
                + "\n\nAnswer again, with the whole plan."
            )
        quoted = truncate(said.output or "nothing was said", 120)
        why = f"the plan of {name_of(self.planner)} cannot be used: {'; '.join(problems)}: {quoted}"
        refused = stage.refuse(name_of(self.planner), TurnError("protocol", why))
        return stage.report(refused, [*turns, refused], kind=Planned)


async def make_plan(
    planner: Member,
    members: Sequence[Member],
    task: str,
    *,
    max_tasks: int = MAX_TASKS,
    corrections: int = 1,
    **options: Unpack[Options],
) -> Planned:
    """Ask for a plan that `members` could carry out, and check all of it.

    A plan with a step that needs what there is not, with a circle, or with more
    steps than allowed is not used, and not shortened: the planner is told all that is
    wrong, and asked again; then it is a failure that quotes the answer.

    Args:
        planner: who plans; it is shown the names and descriptions of `members`.
        members: who could do a step, at least one; no two of the same name.
        task: what is to be planned.
        max_tasks: steps at most.
        corrections: how often the planner is asked again, at least 0.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member, two have the same name, or a number is too small.
    """
    made = Planning(planner, members, max_tasks=max_tasks, corrections=corrections)
    return await made.ask(task, **options)
