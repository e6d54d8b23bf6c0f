"""What runs one actor: its state, its mailbox, and what is being done about it.

An idle actor is a cell and its instance, nothing else.  What most actors never
need stands in an :class:`Extra`, and what few need in a :class:`Rare`.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from gc import get_referents
from itertools import chain
from operator import is_not
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, Unpack

import msgspec
from trio import CancelScope
from trio.lowlevel import Task, checkpoint, enable_ki_protection

from .errors import ActorStopped, AskCycle, MailboxFull
from .exits import Crashed, Down, Exit, ExitReason, Killed, NoProcess, Normal, Shutdown, Stuck
from .kind import Kind, SpawnOptions, kind_of, kinds, no_actor
from .later import Later
from .pinned import Pinned
from .ref import Ref
from .reply import END, ERROR, OPEN, VALUE, Reply, current_cell, resolve, resolved
from .snapshot import ChildStatus, Role, Snapshot
from .timers import Timer
from .tree import snapshot_of

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from .block import Block

M_contra = TypeVar("M_contra", contravariant=True)

_NORMAL = Normal()
_SHUTDOWN = Shutdown()
INLINE_DEPTH = 32
"""Asks answered inside one another before the next one is queued."""


class _Dead(list[Any]):
    """Mailbox of whoever takes no message any more: full, so that tell needs no branch."""

    __slots__ = ()

    def __len__(self) -> int:
        return _FULL

    def append(self, _: Any) -> None:
        raise AssertionError("nothing is put into the mailbox of an ended actor")


_FULL = (1 << 63) - 1
DEAD: list[Any] = _Dead()

HELD = frozenset({Later, Reply, CoroutineType})
"""Types that a handler returns to answer otherwise than with the value itself."""


class System:
    """A turn of the system lane: served between user messages."""

    __slots__ = ("call", "label", "later", "reply", "then")

    def __init__(
        self,
        label: str,
        call: Callable[[Any], Any],
        then: Callable[[Cell[Any], Any], None] | None = None,
        reply: Reply[Any] | None = None,
        later: Later[Any] | None = None,
    ) -> None:
        self.label = label
        self.call = call
        """Called with the instance; a coroutine that it returns is driven."""
        self.then = then
        self.reply = reply
        """Gets what the call returned, or that the actor has ended before."""
        self.later = later
        """The promise for the message that is handled again; `then` keeps it."""


class Monitor:
    """One watch over one actor; :meth:`cancel` also takes back a notice on its way."""

    __slots__ = ("_cancelled", "_deliver", "ref")

    def __init__(self, ref: Ref[Any], deliver: Callable[[Monitor, Down], None]) -> None:
        self.ref = ref
        self._deliver = deliver
        self._cancelled = False

    @property
    def is_cancelled(self) -> bool:
        """Whether nothing more will be delivered."""
        return self._cancelled

    def cancel(self) -> None:
        """Stop watching (OTP's ``demonitor`` with ``flush``)."""
        self._cancelled = True

    def fire(self, reason: ExitReason) -> None:
        """Deliver the end of the watched actor, unless cancelled."""
        if not self._cancelled:
            self._deliver(self, Down(self.ref, reason))


class Keeper(Protocol):
    """Who brings an actor back to life: a supervisor, as its children's cells know it."""

    @property
    def cell(self) -> Cell[Any] | None:
        """The child's cell, once it has had a life."""
        ...

    @property
    def id(self) -> str:
        """What its supervisor calls the child."""
        ...

    @property
    def kind(self) -> str:
        """Name of the child's class or function."""
        ...

    @property
    def role(self) -> Role:
        """What the child is."""
        ...

    @property
    def state(self) -> str:
        """``"running"``, ``"restarting"``, or ``"undefined"``: it does not run."""
        ...

    @property
    def redeliver(self) -> int:
        """How often a message that crashed the actor is given to it again."""
        ...

    @property
    def when_down(self) -> Literal["wait", "fail"]:
        """What happens to an ask that comes between two lives."""
        ...

    def keeps(self, cell: Cell[Any], reason: ExitReason) -> bool:
        """Whether `cell`, whose life ends, may get another: its mailbox then stays open.

        Asked before anybody hears of the end of a life, and once more if its owner
        ends meanwhile, whose next life may bring it back.  Decides nothing and
        changes nothing.
        """
        ...

    def lost(self, cell: Cell[Any], reason: ExitReason) -> None:
        """Hear that a life has ended, when everything about it is over."""
        ...

    def replaced(self, cell: Cell[Any], error: BaseException) -> Any | None:
        """The instance of the next life of `cell`, whose handler has just raised `error`.

        Asked only where nothing but the instance has to be given up.  None, and nothing
        has changed, where it is not as simple as that: the life then ends in order.
        """
        ...

    def child_status(self, now: float | None) -> ChildStatus:
        """What the supervisor knows of the child.

        Args:
            now: on trio's clock; None outside of trio.
        """
        ...


class Rare(msgspec.Struct, eq=False):
    """What few actors need."""

    again: Any = None
    """The message that crashed it and will be given to its next life."""
    blocks: list[Block] = []
    """Blocks that a handler of this actor has open."""
    on_kill: Callable[[], object] | None = None
    """Called when it is killed, before its turn is cut."""
    deadline: Timer | None = None
    """When its stop turns into a kill, or its kill into a report."""
    entered: AsyncExitStack | None = None
    """What a dedicated actor has entered for the rest of this life."""
    farewell: list[tuple[Reply[Any], Any]] | None = None
    """Answers of its last turn, given once its stop hook has run."""
    groups: tuple[str, ...] = ()
    heirs: dict[Cell[Any], None] | None = None
    """Children of its last life that its next one brings back; their mail waits."""
    handled_start: bool = True
    """Whether the start hook is done, so that the stop hook is owed."""
    joiners: list[Reply[Any]] | None = None
    laters: dict[Later[Any], None] | None = None
    left: Any = None
    """What one life leaves to the next."""
    links: dict[Cell[Any], None] | None = None
    mail_wait: Task | None = None
    """The task of a dedicated actor while it waits for mail."""
    monitors: list[Monitor] | None = None
    name: str | None = None
    own: list[Reply[Any]] | None = None
    """Messages in its mailbox that it told itself; they die with its life."""
    pin: Pinned[Any] | None = None
    """The ref that is pinned to a life of it: the last one made."""
    pinned: list[Reply[Any]] | None = None
    """Messages and asks that came for this life only, and maybe wait still."""
    postponed: list[tuple[Any, Later[Any]]] | None = None
    quit: bool = False
    """Whether its end is nobody's business: its starter has been told."""
    senders: collections.deque[Reply[Any]] | None = None
    """Messages that wait for room, oldest first."""
    silence: Timer | None = None
    start_deadline: Timer | None = None
    start_error: BaseException | None = None
    """What its start hook failed with."""
    starter: Reply[Any] | None = None
    """Who waits for the start hook."""
    stoppers: list[Reply[Any]] | None = None
    stuck: bool = False
    timers: dict[Timer, None] | None = None
    tried: int = 0
    """How often :attr:`again` has been given to it."""
    turn_scope: CancelScope | None = None
    """The scope of one turn of a dedicated actor."""
    unlinked: bool = False
    untraced: Kind | None = None


class Extra(msgspec.Struct, eq=False):
    """What an actor needs once it waits, has children, or ends otherwise than idle."""

    alert: bool = False
    """Whether a pump must look closer than at the mailbox: stopping, killed,
    suspended, system lane, senders."""
    killed: bool = False
    stopping: bool = False
    interrupted: bool = False
    suspended: bool = False
    advancing: bool = False
    hooked: bool = False
    drop: bool = False
    leaving: bool = False
    """Whether it stops by its own wish."""
    doomed: bool = False
    """Whether its kill has begun: those below it are killed before it is."""
    coro: Any = None
    """The coroutine of the turn that is parked on a reply, or has a worker."""
    message: Any = None
    """The message of that turn."""
    rest: Iterator[Any] | None = None
    """The iterator over the mailbox that this turn was taken from."""
    worker: Task | None = None
    """The task that the turn in progress really waits in."""
    scope: CancelScope | None = None
    """The scope of that task: cancelling it is the kill."""
    waiting: Any = None
    """The reply that the handler itself is parked on."""
    also: tuple[Reply[Any], ...] = ()
    """Replies that the handler's tasks wait for."""
    offset: int = 0
    """Messages at the front of the mailbox that have been handled."""
    context: Context | None = None
    """Context variables, where they differ from the block's."""
    children: dict[Cell[Any], None] | None = None
    system: collections.deque[System] | None = None
    reason: ExitReason | None = None
    """How it will have ended."""
    rare: Rare | None = None

    def is_waiting(self) -> bool:
        """Whether a handler waits for another actor."""
        return self.waiting is not None or bool(self.also)


class Cell(Ref[M_contra]):
    """One actor.  Ended when :attr:`actor` is None; then :attr:`args` says how.

    :attr:`mailbox` is None exactly while the actor is idle.  Everything that
    keeps it busy (starting, running, waiting, stopping, ended) gives it a list.
    """

    __slots__ = (
        "__weakref__",
        "actor",
        "args",
        "block",
        "extra",
        "kind",
        "mailbox",
        "number",
        "parent",
    )

    actor: Any
    args: Any
    block: Block
    extra: Extra | None
    kind: Kind
    mailbox: Any  # list[Any] | None; as such the pump would need a check at every use
    number: int
    """Its place among all that its block has spawned.  Given at the spawn: given to who
    first reads a path, it would depend on who listens."""
    parent: Cell[Any] | None

    # Of those that are no :class:`KeptCell`.
    keeper: Keeper | None = None
    """Who brings it back to life."""
    label: str | None = None
    """What its path calls it, where it has no name: its id among its siblings."""

    def __repr__(self) -> str:
        return f"<Ref {self.path}{'' if self.is_alive else ' ended'}>"

    def grow(self) -> Extra:
        """Make and return the :class:`Extra`, which is not there yet."""
        extra = self.extra = Extra()
        return extra

    @property
    def is_kept(self) -> bool:
        """Whether somebody may give it another life."""
        return self.keeper is not None

    def rare(self) -> Rare:
        """The :class:`Rare`, made on first use."""
        extra = self.extra or self.grow()
        if extra.rare is None:
            extra.rare = Rare()
        return extra.rare

    # ---- what others see

    @property
    def path(self) -> str:
        # Not by recursion: a tree may be deeper than the stack.
        names = [self.own_name()]
        above = self.parent
        while above is not None:
            names.append(above.own_name())
            above = above.parent
        return "/".join(reversed(names))

    def own_name(self) -> str:
        """The last part of its path."""
        rare = self.extra.rare if self.extra is not None else None
        if rare is not None and rare.name:
            return rare.name
        if self.label:
            return self.label
        if self.parent is None:
            return self.block.name
        return f"{self.kind.name}#{self.number}"

    @property
    def incarnation(self) -> int:
        return 1

    @property
    def is_alive(self) -> bool:
        return self.actor is not None or self.mailbox is not DEAD

    @property
    def is_closed(self) -> bool:
        """Whether it takes no message, in this life nor in another."""
        return self.mailbox is DEAD

    @property
    def just_ends(self) -> bool:
        """Whether to stop it is to end it: it is idle, and neither a hook nor a rule says more."""
        kind = self.kind
        return (
            self.extra is None
            and self.mailbox is None
            and kind.on_stop is None
            and kind.shutdown > 0  # with none at all a stop is a kill
        )

    @property
    def begins_nothing(self) -> bool:
        """Whether it has ended, stops, or is being killed: nothing may begin below it.

        The mailbox alone does not tell, where it may be for another life.
        """
        extra = self.extra
        return self.mailbox is DEAD or (extra is not None and (extra.stopping or extra.killed))

    def snapshot(self) -> Snapshot:
        return snapshot_of(self)

    def pin(self) -> Pinned[M_contra]:
        rare = self.rare()
        pin = rare.pin
        # One for each life: it waits for the end of that, and nobody could take it off.
        if pin is None or pin.incarnation != self.incarnation:
            pin = rare.pin = Pinned(self)
        return pin

    # ---- messages

    @enable_ki_protection
    def tell(self, message: M_contra, /) -> None:
        mailbox = self.mailbox
        if mailbox is None:
            self.mailbox = [message]
            block = self.block
            block.runq.append(self)
            if block.parked is not None:
                block.wake()
        elif len(mailbox) < self.kind.capacity:
            mailbox.append(message)
        else:
            self._put_over(message)

    def _put_over(self, message: Any) -> None:
        """Add `message` to a mailbox that looks full: it may only not be tidied up."""
        mailbox = self.mailbox
        if mailbox is None:
            self.tell(message)
            return
        block = self.block
        if mailbox is DEAD:
            if type(message) is Reply:
                resolve(message, self.stopped_error(), ERROR)
            else:
                block.dead_letter(self, message)
            return
        handled = block.handled(self)
        if handled:
            block.forget_handled(self, handled)
        if len(mailbox) < self.kind.capacity:
            mailbox.append(message)
            return
        overflow = self.kind.overflow
        if overflow == "raise":
            block.dropped(self, "refused")
            full = MailboxFull(self.path, self.kind.capacity)
            if type(message) is not Reply:
                raise full
            resolve(message, full, ERROR)
        elif overflow == "drop_new":
            self._drop(message)
        else:
            oldest = mailbox[0]
            del mailbox[0]
            mailbox.append(message)
            self._drop(oldest)

    def _drop(self, message: Any) -> None:
        self.block.dropped(self, self.kind.overflow)
        if type(message) is Reply:
            resolve(message, MailboxFull(self.path, self.kind.capacity), ERROR)

    async def send(self, message: M_contra, /) -> None:
        await checkpoint()
        if self.mailbox is DEAD:
            raise self.stopped_error()
        if self.has_room():
            self.tell(message)
            return
        await self.queue(message)

    def queue(self, message: Any) -> Reply[None]:
        """Let `message` wait for room; resolves when it has come in."""
        place: Reply[None] = Reply(message, self)
        rare = self.rare()
        if rare.senders is None:
            rare.senders = collections.deque()
        rare.senders.append(place)
        assert self.extra is not None
        self.extra.alert = True
        return place

    def put(self, envelope: Reply[Any]) -> None:
        """Tell the message in `envelope`, which nobody asks: its target is None."""
        self.tell(envelope)  # type: ignore[arg-type]  # the envelope, not a message
        if envelope.state == ERROR:
            error: Exception = envelope.value
            if not isinstance(error, MailboxFull):
                self.block.dead_letter(self, envelope.message)
            elif self.kind.overflow == "raise":
                raise error

    def bind(self, envelope: Reply[Any]) -> None:
        """Let `envelope` not wait any longer than this life lasts."""
        rare = self.rare()
        if rare.pinned is None:
            rare.pinned = []
        remember(rare.pinned, envelope, self.mailbox)

    def has_room(self) -> bool:
        """Whether a message may come in at once."""
        mailbox = self.mailbox
        if mailbox is None:
            return True
        extra = self.extra
        if extra is not None and extra.rare is not None and extra.rare.senders:
            return False
        return len(mailbox) - self.block.handled(self) < self.kind.capacity

    @enable_ki_protection
    def ask(self, message: Any, /, *, timeout: float | None = None) -> Reply[Any]:
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout must be seconds, 0 or more, not {timeout!r}")
        reply: Reply[Any] = Reply(message, self)
        kind = self.kind
        block = self.block
        if self.mailbox is None and kind.plain and len(block.stack) < INLINE_DEPTH:
            box: list[Any] = []
            self.mailbox = box
            if type(self) is KeptCell:
                self.is_taken = True
            extra = self.extra
            if extra is not None and extra.context is not None:
                context, own = extra.context, True
            else:
                context = block.scratch.pop() if block.scratch else block.base.copy()
                own = False
            stack = block.stack
            stack.append(self)
            try:
                value = context.run(kind.receive, self.actor, message)
            # The cell: here, and in the pump, an exception becomes a value.
            except BaseException as error:
                block.failed(self, error, reply)
            else:
                if type(value) in HELD or ((extra := self.extra) is not None and extra.alert):
                    block.answer(self, reply, value)
                else:
                    reply.value = value
                    reply.state = VALUE
            stack.pop()
            if not own:
                if changed(context, block) if block.table is not None else context != block.base:
                    (self.extra or self.grow()).context = context
                else:
                    block.scratch.append(context)
            if ((extra := self.extra) is not None and extra.alert) or self.mailbox is not box:
                block.settle(self)
            elif box:
                block.enqueue(self)
            else:
                self.mailbox = None
        else:
            self.tell(reply)  # type: ignore[arg-type]  # the envelope, not a message
        if timeout is not None and reply.state == OPEN:
            reply.bound(block.time() + timeout, timeout)
        return reply

    def withdrawn(self, reply: Reply[Any]) -> None:
        """Hear that nobody waits for `reply` any more."""
        if self.kind.cut_when_withdrawn:
            block = self.block
            extra = self.extra
            if (extra is not None and extra.message is reply) or (
                block.stepping is self and block.serving is reply
            ):
                block.interrupt(self)

    def stopped_error(self, reason: ExitReason | None = None) -> ActorStopped:
        """The error for a message that this actor will not handle.

        Args:
            reason: how the life that it was for has ended, where another has followed.
        """
        if reason is None and self.actor is None:
            reason = self.args
        if reason is None and self.extra is not None:
            reason = self.extra.reason
        error = ActorStopped(self.path, str(reason) if reason is not None else "stopping")
        if isinstance(reason, Crashed):
            error.__cause__ = reason.error
        return error

    def waits_for(self) -> Iterator[Cell[Any]]:
        """Actors that a handler of this one waits for."""
        extra = self.extra
        if extra is not None:
            waiting = extra.waiting
            if type(waiting) is Reply and waiting.target is not None:
                yield waiting.target
            for reply in extra.also:
                if reply.target is not None:
                    yield reply.target

    # ---- life

    @enable_ki_protection
    def spawn(
        self,
        actor: Any,
        args: tuple[Any, ...],
        link: bool = True,
        starter: Reply[Any] | None = None,
        keeper: Keeper | None = None,
        label: str | None = None,
        /,
        **options: Unpack[SpawnOptions],
    ) -> Cell[Any]:
        """Start a child.  Raised errors leave nothing behind.

        Args:
            keeper: who may bring it back to life; then nobody else hears of its crash.
            label: what its path calls it, where it has no name.

        Raises:
            ActorStopped: this actor, or block, is stopping or has ended.
            NameTaken: an actor alive has `name`.
            TypeError: `actor` is no actor.
        """
        if self.begins_nothing:
            raise self.stopped_error()
        block = self.block
        kind = kinds.get(actor) or kind_of(actor)
        name = None
        if options:
            name = options.get("name")
            kind = kind.with_options(
                options.get("capacity"),
                options.get("overflow"),
                options.get("shutdown"),
                options.get("start_timeout"),
                options.get("stop_mode"),
                options.get("dedicated"),
            )
            if name is not None:
                block.names.check_free(name)
        instance = kind.make(*args)
        extra = self.extra
        if self.mailbox is DEAD or (extra is not None and (extra.stopping or extra.killed)):
            raise self.stopped_error()  # the constructor has ended who would own it
        child: Cell[Any]
        if keeper is None and label is None:
            child = block.cell()
        else:
            kept: KeptCell[Any] = KeptCell()
            child = kept
            kept.keeper = keeper
            kept.label = label
            kept.lives = 1
            kept.is_taken = False
        child.block = block
        child.kind = kind
        child.mailbox = None
        child.parent = self
        child.number = block.numbered = block.numbered + 1
        child.args = None
        child.extra = None
        child.actor = instance
        try:
            instance.ref = child
        except AttributeError:
            raise no_actor(kind, instance) from None
        context = copy_context()
        if changed(context, block) if block.table is not None else context != block.base:
            child.grow().context = context
        if name is not None:
            block.names.register(name, child)
        extra = extra or self.extra or self.grow()
        children = extra.children
        if children is None:
            extra.children = {child: None}
        else:
            children[child] = None
        if not link:
            child.rare().unlinked = True
        if block.stream.listeners:
            block.emit("actor.spawned", child, kind=kind.name)
        if kind.on_start is not None or kind.dedicated:
            block.schedule_start(child, starter)
        elif starter is not None:
            resolve(starter, child)
        return child

    @enable_ki_protection
    def stop(self, reason: ExitReason | None = None) -> Reply[ExitReason | Stuck]:
        if self.actor is None:
            return resolved(self.args)
        # A plain handler that one of its own asks runs may order it: that does not wait.
        if self.mailbox is not None and not self.block.stack and current_cell() is self:
            raise AskCycle(self.path, (self.path, self.path))
        if self.just_ends:
            self.block.end(self, reason or _SHUTDOWN)
            return resolved(self.args)
        self.block.begin_stop(self, reason or _SHUTDOWN)
        if self.actor is None:
            return resolved(self.args)
        rare = self.rare()
        if rare.stuck:
            return resolved(self.block.stuck_report(self))
        reply: Reply[Any] = Reply(END, self)
        if rare.stoppers is None:
            rare.stoppers = []
        rare.stoppers.append(reply)
        return reply

    def leave(self, reason: ExitReason | None = None) -> None:
        """End by its own wish, once the handler in progress is over."""
        if self.actor is None:
            return
        extra = self.extra or self.grow()
        extra.leaving = True
        block = self.block
        rest: Any = block.rest
        if (
            block.running is self
            and not extra.stopping
            and extra.rare is None
            and extra.system is None
            and block.batch is self.mailbox
            and not rest.__length_hint__()
            and self.kind.shutdown
        ):
            # Most leave after their only message: nothing waits that must be refused,
            # and the pump, which is calling this handler, goes on with the stop.
            extra.stopping = extra.alert = True
            if extra.reason is None:
                extra.reason = reason or _NORMAL
            self.mailbox = DEAD
            return
        block.begin_stop(self, reason or _NORMAL, own=True)

    @enable_ki_protection
    def kill(self) -> None:
        self.block.kill(self, Killed())

    def ended(self) -> Reply[ExitReason]:
        """The reply that resolves to how this actor ended."""
        if self.actor is None:
            return resolved(self.args)
        reply: Reply[Any] = Reply(END, self)
        rare = self.rare()
        if rare.joiners is None:
            rare.joiners = []
        rare.joiners.append(reply)
        return reply

    async def join(self) -> ExitReason:
        return await self.ended()

    # ---- inspection

    def get_state(self) -> Reply[Any]:
        reply: Reply[Any] = Reply(None, self)
        if self.mailbox is DEAD:
            resolve(reply, self.stopped_error(), ERROR)
            return reply
        self.block.push_system(self, System("get_state", _state_of, reply=reply))
        return reply

    def suspend(self) -> None:
        if self.mailbox is DEAD:
            return
        extra = self.extra or self.grow()
        extra.suspended = extra.alert = True
        if self.mailbox is None:
            self.mailbox = []  # busy, so that no ask is answered inline
        elif self.block.running is self:
            self.block.split_batch(self)

    def resume(self) -> None:
        extra = self.extra
        if extra is not None and extra.suspended:
            extra.suspended = False
            self.block.enqueue(self)

    def trace(self, note: Callable[[Any], object] | None) -> None:
        rare = self.rare()
        if rare.untraced is not None:
            self.kind = rare.untraced
            rare.untraced = None
        if note is not None:
            rare.untraced = self.kind
            heard = note
            self.kind = self.kind.traced(lambda _, message: heard(message))

    # ---- watching

    def monitor(self, target: Ref[Any], deliver: Callable[[Monitor, Down], None]) -> Monitor:
        """Call `deliver` with the end of `target`, once; at once where it has ended."""
        monitor = Monitor(target, deliver)
        cell = as_cell(target)
        if cell.actor is None or not target.is_alive:
            monitor.fire(NoProcess())
        else:
            rare = cell.rare()
            if rare.monitors is None:
                rare.monitors = []
            rare.monitors.append(monitor)
        return monitor

    def link(self, other: Ref[Any]) -> None:
        """Tie two lives: an abnormal end of either reaches the other.  At most once a pair."""
        peer = as_cell(other)
        if peer is self:
            return
        if peer.actor is None or not other.is_alive:
            self.block.linked_end(self, peer, NoProcess())
            return
        for one, two in ((self, peer), (peer, self)):
            rare = one.rare()
            if rare.links is None:
                rare.links = {}
            rare.links[two] = None

    def unlink(self, other: Ref[Any]) -> None:
        """Untie them; no end of `other` reaches this actor from now on."""
        peer = as_cell(other)
        if peer.actor is not None and not other.is_alive:
            return  # pinned to an earlier life: its links have ended with it
        for one, two in ((self, peer), (peer, self)):
            if one.extra is not None and one.extra.rare is not None and one.extra.rare.links:
                one.extra.rare.links.pop(two, None)
        if peer.parent is self and peer.actor is not None:
            peer.rare().unlinked = True

    def notify(self, what: Down | Exit, monitor: Monitor | None = None) -> None:
        """Put a notice into the system lane: ``on_down`` or ``on_exit`` gets it."""
        if self.actor is None or self.mailbox is DEAD:
            return
        hook = "on_down" if isinstance(what, Down) else "on_exit"

        def call(actor: Any) -> Any:
            if monitor is not None and monitor.is_cancelled:
                return None
            return getattr(actor, hook)(what)

        self.block.push_system(self, System(hook, call))


class KeptCell(Cell[M_contra]):
    """A cell whose actor may get another life.

    It remembers which messages of its mailbox the actor told itself: a new life
    must not get what the old one had in mind.
    """

    __slots__ = ("is_taken", "keeper", "label", "lives")

    keeper: Keeper | None
    label: str | None
    lives: int
    """How many it has had, this one included."""
    is_taken: bool
    """Whether a message that comes may be its own, or come between two lives: set when a
    turn begins or a life ends, and taken back by the first look that finds neither."""

    @property
    def incarnation(self) -> int:
        return self.lives

    @enable_ki_protection
    def tell(self, message: M_contra, /) -> None:
        mailbox = self.mailbox
        if mailbox is None:
            self.mailbox = [message]
            block = self.block
            block.runq.append(self)
            if block.parked is not None:
                block.wake()
        elif self.is_taken and self._takes(message):
            pass
        elif len(mailbox) < self.kind.capacity:
            mailbox.append(message)
        else:
            self._put_over(message)

    def _takes(self, message: Any) -> bool:
        """Look closer at a message that comes in a turn, or between two lives.

        Returns whether it has been dealt with.
        """
        if self.actor is None:
            if (
                type(message) is Reply
                and message.target is self
                and self.mailbox is not DEAD
                and self.keeper is not None
                and self.keeper.when_down == "fail"
            ):
                resolve(message, self.stopped_error(), ERROR)
                return True
            return False
        if self._speaks():
            self._tell_itself(message)
            return True
        return False

    def _speaks(self) -> bool:
        """Whether what runs now is this actor's handler, and nobody whom that asks."""
        block = self.block
        if block.stack:
            return block.stack[-1] is self
        if block.running is self or block.stepping is self:
            return True
        if self.extra is not None and self.extra.worker is not None:
            return current_cell() is self
        self.is_taken = False
        return False

    def _tell_itself(self, message: Any) -> None:
        # In an envelope of its own: somebody else may have told it the very same object.
        envelope = message if type(message) is Reply else Reply(message)
        rare = self.rare()
        if rare.own is None:
            rare.own = []
        remember(rare.own, envelope, self.mailbox)
        if len(self.mailbox) < self.kind.capacity:
            self.mailbox.append(envelope)
        elif envelope is message:
            self._put_over(envelope)
        else:
            self.put(envelope)


def changed(context: Context, block: Block) -> bool:
    """Whether `context` has other variables or values than its block's.

    By identity.  Contexts compare by ``==`` of their values, so a list that is
    equal to the block's, and is another, would pass for it, and the next actor
    would be given it; and an array has no ``==`` that could be asked.  Where the
    block holds no variable, ``!=`` of the contexts is the same, and cheaper.

    A copy of a context shares its table of values until a variable is set in it,
    and the garbage collector tells which table it has: nearly every turn ends
    at this first look.  Where it tells something else, the values are compared.
    """
    if get_referents(context)[-1] is block.table:
        return False
    base = block.base
    return len(context) != len(base) or any(
        map(is_not, chain(context, context.values()), chain(base, base.values()))
    )


def remember(envelopes: list[Reply[Any]], envelope: Reply[Any], mailbox: Any) -> None:
    """Add `envelope` to those of a life; now and then forget those that are done."""
    if len(envelopes) >= 2 * (len(mailbox) if mailbox and mailbox is not DEAD else 0) + 16:
        envelopes[:] = [each for each in envelopes if not each.state]
    envelopes.append(envelope)


def asked(message: Any) -> Reply[Any] | None:
    """The ask that waits for the turn on `message`; None where nobody does."""
    if type(message) is System:
        return message.later.asked if message.later is not None else message.reply
    return message if type(message) is Reply else None


def youngest(children: dict[Cell[Any], None]) -> Cell[Any]:
    """The child that was started last."""
    # Taken out and put back, as this alone clears away the places of those that have
    # ended: looking would walk over them all.
    child, _ = children.popitem()
    children[child] = None
    return child


def as_cell(ref: Ref[Any]) -> Cell[Any]:
    """The cell behind `ref`."""
    if isinstance(ref, Pinned):
        return ref.cell
    if not isinstance(ref, Cell):
        raise TypeError(f"{ref!r} is not a Ref")
    return ref


def _state_of(actor: Any) -> Any:
    inspect_state = getattr(actor, "inspect_state", None)
    if inspect_state is not None:
        return inspect_state()
    state = dict(getattr(actor, "__dict__", {}))
    for cls in type(actor).__mro__:
        for slot in getattr(cls, "__slots__", ()):
            if hasattr(actor, slot):
                state[slot] = getattr(actor, slot)
    return {key: value for key, value in state.items() if key not in ("ref", "__weakref__")}
