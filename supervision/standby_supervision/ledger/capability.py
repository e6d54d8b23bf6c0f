"""What a target lets us do about its sessions: as it declares it, and as it turns out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, assert_never, cast

from attrs import frozen

from standby_actors.agent import Agent
from standby_actors.session import Capabilities

from .dimensions import CapabilityClass, InventoryEvidence, UnavailableReason

REASONS: Mapping[CapabilityClass, UnavailableReason] = MappingProxyType(
    {
        "inventory-only": "inventory-only; no close operation",
        "cleanup-unavailable": "no inventory or close operation",
    }
)
"""What is recorded where nothing can be closed."""


class Inventoried(Protocol):
    """A session with a stable id; nothing more is promised of it."""

    @property
    def id(self) -> str:
        """As in "scout#2"; empty of one that has none."""
        ...


class Closable(Inventoried, Protocol):
    """A session that can be closed, and says when it is."""

    async def close(self) -> Any:
        """Close it.  What it returns may say with `closed` that it did not, and `reason`."""
        ...


@frozen
class Automatic:
    """It has an id and a close: closing may be tried."""

    session: Closable
    level: Literal["automatic-close-supported"] = "automatic-close-supported"


@frozen
class InventoryOnly:
    """It has an id, and no close."""

    session: Inventoried
    level: Literal["inventory-only"] = "inventory-only"


@frozen
class Unavailable:
    """It has neither."""

    level: Literal["cleanup-unavailable"] = "cleanup-unavailable"


Target: TypeAlias = Automatic | InventoryOnly | Unavailable


def probe(player: object) -> Target:
    """What can be done about `player`, seen from what it has, now.

    A session that says in its capabilities that it does not tell when it has let go
    has no close, whatever its methods are called.

    Examples:
        >>> probe(object()).level
        'cleanup-unavailable'
    """
    # Looked up by name: asking whether it is an instance of a protocol costs fifty times that.
    if not getattr(player, "id", ""):
        return Unavailable()
    can = getattr(player, "capabilities", None)
    says_no = isinstance(can, Capabilities) and not can.close
    if callable(getattr(player, "close", None)) and not says_no:
        return Automatic(cast("Closable", player))
    return InventoryOnly(cast("Inventoried", player))


def reason_of(target: InventoryOnly | Unavailable) -> UnavailableReason:
    """What is recorded of a session of `target` that cannot be closed."""
    return REASONS[target.level]


def evidence_of(target: Target) -> InventoryEvidence:
    """What the inventory of `target` shows of its session."""
    return "no inventory" if isinstance(target, Unavailable) else "listed"


def target_of(agent: Agent, model: str = "") -> str:
    """What runs the sessions of `agent`: what is known of one target says nothing of another.

    Examples:
        >>> target_of(Agent("scout", "Look.", model="openai/gpt-5-mini"))
        'model openai'
        >>> target_of(Agent("scout", "Look.", backend="codex"))
        'backend codex'
    """
    if callable(agent.mind):
        return "function"
    if isinstance(agent.backend, str):
        return f"backend {agent.backend}"
    if agent.backend is not None:
        return f"backend {type(agent.backend).__name__}"
    name = model or agent.model or "default"
    return f"model {name.partition('/')[0]}"


def guidance(level: CapabilityClass) -> str:
    """What an operator is asked to do where slots are taken and nothing more can be closed."""
    match level:
        case "automatic-close-supported":
            what = (
                "Nothing that is done is left to be closed. End a session that is no longer"
                " needed, or let one finish."
            )
        case "inventory-only":
            what = (
                "This target lists its sessions and cannot close them. Close those that are"
                " done where you see them: in its own window, or with its own command."
            )
        case "cleanup-unavailable":
            what = (
                "This target neither lists its sessions nor closes them. Look for those that"
                " are done in its own window, and close them there."
            )
        case _:
            assert_never(level)
    return f"{what} Then confirm that it is done; the spawn is then tried once more."
