"""What a conversation asks of a wire, and what it hears from it; the same for all APIs."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from attrs import define, field, frozen

from ...models import ModelSettings
from ...result import Attachment, ChatMessage, ToolCall
from ...session import SessionEvent
from ...tools.tool import Tool
from ...usage import Usage
from ..schema import AnswerSchema

Ending = Literal["stop", "length", "tools", "filter", "refusal", "odd"]
"""How an answer ended, whatever its API calls it."""

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LIMIT = 64
_AN_ID = re.compile(r"[!-~]{1,500}")


@frozen
class Entry:
    """A message of the conversation, and what its API wants back with it."""

    message: ChatMessage
    opaque: tuple[Any, ...] = ()
    """Parts that only the API can read: signed thoughts, say."""


@frozen
class Asked:
    """One request, in no API's words."""

    settings: ModelSettings
    prompt: str
    entries: Sequence[Entry]
    tools: Sequence[Tool] = ()
    schema: AnswerSchema | None = None
    """Keep the answer to it; None where that is not asked of the server."""
    max_tokens: int | None = None
    temperature: float | None = None
    effort: str | None = None
    tells_usage: bool = True
    patience: float = 120.0
    """Seconds that the server may say nothing."""
    connect: float = 10.0
    must_call: str = ""
    """The tool that has to be called; empty for none."""


@define(eq=False)
class HeardCall:
    """A call, as far as it has come."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@define(eq=False)
class Heard:
    """What has come of one answer so far."""

    text: str = ""
    refusal: str = ""
    finish: str = ""
    """Why it ended, in the API's word; empty until it says so."""
    ending: Ending | None = None
    usage: Usage | None = None
    """What it cost, when the server says so."""
    pieces: int = 0
    done: bool = False
    """The server said that it has nothing more to say."""
    tells_usage: bool = False
    """Whether `usage` is what the server says it is, and not made of timings."""
    failure: Any = None
    """The error that came in the stream, as the server wrote it."""
    contradiction: str = ""
    """How the stream contradicts itself: events were lost, doubled or came in another order."""
    begun: bool = False
    """The event that begins an answer has come, where the API has one."""
    blocks: dict[Any, bool] = field(factory=dict[Any, bool])
    """The parts that an API begins and ends by number, and whether each is still open."""
    calls: dict[Any, HeardCall] = field(factory=dict[Any, HeardCall])
    opaque: list[Any] = field(factory=list[Any])

    def told(self) -> Usage:
        """What the request cost, by what its server told of it."""
        return self.usage or Usage(output_tokens=self.pieces, unreported=1)

    def say(self, text: str) -> None:
        """Add a piece of the answer."""
        self.text += text
        self.pieces += 1

    def call(self, key: Any) -> HeardCall:
        """The call at `key`, a number if the server keeps to its API, begun if it is new."""
        self.pieces += 1
        return self.calls.setdefault(key if isinstance(key, int) else 0, HeardCall())

    def tool_calls(self, taken: set[str]) -> tuple[ToolCall, ...]:
        """The calls, each with an id of its own: a server may give none, one twice, or no id.

        Args:
            taken: ids of calls that came before; those given here are added.
        """
        return tuple(
            ToolCall(fresh_id(call.id, taken), call.name or "?", call.arguments)
            for call in self.calls.values()
        )


class Wire(Protocol):
    """One API: what a request to it holds, and what the events of its answer mean."""

    sdk: Literal["openai", "anthropic"]
    """The package that carries it."""
    has_schema: bool
    """Whether an answer can be kept to a JSON schema without a tool."""
    takes_images: bool
    takes_files: bool

    def create(self, client: Any) -> Any:
        """The client's method that makes a request and gives its raw response."""
        ...

    def parameters(self, asked: Asked) -> dict[str, Any]:
        """What that method is called with."""
        ...

    def hear(self, heard: Heard, event: dict[str, Any]) -> Sequence[SessionEvent]:
        """Add one event of the stream; what there is to tell of it.

        Nothing is believed of its shape, because servers differ.
        """
        ...


def a_dict(value: Any) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def a_text(value: Any) -> str:
    """`value` if it is text, else none."""
    return value if isinstance(value, str) else ""


def a_list(value: Any) -> list[Any]:
    """`value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def a_count(holder: Mapping[str, Any], name: str) -> int:
    """A number of tokens; 0 where it is none."""
    number: Any = holder.get(name)
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return number if is_number and number > 0 else 0


def fresh_id(given: str, taken: set[str]) -> str:
    """The id of a call: as `given`, or, if that can be sent to nobody or is taken, another.

    Args:
        given: what a server has called it.
        taken: all ids of the conversation; this one is added.

    Examples:
        >>> fresh_id("c", taken := {"a"}), fresh_id("c", taken), fresh_id("", taken)
        ('c', 'c_2', 'call_3')
    """
    # What is no word, or endless, could not be sent back.
    plain = given if _AN_ID.fullmatch(given) else ""
    identity, number = plain, len(taken)
    while not identity or identity in taken:
        identity = f"{plain or 'call'}_{number}"
        number += 1
    taken.add(identity)
    return identity


def sendable_name(name: str) -> str:
    """The name of a tool in a shape that every server takes.

    Examples:
        >>> sendable_name("?"), sendable_name("read file")
        ('unknown', 'read_file')
    """
    plain = _NOT_IN_A_NAME.sub("_", name)[:_NAME_LIMIT]
    return plain if plain.strip("_") else "unknown"


def sendable_id(identity: str) -> str:
    """The id of a call in letters that every server takes; ids that differ still do.

    A conversation may go on with another server than the one that gave the id.

    Examples:
        >>> sendable_id("toolu_01"), sendable_id("a.b/1")
        ('toolu_01', 'a_b_1_2a0c56f4')
    """
    plain = _NOT_IN_A_NAME.sub("_", identity)
    if plain == identity and len(plain) <= _NAME_LIMIT:
        return identity
    return f"{plain[: _NAME_LIMIT - 9]}_{zlib.crc32(identity.encode()):08x}"


def sendable_arguments(arguments: str) -> str:
    """What a model wrote as arguments, or an empty object: some servers read them again.

    Examples:
        >>> sendable_arguments('{"a": 1}'), sendable_arguments('{"a": '), sendable_arguments("[]")
        ('{"a": 1}', '{}', '{}')
    """
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return "{}"
    return arguments if isinstance(value, dict) else "{}"


def data_url(attachment: Attachment) -> str:
    """An attachment as a URL that holds it."""
    return f"data:{attachment.media_type};base64,{in_base64(attachment)}"


def in_base64(attachment: Attachment) -> str:
    """The bytes of an attachment as text."""
    return base64.b64encode(attachment.data).decode()


def result_text(message: ChatMessage) -> str:
    """What a tool answered, said to be an error where the API has no place for that."""
    return f"Error: {message.text}" if message.is_error else message.text
