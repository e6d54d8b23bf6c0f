"""Tools that read, search and change the files of one folder, and run commands in it.

`read`, `grep`, `find` and `ls` change nothing.  All but `shell` stay in the folder.
"""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import trio
from attrs import define, field

from ..process.command import run_command
from ..process.environment import child_environment
from ..result import Attachment
from .confined import Folder, NotAllowed
from .text import shorten
from .tool import Tool, ToolOutput, refuse, thread_limiter, tool

T = TypeVar("T")

READ_ONLY = ("read", "grep", "find", "ls")
"""Names of the tools that change nothing."""

FILE_TOOLS = (*READ_ONLY, "edit", "write", "shell")
"""Names of all tools of this module."""

LINES = 2000
"""Lines that one `read` shows."""

_LINE = 2000
_SHOWN = 40_000
_FOUND = 1000
_MATCHES = 200
_ENTRIES = 500
_LARGEST_EDIT = 10_000_000
_LARGEST_PICTURE = 5_000_000
_SEARCH_SECONDS = 50.0
_SHELL_SECONDS = 120.0
_LONGEST_SHELL = 3600.0
_WORKER = Path(__file__).with_name("search_worker.py")
_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}

RelativePath = Annotated[str, "relative to the working directory"]


def file_tools(
    root: str | os.PathLike[str],
    names: Iterable[str] = FILE_TOOLS,
    *,
    env: Mapping[str, str] | None = None,
) -> tuple[Tool, ...]:
    """Tools for the files of a folder, in the order of `names`.

    The paths that they take are relative to the folder, or absolute and below
    it.  None of them leaves it, through ``..`` or through links, and none goes
    into ``.git`` or ``.standby``.  `shell` only starts there: a command can do
    whatever this process can, which is why each has to be approved.

    Args:
        root: an existing folder.
        names: of :data:`FILE_TOOLS`.
        env: the environment of commands, whole; None for
            :func:`~standby_actors.process.environment.child_environment`.

    Raises:
        NotADirectoryError: there is no such folder.
        ValueError: there is no such tool.
    """
    files = _Files(Folder(root), env)
    made: list[Tool] = []
    for name in names:
        if name not in FILE_TOOLS:
            near = difflib.get_close_matches(name, FILE_TOOLS, 1)
            meant = f"; do you mean {near[0]}?" if near else ""
            raise ValueError(f"there is no tool {name!r} for files{meant}: {', '.join(FILE_TOOLS)}")
        made.append(files.tool(name))
    return tuple(made)


@define(eq=False)
class _Files:
    folder: Folder
    env: Mapping[str, str] | None = field(repr=False)

    def tool(self, name: str) -> Tool:
        """The tool of that name."""
        functions: dict[str, Callable[..., Any]] = {
            "read": self.read,
            "grep": self.grep,
            "find": self.find,
            "ls": self.ls,
            "edit": self.edit,
            "write": self.write,
            "shell": self.shell,
        }
        if name == "shell":
            longest = _LONGEST_SHELL + 10
            return tool(self.shell, name=name, approval="ask", timeout=longest, in_order=True)
        reads = name in READ_ONLY
        return tool(functions[name], name=name, read_only=reads, in_order=not reads)

    # ---- read only

    async def read(
        self,
        path: RelativePath,
        first_line: Annotated[int, msgspec.Meta(ge=1)] = 1,
        lines: Annotated[int, msgspec.Meta(ge=1, le=LINES)] = LINES,
    ) -> ToolOutput:
        """Read a text file, or look at a picture.

        Args:
            first_line: where to begin, counted from 1
            lines: how many to read
        """
        return await _try(lambda: self._read(path, first_line, lines))

    def _read(self, path: str, first_line: int, lines: int) -> ToolOutput:
        with (
            self.folder.file(path) as (opened, found, real),
            open(opened, "rb", closefd=False) as file,
        ):
            start = file.read(8192)
            media_type = _picture(start)
            if media_type and found.st_size <= _LARGEST_PICTURE:
                picture = Attachment(media_type, start + file.read(), real)
                return ToolOutput(f"{real}: a picture, {media_type}", attachments=(picture,))
            if b"\0" in start:
                return refuse(f"{real} is binary: {found.st_size:,} bytes that are no text.")
            file.seek(0)
            return _excerpt(file, real, found.st_size, first_line, lines)

    async def ls(self, path: RelativePath = ".") -> ToolOutput:
        """List a folder: folders end in /, links show where they lead."""
        return await _try(lambda: self._ls(path))

    def _ls(self, path: str) -> ToolOutput:
        listed: list[str] = []
        with self.folder.folder(path) as (opened, real):
            for entry in sorted(os.scandir(opened), key=lambda each: each.name):
                if entry.is_symlink():
                    listed.append(f"{entry.name} -> {os.readlink(entry.name, dir_fd=opened)}")
                elif entry.is_dir(follow_symlinks=False):
                    listed.append(f"{entry.name}/")
                else:
                    size = entry.stat(follow_symlinks=False).st_size
                    listed.append(f"{entry.name}  {size:,} bytes")
        if not listed:
            return ToolOutput(f"{real} is empty")
        more = len(listed) - _ENTRIES
        rest = [f"[… {more:,} more of {len(listed):,} entries are not shown …]"] if more > 0 else []
        return ToolOutput("\n".join([*listed[:_ENTRIES], *rest]))

    async def find(
        self,
        pattern: Annotated[str, "as in *.py, or src/**/test_*.py"],
        path: RelativePath = ".",
    ) -> ToolOutput:
        """Find files and folders by name; what .gitignore names is left out."""
        answer = await self._search(
            {"what": "find", "pattern": pattern, "path": path, "limit": _FOUND}
        )
        if isinstance(answer, ToolOutput):
            return answer
        found: list[str] = answer["found"]
        if not found:
            return ToolOutput(f"nothing is called {pattern:.200} below {path:.200}")
        more = f"\n[… only the first {_FOUND:,} are shown …]" if answer["more"] else ""
        return ToolOutput("\n".join(found) + more)

    async def grep(
        self,
        pattern: Annotated[str, "a regular expression of Python"],
        path: Annotated[str, "a file or a folder, relative to the working directory"] = ".",
        glob: Annotated[str, "only in files with such names, as in *.py"] = "",
        ignore_case: bool = False,
        literal: Annotated[bool, "the pattern is plain text"] = False,
    ) -> ToolOutput:
        """Find lines in text files; what .gitignore names is left out."""
        answer = await self._search(
            {
                "what": "grep",
                "pattern": pattern,
                "path": path,
                "glob": glob,
                "ignore_case": ignore_case,
                "literal": literal,
                "limit": _MATCHES,
            }
        )
        if isinstance(answer, ToolOutput):
            return answer
        said = [f"{where}:{number}: {line}" for where, number, line in answer["found"]]
        skipped = answer["skipped"]
        notes: list[str] = []
        if answer["more"]:
            notes.append(f"[… only the first {_MATCHES} lines are shown …]")
        elif not said:
            notes.append(f"no line fits, in {answer['searched']:,} files")
        if skipped:
            notes.append(f"[{skipped:,} files were not searched: binary, too large or unreadable]")
        return ToolOutput("\n".join([*said, *notes]))

    async def _search(self, request: dict[str, Any]) -> dict[str, Any] | ToolOutput:
        checked = await _try(lambda: self._find_start(request["path"]))
        if checked.is_error:
            return checked
        done = await run_command(
            [sys.executable, "-I", str(_WORKER)],
            input=msgspec.json.encode(request | {"root": str(self.folder.path)}),
            env=child_environment(),
            timeout=_SEARCH_SECONDS,
            keep=4_000_000,
        )
        if done.timed_out:
            return refuse(
                f"the search took longer than {_SEARCH_SECONDS:g} s and was stopped:"
                " use a simpler pattern, or a smaller folder"
            )
        if not done.ok:
            return refuse(f"the search failed: {shorten(done.error_output, 1000)}")
        answer: dict[str, Any] = msgspec.json.decode(done.output)
        return refuse(answer["error"]) if "error" in answer else answer

    def _find_start(self, path: str) -> ToolOutput:
        # The worker looks again; this spares a process where nothing can be found.
        with self.folder.parent_of(path) as (parent, name, real):
            os.stat(name, dir_fd=parent, follow_symlinks=False)
        return ToolOutput(real)

    # ---- changing

    async def write(self, path: RelativePath, content: str) -> ToolOutput:
        """Write a file, whole; folders that are missing are made."""
        return await _try(lambda: self._write(path, content))

    def _write(self, path: str, content: str) -> ToolOutput:
        data = content.encode()
        real = self.folder.write(path, data)
        return ToolOutput(f"{real} written: {len(data):,} bytes")

    async def edit(
        self,
        path: RelativePath,
        old_text: Annotated[str, "exactly as it stands in the file, with enough around it"],
        new_text: str,
        every: Annotated[bool, "replace it wherever it stands"] = False,
    ) -> ToolOutput:
        """Replace a piece of a text file that occurs exactly once."""
        return await _try(lambda: self._edit(path, old_text, new_text, every))

    def _edit(self, path: str, old: str, new: str, every: bool) -> ToolOutput:
        if not old:
            return refuse("old_text is empty: say which text is replaced, or write the whole file")
        if old == new:
            return refuse("old_text and new_text are the same: nothing would change")
        with self.folder.file(path) as (opened, found, real):
            if found.st_size > _LARGEST_EDIT:
                return refuse(
                    f"{real} has {found.st_size:,} bytes, and at most {_LARGEST_EDIT:,} are edited"
                )
            with open(opened, "rb", closefd=False) as file:
                data = file.read()
        if b"\0" in data[:8192]:
            return refuse(f"{real} is binary: {len(data):,} bytes that are no text.")
        # Bytes that are no UTF-8 come back as they were.
        text = data.decode(errors="surrogateescape")
        if old not in text and "\r\n" in text and "\r\n" not in old:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        count = text.count(old)
        if count == 0:
            return refuse(f"old_text does not occur in {real}.  {_nearest(text, old)}")
        if count > 1 and not every:
            at = ", ".join(str(line) for line in _lines_of(text, old, 10))
            return refuse(
                f"old_text occurs {count} times in {real}, in lines {at}:"
                " give more of what is around it, or say every=true"
            )
        changed = text.replace(old, new).encode(errors="surrogateescape")
        self.folder.write(path, changed, unless_changed=found)
        places = "1 place" if count == 1 else f"{count} places"
        return ToolOutput(f"{real} changed in {places}, from line {_lines_of(text, old, 1)[0]}")

    async def shell(
        self,
        command: str,
        seconds: Annotated[float, msgspec.Meta(gt=0, le=_LONGEST_SHELL)] = _SHELL_SECONDS,
    ) -> ToolOutput:
        """Run a command of the shell in the working directory, to its end.

        What it leaves running is ended with it.  Its input is empty.

        Args:
            seconds: how long it may take
        """
        shell = shutil.which("bash") or "/bin/sh"
        done = await run_command(
            # Both streams as one, so that they stand in the order of writing.
            [shell, "-c", f"exec 2>&1\n{command}"],
            cwd=self.folder.path,
            env=child_environment() if self.env is None else self.env,
            timeout=seconds,
            keep=_SHOWN,
        )
        said = done.output
        if done.dropped:
            said = f"[… {done.dropped:,} bytes before this are not shown …]\n{said}"
        if done.timed_out:
            return refuse(f"{said}\n[it took longer than {seconds:g} s and was ended]".lstrip("\n"))
        if done.code:
            how = f"exit code {done.code}" if done.code > 0 else f"ended by signal {-done.code}"
            return refuse(f"{said}\n[{how}]".lstrip("\n"))
        return ToolOutput(said or "done; it wrote nothing")


async def _try(work: Callable[[], ToolOutput]) -> ToolOutput:
    """Do `work` in a thread, and tell what the files do not allow."""
    try:
        # Waited for, also when cut: a write is done or not begun, never left to itself.
        return await trio.to_thread.run_sync(work, limiter=thread_limiter())
    except NotAllowed as error:
        return refuse(f"{error}.")
    except FileNotFoundError as error:
        return refuse(f"There is no {error.filename or 'such file'}: look with ls or find.")
    except OSError as error:
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return refuse(f"{where}{error.strerror or error}.")


def _picture(start: bytes) -> str:
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _PICTURES.items() if start.startswith(magic)), "")


def _excerpt(file: Any, path: str, size: int, first_line: int, most: int) -> ToolOutput:
    """Some lines of a file of any size, read piece by piece."""
    shown: list[str] = []
    length = number = 0
    more = False
    replaced = False
    while True:
        # Of a line without end no more is held than is shown of it.
        line = file.readline(4 * _LINE)
        if not line:
            break
        number += 1
        rest = 0
        while not line.endswith(b"\n") and (piece := file.readline(1 << 16)):
            rest += len(piece)
            trio.from_thread.check_cancelled()
            if piece.endswith(b"\n"):
                break
        if number % 1000 == 0:
            trio.from_thread.check_cancelled()
        if number < first_line:
            continue
        if len(shown) == most or length > _SHOWN:
            more = True
            break
        text = line.decode(errors="replace").removesuffix("\n").removesuffix("\r")
        replaced = replaced or "\ufffd" in text[:_LINE]
        if len(text) > _LINE or rest:
            cut = len(text) - _LINE if len(text) > _LINE else 0
            text = f"{text[:_LINE]}[… {cut + rest:,} more characters of this line …]"
        shown.append(text)
        length += len(text) + 1
    if number == 0:
        return ToolOutput(f"{path} is empty")
    if not shown:
        return refuse(f"{path} has {number:,} lines; there is no line {first_line:,}.")
    last = first_line + len(shown) - 1
    notes: list[str] = []
    if more:
        notes.append(
            f"[lines {first_line:,} to {last:,} of {path}, {size:,} bytes;"
            f" read on with first_line={last + 1}]"
        )
    if replaced:
        notes.append("[what is not UTF-8 is shown as \ufffd]")
    return ToolOutput("\n".join([*shown, *notes]))


def _lines_of(text: str, piece: str, most: int) -> list[int]:
    lines: list[int] = []
    at = text.find(piece)
    while at >= 0 and len(lines) < most:
        lines.append(text.count("\n", 0, at) + 1)
        at = text.find(piece, at + len(piece))
    return lines


_COMPARED = 3000


def _nearest(text: str, old: str) -> str:
    """The lines of `text` that look most like the beginning of `old`, for a mind."""
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = text.splitlines()
    same = [n for n, line in enumerate(lines) if wanted and line.strip() == wanted]
    if same:
        first = same[0]
        shown = "\n".join(lines[max(0, first - 1) : first + min(len(old.splitlines()), 20) + 1])
        return (
            f"Its first line stands in line {first + 1} but what is around it differs;"
            f" the file has there:\n{shorten(shown, 2000)}"
        )
    # Comparing takes a while, and no mind remembers the text of so long a file.
    some = [line.strip() for line in lines[:_COMPARED] if len(line) < 500]
    near = difflib.get_close_matches(wanted[:300], some, 3, 0.6)
    if not near:
        return "Nothing looks like it: read the file again."
    places = [f"{_number_of(lines, each)}: {each}" for each in near]
    return "The nearest lines are:\n" + "\n".join(places)


def _number_of(lines: list[str], stripped: str) -> int:
    """The number of the first line that says `stripped`."""
    return next(n for n, line in enumerate(lines, 1) if line.strip() == stripped)
