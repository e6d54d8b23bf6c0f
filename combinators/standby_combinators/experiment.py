"""An experiment: models by tasks by repetitions, each a cell that is played once and kept."""

from __future__ import annotations

import hashlib
import inspect
import os
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, cast

import msgspec
import trio
from attrs import define, field

from standby_actors.failure import described
from standby_actors.models import ModelError
from standby_actors.opening import Model
from standby_actors.result import CUT, Result, TurnError, crash_of, failed, succeeded
from standby_actors.usage import Usage

from .checks import check_count
from .durable import try_lock, write_through
from .fan_out import map_concurrent
from .measured import ExperimentCell, ExperimentRow, Key, plot, rows_of, table
from .member import Asked, Member, member_of, name_of
from .options import Options
from .settings import changes, fingerprint, settings_of
from .team import open_stage
from .trail import Report
from .writers import CopiesLike, copies_for, turn_in_copy

if TYPE_CHECKING:
    from rich.table import Table

Judge: TypeAlias = Callable[[ExperimentCell, Result], Any]
"""What a cell came to, as you see it: a bool, or numbers and bools by name.  It may be async."""

_WRITE_SECONDS = 30.0
_NO_DATA = CUT | {"budget"}
_NO_FAULT = frozenset({"provider", "rate_limited", "start_failed", "workspace_denied"})
"""How a cell ends that says nothing of its model, or why: it is played again the next time."""
_MARKS = ("converged", "approved", "decided", "passed", "submitted", "landed")
"""What a Report may say besides `ok`."""


class SettingsChanged(RuntimeError):
    """Raised where cells that are kept were played with other settings; nothing was played."""

    def __init__(self, folder: str, cells: int, what: tuple[str, ...]) -> None:
        super().__init__(folder, cells, what)
        self.folder = folder
        self.cells = cells
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.cells} cells in {self.folder} were played with other settings: "
            f"{'; '.join(self.what)}. Take another folder, or say changed='again', which "
            "plays them again and keeps the old ones beside"
        )


class Experiment(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What an experiment came to: a Result whose steps are its cells.

    `ok` says that every cell was answered; `complete`, that every cell was played. Its
    `usage` is what was spent now, and not what the cells that were kept had cost.
    """

    cells: tuple[ExperimentCell, ...] = ()
    """Those that were played, now or before: model by model, task by task."""
    planned: int = 0
    resumed: int = 0
    """Of the cells, those that had been played before."""
    folder: str = ""
    """Where they are kept; empty for nowhere."""

    @property
    def complete(self) -> bool:
        """All cells were played: it was not called off, and the budget was enough."""
        return len(self.cells) == self.planned

    @property
    def rows(self) -> tuple[ExperimentRow, ...]:
        """What each model came to, in the order of the models."""
        return rows_of(self.cells)

    def table(self) -> Table:
        """The rows as a table of rich: rates with Wilson's interval, means with Student's."""
        return table(self.rows)

    def plot(self, path: str | Path) -> None:
        """Draw the rows into a PNG at `path`, a panel for each rate and each mean.

        Raises:
            ImportError: matplotlib is not installed, which is the extra ``plot``.
            ValueError: no cell was played.
        """
        plot(self.rows, path)


async def experiment(
    member: Member,
    tasks: Sequence[str] | str,
    *,
    models: Mapping[str, str | Model] | Iterable[str] = (),
    repetitions: int = 1,
    judge: Judge | None = None,
    folder: str | Path | None = None,
    changed: Literal["refuse", "again"] = "refuse",
    copies: CopiesLike | None = None,
    concurrency: int = 1,
    shuffle: int | None = None,
    **options: Unpack[Options],
) -> Experiment:
    """Ask `member` every task with every model, several times, and keep what came of each.

    Each cell has a pool, and so subagents, of its own, and fails alone. With a `folder` it is
    written down as soon as it has ended, whole or not at all: an experiment that was killed
    goes on where it was, and has lost at most the cells that were being played.  A cell that
    was called off, for which there was no budget left, or whose provider could not be asked,
    says nothing of its model: it is not kept, and the experiment is not `complete`.

    When this returns, raises or is cancelled, every subagent is closed.

    Args:
        member: who is asked; a team too.
        tasks: what.
        models: their names, or opened ones by a name; none for whatever the member says.
        repetitions: of each task with each model, at least 1.
        judge: says of a cell and its Result what is to be counted besides: a bool is `good`.
            One that fails loses nothing: the cell is not `judged`.
        folder: where cells are kept, a folder each, with its transcripts; None for nowhere.
        changed: what to do with cells that were played with other settings: refuse, or
            play them again, and keep the old ones beside.
        copies: a folder in a git repository: each cell works in a copy of its own.  Its
            patch is kept, and never landed.
        concurrency: cells at the same time, at least 1.
        shuffle: a seed for the order of playing, so that a server's bad hour hits
            every model alike; None for model by model.
        options: about the subagents; see :class:`Options`.

    Raises:
        SettingsChanged: cells that are kept are of another experiment.
        BlockingIOError: another process plays in `folder`.
        CannotCopy: there are to be copies and none can be made.
        ValueError: a number is out of its range, there is no task, or two tasks are the same.
        TypeError: the member cannot be asked.
    """
    who = member_of(member)
    check_count(repetitions, "repetitions")
    check_count(concurrency, "cells at a time")
    if changed not in ("refuse", "again"):
        raise ValueError(f"changed is 'refuse' or 'again', not {changed!r}")
    asked = [tasks] if isinstance(tasks, str) else list(tasks)
    if not asked or len(set(asked)) < len(asked):
        raise ValueError("an experiment has at least 1 task, and no task twice")
    named = dict(models) if isinstance(models, Mapping) else {each: each for each in models}
    if named and options.get("model") is not None:
        raise ValueError("say models= or model=, and not both")
    plan = [
        ExperimentCell(model=model, task=task, place=place, repetition=number)
        for model in named or [""]
        for place, task in enumerate(asked)
        for number in range(1, repetitions + 1)
    ]
    said = settings_of(who) | settings_of(judge, "judge")
    for option in ("lifetime", "timeout", "model"):
        said |= settings_of(options.get(option), option)
    played = _Played(who, named, judge, None if folder is None else Path(folder), said, options)
    async with AsyncExitStack() as stack:
        if played.folder is not None:
            stack.callback(os.close, _own(played.folder))
            played.look(plan, changed)
        stage = await stack.enter_async_context(open_stage(**options))
        if copies is not None:
            played.copies = await stack.enter_async_context(copies_for(copies, stage))
        left = [cell for cell in plan if cell.key not in played.kept]
        if shuffle is not None:
            random.Random(shuffle).shuffle(left)
        await map_concurrent(played.play, left, concurrency)
        ended = [played.kept[cell.key] for cell in plan if cell.key in played.kept]
        steps = [
            played.results[cell.key] if cell.key in played.results else _again(name_of(who), cell)
            for cell in ended
        ]
        steps += played.undone
        fresh = [step for step in steps if id(step) in played.fresh]
        decides = [step for step in steps if not step.ok] or steps[-1:]
        done = stage.report(
            decides[0],
            steps,
            kind=Experiment,
            played=fresh,
            output="\n".join(row.said() for row in rows_of(ended)),
            cells=tuple(ended),
            planned=len(plan),
            resumed=len(ended) - sum(cell.key in played.results for cell in ended),
            folder="" if played.folder is None else str(played.folder),
        )
        if played.folder is not None:
            await write_through(played.folder / "experiment.json", _summary(done))
        return done


@define(eq=False)
class _Played:
    """An experiment in progress."""

    who: Asked
    models: Mapping[str, str | Model]
    judge: Judge | None
    folder: Path | None
    settings: dict[str, str]
    options: Options
    copies: Any = None

    kept: dict[Key, ExperimentCell] = field(init=False, factory=dict[Key, ExperimentCell])
    results: dict[Key, Result] = field(init=False, factory=dict[Key, Result])
    undone: list[Result] = field(init=False, factory=list[Result])
    fresh: set[int] = field(init=False, factory=set[int])
    """Identities of the Results that were paid for now."""

    def look(self, plan: Sequence[ExperimentCell], changed: str) -> None:
        """Take over what was played before, unless that was something else."""
        others: list[tuple[Path, ExperimentCell]] = []
        what: dict[str, None] = {}
        for cell in plan:
            file = self._file(cell)
            try:
                found = msgspec.json.decode(file.read_bytes(), type=ExperimentCell)
            except FileNotFoundError:
                continue
            except msgspec.MsgspecError:
                # Nobody of us wrote that: kept, for whoever wonders.
                file.replace(file.with_suffix(".damaged"))
                continue
            now = self._settings(cell)
            if found.fingerprint == fingerprint(now):
                self.kept[cell.key] = found
            else:
                others.append((file, found))
                what |= dict.fromkeys(changes(found.settings, now))
        if others and changed == "refuse":
            raise SettingsChanged(str(self.folder), len(others), tuple(what))
        for file, found in others:
            file.replace(file.with_suffix(f".{found.fingerprint}.json"))

    async def play(self, cell: ExperimentCell) -> None:
        """Play one cell, and write down what it came to."""
        switch, signal = self.options.get("switch"), self.options.get("signal")
        signal = signal if switch is None else switch.signal
        error: TurnError | None = None if signal is None else signal.error
        patch = ""
        if error is None:
            began = trio.current_time()
            try:
                result, patch = await self._turn(cell)
            # A cell that raises, for it has no model or its member is broken, fails alone.
            except Exception as broken:
                took = trio.current_time() - began
                usage = Usage(wall_seconds=took, busy_seconds=took)
                result = failed(name_of(self.who), _why(_first(broken)), usage=usage)
            self.fresh.add(id(result))
        else:
            result = failed(name_of(self.who), error)
        no_fault = result.error is not None and result.error.kind in _NO_FAULT
        if result.status in _NO_DATA or no_fault:
            self.undone.append(result)
            return
        error = result.error
        try:
            marks = await self._marks(cell, result)
        # Not to lose a cell that is paid for: what its judge is worth is another question.
        except Exception as broken:
            marks = {"ok": result.ok, "judged": False}
            error = TurnError("crash", f"its judge failed: {described(broken)}")
        settings = self._settings(cell)
        done = msgspec.structs.replace(
            cell,
            status=result.status,
            error="" if error is None else str(error),
            output=result.output,
            usage=result.usage,
            marks=marks,
            patch=patch,
            settings=settings,
            fingerprint=fingerprint(settings),
        )
        if self.folder is not None:
            file = self._file(cell)
            file.parent.mkdir(parents=True, exist_ok=True)
            # It has been paid for: a cancellation that comes now does not lose it.
            with trio.move_on_after(_WRITE_SECONDS, shield=True):
                await write_through(file, msgspec.json.format(msgspec.json.encode(done)))
        self.kept[cell.key] = done
        self.results[cell.key] = result

    async def _turn(self, cell: ExperimentCell) -> tuple[Result, str]:
        options = self.options.copy()
        if self.models:
            options["model"] = self.models[cell.model]
        if self.folder is not None and options.get("export_dir") is None:
            options["export_dir"] = self._file(cell).parent
        async with open_stage(**options) as stage:
            if self.copies is None:
                return await stage.turn(self.who, cell.task), ""
            result, place = await turn_in_copy(stage, self.copies, self.who, cell.task)
            if place is None:
                return result, ""
            self.copies.keep([place], "what a cell has changed is not landed")
            return result, self.copies.patches[place].path

    async def _marks(self, cell: ExperimentCell, result: Result) -> dict[str, float | bool]:
        marks: dict[str, float | bool] = {"ok": result.ok}
        marks |= {
            name: value
            for name in _MARKS
            if isinstance(value := getattr(result, name, None), bool)
            and not (name == "landed" and not getattr(result, "patches", ()))
        }
        if self.judge is None:
            return marks
        said = self.judge(cell, result)
        if inspect.isawaitable(said):
            said = await said
        if not isinstance(said, Mapping):
            said = {"good": said}
        for name, value in cast("Mapping[str, Any]", said).items():
            if not isinstance(value, (bool, int, float)):
                raise TypeError(f"a judge answers with bools and numbers, not {name}={value!r}")
            marks[name] = value
        return marks

    def _settings(self, cell: ExperimentCell) -> dict[str, str]:
        return self.settings | {"cell.model": cell.model, "cell.task": cell.task}

    def _file(self, cell: ExperimentCell) -> Path:
        assert self.folder is not None
        task = f"{cell.place + 1}-{_plain(cell.task)}"
        model = _plain(cell.model) or "model"
        if cell.model and model != cell.model:
            # Two names may be plain alike.
            model += f"-{hashlib.sha256(cell.model.encode()).hexdigest()[:6]}"
        return self.folder / model / task / str(cell.repetition) / "cell.json"


def _own(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    lock = try_lock(folder / ".lock")
    if lock is None:
        raise BlockingIOError(f"another process plays an experiment in {folder}")
    return lock


def _again(agent: str, cell: ExperimentCell) -> Result:
    """The Result of a cell that was played before."""
    if cell.status == "ok":
        return succeeded(agent, cell.output, usage=cell.usage)
    why = TurnError("crash", f"{cell.error} (played before)")
    again = failed(agent, why, usage=cell.usage)
    return msgspec.structs.replace(again, status=cell.status, output=cell.output)


def _summary(done: Experiment) -> bytes:
    said = {
        "planned": done.planned,
        "played": len(done.cells),
        "complete": done.complete,
        "rows": done.rows,
    }
    return msgspec.json.format(msgspec.json.encode(said))


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:40]


def _why(error: BaseException) -> TurnError:
    if isinstance(error, ModelError):
        return TurnError("provider", str(error)).with_cause(error)
    return crash_of(error)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        group: BaseExceptionGroup[Any] = error
        error = group.exceptions[0]
    return error
