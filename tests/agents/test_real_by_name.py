"""Coding agents as a user names them: found on the PATH, with the settings of the user's home."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from standby_actors.agent import Agent
from standby_actors.subagent import reset_ids, spawn
from tests.support.clis import each_of, installed
from tests.support.coding_agents import KINDS, PROMPT
from tests.support.model_server_agents import agent_server
from tests.support.trees import spotted, wait_until_gone

pytestmark = pytest.mark.clis


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


def _for_pi(url: str, home: Path) -> None:
    served = {
        "baseUrl": f"{url}/v1",
        "api": "openai-completions",
        "apiKey": "none",
        "models": [{"id": "stub", "contextWindow": 200_000, "maxTokens": 16_000}],
    }
    _write(home / ".pi/agent/models.json", {"providers": {"stub": served}})


def _for_claude(url: str, home: Path) -> None:
    told = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    _write(home / ".claude/settings.json", {"env": told})


def _for_codex(url: str, home: Path) -> None:
    lines = [
        'model_provider = "stub"',
        "[model_providers.stub]",
        'name = "stub"',
        f'base_url = "{url}/v1"',
        'wire_api = "responses"',
    ]
    _write(home / ".codex/config.toml", "\n".join(lines))


def _for_gemini(url: str, home: Path) -> None:
    variables = KINDS["gemini"].at(url, home)["set_env"]
    # It reads such variables only where it trusts the folder.
    _write(home / ".gemini/trustedFolders.json", {str(home): "TRUST_FOLDER"})
    _write(home / ".gemini/.env", "\n".join(f"{k}={v}" for k, v in variables.items()))


def _write(file: Path, told: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(told if isinstance(told, str) else json.dumps(told))


SETTINGS: dict[str, Callable[[str, Path], None]] = {
    "pi": _for_pi,
    "codex": _for_codex,
    "claude": _for_claude,
    "acp": _for_claude,
    "gemini": _for_gemini,
}
SAID: dict[str, dict[str, Any]] = {
    "pi": {"backend": "pi", "model": "stub/stub"},
    # Its sandbox needs what containers often do not allow.
    "codex": {"backend": "codex", "model": "stub", "permission_mode": "bypass_permissions"},
    "claude": {"backend": "claude"},
    "acp": {"backend": "acp", "command": ("claude-agent-acp",)},
    "gemini": {"backend": "acp", "command": ("gemini", "--acp")},
}


def set_home(monkeypatch: pytest.MonkeyPatch, home: Path, *folders: Path) -> None:
    """Make `home` the user's, and what is in `folders` the first on the PATH."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, folders), os.environ["PATH"]]))
    for name in (*os.environ,):
        if name.startswith(("XDG_", "CODEX_", "CLAUDE_")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", each_of(SETTINGS))
async def test_an_agent_says_its_backend_by_name_and_is_asked_and_closed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS[name]
    set_home(monkeypatch, tmp_path, installed(name).parent)
    async with agent_server() as server:
        SETTINGS[name](server.url, tmp_path)
        agent = Agent("coder", PROMPT, approve="allow", cwd=tmp_path, **SAID[name])
        async with spawn(agent) as coder:
            said = await coder.ask("hello")
            assert (said.status, said.error) == ("ok", None)
            assert "hello" in said.output
            worked = await coder.ask(kind.call("touch made"))
            assert (worked.status, worked.error) == ("ok", None)
            assert worked.usage.tool_calls == 1
            # It works where its agent says, in a home that is this user's.
            assert (tmp_path / "made").exists()
            assert spotted(str(tmp_path), "HOME")
        assert PROMPT in str(server.seen[0].body)
    await trio.to_thread.run_sync(wait_until_gone, str(tmp_path), 2.0, "HOME")
