"""The fenced blocks of our documents, for the tests that run them and for `.ci/run`.

    python tests/support/documents.py "Test it"

prints the one command line under that heading of README.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Block(NamedTuple):
    """One fenced block."""

    document: Path
    line: int
    """Where its first line stands, counted from 1."""
    heading: str
    """The heading it stands under, of any level."""
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.name}:{self.line}"


def documents() -> list[Path]:
    """Every document of the project."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(document: Path) -> Iterator[Block]:
    """The fenced blocks of `document`, in order."""
    heading, language, start = "", "", 0
    body: list[str] | None = None
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), start=1):
        if fence := re.fullmatch(r"```(.*)", line):
            if body is None:
                language, start, body = fence[1].strip(), number + 1, []
            else:
                yield Block(document, start, heading, language, "\n".join(body) + "\n")
                body = None
        elif body is not None:
            body.append(line)
        elif title := re.fullmatch(r"#+ (.*)", line):
            heading = title[1]
    assert body is None, f"{document.name} ends inside the block of line {start}"


def command_under(heading: str) -> str:
    """The one command line that README.md has under `heading`."""
    found = [block for block in blocks(ROOT / "README.md") if block.heading == heading]
    shells = [block.text.splitlines() for block in found if block.language == "sh"]
    if len(shells) != 1 or len(shells[0]) != 1:
        raise SystemExit(f"README.md needs one sh block of one line under '## {heading}'")
    return shells[0][0]


if __name__ == "__main__":
    print(command_under(sys.argv[1]))
