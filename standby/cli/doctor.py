"""`standby doctor`: what this machine has for agents, and how the workspace is."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import attrs
import msgspec
import trio
from cyclopts import Parameter

from standby_actors.models import ModelError, default_model
from standby_actors.process import CannotRun, CommandResult, run_command
from standby_actors.session import Capabilities
from standby_supervision.control.errors import UnsafeFolder
from standby_supervision.control.folder import folder_path, open_folder
from standby_supervision.owner import verdict
from standby_supervision.runs.workspace import FOLDER
from standby_supervision.store import RunRow, StoreError, open_store

from . import ANSWERED, FAILED
from .local import missing
from .places import Folder, StoreName
from .text import one_line, plural

if TYPE_CHECKING:
    from rich.console import Console

Grade: TypeAlias = Literal["ok", "note", "error"]
ASK_SECONDS = 15.0
"""How long a program may take to say its version."""
# Programs, what they are to a session, and whose declaration holds of them.
_AGENTS = (
    ("pi", "pi", "PiSession"),
    ("codex", "codex", "CodexSession"),
    ("claude", "claude", "ClaudeSession"),
    ("gemini", "acp", "AcpSession"),
    ("opencode", "acp", "AcpSession"),
    ("claude-agent-acp", "acp", "AcpSession"),
    ("codex-acp", "acp", "AcpSession"),
)


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at."""

    about: str
    """The section, as in "coding agents"."""
    name: str
    grade: Grade
    says: str
    cure: str = ""
    """What to do, where something is to be done."""


async def doctor(
    *,
    folder: Folder = Path("."),
    store: StoreName = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Look at what is here for agents: programs, models, the store of a workspace, leftovers.

    It changes nothing, and asks no model.

    Exit codes: 0 nothing is wrong; 1 something is, and what to do stands beside it.

    Parameters
    ----------
    json
        Print JSON, one object a line.
    """
    findings = [finding async for finding in _findings(folder, store)]
    if json:
        for finding in findings:
            sys.stdout.buffer.write(msgspec.json.encode(finding) + b"\n")
    else:
        from rich.console import Console

        _print(Console(highlight=False, soft_wrap=True), findings)
    return FAILED if any(each.grade == "error" for each in findings) else ANSWERED


async def _findings(folder: Path, store: str | None) -> AsyncGenerator[Finding]:
    yield _machine()
    for finding in await _coding_agents():
        yield finding
    yield _model()
    yield _local_model()
    for finding in await _store(folder, store):
        yield finding
    yield _control()


def _machine() -> Finding:
    said = (
        f"standby {importlib.metadata.version('standby')}, Python {platform.python_version()},"
        f" trio {trio.__version__}, SQLite {sqlite3.sqlite_version}"
    )
    if sys.platform == "linux":
        return Finding("machine", "versions", "ok", said)
    cure = "on Linux process trees end with us also when we are killed; here they may not"
    return Finding("machine", "versions", "note", said, cure)


async def _coding_agents() -> list[Finding]:
    found: dict[str, Finding] = {}

    async def ask(program: str, module: str, session: str) -> None:
        path = shutil.which(program)
        if path is None:
            found[program] = Finding("coding agents", program, "note", "not on the PATH")
            return
        said = _declared(module, session)
        try:
            told = await run_command([path, "--version"], timeout=ASK_SECONDS, keep=2_000)
        except CannotRun as error:
            found[program] = Finding("coding agents", program, "error", str(error))
            return
        found[program] = _found(program, told, said)

    async with trio.open_nursery() as nursery:
        for each in _AGENTS:
            nursery.start_soon(ask, *each)
    return [found[program] for program, _, _ in _AGENTS]


def _found(program: str, told: CommandResult, said: str) -> Finding:
    """What it is worth that a program is there, by how it answered."""
    about, cure = "coding agents", f"see what `{program} --version` says"
    if told.timed_out:
        late = f"said nothing within {ASK_SECONDS:g} s; {said}"
        return Finding(about, program, "note", late, cure)
    # 126 and 127: it is there, and what it needs is not, as a shell has it.
    if told.code is None or told.code < 0 or told.code in (126, 127):
        why = one_line(told.error_output)[-80:] or f"exit code {told.code}"
        return Finding(about, program, "error", why, cure)
    words = (told.output.strip() or told.error_output.strip()) if told.ok else ""
    version = one_line(words.partition("\n")[0])[:40] or "a version it does not tell"
    return Finding(about, program, "ok", f"{version}; {said}")


def _declared(module: str, session: str) -> str:
    """What a session declares, in words; an observation may correct it later."""
    opened = importlib.import_module(f"standby_actors.sessions.{module}")
    fields: Any = attrs.fields(getattr(opened, session))
    can: Capabilities = fields.capabilities.default
    names = ("steer", "follow_up", "resume", "images", "schema")
    said = [name.replace("_", "-") for name in names if getattr(can, name)]
    close = "automatic-close-supported" if can.close else "inventory-only"
    return f"{', '.join(said)}; {close}"


def _model() -> Finding:
    try:
        return Finding("models", "default", "ok", default_model())
    except ModelError as error:
        said = one_line(str(error)).split(":")[0]
        return Finding("models", "default", "note", said, "set STANDBY_MODEL, or a provider's key")


def _local_model() -> Finding:
    away = missing()
    if not away:
        return Finding("models", "local", "ok", "installed: the small model that runs offline")
    return Finding("models", "local", "note", "not installed", "standby local install")


async def _store(folder: Path, store: str | None) -> list[Finding]:
    root, where, findings = _place(folder, store)
    if where is None:
        return findings
    try:
        async with open_store(where) as opened:
            rows = await opened.runs(root)
            problems = await opened.check()
    except StoreError as error:
        return [*findings, Finding("workspace", "store", "error", error.detail, error.advice)]
    cure = "keep a copy of it, and restore one that was whole"
    findings += [Finding("workspace", "store", "error", each, cure) for each in problems]
    if not problems:
        findings.append(Finding("workspace", "store", "ok", f"whole: {opened.where}"))
    return [*findings, *_runs(rows)]


def _place(folder: Path, store: str | None) -> tuple[str, Path | str | None, list[Finding]]:
    """The workspace, its store, and what is to be said of where that lies."""
    root = os.path.realpath(folder)
    if store is not None:
        return root, store, []
    where = folder / FOLDER / "store.db"
    if not where.is_file():
        said = f"none in {folder}: nothing ran durably yet"
        return root, None, [Finding("workspace", "store", "note", said)]
    mode = where.parent.stat().st_mode & 0o777
    if not mode & 0o077:
        return root, where, []
    cure = f"chmod 700 {where.parent}"
    return (
        root,
        where,
        [Finding("workspace", FOLDER, "error", f"others may read it ({mode:o})", cure)],
    )


def _runs(rows: list[RunRow]) -> list[Finding]:
    """How the runs of a workspace are."""
    states = Counter(row.state for row in rows)
    said = ", ".join(f"{number} {state}" for state, number in states.items()) or "none"
    findings = [Finding("workspace", "runs", "ok", said)]
    gone = [row.run for row in rows if row.owner is not None and verdict(row.owner) == "gone"]
    if gone:
        what = f"{plural(len(gone), 'owner')} gone without a word: {gone[0]}"
        findings.append(Finding("workspace", "runs", "note", what, "standby runs"))
    damaged = [row.run for row in rows if row.state == "damaged"]
    if damaged:
        cure = "restore a copy of the store; nothing of it was changed"
        findings.append(Finding("workspace", "runs", "error", f"damaged: {damaged[0]}", cure))
    return findings


def _control() -> Finding:
    try:
        with open_folder(create=False) as folder:
            entries = [] if folder is None else os.listdir(folder)
    except UnsafeFolder as error:
        return Finding("leftovers", "control sockets", "error", str(error))
    sockets = sum(name.endswith(".sock") for name in entries)
    said = f"{plural(sockets, 'socket')} in {folder_path()}" if sockets else "none"
    return Finding("leftovers", "control sockets", "ok", said)


def _print(console: Console, findings: list[Finding]) -> None:
    marks = {"ok": "[green]✓[/]", "note": "[yellow]·[/]", "error": "[bold red]✗[/]"}
    about = ""
    wide = max(len(finding.name) for finding in findings)
    for finding in findings:
        if finding.about != about:
            about = finding.about
            console.print(f"[bold]{about}[/]")
        console.print(f"  {marks[finding.grade]} {finding.name:{wide}}  ", end="")
        console.print(finding.says, markup=False)
        if finding.cure:
            console.print(f"    {'':{wide}}  {finding.cure}", markup=False, style="dim")
    wrong = sum(finding.grade == "error" for finding in findings)
    console.print(f"\n{plural(wrong, 'thing')} to mend" if wrong else "\nnothing is wrong")
