"""Small repositories of git, and members that write to them."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

POEM = "".join(f"line {number}\n" for number in range(1, 21))


GIT = shutil.which("git") or "git"
"""The real one, whatever a test puts before it."""

_BROKEN_GIT = """#!/bin/sh
n=$(( $(cat "{folder}/count" 2>/dev/null || echo 0) + 1 ))
echo $n > "{folder}/count"
case "$(sed -n "${{n}}p" "{folder}/plan")" in
    fail) echo "fatal: No space left on device" >&2; exit 128 ;;
    after) {git} "$@"; echo "fatal: it broke afterwards" >&2; exit 128 ;;
    die) kill -9 $$ ;;
    *) exec {git} "$@" ;;
esac
"""


def break_git(folder: Path, seed: int) -> str:
    """A PATH whose git fails now and then, as `seed` says: before, after or in what it does."""
    chance = random.Random(seed)
    faults = chance.choices(["ok", "fail", "after", "die"], [30, 2, 2, 1], k=400)
    folder.mkdir()
    (folder / "plan").write_text("\n".join(faults))
    program = folder / "git"
    program.write_text(_BROKEN_GIT.format(folder=folder, git=GIT))
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


class Repo:
    """A repository in a folder, driven by git itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """What git says; it fails the test if git fails."""
        command = [GIT, "-c", "user.name=tester", "-c", "user.email=tester@localhost"]
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            [*command, *arguments],
            cwd=cwd or self.path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name: str, text: str | bytes) -> Path:
        """A file in its work tree."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def read(self, name: str) -> str:
        """What a file in its work tree says."""
        return (self.path / name).read_text()

    @property
    def names(self) -> list[str]:
        """Its files of text, at the top."""
        return sorted(each.name for each in self.path.glob("*.txt"))

    def commit(self, message: str = "more") -> str:
        """Commit all there is."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()

    @property
    def changes(self) -> list[str]:
        """What is not committed, as git has it in short."""
        return self.git("status", "--porcelain", "--untracked-files=all").splitlines()

    def check(self, folder: Path | None = None) -> None:
        """What holds after every use of copies: none is left, and nobody has a lock."""
        listed = self.git("worktree", "list", "--porcelain").count("worktree ")
        assert listed == 1, self.git("worktree", "list")
        ours = self.path / ".git" / "standby"
        runs = ours / "runs"
        left = sorted(each.name for each in runs.iterdir()) if runs.is_dir() else []
        assert left == []
        if ours.is_dir():
            assert {each.name for each in ours.iterdir()} <= {"lock", "runs", "patches"}
        assert not list(ours.rglob("*.new"))
        assert not (self.path / ".git" / "index.lock").exists()
        if folder is not None and folder.is_dir():
            assert list(folder.iterdir()) == []

    @property
    def patches(self) -> list[Path]:
        """The files of patches that are kept."""
        return sorted((self.path / ".git" / "standby" / "patches").glob("*/*.patch"))


def make_repo(path: Path) -> Repo:
    """A repository with a poem of twenty lines, in one commit."""
    path.mkdir(parents=True)
    repo = Repo(path)
    repo.git("init", "--quiet", "--initial-branch=main")
    repo.write("poem.txt", POEM)
    repo.write("src/a.py", "A = 1\n")
    repo.write(".gitignore", "*.log\nbuild/\n")
    repo.commit("first")
    return repo


async def edit(task: str, folder: Path = Path()) -> str:
    """A member that does what it is told: ``poem.txt: line 3 -> three``, or ``new.txt = text``."""
    for order in task.splitlines():
        name, _, change = order.partition(": ")
        if change:
            file = folder / name
            old, _, new = change.partition(" -> ")
            said = file.read_text()
            assert f"{old}\n" in said
            file.write_text(said.replace(f"{old}\n", f"{new}\n", 1))
        elif " = " in order:
            name, _, text = order.partition(" = ")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{text}\n")
        elif order == "fail":
            raise RuntimeError("told to fail")
    return f"did {task.splitlines()[0]}"
