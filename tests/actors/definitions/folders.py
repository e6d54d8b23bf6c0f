"""A user, a project and files in both, for tests that look for definitions."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from standby_actors.definitions.definition import Definition, parse_definition
from standby_actors.definitions.discovery import Found, load_agents
from standby_actors.definitions.places import Scope

FILE = Path("agents/scout.md")


def read(*head: str, body: str = "Find it.") -> Definition:
    """The definition of a file whose head is called scout and says `head` besides."""
    lines = ["---", "name: scout", "description: Finds it.", *head, "---", body]
    return parse_definition("\n".join(lines), FILE, env={})


def codes(made: Definition) -> list[tuple[str, int | None]]:
    """Each problem by its code and its line."""
    return [(problem.code, problem.line) for problem in made.problems]


@frozen
class Folders:
    """A user's folder, and a repository within it in which somebody stands."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def repository(self) -> Path:
        return self.home / "work" / "repository"

    @property
    def cwd(self) -> Path:
        return self.repository / "src" / "part"

    def write(self, path: str | Path, text: str) -> Path:
        """Write a file below `root`, or wherever an absolute path leads."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def agent(self, path: str | Path, name: str, *head: str, body: str = "Do it.") -> Path:
        """Write a definition."""
        lines = ["---", f"name: {name}", f"description: The {name}.", *head, "---", body]
        return self.write(path, "\n".join(lines))

    def load(self, scope: Scope = "both", *, builtin: bool = False) -> Found:
        """What is found by somebody who stands in `cwd`."""
        return load_agents(self.cwd, scope=scope, builtin=builtin, home=self.home, env={})


def folders(root: Path) -> Folders:
    """A new user with a new repository below `root`."""
    made = Folders(root)
    made.cwd.mkdir(parents=True)
    (made.repository / ".git").mkdir()
    return made
