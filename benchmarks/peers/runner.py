"""Peers at the same work: which there are, what each needs, and how one is run.

A peer is a program of its own, run anew for every sample: it does one workload
and prints one line of JSON.  So no peer's threads, loops or garbage are about
while another is measured.  One that cannot run here says why and is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import msgspec

from ..measure import Case, Sample, Unmeasured, figure

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SECONDS = 120
"""The longest that one sample of a peer may take."""

ROUNDS = 5
"""Rounds that a peer takes part in; starting a process each time takes long enough."""


class Answer(msgspec.Struct):
    """The line that a peer prints."""

    operations: int
    wall: float
    """Seconds for all operations together."""
    cpu: float
    """Seconds of processor time for the same."""
    figure: float | None = None
    """The result, where it is not a time per operation: bytes, or a median in seconds."""


@attrs.frozen
class PythonPeer:
    """A library, and the module beside this file that puts it to work."""

    module: str
    requirement: str | None = None
    """What pip is to install into the peers' environment; None: it needs no more than Python."""
    since: tuple[int, int] = (3, 11)
    """The oldest Python that the library says it needs."""
    option: str = ""
    """First argument of the module, where it serves several peers."""


# The versions are those that the goals were set against: a peer that got
# faster or slower since would move the goal, so it is moved by hand.
PYTHON_PEERS: dict[str, PythonPeer] = {
    "asyncio": PythonPeer("asyncio_queues", option="asyncio"),
    "uvloop": PythonPeer("asyncio_queues", "uvloop==0.23.0", option="uvloop"),
    "pykka": PythonPeer("pykka_actors", "pykka==4.5.0"),
    "xoscar": PythonPeer("xoscar_actors", "xoscar==0.12.2"),
    "autogen-core": PythonPeer("autogen_agents", "autogen-core==0.7.5"),
    "otpylib": PythonPeer("otpylib_processes", "otpylib==0.5.18"),
    "async-pykka": PythonPeer("async_pykka_actors", "async-pykka==0.1.4", since=(3, 12)),
    "everything-is-an-actor": PythonPeer(
        "everything_actors", "everything-is-an-actor==0.1.6", since=(3, 12)
    ),
}
LANGUAGES = ("erlang", "go")


def _run(command: Sequence[str | Path], **environment: str) -> str:
    """Return what `command` prints; raise `Unmeasured` with its last words if it fails."""
    try:
        done = subprocess.run(
            [*command],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            env=os.environ | environment,
        )
    except subprocess.TimeoutExpired:
        raise Unmeasured(f"not done within {SECONDS} s") from None
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise Unmeasured(f"exit code {done.returncode}: {words[-1]}")
    return done.stdout


@attrs.define(eq=False)
class Peers:
    """The peers of one run, prepared when first needed; or none, if not asked for."""

    wanted: bool
    home: Path
    """Directory for the peers' virtual environment and compiled programs; made if missing."""
    _ready: dict[str, list[str | Path] | Unmeasured] = attrs.field(
        init=False, factory=dict[str, "list[str | Path] | Unmeasured"]
    )

    def case(
        self,
        peer: str,
        workload: str,
        operations: int,
        unit: str = "µs",
        name: str | None = None,
    ) -> Case:
        """Return the case of `peer` doing `workload`; measuring it says why if it cannot.

        Args:
            name: of its row, where a benchmark has several of one peer.
        """

        def run() -> Sample:
            words = _run(
                [*self._command(peer), workload, str(operations)],
                PYTHONPATH=str(ROOT),
                PYTHONWARNINGS="ignore",
                ERL_CRASH_DUMP="/dev/null",
            )
            answer = msgspec.json.decode(words.strip().splitlines()[-1], type=Answer)
            if answer.figure is not None:
                return figure(answer.figure)
            return Sample(answer.wall / answer.operations, answer.cpu / answer.operations)

        return Case(name or peer, run, unit=unit, most_rounds=ROUNDS, ours=False)

    def _command(self, peer: str) -> list[str | Path]:
        """Return how to run `peer`, made ready the first time; a failure is kept."""
        if not self.wanted:
            raise Unmeasured("peers are measured with --peers")
        found = self._ready.get(peer)
        if found is None:
            try:
                found = self._prepare(peer)
            except Unmeasured as reason:
                found = reason
            self._ready[peer] = found
        if isinstance(found, Unmeasured):
            raise found
        return found

    def _prepare(self, peer: str) -> list[str | Path]:
        self.home.mkdir(parents=True, exist_ok=True)
        if peer == "erlang":
            return _compile_erlang(self.home)
        if peer == "go":
            return _compile_go(self.home)
        return self._prepare_python(PYTHON_PEERS[peer])

    def _prepare_python(self, peer: PythonPeer) -> list[str | Path]:
        python: str | Path = sys.executable
        if peer.requirement is not None:
            python = self.home / "venv" / "bin" / "python"
            if not python.exists():
                _run([sys.executable, "-m", "venv", self.home / "venv"])
            if peer.since <= sys.version_info[:2]:
                _install(python, peer.requirement)
            else:
                # These two run on older Pythons than they claim to; where one does
                # not, its own error is the reason that is printed.
                _install(python, "--ignore-requires-python", "--no-deps", peer.requirement)
        command = [python, "-m", f"benchmarks.peers.{peer.module}"]
        return [*command, peer.option] if peer.option else command


def _install(python: Path, *arguments: str) -> None:
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments])


def _needed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise Unmeasured(f"{program} is not installed")
    return found


def _compile_erlang(home: Path) -> list[str | Path]:
    """Compile the Erlang peer; it runs on one scheduler, as we run on one core."""
    _run([_needed("erlc"), "-o", home, HERE / "standby_peer.erl"])
    flags = ["+S", "1:1", "+P", "4000000", "-noshell"]
    return [_needed("erl"), *flags, "-pa", home, "-run", "standby_peer", "main"]


def _compile_go(home: Path) -> list[str | Path]:
    """Compile the Go peer; it holds itself to one core."""
    program = home / "peer_go"
    _run([_needed("go"), "build", "-o", program, HERE / "peer.go"], GO111MODULE="off")
    return [program]
