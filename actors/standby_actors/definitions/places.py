"""Where definitions, skills and instructions are looked for, nearest first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from attrs import frozen

from ..agent import AgentSource

Scope = Literal["user", "project", "both"]
"""Whose files count: the user's own, those of the project, or both.

Those of a project are instructions by whoever wrote the project, and may start
programs: they are asked for.
"""

SCOPES: tuple[Scope, ...] = ("user", "project", "both")

LEVELS = 64
"""Folders that are walked up at most."""


@frozen
class Place:
    """A folder that may hold something."""

    path: Path
    source: AgentSource
    is_ours: bool = True
    """Its name says what is in it.  False for a plain `agents/`, in which a
    project may keep anything."""


def home_of(env: Mapping[str, str]) -> Path:
    """The user's folder, by the environment or else by the user database."""
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def claude_of(home: Path, env: Mapping[str, str]) -> Path:
    """Where Claude Code keeps the files of a user."""
    moved = env.get("CLAUDE_CONFIG_DIR", "").strip()
    return Path(moved) if moved else home / ".claude"


def upwards(cwd: Path, home: Path) -> Iterator[Path]:
    """`cwd` and the folders above it, as far as they are one project.

    The project ends with the folder that holds ``.git``.  Outside a repository
    `cwd` alone is looked at: what lies above, in a folder like /tmp, may be
    anybody's.  The user's own folder is no project.
    """
    # Not Path.resolve, which raises on a link that leads back to itself.
    cwd, home = Path(os.path.realpath(cwd)), Path(os.path.realpath(home))
    walked: list[Path] = []
    for folder in (cwd, *cwd.parents)[:LEVELS]:
        if folder == home:
            break
        walked.append(folder)
        if os.path.lexists(folder / ".git"):
            yield from walked
            return
    if cwd != home:
        yield cwd


def agent_places(
    cwd: Path, scope: Scope, home: Path, env: Mapping[str, str], *, builtin: bool
) -> Iterator[Place]:
    """The folders that may hold agents; at one level ours stands before Claude Code's."""
    if scope != "user":
        for folder in upwards(cwd, home):
            yield Place(folder / "agents", "project", is_ours=False)
            yield Place(folder / ".claude" / "agents", "project")
    if scope != "project":
        yield Place(home / ".standby" / "agents", "user")
        yield Place(claude_of(home, env) / "agents", "user")
    if builtin:
        yield Place(SHIPPED, "builtin")


def skill_places(
    cwd: Path, scope: Scope, home: Path, env: Mapping[str, str], own: Path | None
) -> Iterator[Place]:
    """The folders that may hold skills, `own` being the file of the agent that wants them."""
    if own is not None:
        yield Place(own.with_suffix("") / "skills", "user")
    if scope != "user":
        for folder in upwards(cwd, home):
            yield Place(folder / "skills", "project", is_ours=False)
            yield Place(folder / ".claude" / "skills", "project")
    if scope != "project":
        yield Place(home / ".standby" / "skills", "user")
        yield Place(claude_of(home, env) / "skills", "user")


SHIPPED = Path(__file__).parent / "shipped"
"""The package's own agents."""
