"""The dimensions of a session in the ledger, which say different things and never each other.

Identity, role and scope, operational state, reuse, inventory, captured result, clean-up:
nothing here makes one of another.  Completed is not closed, listed is not alive, and what
can be used again is in no state of that name.
"""

from __future__ import annotations

import enum
import re
from typing import Generic, Literal, TypeAlias, TypeVar, get_args

import msgspec

R = TypeVar("R")

_SHORT = re.compile(r"[\w][\w .,:/#@()+=-]{0,119}|")
_SHA = re.compile(r"[0-9a-f]{7,64}|")


class Pending(msgspec.Struct, frozen=True, tag="pending"):
    """It has no id yet: the row was made, and nothing was spawned for it."""

    def __str__(self) -> str:
        return "agent_id=pending"


class Identified(msgspec.Struct, frozen=True, tag="session"):
    """The runtime has returned an id."""

    id: str
    """As in "scout#2"."""

    def __str__(self) -> str:
        return f"agent_id={self.id}"


Identity: TypeAlias = Pending | Identified


class Scope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a session is for: in words of the workflow's own, short enough to be shown.

    Raises:
        ValueError: a part is longer than 120 characters, or is more than one line of
            letters, digits and plain punctuation.
    """

    task: str = ""
    phase: str = ""
    review: str = ""

    def __post_init__(self) -> None:
        for name in ("task", "phase", "review"):
            text = getattr(self, name)
            if _SHORT.fullmatch(text) is None:
                raise ValueError(
                    f"the {name} of a scope is a short name of one line, not {len(text)}"
                    " characters of text: it is shown where nothing else may be"
                )

    def __str__(self) -> str:
        parts = (
            ("task", self.task),
            ("phase", self.phase),
            ("review", self.review),
        )
        return ", ".join(f"{name} {text}" for name, text in parts if text) or "no scope"


class Operation(enum.Enum):
    """What a session was last observed to be at."""

    ACTIVE = "active"
    """A turn of it is being played."""
    WAITING = "waiting"
    """It is open, and nobody has asked it for anything that it has not answered."""
    INTERRUPTED = "interrupted"
    """Its last turn was cut, or its process is gone."""
    COMPLETED = "completed"
    """Its work is done."""


class Reuse(msgspec.Struct, frozen=True):
    """What was observed of using it again, as in "retained context available"."""

    observed: str

    def __repr__(self) -> str:
        return f"Reuse({len(self.observed)} characters)"


InventoryEvidence: TypeAlias = Literal["listed", "not listed", "no inventory"]


class Inventory(msgspec.Struct, frozen=True):
    """What a listing of the target showed of it."""

    evidence: InventoryEvidence


class Captured(msgspec.Struct, Generic[R], frozen=True):
    """What its role needs kept of it, as its role has checked it; `Role.read` reads it.

    A subagent has written it: no repr shows it.
    """

    role: str
    state: msgspec.Raw

    def __repr__(self) -> str:
        return f"Captured(role={self.role!r}, {len(bytes(self.state))} bytes)"


CapabilityClass: TypeAlias = Literal[
    "automatic-close-supported", "inventory-only", "cleanup-unavailable"
]
"""What a target lets us do about its sessions."""

UnavailableReason: TypeAlias = Literal[
    "inventory-only; no close operation", "no inventory or close operation"
]

NotClosedReason: TypeAlias = Literal[
    "close failed",
    "close timed out",
    "close was cut",
    "did not stop",
    "export failed",
    "not captured",
    "owner gone",
]
"""Why a session is not known to be closed; what a backend said of it is not in here."""

NOT_CLOSED_REASONS: frozenset[str] = frozenset(get_args(NotClosedReason))


class Anchor(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of the source that a session works from: commit ids."""

    base: str = ""
    head: str = ""

    def __post_init__(self) -> None:
        for text in (self.base, self.head):
            if _SHA.fullmatch(text) is None:
                raise ValueError("an anchor is 7 to 64 hexadecimal digits of a commit id")

    def __str__(self) -> str:
        return f"base {self.base or '-'} head {self.head or '-'}"


Disposition: TypeAlias = Literal[
    "COMPLETE_WITH_FINDINGS", "COMPLETE_NO_FINDINGS", "NEEDS_CONTEXT", "FAILED"
]
"""What a review came to, in the reviewer's word.  Silence is none of these."""


class Blocker(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a task does not go on."""

    family: str
    """A short name that a later blocker is compared by, as in "slot-exhaustion"."""
    detail: str = ""
    """In words that a subagent may have written: no repr shows them."""

    def __post_init__(self) -> None:
        if not self.family or _SHORT.fullmatch(self.family) is None:
            raise ValueError("the family of a blocker is a short name of one line")

    def __repr__(self) -> str:
        return f"Blocker(family={self.family!r}, {len(self.detail)} characters)"


class Configuration(msgspec.Struct, frozen=True):
    """What is fixed for a session from its spawn to its close; another one needs another."""

    role: str
    agent: str
    capability: str
    """What kind of mind is wanted, in the workflow's word."""
    model: str
    """Empty for a function, or the default."""
    effort: str
    authority: tuple[str, ...]
    """Which tools it has, and what it may do without asking."""
    lifetime: str
    fresh: Literal[True] = True
    """It begins with no history."""
