"""What a user writes: a class with a ``receive`` method."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

import trio

from .cell import Cell, Monitor, System, as_cell
from .errors import MailboxFull
from .exits import Down, ExitReason
from .kind import Overflow, SpawnOptions, StopMode, checked_seconds, is_agent
from .later import Later
from .ref import Ref
from .reply import END, Reply

if TYPE_CHECKING:
    from .agent import Agent
    from .subagent import Subagent, SubagentOptions, SubagentStart
    from .timers import Timer

A = TypeVar("A")
M = TypeVar("M")
T = TypeVar("T")


class Actor:
    """State behind a mailbox: one message at a time, no locks.

    Subclass it and write ``receive``.  As a plain ``def`` it runs to its end and
    needs no task; as an ``async def`` it may await, has a cancel scope of its
    own, and still gets its next message only after it has returned.

    What ``receive`` returns is the answer to an ask.  What it raises is the
    actor's crash: it goes to the owner, and no further message is handled.

    Hooks that a subclass may define, each ``def`` or ``async def``:

    - ``on_start(self)``: before the first message, at most ``start_timeout``.
    - ``on_stop(self, reason)``: after the last one, children stopped; not on a kill.
    - ``on_continue(self, what)``: asked for by :meth:`continue_with`, before any message.
    - ``on_down(self, down)``: an actor that it monitors has ended.
    - ``on_exit(self, exit)``: an actor that it is linked to has ended (``trap_exits``).
    - ``on_receive_timeout(self)``: no message came in time.
    - ``inspect_state(self)``: what :meth:`Ref.get_state` answers.
    """

    # So that a subclass with slots of its own has no dict: half of what it weighs.
    __slots__ = ("ref",)

    ref: Ref[Any]
    """Its own ref; there from ``on_start`` on."""

    shutdown: float = 5.0
    """Seconds from a stop to the kill."""
    start_timeout: float = 30.0
    """Seconds that ``on_start`` may take."""
    stop_mode: StopMode = "finish"
    """Whether a stop lets the handler in progress finish, or interrupts it."""
    trap_exits: bool = False
    """Whether the end of a linked actor comes as a notice, or ends this one too."""
    capacity: float = 1000
    """Messages that may wait; ``math.inf`` for no bound."""
    overflow: Overflow = "raise"
    """What happens to a message over the bound."""
    dedicated: bool = False
    """Whether all its hooks and handlers run on one task, which may keep scopes open."""

    def receive(self, message: Any, /) -> Any:
        """Handle one message."""
        raise NotImplementedError(f"{type(self).__name__} must define receive(self, message)")

    # ---- children

    @overload
    def spawn(
        self,
        actor: Agent | SubagentStart,
        *,
        link: bool = True,
        **options: Unpack[SubagentOptions],
    ) -> Subagent: ...
    @overload
    def spawn(
        self,
        actor: Any,
        *args: Any,
        link: bool = True,
        **options: Unpack[SpawnOptions],
    ) -> Ref[Any]: ...
    def spawn(
        self,
        actor: Any,
        *args: Any,
        link: bool = True,
        **options: Any,
    ) -> Ref[Any] | Subagent:
        """Start a child at once.  It is stopped before this actor ends.

        Args:
            link: whether the child's crash ends this actor too, as ``Linked``.

        Raises:
            ActorStopped: this actor is stopping.
            NameTaken: an actor alive has that name.

        Of an :class:`Agent`, what comes back is its :class:`Subagent`.
        """
        if is_agent(actor):
            from .subagent import spawn_in

            return spawn_in(self._cell, actor, cast("Any", options), link)
        cell: Any = self.ref  # not by the property: the way of very many
        spawned: Ref[Any] = cell.spawn(actor, args, link, **options)
        return spawned

    @overload
    async def start(
        self,
        actor: Agent | SubagentStart,
        *,
        link: bool = True,
        **options: Unpack[SubagentOptions],
    ) -> Subagent: ...
    @overload
    async def start(
        self,
        actor: Any,
        *args: Any,
        link: bool = True,
        **options: Unpack[SpawnOptions],
    ) -> Ref[Any]: ...
    async def start(
        self,
        actor: Any,
        *args: Any,
        link: bool = True,
        **options: Any,
    ) -> Ref[Any] | Subagent:
        """As :meth:`spawn`, but wait for the child's start hook; its error is raised here.

        Cancelled while it waits, the child is killed.
        """
        if is_agent(actor):
            from .subagent import start_in

            return await start_in(self._cell, actor, cast("Any", options), link)
        starter: Reply[Any] = Reply(None)
        child = self._cell.spawn(
            actor,
            args,
            link,
            starter,
            **options,
        )
        return await started(child, starter)

    # ---- its own life

    async def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter `manager` for the rest of this life; only where ``dedicated`` is said.

        It is left after the stop hook, the last entered first, however the life
        ends: stopped, crashed, or killed, when it sees the cancellation as it
        would in a block.  What leaving it raises is the actor's crash.  Cancelled
        while it enters, it is not entered.

        Raises:
            RuntimeError: the actor is not dedicated, this is not its own turn, or the
                turn may be cut (``stop_mode = "interrupt"``) and is not its start.
        """
        cell = self._cell
        if not cell.kind.dedicated:
            raise RuntimeError(
                f"{cell.path} keeps nothing open between its messages: say `dedicated = True`"
                " in its class, so that all its turns run on one task"
            )
        if cell.extra is None or cell.extra.worker is not trio.lowlevel.current_task():
            raise RuntimeError(f"enter() of {cell.path} is called by a hook or handler of its own")
        rare = cell.rare()
        if rare.turn_scope is not None:
            raise RuntimeError(
                f"{cell.path} may be cut in the middle of a turn, and what this one enters"
                " would stay: call enter() in its start hook"
            )
        assert rare.entered is not None
        return await rare.entered.enter_async_context(manager)

    def stop(self, reason: ExitReason | None = None) -> None:
        """End after this handler: ``Normal()``, or `reason`.  Returns at once.

        The answer of this handler reaches its asker after the stop hook has run.
        """
        cell: Any = self.ref
        cell.leave(reason)

    def continue_with(self, what: Any) -> None:
        """Have ``on_continue(what)`` called before any further message (OTP's continue)."""
        cell = self._cell
        hook: Callable[[Any, Any], Any] | None = getattr(type(self), "on_continue", None)
        if hook is None:
            raise TypeError(f"{type(self).__name__} has no on_continue(self, what)")
        call = hook
        cell.block.push_system(cell, System("on_continue", lambda actor: call(actor, what)))

    def set_receive_timeout(self, seconds: float | None) -> None:
        """Have ``on_receive_timeout`` called if no message comes for `seconds`.

        Once: any message, and the timeout itself, ends it.  None takes it back.
        With 0 it comes when the mailbox is empty.
        """
        cell = self._cell
        if not cell.kind.watches_silence:
            raise TypeError(f"{type(self).__name__} has no on_receive_timeout(self)")
        rare = cell.rare()
        if rare.silence is not None:
            rare.silence.cancel()
            rare.silence = None
        if seconds is not None:
            wait = checked_seconds("the receive timeout", seconds)
            rare.silence = cell.block.timers.after(wait, _silent, cell)

    # ---- answers that come later

    def reply_later(self) -> Later[Any]:
        """A promise to return from ``receive``; its ``reply`` answers the asker."""
        return Later()

    def postpone(self, message: Any) -> Later[Any]:
        """Keep `message` for :meth:`replay_postponed`; return what this returns.

        Raises:
            MailboxFull: as many messages are postponed as the mailbox may hold.
        """
        cell = self._cell
        rare = cell.rare()
        if rare.postponed is None:
            rare.postponed = []
        if len(rare.postponed) >= cell.kind.capacity:
            raise MailboxFull(cell.path, cell.kind.capacity)
        later: Later[Any] = Later(message)
        rare.postponed.append((message, later))
        return later

    def replay_postponed(self) -> None:
        """Handle the postponed messages next, in their order, before any other."""
        cell = self._cell
        rare = cell.rare()
        kept, rare.postponed = rare.postponed, None
        for message, later in kept or ():
            cell.block.push_system(cell, _replay(cell, message, later))

    # ---- time

    def send_after(
        self, seconds: float, message: Any, to: Ref[Any] | None = None
    ) -> ScheduledMessage:
        """Tell `message` to itself, or to `to`, in `seconds`; not if it ends before that."""
        return ScheduledMessage(self._cell, to or self.ref, message, seconds, repeat=False)

    def send_every(
        self, seconds: float, message: Any, to: Ref[Any] | None = None
    ) -> ScheduledMessage:
        """Tell `message` every `seconds`, the first time in `seconds`, while it lives.

        A message that finds the mailbox full is dropped and counted.
        """
        if not seconds > 0:
            raise ValueError(f"a period must be more than 0 seconds, not {seconds!r}")
        return ScheduledMessage(self._cell, to or self.ref, message, seconds, repeat=True)

    # ---- others

    def monitor(self, ref: Ref[Any]) -> Monitor:
        """Get ``on_down`` once when this life of `ref` ends; each call is a watch of its own.

        It ends with the life of this actor that has set it.

        For an actor that has ended already it comes at once, with ``NoProcess()``.
        """
        cell = self._cell
        life = cell.incarnation

        def deliver(monitor: Monitor, down: Down) -> None:
            if cell.incarnation == life:  # a later life has not asked for it
                cell.notify(down, monitor)

        return cell.monitor(ref, deliver)

    def link(self, ref: Ref[Any]) -> None:
        """Tie this life to `ref`'s: an abnormal end of either ends the other, or is
        a notice to one that traps exits."""
        self._cell.link(ref)

    def unlink(self, ref: Ref[Any]) -> None:
        """Untie them."""
        self._cell.unlink(ref)

    def whereis(self, name: str) -> Ref[Any] | None:
        """The actor alive that has `name` in this block, or None."""
        return self._cell.block.names.whereis(name)

    def join_group(self, group: str) -> None:
        """Become a member of `group` until it ends."""
        self._cell.block.names.join(group, self._cell)

    def leave_group(self, group: str) -> None:
        """End that membership."""
        self._cell.block.names.leave(group, self._cell)

    @property
    def _cell(self) -> Cell[Any]:
        return cast("Cell[Any]", self.ref)


async def started(child: Cell[Any], starter: Reply[Any]) -> Ref[Any]:
    """Wait for the start hook of `child`; cancelled meanwhile, kill it, and wait for its end."""
    # So that a start hook that asks who waits for it is refused, and not timed out.
    starter.message, starter.target = END, child
    try:
        await starter
    except trio.Cancelled:
        child.kill()
        # Its name and its place are free when the caller goes on.  Who outlives its
        # kill is reported as stuck after the grace of its block: this is bounded.
        with trio.CancelScope(shield=True):
            await child.stop()
        raise
    return child


class ScheduledMessage:
    """A message on its way through time.  It dies with the actor that sent it."""

    __slots__ = ("_message", "_period", "_sender", "_timer", "_to")

    def __init__(
        self, sender: Cell[Any], to: Ref[Any], message: Any, seconds: float, *, repeat: bool
    ) -> None:
        checked_seconds("the delay", seconds)
        self._sender = sender
        as_cell(to)  # it is one of ours
        self._to = to
        self._message = message
        self._period = seconds if repeat else None
        self._timer: Timer | None = None
        self._arm(sender.block.time() + seconds)

    @property
    def is_pending(self) -> bool:
        """Whether it will still be sent, if its sender lives."""
        return self._timer is not None and self._timer.is_pending

    def cancel(self) -> None:
        """Do not send it (again)."""
        if self._timer is not None:
            self._timer.cancel()
            self._forget()

    def _arm(self, due: float) -> None:
        timer = self._timer = self._sender.block.timers.at(due, self._send, due)
        rare = self._sender.rare()
        if rare.timers is None:
            rare.timers = {}
        rare.timers[timer] = None

    def _forget(self) -> None:
        rare = self._sender.rare()
        if rare.timers is not None and self._timer is not None:
            rare.timers.pop(self._timer, None)

    def _send(self, due: float) -> None:
        self._forget()
        if self._sender.actor is None:
            return
        if self._period is not None:
            # From when it was due, not from now: a busy loop must not slow a clock.
            now = self._sender.block.time()
            missed = max(0, int((now - due) / self._period))
            self._arm(due + (missed + 1) * self._period)
        # Refused and counted like any other; there is nobody to raise it to.
        with contextlib.suppress(MailboxFull):
            self._to.tell(self._message)


def _silent(cell: Cell[Any]) -> None:
    rare = cell.rare()
    rare.silence = None
    if cell.actor is None or cell.block.waiting_mail(cell):
        return  # a message is there, and will be the next turn
    cell.block.push_system(
        cell, System("on_receive_timeout", lambda actor: actor.on_receive_timeout())
    )


def _replay(cell: Cell[Any], message: Any, later: Later[Any]) -> System:
    def call(actor: Any) -> Any:
        return cell.kind.receive(actor, message)

    def then(_: Cell[Any], value: Any) -> None:
        if type(value) is Later:
            value.pass_on(later)
        else:
            later.reply(value)

    return System("postponed", call, then, later=later)
