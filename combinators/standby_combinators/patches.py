"""The change of a copy as a patch: taken, tried in scratch, and found again after a kill."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import trio

from .durable import sync_file, try_lock
from .git import (
    SNAPSHOT,
    GitFailed,
    Repository,
    forget,
    git,
    is_folder,
    is_there,
    one_writer,
    script,
)

PatchState: TypeAlias = Literal["taken", "landed", "refused", "kept", "empty", "stuck"]
"""`taken`: it waits to be landed.  `landed`: the tree has it.  `refused`: it did not fit;
the tree is as it was.  `kept`: nobody tried, because its writer failed or was cut, or because
one before it was refused.  `empty`: nothing was changed.  `stuck`: it could not be taken;
the copy is where it was."""

# Whatever the user has set for reading diffs, this one is for git.
_DIFF = (
    "--binary --full-index -M --no-color --no-ext-diff --no-textconv "
    "--src-prefix=a/ --dst-prefix=b/"
)

_TAKE = f"""
    cp -p "$1" "$GIT_INDEX_FILE" 2>/dev/null || g read-tree "$2"
    g add --all
    g diff --cached {_DIFF} --output="$3" "$2"
    g diff --cached --raw -z --no-renames --no-abbrev "$2"
"""
_TRY = f"""
    if ! g apply --cached --3way --whitespace=nowarn "$2" > "$3" 2>&1; then
        g ls-files --unmerged -z > "$4"
        exit 3
    fi
    after=$(g write-tree)
    g diff {_DIFF} --output="$4" "$1" "$after"
    printf %s "$after"
"""
_BETWEEN = """
    now=$(cp -p "$1" "$GIT_INDEX_FILE" && g add --all && g write-tree)
    before=$2; after=$3; shift 3
    g diff --name-only -z --no-renames "$after" "$now" -- "$@"; printf '\\0'
    g diff --name-only -z --no-renames "$before" "$now" -- "$@"
"""


class Patch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """What came of one copy."""

    name: str
    """Of the copy, as in "0-coder": its place among all, and whose it was."""
    state: PatchState
    path: str = ""
    """The file that holds the change, for ``git apply --3way``; empty if there is none."""
    files: tuple[str, ...] = ()
    """What it changes, as seen from the uppermost folder of the repository."""
    base: str = ""
    """The commit that the copy was made from."""
    reason: str = ""
    """Why it is in no tree, in git's own words where those are known."""
    conflicts: tuple[str, ...] = ()
    """Of the files, those that did not fit, where git names them."""
    folder: str = ""
    """Where the copy still is: if it is stuck, or could not be taken away."""


class Record(msgspec.Struct, frozen=True):
    """What is written down of a copy before it is made, for whoever has to clear up after us."""

    name: str
    path: str
    base: str


class Landed(msgspec.Struct, frozen=True):
    """What is written down before a tree is changed."""

    name: str
    path: str
    top: str
    folder: str
    before: str
    after: str
    files: tuple[str, ...]


@contextmanager
def scratch_folder(repository: Repository, run: str) -> Generator[Path]:
    """A folder for the length of the block, which is found again if its process is killed."""
    runs = repository.ours / "runs"
    with tempfile.TemporaryDirectory(dir=runs, prefix=f"{run}.") as scratch:
        yield Path(scratch)


async def take(
    repository: Repository, run: str, name: str, path: Path, base: str, seconds: float
) -> Patch:
    """The change in the copy at `path` as a patch that is on the disk.

    Raises:
        GitFailed: it could not be taken.
        OSError: the same.
    """
    admin = _admin(repository, path)
    if admin is None:
        return Patch(name=name, state="empty", base=base, reason="it was never made")
    patches = repository.ours / "patches" / run
    file = patches / f"{name}.patch"
    if not is_folder(path):
        raise GitFailed("take the change of a copy", f"somebody has taken {path} away")
    patches.parent.mkdir(parents=True, exist_ok=True)
    fresh = patches.with_name(f"{run}.{name}.new")
    index = admin / "standby-index"
    # Told where everything is: a copy whose .git is gone would be taken for a part of
    # whatever repository is around it.
    said = await script(
        "take the change of a copy",
        _TAKE,
        *(str(admin / "index"), base, str(fresh)),
        cwd=path,
        seconds=seconds,
        env={
            "GIT_DIR": str(admin),
            "GIT_WORK_TREE": str(path),
            "GIT_INDEX_FILE": str(index),
        },
    )
    raw = said.split("\0")
    heads, files = raw[:-1:2], tuple(raw[1::2])
    if not files:
        fresh.unlink(missing_ok=True)
        return Patch(name=name, state="empty", base=base)
    nested = [
        file for head, file in zip(heads, files, strict=True) if "160000" in head.split(" ")[1]
    ]
    if nested:
        fresh.unlink(missing_ok=True)
        why = f"{', '.join(nested)} is a repository of its own, of which a patch has nothing"
        return Patch(name=name, state="stuck", base=base, files=files, reason=why, folder=str(path))
    await sync_file(fresh)
    patches.mkdir(exist_ok=True)
    fresh.replace(file)
    await sync_file(file)
    return Patch(name=name, state="taken", path=str(file), files=files, base=base)


async def merged(
    repository: Repository, patch: Patch, scratch: Path, seconds: float
) -> tuple[str, str] | Patch:
    """The tree as it stands and as it will be, and in `scratch` what leads from one to the other.

    Or why the patch does not fit.
    """
    env = {"GIT_INDEX_FILE": str(scratch / "index")}
    said = await script(
        "read the work tree",
        SNAPSHOT,
        str(repository.folder / "index"),
        cwd=repository.top,
        seconds=seconds,
        env=env,
    )
    before = said.strip()
    words, unmerged = scratch / "words", scratch / "fits"
    try:
        after = await script(
            "merge it",
            _TRY,
            *(before, patch.path, str(words), str(unmerged)),
            cwd=repository.top,
            seconds=seconds,
            env=env,
        )
    except GitFailed as error:
        said = words.read_text("utf-8", "replace").strip() if words.exists() else ""
        told = unmerged.read_text("utf-8", "replace") if unmerged.exists() else ""
        conflicts = dict.fromkeys(each.partition("\t")[2] for each in told.split("\0") if each)
        return msgspec.structs.replace(
            patch, state="refused", reason=said or error.words, conflicts=tuple(conflicts)
        )
    return before, after.strip()


async def remove(repository: Repository, path: Path, seconds: float) -> None:
    """Take a copy away.  Its folder is ours alone, and its change is on the disk.

    Raises:
        GitFailed: something of it is left.
        OSError: the same.
    """

    async with one_writer(repository, seconds):
        await _clear(repository, path, seconds)


async def _clear(repository: Repository, path: Path, seconds: float) -> None:
    """As :func:`remove`, for the one writer."""

    async def drop() -> None:
        # Forced, for the change is taken; twice, for one that was not made to its end.
        await git(
            "take a copy away",
            *("worktree", "remove", "--force", "--force", str(path)),
            cwd=repository.top,
            seconds=seconds,
        )

    if _admin(repository, path) is not None:
        with suppress(GitFailed):
            await drop()
    if is_there(path):
        await trio.to_thread.run_sync(partial(_remove_folder, path))
    if _admin(repository, path) is not None:
        await drop()
    with suppress(OSError):
        path.parent.rmdir()


async def rescue(repository: Repository, seconds: float) -> tuple[Patch, ...]:
    """Take what processes that are gone have left, and clear up after them."""
    runs = repository.ours / "runs"
    dead: dict[str, bool] = {}
    found: list[Patch] = []
    for file in sorted(runs.iterdir()):
        run = file.name.partition(".")[0]
        if run not in dead:
            dead[run] = _is_dead(runs / f"{run}.lock")
        if not dead[run]:
            continue
        if file.suffix == ".lock":
            file.unlink(missing_ok=True)
        elif file.suffix == ".landing":
            found.append(await _half_landed(repository, file, seconds))
        elif file.suffix == ".json":
            found.append(await _rescue_copy(repository, run, file, seconds))
        elif is_folder(file):
            shutil.rmtree(file)
        else:
            # Half written: what it was to tell of had not begun.
            file.unlink(missing_ok=True)
    return tuple(each for each in found if each.state != "empty")


def _is_dead(lock: Path) -> bool:
    held = try_lock(lock)
    if held is None:
        return False
    # The file may be new: whoever unlocked it took it along.
    lock.unlink(missing_ok=True)
    os.close(held)
    return True


async def _rescue_copy(repository: Repository, run: str, file: Path, seconds: float) -> Patch:
    record = msgspec.json.decode(_read(file), type=Record)
    path = Path(record.path)
    taken = repository.ours / "patches" / run / f"{record.name}.patch"
    try:
        if is_there(taken):
            patch = Patch(name=record.name, state="taken", path=str(taken), base=record.base)
        elif not is_folder(path):
            patch = Patch(name=record.name, state="empty", base=record.base)
        else:
            patch = await take(repository, run, record.name, path, record.base, seconds)
        if patch.state != "stuck":
            await _clear(repository, path, seconds)
            forget(file)
    except (GitFailed, OSError) as error:
        return Patch(
            name=record.name,
            state="stuck",
            base=record.base,
            reason=str(error),
            folder=record.path,
        )
    if patch.state == "taken":
        why = "its process was killed before it could be landed"
        return msgspec.structs.replace(patch, state="kept", reason=why)
    return patch


async def _half_landed(repository: Repository, file: Path, seconds: float) -> Patch:
    """What became of a landing in the middle of which its process was killed."""
    landing = msgspec.json.decode(_read(file), type=Landed)
    patch = Patch(name=landing.name, state="refused", path=landing.path, files=landing.files)
    try:
        with scratch_folder(repository, "rescue") as scratch:
            said = await script(
                "compare the work tree with what it was to be",
                _BETWEEN,
                str(Path(landing.folder, "index")),
                landing.before,
                landing.after,
                *landing.files,
                cwd=Path(landing.top),
                seconds=seconds,
                env={"GIT_INDEX_FILE": str(scratch / "index")},
            )
    except (GitFailed, OSError) as error:
        why = f"its landing was interrupted, and nobody can say how far it was: {error}"
        return msgspec.structs.replace(patch, reason=why)
    missing, _, changed = said.partition("\0\0" if "\0\0" in said else "\0")
    not_yet = tuple(each for each in missing.split("\0") if each)
    begun = tuple(each for each in changed.split("\0") if each)
    forget(file)
    if not not_yet:
        return msgspec.structs.replace(patch, state="landed", reason="its process was killed after")
    if not begun:
        return msgspec.structs.replace(patch, state="kept", reason="its process was killed before")
    why = f"its landing was interrupted: the tree has a part of it, without {', '.join(not_yet)}"
    return msgspec.structs.replace(patch, reason=why, conflicts=not_yet)


def _read(file: Path) -> bytes:
    return file.read_bytes()


def _admin(repository: Repository, path: Path) -> Path | None:
    """Git's own folder of the copy at `path`; None if it knows of none."""
    folder = repository.common / "worktrees"
    if not folder.is_dir():
        return None
    for each in folder.iterdir():
        try:
            # Not what the copy itself says: whoever worked in it may have changed that.
            told = (each / "gitdir").read_text("utf-8", "surrogateescape").strip()
        except OSError:
            continue
        if told == str(path / ".git"):
            return each
    return None


def _remove_folder(path: Path) -> None:
    """Remove a folder and all below it, also where its writer took the right to do so away."""
    if path.is_symlink():
        path.unlink()
        return

    def allow(function: Any, name: str, error: Any) -> None:
        os.chmod(os.path.dirname(name), stat.S_IRWXU)
        if not os.path.islink(name):
            with suppress(OSError):
                os.chmod(name, stat.S_IRWXU)
        if os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name, onerror=allow)
        else:
            os.unlink(name)

    shutil.rmtree(path, onerror=allow)
