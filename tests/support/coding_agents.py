"""One conversation that every coding agent is led through, for real and in replay."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from standby_actors.process import Frame
from standby_actors.session import SessionEvent, TextDelta, ToolStarted, Turn
from standby_actors.sessions.acp import open_acp
from standby_actors.sessions.claude import open_claude
from standby_actors.sessions.codex import open_codex
from standby_actors.sessions.pi import open_pi
from standby_actors.sessions.stdio import StdioSession

from .clis import installed
from .trees import SPOT

WIRE = Path(__file__).parents[1] / "fixtures" / "wire"
PROMPT = "Be short."
SLOW = "SLOW:200:0.05"

Opens = Callable[..., AbstractAsyncContextManager[Any]]


@frozen
class Kind:
    """How one coding agent is opened, and what its tool is called."""

    name: str
    opens: Opens
    tool: str
    argument: str
    api: str
    """Where under the server's address its API is."""
    more: Mapping[str, Any] = {}
    arguments: tuple[str, ...] = ()
    """What its program is called with."""
    settles: Callable[[str, Path], dict[str, str]] | None = None
    """Writes down in a home where the server is; returns the variables that it takes besides."""
    silent_on: frozenset[str] = frozenset()
    """What it does not tell: "output" of tools, "usage" in tokens, or that of "earlier"
    requests of a prompt, "level" of its context."""
    steers_at_once: bool = False
    """A word cuts the prompt in flight, so that the tool that works is cut too."""

    def call(self, command: str) -> str:
        """The prompt on which the stub's model runs `command`."""
        arguments = {self.argument: command}
        if self.tool in ("Bash", "bash", "run_shell_command") and self.name != "pi":
            arguments["description"] = "x"
        return f"CALL:{self.tool}:{json.dumps(arguments)}"

    def at(self, url: str, home: Path) -> dict[str, Any]:
        """How it is told of a model server."""
        if self.settles is not None:
            return {"set_env": self.settles(url, home)}
        return {"base_url": f"{url}{self.api}"}


def _for_claude_acp(url: str, home: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _for_gemini(url: str, home: Path) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
        # One model for all: it would ask another which one a prompt is for.
        "model": {"name": "gemini-2.5-flash"},
    }
    _write(home / ".gemini" / "settings.json", settings)
    return {
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "none",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _for_opencode(url: str, home: Path) -> dict[str, str]:
    model = {
        "limit": {"context": 200_000, "output": 16_000},
        # Unless its settings say so, its model is told of a picture that it cannot see.
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
    }
    served = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"stub": model},
    }
    settings = {
        "model": "stub/stub",
        "small_model": "stub/stub",
        "autoupdate": False,
        "share": "disabled",
        # By itself it asks nobody.
        "permission": {"bash": "ask", "edit": "ask"},
        "provider": {"stub": served},
    }
    _write(home / ".config" / "opencode" / "opencode.json", settings)
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}


def _for_codex_acp(url: str, home: Path) -> dict[str, str]:
    lines = [
        'model = "gpt-5.4"',
        'model_provider = "stub"',
        'approval_policy = "untrusted"',
        'sandbox_mode = "danger-full-access"',
        "[model_providers.stub]",
        'name = "stub"',
        f'base_url = "{url}/v1"',
        'wire_api = "responses"',
        'env_key = "STUB_KEY"',
    ]
    file = home / ".codex" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines))
    return {"STUB_KEY": "none"}


def _write(file: Path, settings: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings))


KINDS = {
    kind.name: kind
    for kind in (
        Kind("pi", open_pi, "bash", "command", "/v1"),
        Kind(
            "codex",
            open_codex,
            "exec_command",
            "cmd",
            "/v1",
            # Sandboxes need what containers often do not allow.
            {"sandbox": "danger-full-access"},
        ),
        Kind("claude", open_claude, "Bash", "command", "", steers_at_once=True),
        Kind(
            "acp",
            open_acp,
            "Bash",
            "command",
            "",
            settles=_for_claude_acp,
            steers_at_once=True,
        ),
        Kind(
            "gemini",
            open_acp,
            "run_shell_command",
            "command",
            "",
            arguments=("--acp",),
            settles=_for_gemini,
            silent_on=frozenset({"output", "level"}),
            steers_at_once=True,
        ),
        Kind(
            "opencode",
            open_acp,
            "bash",
            "command",
            "",
            arguments=("acp",),
            settles=_for_opencode,
            silent_on=frozenset({"earlier"}),
            steers_at_once=True,
        ),
        Kind(
            "codex-acp",
            open_acp,
            "exec_command",
            "cmd",
            "",
            settles=_for_codex_acp,
            silent_on=frozenset({"usage"}),
            steers_at_once=True,
        ),
    )
}


@define(eq=False)
class Heard:
    """Every event of a conversation, and what was done at some of them."""

    session: StdioSession
    events: list[SessionEvent] = field(factory=list[SessionEvent])
    answers: list[object] = field(factory=list[object])
    at_tool: Callable[[StdioSession], object] | None = None
    at_text: Callable[[StdioSession], object] | None = None

    def __call__(self, event: SessionEvent) -> None:
        self.events.append(event)
        if isinstance(event, ToolStarted) and self.at_tool is not None:
            act, self.at_tool = self.at_tool, None
            self.answers.append(act(self.session))
        if isinstance(event, TextDelta) and self.at_text is not None:
            act, self.at_text = self.at_text, None
            self.answers.append(act(self.session))


def settings(kind: Kind, server: str, home: Path, spot: str) -> dict[str, Any]:
    """How a coding agent is opened, in a home of its own."""
    how: dict[str, Any] = {
        "command": [str(installed(kind.name)), *kind.arguments],
        "cwd": str(home),
        "env": {"PATH": os.environ["PATH"], "HOME": str(home)},
        **kind.more,
        **kind.at(server, home),
    }
    how["set_env"] = {**how.get("set_env", {}), SPOT: spot}
    return how


async def converse(kind: Kind, session: StdioSession) -> list[tuple[Turn, Heard]]:
    """A prompt, a tool, a word put in, a word left, an interruption, a failure, and one more.

    What is done is done at an event, so that a replay does it at the same place.
    """
    said: list[tuple[Turn, Heard]] = []

    async def ask(text: str, **acts: Any) -> None:
        heard = Heard(session, **acts)
        said.append((await session.ask(text, heard), heard))

    await ask("hello")
    await ask(kind.call("echo from the tool"))
    await ask(kind.call("sleep 1; echo slow"), at_tool=lambda s: s.steer("put in"))
    await ask("first", at_text=lambda s: s.follow_up("and then"))
    await ask(SLOW, at_text=lambda s: s.interrupt())
    await ask("ERR:400")
    await ask("last")
    return said


# ---- recordings

_DROPPED = frozenset(
    {
        "agents",
        "availableCommands",
        "available_output_styles",
        "commands",
        "configOptions",
        "installationId",
        "instructionSources",
        "memory_paths",
        "models",
        "modes",
        "partial",
        "pid",
        "permission_suggestions",
        "plugins",
        "serverName",
        "skills",
        "slash_commands",
        "tools",
    }
)


def slim(frame: Frame, home: str) -> Frame:
    """`frame` without what nobody reads, and without the paths of this machine."""

    def thin(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {k: thin(v) for k, v in value.items() if k not in _DROPPED}
            if value.get("type") == "message_update":
                kept.pop("message", None)
            if value.get("type") == "agent_end":
                kept.pop("messages", None)
            return kept
        if isinstance(value, list):
            return [thin(each) for each in value]
        if isinstance(value, str):
            return value.replace(home, "/home/user")
        return value

    thinned: Frame = thin(frame)
    return thinned


def write(name: str, records: list[tuple[str, Frame]], home: str) -> None:
    """Keep a recording, one frame a line."""
    WIRE.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"dir": way, "msg": slim(frame, home)}) for way, frame in records]
    (WIRE / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def recorded(name: str) -> list[tuple[str, Frame]]:
    """A recording, in order: ">" to the program, "<" from it."""
    text = (WIRE / f"{name}.jsonl").read_text()
    return [(each["dir"], each["msg"]) for each in map(json.loads, text.splitlines())]
