"""The owner's block, as its users see it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple, Unpack, cast, overload

import trio

from .actor import started
from .block import Block
from .cell import Cell
from .checked import CheckedCell, is_debugging
from .kind import SpawnOptions, checked_seconds, is_agent
from .names import Names
from .ref import Ref
from .reply import Reply
from .snapshot import Snapshot

if TYPE_CHECKING:
    from .agent import Agent
    from .subagent import Subagent, SubagentOptions, SubagentStart

M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)
Args = TypeVarTuple("Args")


class Receives(Protocol[M_contra]):
    """Whatever has a ``receive`` method: what an actor class makes."""

    def receive(self, message: M_contra, /) -> object:
        """Handle one message."""
        ...


class Nursery:
    """A block that owns actors, as a trio nursery owns tasks.

    Leaving it is an ordered stop, whatever happened inside: nothing new begins,
    the handlers in progress end, the actors stop in reverse start order, each
    within its ``shutdown`` seconds and all within the block's, then the rest is
    killed.  A cancellation from outside becomes the same stop and is re-raised.
    A crash ends the block's body and is raised from the block, in an
    ``ExceptionGroup``; the body's own error passes as it is.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._ending = trio.Event()

    async def __aenter__(self) -> Nursery:
        await self._block.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return await self._block.__aexit__(kind, error, trace)

    @property
    def root(self) -> Cell[Any]:
        """The cell that its actors are children of."""
        return self._block.root

    @property
    def name(self) -> str:
        """The first part of the path of everything inside."""
        return self._block.name

    @property
    def names(self) -> Names:
        """Names and groups of this block and those inside it."""
        return self._block.names

    @overload
    def spawn(
        self, actor: Agent | SubagentStart, /, **options: Unpack[SubagentOptions]
    ) -> Subagent: ...
    @overload
    def spawn(
        self,
        actor: Callable[[*Args], Receives[M]],
        /,
        *args: *Args,
        **options: Unpack[SpawnOptions],
    ) -> Ref[M]: ...
    @overload
    def spawn(
        self,
        actor: Callable[[M], object],
        /,
        **options: Unpack[SpawnOptions],
    ) -> Ref[M]: ...
    def spawn(  # type: ignore[misc]  # mypy takes *Args for more than *args accepts
        self,
        actor: Callable[..., Any] | Agent | SubagentStart,
        /,
        *args: Any,
        **options: Any,
    ) -> Ref[Any] | Subagent:
        """Start an actor at once; its start hook runs before its first message.

        Args:
            actor: an actor class, or a function of one message.
            args: what the class is called with.
            name: unique in this block and those inside it, free again when it ends.
            capacity: messages that may wait; 1,000 unless the class says otherwise.
            overflow: ``"raise"``, ``"drop_oldest"`` or ``"drop_new"``.
            shutdown: seconds from its stop to its kill; 5.
            start_timeout: seconds that its start hook may take; 30.
            stop_mode: ``"finish"`` the handler in progress, or ``"interrupt"`` it.
            dedicated: run all its hooks and handlers on one task.

        Raises:
            ActorStopped: the block is stopping.
            NameTaken: an actor alive has that name; nothing was started.
            TypeError: `actor` is no actor.

        An :class:`Agent` may stand in place of the class; then the options are
        those of :class:`SubagentOptions`, and what comes back is the
        :class:`Subagent`, which this block closes.
        """
        if is_agent(actor):
            from .subagent import spawn_in

            return spawn_in(self._block.root, actor, cast("Any", options))
        return self._block.root.spawn(
            actor,
            args,
            **options,
        )

    @overload
    async def start(
        self, actor: Agent | SubagentStart, /, **options: Unpack[SubagentOptions]
    ) -> Subagent: ...
    @overload
    async def start(
        self,
        actor: Callable[[*Args], Receives[M]],
        /,
        *args: *Args,
        **options: Unpack[SpawnOptions],
    ) -> Ref[M]: ...
    @overload
    async def start(
        self,
        actor: Callable[[M], object],
        /,
        **options: Unpack[SpawnOptions],
    ) -> Ref[M]: ...
    async def start(  # type: ignore[misc]  # as above
        self,
        actor: Callable[..., Any] | Agent | SubagentStart,
        /,
        *args: Any,
        **options: Any,
    ) -> Ref[Any] | Subagent:
        """As :meth:`spawn`, but wait until the start hook is done.

        A start that fails is raised here and nowhere else: the actor has ended,
        its name is free, and the others have not noticed.  Cancelled while it
        waits, the actor is killed.

        Raises:
            StartTimeout: the hook took longer than `start_timeout`.
            Exception: whatever the hook raised.

        Of an :class:`Agent`, its session is open then.
        """
        if is_agent(actor):
            from .subagent import start_in

            return await start_in(self._block.root, actor, cast("Any", options))
        starter: Reply[Any] = Reply(None)
        child = self._block.root.spawn(
            actor,
            args,
            True,
            starter,
            **options,
        )
        return await started(child, starter)

    def whereis(self, name: str) -> Ref[Any] | None:
        """The actor alive that has `name`, or None."""
        return self._block.names.whereis(name)

    async def join(self) -> None:
        """Serve until something ends the block: :meth:`stop`, a crash, a cancellation."""
        await self._ending.wait()

    def stop(self) -> None:
        """Let :meth:`join` return, so that the body ends and the block is left."""
        self._ending.set()

    def kill(self) -> None:
        """Cancel the body and every actor, at once.  No stop hook runs."""
        self._ending.set()
        self._block.kill_all()

    def tree(self) -> Snapshot:
        """What is alive, what each actor waits for, and how deep its mailbox is."""
        return self._block.root.snapshot()

    @property
    def dead_letters(self) -> int:
        """Messages to actors of this block that had ended."""
        return self._block.dead_letters

    @property
    def late_replies(self) -> int:
        """Answers of actors of this block whose askers had given up; nobody got them."""
        return self._block.late_replies

    @property
    def drops(self) -> dict[str, int]:
        """Messages that the bound of a mailbox kept out, by what was done with them."""
        return dict(self._block.drops)


def open_nursery(
    *,
    name: str = "nursery",
    shutdown: float = 30.0,
    grace: float = 1.0,
    names: Names | None = None,
    debug: bool | None = None,
) -> Nursery:
    """Open a block that owns actors: ``async with standby.open_nursery() as nursery``.

    Args:
        name: the first part of the paths of its actors.
        shutdown: seconds from leaving the block to the kill of all that is left.
        grace: seconds from a kill to the report that an actor is stuck.
        names: the names that it shares; by default those of the block whose
            actor opens it, or else its own.
        debug: whether a ref that is used outside this thread raises
            :class:`WrongThread`; by default only where the environment has
            ``STANDBY_DEBUG``.
    """
    checked_seconds("shutdown", shutdown)
    checked_seconds("grace", grace)
    cell: type[Cell[Any]] = CheckedCell if is_debugging(debug) else Cell
    return Nursery(Block(name=name, shutdown=shutdown, grace=grace, names=names, cell=cell))
