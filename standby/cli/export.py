"""`standby export`: the records of subagents as pages, transcripts, or a list."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from standby_actors.record import ENDING, BadRecord, messages_of, read_record, summary_of
from standby_actors.record_page import page
from standby_actors.session import export_jsonl, write_whole

from . import ANSWERED, FAILED, MISUSE


def export(
    where: Path,
    /,
    *,
    to: Annotated[Path | None, Parameter(name="--to")] = None,
    format: Literal["html", "jsonl"] = "html",  # noqa: A002 - the name of the option
    list: Annotated[bool, Parameter(name="--list", negative=())] = False,  # noqa: A002 - as above
) -> int:
    """Make pages of what subagents said and did, from the records they wrote.

    A record is written line by line while its subagent works, so that it is there
    also of one whose process was killed.

    Parameters
    ----------
    where
        A record, or a folder of them.
    to
        The folder to write to; by default the record's own.
    format
        A page for people, or the messages as JSON lines.
    list
        Only say what there is.
    """
    records = _records(where)
    if records is None:
        print(f"standby: there is no {where}", file=sys.stderr)
        return MISUSE
    if not records:
        print(f"standby: there is no record (*{ENDING}) in {where}", file=sys.stderr)
        return FAILED
    code = ANSWERED
    table = Table(box=None, pad_edge=False)
    for title in ("SUBAGENT", "MODEL", "TURNS", "USAGE", "STATE"):
        table.add_column(title)
    for path in records:
        try:
            lines, torn = read_record(path)
            if list:
                facts = summary_of(lines)
                failed = f", {facts['failed']} failed" if facts["failed"] else ""
                table.add_row(
                    facts["id"],
                    facts["model"],
                    f"{facts['turns']}{failed}",
                    facts["usage"].format(),
                    facts["state"] + (", last line torn" if torn else ""),
                )
                continue
            folder = to or path.parent
            name = path.name.removesuffix(ENDING)
            if format == "jsonl":
                written = export_jsonl(messages_of(lines), folder, name)
            else:
                written = folder / f"{name}.html"
                write_whole(written, page(lines, torn=torn).encode())
            print(written)
        except (BadRecord, OSError) as error:
            print(f"standby: {error}", file=sys.stderr)
            code = FAILED
    if list:
        Console(soft_wrap=True).print(table)
    return code


def _records(where: Path) -> list[Path] | None:
    if where.is_dir():
        return sorted(where.rglob(f"*{ENDING}"))
    return [where] if where.exists() else None
