"""How full a context is, and what a mind writes down when it is too full."""

from __future__ import annotations

from .agent import Agent
from .result import ChatMessage
from .session import Session

_MESSAGE_CHARACTERS = 8_000
_WHOLE_CHARACTERS = 200_000


def crowded(agent: Agent, session: Session) -> tuple[int, int] | None:
    """The level and the limit of the context of `session`, in tokens, when it is too full.

    None while it is not, and where either is unknown.
    """
    level = session.usage.context_tokens
    limit = session.capabilities.context_tokens
    if level is None or limit is None or level < agent.context_threshold * limit:
        return None
    return level, limit


def summary_task(said: tuple[ChatMessage, ...]) -> str:
    """The task of writing down what a successor must know of what was `said`.

    Of long messages the beginning and the end are shown, and of a long
    conversation the end; the text says what is left out.

    Examples:
        >>> print(summary_task((ChatMessage("user", "Count to 3."),)))
        Another one will go on with the conversation below, and will know nothing of it but what you write now.  Write down, in plain sentences: what was asked for, what was decided and why, what was done and found (names, paths and numbers word for word), and what is left to do.  Write nothing else.
        <BLANKLINE>
        user: Count to 3.
    """  # noqa: E501 - the text as it is
    lines: list[str] = []
    left = _WHOLE_CHARACTERS
    for number, message in enumerate(reversed(said)):
        called = "".join(f" [calls {call.name} {call.arguments}]" for call in message.calls)
        line = f"{message.role}: {_short(message.text + called)}"
        if len(line) > left:
            lines.append(f"({len(said) - number} earlier messages are left out)")
            break
        left -= len(line)
        lines.append(line)
    return (
        "Another one will go on with the conversation below, and will know nothing of it but"
        " what you write now.  Write down, in plain sentences: what was asked for, what was"
        " decided and why, what was done and found (names, paths and numbers word for word),"
        " and what is left to do.  Write nothing else.\n\n" + "\n".join(reversed(lines))
    )


def _short(text: str) -> str:
    if len(text) <= _MESSAGE_CHARACTERS:
        return text
    half = _MESSAGE_CHARACTERS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]} … ({left_out} characters are left out) … {text[-half:]}"
