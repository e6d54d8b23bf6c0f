"""An Exploration for people: the answer on stdout, what went wrong on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from standby_actors.models import LOCAL
from standby_actors.usage import compact

from ..explore.report import Exploration, FileReport
from .text import clock, one_line, plain, plural

if TYPE_CHECKING:
    from rich.console import Console

NAMED = 20
"""Most files that are named one by one where many have the same fate."""

SMALL = (
    "The model is SmolLM2 with 135 million parameters, 98 MB, on this machine. So small a model"
    " cannot reason: it points at sentences and names that stand in the files, and writes nothing"
    " itself. With a key (OPENAI_API_KEY, ANTHROPIC_API_KEY, …) the same command asks a large one."
)


def print_answer(found: Exploration, console: Console) -> None:
    """Print a table of the files, the answer, and what both rest on."""
    if console.is_terminal:
        _print_for_eyes(found, console)
        return
    for line in as_markdown(found):
        # Not rich's print, which would fold what another program is to read.
        console.file.write(line + "\n")


def as_markdown(found: Exploration) -> Iterator[str]:
    """The lines of the answer, one for each file: for pipes and for files."""
    yield f"# {one_line(found.question)}"
    yield ""
    if found.answered:
        yield "| file | answer | names |"
        yield "| --- | --- | --- |"
        for each in found.answered:
            cells = (each.path, each.answer, ", ".join(each.names))
            yield f"| {' | '.join(_cell(cell) for cell in cells)} |"
        yield ""
    if found.answer:
        yield "## Answer"
        yield ""
        if found.style == "point":
            yield from (f"- {line}" for line in plain(found.answer).split("\n"))
        else:
            yield plain(found.answer)
        yield ""
        yield f"Cited: {', '.join(one_line(path) for path in found.cited) or 'no file'}"
        yield ""
    yield from footing(found)


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")


def _print_for_eyes(found: Exploration, console: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if found.answered:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("file", style="cyan", overflow="fold", ratio=3)
        table.add_column("answer", overflow="fold", ratio=6)
        table.add_column("names that it rests on", style="dim", overflow="fold", ratio=3)
        for each in found.answered:
            names = Text(one_line(", ".join(each.names)))
            table.add_row(Text(one_line(each.path)), Text(one_line(each.answer)), names)
        console.print(table)
        console.print()
    if found.answer:
        console.print(Text(one_line(found.question), style="bold"))
        console.print()
        for line in plain(found.answer).split("\n"):
            path, _, rest = line.partition(": ")
            if found.style == "point":
                console.print(Text("  • ") + Text(path, style="cyan") + Text(f": {rest}"))
            else:
                console.print(Text(line))
        console.print()
        if found.style == "write":
            cited = ", ".join(one_line(path) for path in found.cited) or "no file"
            console.print(Text("Cited: ", style="dim") + Text(cited, style="cyan"))
    for line in footing(found):
        console.print(Text(line, style="dim"))


def footing(found: Exploration) -> Iterator[str]:
    """What the answer rests on: how much was read, what was checked, by which model."""
    answered = found.answered
    sketched = sum(each.view == "sketch" for each in answered)
    read = plural(len(answered), "file")
    if found.unanswered:
        read = f"{len(answered)} of {plural(len(found.files), 'file')}"
    if sketched:
        read += (
            f", {sketched} of them as a sketch (what it defines and says of it; --whole reads"
            " every line)"
        )
    yield f"Read: {read}."
    quoted = sum(each.quoted for each in answered)
    names = sum(len(each.names) for each in answered)
    made_up = sum(len(each.dropped) for each in answered)
    checked = f"Checked: all {plural(names, 'name')} occur in their files"
    if made_up:
        checked += f"; {plural(made_up, 'more name')} did not, and {_was(made_up)} dropped"
    if found.style == "point":
        checked += f"; {quoted} of {plural(len(answered), 'answer')} stand there word for word"
    if found.dropped:
        checked += (
            f"; what was said of {plural(len(found.dropped), 'file')} that nobody read"
            f" {_was(len(found.dropped))} dropped"
        )
    if answered:
        yield f"{checked}."
    usage = found.usage
    yield (
        f"Spent: {plural(usage.turns, 'turn')} in {clock(usage.wall_seconds)},"
        f" {compact(usage.input_tokens)} tokens read, {compact(usage.output_tokens)} written,"
        f" {found.parallelism:.1f} turns at a time."
    )
    yield SMALL if found.model == LOCAL else f"The model is {found.model}."


def problems(found: Exploration) -> Iterator[str]:
    """What was not read and what failed, one line each: for stderr."""
    yield from _first(str(one_line(str(each))) for each in found.skipped)
    yield from _first(
        f"{one_line(each.path)}: {plural(each.replaced, 'place')} not UTF-8, shown as \ufffd"
        for each in found.files
        if each.replaced
    )
    failures = [each for each in found.unanswered if each.status != "not_started"]
    yield from _first(_failure(each) for each in failures)
    waiting = len(found.unanswered) - len(failures)
    if waiting:
        yield f"{plural(waiting, 'file')} not begun"


def _failure(each: FileReport) -> str:
    why = each.error.message if each.error else each.status
    return f"{one_line(each.path)}: {each.status.replace('_', ' ')}: {one_line(why)}"


def _first(lines: Iterator[str]) -> Iterator[str]:
    said = list(lines)
    yield from said[:NAMED]
    if len(said) > NAMED:
        yield f"... and {len(said) - NAMED} more like these; --json names them all"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
