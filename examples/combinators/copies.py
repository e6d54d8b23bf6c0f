"""Copies: writers side by side, each in a work tree of its own; what fits is landed in order.

Prints:

    0-coder landed ['numbers.txt']
    1-coder refused ['numbers.txt']
    2-coder kept ['letters.txt']
    ['ONE', 'two', 'three']
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import trio

from standby import fan_out


async def coder(task: str, folder: Path = Path()) -> str:
    """Stands in for an Agent with tools, which works in its copy without being told."""
    name, old, new = task.split()
    file = trio.Path(folder / name)
    await file.write_text((await file.read_text()).replace(old, new))
    return f"{old} is {new} now"


def repository(folder: Path) -> Path:
    (folder / "numbers.txt").write_text("one\ntwo\nthree\n")
    (folder / "letters.txt").write_text("a\nb\n")
    me = ["-c", "user.name=me", "-c", "user.email=me@localhost"]
    for command in (["init", "-q"], ["add", "."], [*me, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = repository(Path(folder))
        tasks = ["numbers.txt one ONE", "numbers.txt one uno", "letters.txt a A"]
        done = await fan_out(coder, tasks, copies=root)
        for patch in done.patches:
            # Each is a file below .git/standby/patches, also those that did not land.
            print(patch.name, patch.state, list(patch.files))
        print((root / "numbers.txt").read_text().split())


if __name__ == "__main__":
    trio.run(main)
