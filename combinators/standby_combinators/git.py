"""Git as copies need it: bounded commands, one writer at a time to each repository.

Nothing here pushes, resets, commits to a branch, or touches an index that is not its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from standby_actors.process.command import CommandResult, run_command
from standby_actors.process.environment import child_environment
from standby_actors.process.process import CannotRun

from .durable import try_lock

_OLDEST = (2, 32)
"""The first git that merges a patch three ways without a work tree."""
_KEEP = 32 * 1024 * 1024
"""Bytes of an answer of git that are read: names of some 300,000 files."""
_WORDS = 600
"""Characters of what git complains of that are told."""
_PAUSE_SECONDS = 0.05
"""Between two tries for a lock that another process has."""

_OURS = {
    # Its words are told to users and looked through: they are to be the same everywhere.
    "LC_ALL": "C",
    # Nobody is there to type a password.
    "GIT_TERMINAL_PROMPT": "0",
    # For the commit that a snapshot is: it is on no branch, and nobody's.
    "GIT_AUTHOR_NAME": "standby",
    "GIT_AUTHOR_EMAIL": "standby@localhost",
    "GIT_COMMITTER_NAME": "standby",
    "GIT_COMMITTER_EMAIL": "standby@localhost",
}
# Hooks and watchers are for the user's own work, not for folders that come and go.
_PLAIN = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
# Every script below says `g` for git.
_PRELUDE = f'set -eu; g() {{ git {" ".join(_PLAIN)} "$@"; }}; '

SNAPSHOT = """
    cp -p "$1" "$GIT_INDEX_FILE" 2>/dev/null || g read-tree HEAD
    g add --all
    g write-tree
"""
"""The tree that a work tree is as it stands; "$1" is its index, which is only read.

Its copy keeps its time, by which git knows what was written too soon after it to be told
apart by a time."""


class GitFailed(RuntimeError):
    """Raised where git did not do what it was told."""

    def __init__(self, what: str, words: str) -> None:
        super().__init__(what, words)
        self.what = what
        self.words = words
        """Git's own, shortened."""

    def __str__(self) -> str:
        return f"git could not {self.what}: {self.words}"


class Repository(msgspec.Struct, frozen=True):
    """A repository with a work tree."""

    top: Path
    """The work tree's uppermost folder."""
    common: Path
    """What all its work trees share: most often ``.git``."""
    folder: Path
    """That of this work tree: its index is in it."""
    prefix: str
    """Where below `top` we were asked to work; empty for `top` itself."""

    @property
    def ours(self) -> Path:
        """Where we keep what has to outlive us: locks, records and patches."""
        return self.common / "standby"


async def git(
    what: str,
    *arguments: str,
    cwd: Path,
    seconds: float,
    env: Mapping[str, str] | None = None,
) -> str:
    """What git says to `arguments`; `what` it is to do is for the error.

    Raises:
        GitFailed: it has failed, or its time was over; or there is no git.
    """
    done = await _run(["git", *_PLAIN, *arguments], what, cwd, seconds, env)
    if not done.ok:
        raise GitFailed(what, _words(done, seconds))
    return done.output


async def script(
    what: str,
    text: str,
    *arguments: str,
    cwd: Path,
    seconds: float,
    env: Mapping[str, str] | None = None,
) -> str:
    """As :func:`git`, for several commands in one process tree; `g` stands for git.

    Raises:
        GitFailed: one of them has failed, and no later one was run.
    """
    done = await _run(["sh", "-c", _PRELUDE + text, "sh", *arguments], what, cwd, seconds, env)
    if not done.ok:
        raise GitFailed(what, _words(done, seconds))
    return done.output


async def find_repository(root: Path, seconds: float) -> Repository:
    """The repository that `root` is in.

    Raises:
        GitFailed: it is in none, or in one without a work tree; or git is too old.
    """
    if not is_folder(root):
        raise GitFailed("look for a repository", f"there is no folder {root}")
    # Each with an end of its own: a path may hold a newline.
    said = await script(
        "look for a repository",
        """
        g version; printf '\\0'
        g rev-parse --show-toplevel; printf '\\0'
        g rev-parse --path-format=absolute --git-common-dir; printf '\\0'
        g rev-parse --absolute-git-dir; printf '\\0'
        g rev-parse --show-prefix
        """,
        cwd=root,
        seconds=seconds,
    )
    version, top, common, folder, prefix = (each.strip("\n") for each in said.split("\0"))
    number = re.search(r"(\d+)\.(\d+)", version)
    if number is not None and (int(number[1]), int(number[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise GitFailed("merge in scratch", f"{version} is too old: it takes {oldest}, or newer")
    if not top:
        raise GitFailed("look for a repository", f"{root} has no work tree")
    return Repository(Path(top), Path(common), Path(folder), prefix)


@asynccontextmanager
async def one_writer(repository: Repository, seconds: float) -> AsyncGenerator[None]:
    """Whoever is in this block is the only one, of all tasks and processes of ours.

    Git's list of work trees has no lock of its own that would wait.

    Raises:
        GitFailed: somebody else was in it for `seconds`.
    """
    mine = _locks().setdefault(repository.common, trio.Lock())
    file = repository.ours / "lock"
    busy = GitFailed("be used", f"another team has had {file} for {seconds:g} s")
    with trio.move_on_after(seconds) as waiting:
        await mine.acquire()
    if waiting.cancelled_caught:
        raise busy
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = await _locked(file, seconds)
        if lock is None:
            raise busy
        try:
            yield
        finally:
            os.close(lock)
    finally:
        mine.release()


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; of what is local, quick enough not to need a thread."""
    return path.is_dir()


def is_there(path: Path) -> bool:
    """Whether anything has that name, a link to nowhere too."""
    return os.path.lexists(path)


def forget(file: Path) -> None:
    """Take a file away, if it is there."""
    file.unlink(missing_ok=True)


async def _locked(file: Path, seconds: float) -> int | None:
    with trio.move_on_after(seconds):
        while (lock := try_lock(file)) is None:  # noqa: ASYNC110 - another process has it
            await trio.sleep(_PAUSE_SECONDS)
        return lock
    return None


_run_locks: trio.lowlevel.RunVar[dict[Path, trio.Lock]] = trio.lowlevel.RunVar("git locks")


def _locks() -> dict[Path, trio.Lock]:
    """The locks of this run of trio, one for each repository that it has used."""
    try:
        return _run_locks.get()
    except LookupError:
        made: dict[Path, trio.Lock] = {}
        _run_locks.set(made)
        return made


async def _run(
    command: list[str], what: str, cwd: Path, seconds: float, env: Mapping[str, str] | None
) -> CommandResult:
    try:
        return await run_command(
            command,
            cwd=cwd,
            env=child_environment(_OURS | dict(env or {})),
            timeout=seconds,
            keep=_KEEP,
        )
    except CannotRun as error:
        raise GitFailed(what, str(error)) from error


def _words(done: CommandResult, seconds: float) -> str:
    if done.timed_out:
        return f"it took more than {seconds:g} s"
    said = done.error_output.strip() or done.output.strip() or f"exit code {done.code}"
    return said if len(said) <= _WORDS else f"{said[:_WORDS]}…"
