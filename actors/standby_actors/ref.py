"""What others hold of an actor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .exits import ExitReason, Stuck
from .message import Request
from .reply import Reply

if TYPE_CHECKING:
    from .snapshot import Snapshot

M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")


class Ref(Generic[M_contra]):
    """The only way to an actor that takes messages of type ``M``.

    A ref may be kept, compared, and handed on; it stays the same over the
    actor's lives.  Using one from another thread needs
    ``trio.from_thread.run_sync`` or a :class:`Host`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def path(self) -> str:
        """Where the actor stands: its owners' names and its own, joined by ``/``."""

    @property
    @abstractmethod
    def incarnation(self) -> int:
        """Which life of the actor this is, from 1.  :meth:`pin` gives a ref to that one."""

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether the actor has not ended.  One that is stopping is alive."""

    @abstractmethod
    def pin(self) -> Ref[M_contra]:
        """A ref to this life of the actor, which no later one takes for its own.

        While that life lasts it is as good as this ref.  Afterwards it is a ref to an
        actor that has ended, also if the actor itself lives on: a tell is a dead
        letter, an ask fails with :class:`ActorStopped`, a monitor fires at once, and
        :meth:`join` returns how that life ended.  What waits in the mailbox when the
        life ends counts as sent too late, while the mail of other refs waits for the
        next life.  Pinned between two lives, it is to the one that is over.  A
        pinned ref is what a pid is in Erlang; there is one for each life.
        """

    @abstractmethod
    def tell(self, message: M_contra, /) -> None:
        """Put `message` into the mailbox.  Never waits.

        Delivery is at most once, in order from one sender to one receiver.  When
        the actor has ended, the message is a dead letter: counted, reported,
        and no error here.

        Raises:
            MailboxFull: the mailbox is at its bound and its overflow policy is
                ``"raise"``; the message was not added.
        """

    @abstractmethod
    async def send(self, message: M_contra, /) -> None:
        """Put `message` into the mailbox, waiting for room.

        Cancelled while it waits, it has added nothing.  Those who wait are
        served in the order in which they came.

        Raises:
            ActorStopped: the actor has ended; the message was not added.
        """

    @overload
    def ask(self, message: Request[R], /, *, timeout: float | None = None) -> Reply[R]: ...
    @overload
    def ask(self, message: M_contra, /, *, timeout: float | None = None) -> Reply[Any]: ...
    @abstractmethod
    def ask(self, message: Any, /, *, timeout: float | None = None) -> Reply[Any]:
        """Send `message` at once, and return its answer to ``await``.

        It resolves exactly once.  An asker that is cancelled, or whose time is
        up, withdraws a message that the actor has not begun.  Asks that a
        handler makes while it serves this one have its deadline too.

        Args:
            message: a :class:`Request` says what type its answer has.
            timeout: seconds until :class:`AskTimeout`; None leaves it to the
                cancel scopes around the ``await``.

        Raises:
            ActorCrashed: on await; the handler failed, ``__cause__`` says how.
            ActorStopped: on await; the actor had ended, or ended first.
            AskTimeout: on await; no answer in time.
            AskCycle: on await; the actor waits for the asker already.
            MailboxFull: on await; the mailbox is at its bound.
        """

    @abstractmethod
    def stop(self, reason: ExitReason | None = None) -> Reply[ExitReason | Stuck]:
        """Begin an ordered stop, and return how the actor ended, to ``await`` or not.

        Nothing new begins, the handler in progress ends, children stop in
        reverse start order, then the stop hook runs: all of it within the
        actor's ``shutdown`` seconds, then it is killed.  Stopping twice, or at
        the same time, is stopping once.

        Args:
            reason: what is recorded; ``Shutdown()`` by default.
        """

    @abstractmethod
    def kill(self) -> None:
        """Cancel whatever the actor and its children do, at once.  No hook runs."""

    @abstractmethod
    async def join(self) -> ExitReason:
        """Wait for the actor's end, and return how it ended.  Never raises it."""

    @abstractmethod
    def get_state(self) -> Reply[Any]:
        """What the actor keeps, read between two messages, to ``await``.

        It is the answer of the actor's ``inspect_state``, or else its
        attributes as a dict.  Served while it is suspended, too.
        """

    @abstractmethod
    def suspend(self) -> None:
        """Give the actor no message until :meth:`resume`; its mail waits."""

    @abstractmethod
    def resume(self) -> None:
        """Take back a :meth:`suspend`."""

    @abstractmethod
    def trace(self, note: Callable[[Any], object] | None) -> None:
        """Call `note` with each message before the actor handles it; None ends that."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """What the actor is doing now, with its children, as values."""
