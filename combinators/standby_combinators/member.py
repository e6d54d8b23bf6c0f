"""Who may be a member of a team: whatever can be asked; and how one that is alive already is asked.

A member that was handed in is asked, and never closed: whoever opened it does that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

import msgspec
import trio

from standby_actors.agent import Agent, MindFunction, agent_of
from standby_actors.errors import (
    ActorCrashed,
    ActorStopped,
    AskCycle,
    AskTimeout,
    MailboxFull,
)
from standby_actors.failure import described
from standby_actors.result import Result, TurnError, crash_of, failed, succeeded
from standby_actors.subagent import Subagent
from standby_actors.usage import NOTHING, Usage

from .endings import without_failures


class Askable(Protocol):
    """Whatever answers: a team, a ref, a subagent, a router, a client of your own."""

    def ask(self, task: Any, /) -> Awaitable[Any]:
        """Answer `task`, with a Result or with any other value."""
        ...


Member: TypeAlias = Agent | MindFunction | Askable
"""Whoever can be asked."""

Asked: TypeAlias = Agent | Askable
"""A member as it is asked: of a function, its agent."""


def member_of(who: Member) -> Asked:
    """`who` as it is asked: a function as the agent of its own name, others as they are.

    Raises:
        TypeError: it cannot be asked.

    Examples:
        >>> async def shout(task: str) -> str:
        ...     return task.upper()
        >>> member_of(shout).name
        'shout'
        >>> member_of("shout")
        Traceback (most recent call last):
        ...
        TypeError: a member is an Agent, a function, a team, or has ask() like a Ref, not 'shout'
    """
    if isinstance(who, Agent):
        return who
    if not isinstance(who, type):
        if callable(getattr(who, "ask", None)):
            return cast("Askable", who)
        if callable(who):
            return agent_of(who)
    raise TypeError(
        f"a member is an Agent, a function, a team, or has ask() like a Ref, not {who!r}"
    )


def maybe_member(who: Member | None) -> Asked | None:
    """As :func:`member_of`; None for nobody."""
    return None if who is None else member_of(who)


def members_of(many: Sequence[Member] | Member) -> tuple[Asked, ...]:
    """`many` as they are asked; of one, a tuple of it.

    Raises:
        TypeError: one of them cannot be asked.
        ValueError: there is none.
    """
    if isinstance(many, Sequence) and not isinstance(many, str):
        each = tuple(member_of(who) for who in many)
    else:
        each = (member_of(cast("Any", many)),)
    if not each:
        raise ValueError("a team has at least 1 member")
    return each


def name_of(member: Asked) -> str:
    """What `member` is called: in Results, in prompts, by others.

    Examples:
        >>> name_of(Agent("scout", "Find it."))
        'scout'
    """
    if isinstance(member, Subagent):
        return member.agent.name
    for attribute in ("name", "path", "id"):
        name = getattr(member, attribute, None)
        if isinstance(name, str) and name:
            return name.rsplit("/", 1)[-1]
    return type(member).__name__


def by_name(members: Sequence[Asked]) -> Mapping[str, Asked]:
    """`members` by their names, for whoever chooses among them.

    Raises:
        ValueError: two have the same name, so that nobody could choose.
    """
    named: dict[str, Asked] = {}
    for member in members:
        name = name_of(member)
        if name.casefold() in {each.casefold() for each in named}:
            raise ValueError(f"two members are called {name!r}: nobody could choose between them")
        named[name] = member
    return named


def roster(members: Mapping[str, Asked]) -> str:
    """A line for each of `members`, for whoever chooses among them.

    Examples:
        >>> print(roster(by_name([Agent("scout", "Find it.", description="Finds files.")])))
        - scout: Finds files.
    """
    lines: list[str] = []
    for name, member in members.items():
        what = getattr(member, "description", "")
        lines.append(f"- {name}: {what}" if isinstance(what, str) and what else f"- {name}")
    return "\n".join(lines)


def spent_by(member: object) -> Usage:
    """All that `member` has spent so far, and those below it; nothing, if it does not say."""
    usage = getattr(member, "usage_with_others", None) or getattr(member, "usage", NOTHING)
    return usage if isinstance(usage, Usage) else NOTHING


async def answer_of(member: Askable, task: str) -> Result:
    """What `member` answers to `task`, as a Result; its failure is one too.

    What is no Result is wrapped into one: a str is its output, None no output, and
    of any other value the output is its JSON.
    """
    name, began = name_of(member), trio.current_time()
    try:
        answer: Any = await member.ask(task)
    # A combinator counts failures: whoever cannot answer fails this turn and no other.
    except Exception as error:
        return failed(name, _why(error), usage=_took(began))
    except BaseExceptionGroup as group:
        raise without_failures(group) from None
    if isinstance(answer, Result):
        return answer
    if answer is None or isinstance(answer, str):
        return succeeded(name, answer or "", subagent=_id(member), usage=_took(began))
    try:
        output = msgspec.json.encode(answer).decode()
    except (TypeError, msgspec.MsgspecError):
        output = str(answer)
    return succeeded(name, output, subagent=_id(member), usage=_took(began), value=answer)


def _took(began: float) -> Usage:
    seconds = trio.current_time() - began
    return Usage(turns=1, busy_seconds=seconds, wall_seconds=seconds)


def _id(member: Askable) -> str:
    path = getattr(member, "path", "")
    return path if isinstance(path, str) else ""


def _why(error: Exception) -> TurnError:
    said = str(error) or type(error).__name__
    match error:
        case ActorCrashed():
            cause = error.__cause__ or error
            return TurnError("crash", described(cause)).with_cause(cause)
        case ActorStopped():
            return TurnError("closed", said).with_cause(error)
        case AskTimeout():
            return TurnError("timeout", said, True).with_cause(error)
        case AskCycle():
            return TurnError("would_deadlock", said).with_cause(error)
        case MailboxFull():
            return TurnError("mailbox_full", said, True).with_cause(error)
        case _:
            return crash_of(error)
