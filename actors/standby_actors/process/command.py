"""A short command, run to its end: what it wrote, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import trio
from attrs import define, field

from .process import Grace, Process, open_process

KEEP = 64 * 1024
"""Bytes of the output that are kept."""

_GRACE = Grace(eof=0.0, term=0.5, kill=2.0)
_HELD_SECONDS = 1.0


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended, and the last of what it wrote."""

    code: int | None
    """Its exit code; negative: the signal that ended it; None when nobody knows."""
    output: str
    """The end of what it wrote to stdout; what is not UTF-8 is replaced."""
    error_output: str
    """The end of what it wrote to stderr."""
    dropped: int = 0
    """Bytes of stdout before `output`, which were not kept."""
    timed_out: bool = False
    """It was ended because its time was over."""

    @property
    def ok(self) -> bool:
        """It ended by itself, with exit code 0."""
        return self.code == 0 and not self.timed_out


@define(eq=False)
class _Tail:
    """The last `keep` bytes of a stream, and how many there were."""

    keep: int
    total: int = 0
    _data: bytearray = field(init=False, factory=bytearray)

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self._data += data
        # Cut now and then, so that each byte is moved once at most.
        if len(self._data) > 2 * self.keep + 65_536:
            del self._data[: len(self._data) - self.keep]

    @property
    def data(self) -> bytes:
        return bytes(self._data[max(0, len(self._data) - self.keep) :])


async def run_command(
    command: Sequence[str],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes = b"",  # noqa: A002 - named as in subprocess
    timeout: float | None = 60.0,  # noqa: ASYNC109 - a deadline is an answer here, not an error
    keep: int = KEEP,
) -> CommandResult:
    """Run `command` to its end, and end whatever it left running.

    The whole output is read, and its last `keep` bytes are kept.  Cancelled, it
    ends the command and everything that it started before it passes the
    cancellation on, in at most 3.5 seconds.

    Args:
        command: a program and its arguments; no shell reads them.
        cwd: where; None for our own working directory.
        env: its environment, whole; None for the allow-list.
        input: what it reads; then its input is closed.
        timeout: seconds that it may take; None for no limit.
        keep: bytes kept of stdout, and of stderr.

    Raises:
        CannotRun: there is no such program, or it may not be run.
    """
    if keep < 0:
        raise ValueError(f"keep is 0 bytes or more, not {keep}")
    tail = _Tail(keep)
    timed_out = True
    async with open_process(command, cwd=cwd, env=env, grace=_GRACE, stderr_keep=keep) as process:
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_read, process, tail)
                nursery.start_soon(_write, process, input)
                await process.wait()
                # Its tree is being killed, so that its output ends; but for
                # one that nobody can kill.
                nursery.cancel_scope.deadline = trio.current_time() + _HELD_SECONDS
            timed_out = False
    ended = process.ended
    assert ended is not None
    text = tail.data.decode("utf-8", "replace")
    dropped = max(0, tail.total - keep)
    return CommandResult(ended.code, text, process.stderr_tail, dropped, timed_out)


async def _read(process: Process, tail: _Tail) -> None:
    while data := await process.receive():
        tail.add(data)


async def _write(process: Process, data: bytes) -> None:
    try:
        await process.send(data)
        await process.close_stdin()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        # It reads less than it was given, which is its right.
        pass
