"""What state the source is in: read from git, which is never written."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

from standby_actors.process.command import run_command
from standby_actors.process.environment import child_environment
from standby_actors.process.process import CannotRun

GIT_SECONDS = 10.0
"""How long git may take, for each of two commands."""

_BRANCH = re.compile(r"[\w][\w./+-]{0,119}")
_SHA = re.compile(r"[0-9a-f]{40,64}")


class RepositoryState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A work tree, as git has it."""

    branch: str = ""
    """Empty with a detached head."""
    head: str = ""
    """The id of its commit; empty before the first."""
    changed: int = 0
    """Files that git knows, and that differ from the head."""
    untracked: int = 0
    known: bool = True
    """False: git did not say, and the rest is nothing."""

    def __str__(self) -> str:
        if not self.known:
            return "repository state unknown"
        where = f"branch {self.branch}" if self.branch else "detached head"
        is_clean = not self.changed and not self.untracked
        state = "clean" if is_clean else f"{self.changed} changed, {self.untracked} untracked"
        return f"{where} at {self.head or 'no commit'}, {state}"


UNKNOWN = RepositoryState(known=False)
ReadState: TypeAlias = Callable[[], Awaitable[RepositoryState]]


async def read_repository(root: Path) -> RepositoryState:
    """The state of the work tree that `root` is in; `known` is False where git does not say.

    It takes no lock, refreshes no index, and runs no hook and no watcher: nothing of the
    repository is written.
    """
    git = (
        "git",
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
    )
    env = {**child_environment(), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    # All untracked files one by one would be a million of them where nobody ignores those.
    command = (*git, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
    try:
        said = await run_command(command, cwd=root, env=env, timeout=GIT_SECONDS, keep=1 << 22)
    except (CannotRun, OSError):
        return UNKNOWN
    return parse_status(said.output) if said.ok and not said.dropped else UNKNOWN


def parse_status(text: str) -> RepositoryState:
    """What `git status --porcelain=v2 --branch -z` says.  Pure.

    Examples:
        >>> print(parse_status("# branch.oid " + "a" * 40 + "\\0# branch.head main\\0? x\\0"))
        branch main at aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, 0 changed, 1 untracked
    """
    branch = head = ""
    changed = untracked = 0
    parts = iter(text.split("\0"))
    for part in parts:
        kind, _, rest = part.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.head" and value != "(detached)":
                # Whoever can push a branch chooses its name, and it is shown.
                branch = value if _BRANCH.fullmatch(value) else "(of a name not shown)"
            elif name == "branch.oid" and _SHA.fullmatch(value):
                head = value
        elif kind in ("1", "2", "u"):
            changed += 1
            if kind == "2":
                next(parts, None)  # where it was renamed from
        elif kind == "?":
            untracked += 1
    return RepositoryState(branch, head, changed, untracked)
