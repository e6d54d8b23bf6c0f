"""A seat: one session of a ledger while its block is open, and who plays its turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

import trio
from attrs import define, field, frozen

from standby_actors.agent import Agent
from standby_actors.mind import Closed
from standby_actors.result import Attachment, Result, failed
from standby_actors.session import Capabilities, Handoff, SessionEvent
from standby_actors.subagent import Subagent
from standby_actors.usage import NOTHING, Usage

from .capability import Target, probe
from .dimensions import Operation
from .escalation import Escalation
from .outcomes import CaptureReceipt, Cleanup, SupersededBy
from .row import Row
from .slots import Ticket
from .spec import SessionRef, SessionSpec

if TYPE_CHECKING:
    from .cleaning import Cleaning

R = TypeVar("R")


class Player(Protocol):
    """Whatever plays turns, as far as a ledger needs it."""

    @property
    def id(self) -> str:
        """As in "scout#2"."""
        ...

    async def ask(self, task: str, /) -> Result:
        """Play one turn.  A failure is a Result."""
        ...


Spawns: TypeAlias = Callable[..., AbstractAsyncContextManager[Player]]
"""What opens subagents: :func:`standby.spawn`, or something that stands for it.

Called with an agent, with `lifetime=` and whatever options its specification has, it is a
block that holds one subagent and closes it.  It raises :class:`SessionLimit` where a
backend has as many open as it allows.
"""


class SessionLimit(RuntimeError):
    """Raised by what opens subagents where a backend has as many open as it allows."""

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        self.target = target

    def __str__(self) -> str:
        return f"{self.target or 'the backend'} has as many sessions open as it allows"


class WindowOpen(RuntimeError):
    """Raised where a session would be closed that its workflow may need again; it is open."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} is kept open: leave its continuation window first"


@define(eq=False)
class Seat(Generic[R]):
    """One session of a ledger, from its spawn to its close; opened by the ledger.

    It plays turns as a subagent does.  A follow-up has no options: what a session is
    configured with does not change.
    """

    ref: SessionRef[R]
    spec: SessionSpec[R]
    player: Player
    """Who plays its turns; ask the seat, so that the ledger knows of it."""
    ticket: Ticket
    above: Seat[Any] | None
    """The one that it works for."""
    _ledger: Cleaning
    last: Result | None = None
    """What its last turn came to."""
    windows: int = 0
    """Continuation windows that are open."""
    in_flight: int = 0
    """Turns that are being played, or wait to be."""
    settling: trio.Lock = field(factory=trio.Lock)

    @property
    def id(self) -> str:
        """As in "scout#2"."""
        return self.player.id

    @property
    def row(self) -> Row[R]:
        """As the ledger has it."""
        return self._ledger.row(self.ref)

    @property
    def usage(self) -> Usage:
        """What it has spent, as far as it says."""
        usage = getattr(self.player, "usage", NOTHING)
        return usage if isinstance(usage, Usage) else NOTHING

    @property
    def target(self) -> Target:
        """What can be done about its session, seen from what it has, now."""
        is_whole = isinstance(self.player, Subagent)
        return probe(self.subagent.held if is_whole else self.player)

    @property
    def subagent(self) -> TrackedSubagent:
        """The subagent, with all that one can do; the ledger knows of its turns, too.

        Raises:
            TypeError: what plays here is no subagent.
        """
        if isinstance(self.player, Subagent):
            return TrackedSubagent(self, self.player)
        raise TypeError(f"{self.id} is played by a {type(self.player).__name__}")

    async def ask(
        self,
        task: str,
        /,
        *attachments: Attachment,
        timeout: float | None = None,  # noqa: ASYNC109 - it begins with the turn, not with the call
    ) -> Result:
        """Play one turn; that it begins and how it ended is recorded.

        One that is completed takes nothing any more: its Result is `refused`.
        """
        more: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        ask = cast("Callable[..., Awaitable[Result]]", self.player.ask)
        return await self.dispatch(lambda: ask(task, *attachments, **more))

    async def dispatch(self, play: Callable[[], Awaitable[Result]]) -> Result:
        """Record a turn that `play` plays; for the handles of a seat."""
        if self.row.operation is Operation.COMPLETED:
            await trio.lowlevel.checkpoint()
            why = f"{self.ref} is completed, and takes nothing any more"
            return failed(self.spec.agent.name, "closed", why, subagent=self.id)
        return await self._ledger.dispatch(self, play)

    def stop(self) -> None:
        """Cut the turn in flight; this one and every later one end `stopped`."""
        stop = getattr(self.player, "stop", None)
        if stop is not None:
            stop()

    async def complete(self) -> None:
        """Say that its work is done: its slot is free, and the next gate closes it.

        Raises:
            RuntimeError: a turn of it is in flight; nothing was changed.
        """
        await self._ledger.complete(self)

    async def capture(self, state: R) -> CaptureReceipt[R]:
        """Keep what its role needs of it.

        Raises:
            CannotCapture: it is not of the role's type; nothing was recorded.
        """
        return await self._ledger.capture(self.ref, state)

    async def supersede(self, receipt: CaptureReceipt[R], reason: str) -> SupersededBy:
        """Decide that another one is to take its place."""
        return await self._ledger.supersede(self.ref, receipt, reason)

    async def close(self, receipt: CaptureReceipt[R]) -> Cleanup:
        """Close it before its block is left; see :meth:`~.ledger.SessionLedger.close`."""
        return await self._ledger.close(self.ref, receipt)

    @contextmanager
    def window(self) -> Generator[None]:
        """Keep it open while the block is: its workflow may need the same session again.

        Closing it inside is refused, and the gate passes it by.  Leaving the block,
        however that happens, makes it closable again.
        """
        self.windows += 1
        try:
            yield
        finally:
            self.windows -= 1

    async def settle(self) -> None:
        """Complete, capture and close it, as leaving its block does."""
        await self._ledger.settle(self)

    def __repr__(self) -> str:
        return f"<Seat {self.ref} {self.id}>"


@frozen
class HeldSession:
    """The session of a subagent, as far as closing it goes."""

    id: str
    capabilities: Capabilities | None
    _close: Callable[[], Awaitable[Closed]]

    async def close(self) -> Closed:
        """Close it."""
        return await self._close()


class TrackedSubagent(Subagent):
    """The subagent of a seat, whose turns the ledger knows of."""

    def __init__(self, seat: Seat[Any], subagent: Subagent) -> None:
        super().__init__(subagent.ref)
        self._seat = seat

    @property
    def capabilities(self) -> Capabilities | None:
        """What its session can do; None between two."""
        session = self._mind.session
        return None if session is None else session.capabilities

    @property
    def held(self) -> HeldSession:
        """Its session, as the ledger closes it."""
        return HeldSession(self.id, self.capabilities, super().close)

    async def close(self) -> Closed:
        """Capture what its role needs, and close it; as leaving its block would."""
        await self._seat.settle()
        return await super().close()

    async def _ask(
        self,
        task: str,
        attachments: tuple[Attachment, ...],
        timeout: float | None,  # noqa: ASYNC109 - it begins with the turn, not with the call
        hear: Callable[[SessionEvent], None],
        on_handoff: Callable[[Handoff], None] | None = None,
    ) -> Result:
        # Every way to ask a subagent comes through here: ask, stream, and handoffs.
        plays = super()._ask
        return await self._seat.dispatch(
            lambda: plays(task, attachments, timeout, hear, on_handoff)
        )


@define(eq=False)
class BlockedPlayer:
    """Stands for a subagent that was not spawned: each turn is `blocked`, and says why."""

    id: str
    agent: Agent
    escalation: Escalation

    async def ask(self, task: str, /) -> Result:
        """Say why nobody answers."""
        await trio.lowlevel.checkpoint()
        return failed(self.agent.name, "blocked", self.escalation.render())
