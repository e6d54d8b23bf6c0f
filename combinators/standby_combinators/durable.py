"""Files that are written whole or not at all, and outlive a power cut; locks that do not."""

from __future__ import annotations

import fcntl
import os
from functools import partial
from pathlib import Path

import trio


def try_lock(file: Path) -> int | None:
    """The descriptor of `file`, locked for as long as it is open; None if another has it.

    The kernel lets go of it when its process is gone, however that ended.
    """
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


async def write_through(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; when this returns, it outlives a power cut."""
    await trio.to_thread.run_sync(partial(_write_through, path, data))


async def sync_file(path: Path) -> None:
    """When this returns, `path`, which somebody else has written, outlives a power cut."""
    await trio.to_thread.run_sync(partial(_sync, path))


def _write_through(path: Path, data: bytes) -> None:
    scratch = path.with_name(f"{path.name}.{os.getpid()}.new")
    with scratch.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
    _sync_folder(path.parent)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
