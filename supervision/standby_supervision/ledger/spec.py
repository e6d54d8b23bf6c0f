"""What is spawned, and the leave to try once more: each bound to one specification."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from standby_actors.agent import Agent, Lifetime, resolve_lifetime

from .capability import target_of
from .dimensions import Anchor, Configuration, Scope
from .facts import Cause
from .gate import Holder
from .names import TaskName
from .roles import Role

R = TypeVar("R")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@frozen(eq=False)
class SessionSpec(Generic[R]):
    """Who is spawned, as what, and for what; it is fixed from the spawn to the close.

    Args:
        agent: who.
        role: as what; it says what must be kept of the session.
        scope: for what; a task that is named has one configuration at a time.
        lifetime: None for what the agent wants.
        capability: what kind of mind is wanted, in the workflow's own word.
        anchor: the state of the source that it works from.
        options: what else whoever spawns it is told: a model, a budget.
    """

    agent: Agent
    role: Role[R]
    scope: Scope = field(default=Scope())
    lifetime: Lifetime | None = field(default=None, kw_only=True)
    capability: str = field(default="", kw_only=True)
    anchor: Anchor = field(default=Anchor(), kw_only=True)
    options: Mapping[str, Any] = field(default=_NOTHING, kw_only=True, repr=False)

    @property
    def configuration(self) -> Configuration:
        """What is fixed for its session, without a prompt and without a value of `options`
        but the model's name."""
        agent, model = self.agent, self.options.get("model")
        tools = tuple(each if isinstance(each, str) else _name(each) for each in agent.tools or ())
        mode = () if agent.permission_mode is None else (f"mode {agent.permission_mode}",)
        return Configuration(
            self.role.name,
            agent.name,
            self.capability,
            model if isinstance(model, str) else agent.model or "",
            agent.effort or "",
            tuple(sorted(tools)) + mode,
            resolve_lifetime(self.lifetime, agent)[0],
        )

    @property
    def target(self) -> str:
        """What runs its session."""
        model = self.options.get("model")
        return target_of(self.agent, model if isinstance(model, str) else "")


@frozen
class SessionRef(Generic[R]):
    """A row of a ledger, and which form its captured state has."""

    name: TaskName
    role: Role[R] = field(repr=False)

    def __str__(self) -> str:
        return str(self.name)


class ReservationUsed(RuntimeError):
    """Raised where a reservation is spawned from again; nothing was spawned."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} is reserved for one spawn, which has been; reserve another"


@define(eq=False)
class Reservation(Generic[R]):
    """A row that stands before its spawn.  It gives no leave to spawn: the gate does."""

    ref: SessionRef[R]
    spec: SessionSpec[R]
    is_used: bool = field(init=False, default=False)

    def use(self) -> None:
        """Spawn from it; once.

        Raises:
            ReservationUsed: that has been.
        """
        if self.is_used:
            raise ReservationUsed(self.ref.name)
        self.is_used = True


class PermitSpent(RuntimeError):
    """Raised where a permit is used again, or for another specification; nothing was spawned."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(name, detail)
        self.name = name
        self.detail = detail

    def __str__(self) -> str:
        return f"the spawn of {self.name} is not tried again: {self.detail}"


@define(eq=False)
class RetryPermit(Generic[R]):
    """Leave to try one spawn once more, with the specification that it was first tried with."""

    name: TaskName
    _spec: SessionSpec[R]
    is_spent: bool = field(init=False, default=False)

    def use(self, spec: SessionSpec[R]) -> SessionSpec[R]:
        """The specification to spawn with: the same object.

        Raises:
            PermitSpent: it was used before, or `spec` is another one.
        """
        if self.is_spent:
            raise PermitSpent(self.name, "its one retry has been")
        if spec is not self._spec:
            raise PermitSpent(self.name, "that is another specification, which needs another row")
        self.is_spent = True
        return spec


@frozen(eq=False)
class Exhaustion(Generic[R]):
    """There was no slot: a shortage of the orchestration, and no failure of any work."""

    cause: Cause
    holders: tuple[Holder, ...]
    """Who has the slots, as far as it is known."""
    permit: RetryPermit[R]
    is_ours: bool
    """The slots are this ledger's; else a backend has refused."""


def _name(tool: Any) -> str:
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", type(tool).__name__))
