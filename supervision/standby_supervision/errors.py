"""Errors of supervision, raised where a program is wrong rather than unlucky."""

from __future__ import annotations

from standby_actors import ActorError
from standby_actors.failure import described


class BadSpec(ActorError, ValueError, TypeError):
    """Raised on a specification that cannot be meant; nothing was started or changed.

    A ``TypeError`` as well as a ``ValueError``: an option that does not exist, and
    arguments that the child cannot be made with, are found here, too.

    :attr:`actor` is the id of the child, or "supervisor" for its own flags;
    :attr:`rule` names the rule as OTP does: ``missing_start``,
    ``invalid_restart_type``, ``bad_combination`` …
    """

    def __init__(self, actor: str, rule: str, detail: str) -> None:
        super().__init__(actor, rule, detail)
        self.rule = rule
        self.detail = detail

    def __str__(self) -> str:
        return f"child {self.actor}: {self.detail} ({self.rule})"


class StartFailed(ActorError):
    """Raised when a tree cannot be started: a child of it failed, ``__cause__`` says how.

    Children that had started have been stopped, in reverse order.
    """

    def __init__(self, actor: str, child: str) -> None:
        super().__init__(actor, child)
        self.child = child

    def __str__(self) -> str:
        cause = self.__cause__
        why = f": {described(cause)}" if cause is not None else ""
        return f"supervisor {self.actor} could not start its child {self.child}{why}"


class Stalled(ActorError):
    """How a child ended that was at one message for longer than its ``stalled_after``.

    The cause of what its asker gets, and of its restart.  :attr:`stack` says
    where it stood, outermost first.
    """

    def __init__(self, actor: str, seconds: float, stack: str) -> None:
        super().__init__(actor, seconds, stack)
        self.seconds = seconds
        self.stack = stack

    def __str__(self) -> str:
        return f"actor {self.actor} was at one message for {self.seconds:g} s\n{self.stack}"


class Ignore(Exception):
    """Raise it from a start hook: there is nothing to run here, and that is fine.

    The child's specification is kept, a temporary one's is not (OTP's ``ignore``).
    """
