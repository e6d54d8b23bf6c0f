"""What a ledger raises: each says what was not done, and what state that leaves."""

from __future__ import annotations

from .escalation import Escalation


class SpawnBlocked(RuntimeError):
    """Raised where a spawn was given up for want of a slot; nothing is open of it.

    Its workflow is blocked: the same spawn is not tried again.
    """

    def __init__(self, name: str, escalation: Escalation) -> None:
        super().__init__(name, escalation)
        self.name = name
        self.escalation = escalation

    def __str__(self) -> str:
        return f"{self.name} was not spawned. {self.escalation.render()}"


class RecordLost(RuntimeError):
    """Raised where a session would be reserved after a fact was lost; nothing was begun."""

    def __init__(self, role: str) -> None:
        super().__init__(role)
        self.role = role

    def __str__(self) -> str:
        return (
            f"no {self.role} is spawned: an earlier fact could not be recorded, and the rows are"
            " ahead of the record; go on with a new ledger, made of the facts that were kept"
        )


class NotReplaced(RuntimeError):
    """Raised where a session cannot take the place of another; nothing was spawned."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(name, detail)
        self.name = name
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.name} is not replaced: {self.detail}"


class SessionNotHere(LookupError):
    """Raised on a session whose block is not open in this ledger; nothing was done."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} is not open here"
