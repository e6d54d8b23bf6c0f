"""What the sessions that live in this process have in common: what was said, and the cut."""

from __future__ import annotations

from pathlib import Path

import msgspec
import trio
from attrs import define, field

from ..result import ChatMessage
from ..sendable import sendable
from ..session import MessageEnded, OnEvent, Steering, export_jsonl


@define(eq=False)
class Conversation:
    """The part of a session that does not depend on who answers.

    A turn sets `scope` around what may be cut, and takes it away when it ends.
    """

    said: list[ChatMessage] = field(init=False, factory=list, repr=False)
    """Everything so far, failed turns included and marked."""
    scope: trio.CancelScope | None = field(init=False, default=None, repr=False)
    """The turn in flight."""

    def say(self, messages: list[ChatMessage], on_event: OnEvent, message: ChatMessage) -> None:
        """Add `message` to the turn's and to the transcript, and tell of it."""
        text = sendable(message.text)
        if text is not message.text:
            # Another session may be told of it later, over a wire.
            message = msgspec.structs.replace(message, text=text)
        messages.append(message)
        self.said.append(message)
        on_event(MessageEnded(message))

    def steer(self, text: str) -> Steering:
        """Nothing can be put into a turn of its."""
        return "unsupported"

    def follow_up(self, text: str) -> Steering:
        """Nothing can be left for the end of a turn of its."""
        return "unsupported"

    def interrupt(self) -> bool:
        """End the turn in flight, letting go of what answers it at once."""
        if self.scope is None:
            return False
        self.scope.cancel()
        return True

    def transcript(self) -> tuple[ChatMessage, ...]:
        """Everything said so far, failed turns included and marked."""
        return tuple(self.said)

    def export(self, directory: Path, name: str) -> Path:
        """Write the transcript as JSON lines, whole or not at all."""
        return export_jsonl(self.transcript(), directory, name)
