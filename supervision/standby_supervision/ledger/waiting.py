"""Spawns that wait for an operator: what is asked of one, and how the answer comes."""

from __future__ import annotations

import math

import trio
from attrs import define, field

from .escalation import INVENTORY_UNAVAILABLE
from .names import TaskName


@define(eq=False)
class OperatorWait:
    """A spawn that goes on when an operator has cleaned up and says so.

    Made by a ledger; :meth:`SessionLedger.confirm` answers it.
    """

    name: TaskName
    role: str
    guidance: str
    """What is to be done, in words."""
    open: tuple[str, ...] | None
    """Ids of the sessions that are open; None where the target has no inventory."""
    seconds: float
    """How long is waited for the confirmation."""
    until: float
    """When that is over, on trio's clock."""
    is_confirmed: bool = False
    by: str = ""
    answered: trio.Event = field(factory=trio.Event)

    def confirm(self, by: str) -> None:
        """The operator has cleaned up."""
        self.is_confirmed, self.by = True, by
        self.answered.set()

    def __str__(self) -> str:
        listed = INVENTORY_UNAVAILABLE if self.open is None else ", ".join(self.open) or "none"
        limit = "" if self.seconds == math.inf else f" within {self.seconds:g} s"
        return (
            f"no slot for {self.name} ({self.role}). {self.guidance}"
            f" It is waited for{limit}. Open: {listed}."
        )
