"""`standby run explore`: a team reads a directory and answers a question about it."""

from __future__ import annotations

import math
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import msgspec
import trio
from attrs import define
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console

from standby_actors.interrupts import Terminated
from standby_actors.models import ModelError, UnknownModel
from standby_actors.result import TurnError
from standby_actors.running import run

from ..explore.reading import FILE_LIMIT, FILES_LIMIT, NotReadable
from ..explore.report import Exploration
from ..explore.start import NoRoom, open_explorer
from ..explore.team import Explorer
from . import ANSWERED, FAILED, INTERRUPTED, MISUSE
from .answer import print_answer, problems
from .controlled import controlled
from .display import shown
from .lines import JsonLines
from .text import one_line

HARD_EXIT = 15.0
"""Seconds after a second Ctrl-C before the process is ended, whatever holds it."""

Count = Annotated[int, Parameter(validator=Number(gte=1))]
Seconds = Annotated[float, Parameter(validator=Number(gt=0))]


@define(eq=False)
class _Run:
    """One run of the command, and what is left of it when it is cut."""

    explorer: Explorer | None = None
    refusal: Exception | None = None
    """Why it could not begin."""


def explore(
    question: str,
    /,
    *,
    directory: Annotated[Path, Parameter(name="--in")],
    model: str | None = None,
    concurrency: Count | None = None,
    timeout: Seconds | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
    whole: Annotated[bool | None, Parameter(negative="--sketch")] = None,
    quote: Annotated[bool | None, Parameter(negative="--write")] = None,
    context: Count | None = None,
    max_file_bytes: Count = FILE_LIMIT,
    max_files: Count = FILES_LIMIT,
) -> int:
    """Let a team read the text files of a directory and answer a question about them.

    One scout reads each file, and a synthesiser answers from what they found. Names that
    they quote are checked to occur in the files, and files that they cite to have been read.
    What git ignores is not read.

    Exit codes: 0 answered; 1 failed, stderr says what and why; 2 misuse; 130 interrupted, or
    143 told to end, and what was answered until then is printed.

    Parameters
    ----------
    question
        What is asked about the directory.
    directory
        Where to read.
    model
        As in openai/gpt-5-mini or local/smollm2. Without it: STANDBY_MODEL, the provider whose
        key is set, or the model of `standby local install`.
    concurrency
        Files that are read at the same time. [default: 8; 2 with the local model]
    timeout
        Seconds for the whole run.
    json
        Print one JSON line for each event, and at last the result.
    whole
        Show each file whole, or only a sketch of large ones: what they define and say of it.
        [default: sketches for the local model, which reads some 70 tokens a second]
    quote
        Let the model point at sentences of the files, or write its own. [default: quotes from
        the local model]
    context
        Tokens that the model's context holds, if it does not say so itself.
    max_file_bytes
        Larger files are not read, and named.
    max_files
        With more files than this nothing is begun.
    """
    if not question.strip():
        return _fail("the question is empty", MISUSE)
    if not directory.is_dir():
        why = "is a file, not a directory" if directory.exists() else "does not exist"
        return _fail(f"--in {directory}: it {why}", MISUSE)
    settings: dict[str, Any] = {
        "model": model,
        "concurrency": concurrency,
        "whole": whole,
        "style": None if quote is None else "point" if quote else "write",
        "context_tokens": context,
        "file_limit": max_file_bytes,
        "files_limit": max_files,
    }
    lines = JsonLines(sys.stdout.buffer) if json else None
    held = _Run()
    interrupted: int | None = None
    try:
        run(_explore, held, question, directory, settings, timeout, lines, hard_exit=HARD_EXIT)
    except KeyboardInterrupt:
        interrupted = INTERRUPTED
    except Terminated as ended:
        if ended.signum != signal.SIGTERM:
            raise  # the terminal went away: nobody is there to read what was found
        interrupted = ended.status
    if held.refusal is not None:
        return _refuse(held.refusal, lines)
    found = held.explorer.exploration() if held.explorer is not None else None
    if lines is not None:
        lines.raise_if_broken()
        if found is not None:
            lines.write({"type": "explore.result", **msgspec.structs.asdict(found)})
    if found is None:
        why = "interrupted" if interrupted else f"timed out after {timeout:g} s"
        return _fail(f"{why} before anything was asked", interrupted or FAILED)
    return _conclude(found, interrupted, silent=lines is not None)


async def _explore(
    held: _Run,
    question: str,
    directory: Path,
    settings: dict[str, Any],
    seconds: float | None,
    lines: JsonLines | None,
) -> None:
    error = Console(stderr=True)
    with trio.move_on_after(math.inf if seconds is None else seconds) as scope:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(controlled())
            showing = shown(error) if lines is None else lines.following(scope)
            await stack.enter_async_context(showing)
            opening = open_explorer(question, directory, **settings)
            try:
                held.explorer = await stack.enter_async_context(opening)
            except (NotReadable, NoRoom, ModelError) as refusal:
                held.refusal = refusal
                return
            await held.explorer.run()
    if scope.cancelled_caught and held.explorer is not None and seconds is not None:
        held.explorer.give_up(TurnError("timeout", f"timed out after {seconds:g} s"))


def _conclude(found: Exploration, interrupted: int | None, *, silent: bool) -> int:
    """Print what was found, and why there is no more; returns the exit code.

    Args:
        interrupted: the exit code of a run that a signal has ended.
        silent: whether to print no answer.
    """
    if not silent and (found.answered or found.error is None):
        print_answer(found, Console())
        sys.stdout.flush()
    for line in problems(found):
        print(f"standby: {line}", file=sys.stderr)
    if interrupted:
        count = f"{len(found.answered)} of {len(found.files)} files were answered until then"
        return _fail(f"interrupted; {count}", interrupted)
    if found.error is not None:
        why = one_line(found.error.message)
        return _fail(f"not answered: {why}", FAILED)
    return ANSWERED


def _refuse(error: Exception, lines: JsonLines | None) -> int:
    """The exit code of a run that could not begin."""
    if lines is not None:
        lines.write({"type": "explore.failed", "error": str(error)})
    return _fail(str(error), MISUSE if isinstance(error, UnknownModel) else FAILED)


def _fail(sentence: str, code: int) -> int:
    print(f"standby: {sentence}", file=sys.stderr)
    return code
