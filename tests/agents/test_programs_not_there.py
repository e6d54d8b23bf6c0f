"""A coding agent that is not installed is told of where it is spawned, with the nearest name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from standby_actors.agent import Agent
from standby_actors.process import CannotRun
from standby_actors.session import Handoff
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import spawn, subagent
from standby_combinators import fan_out
from standby_supervision import StartFailed, child, open_supervisor

NAMES = [
    pytest.param({"backend": "codex"}, "codexx", id="codex"),
    pytest.param({"backend": "claude"}, "claude-code", id="claude"),
    pytest.param({"backend": "pi"}, "pip", id="pi"),
    pytest.param({"backend": "acp", "command": ("gemni", "--acp")}, "gemini", id="acp"),
]


def folder_with(folder: Path, name: str) -> dict[str, str]:
    """An environment on whose PATH there is nothing but a program of that name."""
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    (folder / "codex").write_text("not to be run")
    (folder / "pi").mkdir()
    return {"PATH": str(folder), "HOME": str(folder)}


@pytest.mark.parametrize(("said", "there"), NAMES)
async def test_who_spawns_it_is_told_its_name_and_the_nearest_that_is_there(
    said: dict[str, Any], there: str, tmp_path: Path
) -> None:
    env = folder_with(tmp_path, there)
    agent = Agent("coder", "Be short.", **said)
    wanted = said.get("command", [said["backend"]])[0]
    with pytest.raises(CannotRun) as caught:
        async with spawn(agent, env=env):
            raise AssertionError
    assert str(caught.value) == (
        f"cannot run {wanted!r}: it is not on the PATH, where the nearest name is {there!r};"
        " install it, or give its path"
    )


async def test_where_nothing_is_near_no_name_is_told(tmp_path: Path) -> None:
    env = folder_with(tmp_path, "zzz")
    with pytest.raises(CannotRun, match="it is not on the PATH; install it"):
        async with spawn(Agent("coder", "Be short.", backend="claude"), env=env):
            raise AssertionError


async def test_the_others_of_a_fan_out_go_on_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in folder_with(tmp_path, "codexx").items():
        monkeypatch.setenv(name, value)

    async def shout(task: str) -> str:
        return task.upper()

    coder = Agent("coder", "Be short.", backend="codex")
    report = await fan_out([coder, shout], ["a", "b"])
    assert [result.status for result in report.steps] == ["crashed", "ok"]
    assert "'codexx'" in str(report.steps[0].error)


async def test_a_conversation_is_not_handed_over_to_it(tmp_path: Path) -> None:
    env = folder_with(tmp_path, "codexx")
    coder = Agent("coder", "Be short.", backend="codex")
    desk = Agent("desk", "Pass it on.", handoffs=[coder])
    mind = ScriptedSession(lambda task: Reply("", handoff=Handoff("coder")))
    async with spawn(desk, session=mind, env=env) as subagent:
        result = await subagent.ask("fix it")
    assert result.status == "crashed"
    assert result.error is not None
    assert result.error.kind == "start_failed"
    assert "'codexx'" in result.error.message


async def test_a_supervisor_is_not_started_with_it(tmp_path: Path) -> None:
    env = folder_with(tmp_path, "codexx")
    coder = Agent("coder", "Be short.", backend="codex")
    with pytest.raises(StartFailed) as caught:
        async with open_supervisor(child(subagent(coder, env=env), id="coder")):
            raise AssertionError
    assert isinstance(caught.value.__cause__, CannotRun)
