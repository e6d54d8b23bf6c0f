"""What the documents show is what happens: every block of them is run or checked.

A `python` block is a whole program, and runs as one.  A `text` block right
after it is what it prints, where `...` stands for anything.  The commands in
`sh` blocks exist; those of README.md are the ones that `.ci/run` runs.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.documents import Block, blocks, command_under, documents

ALL = [block for document in documents() for block in blocks(document)]
PROGRAMS = [pytest.param(block, id=str(block)) for block in ALL if block.language == "python"]
OUTPUTS = {
    program: output
    for program, output in pairwise(ALL)
    if program.language == "python" and output.language == "text"
}


def commands() -> set[str]:
    """The subcommands of `standby` that the documents use, as in `run explore`."""
    lines = [line for block in ALL if block.language == "sh" for line in block.text.splitlines()]
    found = [re.findall(r"\bstandby((?: [a-z]+)+)", line) for line in lines]
    return {words.strip() for line in found for words in line}


def test_a_block_says_its_language() -> None:
    assert {str(block) for block in ALL if block.language not in {"python", "sh", "text"}} == set()


@pytest.mark.real
@pytest.mark.parametrize("block", PROGRAMS)
def test_a_program_in_a_document_runs_and_prints_what_is_said(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(block.text, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(program)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    if block in OUTPUTS:
        expected = OUTPUTS[block].text
        same = doctest.OutputChecker().check_output(expected, run.stdout, doctest.ELLIPSIS)
        assert same, f"said:\n{expected}\nprinted:\n{run.stdout}"


@pytest.mark.real
@pytest.mark.parametrize("words", sorted(commands()))
def test_a_command_in_a_document_exists(words: str) -> None:
    command = [str(Path(sys.executable).with_name("standby")), *words.split(), "--help"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("heading", ["Run it", "Test it"])
def test_the_two_commands_are_one_line_each_and_make_their_own_environment(heading: str) -> None:
    line = command_under(heading)
    assert line.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert all(re.match(r"(python3|\.venv/bin/\w+) ", part) for part in line.split(" && "))


def test_no_document_names_a_registry_or_a_folder_of_one_machine() -> None:
    for document in documents():
        text = document.read_text(encoding="utf-8")
        assert not re.search(r"index-url|pypi\.org|(^|[\s`(])/(home|root|tmp|work)/", text)
