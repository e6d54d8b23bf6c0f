"""Which process is meant: a pid is given again, and so says nothing alone."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

_PROC = Path("/proc")
_HAS_PROC = (_PROC / "self/stat").exists()

Verdict: TypeAlias = Literal["alive", "gone", "unknown"]
"""Whether a process is there; "unknown" where that cannot be seen from here."""


class Owner(msgspec.Struct, frozen=True):
    """A process, so described that no other can be taken for it."""

    machine: str
    """Identity of the machine; empty where nobody says."""
    boot: str
    """Identity of this start of the machine; empty where nobody says."""
    namespace: int
    """Identity of the pid namespace that `pid` is a number of; 0 where there are none."""
    pid: int
    started: int
    """Clock ticks from the machine's start to the process's; 0 where nobody says."""


def this_process() -> Owner:
    """Whoever calls."""
    pid = os.getpid()
    return Owner(_machine(), boot_id(), pid_namespace(), pid, started_at(pid) or 0)


def verdict(owner: Owner) -> Verdict:
    """Whether `owner` lives, seen from here.

    A zombie is gone, one that is stopped or belongs to another user lives.  Of another
    machine, or another container of this one, nothing is known.
    """
    if owner.machine != _machine():
        return "unknown"
    if owner.boot != boot_id():
        return "gone"
    if owner.namespace != pid_namespace():
        return "unknown"
    return "gone" if is_dead(owner.pid, owner.started, owner.namespace) else "alive"


def is_dead(pid: int, started: int, namespace: int) -> bool:
    """Whether the process with that number and start is known to have ended."""
    if namespace != pid_namespace():
        return False  # numbers of another container, which say nothing here
    now = started_at(pid)
    return now is None or (started != 0 and now != started)


def started_at(pid: int) -> int | None:
    """When a process started, in clock ticks; 0 where nobody says, None where it has ended."""
    try:
        # Its name stands in parentheses, and may have any character in it.
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        if _HAS_PROC:
            return None
    else:
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return 0


def pid_namespace() -> int:
    """Identity of the namespace that pids are numbers of; 0 where there are none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


@cache
def boot_id() -> str:
    """Identity of this start of the machine; empty where nobody says."""
    return _line(_PROC / "sys/kernel/random/boot_id")


@cache
def _machine() -> str:
    # Containers of one image share the first, and are told apart by their names.
    return f"{_line(Path('/etc/machine-id'))}:{os.uname().nodename}"


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
