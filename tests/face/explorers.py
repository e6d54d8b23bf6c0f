"""Model servers that play the members of the exploring team."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import trio
from attrs import define, field

from tests.support.model_server import Answer, Asked, ModelServer, open_model_server, says

KEY = "sk-canary-0123456789"
"""A key that must never be seen anywhere."""

Rule = Callable[[str], Answer | None]


def asked_file(task: str) -> str:
    """The file that a scout's task is about."""
    found = re.match(r"File (\S+?)(?: \([^)]*\))?:\n", task)
    assert found is not None, task
    return found[1]


def shown_text(task: str) -> str:
    """What a scout's task shows of its file."""
    return task.partition(":\n")[2].rpartition("\n\n")[0]


def task_of(request: Asked) -> str:
    """What the subagent was asked, also where it is asked again to keep to the schema."""
    task: str = request.body["messages"][1]["content"]
    return task


def is_scout(request: Asked) -> bool:
    return task_of(request).startswith("File ")


def says_json(value: Any, *, tokens: tuple[int, int] | None = (1_000_000, 7)) -> Answer:
    return says(json.dumps(value), usage=tokens)


@define(eq=False)
class Team:
    """Answers as a good model would, unless `rule` has another answer for a file.

    A scout quotes the first word of its file, and one that is not in it; the
    synthesiser cites every file that it was shown, and one that it was not.
    """

    rule: Rule = field(default=lambda path: None)

    def __call__(self, request: Asked) -> Answer:
        if is_scout(request):
            path = asked_file(task_of(request))
            other = self.rule(path)
            if other is not None:
                return other
            word = re.findall(r"\w+", shown_text(task_of(request)))[0]
            return says_json({"answer": f"It is about {word}.", "names": [word, "made_up"]})
        schema = request.body["response_format"]["json_schema"]["schema"]
        if "names" in schema["properties"]:
            return says_json({"answer": "All parts agree.", "names": ["made_up"]})
        other = self.rule("")
        if other is not None:
            return other
        paths = re.findall(r"^## (\S+)$", task_of(request), re.MULTILINE)
        said = f"See {', '.join(paths)}. And nowhere.py too."
        return says_json({"answer": said, "files": paths})


def environment(server: ModelServer) -> dict[str, str]:
    """The environment of somebody who has a key for `server`."""
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}


@contextmanager
def served(script: Callable[[Asked], Answer]) -> Generator[ModelServer]:
    """A server in a thread of its own, for programs that run trio themselves."""
    ready = threading.Event()
    held: list[ModelServer] = []
    tokens: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []

    async def serve() -> None:
        with trio.CancelScope() as scope:
            async with open_model_server(script) as server:
                held.append(server)
                tokens.append((trio.lowlevel.current_trio_token(), scope))
                ready.set()
                await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    try:
        ready.wait()
        yield held[0]
    finally:
        token, scope = tokens[0]
        token.run_sync_soon(scope.cancel)
        thread.join()
