"""What a project tells every agent that works in it: AGENTS.md, or else CLAUDE.md."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from .files import read_text
from .places import home_of, upwards
from .problems import Problem

FILES = ("AGENTS.md", "CLAUDE.md")
"""The first of these that is found anywhere above counts, and of it the nearest."""


class Instructions(msgspec.Struct, frozen=True):
    """What a project says."""

    path: Path
    text: str


def find_instructions(
    cwd: str | Path | None = None,
    *,
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[Instructions | None, tuple[Problem, ...]]:
    """The instructions of the project around `cwd`; None if it has none.

    The nearest AGENTS.md counts, and without any the nearest CLAUDE.md, from
    `cwd` up to the folder with ``.git``.  They are by whoever wrote the project:
    no agent is given them that was not meant to have them.
    """
    env = os.environ if env is None else env
    start = Path.cwd() if cwd is None else Path(cwd)
    folders = list(upwards(start, home_of(env) if home is None else Path(home)))
    for name in FILES:
        for folder in folders:
            path = folder / name
            if not os.path.lexists(path):
                continue
            text, problems = read_text(path)
            if text is None:
                return None, problems
            return Instructions(path, text.strip()), problems
    return None, ()
