"""A check is a command that says whether work is right: reading it is not running it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import trio
from attrs import field, frozen

from standby_actors.process.command import CommandResult, run_command
from standby_actors.result import Result, TurnError, failed, succeeded
from standby_actors.usage import Usage

from .checks import at_least, check_seconds
from .signal import Signal
from .team import Stage, Team
from .trail import Report
from .workplace import OutsideCopy

SECONDS = 120.0
"""What a check may take, unless another number is given."""
KEEP = 8_000
"""Bytes of its output that are kept: the last ones, where a test runner sums up."""

# Both streams in one, so that they stay in the order in which they were written.
_MERGED = 'exec "$@" 2>&1'


class Checked(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a check came to: its output is a report of it.  `ok` says that it ran to its end."""

    passed: bool = False
    """It ended by itself, with exit code 0."""
    code: int | None = None
    """Its exit code; negative: the signal that ended it."""


def _as_command(command: Sequence[str]) -> tuple[str, ...]:
    if isinstance(command, str):
        raise TypeError(f"a command is a program and its arguments, not one text: {command!r}")
    if not command:
        raise ValueError("a command has at least a program")
    return tuple(command)


@frozen(eq=False)
class Check(Team[Checked]):
    """:func:`check` as a member of a team, such as the last of a loop; it reads no task."""

    command: tuple[str, ...] = field(converter=_as_command)
    cwd: str | Path | None = field(default=None, kw_only=True)
    seconds: float = field(default=SECONDS, kw_only=True, validator=check_seconds)
    keep: int = field(default=KEEP, kw_only=True, validator=at_least(1, "bytes"))
    name: str = field(default="check", kw_only=True)
    description: str = field(default="", kw_only=True)

    async def play(self, task: str, stage: Stage, /) -> Checked:
        """Run the command to its end."""
        began = trio.current_time()
        signal = stage.signal
        if signal is not None and signal.error is not None:
            return self._ended(stage, failed(self.name, signal.error))
        if shutil.which(self.command[0]) is None:
            why = f"there is no program {self.command[0]!r} to run"
            return self._ended(stage, failed(self.name, "start_failed", why))
        cwd = self.cwd
        if stage.workplace is not None:
            # In the copy that is to be checked.
            try:
                cwd = stage.workplace.here(self.name, cwd)
            except OutsideCopy as outside:
                return self._ended(stage, failed(self.name, "workspace_denied", str(outside)))
        done = await self._run(signal, cwd)
        seconds = trio.current_time() - began
        usage = Usage(busy_seconds=seconds, wall_seconds=seconds)
        if done is None:
            assert signal is not None
            assert signal.error is not None
            return self._ended(stage, failed(self.name, signal.error, usage=usage))
        if done.timed_out:
            error = TurnError("timeout", f"timed out after {self.seconds:g} s: {done.output}")
            return self._ended(stage, failed(self.name, error, usage=usage))
        how = "passed" if done.ok else f"failed with exit code {done.code}"
        said = f"{' '.join(self.command)}: {how}\n\n{done.output}"
        return self._ended(stage, succeeded(self.name, said, usage=usage, value=done.ok), done)

    async def _run(self, signal: Signal | None, cwd: str | Path | None) -> CommandResult | None:
        """What the command came to; None if the signal has ended it."""
        scope = trio.CancelScope()
        watched = nullcontext() if signal is None else signal.calling(scope.cancel)
        with watched, scope:
            return await run_command(
                ["sh", "-c", _MERGED, "sh", *self.command],
                cwd=cwd,
                timeout=self.seconds,
                keep=self.keep,
            )
        return None

    def _ended(self, stage: Stage, result: Result, done: CommandResult | None = None) -> Checked:
        stage.pool.trail.record(result)
        passed, code = (False, None) if done is None else (done.ok, done.code)
        return stage.report(result, [result], kind=Checked, passed=passed, code=code)


async def check(
    command: Sequence[str],
    *,
    cwd: str | Path | None = None,
    seconds: float = SECONDS,
    keep: int = KEEP,
    signal: Signal | None = None,
) -> Checked:
    """Run a command that says whether work is right.

    A command that fails is no failure of the check: look at `passed`.  It is not `ok`
    if there is no such program, if its time was over, or if it was called off.  When
    this returns, raises or is cancelled, the command and whatever it has started have
    been ended.

    Args:
        command: a program and its arguments; no shell reads them, and its input is closed.
        cwd: where; None for our own working directory.
        seconds: that it may take.
        keep: bytes of its output that are kept, the last ones, both streams in the
            order of writing.
        signal: ends it, once it is set.

    Raises:
        TypeError: the command is one text.
        ValueError: it is empty, or a number is out of its range.
    """
    made = Check(command, cwd=cwd, seconds=seconds, keep=keep)
    return await made.ask("", signal=signal)
