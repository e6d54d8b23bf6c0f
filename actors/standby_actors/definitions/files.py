"""Files of strangers, read so that none of them can hurt: whatever is wrong becomes a problem."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from pathlib import Path

from .problems import Problem

SIZE_LIMIT = 256 * 1024
"""Bytes of a definition, a skill or instructions.  A prompt fills a context long before that."""

_WHY = {
    errno.ENOENT: ("missing-file", "there is no such file", "mend the link, or remove it"),
    errno.ELOOP: ("link-loop", "it is a link that leads back to itself", "remove the link"),
    errno.EACCES: ("unreadable", "it may not be read by this user", "change its permissions"),
    errno.EPERM: ("unreadable", "it may not be read by this user", "change its permissions"),
    errno.EISDIR: ("not-a-file", "it is a folder", "remove it, or give it another name"),
}


def read_text(path: Path, limit: int = SIZE_LIMIT) -> tuple[str | None, tuple[Problem, ...]]:
    """The text of a file, its line ends made ``\\n``; or None, and why not.

    Never blocks on a pipe or a device, and never takes in more than `limit` bytes.
    """
    try:
        # A pipe without a writer would hold an ordinary open up for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        return None, (_unreadable(path, error),)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "no ordinary file"
            return None, (
                Problem(path=path, code="not-a-file", message=f"it is {what}", advice="remove it"),
            )
        with open(handle, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError as error:
        return None, (_unreadable(path, error),)
    finally:
        os.close(handle)
    if len(data) > limit:
        size = max(found.st_size, len(data))
        return None, (
            Problem(
                path=path,
                code="too-large",
                message=f"it has {size:,} bytes, and {limit:,} are read at most",
                advice="move what is not needed in every turn into a file that is read on demand",
            ),
        )
    return _decoded(path, data)


def _decoded(path: Path, data: bytes) -> tuple[str | None, tuple[Problem, ...]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The position is that in what follows a byte order mark.
        start = error.start + (len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
        before = data[:start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        kind = "UTF-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else None
        what = f"it is {kind}" if kind else f"the byte 0x{data[start]:02x} is no part of UTF-8 here"
        return None, (
            Problem(
                path=path,
                code="bad-encoding",
                message=what,
                line=line,
                column=column,
                advice="save the file as UTF-8",
            ),
        )
    return text.replace("\r\n", "\n").replace("\r", "\n"), ()


def _unreadable(path: Path, error: OSError | ValueError) -> Problem:
    number = error.errno if isinstance(error, OSError) else None
    code, message, advice = _WHY.get(
        number or 0,
        ("unreadable", f"it cannot be read: {_reason(error)}", "look at the file system"),
    )
    return Problem(path=path, code=code, message=message, advice=advice)


def _reason(error: OSError | ValueError) -> str:
    # Not str(error), which repeats the path.
    return (isinstance(error, OSError) and error.strerror) or str(error)
