"""Events of a store as lines of JSON, for other programs: everything, a workspace, or a run.

Each line is one event.  An export goes on where its file ends, as often as it is asked: it
finds the last event that is there whole, and writes those that came after it.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import msgspec
import trio

from .records import StoredEvent
from .store import Store

PAGE = 500
"""Events between two writes, each of which is synced."""
_TAIL_BYTES = 2**16


class Line(msgspec.Struct, frozen=True):
    """One event of an export."""

    position: int
    run: str
    seq: int
    epoch: int
    at: float
    kind: str
    data: msgspec.Raw


class _Place(msgspec.Struct, frozen=True):
    """Where an event stands; what else a line has is not looked at."""

    position: int


class TornExport(UserWarning):
    """The end of an export was cut; it was set aside, and the export went on before it."""


def line_of(event: StoredEvent) -> bytes:
    """One line, its end included.

    Examples:
        >>> line_of(StoredEvent(7, "r", 1, 1, 0.5, "said", b'{"a":\\n 1}'))
        b'{"position":7,"run":"r","seq":1,"epoch":1,"at":0.5,"kind":"said","data":{"a":1}}\\n'
    """
    data = msgspec.Raw(msgspec.json.format(event.data, indent=-1))
    place = event.position, event.run, event.seq, event.epoch, event.at
    return msgspec.json.encode(Line(*place, event.kind, data)) + b"\n"


async def export(
    store: Store,
    path: Path,
    *,
    run: str | None = None,
    workspace: str | None = None,
    after: int = 0,
) -> int:
    """Append to the file at `path` the events that it does not have; the position of the last.

    The file is made where it is not there, for its user alone.  Killed at any moment, it
    has whole lines and at most one that is cut, at its end.  That one is set aside by the
    next export, as `path` with ".torn" added, with a warning, and written again.
    Cancelled, it has whole lines.

    Args:
        store: whose events.
        path: the file; only one export at a time writes it.
        run: only those of this run.
        workspace: only those of the runs of this workspace, as runs name it.
        after: the `position` after which a file that is empty begins.

    Returns:
        The position up to which the file has all that was asked for: a cursor.

    Raises:
        StoreError: the store cannot be read; what was written until then is whole.
        OSError: the file cannot be written.
        ValueError: it ends with a line that is no event: it is left as it is.
    """
    path = Path(path)
    cursor = max(after, await trio.to_thread.run_sync(_mend, path))
    wanted: dict[str, bool] = {}
    """Whether a run is of the workspace, by run."""
    while True:
        page = await store.read_all(cursor, PAGE)
        if not page:
            return cursor
        if workspace is not None and any(event.run not in wanted for event in page):
            # Asked after the page was read, so that every run of the page is among them.
            wanted = {row.run: row.workspace == workspace for row in await store.runs()}
        lines = b"".join(
            line_of(event)
            for event in page
            if (run is None or event.run == run) and (workspace is None or wanted[event.run])
        )
        await trio.to_thread.run_sync(_append, path, lines)
        cursor = page[-1].position


def _append(path: Path, lines: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end = os.fstat(handle).st_size
        try:
            left = memoryview(lines)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        except OSError:
            # What is there is whole, also where the disk is full.
            os.ftruncate(handle, end)
            raise
    finally:
        os.close(handle)


def _mend(path: Path) -> int:
    """Set a line aside that was cut, and give the position of the last that is whole."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    with os.fdopen(handle, "r+b") as file:
        whole, last, fragment = _end(file.fileno())
        if fragment:
            aside = path.with_name(f"{path.name}.torn")
            _append(aside, fragment + b"\n")
            os.ftruncate(handle, whole)
            os.fsync(handle)
            warnings.warn(
                f"{path}: its last line was cut after {len(fragment)} bytes; they are in {aside}",
                TornExport,
                stacklevel=2,
            )
    if not last:
        return 0
    try:
        return msgspec.json.decode(last, type=_Place).position
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: its last line is no event of a store: {error}") from error


def _end(handle: int) -> tuple[int, bytes, bytes]:
    """Of a file: how long its whole lines are, the last of them, and what follows it."""
    size = os.fstat(handle).st_size
    tail, start = b"", size
    while start > 0 and tail.count(b"\n") < 2:
        start = max(0, start - max(_TAIL_BYTES, len(tail)))
        tail = os.pread(handle, size - start, start)
    lines, found, fragment = tail.rpartition(b"\n")
    whole = size - len(fragment)
    return whole, lines.rpartition(b"\n")[2] if found else b"", fragment
