"""Whether an owner lives: seen by its number, its start, and the start of its machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from standby_supervision.owner import Owner, this_process, verdict

pytestmark = pytest.mark.real
WAITS = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
DESCRIBES = """
import msgspec, sys
from standby_supervision.owner import this_process
print(msgspec.json.encode(this_process()).decode(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def another() -> Iterator[tuple[subprocess.Popen[str], Owner]]:
    """A process that waits, and who it says it is."""
    program = subprocess.Popen(
        [sys.executable, "-c", DESCRIBES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    yield program, msgspec.json.decode(program.stdout.readline(), type=Owner)
    program.kill()
    program.communicate()


def test_who_asks_lives() -> None:
    assert verdict(this_process()) == "alive"


def test_a_process_lives_until_it_ends(another: tuple[subprocess.Popen[str], Owner]) -> None:
    program, owner = another
    assert owner.pid == program.pid
    assert verdict(owner) == "alive"
    program.kill()
    program.communicate()
    assert verdict(owner) == "gone"


def test_one_that_is_stopped_lives(another: tuple[subprocess.Popen[str], Owner]) -> None:
    program, owner = another
    os.kill(program.pid, signal.SIGSTOP)
    assert verdict(owner) == "alive"
    os.kill(program.pid, signal.SIGCONT)


def test_a_zombie_is_gone(another: tuple[subprocess.Popen[str], Owner]) -> None:
    program, owner = another
    os.kill(program.pid, signal.SIGKILL)
    # Nobody has waited for it: it is there, and dead.
    state = Path(f"/proc/{program.pid}/stat")
    while state.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    assert verdict(owner) == "gone"


def test_a_number_that_was_given_again_is_another() -> None:
    me = this_process()
    assert verdict(msgspec.structs.replace(me, started=me.started - 1)) == "gone"


def test_one_of_another_user_lives() -> None:
    first = msgspec.structs.replace(this_process(), pid=1, started=0)
    assert verdict(first) == "alive"


def test_a_machine_that_was_started_again_has_none_of_its_former_processes() -> None:
    assert verdict(msgspec.structs.replace(this_process(), boot="another")) == "gone"


@pytest.mark.parametrize("field", ["machine", "namespace"])
def test_of_another_machine_or_container_nothing_is_known(field: str) -> None:
    elsewhere = {"machine": "another", "namespace": 7}[field]
    assert verdict(msgspec.structs.replace(this_process(), **{field: elsewhere})) == "unknown"
