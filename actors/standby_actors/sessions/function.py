"""A Python function as a mind: given the task, it answers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import msgspec
import trio
from attrs import define, field

from ..agent import MindFunction
from ..result import Attachment, ChatMessage, TurnError, crash_of
from ..sendable import sendable
from ..session import (
    Capabilities,
    OnEvent,
    Turn,
    no_attachments,
)
from ..usage import NOTHING, Usage
from .conversation import Conversation

_CAN = Capabilities(schema=True)


@define(eq=False)
class FunctionSession(Conversation):
    """A conversation with a function, which remembers what it likes.

    An exception of the function is a turn that ended with error kind `crash`.
    A plain function runs in a thread, which is left behind when its turn is
    cut: nothing can stop it, and nobody waits for it.

    Args:
        function: takes the task, answers; see
            :data:`~standby_actors.agent.MindFunction`.
        schema: the type that its answer must have, or None for any.
    """

    function: MindFunction
    schema: Any = None
    usage: Usage = field(init=False, default=NOTHING)
    _call: Callable[[str], Awaitable[Any]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._call = caller_of(self.function)

    @property
    def model(self) -> str:
        """Nobody's model answers."""
        return ""

    @property
    def capabilities(self) -> Capabilities:
        """It says its answer in one piece."""
        return _CAN

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Call the function with the task."""
        if attachments:
            return Turn(error=no_attachments("a function"))
        messages: list[ChatMessage] = []
        say = partial(self.say, messages, on_event)

        say(ChatMessage("user", text))
        answer: Any = None
        scope = self.scope = trio.CancelScope()
        try:
            with scope:
                answer = await self._call(text)
        # A failing mind is expected work: here its exception becomes a value,
        # as the cell makes one of an actor's.
        except Exception as error:
            return Turn("", tuple(messages), crash_of(error))
        finally:
            self.scope = None
        if scope.cancelled_caught:
            return Turn("", tuple(messages), TurnError("stopped", "interrupted"))
        try:
            said, value = read_answer(answer, self.schema)
        except (msgspec.MsgspecError, TypeError, UnicodeError) as error:
            return Turn("", tuple(messages), wrong_answer(error))
        say(ChatMessage("assistant", said))
        return Turn(said, tuple(messages), None, value)

    async def close(self) -> None:
        """There is nothing to let go of."""


def caller_of(function: MindFunction) -> Callable[[str], Awaitable[Any]]:
    """How to call `function` with a task, and wait for its answer."""
    kind: Any = type(function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(kind.__call__):
        return cast("Callable[[str], Awaitable[Any]]", function)

    async def in_a_thread(task: str) -> Any:
        answer = await trio.to_thread.run_sync(partial(function, task), abandon_on_cancel=True)
        # A partial or a lambda may hide that it is async.
        return await answer if inspect.isawaitable(answer) else answer

    return in_a_thread


def read_answer(answer: Any, schema: Any) -> tuple[str, Any]:
    """The output and the value of a function's answer.

    Examples:
        >>> read_answer("yes", None), read_answer(None, None), read_answer([1, 2], None)
        (('yes', None), ('', None), ('[1,2]', [1, 2]))

    Raises:
        msgspec.MsgspecError: it is not what the schema says.
        TypeError: it is no data that msgspec could encode.
        UnicodeError: a text in its data has half a surrogate pair.
    """
    if isinstance(answer, str):
        answer = sendable(answer)
    if schema is not None:
        if isinstance(answer, str) and schema is not str:
            value = msgspec.json.decode(answer, type=schema)
        else:
            value = msgspec.convert(answer, schema)
        return msgspec.json.encode(value).decode(), value
    if answer is None:
        return "", None
    if isinstance(answer, str):
        return answer, None
    return msgspec.json.encode(answer).decode(), answer


def wrong_answer(error: Exception) -> TurnError:
    """The error of a turn whose answer :func:`read_answer` could not read."""
    return TurnError("schema", f"the function's answer: {error}").with_cause(error)
