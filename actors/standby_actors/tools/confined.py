"""Files below one folder, reached without ever leaving it.

A path is walked part by part, each opened from the folder before it and never
through a link: what it is at that moment is what was checked, whoever moves
folders and links about meanwhile.  A link is followed by walking its target
the same way.

Only the standard library is used: the search worker loads this file by itself.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

PROTECTED = frozenset({".git", ".standby"})
"""Folders whose insides no tool of ours reads or changes: theirs are other ways."""

_LINKS = 40
_DEEPEST = 100
_LONGEST = 4096
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking: to open a pipe would wait for its other end.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class NotAllowed(Exception):
    """Raised on a path that leads where it may not; says why, for a mind."""


def is_protected(name: str) -> bool:
    """A part of a path that nothing goes through, however it is written.

    Examples:
        >>> is_protected(".git"), is_protected(".GIT"), is_protected(".github")
        (True, True, False)
    """
    return unicodedata.normalize("NFKC", name).casefold().rstrip(". ") in PROTECTED


class Folder:
    """The folder that files are confined to.

    Args:
        path: an existing folder; links in it are resolved once, here.

    Raises:
        NotADirectoryError: it is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        if not self.path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.path))

    def parts(self, path: str) -> list[str]:
        """The parts of `path` below the folder, not yet resolved.

        Raises:
            NotAllowed: it is absolute and leads elsewhere, or is no path.
        """
        if "\0" in path or len(path) > _LONGEST:
            raise NotAllowed("that is no path")
        if path.startswith("~"):
            raise NotAllowed("~ is not known here: use a path relative to the working directory")
        if os.path.isabs(path):
            # Compared part by part, not resolved: what a `..` in it leads to is found
            # by walking.
            here = ("/", *self.path.parts[1:])
            there = ("/", *(part for part in path.split("/") if part not in ("", ".")))
            if there[: len(here)] != here:
                raise NotAllowed(
                    f"{path:.200} is outside of the working directory {self.path}:"
                    " use a path relative to it"
                )
            return [*there[len(here) :]]
        return [part for part in path.split("/") if part not in ("", ".")]

    @contextmanager
    def parent_of(self, path: str, *, make: bool = False) -> Generator[tuple[int, str, str]]:
        """The folder that `path` is in, opened; the name in it; and the path without links.

        The name may not exist; it is no link when it does.  The name of the
        folder itself is ``.``.

        Args:
            path: relative to the folder, or absolute and below it.
            make: make the folders that are missing on the way.

        Raises:
            NotAllowed: it leads out of the folder, or to what is protected.
            OSError: a folder on the way is missing, or cannot be read.
        """
        todo = self.parts(path)[::-1]
        stack = [(os.open(self.path, FOLDER), "")]
        links = 0
        try:
            while todo:
                part = todo.pop()
                if part == "..":
                    if len(stack) == 1:
                        raise NotAllowed(f"{path:.200} leads out of the working directory")
                    os.close(stack.pop()[0])
                    continue
                if is_protected(part):
                    raise NotAllowed(
                        f"{part} is not read or changed by file tools: {path:.200} is in it"
                    )
                here = stack[-1][0]
                target = link_of(here, part)
                if target is not None:
                    links += 1
                    if links > _LINKS:
                        raise NotAllowed(f"{path:.200} is a circle of links")
                    if os.path.isabs(target):
                        while len(stack) > 1:
                            os.close(stack.pop()[0])
                    todo += self.parts(target)[::-1]
                    continue
                if not todo:
                    yield here, part, "/".join([*(name for _, name in stack[1:]), part])
                    return
                if len(stack) > _DEEPEST:
                    raise NotAllowed(f"{path:.200} is too deep")
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                stack.append((os.open(part, FOLDER, dir_fd=here), part))
            # It led to a folder on the way: the last of them, seen from inside.
            yield stack[-1][0], ".", "/".join(name for _, name in stack[1:]) or "."
        finally:
            for opened, _ in stack:
                os.close(opened)

    @contextmanager
    def file(self, path: str) -> Generator[tuple[int, os.stat_result, str]]:
        """A regular file, opened for reading; what it is; and its path without links.

        Raises:
            NotAllowed: see :meth:`parent_of`; or it is no regular file.
            OSError: there is none, or it cannot be read.
        """
        with self.parent_of(path) as (folder, name, real):
            opened = os.open(name, FILE, dir_fd=folder)
            try:
                found = os.fstat(opened)
                if stat.S_ISDIR(found.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
                if not stat.S_ISREG(found.st_mode):
                    raise NotAllowed(f"{path:.200} is no regular file")
                yield opened, found, real
            finally:
                os.close(opened)

    @contextmanager
    def folder(self, path: str) -> Generator[tuple[int, str]]:
        """A folder below this one, or this one itself, opened; and its path without links.

        Raises:
            NotAllowed: see :meth:`parent_of`.
            OSError: there is none, or it cannot be read.
        """
        with self.parent_of(path) as (parent, name, real):
            opened = os.open(name, FOLDER, dir_fd=parent)
            try:
                yield opened, real
            finally:
                os.close(opened)

    def write(self, path: str, data: bytes, *, unless_changed: os.stat_result | None = None) -> str:
        """Put `data` under `path`, whole or not at all; an existing file keeps its mode.

        Args:
            path: folders that are missing on the way are made.
            data: all of the new content.
            unless_changed: what the file was when it was read; if it is another
                now, nothing is written.

        Returns:
            the path without links.

        Raises:
            NotAllowed: see :meth:`parent_of`; or what is there is no regular
                file, is read-only, or has changed.
            OSError: it cannot be written; nothing was.
        """
        with self.parent_of(path, make=True) as (folder, name, real):
            mode: int | None = None
            with suppress(FileNotFoundError):
                there = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(there.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
                if not stat.S_ISREG(there.st_mode):
                    raise NotAllowed(f"{path:.200} is no regular file")
                mode = stat.S_IMODE(there.st_mode)
                if not mode & 0o222:
                    raise NotAllowed(f"{path:.200} is read-only")
                if unless_changed is not None and _version(there) != _version(unless_changed):
                    raise NotAllowed(f"{path:.200} was changed meanwhile: read it again")
            scratch = f".{name[:100]}.{secrets.token_hex(6)}.part"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            opened = os.open(scratch, flags, 0o666, dir_fd=folder)
            try:
                with open(opened, "wb") as file:
                    if mode is not None:
                        os.fchmod(opened, mode)
                    file.write(data)
                    file.flush()
                    os.fsync(opened)
                os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
            # Whatever it was, also a cancellation: the scratch file is nobody's.
            except BaseException:
                with suppress(OSError):
                    os.unlink(scratch, dir_fd=folder)
                raise
            return real


def _version(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def link_of(folder: int, name: str) -> str | None:
    """Where a link leads; None if it is none, or is missing."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise
