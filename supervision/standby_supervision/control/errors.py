"""What can go wrong between a program and who asks it.

ControlError
├── UnsafeFolder      the folder of the sockets cannot be used
├── NoAnswer          the program could not be reached, or went away
└── ControlRefused    it answered that it will not
"""

from __future__ import annotations

from typing import Literal

RefusalKind = Literal[
    "malformed",
    "too_long",
    "other_version",
    "wrong_token",
    "unknown_verb",
    "bad_arguments",
    "failed",
    "timeout",
    "busy",
]


class ControlError(Exception):
    """Base of the errors of the control socket."""


class UnsafeFolder(ControlError):
    """Raised where sockets cannot be kept safely; nothing was opened, nothing is left."""

    def __init__(self, path: str, why: str, cure: str) -> None:
        super().__init__(path, why, cure)
        self.path = path
        self.why = why
        self.cure = cure

    def __str__(self) -> str:
        return f"control sockets cannot be kept in {self.path}: {self.why}; {self.cure}"


class NoAnswer(ControlError):
    """Raised where a program did not answer; what it did with the request is not known."""

    def __init__(self, pid: int, why: str, has_ended: bool) -> None:
        super().__init__(pid, why, has_ended)
        self.pid = pid
        self.why = why
        self.has_ended = has_ended
        """Whether the program runs no more, or serves no more."""

    def __str__(self) -> str:
        what = "has ended" if self.has_ended else "does not answer"
        return f"program {self.pid} {what}: {self.why}"


class ControlRefused(ControlError):
    """Raised for a request that was answered with a refusal; nothing was done."""

    def __init__(self, kind: RefusalKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind: RefusalKind = kind
        self.message = message

    def __str__(self) -> str:
        return f"refused ({self.kind}): {self.message}"
