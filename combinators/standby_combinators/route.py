"""One chooses who is asked: by name, among those that there are, or nobody is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, Unpack

from attrs import field, frozen

from standby_actors.modeltext import truncate
from standby_actors.result import TurnError

from .endings import attempt
from .member import Asked, Member, by_name, maybe_member, member_of, members_of, name_of, roster
from .options import Options
from .team import Stage, Team
from .trail import Report

Pick: TypeAlias = Callable[[str, Sequence[str]], "str | None"]
"""Which of some names an answer chooses; None for none, or for more than one."""


class Routed(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a route came to."""

    destination: str | None = None
    """Who was asked; None for nobody."""
    fell_back: bool = False
    """Nobody was chosen, and the fallback was asked."""


def pick_name(text: str, names: Sequence[str]) -> str | None:
    """The one of `names` that `text` chooses; None if it names none, or two.

    The whole answer may be a name; else exactly one stands in its last line; else
    exactly one anywhere.  Names count as whole words, whatever their case.

    Examples:
        >>> pick_name("The **scout**.", ["scout", "scout-two"])
        'scout'
        >>> pick_name("Not the scout.\\nWriter", ["scout", "writer"])
        'writer'
        >>> pick_name("scout or writer", ["scout", "writer"]) is None
        True
    """
    bare = text.strip().strip("*_`\"'.# ").casefold()
    for name in names:
        if name.casefold() == bare:
            return name
    lines = [line for line in text.splitlines() if line.strip()]
    for part in (lines[-1] if lines else "", text):
        found = [name for name in names if _stands_in(name, part)]
        if len(found) == 1:
            return found[0]
        if found:
            # Two names are no choice: what the rest of the text says does not make it one.
            return None
    return None


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def routing_prompt(task: str, members: Mapping[str, Asked]) -> str:
    """What the router is asked."""
    return (
        f"Choose who is to answer the request below. There are:\n\n{roster(members)}\n\n"
        f"Answer with one of these names and nothing else.\n\n## Request\n\n{task}"
    )


@frozen(eq=False)
class Route(Team[Routed]):
    """:func:`route` as a member of a team."""

    router: Asked = field(converter=member_of)
    members: tuple[Asked, ...] = field(converter=members_of)
    fallback: Asked | None = field(default=None, kw_only=True, converter=maybe_member)
    pick: Pick = field(default=pick_name, kw_only=True)
    name: str = field(default="route", kw_only=True)
    description: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        by_name(self.members)

    async def play(self, task: str, stage: Stage, /) -> Routed:
        """Ask the router, then the one that it names."""
        named = by_name(self.members)
        routing = await stage.turn(self.router, routing_prompt(task, named))
        if not routing.ok:
            return stage.report(routing, [routing], kind=Routed)
        chosen = attempt("pick()", lambda: self.pick(routing.output, tuple(named)))
        if isinstance(chosen, TurnError):
            return stage.report(routing, [routing], kind=Routed, error=chosen)
        # A parser that makes a name up has chosen nobody.
        destination = named.get(chosen) if chosen is not None else None
        fell_back = destination is None and self.fallback is not None
        if destination is None:
            destination = self.fallback
        if destination is None:
            said = truncate(routing.output or "nothing was said", 80)
            why = f"{name_of(self.router)} chose nobody: {said}"
            refused = stage.refuse(self.name, TurnError("protocol", why))
            return stage.report(refused, [routing, refused], kind=Routed)
        answer = await stage.turn(destination, task)
        return stage.report(
            answer,
            [routing, answer],
            kind=Routed,
            destination=name_of(destination),
            fell_back=fell_back,
        )


async def route(
    router: Member,
    members: Sequence[Member],
    task: str,
    *,
    fallback: Member | None = None,
    pick: Pick = pick_name,
    **options: Unpack[Options],
) -> Routed:
    """Ask the router who is to answer, and then that one, with the task as it is.

    An answer that names nobody, or two, is no choice: then the fallback is asked, or
    the Result is a failure that quotes the answer.  A name is never guessed.  A
    router that fails is the Result.

    The steps of the Report are the router's turn and the answer, which decides.

    Args:
        router: who chooses; it is shown the names and descriptions of `members`.
        members: among whom, at least one; no two of the same name.
        task: what is asked.
        fallback: who is asked when nobody was chosen.
        pick: finds the name in the router's answer.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member, or two have the same name.
    """
    return await Route(router, members, fallback=fallback, pick=pick).ask(task, **options)
