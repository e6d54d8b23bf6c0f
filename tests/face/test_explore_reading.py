"""What is read under a directory, what is not, and that nothing is lost on the way."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standby.explore.reading import (
    NotReadable,
    Part,
    Reading,
    TooMany,
    halves,
    read_directory,
    split,
)
from standby_combinators.tokens import estimate_tokens


def put(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def names(reading: Reading) -> list[str]:
    return [file.path for file in reading.files]


def reasons(reading: Reading) -> dict[str, str]:
    return {skipped.path: skipped.reason for skipped in reading.skipped}


def test_text_files_are_read_in_the_order_of_their_paths(tmp_path: Path) -> None:
    put(tmp_path, {"b/two.py": "x = 2", "a.md": "# A", "b/one.py": "x = 1"})
    reading = read_directory(tmp_path)
    assert names(reading) == ["a.md", "b/one.py", "b/two.py"]
    assert reading.files[0].text == "# A"


def test_what_is_not_read_is_named_with_its_reason(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "kept.txt": "text",
            "empty.py": "",
            "blank.py": " \n\t\n",
            "photo.png": b"\x89PNG\r\n\0\0\0",
            "noise.bin": bytes(range(128, 256)) * 20,
            ".env": "KEY=value",
            "server.pem": "secret",
            ".env.example": "KEY=",
        },
    )
    (tmp_path / "link.txt").symlink_to(tmp_path / "kept.txt")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    reading = read_directory(tmp_path)
    assert names(reading) == [".env.example", "kept.txt"]
    assert reasons(reading) == {
        ".env": "by its name it may hold secrets",
        "blank.py": "empty",
        "broken": "a link",
        "empty.py": "empty",
        "link.txt": "a link",
        "loop": "a link",
        "noise.bin": "binary (not UTF-8)",
        "photo.png": "binary",
        "server.pem": "by its name it may hold secrets",
    }


def test_a_file_of_a_gigabyte_is_named_and_never_opened(tmp_path: Path) -> None:
    put(tmp_path, {"small.txt": "here"})
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(1 << 30)
    reading = read_directory(tmp_path)
    assert names(reading) == ["small.txt"]
    assert reasons(reading) == {"large.txt": "1.1 GB, more than the limit of 1 MB"}


def test_a_name_that_is_no_text_is_written_out(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    assert names(read_directory(tmp_path)) == ["caf\\udce9.txt"]


def test_the_limit_of_a_file_can_be_chosen(tmp_path: Path) -> None:
    put(tmp_path, {"six.txt": "sixsix", "seven.txt": "seveneE"})
    reading = read_directory(tmp_path, file_limit=6)
    assert names(reading) == ["six.txt"]
    assert reasons(reading) == {"seven.txt": "7 B, more than the limit of 6 B"}


def test_a_pipe_does_not_hold_the_reading_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert reasons(read_directory(tmp_path)) == {"pipe": "not a regular file"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_and_folders_without_permission_are_named(tmp_path: Path) -> None:
    put(tmp_path, {"closed.txt": "x", "folder/inside.txt": "x"})
    (tmp_path / "closed.txt").chmod(0)
    (tmp_path / "folder").chmod(0)
    try:
        assert reasons(read_directory(tmp_path)) == {
            "closed.txt": "permission denied",
            "folder/": "permission denied",
        }
    finally:
        (tmp_path / "folder").chmod(0o700)


def test_a_file_that_cannot_be_opened_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {"a.txt": "a", "b.txt": "b"})
    really_open = os.open

    def refuse(path: Path, flags: int) -> int:
        if Path(path).name == "a.txt":
            raise PermissionError(13, "Permission denied", str(path))
        return really_open(path, flags)

    monkeypatch.setattr(os, "open", refuse)
    reading = read_directory(tmp_path)
    assert names(reading) == ["b.txt"]
    assert reasons(reading) == {"a.txt": "permission denied"}


def test_bytes_that_are_no_utf8_are_shown_and_counted(tmp_path: Path) -> None:
    put(tmp_path, {"latin.txt": "un café bien serré, s'il vous plaît".encode("latin-1")})
    [file] = read_directory(tmp_path).files
    assert file.text == "un caf\ufffd bien serr\ufffd, s'il vous pla\ufffdt"
    assert file.replaced == 3


def test_a_replacement_character_of_the_file_itself_is_not_counted(tmp_path: Path) -> None:
    put(tmp_path, {"odd.txt": "what \ufffd is"})
    assert read_directory(tmp_path).files[0].replaced == 0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_decides(tmp_path: Path, encoding: str) -> None:
    put(tmp_path, {"marked.txt": "naïve".encode(encoding)})
    assert read_directory(tmp_path).files[0].text == "naïve"


def test_what_git_ignores_is_counted_and_not_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            ".gitignore": "*.log\n/build/\n!keep.log\n",
            "a.log": "x",
            "keep.log": "x",
            "build/deep/inside.txt": "x",
            "sub/.gitignore": "*.txt\n!*.log\n",
            "sub/note.txt": "x",
            "sub/b.log": "x",
            "sub/build/kept.md": "x",
            ".git/config": "x",
        },
    )
    reading = read_directory(tmp_path)
    assert names(reading) == [
        ".gitignore",
        "keep.log",
        "sub/.gitignore",
        "sub/b.log",
        "sub/build/kept.md",
    ]
    assert reading.ignored == 3


def test_the_rules_of_the_repository_around_the_directory_hold(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            ".git/info/exclude": "private.txt\n",
            ".gitignore": "*.tmp\n/src/generated/\n",
            "src/.gitignore": "local.txt\n",
            "src/deep/a.tmp": "x",
            "src/deep/local.txt": "x",
            "src/deep/private.txt": "x",
            "src/deep/kept.txt": "x",
            "src/generated/g.txt": "x",
        },
    )
    assert names(read_directory(tmp_path / "src" / "deep")) == ["kept.txt"]
    # Named outright, it is read although git ignores it.
    assert names(read_directory(tmp_path / "src" / "generated")) == ["g.txt"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge here")
def test_git_agrees_about_what_is_ignored(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            ".gitignore": "*.o\n!important.o\ndist\n/only-top.txt\ndocs/*.html\na/**/z.txt\n\\#x\n",
            "lib/.gitignore": "!*.o\n/local\nsecret*\n!secret-not\n",
            "x.o": "x",
            "important.o": "x",
            "dist/inside/important.o": "x",
            "lib/dist": "a file of that name",
            "lib/y.o": "x",
            "lib/local/z.md": "x",
            "lib/deep/local/z.md": "x",
            "lib/secret-a": "x",
            "lib/secret-not": "x",
            "only-top.txt": "x",
            "lib/only-top.txt": "x",
            "docs/a.html": "x",
            "docs/deep/b.html": "x",
            "a/z.txt": "x",
            "a/b/c/z.txt": "x",
            "#x": "x",
        },
    )
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert names(read_directory(tmp_path)) == sorted(listed.stdout.splitlines())


def test_a_directory_that_is_none_says_so(tmp_path: Path) -> None:
    put(tmp_path, {"file.txt": "x"})
    with pytest.raises(NotReadable, match="no such directory"):
        read_directory(tmp_path / "missing")
    with pytest.raises(NotReadable, match="a file"):
        read_directory(tmp_path / "file.txt")


def test_too_many_files_are_refused_not_cut(tmp_path: Path) -> None:
    put(tmp_path, {f"{n}.txt": "x" for n in range(4)})
    assert len(read_directory(tmp_path, files_limit=4).files) == 4
    with pytest.raises(TooMany, match="more than 3 text files"):
        read_directory(tmp_path, files_limit=3)


texts = st.text(alphabet=st.sampled_from("ab1 .\n\n\r\f\u2028é語"), max_size=200)


@given(texts, st.integers(1, 30))
def test_the_parts_of_a_text_are_the_text(text: str, tokens: int) -> None:
    parts = split(text, tokens)
    assert "".join(part.text for part in parts) == text
    for part in parts:
        # A single character may be more than the whole size: it is not cut.
        assert estimate_tokens(part.text) <= tokens or len(part.text) == 1


@given(texts, st.integers(1, 30))
def test_parts_know_their_lines(text: str, tokens: int) -> None:
    lines = text.split("\n")
    for part in split(text, tokens):
        between = "\n".join(lines[part.first_line - 1 : part.last_line]) + "\n"
        assert part.text.rstrip("\n") in between
        if not part.within_line and part.text:
            assert between.startswith(part.text)


@given(texts.filter(bool))
def test_the_halves_of_a_part_are_the_part(text: str) -> None:
    part = Part(text, 7, 6 + max(1, text.count("\n") + (not text.endswith("\n"))))
    pieces = halves(part)
    assert "".join(piece.text for piece in pieces) == text
    assert pieces[0].first_line == 7
    assert pieces[-1].last_line == part.last_line
    assert len(pieces) == (1 if len(text) == 1 else 2)


def test_a_line_that_alone_is_too_long_is_divided_and_marked() -> None:
    parts = split("short\n" + "word " * 100 + "\nshort\n", 40)
    assert (parts[0].first_line, parts[0].last_line) == (1, 1)
    assert {part.first_line for part in parts if part.within_line} == {2}
    assert parts[-1].text == "short\n"
