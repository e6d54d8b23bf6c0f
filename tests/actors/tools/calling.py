"""What tests of tools call with: calls, and tools that count."""

from __future__ import annotations

import itertools
import json
from typing import Any

from standby_actors.result import ToolCall
from standby_actors.tools.calls import Answered, CallHistory, run_calls
from standby_actors.tools.tool import Tool, ToolContext, tool

_ids = itertools.count(1)


def call(name: str, arguments: Any = None, /, **given: Any) -> ToolCall:
    """A call of `name`: with a text as the model wrote it, or with arguments as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(given)
    return ToolCall(f"call_{next(_ids)}", name, text)


async def answer(one: ToolCall, *tools: Tool, **options: Any) -> Answered:
    """The answer to a single call in a turn of its own."""
    answers = await run_calls([one], tools, CallHistory(), **options)
    [answered] = answers.answered
    return answered


class Counted:
    """A tool that counts how often it has run, and with what."""

    def __init__(self, name: str = "work", **options: Any) -> None:
        self.ran: list[tuple[int, str]] = []

        async def work(n: int, word: str = "") -> str:
            """Work."""
            self.ran.append((n, word))
            return f"worked {n}"

        self.tool = tool(work, name=name, **options)


@tool
async def who(context: ToolContext) -> str:
    """Say who calls."""
    return f"{context.subagent} by {context.call.name}"
