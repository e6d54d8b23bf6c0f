"""The text files under a directory: which are read, which are not, and why not.

Every file under the directory is either read whole or named with the reason
why it was left out; what git ignores is only counted.  Nothing is cut: a text
that does not fit in front of a model is split at line boundaries, by `split`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from pathspec import GitIgnoreSpec

from standby_combinators.tokens import estimate_tokens

FILE_LIMIT = 1_000_000
"""Bytes of the largest file that is read, unless another limit is asked for."""
FILES_LIMIT = 500
"""Most files of one reading, unless another limit is asked for."""
REPLACED_LIMIT = 0.1
"""Share of the characters that may be no UTF-8 in what is still taken for text."""

# Git's own rule: a NUL byte near the start makes a file binary.
_BINARY_PROBE = 8_000

_VERSION_CONTROL = frozenset({".git", ".hg", ".jj", ".svn"})

# What is read is sent to a model, often to another company's machine.  These
# hold keys by convention, and no question about a directory needs them.
_SECRETS = re.compile(
    r"\.env(\..+)?|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|credentials(\.json)?"
    r"|id_(rsa|dsa|ecdsa|ed25519)|.+\.(pem|key|p12|pfx|jks|keystore|kdbx)",
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(r"\.env\.(example|sample|template|dist)", re.IGNORECASE)

_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    # UTF-32 begins as UTF-16 does, so it is looked for first.
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


class TextFile(msgspec.Struct, frozen=True):
    """A file that was read, whole."""

    path: str
    """From the directory that was asked about, with forward slashes."""
    text: str
    replaced: int = 0
    """Places where the bytes were no UTF-8; each is shown as U+FFFD."""

    @property
    def lines(self) -> int:
        return len(_lines(self.text))


class Skipped(msgspec.Struct, frozen=True):
    """A file or folder that was left out."""

    path: str
    reason: str
    """For people, as in "binary" or "1.1 GB, more than the limit of 1 MB"."""

    def __str__(self) -> str:
        return f"{self.path}: not read: {self.reason}"


class Reading(msgspec.Struct, frozen=True):
    """What there is to read under a directory."""

    root: str
    files: tuple[TextFile, ...]
    """In the order of their paths."""
    skipped: tuple[Skipped, ...] = ()
    """In the order of their paths."""
    ignored: int = 0
    """Entries that git ignores; a whole folder is one."""


class Part(msgspec.Struct, frozen=True):
    """Some whole lines of a text."""

    text: str
    first_line: int
    """Counted from 1."""
    last_line: int
    within_line: bool = False
    """It is a piece of one line that alone was too long."""


class NotReadable(Exception):
    """Raised when a directory cannot be read at all."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory = directory
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot read {self.directory}: {self.reason}"


class TooMany(NotReadable):
    """Raised when there are more files under a directory than were agreed to."""


def read_directory(
    directory: Path,
    *,
    file_limit: int = FILE_LIMIT,
    files_limit: int = FILES_LIMIT,
) -> Reading:
    """Read every text file under `directory`.

    It blocks: call it in a thread.  Links are not followed, so that nothing
    is read twice or from elsewhere, and only regular files are opened, so
    that a pipe or a device cannot hold it up.  The ``.gitignore`` files of the
    directory, of its folders and of the repository around it are respected, as
    is ``.git/info/exclude``.

    Args:
        directory: where to read.
        file_limit: bytes; a larger file is skipped without being opened.
        files_limit: most files; with more, nothing is returned.

    Raises:
        NotReadable: `directory` is missing, is no directory, or cannot be listed.
        TooMany: more than `files_limit` files would be read.
    """
    root = directory.resolve()
    if not root.is_dir():
        raise NotReadable(str(directory), "no such directory" if not root.exists() else "a file")
    # Asked of the system at once, for its own words about why not.
    try:
        os.scandir(root).close()
    except OSError as error:
        raise NotReadable(str(directory), _words(error)) from error

    files: list[TextFile] = []
    skipped: list[Skipped] = []
    ignored = 0
    for found in _walk(root):
        if found is None:
            ignored += 1
        elif isinstance(found, Skipped):
            skipped.append(found)
        else:
            read = _read_file(found, _name(found, root), file_limit)
            if isinstance(read, Skipped):
                skipped.append(read)
            elif len(files) == files_limit:
                raise TooMany(
                    str(directory), f"more than {files_limit} text files; name a smaller directory"
                )
            else:
                files.append(read)
    return Reading(
        str(directory),
        tuple(sorted(files, key=lambda file: file.path)),
        tuple(sorted(skipped, key=lambda left: left.path)),
        ignored,
    )


class _Rules(msgspec.Struct, frozen=True):
    """The ignore rules of one folder."""

    base: Path
    spec: GitIgnoreSpec


def _walk(root: Path) -> Iterator[Path | Skipped | None]:
    """Each file to open, each entry left out, and None for each that git ignores."""
    pending = [(root, _rules_above(root))]
    while pending:
        folder, rules = pending.pop()
        rules = [*rules, *_rules_of(folder, folder / ".gitignore")]
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            yield Skipped(_name(folder, root) + "/", _words(error))
            continue
        for entry in listed:
            path = Path(entry.path)
            name = _name(path, root)
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
            except OSError as error:
                yield Skipped(name, _words(error))
                continue
            if is_folder and entry.name in _VERSION_CONTROL:
                continue
            if _ignored(path, is_folder, rules):
                yield None
            elif entry.is_symlink():
                yield Skipped(name, "a link")
            elif is_folder:
                pending.append((path, rules))
            elif _SECRETS.fullmatch(entry.name) and not _NOT_SECRET.fullmatch(entry.name):
                yield Skipped(name, "by its name it may hold secrets")
            else:
                yield path


def _name(path: Path, root: Path) -> str:
    # The name of a file is bytes; those that are no text would be refused by
    # whoever prints or sends it.
    return path.relative_to(root).as_posix().encode(errors="backslashreplace").decode()


def _rules_above(root: Path) -> list[_Rules]:
    """The rules of the repository that `root` lies in, outermost first."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if top is None:
        return []
    rules = [*_rules_of(top, top / ".git" / "info" / "exclude")]
    if root == top:
        return rules
    inner = [folder for folder in root.parents if top in folder.parents]
    for folder in (top, *reversed(inner)):
        rules += _rules_of(folder, folder / ".gitignore")
    # Who names a folder that git ignores wants it read all the same.
    if any(_ignored(folder, True, rules) for folder in (*inner, root)):
        return []
    return rules


def _rules_of(base: Path, source: Path) -> Iterator[_Rules]:
    try:
        if source.is_file():
            with source.open(encoding="utf-8", errors="replace") as file:
                lines = file.read(FILE_LIMIT).splitlines()
            yield _Rules(base, GitIgnoreSpec.from_lines(lines))
    # Rules that cannot be read, or are no rules, ignore nothing; git does the same.
    except (OSError, ValueError):
        return


def _ignored(path: Path, is_folder: bool, rules: Iterable[_Rules]) -> bool:
    ignored = False
    # The innermost folder that says anything decides, so it is asked last.
    for each in rules:
        if each.base not in path.parents:
            continue
        name = path.relative_to(each.base).as_posix()
        verdict = each.spec.check_file(f"{name}/" if is_folder else name).include
        if verdict is not None:
            ignored = verdict
    return ignored


def _read_file(path: Path, name: str, limit: int) -> TextFile | Skipped:
    try:
        before = path.stat(follow_symlinks=False)
        if not stat.S_ISREG(before.st_mode):
            return Skipped(name, "not a regular file")
        if before.st_size > limit:
            return Skipped(name, _too_large(before.st_size, limit))
        # O_NOFOLLOW and O_NONBLOCK: between the look and the opening it may have
        # become a link, or a pipe that nobody writes to.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            # One byte more than allowed tells that it has grown since.
            raw = file.read(limit + 1)
    except OSError as error:
        return Skipped(name, _words(error))
    if len(raw) > limit:
        return Skipped(name, _too_large(len(raw), limit))
    return decode(name, raw)


def decode(name: str, raw: bytes) -> TextFile | Skipped:
    """The text in `raw`, or why it is none.

    A byte order mark decides; without one it is UTF-8.  Bytes that are not
    are shown as U+FFFD and counted, as long as they are at most a tenth.

    Examples:
        >>> decode("a.txt", "naïve".encode())
        TextFile(path='a.txt', text='naïve', replaced=0)
        >>> decode("a.txt", b"na\\xefve, as Latin-1 has it").replaced
        1
        >>> decode("a.png", b"\\x89PNG\\x00").reason
        'binary'
        >>> decode("__init__.py", b"\\n").reason
        'empty'
    """
    encoding = next((each for mark, each in _BYTE_ORDER_MARKS if raw.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in raw[:_BINARY_PROBE]:
        return Skipped(name, "binary")
    text = raw.decode(encoding, errors="replace")
    if not text.strip():
        return Skipped(name, "empty")
    # A file may hold U+FFFD itself: only what the decoding added counts.
    replaced = text.count("\ufffd") - raw.count("\ufffd".encode()) if "\ufffd" in text else 0
    if replaced > REPLACED_LIMIT * len(text):
        return Skipped(name, "binary (not UTF-8)")
    return TextFile(name, text, max(0, replaced))


def split(text: str, tokens: int) -> tuple[Part, ...]:
    """`text` as parts of at most `tokens` tokens each, as `estimate_tokens` counts.

    Every line is in exactly one part, in order, and the parts put together are
    the text again.  Only a line that alone is too long is divided itself.

    Args:
        text: what to split; the whole text is one part if it fits.
        tokens: at least 1.

    Examples:
        >>> [(part.first_line, part.last_line) for part in split("a b\\nc d\\ne f\\n", 6)]
        [(1, 2), (3, 3)]
    """
    if tokens < 1:
        raise ValueError(f"a part holds at least 1 token, not {tokens}")
    if estimate_tokens(text) <= tokens:
        return (Part(text, 1, max(1, len(_lines(text)))),)
    parts: list[Part] = []
    held: list[str] = []
    size = 0

    def flush(last_line: int) -> None:
        nonlocal size
        if held:
            parts.append(Part("".join(held), last_line - len(held) + 1, last_line))
            held.clear()
            size = 0

    lines = _lines(text)
    for number, line in enumerate(lines, start=1):
        cost = estimate_tokens(line)
        if size + cost > tokens:
            flush(number - 1)
        if cost > tokens:
            parts += [Part(piece, number, number, True) for piece in _pieces(line, tokens)]
        else:
            held.append(line)
            size += cost
    flush(len(lines))
    return tuple(parts)


def _pieces(line: str, tokens: int) -> Iterator[str]:
    start = 0
    while start < len(line):
        # Three characters a token is what text mostly comes to; where it is
        # denser the piece is halved until it fits.
        width = tokens * 3
        while width > 1 and estimate_tokens(line[start : start + width]) > tokens:
            width //= 2
        yield line[start : start + width]
        start += width


def _lines(text: str) -> list[str]:
    # Not str.splitlines: editors do not count a form feed as the end of a line.
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def halves(part: Part) -> tuple[Part, ...]:
    """`part` as two parts of about the same size, for a model that found it too long.

    A part of a single character stays what it is.
    """
    lines = _lines(part.text)
    if len(lines) < 2:
        middle = len(part.text) // 2
        if not middle:
            return (part,)
        return tuple(
            Part(text, part.first_line, part.last_line, True)
            for text in (part.text[:middle], part.text[middle:])
        )
    middle = len(lines) // 2
    return (
        Part("".join(lines[:middle]), part.first_line, part.first_line + middle - 1),
        Part("".join(lines[middle:]), part.first_line + middle, part.last_line),
    )


def _too_large(size: int, limit: int) -> str:
    return f"{format_bytes(size)}, more than the limit of {format_bytes(limit)}"


def format_bytes(size: int) -> str:
    """`size` for people, in powers of 1000.

    Examples:
        >>> [format_bytes(n) for n in (999, 1_000_000, 1_073_741_824)]
        ['999 B', '1 MB', '1.1 GB']
    """
    number, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:.1f}".removesuffix(".0") + f" {unit}"


def _words(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
