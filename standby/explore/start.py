"""From a question and a directory to a team that is ready to begin."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from standby_actors.events import emit
from standby_actors.models import LOCAL, default_model, model_settings, open_model
from standby_combinators.options import Options

from .answers import Style
from .plan import assign
from .prompts import window_for
from .reading import FILE_LIMIT, FILES_LIMIT, NotReadable, read_directory
from .report import Exploration
from .team import Explorer

CONTEXT_TOKENS = 100_000
"""What the context of a model holds that does not say it: every large one does."""
CONTEXT_TOKENS_NEARBY = 8_000
"""The same for a server on this machine, where models are smaller."""

SMALL_BUDGET = 7_000
"""Tokens of files that the local model is shown in all, so that it ends in minutes.

It reads some 70 tokens a second on one core.
"""

CONCURRENCY = 8
SMALL_CONCURRENCY = 2
"""The local model answers one at a time; the next is at its door meanwhile."""


class NoRoom(ValueError):
    """Raised when a question leaves no room for a file in the model's context."""

    def __init__(self, context_tokens: int) -> None:
        super().__init__(context_tokens)
        self.context_tokens = context_tokens

    def __str__(self) -> str:
        return (
            f"the question leaves no room for a file in a context of {self.context_tokens}"
            " tokens; ask a shorter one, or name a larger model"
        )


@asynccontextmanager
async def open_explorer(
    question: str,
    directory: Path,
    *,
    model: str | None = None,
    concurrency: int | None = None,
    whole: bool | None = None,
    style: Style | None = None,
    context_tokens: int | None = None,
    file_limit: int = FILE_LIMIT,
    files_limit: int = FILES_LIMIT,
    env: Mapping[str, str] | None = None,
) -> AsyncGenerator[Explorer]:
    """Read `directory` and open the model; the team works within the block.

    Args:
        question: what is asked about the directory.
        directory: where to read.
        model: as in "openai/gpt-5-mini"; None for the default of the environment.
        concurrency: files read at the same time, at least 1; None for 8, or for
            2 with the local model.
        whole: show every file whole; None for all models but the local one,
            which is shown sketches where the whole would take too long.
        style: let the model write its answers, or point at sentences of the
            files; None for the latter with the local model.
        context_tokens: what the model's context holds; None for what it says.
        file_limit: bytes; larger files are skipped, and named.
        files_limit: most files; with more, nothing begins.
        env: the environment to find a model by; None for the process's own.

    Raises:
        NotReadable: there is nothing to read.
        NoRoom: the question is too long for the model.
        ModelError: there is no such model, or no way to ask it.
    """
    name = model or default_model(env)
    if name.partition("/")[0].partition(":")[0] != "local":
        # A name or a key that is no good is told before anything is read.
        model_settings(name, env)
    reading = await trio.to_thread.run_sync(
        partial(read_directory, directory, file_limit=file_limit, files_limit=files_limit),
        abandon_on_cancel=True,
    )
    if not reading.files:
        raise NotReadable(str(directory), _nothing(len(reading.skipped), reading.ignored))
    emit("explore.stage", "explore", stage=f"starting {name}")
    async with open_model(name, env=env) as opened:
        small = opened.name == LOCAL
        style = style or ("point" if small else "write")
        tokens = context_tokens or opened.capabilities.context_tokens
        if tokens is None:
            tokens = CONTEXT_TOKENS_NEARBY if opened.settings.on_loopback else CONTEXT_TOKENS
        window = window_for(question, style, tokens)
        if window < 1:
            raise NoRoom(tokens)
        if whole is None:
            whole = not small
        yield Explorer(
            question=question,
            reading=reading,
            assignments=assign(
                reading.files, window=window, budget=None if whole else SMALL_BUDGET
            ),
            model=opened.name,
            style=style,
            window=window,
            concurrency=concurrency or (SMALL_CONCURRENCY if small else CONCURRENCY),
            options=Options(model=opened),
        )


async def explore(question: str, directory: Path, *, model: str | None = None) -> Exploration:
    """Let a team read `directory` and answer `question` about it.

    A failure of the model is in the Exploration's `status` and `error`.

    Raises:
        NotReadable: there is nothing to read.
        NoRoom: the question is too long for the model.
        ModelError: there is no such model, or no way to ask it.
    """
    async with open_explorer(question, directory, model=model) as explorer:
        return await explorer.run()


def _nothing(skipped: int, ignored: int) -> str:
    """Why there is nothing to read.

    Examples:
        >>> _nothing(0, 0), _nothing(2, 1)
        ('it is empty', 'no text file in it (2 skipped, 1 ignored by git)')
    """
    if not skipped and not ignored:
        return "it is empty"
    return f"no text file in it ({skipped} skipped, {ignored} ignored by git)"
