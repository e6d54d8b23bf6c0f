"""The wires: how each API of the model providers is asked, and how its answers are read."""

from __future__ import annotations

from typing import Literal, TypeAlias

from .wire import Wire

Api: TypeAlias = Literal["chat", "responses", "anthropic"]
"""Chat completions, responses, or messages."""


def wire_of(api: Api) -> Wire:
    """The wire of `api`."""
    if api == "chat":
        from .completions import Completions

        return Completions()
    if api == "responses":
        from .responses import Responses

        return Responses()
    from .messages import Messages

    return Messages()
