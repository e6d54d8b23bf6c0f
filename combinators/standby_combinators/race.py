"""Many are asked the same, and one answer is taken: the first, a spare's, or the one most give."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

import trio
from attrs import field, frozen

from standby_actors.result import Result, TurnError

from .checks import at_least, check_seconds
from .endings import attempt
from .fan_out import CONCURRENCY, FanOut
from .member import Asked, Member, members_of
from .options import Options
from .signal import signal_below
from .team import Stage, Team
from .trail import Report


@frozen(eq=False)
class Race(Team[Report]):
    """:func:`race` as a member of a team."""

    members: tuple[Asked, ...] = field(converter=members_of)
    name: str = field(default="race", kw_only=True)
    description: str = field(default="", kw_only=True)

    async def play(self, task: str, stage: Stage, /) -> Report:
        """Ask all at once; the first answer cuts the others."""
        runners = FanOut(self.members, first=True, concurrency=len(self.members))
        return await runners.play(task, stage)


async def race(members: Sequence[Member], task: str, **options: Unpack[Options]) -> Report:
    """Ask all of them at once, and take the first answer.

    The others are cut, and have ended, when this returns: they are `cancelled`, and
    cost what they have cost.  A failure is no answer; if all fail, it is the first
    of them in the order of `members`.

    The steps of the Report are one for each member, in their order.

    Args:
        members: who is asked, at least one.
        task: what.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member.
    """
    return await Race(members).ask(task, **options)


@frozen(eq=False)
class Hedge(Team[Report]):
    """:func:`hedge` as a member of a team."""

    members: tuple[Asked, ...] = field(converter=members_of)
    after: float = field(kw_only=True, validator=check_seconds)
    name: str = field(default="hedge", kw_only=True)
    description: str = field(default="", kw_only=True)

    async def play(self, task: str, stage: Stage, /) -> Report:
        """Ask the first, and a spare whenever there is still no answer."""
        results: list[Result | None] = [None] * len(self.members)
        won: list[Result] = []
        with signal_below(stage.signal) as cut:
            below = stage.below(signal=cut)

            async def runner(place: int, failed: trio.Event) -> None:
                member = self.members[place]
                result = results[place] = await below.turn(member, task, branch=f"#{place}")
                if not result.ok:
                    failed.set()
                elif not won:
                    won.append(result)
                    cut.set("another had answered", kind="cancelled")

            async with trio.open_nursery() as nursery:
                over = trio.Event()
                with cut.calling(over.set):
                    for place in range(len(self.members)):
                        failed = trio.Event()
                        nursery.start_soon(runner, place, failed)
                        with trio.move_on_after(self.after):
                            await _either(over, failed)
                        if cut.is_set:
                            break
        steps = [
            stage.unstarted(self.members[place]) if each is None else each
            for place, each in enumerate(results)
        ]
        first = next((each for each in steps if not each.ok), steps[-1])
        return stage.report(won[0] if won else first, steps)


async def hedge(
    members: Sequence[Member],
    task: str,
    *,
    after: float,
    **options: Unpack[Options],
) -> Report:
    """Ask the first, and one more each time that no answer has come within `after` seconds.

    A spare is asked at once when the one before it fails.  The first answer cuts
    the others, as in :func:`race`; those that were not needed are `not_started`.

    Args:
        members: the first and its spares; the same one may stand here more than once,
            and shares no memory with itself.
        task: what is asked.
        after: seconds until the next is asked, at least 0.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member, or `after` is no such number.
    """
    return await Hedge(members, after=after).ask(task, **options)


async def _either(one: trio.Event, other: trio.Event) -> None:
    async with trio.open_nursery() as nursery:

        async def until(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(until, one)
        nursery.start_soon(until, other)


ReadVote = Callable[[str], "str | None"]
"""What an answer votes for; None for an answer that votes for nothing."""

_VOTE = re.compile(r"[\s>*_`#-]*vote[\s*_`]*:(?P<choice>.*)", re.IGNORECASE)
_DRESS = " \t\"'`*_.,;:!?()[]"

VOTE_INSTRUCTION = "End with one line that says what you vote for, as in:\nVOTE: yes"
"""What voters are told, so that :func:`read_vote` can read them."""


def read_vote(text: str) -> str | None:
    """What the first line ``VOTE: x`` of `text` votes for; None without one.

    Case, quotation marks and decoration do not count.

    Examples:
        >>> read_vote('I think so.\\n**VOTE:** "Yes".'), read_vote("VOTE: maybe not")
        ('yes', 'maybe not')
        >>> read_vote("I would vote yes") is None
        True
    """
    for line in text.splitlines():
        if found := _VOTE.fullmatch(line.strip()):
            choice = " ".join(found["choice"].strip(_DRESS).casefold().split())
            return choice or None
    return None


class Voted(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a vote came to.  Its being `ok` says that enough have voted, not that they agree."""

    choice: str | None = None
    """What was voted for by enough; None while it is not decided."""
    counts: Mapping[str, int] = {}
    """Votes for each choice."""
    invalid: int = 0
    """Answers that voted for nothing, and members that failed."""

    @property
    def decided(self) -> bool:
        """Whether one choice has enough votes."""
        return self.choice is not None


@frozen(eq=False)
class Vote(Team[Voted]):
    """:func:`vote` as a member of a team."""

    members: tuple[Asked, ...] = field(converter=members_of)
    quorum: int | None = field(default=None, kw_only=True, validator=at_least(1, "votes"))
    read: ReadVote = field(default=read_vote, kw_only=True)
    instruction: str = field(default=VOTE_INSTRUCTION, kw_only=True)
    concurrency: int = field(
        default=CONCURRENCY, kw_only=True, validator=at_least(1, "branches at a time")
    )
    name: str = field(default="vote", kw_only=True)
    description: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.quorum is not None and self.quorum > len(self.members):
            raise ValueError(f"{len(self.members)} voters cannot give {self.quorum} votes")

    async def play(self, task: str, stage: Stage, /) -> Voted:
        """Ask all, and count."""
        asked = f"{task}\n\n{self.instruction}" if self.instruction else task
        voters = FanOut(self.members, concurrency=self.concurrency)
        steps = (await voters.play(asked, stage.below())).steps
        votes = attempt(
            "read()", lambda: [self.read(each.output) if each.ok else None for each in steps]
        )
        if isinstance(votes, TurnError):
            return stage.report(steps[0], steps, kind=Voted, error=votes)
        counts = Counter(each for each in votes if each is not None)
        needed = self.quorum if self.quorum is not None else len(self.members) // 2 + 1
        (best, most), *others = counts.most_common() or [("", 0)]
        tied = bool(others) and others[0][1] == most
        choice = best if most >= needed and not tied else None
        deciding = next((s for s, v in zip(steps, votes, strict=True) if v == best and v), steps[0])
        error: TurnError | None = None
        if not counts:
            error = next((each.error for each in steps if each.error is not None), None)
            error = error or TurnError("protocol", f"none of {len(steps)} voted for anything")
        tally = ", ".join(f"{name}: {count}" for name, count in counts.most_common())
        return stage.report(
            deciding,
            steps,
            kind=Voted,
            output=tally if choice is None else choice,
            error=error,
            choice=choice,
            counts=dict(counts),
            invalid=votes.count(None),
        )


async def vote(
    members: Sequence[Member],
    task: str,
    *,
    quorum: int | None = None,
    read: ReadVote = read_vote,
    instruction: str = VOTE_INSTRUCTION,
    concurrency: int = CONCURRENCY,
    **options: Unpack[Options],
) -> Voted:
    """Ask all of them the same, and count what they vote for.

    Its output is the choice, or the tally if none has enough votes, which is no
    failure: look at `decided`.  It is not `ok` if nobody has voted for anything.  A
    member that fails, or whose answer is no vote, never counts for a choice.

    Args:
        members: who votes, at least one; none sees what another says.
        task: what is asked.
        quorum: votes that a choice needs; more than half of the members unless given.
            Of two choices that both have enough, the one with more votes wins, and
            neither if they are equal.
        read: finds the vote in an answer.
        instruction: what is added to the task, so that it can; empty for nothing.
        concurrency: voters at the same time.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member, or more votes are needed than there are voters.
    """
    made = Vote(members, quorum=quorum, read=read, instruction=instruction, concurrency=concurrency)
    return await made.ask(task, **options)
