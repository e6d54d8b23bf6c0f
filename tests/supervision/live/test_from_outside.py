"""Live agents over the control socket: `standby ps`, `stop`, `steer`, `evict`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from standby.cli import live as cli
from standby_supervision.live.verbs import serve_workspace
from standby_supervision.runs import Run, Workspace

from .minds import deaf, reader

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def folder_of_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture
async def served(workspace: Workspace) -> AsyncGenerator[Workspace]:
    async with serve_workspace(workspace):
        yield workspace


async def until(condition: Callable[[], bool]) -> None:
    """Let others have their turns until it holds."""
    with trio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await trio.sleep(0.01)


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    out, err = capsys.readouterr()
    return out, err


def decoded(capsys: pytest.CaptureFixture[str]) -> Any:
    return msgspec.json.decode(said(capsys)[0])


async def test_a_folder_that_nobody_serves_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await cli.ps(folder=tmp_path) == 1
    assert "no running program serves the workspace" in said(capsys)[1]
    assert await cli.stop("scout", folder=tmp_path, json=True) == 1
    assert decoded(capsys)["why"] == "no_program"


async def test_agents_are_listed_steered_and_stopped(
    served: Workspace, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    agent, minds = reader(seconds=60.0)
    folder = Path(served.path)
    assert await cli.ps(folder=folder) == 0
    assert "no agent is at work" in said(capsys)[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run.turn(agent, "a", name="w"))
        await until(lambda: bool(served.agents()) and served.agents()[0].in_turn)
        await until(lambda: minds.opened[0].scope is not None)
        assert await cli.ps(folder=folder) == 0
        out, _ = said(capsys)
        assert [word for word in ("r", "w", "running") if word not in out.split()] == []
        assert await cli.ps(folder=folder, json=True) == 0
        (line,) = decoded(capsys)["agents"]
        assert (line["name"], line["status"], line["turns"]) == ("w", "running", 1)
        assert await cli.steer("w", "be", "brief", folder=folder) == 0
        assert said(capsys)[0] == "w: injected\n"
        assert await cli.steer("w", folder=folder) == 2
        assert await cli.stop("w", folder=folder, life=7) == 1
        assert "life 7 was meant, and it is life 1" in said(capsys)[1]
        assert await cli.stop("nobody", folder=folder) == 1
        assert "no agent is called 'nobody'; there are: w" in said(capsys)[1]
        assert await cli.stop("w", folder=folder, turn=True) == 0
        assert said(capsys)[0] == "the turn of w is cut\n"
    assert await cli.ps(folder=folder, recent=True, json=True) == 0
    assert [each["status"] for each in decoded(capsys)["agents"]] == ["stopped"]
    assert await cli.evict(folder=folder) == 0
    assert said(capsys)[0].startswith("0 evicted; 1 ended less than 10 minutes ago")


async def test_a_stop_with_its_tree_says_whom_it_ended(
    served: Workspace, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    agent, _ = deaf(60.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run.turn(agent, "a", name="w"))
        await until(lambda: bool(served.agents()) and served.agents()[0].in_turn)
        assert await cli.stop("w", folder=Path(served.path), tree=True, json=True) == 0
        answer = decoded(capsys)
        assert (answer["kind"], answer["agents"]) == ("done", ["w"])
        assert await cli.steer("w", "x", folder=Path(served.path), json=True) == 1
        assert decoded(capsys)["why"] in ("dormant", "exited")


async def test_a_name_that_fits_several_is_misuse(
    served: Workspace, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    agent, _ = deaf(0.01)
    async with run.spawn(agent) as one, run.spawn(agent) as other:
        await one.ask("a")
        await other.ask("b")
        assert await cli.stop("deaf", folder=Path(served.path)) == 2
        assert f"r/{one.id} or r/{other.id}" in said(capsys)[1]
        assert len(served.agents()) == 2


async def test_another_folder_is_refused_whatever_the_id(
    served: Workspace, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C60: from the outside, too."""
    agent, _ = deaf(0.01)
    other = tmp_path / "other"
    other.mkdir()
    async with run.spawn(agent, name="w") as player:
        await player.ask("a")
        answers = set()
        for name in ("w", "r/w", "nobody", f"{served.path}:r/w"):
            assert await cli.stop(name, folder=other) == 1
            answers.add(said(capsys)[1])
        assert len(answers) == 1
        assert await cli.ps(folder=other) == 1
        assert [each.status for each in served.agents()] == ["running"]
