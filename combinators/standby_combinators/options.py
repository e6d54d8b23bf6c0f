"""What every combinator can be told about the subagents that it spawns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeAlias, TypedDict

from standby_actors.agent import Agent, Lifetime, MindFunction
from standby_actors.agent_checks import nearest
from standby_actors.budget import Budget
from standby_actors.nursery import Nursery
from standby_actors.opening import Model
from standby_actors.prices import Prices
from standby_actors.result import Result

from .signal import Signal
from .stop import StopSwitch


class Player(Protocol):
    """Whatever plays turns: a subagent, as far as a pool needs it."""

    @property
    def id(self) -> str:
        """As in "scout#2"."""
        ...

    async def ask(self, task: str, /) -> Result:
        """Play one turn.  A failure is a Result."""
        ...


class Spawner(Protocol):
    """How a pool spawns: `standby.spawn`, or something that stands for it."""

    def __call__(
        self, agent: Agent, /, *, lifetime: Lifetime | None
    ) -> AbstractAsyncContextManager[Player]:
        """A block that holds one subagent of `agent`, and closes it."""
        ...


AgentLike: TypeAlias = Agent | MindFunction


class Options(TypedDict, total=False):
    """What every combinator can be told about the subagents that it spawns."""

    lifetime: Lifetime | None
    """Of all of them; None lets each agent say it, and those that say nothing
    live for one task."""
    model: str | Model | None
    """Who answers for all of them: its name, or an opened one; None for the
    agent's own, or else the default of the environment.  A model that is named
    is opened once, and shared."""
    timeout: float | None
    """Seconds for each turn; None for what the agent says."""
    export_dir: Path | str | None
    """Where each writes its transcript when it is closed."""
    budget: Budget | None
    """What they all spend from; each agent's own limits count besides."""
    prices: Prices | None
    """What models cost; None for their public list prices."""
    roster: Iterable[Agent] | None
    """Whom the names mean that agents have in their handoffs, and for the tool `subagent`."""
    within: Nursery | None
    """The block that is the session: there those of lifetime "session" are found,
    or spawned, and live on.  None for the pool itself, which closes them."""
    spawn: Spawner | None
    """How a subagent is opened, in place of `standby.spawn`; then the other
    options, but for the lifetime and the signal, are its own business."""
    signal: Signal | None
    """Calls off everything that is under it, once it is set."""
    switch: StopSwitch | None
    """Stops single subagents, or all; its own signal stands for `signal`."""


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "timeout": ((int, float), "a number of seconds"),
    "budget": ((Budget,), "a Budget"),
    "within": ((Nursery,), "a nursery of standby"),
    "signal": ((Signal,), "a Signal"),
    "switch": ((StopSwitch,), "what stop_switch() makes"),
}


def check_options(options: Mapping[str, object]) -> None:
    """Refuse what is no option, before anything is spawned: it would be ignored, or raise late.

    Raises:
        TypeError: there is none of that name, or it is not of its kind.
    """
    there = Options.__annotations__
    for name, value in options.items():
        if name not in there:
            near = nearest(name, there)
            meant = f"; do you mean {near}=?" if near else f"; there are: {', '.join(there)}"
            raise TypeError(f"there is no option {name}={meant}")
        kind, what = _KINDS.get(name, ((object,), ""))
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise TypeError(f"{name} is {what}, not {value!r}")
