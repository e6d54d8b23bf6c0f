"""A subagent: an actor whose mind is a session, owned by the block that spawned it."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast
from weakref import WeakKeyDictionary

import msgspec
import trio
from attrs import define, field

from .actor import Actor, started
from .agent import (
    Agent,
    Lifetime,
    LifetimeSource,
    Limits,
    MindFunction,
    agent_of,
    has_others,
    resolve_lifetime,
)
from .agent_checks import check_task, check_timeout
from .budget import Budget, Refusal
from .cell import Cell, as_cell
from .errors import ActorCrashed, ActorStopped, AskCycle, AskTimeout, MailboxFull
from .exits import ExitReason
from .ids import next_id
from .ids import reset_ids as reset_ids
from .kind import Kind, kind_of
from .mind import CLOSE_SECONDS, GRACE_SECONDS, Mind, Order
from .mind import Closed as Closed
from .nursery import Nursery, open_nursery
from .opening import Minds, at_hand, opener
from .prices import LIST_PRICES, Prices, price_of
from .ref import Ref
from .reply import Reply
from .result import Attachment, ChatMessage, Result, TurnError, crash_of
from .sendable import sendable
from .session import Handoff, Memory, Session, SessionEvent, Steering, ignore
from .sittings import NoSummary
from .streaming import Stream
from .usage import Usage


@define(eq=False)
class _Lodging:
    """A subagent that lives in a block, and how many blocks hold it now."""

    subagent: Subagent
    guests: int = 0


@define(eq=False)
class _Resident:
    """The subagent of one agent and key in a block that is a session."""

    opening: trio.Lock = field(factory=trio.Lock)
    there: _Lodging | None = None


START_SECONDS = 150.0
"""For a session to open.  Whatever it opens has limits of its own, which tell more: a
coding agent 60 seconds, and as many again where it has lost its conversation."""
_residents: WeakKeyDictionary[Nursery, dict[tuple[Agent, str], _Resident]] = WeakKeyDictionary()


class SubagentOptions(Minds, total=False):
    """What may be said of a subagent where it is spawned; its agent says the rest."""

    lifetime: Lifetime | None
    """What is asked for here; None for what the agent wants, and "task" if it says nothing."""
    export_dir: Path | str | None
    """Where its transcript is written when it is closed."""
    timeout: float | None
    """Seconds for each turn; None for what the agent says."""
    budget: Budget | None
    """What it is part of; its agent's own limits count besides."""
    prices: Prices | None
    """What models cost; None for their public list prices."""
    parent: str
    """The id of the subagent that has it spawned."""
    id: str | None
    """What it is called, where whoever spawns has allotted that before, with
    :func:`next_id`; None for the next number of its agent."""
    memory: Memory | None
    """What it is to know of a conversation before, as a life after a restart does."""
    roster: Iterable[Agent] | None
    """Whom names of agents mean, in its handoffs and for its tool `subagent`: what
    :func:`load_agents` found, say."""


class OutOfBudget(RuntimeError):
    """Raised where a budget allows no further subagent; nothing was spawned."""

    def __init__(self, agent: str, refusal: Refusal) -> None:
        super().__init__(agent, refusal)
        self.agent = agent
        self.refusal = refusal

    def __str__(self) -> str:
        return f"{self.agent} was not spawned: {self.refusal}"


class SubagentStart:
    """How a subagent is to be spawned: it stands wherever an actor class may.

    ``child(subagent(scout, model="local/smollm2"))`` has a supervisor restart it;
    what it remembers then is its agent's `remember`.  Make it with :func:`subagent`.
    """

    __slots__ = ("actor_kind", "agent", "lifetime", "options", "source")

    def __init__(self, agent: Agent, **options: Unpack[SubagentOptions]) -> None:
        self.agent = agent
        self.options = options
        self.lifetime: Lifetime
        self.source: LifetimeSource
        self.lifetime, self.source = resolve_lifetime(options.get("lifetime"), agent)
        kind = kind_of(OpeningActor)
        self.actor_kind = Kind(
            make=lambda: OpeningActor(self),
            name=agent.name,
            receive=kind.receive,
            is_async=True,
            on_start=kind.on_start,
            shutdown=kind.shutdown,
            stop_mode=kind.stop_mode,
            dedicated=True,
            start_timeout=kind.start_timeout,
            cut_when_withdrawn=True,
        )

    def __repr__(self) -> str:
        return f"subagent({self.agent.name})"

    def mind(self, *, is_resident: bool = False) -> Mind:
        """A mind that has not begun to live, counted in its budgets.

        Args:
            is_resident: it has many askers, and each turn is paid by who asks.

        Raises:
            OutOfBudget: there may be no further subagent.
            ValueError: it has a limit in dollars, and nobody says what its model costs.
        """
        agent, options = self.agent, self.options
        above = options.get("budget")
        if above is not None:
            refusal = above.admit()
            if refusal is not None:
                raise OutOfBudget(agent.name, refusal)
        name = options.get("id") or next_id(agent.name)
        budget = None if is_resident else above
        if agent.limits is not None or (is_resident and has_others(agent)):
            budget = Budget(agent.limits or Limits(), budget, name)
        export_dir = options.get("export_dir")
        mind = Mind(
            name,
            agent,
            self.lifetime,
            None if export_dir is None else Path(export_dir),
            options.get("timeout"),
            budget,
            options.get("prices") or LIST_PRICES,
            options.get("parent", ""),
        )
        mind.is_resident = is_resident
        mind.sittings.before = options.get("memory")
        return mind


def subagent(agent: Agent | MindFunction, /, **options: Unpack[SubagentOptions]) -> SubagentStart:
    """How `agent` is to be spawned, for whoever takes an actor class: a supervisor's child.

    Args:
        agent: who; a function is an agent of its own name.
        options: see :class:`SubagentOptions`.

    Raises:
        ValueError: the lifetime is "session": that is said where it is spawned.
    """
    start = SubagentStart(agent_of(agent), **options)
    if start.lifetime == "session":
        raise no_session(start)
    return start


def start_of(who: Any, options: SubagentOptions) -> SubagentStart:
    """How to spawn `who`, an agent or what :func:`subagent` made, with these options."""
    if not isinstance(who, SubagentStart):
        return SubagentStart(who, **options)
    if options:
        raise TypeError(
            f"{who} has its options already: say {', '.join(sorted(options))} to subagent(…)"
        )
    return who


class SubagentActor(Actor):
    """The cell's side of a subagent: one ask at a time, in the order of asking."""

    stop_mode = "interrupt"
    cut_when_withdrawn = True
    shutdown = CLOSE_SECONDS + 2 * GRACE_SECONDS
    mind: Mind

    async def receive(self, order: Order | str) -> Result:
        """Play one turn."""
        if isinstance(order, str):
            order = Order(order, self.mind.timeout or math.inf, trio.current_time())
        try:
            result = await self.mind.play(order)
        except BaseException:
            # What swallowed its kill was torn from the turn, or dropped where it stood.
            if as_cell(self.ref).rare().stuck:
                self.mind.fenced = True
            raise
        if self.mind.dead is not None and as_cell(self.ref).is_kept:
            # The answer goes out first; then whoever restarts it is told.
            self.continue_with(self.mind.dead)
        return result

    def on_continue(self, dead: TurnError) -> None:
        """Crash, as its session has: another life has another session."""
        raise SessionEnded(self.mind.id, dead)


class SharedActor(SubagentActor):
    """A subagent whose session holds nothing open: it needs no task of its own."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind

    async def on_stop(self, reason: ExitReason) -> None:
        """Export and dispose, however it came to its end."""
        await self.mind.close()


class OpeningActor(SubagentActor):
    """A subagent that opens its session, and closes it however it ends."""

    dedicated = True
    start_timeout = START_SECONDS

    def __init__(self, start: SubagentStart, mind: Mind | None = None) -> None:
        self._start = start
        self._given = mind

    async def on_start(self) -> None:
        """Open the session of this life."""
        rare = as_cell(self.ref).rare()
        # The mind is the logical subagent's: it goes on where a life ended.
        mind: Mind = rare.left or self._given or self._start.mind()
        rare.left = self.mind = mind
        mind.incarnation = self.ref.incarnation
        if has_others(mind.agent):
            from .others import Others

            others = Others(as_cell(self.ref), mind, self._start)
            mind.others = others if mind.others is None else mind.others.again(others)
            mind.sittings.opens = opener(mind.agent, self._start.options, tools=others.tools)
        if mind.sittings.opens is None:
            mind.sittings.opens = opener(mind.agent, self._start.options)
        block = as_cell(self.ref).block
        rare.on_kill = partial(mind.killed, block.grace)
        session = await self.enter(mind.alive(block))
        _priced(mind, session)
        mind.opened(self._start.source)


class SessionEnded(RuntimeError):
    """The crash of a supervised subagent whose session has ended."""

    def __init__(self, subagent: str, error: TurnError) -> None:
        super().__init__(subagent, error)
        self.subagent = subagent
        self.error = error

    def __str__(self) -> str:
        return f"the session of {self.subagent} has ended: {self.error}"


class Subagent:
    """One live conversation with a mind; whoever spawned it, closes it.

    ``Subagent(ref)`` is the handle of one that a supervisor started, as in
    ``Subagent(tree["scout"])``.

    Raises:
        TypeError: the ref is no subagent's, or it has not been started yet.
    """

    def __init__(self, ref: Ref[Any]) -> None:
        mind = as_cell(ref).rare().left
        if not isinstance(mind, Mind):
            raise TypeError(f"{ref.path} is no subagent that has been started")
        self._mind = mind
        self._ref = ref
        self._payer: Budget | None = None
        self._timeout: float | None = None

    def __repr__(self) -> str:
        return f"<Subagent {self.id}>"

    @property
    def id(self) -> str:
        """The agent's name and a number, as in "scout#2"; unique in this process."""
        return self._mind.id

    @property
    def ref(self) -> Ref[Any]:
        """Its actor: for monitors, links, names; an ask of a str is a turn."""
        return self._ref

    @property
    def agent(self) -> Agent:
        """Its definition."""
        return self._mind.agent

    @property
    def lifetime(self) -> Lifetime:
        """As it was resolved: by the argument, the agent, or the default."""
        return self._mind.lifetime

    @property
    def model(self) -> str:
        """Who answers, as in "openai/gpt-5-mini"; empty for a function, or before it is open."""
        session = self._mind.session
        return "" if session is None else session.model

    @property
    def usage(self) -> Usage:
        """Everything spent since it was spawned: by failed turns, and by the one in flight, too."""
        return self._mind.usage

    @property
    def usage_with_others(self) -> Usage:
        """As :attr:`usage`, with what those have spent that it had at work below it."""
        usage = self._mind.usage
        level = usage.context_tokens
        whole = usage.accumulate(self._mind.below)
        return msgspec.structs.replace(whole, context_tokens=level)

    @property
    def budget(self) -> Budget | None:
        """What it spends from; of one of lifetime "session", what was given here."""
        return self._payer or self._mind.budget

    @property
    def is_stopped(self) -> bool:
        """It answers no more, and is owed a close."""
        return self._mind.stopped

    @property
    def is_dead(self) -> bool:
        """Its session has ended by itself: every later turn fails at once."""
        return self._mind.dead is not None

    @property
    def is_stuck(self) -> bool:
        """A turn that was cut has not let go, a second later; none can be played until it has."""
        return self._mind.stuck

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """Its transcript so far."""
        return self._mind.transcript()

    async def inheritance(self) -> Memory | None:
        """What whoever takes its place is to know, as its agent's `remember` says; None for
        nothing.

        A summary is written by a session that is opened for it, and costs what it costs.

        Raises:
            NoSummary: none could be written.
        """
        return await self._mind.sittings.inheritance()

    async def ask(
        self,
        task: str,
        /,
        *attachments: Attachment,
        timeout: float | None = None,  # noqa: ASYNC109 - it begins with the turn, not with the call
    ) -> Result:
        """Play one turn, after those that were asked for before.

        It never raises for a failure of the mind: that is a Result.  Cancelled,
        it has cut the turn, or withdrawn it if it had not begun; what the turn
        cost is counted.

        Args:
            task: what is asked.
            attachments: pictures and files that go with it, if its session takes them.
            timeout: seconds that the turn may take once it has begun; None for
                what the spawner said, or else the agent, or else no limit.  A
                mind that does not let go then is left after a second more.

        Raises:
            ActorStopped: it is closed.
            TypeError: the task is no text.
            ValueError: the timeout is not more than 0.
        """
        return await self._ask(task, attachments, timeout, ignore)

    def stream(
        self,
        task: str,
        /,
        *attachments: Attachment,
        timeout: float | None = None,
    ) -> Stream:
        """Play one turn, and read its events while it is played; see :class:`Stream`.

        The arguments are those of :meth:`ask`, and so is what it raises.
        """

        async def play(hear: Callable[[SessionEvent], None]) -> Result:
            return await self._ask(task, attachments, timeout, hear)

        return Stream(play, as_cell(self._ref).block.start_task)

    async def _ask(
        self,
        task: str,
        attachments: tuple[Attachment, ...],
        timeout: float | None,  # noqa: ASYNC109 - as above
        hear: Callable[[SessionEvent], None],
        on_handoff: Callable[[Handoff], None] | None = None,
    ) -> Result:
        mind = self._mind
        is_kept = as_cell(self._ref).is_kept
        check_task(task)
        for each in attachments:
            if not isinstance(cast("object", each), Attachment):
                raise TypeError(f"an attachment is an Attachment, not {type(each).__name__}")
        if mind.closing is not None and not is_kept:
            raise ActorStopped(mind.id, "it is closed")
        seconds = next(
            (
                each
                for each in (timeout, self._timeout, mind.timeout, mind.agent.timeout)
                if each is not None
            ),
            math.inf,
        )
        check_timeout(seconds)
        order = Order(task, seconds, trio.current_time(), attachments, hear, on_handoff)
        order.payer = self._payer
        if mind.stopped:
            await trio.lowlevel.checkpoint()
            return mind.refuse(order, "stopped")
        if mind.stuck:
            await trio.lowlevel.checkpoint()
            return mind.refuse(
                order, TurnError("dead", f"the turn before does not end in {mind.id}")
            )
        mind.orders[order] = None
        try:
            with order.patience:
                return await self._answer(order)
        finally:
            del mind.orders[order]
        return mind.given_up(order)

    async def _answer(self, order: Order) -> Result:
        mind = self._mind
        try:
            result: Result = await self._ref.ask(order)
        except trio.Cancelled:
            if order.scope is not None and not order.patience.cancel_called:
                # The core has cut the turn; it is over when its mind has let go.
                with trio.move_on_after(GRACE_SECONDS, shield=True):
                    await order.over.wait()
                mind.stuck = not order.over.is_set()
            raise
        except ActorCrashed as error:
            return mind.ended(order, crash_of(error.__cause__ or error))
        except ActorStopped as error:
            if order.scope is not None and order.result is not None:
                return order.result
            if error.__cause__ is not None:
                return mind.refuse(order, TurnError("dead", str(error)).with_cause(error.__cause__))
            return mind.refuse(order, "stopped" if mind.stopped else "closed")
        except MailboxFull as error:
            return mind.refuse(order, TurnError("mailbox_full", str(error), True))
        except AskCycle as error:
            return mind.refuse(order, TurnError("would_deadlock", str(error)))
        except AskTimeout as error:
            # The deadline of an ask that the asker itself is serving.
            return mind.ended(order, TurnError("timeout", str(error), True))
        return result

    def steer(self, text: str) -> Steering:
        """Put a word into the turn in flight: the mind reads it before it goes on.

        "queued" if it was taken, "idle" if no turn is in flight, "unsupported" if
        its session cannot.  A word that was not read when the turn ends is gone.
        """
        mind = self._mind.answering
        return "idle" if mind is None else mind.steer(sendable(text))

    def follow_up(self, text: str) -> Steering:
        """Leave a word for the end of the turn in flight, which then goes on with it."""
        mind = self._mind.answering
        return "idle" if mind is None else mind.follow_up(sendable(text))

    def stop(self) -> None:
        """Cut the turn in flight; this one and every later ask end `stopped`.  One way.

        It is not closed by that: it can be exported, and its close is still owed.
        """
        self._mind.stop()

    def interrupt(self) -> bool:
        """Cut the turn in flight, which ends `stopped`; False if there is none.

        Later turns are played.
        """
        return self._mind.cut("stopped", "interrupted")

    def abort(self, why: str = "") -> bool:
        """Cut the turn in flight, which ends `aborted`; False if there is none.

        Later turns are played.
        """
        return self._mind.cut("aborted", why)

    def export(self, directory: Path | None = None) -> Path:
        """Write the transcript, whole or not at all, to a file named after the id.

        No file of anybody else is replaced, also if both write at once: the name is then
        the id and a number.  A later export to the same folder replaces this one.

        Args:
            directory: where; None for the one given at the spawn.

        Raises:
            ValueError: there is no directory.
            ActorStopped: it is closed.
            OSError: it could not be written.
        """
        mind = self._mind
        directory = directory or mind.export_dir
        if directory is None:
            raise ValueError(f"{mind.id} was given no directory to export to")
        if mind.closing is not None or mind.session is None:
            raise ActorStopped(mind.id, "it is closed")
        return mind.export(directory)

    async def close(self) -> Closed:
        """End it: cut the turn in flight, export, dispose, in at most 5 s after the cut.

        Also when cancelled.  Closing twice, or at the same time, is closing once.
        A supervisor's child is not closed: terminate it there.

        Raises:
            RuntimeError: a supervisor owns it.
        """
        if as_cell(self._ref).is_kept:
            raise RuntimeError(f"{self.id} is a supervisor's: terminate it there")
        self._mind.cut("stopped", "closed in mid-turn")
        with trio.CancelScope(shield=True):
            await self._ref.stop()
        return await self._mind.close()


async def ask_of(
    subagent: Subagent,
    task: str,
    attachments: tuple[Attachment, ...],
    hear: Callable[[SessionEvent], None],
    on_handoff: Callable[[Handoff], None],
) -> Result:
    """As :meth:`Subagent.ask`; its events are heard, and whom it hands over to is told.

    The conversation then goes on with whoever `on_handoff` has it go on with.
    """
    return await subagent._ask(  # pyright: ignore[reportPrivateUsage]  # of this module
        task, attachments, None, hear, on_handoff
    )


async def ask_heard(
    subagent: Subagent,
    task: str,
    attachments: tuple[Attachment, ...],
    timeout: float | None,  # noqa: ASYNC109 - as Subagent.ask has it
    hear: Callable[[SessionEvent], None],
) -> Result:
    """As :meth:`Subagent.ask`; `hear`, which must not raise, is told what happens meanwhile.

    Unlike a listener to the stream it costs nothing for whoever is not listened to.
    """
    return await subagent._ask(  # pyright: ignore[reportPrivateUsage]  # of this module
        task, attachments, timeout, hear
    )


@asynccontextmanager
async def spawn(
    agent: Agent | MindFunction,
    /,
    *,
    within: Nursery | None = None,
    key: str | None = None,
    **options: Unpack[SubagentOptions],
) -> AsyncGenerator[Subagent]:
    """One subagent, for the length of the block: a nursery of one.

    It is closed when the block is left, whatever happened inside.  With lifetime
    "session" it is the one of this agent and key that lives in `within`, spawned
    there if there is none yet, or if the session of the one there has ended by itself:
    then the next knows of it what the agent's `remember` says.  Only that block closes it.

    Whoever asks one of lifetime "session" pays: `budget` and `timeout` hold for the turns
    that are asked for in this block, also where it was there before, and its agent's own
    limits for all turns.  Everything else (`export_dir`, the model, `prices`, ...) is its
    own, as it was spawned with; what is given later is not looked at.

    Args:
        agent: who; a function is an agent of its own name.
        within: the block that is the session.
        key: who shares a subagent there; the agent's name unless given.
        options: see :class:`SubagentOptions`.

    Raises:
        ModelError: there is no such model, or no way to ask it.
        OutOfBudget: the budget allows no further subagent.
        NoSummary: it is to know a summary of the one before, and none could be written; the
            next one begins afresh.
        ValueError: the lifetime is "session", and there is no session to live in; or there
            is a limit in dollars, and nobody says what its model costs.
    """
    start = SubagentStart(agent_of(agent), **options)
    if start.lifetime == "session":
        if within is None:
            raise no_session(start)
        async with _within(within, start, start.agent.name if key is None else key) as resident:
            yield resident
        return
    mind = start.mind()
    session = None if has_others(start.agent) else at_hand(start.agent, options)
    try:
        async with open_nursery(name=mind.id) as nursery:
            if session is None:
                ref = await nursery.start(OpeningActor, start, mind)
            else:
                mind.sittings.begin(session)
                mind.sittings.opens = opener(start.agent, options, opened=1)
                _priced(mind, session)
                ref = nursery.spawn(SharedActor, mind)
                rare = as_cell(ref).rare()
                rare.left = mind
                rare.on_kill = partial(mind.killed, as_cell(ref).block.grace)
                mind.opened(start.source)
            subagent = Subagent(ref)
            try:
                yield subagent
            finally:
                await subagent.close()
    finally:
        # The stop hook has done it, unless the actor was killed before.
        await mind.close()


def spawn_in(
    owner: Cell[Any],
    who: Any,
    options: SubagentOptions,
    link: bool = True,
) -> Subagent:
    """Spawn a subagent below `owner`, at once; it opens its session before its first turn."""
    start = start_of(who, options)
    mind = start.mind()
    cell = owner.spawn(OpeningActor, (start, mind), link, name=mind.id)
    cell.rare().left = mind
    return Subagent(cell)


async def start_in(
    owner: Cell[Any],
    who: Any,
    options: SubagentOptions,
    link: bool = True,
) -> Subagent:
    """As :func:`spawn_in`, and wait until its session is open."""
    start = start_of(who, options)
    mind = start.mind()
    starter: Reply[Any] = Reply(None)
    cell = owner.spawn(OpeningActor, (start, mind), link, starter, name=mind.id)
    cell.rare().left = mind
    return Subagent(await started(cell, starter))


@asynccontextmanager
async def _within(nursery: Nursery, start: SubagentStart, key: str) -> AsyncGenerator[Subagent]:
    """The subagent of this agent and key that lives in `nursery`, as who asks it here has it."""
    resident = _residents.setdefault(nursery, {}).setdefault((start.agent, key), _Resident())
    # Whoever asks while it is opened waits for the same one.
    async with resident.opening:
        before = there = resident.there
        if there is None or not there.subagent.ref.is_alive or there.subagent.is_dead:
            try:
                heir = await _heir(start, None if there is None else there.subagent)
            except NoSummary:
                resident.there = None
                raise
            there = resident.there = _Lodging(await _moved_in(nursery, heir))
            if before is not None and not before.guests:
                await before.subagent.close()
        there.guests += 1
    try:
        asked = Subagent(there.subagent.ref)
        asked._payer = start.options.get("budget")  # pyright: ignore[reportPrivateUsage]  # ours
        asked._timeout = start.options.get("timeout")  # pyright: ignore[reportPrivateUsage]  # ours
        mind = as_cell(asked.ref).rare().left
        if asked.budget is not None and mind.session is not None:
            _refuse_unpriced(mind, mind.session, asked.budget)
        yield asked
    finally:
        there.guests -= 1
        if not there.guests and there is not resident.there:
            # Its place is taken: whoever held it last closes it.
            await there.subagent.close()


async def _moved_in(nursery: Nursery, start: SubagentStart) -> Subagent:
    options: SubagentOptions = {**start.options, "timeout": None}
    start = SubagentStart(start.agent, **options)
    mind = start.mind(is_resident=True)
    starter: Reply[Any] = Reply(None)
    cell = nursery.root.spawn(OpeningActor, (start, mind), True, starter, name=mind.id)
    cell.rare().left = mind
    return Subagent(await started(cell, starter))


async def _heir(start: SubagentStart, before: Subagent | None) -> SubagentStart:
    """`start`, with what it is to know of `before`, if the session of that has died."""
    if before is None or not before.is_dead or start.options.get("memory") is not None:
        return start
    spent = before.usage
    try:
        memory = await before.inheritance()
    finally:
        budget = start.options.get("budget")
        if budget is not None:
            budget.charge(msgspec.structs.replace(before.usage.delta(spent), wall_seconds=0.0))
    if memory is None:
        return start
    options: SubagentOptions = {**start.options, "memory": memory}
    return SubagentStart(start.agent, **options)


def no_session(start: SubagentStart) -> ValueError:
    """Why a subagent of lifetime "session" cannot be spawned without a block to live in."""
    return ValueError(
        f'lifetime "session" of {start.agent.name!r}, by the {start.source}: there is no block'
        " here that would be the session; name one with within=, or ask for"
        ' "workflow" to have it live as long as this block'
    )


def _priced(mind: Mind, session: Session) -> None:
    """Refuse a limit in dollars that nobody could keep."""
    if mind.budget is not None:
        _refuse_unpriced(mind, session, mind.budget)


def _refuse_unpriced(mind: Mind, session: Session, budget: Budget) -> None:
    has_limit = any(each.limits.usd is not None for each in budget.chain())
    if has_limit and session.model and price_of(session.model, mind.prices) is None:
        raise ValueError(
            f"{mind.id} has a limit in dollars, and nobody says what {session.model} costs:"
            " give its price with prices="
        )
