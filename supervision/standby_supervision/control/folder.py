"""Where the control sockets of this user's programs are, and which of those programs live.

Each program has two files, whose common name says who it is: ``<pid>-<start
time>-<pid namespace>-<random>``.  ``.sock`` is the socket, ``.json`` has the
token and what is to be known before one asks.  A pid alone would not do: it is
given again.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import msgspec
from attrs import frozen

from ..owner import is_dead, pid_namespace, started_at
from .errors import UnsafeFolder

ENTRY_LIMIT = 16 * 1024
"""Bytes of an entry that are read."""
TITLE_LIMIT = 200
"""Characters of a program's title."""
_NAME = re.compile(r"(\d+)-(\d+)-(\d+)-([0-9a-f]{8})\.(?:sock|json|new)")


class Entry(msgspec.Struct, frozen=True):
    """What a program writes beside its socket, for its own user only."""

    pid: int
    started: int
    """Clock ticks from the machine's start to the program's; 0 where that is not known."""
    namespace: int
    """Identity of the pid namespace that `pid` is a number of."""
    opened: float
    """When the socket was opened, in seconds of :func:`time.time`."""
    title: str
    token: str


@frozen
class Program:
    """A program that can be asked."""

    entry: Entry
    stem: str
    """What its two files are called, without their ends."""

    @property
    def pid(self) -> int:
        """Its process."""
        return self.entry.pid

    @property
    def seconds(self) -> float:
        """How long it has served its socket."""
        return max(0.0, time.time() - self.entry.opened)

    def is_listed(self) -> bool:
        """Whether its socket is still there, and its process too."""
        with open_folder(create=False) as folder:
            if folder is None or is_dead(self.entry.pid, self.entry.started, self.entry.namespace):
                return False
            return f"{self.stem}.json" in os.listdir(folder)


def folder_path() -> Path:
    """Where this user's sockets are: below ``XDG_RUNTIME_DIR``, or in a folder of the
    user's own below the temporary one."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    # `sudo` hands on another user's, who could put whatever they like in its place.
    with contextlib.suppress(OSError):
        if os.path.isabs(given) and os.stat(given).st_uid == os.geteuid():
            return Path(given, "standby")
    return Path(tempfile.gettempdir(), f"standby-{os.geteuid()}")


@contextlib.contextmanager
def open_folder(*, create: bool) -> Generator[int | None]:
    """The folder as a descriptor, which names cannot be moved away from under; None
    where there is none and none was to be made.

    Raises:
        UnsafeFolder: it is not this user's alone, or cannot be made.
    """
    path = folder_path()
    try:
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not create:
            yield None
            return
        # A symbolic link is "not a directory" here.
        why = "it is no folder, or a symbolic link"
        if not isinstance(error, NotADirectoryError):
            why = error.strerror or str(error)
        cure = "move it away, or set XDG_RUNTIME_DIR to a folder of your own"
        raise UnsafeFolder(str(path), why, cure) from None
    try:
        _check_private(folder, path)
        yield folder
    finally:
        os.close(folder)


def _check_private(folder: int, path: Path) -> None:
    info = os.fstat(folder)
    if info.st_uid != os.geteuid():
        raise UnsafeFolder(
            str(path),
            f"it belongs to user {info.st_uid}, and this is user {os.geteuid()}",
            "have it removed, or set XDG_RUNTIME_DIR to a folder of your own",
        )
    mode = stat.S_IMODE(info.st_mode)
    if mode & 0o077:
        # Not mended: what is in it may be another's by now.
        raise UnsafeFolder(
            str(path),
            f"others may use it (mode {mode:o}, it must be 700)",
            "remove it, if nothing in it is to be kept",
        )


def new_entry(title: str | None) -> tuple[str, Entry]:
    """A name for the files of this process, and what is to be written into its entry."""
    pid = os.getpid()
    entry = Entry(
        pid=pid,
        started=started_at(pid) or 0,
        namespace=pid_namespace(),
        opened=time.time(),
        title=(title if title is not None else _own_title())[:TITLE_LIMIT],
        token=secrets.token_urlsafe(32),
    )
    return f"{pid}-{entry.started}-{entry.namespace}-{secrets.token_hex(4)}", entry


def address(folder: int, stem: str) -> str:
    """The socket's address.

    An address may have 107 bytes only, and the folder's path may be longer.
    """
    near = f"/proc/self/fd/{folder}" if Path("/proc/self/fd").exists() else str(folder_path())
    return f"{near}/{stem}.sock"


def write_entry(folder: int, stem: str, entry: Entry) -> None:
    """Write an entry, whole or not at all, for nobody else to read."""
    new = f"{stem}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(new, flags, 0o600, dir_fd=folder)
    with os.fdopen(file, "wb") as stream:
        stream.write(msgspec.json.encode(entry))
    os.rename(new, f"{stem}.json", src_dir_fd=folder, dst_dir_fd=folder)


def remove(folder: int, stem: str) -> None:
    """Remove what is left of a program."""
    # First what says that there is a socket.
    for end in ("json", "new", "sock"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{stem}.{end}", dir_fd=folder)


def programs() -> list[Program]:
    """The programs of this user that serve a socket, oldest first.

    What dead ones left is removed.

    Raises:
        UnsafeFolder: the folder is not this user's alone.
    """
    found: list[Program] = []
    with open_folder(create=False) as folder:
        if folder is None:
            return []
        for name in sweep(folder):
            if not name.endswith(".json"):
                continue
            entry = _read_entry(folder, name)
            if entry is not None:
                found.append(Program(entry, name.removesuffix(".json")))
    return sorted(found, key=lambda program: (program.entry.opened, program.stem))


def sweep(folder: int) -> list[str]:
    """Remove what dead programs left; returns the names of the files that remain."""
    kept: list[str] = []
    for name in os.listdir(folder):
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        pid, started, namespace = (int(match[group]) for group in (1, 2, 3))
        if is_dead(pid, started, namespace):
            remove(folder, name.rpartition(".")[0])
        else:
            kept.append(name)
    return kept


def _read_entry(folder: int, name: str) -> Entry | None:
    """The entry of that name; None where it is gone, or no entry of this user's."""
    # A pipe of that name must not hold us up.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(name, flags, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(file, "rb") as stream:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
            return None
        if stat.S_IMODE(info.st_mode) & 0o077:
            return None  # others may have read the token, or written it
        try:
            return msgspec.json.decode(stream.read(ENTRY_LIMIT), type=Entry)
        except msgspec.DecodeError:
            return None


def _own_title() -> str:
    command = list(sys.orig_argv)
    if command:
        command[0] = os.path.basename(command[0])
    return " ".join(shlex.join(command).split())
