"""The same work for many, side by side: in order, bounded, each on its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, Unpack, cast

import trio
from attrs import field, frozen

from standby_actors.agent_checks import check_task
from standby_actors.result import Result, TurnError, failed, succeeded

from .checks import at_least, check_count
from .copies import Copies
from .endings import attempt
from .member import Asked, Member, members_of, name_of
from .options import Options
from .patches import Patch
from .signal import Signal, signal_below
from .team import Stage, Team, open_stage
from .trail import join_outputs
from .writers import Copied, CopiesLike, copies_for, settle, turn_in_copy


class FannedOut(Copied, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What the branches of a fan-out came to; with copies also what became of their changes."""


T = TypeVar("T")
R = TypeVar("R")

CONCURRENCY = 4
"""Branches that run at the same time, unless another number is asked for."""

Split = Callable[[str], Sequence[str]]
"""Makes of one task those of the branches."""


async def map_concurrent(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], concurrency: int = CONCURRENCY
) -> list[R]:
    """What `work` makes of each of `items`, in their order, `concurrency` at a time.

    They begin in order.  If one raises, the others are cancelled, and have
    ended when the error is raised, in an ``ExceptionGroup`` as trio has it.

    Raises:
        ValueError: `concurrency` is less than 1.
    """
    check_count(concurrency, "branches at a time")
    waiting = list(items)
    made: list[R | None] = [None] * len(waiting)
    pending = iter(enumerate(waiting))

    async def worker() -> None:
        for place, item in pending:
            made[place] = await work(item)

    async with trio.open_nursery() as nursery:
        for _ in range(min(concurrency, len(waiting))):
            nursery.start_soon(worker)
    return cast("list[R]", made)


@frozen(eq=False)
class FanOut(Team[FannedOut]):
    """:func:`fan_out` as a member of a team: every branch is asked what the team is asked.

    Args:
        members: who plays, a branch each; with `split` one member may play all.
        split: makes of the team's task those of the branches.
        concurrency, fail_fast, quorum, first, copies: as :func:`fan_out` has them.
        name, description: for whoever chooses among members.
    """

    members: tuple[Asked, ...] = field(converter=members_of)
    split: Split | None = field(default=None, kw_only=True)
    concurrency: int = field(
        default=CONCURRENCY, kw_only=True, validator=at_least(1, "branches at a time")
    )
    fail_fast: bool = field(default=False, kw_only=True)
    quorum: int | None = field(default=None, kw_only=True, validator=at_least(1, "answers"))
    first: bool = field(default=False, kw_only=True)
    copies: CopiesLike | None = field(default=None, kw_only=True)
    name: str = field(default="fan_out", kw_only=True)
    description: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.split is None:
            _enough(self.quorum, self.first, len(self.members))

    async def play(self, task: str, stage: Stage, /) -> FannedOut:
        """Ask all of them, side by side."""
        made = attempt("split()", lambda: self._parts(task))
        if isinstance(made, TurnError):
            refused = stage.refuse(self.name, made)
            return stage.report(refused, [refused], kind=FannedOut)
        members, tasks, enough = made
        branches = _Branches(
            stage, members, tasks, self.concurrency, self.fail_fast, enough, self.first, self.copies
        )
        return await branches.play()

    def _parts(self, task: str) -> tuple[Sequence[Asked], Sequence[str], int | None]:
        """Who plays, what they are asked, and how many answers are enough."""
        if self.split is None:
            enough = _enough(self.quorum, self.first, len(self.members))
            return self.members, [task] * len(self.members), enough
        tasks = list(self.split(task))
        for each in tasks:
            check_task(each)
        members = _each(self.members, len(tasks))
        return members, tasks, _enough(self.quorum, self.first, len(tasks)) if tasks else None


async def fan_out(
    agent: Member | Sequence[Member],
    tasks: Sequence[str] | str,
    *,
    concurrency: int = CONCURRENCY,
    fail_fast: bool = False,
    quorum: int | None = None,
    first: bool = False,
    copies: CopiesLike | None = None,
    **options: Unpack[Options],
) -> FannedOut:
    """Ask one many tasks, each of many its own, or all of many the same.

    The steps of the Report are the Results, in the order of `tasks`.  A branch
    that fails keeps its place, and the others do not notice.  No two branches
    share a memory, whatever the lifetime.

    As one Result it is that of the first branch that failed, else of the last; its
    output is that of all branches.  With `quorum` it is `ok` if so many have
    answered, and its output is theirs.  What `fail_fast`, `quorum` and `first` make
    superfluous is cut at once: a branch in flight ends `cancelled`, and costs what
    it has cost; one that had not begun is `not_started`.

    When this returns, raises, or is cancelled, every subagent is closed.

    Args:
        agent: who plays; of several, one for each task.
        tasks: what is asked; none is answered with no steps.  A single text is asked
            of everybody.
        concurrency: branches at the same time, at least 1.
        fail_fast: a failure cuts the others, or, with `quorum`, one failure too many.
        quorum: so many answers are enough, 1 to the number of branches.
        first: one answer is enough: a quorum of 1, whose Result is that answer.
        copies: a folder in a git repository, or copies of one that are open.  Each branch
            then works in a copy of its own, and when all have ended the changes of
            those that are ok are landed, in the order of the branches: see `patches`
            and :func:`~standby_combinators.copies.open_copies`.
        options: about the subagents; see :class:`Options`.

    Raises:
        ValueError: there are not as many agents as tasks, or a number is out of its
            range; nothing was spawned.
        TypeError: a member cannot be asked, or a task is no text; nothing was spawned.
        ModelError: there is no model to ask.
        CannotCopy: there are to be copies and none can be made; nothing was spawned.
    """
    members, tasks, enough = _checked(agent, tasks, concurrency, quorum, first)
    async with open_stage(**options) as stage:
        return await _Branches(
            stage, members, tasks, concurrency, fail_fast, enough, first, copies
        ).play()


class Landing:
    """A fan-out in progress: ``async for place, result in landing``.

    Results come as they land; `place` is the branch's, from 0.  The loop ends with the
    last of them.  Make one with :func:`open_fan_out`.
    """

    def __init__(self, branches: _Branches, landed: trio.MemoryReceiveChannel[int]) -> None:
        self._branches = branches
        self._landed = landed

    def __aiter__(self) -> Landing:
        return self

    async def __anext__(self) -> tuple[int, Result]:
        try:
            place = await self._landed.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        result = self._branches.results[place]
        assert result is not None
        return place, result

    @property
    def report(self) -> FannedOut:
        """The whole, as :func:`fan_out` returns it; what has not ended by now is `not_started`."""
        return self._branches.report()


@asynccontextmanager
async def open_fan_out(
    agent: Member | Sequence[Member],
    tasks: Sequence[str] | str,
    *,
    concurrency: int = CONCURRENCY,
    fail_fast: bool = False,
    quorum: int | None = None,
    first: bool = False,
    copies: CopiesLike | None = None,
    **options: Unpack[Options],
) -> AsyncGenerator[Landing]:
    """As :func:`fan_out`, and hand out each Result when it lands.

    ``async with open_fan_out(scout, files) as landing: async for place, result in landing: …``

    Whoever leaves the block early cuts the rest.  After it :attr:`Landing.report` is
    the whole, complete.

    Args and raises: see :func:`fan_out`.
    """
    members, tasks, enough = _checked(agent, tasks, concurrency, quorum, first)
    # Room for all: a branch never waits for whoever reads.
    landed, landing = trio.open_memory_channel[int](len(tasks))
    async with open_stage(**options) as stage, trio.open_nursery() as nursery:
        with signal_below(stage.signal) as left:
            stage.signal = left
            branches = _Branches(
                stage, members, tasks, concurrency, fail_fast, enough, first, copies
            )
            branches.landed = landed
            nursery.start_soon(branches.play)
            try:
                yield Landing(branches, landing)
            finally:
                left.set("nobody waits for it any more", kind="cancelled")
                # Its branches end in order, each within its own bound.
                with trio.CancelScope(shield=True):
                    await branches.over.wait()


class _Branches:
    """The branches of one fan-out."""

    def __init__(
        self,
        stage: Stage,
        members: Sequence[Asked],
        tasks: Sequence[str],
        concurrency: int,
        fail_fast: bool = False,
        enough: int | None = None,
        first: bool = False,
        copies: CopiesLike | None = None,
    ) -> None:
        self.stage = stage
        self.members = members
        self.tasks = tasks
        self.concurrency = concurrency
        self.fail_fast = fail_fast
        self.enough = enough
        self.first = first
        self.copies = copies
        self.opened: Copies | None = None
        self.places: dict[int, int] = {}
        """Of each branch that had a copy, the place of that."""
        self.patches: tuple[Patch, ...] = ()
        self.results: list[Result | None] = [None] * len(tasks)
        self.landed: trio.MemorySendChannel[int] | None = None
        self.over = trio.Event()
        self.good: list[int] = []
        """Places of the answers, as they came; only where so many are enough."""
        self.bad = 0
        self.deciding: Result | None = None
        """The branch that decided the whole before all had ended."""

    async def play(self) -> FannedOut:
        try:
            if self.copies is None:
                await self._play_all()
            else:
                async with copies_for(self.copies, self.stage) as self.opened:
                    await self._play_all()
                    await self._settle(self.opened)
        finally:
            self.over.set()
            if self.landed is not None:
                self.landed.close()
        return self.report()

    async def _play_all(self) -> None:
        if self.fail_fast or self.enough is not None:
            with signal_below(self.stage.signal) as cut:
                await self._play(cut)
        else:
            await self._play(None)

    async def _settle(self, copies: Copies) -> None:
        """Land what the branches have changed: of those that were needed."""
        needed = set(range(len(self.tasks)))
        if self.enough is not None and len(self.good) >= self.enough:
            needed = set(self.good[: self.enough])
        places = [at for place, at in self.places.items() if place in needed]
        spare = [at for place, at in self.places.items() if place not in needed]
        self.patches = await settle(copies, places, self.stage, spare=spare)

    async def _copied(self, copies: Copies, stage: Stage, place: int) -> Result:
        member, task = self.members[place], self.tasks[place]
        result, copy = await turn_in_copy(stage, copies, member, task, branch=f"#{place}")
        if copy is not None:
            self.places[place] = copy
        return result

    async def _play(self, cut: Signal | None) -> None:
        # One iterator for all: whoever is free takes the next, and no branch has a task.
        pending = iter(range(len(self.tasks)))
        stage = self.stage if cut is None else self.stage.below(signal=cut)
        members, tasks, results = self.members, self.tasks, self.results

        async def worker() -> None:
            for place in pending:
                member = members[place]
                if cut is not None and cut.is_set:
                    result = self.stage.unstarted(member)
                else:
                    if self.opened is None:
                        result = await stage.turn(member, tasks[place], branch=f"#{place}")
                    else:
                        result = await self._copied(self.opened, stage, place)
                results[place] = result
                if cut is not None:
                    self._weigh(place, result, cut)
                if self.landed is not None:
                    self.landed.send_nowait(place)

        workers = min(self.concurrency, len(self.tasks))
        if workers == 1:
            await worker()
            return
        async with trio.open_nursery() as nursery:
            for _ in range(workers):
                nursery.start_soon(worker)

    def _weigh(self, place: int, result: Result, cut: Signal) -> None:
        """Cut the rest, if this decides the whole."""
        if result.ok:
            # Also one that came in at the moment of a cut: it is an answer, and paid for.
            self.good.append(place)
            if self.enough is not None and len(self.good) == self.enough:
                self.deciding = result
                were = "1 answer was" if self.enough == 1 else f"{self.enough} answers were"
                cut.set(f"{were} enough", kind="cancelled")
            return
        if cut.is_set:
            return
        self.bad += 1
        spare = 0 if self.enough is None else len(self.tasks) - self.enough
        if self.fail_fast and self.bad > spare:
            self.deciding = result
            why = f"{name_of(self.members[place])} in branch {place} had failed"
            cut.set(why, kind="cancelled")

    def report(self) -> FannedOut:
        results = tuple(
            failed(name_of(self.members[place]), "not_started") if result is None else result
            for place, result in enumerate(self.results)
        )
        deciding = self.deciding
        if deciding is None:
            deciding = next((each for each in results if not each.ok), None)
        if deciding is None:
            deciding = results[-1] if results else succeeded("fan_out", "")
        if self.first and deciding.ok and results:
            return self._whole(deciding, results)
        shown = results
        if self.enough is not None and deciding.ok:
            shown = tuple(results[place] for place in sorted(self.good[: self.enough]))
        output = shown[0].output if len(results) == 1 else join_outputs(shown)
        return self._whole(deciding, results, output)

    def _whole(
        self, deciding: Result, results: tuple[Result, ...], output: str | None = None
    ) -> FannedOut:
        return self.stage.report(
            deciding, results, kind=FannedOut, output=output, patches=self.patches
        )


def _checked(
    agent: Member | Sequence[Member],
    tasks: Sequence[str] | str,
    concurrency: int,
    quorum: int | None,
    first: bool,
) -> tuple[Sequence[Asked], Sequence[str], int | None]:
    """Who plays, what they are asked, and how many answers are enough."""
    members, tasks = _paired(agent, tasks)
    for task in tasks:
        check_task(task)
    check_count(concurrency, "branches at a time")
    if quorum is not None:
        check_count(quorum, "answers")
    return members, tasks, _enough(quorum, first, len(tasks)) if tasks else None


def _paired(
    agent: Member | Sequence[Member], tasks: Sequence[str] | str
) -> tuple[Sequence[Asked], Sequence[str]]:
    if isinstance(agent, Sequence) and not agent and not isinstance(tasks, str) and not tasks:
        return (), ()
    members = members_of(agent)
    if isinstance(tasks, str):
        # Not a task for each letter, though a str is a sequence of them.
        return members, [tasks] * len(members)
    return _each(members, len(tasks), one=not isinstance(agent, Sequence)), tasks


def _each(members: Sequence[Asked], count: int, *, one: bool = True) -> Sequence[Asked]:
    if len(members) == 1 and one:
        return list(members) * count
    if len(members) != count:
        raise ValueError(f"each task has an agent: {len(members)} agents for {count} tasks")
    return members


def _enough(quorum: int | None, first: bool, branches: int) -> int | None:
    if first and quorum not in (None, 1):
        raise ValueError(f"first=True is a quorum of 1: say one of the two, not quorum={quorum}")
    if first:
        return 1
    if quorum is not None and quorum > branches:
        raise ValueError(f"a quorum of {quorum} cannot be reached by {branches} branches")
    return quorum
