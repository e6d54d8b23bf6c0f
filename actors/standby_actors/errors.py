"""Every error that concerns one actor.

    ActorError
    ├── ActorCrashed    the actor failed with the message in its hands
    ├── ActorStopped    the message came too late
    ├── AskCycle        the ask would wait for itself
    ├── AskTimeout      no answer within the time that the asker gave
    ├── LeakedScope     a handler left a cancel scope or a nursery open
    ├── MailboxFull     the message came too fast
    ├── NameTaken       somebody alive has that name
    ├── StartTimeout    the start hook took longer than its timeout
    └── WrongThread     a ref was used from a thread that does not run trio

An error keeps its facts as attributes and passes them to ``Exception`` in the
same order, so that it survives a trip between processes.
"""

from __future__ import annotations

from .failure import described


class ActorError(Exception):
    """Base of the errors that concern one actor, named by :attr:`actor`."""

    def __init__(self, actor: str, *facts: object) -> None:
        super().__init__(actor, *facts)
        self.actor = actor


class ActorCrashed(ActorError):
    """Raised by an ask whose message made the actor fail.

    ``__cause__`` is the error that the handler raised.  The message is not
    given to the actor again.
    """

    def __str__(self) -> str:
        cause = self.__cause__
        why = f": {described(cause)}" if cause is not None else ""
        return f"actor {self.actor} crashed while it handled the message{why}"


class ActorStopped(ActorError):
    """Raised on a message to an actor that has ended, or ends before its turn.

    The handler has not begun, or was cut by a kill.  :attr:`reason` says in
    words how the actor ended.
    """

    def __init__(self, actor: str, reason: str = "stopped") -> None:
        super().__init__(actor, reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"actor {self.actor} takes no message any more: {self.reason}"


class AskCycle(ActorError):
    """Raised at once by an ask that would wait for itself through others.

    :attr:`path` names the actors in the order in which they wait for one
    another; the first and the last are the same.  A message that has not been
    begun is withdrawn.
    """

    def __init__(self, actor: str, path: tuple[str, ...]) -> None:
        super().__init__(actor, path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"this ask would wait for itself: {' -> '.join(self.path)}; "
            "use tell, or answer later with reply_later()"
        )


class AskTimeout(ActorError, TimeoutError):
    """Raised when no answer came within :attr:`seconds`.

    A message that the actor had not begun is withdrawn; one that it is at work
    on goes on, and its late answer reaches nobody.
    """

    is_inherited = False
    """Whether it was not the asker's own time that was up, but that of who asked the
    asker.  Left uncaught, it ends that turn, for which nobody waits any more; it is
    no crash."""

    def __init__(self, actor: str, seconds: float) -> None:
        super().__init__(actor, seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"actor {self.actor} did not answer within {self.seconds:g} s"


class LeakedScope(ActorError, RuntimeError):
    """The crash of an actor that left a cancel scope or a nursery open.

    A scope belongs to the task that opened it, and the next message may be
    handled by another task.  An actor that keeps one open across messages (a
    client, a task group) says ``dedicated = True``.
    """

    def __init__(self, actor: str, where: str) -> None:
        super().__init__(actor, where)
        self.where = where

    def __str__(self) -> str:
        return (
            f"actor {self.actor} left a cancel scope or a nursery open in {self.where}: "
            "close it before you return, or set dedicated = True"
        )


class MailboxFull(ActorError):
    """Raised by :meth:`Ref.tell` where :meth:`Ref.send` would wait.

    The message was not added.
    """

    def __init__(self, actor: str, capacity: float) -> None:
        super().__init__(actor, capacity)
        self.capacity = capacity

    def __str__(self) -> str:
        return (
            f"mailbox of {self.actor} is full: {self.capacity:g} messages wait; "
            "await send() to wait for room, or spawn it with a larger capacity"
        )


class NameTaken(ActorError):
    """Raised on a name that an actor alive has; nothing was started."""

    def __init__(self, actor: str, name: str) -> None:
        super().__init__(actor, name)
        self.name = name

    def __str__(self) -> str:
        return f"the name {self.name!r} is taken by {self.actor}"


class StartTimeout(ActorError, TimeoutError):
    """Raised to who started an actor whose start hook took too long.

    The actor has been killed; it left no name behind.
    """

    def __init__(self, actor: str, seconds: float) -> None:
        super().__init__(actor, seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"start hook of {self.actor} took longer than {self.seconds:g} s"


class WrongThread(ActorError, RuntimeError):
    """Raised in debug mode where a ref is used outside trio's thread."""

    def __str__(self) -> str:
        return (
            f"{self.actor} was used from a thread that does not run its trio loop; "
            "use trio.from_thread.run_sync(ref.tell, message) or a Host"
        )
