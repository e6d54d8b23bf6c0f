"""What a live agent is doing: its own events, folded as they come."""

from __future__ import annotations

import math
from typing import cast

import trio
from attrs import define, field

from standby_actors.result import ToolCall
from standby_actors.session import (
    Compacted,
    MessageEnded,
    ModelCalled,
    SessionEvent,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from standby_actors.usage import Usage

TAIL = 200
"""Characters of what it said last."""
DESCRIBED = 80
"""Characters of a tool's arguments that are shown."""


@define(eq=False)
class Activity:
    """Of one life; the next begins with another one."""

    tools: dict[str, ToolCall] = field(factory=dict)
    """Those at work now, by the id of the call: two of one name are two."""
    tool_uses: int = 0
    turns: int = 0
    """Turns that have begun."""
    requests: int = 0
    """To its model, in all turns."""
    text: str = ""
    compactions: int = 0
    model: str = ""
    context_tokens: int | None = None
    in_turn: bool = False
    began: float = field(factory=trio.current_time)
    updated: float = field(factory=trio.current_time)
    ended: float = math.inf

    def begin_turn(self) -> None:
        """A turn begins."""
        self.turns += 1
        self.in_turn = True
        self.updated = trio.current_time()

    def end_turn(self, usage: Usage | None) -> None:
        """It is over, and with it whatever tools it had at work."""
        self.tools.clear()
        self.in_turn = False
        self.updated = trio.current_time()
        if usage is not None and usage.context_tokens is not None:
            self.context_tokens = usage.context_tokens

    def hear(self, event: SessionEvent) -> None:
        """Take in what happened next."""
        self.updated = trio.current_time()
        # By the type and not by a `match`, which takes three times as long; most are text.
        kind = type(event)
        if kind is TextDelta:
            self.text = (self.text + cast("TextDelta", event).text)[-TAIL:]
        elif isinstance(event, MessageEnded):
            if event.message.role == "assistant" and event.message.text:
                self.text = event.message.text[-TAIL:]
        elif isinstance(event, ToolStarted):
            # Described when somebody looks, and not before.
            self.tools[event.call.id] = event.call
            self.tool_uses += 1
        elif isinstance(event, ToolEnded):
            if self.tools.pop(event.call.id, None) is None:
                self.tool_uses += 1  # of one whose begin was not told
        elif isinstance(event, ModelCalled):
            self.requests += 1
            self.model = event.model or self.model
            if event.usage.context_tokens is not None:
                self.context_tokens = event.usage.context_tokens
        elif isinstance(event, Compacted):
            self.compactions += 1
            self.context_tokens = event.after_tokens


def described(call: ToolCall) -> str:
    """A call in one line.

    Examples:
        >>> described(ToolCall("c1", "read", '{"path": "a.py"}'))
        'read {"path": "a.py"}'
    """
    said = " ".join(call.arguments.split())
    return f"{call.name} {said}"[: DESCRIBED + len(call.name) + 1].rstrip()
