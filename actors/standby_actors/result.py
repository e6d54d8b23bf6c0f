"""A Result is how a turn ended, as a value: answered or not, what was said, what it cost.

A mind that fails is expected work, so its failure is a `Result` and not an
exception.  Misuse raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NoReturn, cast, get_args

import msgspec

from .failure import described
from .usage import NOTHING, Usage

Status = Literal[
    "ok",
    "failed",
    "stopped",
    "aborted",
    "cancelled",
    "not_started",
    "timed_out",
    "cut_short",
    "refused",
    "crashed",
    "skipped",
    "blocked",
    "budget",
    "context_overflow",
]
"""How a turn ended; closed.

`stopped`: by its own stop.  `aborted`: by the signal of the whole run.
`cancelled`: cut by a sibling (a fan-out that had enough).  `not_started`: its
turn had not come.  `cut_short`: there is an answer and it is not whole.
`refused`: not taken on, by us or by the model's provider.  `skipped`,
`blocked`: passed over, or waiting for somebody, in a flow.
"""

ErrorKind = Literal[
    # What can go wrong around an actor.
    "stopped",
    "closed",
    "cancelled",
    "timeout",
    "idle_timeout",
    "dead",
    "crash",
    "start_failed",
    "would_deadlock",
    "mailbox_full",
    # What is not given out any more.
    "capacity",
    "depth_limit",
    "name_taken",
    "budget",
    "context_overflow",
    "rate_limited",
    # What can go wrong with a mind.
    "provider",
    "protocol",
    "truncated",
    "schema",
    "no_tool",
    "runaway",
    # What can go wrong with the record.
    "store_full",
    "store_busy",
    "recovery_failed",
    "workspace_denied",
    # Nothing went wrong: these say only why no answer came, and are called
    # like their status, so that whatever is not ok has an error to read.
    "aborted",
    "not_started",
    "refused",
    "skipped",
    "blocked",
]
"""What went wrong; closed.

`provider` is whatever the model's server or the way to it did: no key or a
wrong one, an unknown model, a refused connection, a 500.  `protocol` is an
answer that cannot be read.  `truncated` is an answer that is not whole.
"""

STATUS_OF: Mapping[ErrorKind, Status] = MappingProxyType(
    {
        "stopped": "stopped",
        "closed": "refused",
        "cancelled": "cancelled",
        "timeout": "timed_out",
        "idle_timeout": "timed_out",
        "dead": "crashed",
        "crash": "crashed",
        "start_failed": "crashed",
        "would_deadlock": "refused",
        "mailbox_full": "refused",
        "capacity": "refused",
        "depth_limit": "refused",
        "name_taken": "refused",
        "budget": "budget",
        "context_overflow": "context_overflow",
        "rate_limited": "failed",
        "provider": "failed",
        "protocol": "failed",
        "truncated": "cut_short",
        "schema": "failed",
        "no_tool": "failed",
        "runaway": "cut_short",
        "store_full": "failed",
        "store_busy": "failed",
        "recovery_failed": "failed",
        "workspace_denied": "refused",
        "aborted": "aborted",
        "not_started": "not_started",
        "refused": "refused",
        "skipped": "skipped",
        "blocked": "blocked",
    }
)
"""The one table from what went wrong to how the turn ended."""

CUT: frozenset[Status] = frozenset({"stopped", "aborted", "cancelled", "not_started"})
"""Statuses of a turn that somebody did not want to go on, or to begin: no outcome of it."""
STATUSES: frozenset[str] = frozenset(get_args(Status))
ERROR_KINDS: frozenset[str] = frozenset(get_args(ErrorKind))

Role = Literal["system", "user", "assistant", "tool"]


# No garbage collector for what a conversation is made of: texts are in no cycle, and of
# a million turns each has two messages.
class Attachment(
    msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False
):
    """A picture or a file that goes with a message."""

    media_type: str
    """As in "image/png"."""
    data: bytes
    name: str = ""

    @property
    def is_image(self) -> bool:
        """Whether it is a picture."""
        return self.media_type.startswith("image/")


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A mind asks for a tool."""

    id: str
    """Which call; its answer carries the same."""
    name: str
    """Of the tool, word for word as the mind said it; "?" when it said none."""
    arguments: str
    """The JSON text that the mind wrote, which may be none."""


class ChatMessage(
    msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False
):
    """One message of a conversation with a mind."""

    role: Role
    text: str
    partial: bool = False
    """The text is not whole: its writer was cut."""
    calls: tuple[ToolCall, ...] = ()
    """What an assistant asks for, beside its text."""
    call: str = ""
    """The id of the call that a tool's message answers."""
    is_error: bool = False
    """The tool failed, or was refused; its text says how."""
    attachments: tuple[Attachment, ...] = ()


class TurnError(msgspec.Struct, frozen=True, dict=True, repr_omit_defaults=True):
    """Why a turn has no answer, as a value."""

    kind: ErrorKind
    message: str
    """A sentence for people.  It never holds a secret."""
    retryable: bool = False
    """The same task may succeed later, with nothing changed."""

    # An exception belongs to the process in which it happened: it has frames,
    # and no encoding brings it back.  So it is kept beside the fields, where
    # neither JSON nor pickle, equality nor repr sees it, and the message says
    # in words what it was.
    @property
    def cause(self) -> BaseException | None:
        """The exception behind it, in the process where it was raised; else None."""
        cause: BaseException | None = self.__dict__.get("cause_")
        return cause

    def with_cause(self, cause: BaseException | None) -> TurnError:
        """The same error, which remembers `cause` until it travels."""
        # A struct made of texts alone is never looked at by the garbage collector, and a
        # cause is often in a cycle with whoever holds this error: its traceback has frames.
        # One that was made with a list is looked at, whatever it holds later.
        error = TurnError(self.kind, cast("str", []), self.retryable)
        msgspec.structs.force_setattr(error, "message", self.message)
        vars(error)["cause_"] = cause
        return error

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def crash_of(error: BaseException) -> TurnError:
    """The crash that `error` is, in words and as its cause.

    Examples:
        >>> str(crash_of(KeyError("x"))), str(crash_of(ValueError()))
        ("crash: KeyError: 'x'", 'crash: ValueError')
    """
    return TurnError("crash", described(error).removesuffix(": ")).with_cause(error)


class Result(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What one turn came to.

    It travels: msgspec encodes and decodes it as JSON, everything but
    :attr:`TurnError.cause`.  A `value` arrives as plain data; decode it with
    the agent's schema.

    Examples:
        >>> result = succeeded("scout", "It parses dates.", subagent="scout#2")
        >>> result.ok, result.output
        (True, 'It parses dates.')
        >>> late = failed("scout", "timeout", "timed out after 20 s")
        >>> late.ok, late.status
        (False, 'timed_out')
    """

    agent: str
    """Name of the agent."""
    subagent: str = ""
    """Which one of its subagents, as in "scout#2"; empty when none was spawned."""
    output: str = ""
    """The answer, trimmed: what feeds the next step.  Empty unless ok."""
    messages: tuple[ChatMessage, ...] = ()
    """What was said in this turn, and in no other."""
    usage: Usage = NOTHING
    """What this turn cost.  A failed turn costs what it cost."""
    status: Status = "ok"
    error: TurnError | None = None
    """Set exactly if `status` is not "ok", which is then `STATUS_OF[error.kind]`."""
    value: Any = None
    """The answer as the agent's schema has it, when it has one."""

    def __post_init__(self) -> None:
        expected = "ok" if self.error is None else STATUS_OF[self.error.kind]
        if self.status != expected:
            raise ValueError(f"a Result with error {self.error} is {expected}, not {self.status}")

    @property
    def ok(self) -> bool:
        """The turn was answered, wholly."""
        return self.status == "ok"

    @property
    def partial(self) -> str:
        """What a turn had said when it was cut; empty when nothing was, or it is whole."""
        return "".join(m.text for m in self.messages if m.partial and m.role == "assistant")

    def __bool__(self) -> NoReturn:
        # `if result:` would be true of a failure, and `if result.output:`
        # false of an empty answer: neither is what its writer meant.
        raise TypeError("a Result is neither true nor false: use result.ok")


def succeeded(
    agent: str,
    output: str,
    *,
    subagent: str = "",
    messages: tuple[ChatMessage, ...] = (),
    usage: Usage = NOTHING,
    value: Any = None,
) -> Result:
    """A Result that answers."""
    return Result(
        agent=agent,
        subagent=subagent,
        output=output.strip(),
        messages=messages,
        usage=usage,
        value=value,
    )


def failed(
    agent: str,
    error: TurnError | ErrorKind,
    message: str = "",
    *,
    subagent: str = "",
    messages: tuple[ChatMessage, ...] = (),
    usage: Usage = NOTHING,
) -> Result:
    """A Result without an answer; its status follows from the error's kind.

    Args:
        agent: name of the agent.
        error: the error, or its kind.
        message: what happened, when only the kind is given; else its name is.
        subagent: id of the subagent, when there was one.
        messages: what was said before it failed.
        usage: what the failed turn cost.
    """
    if not isinstance(error, TurnError):
        error = TurnError(error, message or error.replace("_", " "))
    return Result(
        agent=agent,
        subagent=subagent,
        messages=messages,
        usage=usage,
        status=STATUS_OF[error.kind],
        error=error,
    )
