"""Round after round until it is right: what the last one says is what the first is asked."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias, Unpack

from attrs import field, frozen

from standby_actors.result import Result, TurnError

from .chain import with_request
from .checks import at_least
from .endings import raised_by, without_failures
from .member import Asked, Member, members_of
from .options import Options
from .team import Stage, Team
from .trail import Report

Until: TypeAlias = Callable[[Result, int], "bool | Awaitable[bool]"]
"""Given the last step of an iteration, and its number from 1: whether that is enough."""

LoopEnd: TypeAlias = Literal["until", "cap", "stalled", "budget", "failed"]
"""Why a loop came to its end.

`until` said so; the `cap` of iterations was reached; the same was said again and
again (`stalled`); there was no `budget` for another turn; or a step, or `until`
itself, `failed`.
"""

MAX_ITERATIONS = 5
"""Iterations of a loop, unless another number is asked for."""


class Looped(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a loop came to.  Its being `ok` says that every turn was answered, and no more."""

    iterations: int = 0
    """Those that were begun."""
    converged: bool = False
    """It ended because it was good enough; without `until`, because all was played."""
    stopped_by: LoopEnd = "failed"


@frozen(eq=False)
class Loop(Team[Looped]):
    """:func:`loop` as a member of a team."""

    members: tuple[Asked, ...] = field(converter=members_of)
    until: Until | None = field(default=None, kw_only=True)
    max_iterations: int = field(
        default=MAX_ITERATIONS, kw_only=True, validator=at_least(1, "iterations")
    )
    stalled_after: int | None = field(
        default=None, kw_only=True, validator=at_least(2, "equal answers")
    )
    carry_request: bool = field(default=False, kw_only=True)
    name: str = field(default="loop", kw_only=True)
    description: str = field(default="", kw_only=True)

    async def play(self, task: str, stage: Stage, /) -> Looped:
        """Ask all in turn, and again, until it is enough."""
        steps: list[Result] = []
        asked, same = task, 1
        last: Result | None = None

        def ended(by: LoopEnd, iterations: int, error: TurnError | None = None) -> Looped:
            converged = by == "until" or (by == "cap" and self.until is None)
            return stage.report(
                steps[-1],
                steps,
                kind=Looped,
                error=error,
                output=steps[-1].output if error is not None else None,
                iterations=iterations,
                converged=converged,
                stopped_by=by,
            )

        for iteration in range(1, self.max_iterations + 1):
            before = last
            for member in self.members:
                last = await stage.turn(member, asked)
                steps.append(last)
                if not last.ok:
                    return ended("budget" if last.status == "budget" else "failed", iteration)
                asked = with_request(task, last.output) if self.carry_request else last.output
            assert last is not None
            if self.until is not None:
                enough = await _judged(self.until, last, iteration)
                if isinstance(enough, TurnError):
                    return ended("failed", iteration, enough)
                if enough:
                    return ended("until", iteration)
            same = same + 1 if before is not None and before.output == last.output else 1
            if self.stalled_after is not None and same >= self.stalled_after:
                return ended("stalled", iteration)
        return ended("cap", self.max_iterations)


async def loop(
    members: Sequence[Member],
    task: str,
    *,
    until: Until | None = None,
    max_iterations: int = MAX_ITERATIONS,
    stalled_after: int | None = None,
    carry_request: bool = False,
    **options: Unpack[Options],
) -> Looped:
    """Ask the members in turn, as a chain, and begin again with what the last one said.

    After each iteration `until` judges its last step.  Reaching the cap is not
    success: the Report is then `ok` and not `converged`.  A step that fails ends the
    loop and is its Result; so is an `until` that raises, and the steps are kept.

    The steps of the Report are all turns of all iterations, in order.

    Args:
        members: who is asked, at least one.
        task: what the first is asked in the first iteration.
        until: whether an iteration was good enough, awaited if it can be; None to play
            all iterations.
        max_iterations: at most so many, at least 1.
        stalled_after: ends it when so many iterations in a row, at least 2, have
            ended with the same words; None to go on.
        carry_request: everybody but the first is told `task` as well.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member, or a number is too small.

    Examples:
        ``until=lambda step, _: says_word(step.output, "LGTM")``
    """
    made = Loop(
        members,
        until=until,
        max_iterations=max_iterations,
        stalled_after=stalled_after,
        carry_request=carry_request,
    )
    return await made.ask(task, **options)


async def _judged(until: Until, last: Result, iteration: int) -> bool | TurnError:
    try:
        enough: Any = until(last, iteration)
        return bool(await enough if inspect.isawaitable(enough) else enough)
    # A combinator counts failures: to raise here would lose the steps, which were paid for.
    except Exception as error:
        return raised_by(f"after iteration {iteration} until()", error)
    except BaseExceptionGroup as group:
        raise without_failures(group) from None
