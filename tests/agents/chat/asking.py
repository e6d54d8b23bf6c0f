"""A stub server, a model of it over each API, and a conversation with that model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field

from standby_actors.agent import Agent
from standby_actors.models import ModelSettings, Secret
from standby_actors.session import SessionEvent, Turn
from standby_actors.sessions.chat import ChatModel, ChatSession, open_chat_model
from tests.support.model_server_agents import AgentServer, agent_server

APIS = ("chat", "responses", "anthropic")
on_every_api = pytest.mark.parametrize("api", APIS)
CANARY = "sk-canary-0a1b2c3d4e5f"


def settings(url: str, api: Any, **changes: Any) -> ModelSettings:
    """How `api` of the server at `url` is asked."""
    base = url if api == "anthropic" else f"{url}/v1"
    provider = "anthropic" if api == "anthropic" else "openai"
    return ModelSettings(provider, "m", base, Secret(CANARY), api=api, **changes)


@define(eq=False)
class Talk:
    """One conversation, and everything that was heard of it."""

    session: ChatSession
    model: ChatModel
    server: AgentServer
    heard: list[SessionEvent] = field(factory=list)
    hooks: list[tuple[type, Callable[[], object]]] = field(factory=list)
    """What is called with the next event of a kind."""

    async def ask(self, text: str, *attachments: Any) -> Turn:
        """Play a turn."""
        return await self.session.ask(text, self._hear, attachments)

    def at_next(self, kind: type, call: Callable[[], object]) -> None:
        """Call `call` at the next event of `kind`."""
        self.hooks.append((kind, call))

    def _hear(self, event: SessionEvent) -> None:
        self.heard.append(event)
        due = [hook for hook in self.hooks if isinstance(event, hook[0])]
        for hook in due:
            self.hooks.remove(hook)
            hook[1]()

    def of(self, kind: type) -> list[Any]:
        """What was heard of one kind."""
        return [event for event in self.heard if isinstance(event, kind)]


@asynccontextmanager
async def talking(
    api: Any, agent: Agent | None = None, tools: Any = (), **options: Any
) -> AsyncGenerator[Talk]:
    """A conversation with the stub over `api`; nothing waits for real."""
    agent = agent or Agent("scout", "You are a scout.")
    options.setdefault("retries", 0)
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, api), random=lambda: 0.0, **options) as model,
    ):
        yield Talk(model.session(agent, tools), model, server)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what happens at the other end of a socket."""
    with trio.fail_after(5):
        while not condition():  # noqa: ASYNC110 - nobody there sets an event
            await trio.sleep(0.01)


def has_ended(api: str, raw: bytes) -> bool:
    """Whether the terminal signal is in the whole events of these bytes, by another reading."""
    stopped = False
    for block in raw.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]:
        data = b"\n".join(
            line[5:].removeprefix(b" ") for line in block.split(b"\n") if line[:5] == b"data:"
        )
        try:
            event: Any = json.loads(data)
        except ValueError:
            continue
        if not isinstance(event, dict):
            continue
        kind = event.get("type")
        if api == "chat":
            choices = event.get("choices") or [{}]
            first = choices[0] if isinstance(choices, list) else {}
            if isinstance(first, dict) and isinstance(first.get("finish_reason"), str):
                return True
        elif api == "responses":
            if kind in ("response.completed", "response.incomplete"):
                return True
        else:
            delta = event.get("delta")
            if kind == "message_delta" and isinstance(delta, dict) and delta.get("stop_reason"):
                stopped = True
            if kind == "message_stop" and stopped:
                return True
    return False
