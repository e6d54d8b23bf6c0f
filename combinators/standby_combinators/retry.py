"""What failed is asked again: of the same one, or of the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, Unpack

import attrs
import trio
from attrs import field, frozen

from standby_actors.agent import Agent
from standby_actors.result import Result, TurnError
from standby_supervision import Backoff

from .checks import at_least
from .endings import attempt
from .member import Asked, Member, member_of, members_of, name_of
from .options import Options
from .team import Stage, Team
from .trail import Report

ATTEMPTS = 3
"""How often something is asked at most, unless another number is given."""

When: TypeAlias = Callable[[TurnError], bool]
"""Whether it may help to ask again."""

FINAL = frozenset({"stopped", "aborted", "cancelled"})
"""Kinds of errors after which nobody else is asked either: somebody has called it off."""

_WORTH_IT = frozenset({"timeout", "idle_timeout", "provider", "rate_limited", "crash", "dead"})
_CORRECTABLE = frozenset({"schema", "no_tool", "protocol"})
NO_WAIT = Backoff(0.0, cap=0.0, jitter=0.0)


def worth_retrying(error: TurnError) -> bool:
    """Whether the same task may go better a second time.

    What was stopped, called off or refused for want of a budget stays so.

    Examples:
        >>> worth_retrying(TurnError("provider", "500")), worth_retrying(TurnError("stopped", "s"))
        (True, False)
    """
    if error.kind in FINAL or error.kind == "budget":
        return False
    return error.retryable or error.kind in _WORTH_IT or error.kind in _CORRECTABLE


@frozen(eq=False)
class Retry(Team[Report]):
    """:func:`retry` as a member of a team."""

    member: Asked = field(converter=member_of)
    attempts: int = field(default=ATTEMPTS, kw_only=True, validator=at_least(1, "attempts"))
    backoff: Backoff = field(default=Backoff(0.5), kw_only=True)
    when: When = field(default=worth_retrying, kw_only=True)
    name: str = field(default="retry", kw_only=True)
    description: str = field(default="", kw_only=True)

    async def play(self, task: str, stage: Stage, /) -> Report:
        """Ask, and again while that may help."""
        steps = [await stage.turn(self.member, task)]
        while len(steps) < self.attempts:
            error = steps[-1].error
            if error is None:
                break
            again = attempt("when()", partial(self.when, error))
            if isinstance(again, TurnError):
                return stage.report(steps[-1], steps, error=again)
            if not again:
                break
            asked = task
            if error.kind in _CORRECTABLE:
                # A mind that answered is told at once what was wrong; waiting would not help.
                asked = f"{task}\n\nYour last answer could not be used: {error.message}"
            elif not await _waited(stage, self.backoff.delay(len(steps))):
                assert stage.signal is not None
                assert stage.signal.error is not None
                steps.append(stage.refuse(self.member, stage.signal.error))
                break
            steps.append(await stage.turn(self.member, asked))
        return stage.report(steps[-1], steps)


async def retry(
    member: Member,
    task: str,
    *,
    attempts: int = ATTEMPTS,
    backoff: Backoff = Backoff(0.5),  # noqa: B008 - a value that never changes
    when: When = worth_retrying,
    **options: Unpack[Options],
) -> Report:
    """Ask, and ask again while it fails in a way that asking again may mend.

    An answer that could not be used is asked for again at once, with what was wrong
    with it; what failed on the way to the mind, after a while.  What was stopped or
    called off, or has no budget, is not asked again.

    The steps of the Report are the attempts; the last decides, and all are paid for.

    Args:
        member: who is asked.
        task: what.
        attempts: at most so many, at least 1.
        backoff: how long to wait before each but the first.
        when: which errors are worth another attempt.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: the member cannot be asked; nothing was spawned.
        ValueError: `attempts` is less than 1.
    """
    made = Retry(member, attempts=attempts, backoff=backoff, when=when)
    return await made.ask(task, **options)


@frozen(eq=False)
class Fallback(Team[Report]):
    """:func:`fallback` as a member of a team."""

    members: tuple[Asked, ...] = field(converter=members_of)
    name: str = field(default="fallback", kw_only=True)
    description: str = field(default="", kw_only=True)

    async def play(self, task: str, stage: Stage, /) -> Report:
        """Ask each in turn until one answers."""
        steps: list[Result] = []
        for place, member in enumerate(self.members):
            # Each is asked afresh: one that has failed has nothing for the next to remember.
            result = await stage.turn(member, task, branch=f"#{place}")
            steps.append(result)
            if result.ok or (result.error is not None and result.error.kind in FINAL):
                break
        return stage.report(steps[-1], steps)


async def fallback(
    members: Member | Sequence[Member],
    task: str,
    *,
    models: Sequence[str] = (),
    **options: Unpack[Options],
) -> Report:
    """Ask the first; if it fails, the next; and so on.

    The steps of the Report are those that were asked; the last decides, and all are
    paid for.  After a stop or a signal nobody else is asked.

    Args:
        members: who is asked, in order.
        task: what.
        models: with one agent: the models that it is tried with, in order.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member; or there are `models` and not exactly one
            agent, or a `model` for all as well.
    """
    asked = members_of(members)
    if models:
        asked = _with_models(asked, models)
        if options.get("model") is not None:
            raise ValueError("model= is for all of them: say either that or models=")
    return await Fallback(asked).ask(task, **options)


def _with_models(members: Sequence[Asked], models: Sequence[str]) -> tuple[Asked, ...]:
    if len(members) != 1 or not isinstance(members[0], Agent):
        called = ", ".join(name_of(each) for each in members)
        raise ValueError(f"models= are those of one agent, and there is {called}")
    one = members[0]
    return tuple(attrs.evolve(one, model=model) for model in models)


async def _waited(stage: Stage, seconds: float) -> bool:
    """Wait; False if the signal was set meanwhile."""
    if stage.signal is None:
        await trio.sleep(seconds)
        return True
    with trio.CancelScope() as scope, stage.signal.calling(scope.cancel):
        await trio.sleep(seconds)
    return not stage.signal.is_set
