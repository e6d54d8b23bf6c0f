"""A session is a live conversation with a mind: one memory, one turn at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from .result import Attachment, ChatMessage, ToolCall, TurnError
from .sendable import encoded, sendable
from .usage import NOTHING, Usage

if TYPE_CHECKING:
    from .agent import Agent


class TextDelta(msgspec.Struct, frozen=True, tag="text"):
    """The mind says a little more.  It is passed on as it comes, never held back."""

    text: str


class MessageEnded(msgspec.Struct, frozen=True, tag="message"):
    """A message of this turn is whole, or cut for good."""

    message: ChatMessage


class Retrying(msgspec.Struct, frozen=True, tag="retry"):
    """A request failed; the next one is made after `seconds`."""

    attempt: int
    """Requests made so far in this turn, at least 1."""
    seconds: float
    error: TurnError


class ThoughtDelta(msgspec.Struct, frozen=True, tag="thought"):
    """The mind thinks a little further, and shows it."""

    text: str


class ToolStarted(msgspec.Struct, frozen=True, tag="tool"):
    """A tool begins to work on a call."""

    call: ToolCall


class ToolEnded(msgspec.Struct, frozen=True, tag="tool_end"):
    """A call was answered, wherever the tool ran."""

    call: ToolCall
    output: str
    """What the mind is told, whole."""
    is_error: bool = False
    """The tool failed or was refused; the mind is told and may go on."""
    seconds: float = 0.0
    is_cut: bool = False
    """It did not fail: its turn ended before it did."""


class ModelCalled(msgspec.Struct, frozen=True, tag="model_call"):
    """One request to a model is over, whatever came of it."""

    model: str
    seconds: float
    """From the request to the end of its answer."""
    usage: Usage = NOTHING
    """What it cost."""
    finish: str = ""
    """Why the answer ended, in the provider's word; empty when it did not end by itself."""
    error: TurnError | None = None


class Steered(msgspec.Struct, frozen=True, tag="steered"):
    """A word from outside reached the turn in flight."""

    text: str


class Compacted(msgspec.Struct, frozen=True, tag="compacted"):
    """The session made its memory shorter; nothing of the transcript is gone."""

    before_tokens: int | None
    """The level before, in tokens; None when the backend does not say."""
    after_tokens: int | None


SessionEvent: TypeAlias = (
    TextDelta
    | ThoughtDelta
    | MessageEnded
    | Retrying
    | ToolStarted
    | ToolEnded
    | ModelCalled
    | Steered
    | Compacted
)


def sendable_event(event: SessionEvent) -> SessionEvent:
    """`event`, and what is said in it as it can be sent on."""
    match event:
        case MessageEnded(message):
            text = sendable(message.text)
            if text is not message.text:
                return MessageEnded(msgspec.structs.replace(message, text=text))
        case TextDelta(text) | ThoughtDelta(text):
            told = sendable(text)
            if told is not text:
                return type(event)(told)
        case ToolEnded(output=output):
            told = sendable(output)
            if told is not output:
                return msgspec.structs.replace(event, output=told)
        case _:
            pass
    return event


Steering: TypeAlias = Literal["queued", "idle", "unsupported"]
"""What became of a word from outside: taken, or no turn is in flight, or it cannot be."""
OnEvent: TypeAlias = Callable[[SessionEvent], None]


def ignore(event: SessionEvent, /) -> None:
    """Listens to nothing."""


class Handoff(msgspec.Struct, frozen=True):
    """A mind hands its conversation over to another, who answers in its place."""

    to: str
    """The name of an agent."""
    message: str = ""
    """What that one should know, besides what was said."""


class Turn(msgspec.Struct, frozen=True):
    """What one ask of a session came to."""

    text: str = ""
    """The answer; what there is of it when `error` is set."""
    messages: tuple[ChatMessage, ...] = ()
    """What was said in this turn: the task, the answers, in order."""
    error: TurnError | None = None
    value: Any = None
    """The answer as data, when the agent has a schema."""
    dead: bool = False
    """The session ended with this turn, and answers no more: its process is gone."""
    handoff: Handoff | None = None
    """Who is to answer in its place; then `text` is what it said before that."""


class Memory(msgspec.Struct, frozen=True):
    """What a conversation is to know of the one before it."""

    messages: tuple[ChatMessage, ...] = ()
    """What was said last, turn by turn: to be shown to the mind as its own past."""
    summary: str = ""
    """What was said before those, in short."""
    resume: str = ""
    """What the backend itself calls the conversation, if it keeps them."""


class Capabilities(msgspec.Struct, frozen=True):
    """What a session can do."""

    schema: bool = False
    """The backend itself keeps an answer to a JSON schema."""
    streaming: bool = False
    """Text comes piece by piece."""
    context_tokens: int | None = None
    """What its context holds, task and answer together; None when unknown."""
    tools: bool = False
    """It can be given tools of ours."""
    images: bool = False
    files: bool = False
    steer: bool = False
    """A word can be put into the turn in flight."""
    follow_up: bool = False
    """A word can be left for the moment when the turn would be over."""
    resume: bool = False
    """A conversation can be begun where a recorded one ended."""
    close: bool = True
    """It says when it has let go."""


class Session(Protocol):
    """A conversation with a mind, of which its subagent is the only user."""

    @property
    def model(self) -> str:
        """Who answers, as in "openai/gpt-5-mini"; empty for a function."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def usage(self) -> Usage:
        """Everything spent so far, turns that were cut included; time is not counted here."""
        ...

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Play one turn.

        What it cannot take (pictures, files) is a turn with error kind
        `refused`.  It never raises for a failure of the mind: that is `Turn.error`.
        Cancelled, it lets go of its backend at once and passes the
        cancellation on; what was spent and said is in `usage` and
        `transcript()` all the same.
        """
        ...

    def steer(self, text: str) -> Steering:
        """Put a word into the turn in flight: the mind reads it before it goes on.

        A word that was queued and not read when its turn ends is dropped with it.
        """
        ...

    def follow_up(self, text: str) -> Steering:
        """Leave a word for the end of the turn in flight, which then goes on with it."""
        ...

    def interrupt(self) -> bool:
        """End the turn in flight with error kind `stopped`; False if there is none."""
        ...

    def transcript(self) -> tuple[ChatMessage, ...]:
        """Everything said in this session, failed turns included and marked.

        What it was given to remember was said in another one, and is not in it.
        """
        ...

    def export(self, directory: Path, name: str) -> Path:
        """Write the transcript to a file under `directory`, whole or not at all.

        Args:
            directory: made if it is missing.
            name: of the file, without its ending.

        Raises:
            OSError: nothing was written under the final name.
        """
        ...

    async def close(self) -> None:
        """Let go of what it holds.  Once is enough, more does nothing."""
        ...


@runtime_checkable
class Recalls(Protocol):
    """A session that can begin where another has ended."""

    def recall(self, memory: Memory) -> None:
        """Begin with `memory`; called before the first turn, or never."""
        ...


@runtime_checkable
class Owned(Protocol):
    """A session that says whose it is to those who ask: to whoever approves, to tools."""

    subagent: str
    """The id of its subagent; set when it is opened."""


@runtime_checkable
class Resumable(Protocol):
    """A session whose backend keeps conversations by a name of its own."""

    @property
    def resume_id(self) -> str:
        """What :attr:`Memory.resume` has to be to go on here; empty before it is known."""
        ...


@runtime_checkable
class Compacts(Protocol):
    """A session that can make its own memory shorter."""

    async def compact(self, on_event: OnEvent) -> TurnError | None:
        """Make the context shorter and go on; an error says why it did not.

        It tells of it with :class:`Compacted`.  Cancelled, or failed, it
        remembers what it did before.
        """
        ...


@runtime_checkable
class Condenses(Protocol):
    """A session that may be shown less than its transcript: after a compaction, say."""

    def known(self) -> Memory:
        """What it is shown of what was said, so that another can go on from there."""
        ...


class Backend(Protocol):
    """Whoever opens sessions that hold something: a process, a connection."""

    def open(
        self, agent: Agent, /, memory: Memory | None = None
    ) -> AbstractAsyncContextManager[Session]:
        """A session for the length of a block, in which its own tasks live."""
        ...


def no_attachments(who: str) -> TurnError:
    """Why a turn with attachments was not played."""
    return TurnError("refused", f"{who} takes no attachments; say it in words")


def export_jsonl(messages: tuple[ChatMessage, ...], directory: Path, name: str) -> Path:
    """Write `messages` as one JSON object a line, whole or not at all.

    Raises:
        OSError: nothing was written under the final name.
    """
    path = directory / f"{name}.jsonl"
    write_whole(path, b"".join(encoded(message) + b"\n" for message in messages))
    return path


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all; its folder is made if it is missing.

    Only its owner may read it: what agents say is nobody else's.

    Raises:
        OSError: nothing was written under that name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside it and renamed: a reader, or a crash, never meets half a file.
    scratch = path.with_name(f".{path.name}.part")
    try:
        # Made anew: what stands there may be a link that leads elsewhere.
        scratch.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(scratch, flags, 0o600), "wb") as file:
            file.write(data)
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
