"""A swarm: members that live on over many turns, hear each other on a board, and share the work."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Any, Literal, TypeAlias, Unpack

import attrs
import trio
from attrs import define, field, frozen

from standby_actors.agent import Agent
from standby_actors.definitions.vocabulary import READING
from standby_actors.result import Result, TurnError
from standby_actors.tools.tool import Tool, ToolOutput, refuse, tool

from .board import Board, Post, PostKind, PostRefused, board_lines
from .checks import at_least
from .claims import Claim, ClaimRefused, Claims
from .endings import raised_by, without_failures
from .fan_out import CONCURRENCY, map_concurrent
from .member import Asked, Member, members_of, name_of
from .options import Options
from .pool import Held
from .race import read_vote
from .team import Stage, Team
from .trail import Report, join_outputs

ROUNDS = 3
"""Turns of each member, unless another number is given."""

SwarmUntil: TypeAlias = Callable[[Board], "bool | Awaitable[bool]"]
"""Whether what stands on the board is enough."""

SwarmEnd: TypeAlias = Literal["until", "rounds", "members", "signal", "quiet", "failed"]
"""Why a swarm came to its end.

`until` said so; all `rounds` were played; no `members` were left; a `signal` was set;
nobody had anything new to hear (`quiet`); or `until` itself `failed`.
"""

_FAILURES = 2
"""Turns that fail in a row, after which a member is dropped."""


class Swarmed(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a swarm came to; it is `ok` if the last turn of every member was."""

    members: tuple[str, ...] = ()
    """What each is called on the board, as in "scout@1"."""
    last: tuple[Result, ...] = ()
    """The last turn of each, in their order."""
    posts: tuple[Post, ...] = ()
    claims: tuple[Claim, ...] = ()
    """As they were at the end, before those who held them were gone."""
    released: tuple[str, ...] = ()
    """What was still held then."""
    rounds: int = 0
    """Turns of whoever had the most."""
    converged: bool = False
    stopped_by: SwarmEnd = "failed"


@define(eq=False)
class _Living:
    """One member while the swarm lasts."""

    name: str
    member: Asked
    held: Held | None = None
    failures: int = 0
    turns: int = 0
    last: Result | None = None

    @property
    def is_dropped(self) -> bool:
        return self.failures >= _FAILURES


@frozen(eq=False)
class Swarm(Team[Swarmed]):
    """:func:`swarm` as a member of a team."""

    members: tuple[Asked, ...] = field(converter=members_of)
    rounds: int = field(default=ROUNDS, kw_only=True, validator=at_least(1, "rounds"))
    board: Board | None = field(default=None, kw_only=True)
    claims: Claims | None = field(default=None, kw_only=True)
    until: SwarmUntil | None = field(default=None, kw_only=True)
    free_running: bool = field(default=False, kw_only=True)
    concurrency: int = field(
        default=CONCURRENCY, kw_only=True, validator=at_least(1, "members at a time")
    )
    name: str = field(default="swarm", kw_only=True)
    description: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.free_running and self.board is None:
            raise ValueError("members that run free are woken by a board: give board=Board()")

    async def play(self, task: str, stage: Stage, /) -> Swarmed:
        """Hold all members, and ask them until it is enough."""
        return await _Course(self, task, stage).play()


@define(eq=False)
class _Course:
    """One play of a swarm."""

    swarm: Swarm
    goal: str
    stage: Stage
    living: list[_Living] = field(factory=list[_Living])
    steps: list[Result] = field(factory=list[Result])
    end: SwarmEnd | None = None
    error: TurnError | None = None

    async def play(self) -> Swarmed:
        swarm = self.swarm
        counts: Counter[str] = Counter()
        for member in swarm.members:
            counts[name_of(member)] += 1
            name = f"{name_of(member)}@{counts[name_of(member)]}"
            self.living.append(_Living(name, self._equipped(member, name)))
        if swarm.board is not None and swarm.board.members is None:
            swarm.board.members = tuple(each.name for each in self.living)
        for each in self.living:
            # All before the first turn: whoever is addressed must be there.
            if isinstance(each.member, Agent):
                each.held = await self.stage.hold(each.member, key=each.name)
        try:
            await (self._run_free() if swarm.free_running else self._run_rounds())
            claims = () if swarm.claims is None else swarm.claims.all()
        finally:
            released = tuple(key for each in self.living for key in self._gone(each))
        return self._report(claims, released)

    # ---- two ways to take turns

    async def _run_rounds(self) -> None:
        for number in range(1, self.swarm.rounds + 1):
            there = [each for each in self.living if not each.is_dropped]
            if not there:
                self.end = "members"
                return

            async def turn(each: _Living, number: int = number) -> Result:
                return await self._turn(each, number)

            self.steps += await map_concurrent(turn, there, self.swarm.concurrency)
            if await self._is_enough():
                return
        self.end = "members" if all(each.is_dropped for each in self.living) else "rounds"

    async def _run_free(self) -> None:
        board, room = self.swarm.board, trio.CapacityLimiter(self.swarm.concurrency)
        assert board is not None
        news = trio.Event()
        at_work = len(self.living)

        def wake() -> None:
            nonlocal news
            news.set()
            news = trio.Event()

        board.on_post(wake)

        async def run(each: _Living) -> None:
            nonlocal at_work
            while self._lasts() and not each.is_dropped and each.turns < self.swarm.rounds:
                async with room:
                    if not self._lasts():
                        break
                    self.steps.append(await self._turn(each, each.turns + 1))
                    if await self._is_enough():
                        break
                if each.failures or each.turns >= self.swarm.rounds:
                    continue
                # Whoever has nothing new to hear waits for mail, or for all to be idle.
                at_work -= 1
                while self._lasts() and not board.has_news(each.name):
                    if at_work == 0:
                        self.end = "quiet"
                        break
                    await news.wait()
                at_work += 1
            at_work -= 1
            wake()

        signal = self.stage.signal
        watched = nullcontext() if signal is None else signal.calling(wake)
        with watched:
            async with trio.open_nursery() as nursery:
                for each in self.living:
                    nursery.start_soon(run, each)
        if all(each.is_dropped for each in self.living):
            self.end = "members"
        self.end = self.end or "rounds"

    def _lasts(self) -> bool:
        signal = self.stage.signal
        if self.end is None and signal is not None and signal.is_set and self.steps:
            self.end = "signal"
        return self.end is None

    async def _turn(self, each: _Living, number: int) -> Result:
        claims = self.swarm.claims
        if claims is not None:
            claims.renew(each.name)
        task = self._told(each, number)
        if each.held is None:
            result = await self.stage.turn(each.member, task, branch=f"@{each.name}")
        else:
            result = await each.held.ask(task)
        each.last = result
        each.turns += 1
        each.failures = 0 if result.ok else each.failures + 1
        if claims is not None:
            claims.renew(each.name)
        if result.error is not None and result.error.kind in ("crash", "dead", "closed"):
            # Its key is free again: the next turn is another life of the same member.
            self._gone(each)
            if each.held is not None and isinstance(each.member, Agent) and not each.is_dropped:
                each.held = await self.stage.hold(each.member, key=each.name)
        elif each.is_dropped or (result.error is not None and result.error.kind == "stopped"):
            self._gone(each)
        return result

    async def _is_enough(self) -> bool:
        signal = self.stage.signal
        if signal is not None and signal.is_set:
            self.end = "signal"
            return True
        if self.swarm.until is None or self.swarm.board is None:
            return False
        try:
            enough: Any = self.swarm.until(self.swarm.board)
            if not (await enough if inspect.isawaitable(enough) else enough):
                return False
            self.end = "until"
        # A combinator counts failures: to raise here would lose the turns, which were paid for.
        except Exception as error:
            self.end, self.error = "failed", raised_by("until()", error)
        except BaseExceptionGroup as group:
            raise without_failures(group) from None
        return True

    def _gone(self, each: _Living) -> tuple[str, ...]:
        return () if self.swarm.claims is None else self.swarm.claims.release_all(each.name)

    # ---- what a member is told, and what it may do

    def _told(self, each: _Living, number: int) -> str:
        swarm = self.swarm
        parts = [self.goal]
        if swarm.board is not None:
            mine = [post.id for post in swarm.board.posts if post.by == each.name]
            new = swarm.board.handout(each.name).posts
            lines = board_lines(new, each.name, mine) or "Nothing."
            parts.append(f"You are {each.name}.\n\n## New on the board\n\n{lines}")
        if swarm.claims is not None:
            free = ", ".join(swarm.claims.free())
            mine = list(swarm.claims.held(each.name))
            parts.append(
                f"## Free to take\n\n{free or 'Nothing that was listed.'}"
                + (f"\n\nYou hold: {', '.join(mine)}" if mine else "")
            )
        if swarm.rounds > 1:
            parts.append(
                f"This is turn {number} of at most {swarm.rounds}."
                + (
                    " What others post reaches you at your next turn."
                    if swarm.board is not None
                    else ""
                )
            )
        return "\n\n".join(parts)

    def _equipped(self, member: Asked, name: str) -> Asked:
        """An agent of a model with the tool for board and claims besides its own."""
        swarm = self.swarm
        no_tool = swarm.board is None and swarm.claims is None
        if no_tool or not isinstance(member, Agent) or member.is_function:
            return member
        own = member.tools
        if own is None:
            own = READING if member.source is not None else ()
        return attrs.evolve(member, tools=(*own, board_tool(name, swarm.board, swarm.claims)))

    def _report(self, claims: tuple[Claim, ...], released: tuple[str, ...]) -> Swarmed:
        last = tuple(each.last for each in self.living if each.last is not None)
        deciding = next((each for each in last if not each.ok), last[-1])
        board = self.swarm.board
        output = last[0].output if len(last) == 1 else join_outputs(last)
        return self.stage.report(
            deciding,
            self.steps,
            kind=Swarmed,
            output=output,
            error=self.error,
            members=tuple(each.name for each in self.living),
            last=last,
            posts=() if board is None else board.posts,
            claims=claims,
            released=released,
            rounds=max(each.turns for each in self.living),
            converged=self.end == "until",
            stopped_by=self.end or "rounds",
        )


def board_tool(name: str, board: Board | None, claims: Claims | None) -> Tool:
    """The tool `board` of the member called `name`: what it says is stamped with that name.

    Args:
        name: of the member.
        board: where it posts and reads; None for none.
        claims: what it takes and gives up; None for none.
    """

    # Async, though it waits for nothing: a plain function would run in a thread.
    @tool(name="board", in_order=True)
    async def use(
        action: Literal["post", "read", "take", "done", "release"],
        text: str = "",
        kind: PostKind = "tell",
        to: str = "",
        re: str = "",
        key: str = "",
    ) -> ToolOutput:
        """Talk to the other members, and share the work with them.

        Args:
            action: post a text; read what is new; take a key, before you work on it; say
                that a key is done, with its result as the text; release a key undone.
            text: what you say.
            kind: of the post.
            to: one member; empty for all.
            re: the id of the post that you answer.
            key: what you take, have done, or release.
        """
        if claims is not None:
            claims.renew(name)
        if action in ("post", "read"):
            if board is None:
                return refuse("there is no board here")
            if action == "read":
                handout = board.handout(name, 25)
                lines = board_lines(handout.posts, name) or "Nothing new."
                more = f"\n{handout.waiting} more wait." if handout.waiting else ""
                return ToolOutput(lines + more)
            post = board.post(name, kind, text, to=to, re=re)
            if isinstance(post, PostRefused):
                return refuse(post.reason)
            return ToolOutput(f"Posted as {post.id}.")
        if claims is None:
            return refuse("there is nothing to claim here")
        if action == "take":
            claim = claims.take(name, key)
        elif action == "done":
            claim = claims.finish(name, key, text)
        else:
            claim = claims.release(name, key)
        if isinstance(claim, ClaimRefused):
            return refuse(claim.reason)
        return ToolOutput(f"{claim.key} is {claim.state}.")

    return use


def agreed(voters: int) -> SwarmUntil:
    """A condition: so many members vote for the same, each by the last line ``VOTE: x`` it posted.

    Only posts of kind `result` vote.  A member that is gone has not voted, so that it
    never takes fewer than `voters`.

    Examples:
        >>> board = Board(clock=lambda: 0.0)
        >>> for who, what in (("a", "no"), ("b", "yes"), ("a", "Yes.")):
        ...     _ = board.post(who, "result", f"VOTE: {what}")
        >>> agreed(2)(board), agreed(3)(board)
        (True, False)
    """

    def enough(board: Board) -> bool:
        votes = {
            post.by: choice
            for post in board.posts
            if post.kind == "result" and (choice := read_vote(post.text)) is not None
        }
        return len(votes) >= voters and len(set(votes.values())) == 1

    return enough


AGREEMENT_INSTRUCTION = (
    "When you have made up your mind, post a result whose last line says what you vote for,"
    " as in:\nVOTE: yes"
)
"""What members are told, so that :func:`agreed` can read them."""


async def swarm(
    members: Sequence[Member],
    goal: str,
    *,
    rounds: int = ROUNDS,
    board: Board | None = None,
    claims: Claims | None = None,
    until: SwarmUntil | None = None,
    free_running: bool = False,
    concurrency: int = CONCURRENCY,
    **options: Unpack[Options],
) -> Swarmed:
    """Have members work on one goal, each over several turns, hearing each other.

    All are held before the first turn, whatever their lifetime, and closed at the end.
    In rounds, each has one turn, told what is new on the board for it; running free,
    each has its next turn as soon as there is something new.  A member whose turn
    fails has another one; after two in a row it is dropped.  What it holds is free at
    once when it crashes, is stopped, or is dropped.

    Without a board and claims, one round is a fan-out.

    Args:
        members: who takes part; the same agent may stand here several times.
        goal: what each is told at every turn.
        rounds: turns of each at most, at least 1.
        board: where they talk; agents of models get a tool for it.
        claims: what they share.
        until: read after every round, or turn; `agreed(n)` is one.
        free_running: no rounds; needs a board.
        concurrency: members at work at the same time.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: a member cannot be asked; nothing was spawned.
        ValueError: there is no member, a number is too small, or no board to run free on.
    """
    made = Swarm(
        members,
        rounds=rounds,
        board=board,
        claims=claims,
        until=until,
        free_running=free_running,
        concurrency=concurrency,
    )
    return await made.ask(goal, **options)
