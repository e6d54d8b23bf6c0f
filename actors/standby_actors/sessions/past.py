"""What was said before, in a shape that a model can be shown as its own past.

Pure.  Servers refuse a history in which a call has no answer, an answer has no call,
or an id comes twice; and where no tools are given, some refuse every call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from ..result import ChatMessage, ToolCall
from .wires.wire import fresh_id

ENDED_HERE = "(This turn ended here.)"
"""Said for a mind whose last turn has calls and no word after them: it may go on with
nothing but a task, and some servers take no user's word right after a tool's."""


def past_of(
    messages: Sequence[ChatMessage], tools: Collection[str], taken: set[str]
) -> list[ChatMessage]:
    """`messages` as a history that every server takes.

    Each call has its answer right behind it, and one that was cut says so.  What was
    called with tools that are not there any more is told in words.  Half an answer is
    left out: it is a bad example.

    Args:
        messages: what was said, as a session, an export or a record has it.
        tools: names of what can be called now.
        taken: ids of calls that came before; those given here are added.
    """
    past: list[ChatMessage] = []
    is_ended = True
    for message, answers in _with_answers(messages):
        if message.partial:
            continue
        is_ended = not message.calls
        if message.calls:
            past += _called(message, answers, tools, taken)
        elif message.text or message.attachments:
            past.append(message)
    if not is_ended:
        past.append(ChatMessage("assistant", ENDED_HERE))
    return past


def _with_answers(
    messages: Sequence[ChatMessage],
) -> Iterable[tuple[ChatMessage, list[ChatMessage]]]:
    """Each message that is no tool's, and the answers of tools that stand behind it."""
    message: ChatMessage | None = None
    answers: list[ChatMessage] = []
    for each in messages:
        if each.role == "tool":
            answers.append(each)
            continue
        if message is not None:
            yield message, answers
        message, answers = each, []
    if message is not None:
        yield message, answers


def _called(
    message: ChatMessage,
    answers: list[ChatMessage],
    tools: Collection[str],
    taken: set[str],
) -> Iterable[ChatMessage]:
    """A message with calls, and what they were answered."""
    calls: list[ToolCall] = []
    answered: list[ChatMessage] = []
    words: list[str] = []
    for call in message.calls:
        answer = next((each for each in answers if each.call == call.id), None)
        if answer is None:
            said = f"{call.name} did not answer: the turn was cut."
            answer = ChatMessage("tool", said, call=call.id, is_error=True)
        else:
            answers.remove(answer)
        if call.name in tools:
            identity = fresh_id(call.id, taken)
            calls.append(msgspec.structs.replace(call, id=identity))
            answered.append(msgspec.structs.replace(answer, call=identity))
        else:
            words.append(f"{call.name} {call.arguments}\n{answer.text}")
    if message.text or calls:
        yield msgspec.structs.replace(message, calls=tuple(calls))
    yield from answered
    if words:
        told = "What you called before, with tools that are not here now, and the answers:"
        yield ChatMessage("user", "\n\n".join((told, *words)))
