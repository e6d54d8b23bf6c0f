"""`standby tree`: what a running program is doing, asked over its control socket."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio
from attrs import frozen
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from standby_actors.snapshot import Line, span
from standby_supervision.control import (
    SECONDS,
    Connection,
    ControlError,
    Forest,
    LookAtTree,
    NoAnswer,
    Program,
    connect,
    folder_path,
    programs,
)

from . import ANSWERED, FAILED, MISUSE
from .display import is_live
from .text import one_line

if TYPE_CHECKING:
    from standby_actors.snapshot import WordKind

LEVELS = 32
"""Levels shown where nothing else is said."""
EVERY = 1.0
"""Seconds between two looks."""

Most = Annotated[int, Parameter(validator=Number(gte=0, lte=10_000))]
Depth = Annotated[int, Parameter(validator=Number(gte=0, lte=100))]
Seconds = Annotated[float, Parameter(validator=Number(gte=0.1))]

_OF_STATE: dict[str, str] = {
    "idle": "dim",
    "queued": "cyan",
    "running": "green",
    "waiting": "cyan",
    "starting": "yellow",
    "suspended": "magenta",
    "stopping": "yellow",
    "stuck": "bold red",
    "ended": "dim",
    "restarting": "bold yellow",
    "down": "red",
}
_OF_KIND: dict[WordKind, str] = {
    "name": "bold",
    "mail": "magenta",
    "life": "blue",
    "rule": "dim",
    "trouble": "red",
    "wait": "italic",
    "more": "dim",
}


@frozen
class _Asked:
    """What the command was called with."""

    arguments: LookAtTree
    json: bool
    every: float


async def tree(
    pid: int | None = None,
    /,
    *,
    watch: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
    most: Most = 20,
    depth: Depth = LEVELS,
    every: Seconds = EVERY,
    patience: Annotated[Seconds, Parameter(name="--timeout")] = SECONDS,
) -> int:
    """Show what the actors of a running program do: lives, restarts, what each waits for.

    A program can be asked while it is in `async with standby.serve_control():`. What
    `standby run` starts can be asked without it.

    Exit codes: 0 shown; 1 there is no such program, or it did not answer; 2 misuse, or there
    are several programs and none was named.

    Parameters
    ----------
    pid
        The process to ask; needed only where there are several.
    watch
        Show it again and again, until Ctrl-C or the end of the program.
    json
        Print the tree as one line of JSON; with --watch one line for each look.
    most
        Children of one actor that are shown one by one; the others are counted by state. Those
        that are stuck, restarting or down come first.
    depth
        Levels that are shown.
    every
        Seconds between two looks, with --watch.
    patience
        Seconds that the program has for each answer.
    """
    try:
        found = programs()
    except ControlError as error:
        return _fail(str(error), FAILED)
    program = _chosen(found, pid)
    if isinstance(program, int):
        return program
    asked = _Asked(LookAtTree(most=most, depth=depth), json, every)
    try:
        async with connect(program, seconds=patience) as connection:
            if not watch:
                _print(await _look(connection, asked), connection.program, asked)
            elif json or not is_live(Console()):
                await _until_signal(_repeat, connection, asked)
            else:
                await _until_signal(_watch, connection, asked)
    except NoAnswer as error:
        if watch and error.has_ended:
            print(f"standby: program {program.pid} has ended", file=sys.stderr)
            return ANSWERED
        return _fail(str(error), FAILED)
    except ControlError as error:
        return _fail(str(error), FAILED)
    return ANSWERED


def _chosen(found: Sequence[Program], pid: int | None) -> Program | int:
    """The program to ask, or the exit code where there is none to be had."""
    fitting = [each for each in found if pid is None or each.pid == pid]
    if not fitting and pid is not None:
        known = f"there are: {_pids(found)}" if found else "there is none at all"
        why = f"no program {pid} can be asked: it has ended, or serves no control socket"
        return _fail(f"{why} ({known})", FAILED)
    if not fitting:
        return _fail(
            "no running program of yours can be asked\n"
            "A program can while it is in `async with standby.serve_control():`, and what"
            " `standby run` starts always can.\n"
            f"Looked in {folder_path()}",
            FAILED,
        )
    # A process may serve several, each for a run of trio of its own; the newest is meant.
    if len({each.pid for each in fitting}) == 1:
        return fitting[-1]
    lines = "\n".join(_listed(fitting))
    _fail(f"{len(fitting)} programs can be asked; say which, as in", MISUSE)
    print(f"  standby tree {fitting[-1].pid}\n\n{lines}", file=sys.stderr)
    return MISUSE


def _pids(found: Sequence[Program]) -> str:
    return ", ".join(str(each.pid) for each in found)


def _listed(found: Sequence[Program]) -> Iterator[str]:
    """One line for each program, newest last."""
    width = max(len(str(each.pid)) for each in found)
    ages = [span(each.seconds) for each in found]
    room = max(map(len, ages))
    yield f"{'PID':>{width}}  {'SINCE':<{room}}  PROGRAM"
    for each, age in zip(found, ages, strict=True):
        yield f"{each.pid:>{width}}  {age:<{room}}  {one_line(each.entry.title)}"


async def _look(connection: Connection, asked: _Asked) -> Forest:
    return await connection.ask("tree", asked.arguments, Forest)


async def _repeat(connection: Connection, asked: _Asked) -> None:
    """Print one look after the other."""
    while True:
        _print(await _look(connection, asked), connection.program, asked)
        sys.stdout.flush()
        await trio.sleep(asked.every)


async def _watch(connection: Connection, asked: _Asked) -> None:
    """Draw one look over the other; when it is cut, the screen is as it was."""
    console = Console()
    # The first look before the screen is taken: what fails then is to be read.
    forest = await _look(connection, asked)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            lines = drawn(forest, connection.program, asked.arguments)
            live.update(Group(*_cropped(lines, console.height)))
            await trio.to_thread.run_sync(live.refresh, abandon_on_cancel=True)
            await trio.sleep(asked.every)
            forest = await _look(connection, asked)


async def _until_signal(
    work: Callable[[Connection, _Asked], Awaitable[None]], connection: Connection, asked: _Asked
) -> None:
    """Do `work` until it fails, Ctrl-C is pressed, or the process is told to end."""
    failure: Exception | None = None

    async def guarded() -> None:
        nonlocal failure
        # Out of the nursery as it is, and not in a group.
        try:
            await work(connection, asked)
        except (ControlError, OSError) as error:
            failure = error
        nursery.cancel_scope.cancel()

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(guarded)
            async for _ in signals:
                break
            nursery.cancel_scope.cancel(reason="a signal")
    if failure is not None:
        raise failure


def _print(forest: Forest, program: Program, asked: _Asked) -> None:
    if asked.json:
        print(msgspec.json.encode(forest).decode())
        return
    console = Console()
    for line in drawn(forest, program, asked.arguments):
        if console.is_terminal:
            console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            # Not rich's print, which would cut what another program is to read.
            console.file.write(line.plain + "\n")


def drawn(forest: Forest, program: Program, asked: LookAtTree) -> list[Text]:
    """The lines of the picture, each to be cut at the width of what it is drawn on."""
    head = Text(one_line(program.entry.title), style="bold")
    head.append(f"  pid {forest.pid}, for {span(program.seconds)}", style="not bold dim")
    lines = [_uncut(head)]
    for block in forest.blocks:
        lines.extend(_styled(line) for line in block.lines(most=asked.most, depth=asked.depth))
    if forest.more_blocks:
        lines.append(Text(f"… and {forest.more_blocks:,} more blocks", style="dim"))
    if not forest.blocks:
        lines.append(Text("no block is open", style="dim"))
    return lines


def _styled(line: Line) -> Text:
    text = Text(line.branch, style="dim")
    for number, word in enumerate(line.words):
        style = _OF_STATE.get(word.text, "") if word.kind == "state" else _OF_KIND[word.kind]
        text.append("  " if number else "")
        text.append(word.text, style=f"not dim {style}" if style != "dim" else style)
    return _uncut(text)


def _uncut(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _cropped(lines: Sequence[Text], height: int) -> Sequence[Text]:
    """As many lines as fit on a screen; the last one then says how many do not."""
    if len(lines) <= height:
        return lines
    hidden = len(lines) - height + 1
    return [*lines[: height - 1], Text(f"… {hidden:,} more lines (--most, --depth)", "dim")]


def _fail(sentence: str, code: int) -> int:
    print(f"standby: {sentence}", file=sys.stderr)
    return code
