"""What a store holds and what it is asked: runs, their events, and who owns them."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from ..owner import Owner


class NewEvent(msgspec.Struct, frozen=True):
    """Something to be kept: what happened, and its details as a JSON object."""

    kind: str
    """As in "turn.ended"."""
    data: bytes
    """UTF-8, one JSON object."""


class StoredEvent(msgspec.Struct, frozen=True):
    """Something that a store has acknowledged, and keeps as it is for ever."""

    position: int
    """Its place among all events of the store, from 1.  In SQLite without gaps."""
    run: str
    seq: int
    """Its place among the events of its run, from 1, without gaps."""
    epoch: int
    """Under which owner of the run it was written, from 1."""
    at: float
    """Seconds since the epoch, on the clock of who wrote it."""
    kind: str
    data: bytes


class RunRow(msgspec.Struct, frozen=True):
    """A run, as a store lists it."""

    run: str
    """Its id."""
    workspace: str
    """The resolved path of the workspace that it belongs to."""
    name: str
    created: float
    """Seconds since the epoch."""
    epoch: int
    """How many owners it has had."""
    owner: Owner | None
    """Whoever works on it; None once it was given back."""
    renewed: float
    """When the owner last said that it lives, in seconds since the epoch."""
    state: str
    """As its last event that named one has left it."""
    last: int
    """The `seq` of its last event."""


class Append(msgspec.Struct, frozen=True):
    """Keep `events` as the next of `run`, if its owner is still that of `epoch`."""

    run: str
    epoch: int
    at: float
    events: tuple[NewEvent, ...]
    state: str | None = None
    """How the run is listed from then on; None as before."""


class Create(msgspec.Struct, frozen=True):
    """Make a run, with its first events, and own it: it is there whole or not at all."""

    run: str
    workspace: str
    name: str
    owner: Owner
    at: float
    events: tuple[NewEvent, ...]
    state: str


class Claim(msgspec.Struct, frozen=True):
    """Own `run` from now on, if nobody has since it was looked at.

    That it was decided from a row with epoch `seen` is what makes one of two
    who claim at once the winner.
    """

    run: str
    seen: int
    owner: Owner
    at: float
    events: tuple[NewEvent, ...] = ()
    state: str | None = None


class Offer(msgspec.Struct, frozen=True):
    """Keep `events` as the next of `run`, whoever owns it: what comes from outside,
    an answer or a wish, and is its owner's to take up."""

    run: str
    at: float
    events: tuple[NewEvent, ...]


class Renew(msgspec.Struct, frozen=True):
    """Say that the owner of `epoch` lives."""

    run: str
    epoch: int
    at: float


class Release(msgspec.Struct, frozen=True):
    """Own `run` no longer."""

    run: str
    epoch: int
    at: float


Command: TypeAlias = Append | Create | Claim | Offer | Renew | Release


def columns_of(row: RunRow) -> tuple[Any, ...]:
    """A run as databases keep it: its owner as JSON."""
    owner = None if row.owner is None else msgspec.json.encode(row.owner).decode()
    columns = msgspec.structs.asdict(row)
    return tuple({**columns, "owner": owner}.values())


def row_of(columns: tuple[Any, ...]) -> RunRow:
    """The run that was kept as `columns`."""
    run, workspace, name, created, epoch, owner, renewed, state, last = columns
    known = None if owner is None else msgspec.json.decode(owner, type=Owner)
    return RunRow(run, workspace, name, created, epoch, known, renewed, state, last)
