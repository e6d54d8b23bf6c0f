"""Finding agents: every definition in reach, which of two counts, and what is broken."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import define, field, frozen

from ..agent import Agent
from ..agent_checks import nearest
from .allowlist import check_others
from .definition import Definition, read_definition
from .places import SCOPES, Place, Scope, agent_places, home_of
from .problems import Problem

FILES_LIMIT = 1_000
"""Definitions read from one folder at most."""
DEPTH_LIMIT = 8
"""Folders within folders that are looked into."""

# Read by people, and by tools as something else; never agents.
_NOT_AGENTS = frozenset(("readme.md", "agents.md", "claude.md", "skill.md", "changelog.md"))


@frozen
class Shadowed:
    """A definition that does not count, because a nearer one has its name."""

    name: str
    path: Path
    by: Path
    """The file that counts; when that one is broken, neither does."""


class UnknownAgent(LookupError):
    """Raised when no agent has the name that was asked for."""

    def __init__(
        self, name: str, known: tuple[str, ...], scope: str, searched: tuple[Path, ...]
    ) -> None:
        super().__init__(name, known, scope, searched)
        self.name = name
        self.known = known
        self.scope = scope
        self.searched = searched

    def __str__(self) -> str:
        if not self.known:
            folders = ", ".join(map(str, self.searched)) or "no folder"
            wider = "" if self.scope == "both" else "; scope='both' looks at more"
            return (
                f"there is no agent {self.name!r}, because none was loaded: scope="
                f"{self.scope!r} looked in {folders}{wider}"
            )
        near = nearest(self.name, self.known)
        hint = f"did you mean {near!r}? " if near else ""
        return f"there is no agent {self.name!r}; {hint}there are {', '.join(self.known)}"


class BrokenAgent(LookupError):
    """Raised when the agent that was asked for is defined, and its file is broken."""

    def __init__(self, name: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(name, problems)
        self.name = name
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join([f"the agent {self.name!r} is broken:", *map(str, self.problems)])


@frozen
class Found:
    """What was found: agents, those that do not count, and what is wrong.

    Args:
        agents: nearest first; of each name the nearest one.
        shadowed: definitions that a nearer one hides.
        problems: of all files, in the order in which those were read; then agents that
            others name in `handoffs` and `agents`, and that are not among those found.
        broken: the problems of definitions that are no agents, by their names.
            Such a file still hides farther ones: who asks for its agent is told
            of the problems, and never served by another.
        scope: whose files were looked at.
        searched: the folders, nearest first, whether they are there or not.
    """

    agents: tuple[Agent, ...]
    shadowed: tuple[Shadowed, ...] = ()
    problems: tuple[Problem, ...] = ()
    broken: Mapping[str, tuple[Problem, ...]] = field(factory=dict[str, tuple[Problem, ...]])
    scope: Scope = "user"
    searched: tuple[Path, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the agents, in their order."""
        return tuple(agent.name for agent in self.agents)

    @property
    def is_broken(self) -> bool:
        """Something that was meant to be an agent is none, or names others that are none."""
        return any(problem.severity == "error" for problem in self.problems)

    def __getitem__(self, name: str) -> Agent:
        """The agent called `name`; as :func:`find_agent`."""
        return find_agent(self, name)

    def __iter__(self) -> Iterator[Agent]:
        return iter(self.agents)

    def __len__(self) -> int:
        return len(self.agents)


def load_agents(
    cwd: str | Path | None = None,
    *,
    scope: Scope = "user",
    builtin: bool = True,
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Found:
    """Read every definition in reach.

    The nearest counts: the project's (``agents/``, ``.claude/agents/``, from
    `cwd` up to the folder with ``.git``), then the user's (``~/.standby/agents/``,
    ``~/.claude/agents/``), then the package's own.  Everything is read anew each
    time, and nothing that is wrong with a file raises.

    Args:
        cwd: where the project is; None for where the process works.
        scope: "user", "project" or "both".  A project's files are instructions
            by whoever wrote the project, so they are read on request only.
        builtin: the package's own agents, too.
        home: the user's folder; None for that of `env`.
        env: None for the process's own.

    Raises:
        ValueError: there is no such scope.

    Examples:
        >>> load_agents(home="/nowhere").names[:3]
        ('auditor', 'coder', 'committer')
    """
    if scope not in SCOPES:
        raise ValueError(f"a scope is one of {', '.join(SCOPES)}, not {scope!r}")
    env = os.environ if env is None else env
    places = list(
        agent_places(
            Path.cwd() if cwd is None else Path(cwd),
            scope,
            home_of(env) if home is None else Path(home),
            env,
            builtin=builtin,
        )
    )
    gathered = _Gathered(env)
    for place in places:
        gathered.read(place)
    # Only now is it known who is there.  Who spawns one of them can give it others still.
    names = [agent.name for agent in gathered.agents]
    for agent in gathered.agents:
        gathered.problems += check_others(agent, names, gathered.broken)
    return Found(
        tuple(gathered.agents),
        tuple(gathered.shadowed),
        tuple(gathered.problems),
        gathered.broken,
        scope,
        tuple(place.path for place in places),
    )


def find_agent(found: Found, name: str) -> Agent:
    """The agent called `name`.

    Raises:
        UnknownAgent: there is none; it says which there are, and the nearest.
        BrokenAgent: its file is broken; it says how.
    """
    for agent in found.agents:
        if agent.name == name:
            return agent
    if name in found.broken:
        raise BrokenAgent(name, found.broken[name])
    raise UnknownAgent(name, found.names, found.scope, found.searched)


@define
class _Gathered:
    """What has been read so far, nearest first."""

    env: Mapping[str, str]
    agents: list[Agent] = field(factory=list[Agent])
    shadowed: list[Shadowed] = field(factory=list[Shadowed])
    problems: list[Problem] = field(factory=list[Problem])
    broken: dict[str, tuple[Problem, ...]] = field(factory=dict[str, tuple[Problem, ...]])
    taken: dict[str, Path] = field(factory=dict[str, Path])
    """Each name, and the file that has it."""
    folders: set[tuple[int, int]] = field(factory=set[tuple[int, int]])

    def read(self, place: Place) -> None:
        """Read the definitions of a folder."""
        found = _identity(place.path)
        if found is None:
            return
        if isinstance(found, Problem):
            self.problems.append(found)
            return
        if found in self.folders:
            return  # a link to one that has been read
        self.folders.add(found)
        files, problems = definition_files(place.path)
        self.problems += problems
        here: dict[str, Path] = {}
        for path in files:
            made = read_definition(path, place.source, self.env)
            if not place.is_ours and _is_other(made):
                made = _no_agent(made)
            if made.agent is None and not made.is_broken:
                self.problems += made.problems  # and it hides nothing
                continue
            if made.name in here:
                made = _twice(made, here[made.name])
                self.problems += made.problems
                continue
            here[made.name] = path
            self.problems += made.problems
            if made.name in self.taken:
                self.shadowed.append(Shadowed(made.name, path, self.taken[made.name]))
                continue
            self.taken[made.name] = path
            if made.agent is not None:
                self.agents.append(made.agent)
            else:
                self.broken[made.name] = made.problems


def _is_other(made: Definition) -> bool:
    """A file that was not meant to be an agent: it says neither a name nor what it is for."""
    codes = {problem.code for problem in made.problems}
    return "no-frontmatter" in codes or {"missing-name", "missing-description"} <= codes


def _no_agent(made: Definition) -> Definition:
    problem = Problem(
        path=made.path,
        code="not-an-agent",
        message="it is no agent, because it has neither a name nor a description",
        severity="note",
    )
    return Definition(made.path, made.name, None, (problem,))


def _twice(made: Definition, first: Path) -> Definition:
    problem = Problem(
        path=made.path,
        code="duplicate-name",
        message=f"the agent {made.name!r} is defined twice in one folder, first in {first}",
        line=1,
        advice="give one of them another name",
        about=made.name,
    )
    return Definition(made.path, made.name, None, (*made.problems, problem))


def definition_files(folder: Path) -> tuple[list[Path], list[Problem]]:
    """The Markdown files in a folder and in those within it, sorted, and what is in the way.

    Links are followed, each folder is looked into once, and hidden ones and
    those called `skills` are not.
    """
    files: list[Path] = []
    problems: list[Problem] = []
    if os.path.isdir(folder):
        _look(folder, 0, {}, files, problems)
    return sorted(files), problems


def _identity(folder: Path) -> tuple[int, int] | Problem | None:
    """What a folder is, whatever it is called; None if it is not there."""
    try:
        about = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        return _no_folder(folder, error)
    return (about.st_dev, about.st_ino) if stat.S_ISDIR(about.st_mode) else None


def _no_folder(folder: Path, error: OSError | ValueError) -> Problem:
    why = (isinstance(error, OSError) and error.strerror) or str(error)
    return Problem(
        path=folder,
        code="unreadable",
        message=f"the folder cannot be read: {why}",
        advice="change its permissions, or remove it",
    )


def _look(
    folder: Path,
    depth: int,
    seen: dict[tuple[int, int], Path],
    files: list[Path],
    problems: list[Problem],
) -> None:
    try:
        about = folder.stat()
        key = (about.st_dev, about.st_ino)
        entries = sorted(folder.iterdir())
    except OSError as error:
        problems.append(_no_folder(folder, error))
        return
    if key in seen:
        problems.append(
            Problem(
                path=folder,
                code="link-loop",
                message=f"it is the folder {seen[key]} again",
                severity="warning",
                advice="remove the link",
            )
        )
        return
    seen[key] = folder
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if os.path.isdir(entry):
            if entry.name == "skills":
                continue
            if depth < DEPTH_LIMIT:
                _look(entry, depth + 1, seen, files, problems)
                continue
            problems.append(_too_much(entry, f"it lies more than {DEPTH_LIMIT} folders deep"))
        elif entry.suffix == ".md" and entry.name.casefold() not in _NOT_AGENTS:
            if len(files) == FILES_LIMIT:
                problems.append(_too_much(entry, f"more than {FILES_LIMIT:,} files lie before it"))
                return
            files.append(entry)


def _too_much(path: Path, why: str) -> Problem:
    return Problem(
        path=path,
        code="too-many",
        message=f"it was not read: {why}",
        advice="keep here what is used, and the rest elsewhere",
    )
