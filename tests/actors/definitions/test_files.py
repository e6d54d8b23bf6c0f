"""Files that could hurt are problems, and nothing waits for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from standby_actors.definitions.definition import read_definition
from standby_actors.definitions.files import SIZE_LIMIT, read_text


def code_of(path: Path) -> str:
    text, (problem,) = read_text(path)
    assert text is None
    assert problem.path == path
    assert problem.advice
    return problem.code


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert code_of(tmp_path / "scout.md") == "missing-file"
    assert code_of(tmp_path / "sc\0ut.md") == "unreadable"


def test_a_link_that_leads_back_to_itself(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to("b.md")
    (tmp_path / "b.md").symlink_to("a.md")
    assert code_of(tmp_path / "a.md") == "link-loop"


def test_a_folder_called_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "scout.md").mkdir()
    assert code_of(tmp_path / "scout.md") == "not-a-file"


def test_a_pipe_that_nobody_writes_to_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "scout.md")
    assert code_of(tmp_path / "scout.md") == "not-a-file"


def test_a_device_without_an_end_is_not_read() -> None:
    assert code_of(Path("/dev/zero")) == "not-a-file"


def test_a_huge_file_is_not_taken_in(tmp_path: Path) -> None:
    file = tmp_path / "scout.md"
    with file.open("wb") as out:
        out.truncate(10 * 2**30)  # a hole: it takes no room
    assert code_of(file) == "too-large"
    file.write_bytes(b"x" * SIZE_LIMIT)
    assert read_text(file) == ("x" * SIZE_LIMIT, ())


@pytest.mark.parametrize(
    ("data", "line", "column", "words"),
    [
        pytest.param(b"---\nname: caf\xe9\n", 2, 10, "0xe9", id="Latin-1"),
        pytest.param("---\nname: a\n".encode("utf-16"), 1, 1, "UTF-16", id="UTF-16"),
        pytest.param(b"\xef\xbb\xbfa\n\xff", 2, 1, "0xff", id="after a mark"),
    ],
)
def test_bytes_that_are_no_text(
    tmp_path: Path, data: bytes, line: int, column: int, words: str
) -> None:
    file = tmp_path / "scout.md"
    file.write_bytes(data)
    made = read_definition(file)
    (problem,) = made.problems
    assert (made.agent, made.name) == (None, "scout")
    assert (problem.code, problem.line, problem.column) == ("bad-encoding", line, column)
    assert words in problem.message
