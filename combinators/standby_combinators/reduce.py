"""Many Results into one: by one turn, or by a tree of turns where one cannot hold them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, Unpack, cast

from attrs import field, frozen

from standby_actors.agent import Agent
from standby_actors.result import Result, TurnError

from .checks import at_least, check_count
from .endings import attempt
from .fan_out import CONCURRENCY, FanOut, Split, map_concurrent
from .member import Asked, Member, member_of, name_of
from .options import Options
from .team import Stage, Team, open_stage
from .tokens import estimate_tokens
from .trail import Report, join_outputs

Show: TypeAlias = Callable[[Sequence[Result]], str]
"""How Results are put before the one who is to reduce them."""

Prepare: TypeAlias = Callable[[Agent, Sequence[Result]], Agent]
"""The agent as it should be for these Results, such as with a schema made of them."""


async def reduce(
    agent: Member,
    results: Sequence[Result],
    question: str,
    *,
    tokens: int | None = None,
    show: Show | None = None,
    prepare: Prepare | None = None,
    key: str | None = None,
    concurrency: int = CONCURRENCY,
    **options: Unpack[Options],
) -> Report:
    """Ask one agent for one answer out of many.

    A branch that failed is shown as a failure, never left out.  With a bound in
    `tokens`, Results that exceed it together are reduced in groups, the answers
    of the groups again, until one turn holds the rest.  A group whose turn fails
    is shown as a failure to the next.

    The steps of the Report are `results`, then every turn played, in order; the
    last decides how the whole ended.  Its usage is that of the turns played here.

    Args:
        agent: who reduces.
        results: what is reduced, at least one.
        question: what is asked of it; it stands before the Results.
        tokens: most that the Results may take in one turn, as
            `estimate_tokens` counts; None for no bound.
        show: how Results become text; sections with number, name and output
            unless given.
        prepare: changes the agent for each group.
        key: of the turns, followed by their place in the tree as in "sum@0.2";
            the agent's name unless given.
        concurrency: groups that are reduced at the same time.
        options: about the subagents; see :class:`Options`.

    Raises:
        ValueError: `results` is empty, or a number is too small; nothing was spawned.
        ModelError: there is no model to ask.
    """
    if not results:
        raise ValueError("reduce() needs at least one Result")
    if tokens is not None:
        check_count(tokens, "tokens")
    check_count(concurrency, "groups at a time")
    how = _How(tokens, show or _sections, prepare, key, concurrency)
    async with open_stage(**options) as stage:
        return await _reduced(stage, member_of(agent), results, question, how)


@frozen(eq=False)
class Reduce(Team[Report]):
    """:func:`map_reduce` as a member: many are asked, and one makes one answer of what they say.

    Args:
        reducer: who makes one answer; it is shown the team's task, and all steps of
            what was asked, failures included.
        source: who is asked first: a :class:`FanOut`, or any other team.
        tokens: as :func:`reduce` has it.
        name, description: for whoever chooses among members.
    """

    reducer: Asked = field(converter=member_of)
    source: Team[Any]
    tokens: int | None = field(default=None, kw_only=True, validator=at_least(1, "tokens"))
    name: str = field(default="reduce", kw_only=True)
    description: str = field(default="", kw_only=True)

    async def play(self, task: str, stage: Stage, /) -> Report:
        """Ask the source, then the reducer, however much of the source has failed."""
        source = cast("Report", await self.source.play(task, stage.below()))
        if not source.steps:
            return stage.report(source, [])
        how = _How(self.tokens, _sections, None, None, CONCURRENCY)
        done = await _reduced(stage, self.reducer, source.steps, task, how)
        return stage.report(done, done.steps)


async def map_reduce(
    mapper: Member | Sequence[Member],
    reducer: Member,
    task: str,
    *,
    split: Split | None = None,
    tokens: int | None = None,
    concurrency: int = CONCURRENCY,
    **options: Unpack[Options],
) -> Report:
    """Split a task, ask for each part, and make one answer of what was said.

    The steps of the Report are the branches in their order, then the turns of the
    reducer, of which the last decides.  A branch that failed is shown to the
    reducer as a failure.

    Args:
        mapper: who plays the parts; several without `split` are each asked the task.
        reducer: who makes one answer.
        task: what is asked of the whole; the reducer is shown it too.
        split: makes the parts of the task; ``str.splitlines`` is one.
        tokens: most that the reducer is shown in one turn; see :func:`reduce`.
        concurrency: branches at the same time.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member, or a number is too small.
    """
    source = FanOut(mapper, split=split, concurrency=concurrency)
    return await Reduce(reducer, source, tokens=tokens).ask(task, **options)


@frozen
class _How:
    """How Results are put before whoever reduces them."""

    tokens: int | None
    show: Show
    prepare: Prepare | None
    key: str | None
    concurrency: int


async def _reduced(
    stage: Stage, who: Asked, results: Sequence[Result], question: str, how: _How
) -> Report:
    key = name_of(who) if how.key is None else how.key
    show = how.show
    played: list[Result] = []

    async def turn(place: _Place) -> Result:
        if place.alone:
            return place.group[0]
        made = attempt("show() or prepare()", lambda: _made(who, place.group, question, how))
        if isinstance(made, TurnError):
            played.append(stage.refuse(who, made))
            return played[-1]
        player, task = made
        # Groups share no memory. One turn is all there is without a tree.
        branch = f"@{place.at}" if isinstance(player, Agent) or not place.whole else ""
        result = await stage.turn(player, task, key=key, branch=branch)
        played.append(result)
        return result

    level, height = tuple(results), 0
    while height == 0 or len(level) > 1:
        shown = attempt("show()", partial(_shown, show, level))
        if isinstance(shown, TurnError):
            played.append(stage.refuse(who, shown))
            break
        groups = in_groups(shown, how.tokens)
        if groups is None:
            why = f"{len(level)} results do not fit in pairs in the {how.tokens} tokens of a turn"
            played.append(stage.refuse(who, TurnError("context_overflow", why)))
            break
        places = [
            # One that is alone in its group is handed on as it is, unless it is all there is.
            _Place(
                f"{height}.{at}",
                level[start:stop],
                stop - start == 1 < len(groups),
                len(groups) == 1,
            )
            for at, (start, stop) in enumerate(groups)
        ]
        level = tuple(await map_concurrent(turn, places, how.concurrency))
        height += 1
    steps = (*results, *played)
    return stage.report(steps[-1], steps, played=played)


def _made(who: Asked, group: Sequence[Result], question: str, how: _How) -> tuple[Asked, str]:
    """Who is asked for one group, and what."""
    player = who
    if how.prepare is not None and isinstance(who, Agent):
        player = how.prepare(who, group)
    return player, f"{question}\n\n{how.show(group)}"


def _shown(show: Show, level: Sequence[Result]) -> list[str]:
    return [show([each]) for each in level]


@frozen
class _Place:
    """One group in the tree of groups."""

    at: str
    """As in "1.0": the first group of the second level."""
    group: tuple[Result, ...]
    alone: bool
    whole: bool
    """There is no other group on its level."""


def in_groups(texts: Sequence[str], tokens: int | None) -> list[tuple[int, int]] | None:
    """Consecutive groups of `texts` of at most `tokens` each, as few as possible.

    Returns start and stop of each; None if no grouping would make them fewer,
    because a text alone, or any two together, exceed the bound.

    Examples:
        >>> in_groups(["a b", "c d", "e f"], 4)
        [(0, 2), (2, 3)]
        >>> in_groups(["a b", "c d", "e f"], 3) is None
        True
        >>> in_groups(["a b"], None)
        [(0, 1)]
    """
    if tokens is None:
        return [(0, len(texts))]
    groups: list[tuple[int, int]] = []
    start, size = 0, 0
    for place, text in enumerate(texts):
        cost = estimate_tokens(text)
        if cost > tokens:
            return None
        if place > start and size + cost > tokens:
            groups.append((start, place))
            start, size = place, 0
        size += cost
    groups.append((start, len(texts)))
    return groups if len(groups) < len(texts) or len(texts) == 1 else None


def _sections(results: Sequence[Result]) -> str:
    return join_outputs(tuple(results), numbered=True)
