"""Copies: a work tree of its own for each writer, whose change is taken as a patch, and landed.

Limits: git 2.32 or newer, a repository with a commit, and no submodules.  What git
ignores is not in a patch.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
import trio
from attrs import define, field

from standby_actors.events import emit

from .durable import try_lock, write_through
from .git import (
    SNAPSHOT,
    GitFailed,
    Repository,
    find_repository,
    git,
    one_writer,
    script,
)
from .patches import Landed, Patch, Record, merged, remove, rescue, scratch_folder, take
from .workplace import Workplace

SECONDS = 60.0
"""What one command of git may take, unless another number is given."""
CLOSE_SECONDS = 30.0
"""What it may take to take a change and a copy away when all is cancelled."""


_OPEN = "it is open"


class CannotCopy(RuntimeError):
    """Raised where no copies can be made of a folder; nothing was changed."""

    def __init__(self, root: str, why: str) -> None:
        super().__init__(root, why)
        self.root = root
        self.why = why

    def __str__(self) -> str:
        return f"no copies can be made of {self.root}: {self.why}"


@define(eq=False)
class Copy:
    """A work tree of its own, for as long as the block is open that made it."""

    name: str
    path: Path
    """Its uppermost folder."""
    workplace: Workplace
    place: int
    """Its place among the copies, from 0: the order of landing."""
    reason: str = field(init=False, default="")

    @property
    def folder(self) -> Path:
        """Where to work: what stands for the folder that copies were opened of."""
        return self.workplace.folder

    def keep(self, reason: str) -> None:
        """Its patch is to be kept when it is taken, and not landed."""
        self.reason = reason


@define(eq=False)
class Copies:
    """Copies of one repository, and what came of them.  Make one with :func:`open_copies`."""

    repository: Repository
    base: str
    """The commit that every copy is made from."""
    id: str
    house: Path
    """The folder that the copies are in."""
    seconds: float
    go_on: bool
    rescued: tuple[Patch, ...] = ()
    """What was left by a process that did not get to its end, and was found when these
    were opened: `kept`, and `stuck` if even now nobody can take it."""
    _patches: list[Patch] = field(init=False, factory=list[Patch])

    @property
    def patches(self) -> tuple[Patch, ...]:
        """What came of each copy so far, in their order."""
        return tuple(self._patches)

    @asynccontextmanager
    async def open(self, name: str = "copy") -> AsyncGenerator[Copy]:
        """A new copy, until the block is left; then its change is a patch, and it is gone.

        The patch is on the disk before the copy is taken away.  When the block is left
        by an error or a cancellation, it is kept and will not be landed.  Where it cannot be
        taken, the copy stays, and its patch says so: nothing is raised.

        Args:
            name: what to call it, besides its place.

        Raises:
            GitFailed: it could not be made; nothing is left of it.
        """
        # Before anything waits, so that the order of landing is that of asking.
        place = len(self._patches)
        name = f"{place}-{_plain(name)}"
        path = self.house / name
        folder = path / self.repository.prefix
        copy = Copy(name, path, Workplace(folder, path, self.repository.top), place)
        self._patches.append(Patch(name=name, state="kept", base=self.base, reason=_OPEN))
        copy.reason = "it was cut"
        try:
            await self._make(copy)
            emit("copy.opened", name, path=str(path), base=self.base)
            yield copy
            if copy.reason == "it was cut":
                copy.reason = ""
        finally:
            with trio.move_on_after(CLOSE_SECONDS, shield=True) as closing:
                await self._close(copy)
            if closing.cancelled_caught:
                self._late(copy)
            patch = self._patches[place]
            emit("copy.closed", name, state=patch.state, files=len(patch.files))

    async def land(self, places: Iterable[int] | None = None) -> tuple[Patch, ...]:
        """Bring what was taken into the folder that was copied, in the order of the copies.

        Each is first merged in scratch with the tree as it stands; one that does not fit
        leaves the tree as it was, is `refused`, and those after it are `kept`, unless it
        was asked to go on.  Nothing is committed, and no index is touched.  Cancelled,
        it has landed some, each of them whole.

        Args:
            places: which copies; None for all.

        Raises:
            GitFailed: the tree cannot be read, or another team has it.
        """
        wanted = range(len(self._patches)) if places is None else sorted(set(places))
        refused = ""
        async with one_writer(self.repository, self.seconds):
            for place in wanted:
                patch = self._patches[place]
                if patch.state != "taken":
                    continue
                if refused and not self.go_on:
                    why = f"{refused} was refused before it"
                    patch = msgspec.structs.replace(patch, state="kept", reason=why)
                else:
                    patch = await self._land(patch, place)
                    if patch.state == "refused":
                        refused = patch.name
                self._patches[place] = patch
                emit("patch.landed", patch.name, state=patch.state, reason=patch.reason)
        return tuple(self._patches[place] for place in wanted)

    def keep(self, places: Iterable[int], reason: str) -> None:
        """Have none of these landed that is not landed yet: their patches are kept."""
        for place in places:
            if self._patches[place].state == "taken":
                self._patches[place] = msgspec.structs.replace(
                    self._patches[place], state="kept", reason=reason
                )

    async def _make(self, copy: Copy) -> None:
        record = Record(copy.name, str(copy.path), self.base)
        try:
            await write_through(self._record(copy.name), msgspec.json.encode(record))
            self.house.mkdir(parents=True, exist_ok=True)
            async with one_writer(self.repository, self.seconds):
                await git(
                    "make a copy",
                    *("worktree", "add", "--quiet", "--detach", str(copy.path), self.base),
                    cwd=self.repository.top,
                    seconds=self.seconds,
                )
            copy.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GitFailed("make a copy", str(error)) from error

    async def _close(self, copy: Copy) -> None:
        """Take the change, say so, then take the copy away."""
        try:
            patch = await take(
                self.repository, self.id, copy.name, copy.path, self.base, self.seconds
            )
        except (GitFailed, OSError) as error:
            self._patches[copy.place] = self._stuck(copy, str(error))
            return
        if patch.state == "taken" and copy.reason:
            patch = msgspec.structs.replace(patch, state="kept", reason=copy.reason)
        self._patches[copy.place] = patch
        if patch.state == "stuck":
            return
        try:
            await remove(self.repository, copy.path, self.seconds)
        except (GitFailed, OSError) as error:
            # Its change is safe.  Whoever opens copies next takes it away.
            self._patches[copy.place] = msgspec.structs.replace(
                patch, folder=str(copy.path), reason=patch.reason or str(error)
            )
            return
        self._record(copy.name).unlink(missing_ok=True)

    def _late(self, copy: Copy) -> None:
        """There was no time for all of it: what is left is found when copies are opened next."""
        patch = self._patches[copy.place]
        if patch.reason == _OPEN:
            why = f"there was no time to take its change: more than {CLOSE_SECONDS:g} s"
            self._patches[copy.place] = self._stuck(copy, why)
        elif not patch.folder:
            self._patches[copy.place] = msgspec.structs.replace(patch, folder=str(copy.path))

    def _stuck(self, copy: Copy, why: str) -> Patch:
        return Patch(
            name=copy.name, state="stuck", base=self.base, reason=why, folder=str(copy.path)
        )

    def _record(self, name: str) -> Path:
        return self.repository.ours / "runs" / f"{self.id}.{name}.json"

    async def _land(self, patch: Patch, place: int) -> Patch:
        with scratch_folder(self.repository, self.id) as scratch:
            fits = await merged(self.repository, patch, scratch, self.seconds)
            if isinstance(fits, Patch):
                return fits
            before, after = fits
            if before == after:
                return msgspec.structs.replace(patch, state="landed", reason="it was there already")
            journal = self.repository.ours / "runs" / f"{self.id}.landing"
            entry = Landed(
                patch.name,
                patch.path,
                str(self.repository.top),
                str(self.repository.folder),
                before,
                after,
                patch.files,
            )
            await write_through(journal, msgspec.json.encode(entry))
            # Not to be cut in the middle; git is told how long it may take.
            with trio.CancelScope(shield=True):
                try:
                    await git(
                        "apply it",
                        *("apply", "--whitespace=nowarn", str(scratch / "fits")),
                        cwd=self.repository.top,
                        seconds=self.seconds,
                    )
                except GitFailed as error:
                    # It looks at everything before it writes anything.
                    return msgspec.structs.replace(patch, state="refused", reason=error.words)
                finally:
                    journal.unlink(missing_ok=True)
                # Known before anybody can cancel us: it is in the tree.
                self._patches[place] = patch = msgspec.structs.replace(patch, state="landed")
            return patch


@asynccontextmanager
async def open_copies(
    root: str | Path = ".",
    *,
    uncommitted: Literal["carry", "refuse"] = "carry",
    folder: str | Path | None = None,
    seconds: float = SECONDS,
    go_on: bool = False,
) -> AsyncGenerator[Copies]:
    """Copies of the repository around `root`, for the length of the block.

    ``async with open_copies("project") as copies: await fan_out(coder, tasks, copies=copies)``

    What a process that was killed has left is looked for first: its changes are taken as
    patches, its copies taken away, and :attr:`Copies.rescued` names them.  When the block is
    left, no copy is there any more, but for those that are `stuck`; every patch stays,
    below ``.git/standby/patches``.  Nothing is landed by leaving it.

    Args:
        root: a folder in a repository.  Members work in the same folder of their copy.
        uncommitted: what to do with changes that are in no commit, files that git
            does not know among them: they are in every copy, or copies are refused.
        folder: where the copies are made; None for ``~/.cache/standby/copies``.
        seconds: that one command of git may take, and that others are waited for.
        go_on: whether to land what comes after a patch that was refused.

    Raises:
        CannotCopy: it is in no repository, there is no commit, it has submodules, a
            merge is not done, or there are changes and they are refused.
    """
    if uncommitted not in ("carry", "refuse"):
        raise ValueError(f"uncommitted is 'carry' or 'refuse', not {uncommitted!r}")
    if not seconds > 0:
        raise ValueError(f"seconds is more than 0, not {seconds!r}")
    id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"  # noqa: A001 - as Copies has it
    house = _houses(folder) / id
    lock: int | None = None
    held: Path | None = None
    try:
        try:
            repository = await find_repository(Path(root), seconds)
            runs = repository.ours / "runs"
            runs.mkdir(parents=True, exist_ok=True)
            async with one_writer(repository, seconds):
                rescued = await rescue(repository, seconds)
                held = runs / f"{id}.lock"
                lock = try_lock(held)
            base = await _base(repository, id, uncommitted, seconds)
        except (GitFailed, OSError) as error:
            raise CannotCopy(str(root), str(error)) from error
        yield Copies(repository, base, id, house, seconds, go_on, rescued)
    finally:
        if held is not None:
            # Those that are stuck have a record, which is looked at whether there is a lock or not.
            held.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)
        with suppress(OSError):
            house.rmdir()


async def _base(repository: Repository, run: str, uncommitted: str, seconds: float) -> str:
    """The commit that copies are made from: HEAD, or one of the tree as it stands."""
    said = await script(
        "read the repository",
        """
        g rev-parse --verify --quiet 'HEAD^{commit}' || { echo 'it has no commit yet' >&2; exit 1; }
        printf '\\0'
        g ls-files --stage -z; printf '\\0'
        g status --porcelain=v1 -z --untracked-files=all --no-renames
        """,
        cwd=repository.top,
        seconds=seconds,
    )
    head, _, said = said.partition("\0")
    staged, _, changed = said.rpartition("\0\0") if "\0\0" in said else ("", "", said.lstrip("\0"))
    _no_modules(staged)
    names = [each[3:] for each in changed.split("\0") if each]
    if not names:
        return head.strip()
    if uncommitted == "refuse":
        more = "" if len(names) <= 5 else f" and {len(names) - 5} more"
        raise GitFailed(
            "copy what is in no commit",
            f"{', '.join(names[:5])}{more}. Commit first, or say uncommitted='carry'",
        )
    with scratch_folder(repository, run) as scratch:
        said = await script(
            "take a snapshot of the work tree",
            SNAPSHOT
            + """
            g ls-files --stage -z; printf '\\0'
            g commit-tree -p "$2" -m 'the work tree as it stood' "$(g write-tree)"
            """,
            *(str(repository.folder / "index"), head.strip()),
            cwd=repository.top,
            seconds=seconds,
            env={"GIT_INDEX_FILE": str(scratch / "index")},
        )
    _, _, said = said.partition("\n")
    staged, _, commit = said.rpartition("\0")
    _no_modules(staged)
    return commit.strip()


def _no_modules(staged: str) -> None:
    """Refuse what git would only point to."""
    modules = [line.partition("\t")[2] for line in staged.split("\0") if line.startswith("160000 ")]
    if modules:
        raise GitFailed(
            "copy repositories in a repository",
            f"{', '.join(modules[:5])}: no copy would have them. Have git ignore what is no "
            "submodule (.git/info/exclude); for submodules, copy each by itself",
        )


def _houses(folder: str | Path | None) -> Path:
    """Where copies are made: unless it is said, among what can be made again."""
    if folder is None:
        cache = os.environ.get("XDG_CACHE_HOME", "")
        folder = (Path(cache) if cache else Path.home() / ".cache") / "standby" / "copies"
    # As git writes it down.
    return Path(os.path.realpath(folder))


def _plain(name: str) -> str:
    """`name` as a file may be called."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:40] or "copy"
