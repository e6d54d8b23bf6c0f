"""Searches the files of a folder: a program of its own, because a pattern can hang.

Python's regular expressions hold the interpreter for as long as they match, and
some take for ever; a process can be ended.  It reads one JSON request from stdin
and writes one JSON answer to stdout.  It is run by its path, without the package.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import re
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

_LONGEST_LINE = 300
_LARGEST_IGNORE = 1_000_000
_LARGEST_FILE = 20_000_000


def _load_confined() -> Any:
    spec = importlib.util.spec_from_file_location("confined", Path(__file__).parent / "confined.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


confined = _load_confined()


def walk(
    folder: int, prefix: str, specs: list[tuple[str, Any]]
) -> Iterator[tuple[str, int, str, bool]]:
    """Everything below `folder` that git would not ignore: path, its folder, its name, is it one.

    Links are not followed.
    """
    specs = [*specs, *_ignores(folder, prefix)]
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError:
        return
    for entry in entries:
        path = f"{prefix}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if confined.is_protected(entry.name) or _ignored(path, is_folder, specs):
            continue
        if not is_folder:
            yield path, folder, entry.name, False
            continue
        yield path, folder, entry.name, True
        try:
            below = os.open(entry.name, confined.FOLDER, dir_fd=folder)
        except OSError:
            continue
        try:
            yield from walk(below, f"{path}/", specs)
        finally:
            os.close(below)


def _ignores(folder: int, prefix: str) -> list[tuple[str, Any]]:
    try:
        opened = os.open(".gitignore", confined.FILE, dir_fd=folder)
    except OSError:
        return []
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return []
        text = file.read(_LARGEST_IGNORE).decode(errors="replace")
    lines: list[str] = []
    for line in text.splitlines():
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        lines.append(line)
    return [(prefix, GitIgnoreSpec.from_lines(lines))]


def _ignored(path: str, is_folder: bool, specs: list[tuple[str, Any]]) -> bool:
    # The nearest file that says anything decides.
    for prefix, spec in reversed(specs):
        said = spec.check_file(path[len(prefix) :] + ("/" if is_folder else "")).include
        if said is not None:
            return bool(said)
    return False


def _named(path: str, glob: str) -> bool:
    """As git reads a pattern: with a slash it is the whole path, without the name."""
    return bool(GitIgnoreSpec.from_lines([glob]).match_file(path))


def find(request: dict[str, Any], below: Iterator[tuple[str, int, str, bool]]) -> dict[str, Any]:
    """Paths that fit the pattern."""
    found: list[str] = []
    for path, _, _, is_folder in below:
        if _fits(path, is_folder, request["pattern"]):
            if len(found) == request["limit"]:
                return {"found": found, "more": True}
            found.append(path + ("/" if is_folder else ""))
    return {"found": found, "more": False}


def _fits(path: str, is_folder: bool, pattern: str) -> bool:
    if is_folder and not pattern.endswith("/"):
        # A pattern that names a folder would take in everything below it.
        return fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)
    if "/" not in pattern:
        return fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)
    return _named(path + ("/" if is_folder else ""), pattern)


def grep(request: dict[str, Any], below: Iterator[tuple[str, int, str, bool]]) -> dict[str, Any]:
    """Lines that fit the pattern."""
    flags = re.IGNORECASE if request["ignore_case"] else 0
    text = request["pattern"]
    pattern = re.compile(re.escape(text) if request["literal"] else text, flags)
    found: list[list[Any]] = []
    searched = skipped = 0
    for path, folder, name, is_folder in below:
        if is_folder or (request["glob"] and not _fits(path, False, request["glob"])):
            continue
        if confined.link_of(folder, name) is not None:
            continue  # where it leads, if that is below, is searched itself
        data = _content(folder, name)
        if data is None:
            skipped += 1
            continue
        searched += 1
        for number, line in enumerate(data.decode(errors="replace").split("\n"), 1):
            hit = pattern.search(line)
            if hit is None:
                continue
            if len(found) == request["limit"]:
                return {"found": found, "searched": searched, "skipped": skipped, "more": True}
            found.append([path, number, _around(line.rstrip("\r"), hit.start())])
    return {"found": found, "searched": searched, "skipped": skipped, "more": False}


def _content(folder: int, name: str) -> bytes | None:
    """A text file; None if it is binary, too large or no file."""
    try:
        opened = os.open(name, confined.FILE, dir_fd=folder)
    except OSError:
        return None
    with open(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_FILE:
            return None
        data = file.read(_LARGEST_FILE)
    return None if b"\0" in data[:8192] else data


def _around(line: str, at: int) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    start = max(0, min(at - 100, len(line) - _LONGEST_LINE))
    return f"…{line[start : start + _LONGEST_LINE]}…"


def main() -> None:
    """Answer the request on stdin."""
    request = json.load(sys.stdin)
    answer: dict[str, Any]
    try:
        root = confined.Folder(request["root"])
        with _start(root, request["path"]) as below:
            answer = (find if request["what"] == "find" else grep)(request, below)
    except re.error as error:
        answer = {"error": f"the pattern is no regular expression: {error}"}
    except (confined.NotAllowed, ValueError) as error:
        answer = {"error": str(error)}
    except OSError as error:
        answer = {"error": f"{request['path']:.200}: {error.strerror}"}
    sys.stdout.write(json.dumps(answer))


@contextmanager
def _start(root: Any, path: str) -> Generator[Iterator[tuple[str, int, str, bool]]]:
    """What is below `path`; a file is all that there is below itself."""
    with root.parent_of(path) as (parent, name, real):
        if stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            yield iter([(real, parent, name, False)])
            return
    with root.folder(path) as (folder, real):
        prefix = "" if real == "." else f"{real}/"
        yield walk(folder, prefix, _specs_above(root, real))


def _specs_above(root: Any, real: str) -> list[tuple[str, Any]]:
    """What the folders above a starting point ignore."""
    specs: list[tuple[str, Any]] = []
    parts = [] if real == "." else real.split("/")
    for depth in range(len(parts)):
        above = "/".join(parts[:depth])
        with root.folder(above or ".") as (folder, _):
            specs += _ignores(folder, f"{above}/" if above else "")
    return specs


if __name__ == "__main__":
    main()
