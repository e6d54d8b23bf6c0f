"""`standby doctor`: what is there, what is wrong, and what to do about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from standby import open_workspace

pytestmark = pytest.mark.real


def doctor(folder: Path, *words: str, path: str = "") -> tuple[int, dict[str, dict[str, Any]]]:
    """Its exit code, and what it found by name."""
    env = {**os.environ, "PATH": f"{path}:/usr/bin:/bin" if path else "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", "standby", "doctor", "--json", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {each["name"]: each for each in found}


def make_store(folder: Path) -> None:
    async def main() -> None:
        async with open_workspace(folder) as workspace, workspace.open_run("job", id="r"):
            pass

    trio.run(main)


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_machine_with_nothing_has_nothing_wrong(tmp_path: Path) -> None:
    code, found = doctor(tmp_path)
    assert code == 0
    assert found["codex"] == {
        "about": "coding agents",
        "name": "codex",
        "grade": "note",
        "says": "not on the PATH",
    }
    assert found["store"]["says"] == "none in .: nothing ran durably yet"
    assert not (tmp_path / ".standby").exists()


def test_programs_say_their_versions_and_what_they_can(tmp_path: Path) -> None:
    program(tmp_path, "codex", "echo codex-cli 1.2.3")
    program(tmp_path, "pi", "echo no node here >&2; exit 127")
    program(tmp_path, "claude", "exec cat /dev/zero | head -c 100000000")
    code, found = doctor(tmp_path, path=str(tmp_path))
    assert code == 1
    assert found["codex"]["grade"] == "ok"
    assert found["codex"]["says"] == (
        "codex-cli 1.2.3; steer, follow-up, resume, images, schema; automatic-close-supported"
    )
    assert (found["pi"]["grade"], found["pi"]["says"]) == ("error", "no node here")
    assert found["pi"]["cure"] == "see what `pi --version` says"
    assert len(found["claude"]["says"]) < 200


def test_a_store_is_looked_at_whole(tmp_path: Path) -> None:
    make_store(tmp_path)
    code, found = doctor(tmp_path)
    assert (code, found["store"]["says"]) == (0, "whole: .standby/store.db")
    assert found["runs"]["says"] == "1 completed"


def test_a_folder_that_others_may_read_is_named_with_its_cure(tmp_path: Path) -> None:
    make_store(tmp_path)
    (tmp_path / ".standby").chmod(0o755)
    code, found = doctor(tmp_path)
    assert code == 1
    assert found[".standby"]["says"] == "others may read it (755)"
    assert found[".standby"]["cure"] == "chmod 700 .standby"


def test_a_damaged_store_is_left_as_it_is(tmp_path: Path) -> None:
    make_store(tmp_path)
    path = tmp_path / ".standby/store.db"
    path.write_bytes(b"no database at all" * 300)
    code, found = doctor(tmp_path)
    assert code == 1
    assert found["store"]["grade"] == "error"
    assert "keep a copy" in found["store"]["cure"]
    assert path.read_bytes() == b"no database at all" * 300
