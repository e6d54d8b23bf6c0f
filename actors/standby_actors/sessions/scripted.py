"""A mind that says what it was told to say: for tests, examples and dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import trio
from attrs import define, field

from ..result import Attachment, ChatMessage, ToolCall, TurnError
from ..session import (
    Capabilities,
    Handoff,
    Memory,
    OnEvent,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Turn,
)
from ..usage import NOTHING, Usage
from .conversation import Conversation


class Reply(msgspec.Struct, frozen=True):
    """One scripted turn."""

    text: str = ""
    pieces: int = 1
    """In how many pieces the text is said, evenly over `seconds`."""
    seconds: float = 0.0
    """How long the turn takes."""
    error: TurnError | None = None
    """How it fails, after saying `text`."""
    crash: Any = None
    """An exception that the session raises, after saying `text`: a bug of a session."""
    usage: Usage = Usage(requests=1)
    """What it costs, whatever comes of it; charged when the turn begins."""
    value: Any = None
    deaf_seconds: float = 0.0
    """How long, once it is cancelled, it goes on as if it were not."""
    dead: bool = False
    """The session ends with this turn."""
    handoff: Handoff | None = None
    """Whom it hands over to, after saying `text`."""
    calls: tuple[ToolCall, ...] = ()
    """Tools that it says it has called, before it says anything; none is run."""


Line: TypeAlias = str | TurnError | Reply
Script: TypeAlias = Iterable[Line] | Callable[[str], Line]


_SPEAKS = Capabilities(streaming=True)


@define(eq=False)
class ScriptedSession(Conversation):
    """Answers from a script, line by line, or with what a function makes of the task.

    A script that has run out answers with error kind `protocol`: the test
    asked more often than it meant to.

    Args:
        script: the replies in order, or a function from the task to its reply.
        close_seconds: how long closing takes.
        export_error: raised by every export.
        close_error: raised by every close, after its `close_seconds`.
    """

    script: Script
    model: str = "scripted"
    close_seconds: float = 0.0
    export_error: Exception | None = None
    close_error: Exception | None = None
    capabilities: Capabilities = _SPEAKS
    usage: Usage = NOTHING
    asked: list[str] = field(init=False, factory=list)
    """Every task that it was shown."""
    closed: int = field(init=False, default=0)
    """How often a close was finished."""
    recalled: Memory | None = field(init=False, default=None)
    """What it was given to remember."""
    did: list[str] = field(init=False, factory=list)
    """What was done to it, in order: "ask", "export", "close"."""
    _lines: Any = field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if not callable(self.script):
            self._lines = iter(self.script)

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Play the next line of the script."""
        self.asked.append(text)
        self.did.append("ask")
        reply = self._next(text)
        self.usage = self.usage.accumulate(reply.usage)
        messages: list[ChatMessage] = []
        say = partial(self.say, messages, on_event)

        say(ChatMessage("user", text, attachments=attachments))
        for call in reply.calls:
            on_event(ToolStarted(call))
            on_event(ToolEnded(call, "", False, 0.0))
        said = ""
        whole = False
        try:
            with trio.CancelScope() as self.scope:
                for piece in _pieces(reply.text, reply.pieces):
                    await _pause(reply.seconds / max(1, reply.pieces), reply.deaf_seconds)
                    said += piece
                    on_event(TextDelta(piece))
                whole = reply.error is None and reply.crash is None
        finally:
            self.scope = None
            # Also when it is cancelled from outside: what was said was said.
            say(ChatMessage("assistant", said, partial=not whole))
        if isinstance(reply.crash, BaseException):
            raise reply.crash
        error = reply.error
        if not whole and error is None:
            error = TurnError("stopped", "interrupted")
        return Turn(said, tuple(messages), error, reply.value, reply.dead, reply.handoff)

    def recall(self, memory: Memory) -> None:
        """Begin with `memory`, which a test may look at in `recalled`."""
        self.recalled = memory

    def export(self, directory: Path, name: str) -> Path:
        """Write the transcript as JSON lines."""
        if self.export_error is not None:
            raise self.export_error
        path = super().export(directory, name)
        self.did.append("export")
        return path

    async def close(self) -> None:
        """Take `close_seconds`, then be closed."""
        await trio.sleep(self.close_seconds)
        if self.close_error is not None:
            raise self.close_error
        self.closed += 1
        self.did.append("close")

    def _next(self, text: str) -> Reply:
        line: Line
        if callable(self.script):
            line = self.script(text)
        else:
            line = next(self._lines, TurnError("protocol", "the script has no more lines"))
        if isinstance(line, str):
            return Reply(line)
        return Reply(error=line) if isinstance(line, TurnError) else line


async def _pause(seconds: float, deaf_seconds: float) -> None:
    try:
        await trio.sleep(seconds)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(deaf_seconds)
        raise


def _pieces(text: str, count: int) -> Iterator[str]:
    """`text` in `count` parts of nearly equal length; at least one, even if empty.

    Examples:
        >>> list(_pieces("abcde", 2))
        ['ab', 'cde']
    """
    count = max(1, count)
    for n in range(count):
        yield text[len(text) * n // count : len(text) * (n + 1) // count]
