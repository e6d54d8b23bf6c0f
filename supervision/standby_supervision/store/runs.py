"""What each command does to the runs of a store: decided here, written by the backends."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from .backend import Outcome
from .errors import Fenced, NoSuchRun, RunTaken
from .records import Append, Claim, Command, Create, NewEvent, Offer, Release, Renew, RunRow

Written = tuple[str, int, int, float, NewEvent]
"""Run, seq, epoch, time and event."""


class Runs:
    """The runs that the commands of one transaction are about, as those leave them.

    Args:
        where: the store, for its errors.
        look_up: finds a run as the transaction sees it.
    """

    def __init__(self, where: str, look_up: Callable[[str], RunRow | None]) -> None:
        self._where = where
        self._look_up = look_up
        self._rows: dict[str, RunRow | None] = {}
        self._changed: dict[str, None] = {}
        self.written: list[Written] = []
        """The events to be kept, in order."""

    @property
    def changed(self) -> list[RunRow]:
        """The runs to be kept."""
        return [row for run in self._changed if (row := self._rows[run]) is not None]

    def apply(self, command: Command) -> Outcome:
        """Do `command`, or refuse it and change nothing."""
        if isinstance(command, Create):
            return self._create(command)
        row = self._row(command.run)
        if row is None:
            return NoSuchRun(self._where, f"there is no run {command.run!r}")
        match command:
            case Claim():
                return self._claim(row, command)
            case Append():
                if row.epoch != command.epoch or row.owner is None:
                    return self._fenced(row, command.epoch)
                return self._keep(row, command.at, command.events, command.state)
            case Offer():
                self._keep(row, command.at, command.events, None)
                # It comes from outside, and says nothing of the owner.
                row = msgspec.structs.replace(row, last=row.last + len(command.events))
                return self._set(row).last
            case Renew():
                if row.epoch != command.epoch or row.owner is None:
                    return self._fenced(row, command.epoch)
                return self._set(msgspec.structs.replace(row, renewed=command.at)).last
            case Release():
                if row.epoch != command.epoch:
                    return self._fenced(row, command.epoch)
                return self._set(msgspec.structs.replace(row, owner=None, renewed=command.at)).last

    def _create(self, command: Create) -> Outcome:
        if self._row(command.run) is not None:
            return RunTaken(self._where, f"there is a run {command.run!r} already")
        row = RunRow(
            command.run,
            command.workspace,
            command.name,
            command.at,
            1,
            command.owner,
            command.at,
            command.state,
            0,
        )
        return self._keep(row, command.at, command.events, None)

    def _claim(self, row: RunRow, command: Claim) -> Outcome:
        if row.epoch != command.seen:
            return RunTaken(
                self._where,
                f"the run {row.run!r} was taken by another in the meantime (epoch {row.epoch})",
            )
        row = msgspec.structs.replace(
            row, epoch=row.epoch + 1, owner=command.owner, renewed=command.at
        )
        self._keep(row, command.at, command.events, command.state)
        return row.epoch

    def _keep(self, row: RunRow, at: float, events: tuple[NewEvent, ...], state: str | None) -> int:
        for seq, event in enumerate(events, row.last + 1):
            self.written.append((row.run, seq, row.epoch, at, event))
        last = row.last + len(events)
        # That it writes says as well that it lives.
        row = msgspec.structs.replace(
            row, last=last, renewed=at, state=row.state if state is None else state
        )
        return self._set(row).last

    def _fenced(self, row: RunRow, epoch: int) -> Fenced:
        owner = (
            "nobody owns it now" if row.owner is None else f"its owner now is pid {row.owner.pid}"
        )
        return Fenced(
            self._where,
            f"the run {row.run!r} was taken over (epoch {row.epoch}, ours was {epoch}): {owner}",
        )

    def _row(self, run: str) -> RunRow | None:
        if run not in self._rows:
            self._rows[run] = self._look_up(run)
        return self._rows[run]

    def _set(self, row: RunRow) -> RunRow:
        self._rows[row.run] = row
        self._changed[row.run] = None
        return row
