"""The clean-up gate and what follows a spawn without a slot: decided here, done by the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from .capability import REASONS
from .dimensions import CapabilityClass, UnavailableReason
from .facts import Cause
from .names import TaskName
from .row import Row


class Capture(msgspec.Struct, frozen=True, tag="capture"):
    """What its role needs is to be captured first; where it cannot be, it stays open."""

    name: TaskName


class KeepOpen(msgspec.Struct, frozen=True, tag="keep_open"):
    """Its workflow may need the same session again."""

    name: TaskName


class Close(msgspec.Struct, frozen=True, tag="close"):
    """It is to be closed, and what comes of that recorded."""

    name: TaskName


class SayUnavailable(msgspec.Struct, frozen=True, tag="say_unavailable"):
    """That it cannot be closed is to be recorded."""

    name: TaskName
    reason: UnavailableReason


GateStep: TypeAlias = Capture | KeepOpen | Close | SayUnavailable


def gate_step(row: Row[Any], *, is_kept_open: bool, level: CapabilityClass) -> GateStep | None:
    """What the gate does about one session; None if it is no business of the gate's.

    Pure.

    Args:
        row: as the ledger has it.
        is_kept_open: a continuation window of it is open.
        level: what its target lets us do.
    """
    if not row.is_due:
        return None
    if row.captured is None:
        return Capture(row.name)
    if is_kept_open:
        return KeepOpen(row.name)
    if level == "automatic-close-supported":
        return Close(row.name)
    return SayUnavailable(row.name, REASONS[level])


class Holder(msgspec.Struct, frozen=True):
    """Who has a slot, as far as the cause is about it."""

    name: TaskName
    is_playing: bool


def cause_of(holders: Iterable[Holder], ancestors: Collection[TaskName]) -> Cause:
    """Why there is no slot.  Pure.

    Args:
        holders: who has one.
        ancestors: the sessions that wait for the one that wants it.

    Examples:
        >>> from .names import task_name
        >>> cause_of([Holder(task_name(1, 1), True)], [])
        'active'
        >>> cause_of([Holder(task_name(1, 1), True), Holder(task_name(1, 2), False)], [])
        'retained'
        >>> cause_of([Holder(task_name(1, 1), True)], [task_name(1, 1)])
        'nested'
    """
    several = tuple(holders)
    if any(each.name in ancestors for each in several):
        return "nested"
    return "active" if all(each.is_playing for each in several) else "retained"


AfterCleanUp: TypeAlias = Literal["retry", "ask_operator"]


def after_clean_up(*, closed: int, has_slot: bool) -> AfterCleanUp:
    """What follows the clean-up after a spawn without a slot.  Pure.

    A clean-up that freed nothing makes no room: trying again at once would spend the
    one retry on nothing.

    Args:
        closed: sessions that were seen to close.
        has_slot: a slot of ours has come free meanwhile.
    """
    return "retry" if closed or has_slot else "ask_operator"


OnDeadline: TypeAlias = Literal["escalate", "retry"]
"""What an operator who says nothing is taken to have said."""
