"""A program that speaks JSON lines: its life, and the frames to and from it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import trio
from attrs import define, field, setters, validators

from ..process import (
    BadLine,
    CannotRun,
    Ended,
    Frame,
    Grace,
    LineReader,
    Process,
    TooLong,
    open_process,
)
from ..process.frames import MAX_LINE
from ..process.nursed import beside
from ..result import ErrorKind, TurnError
from ..sendable import encoded
from ..tools.redact import redact, secrets_of

Direction = Literal[">", "<"]
OnWire: TypeAlias = Callable[[Direction, Frame], None]
"""Sees every frame that goes to the program (">") or comes from it ("<")."""

_OVERFLOW = re.compile(
    r"context_?length|context[ _]?window|prompt is too long|maximum context"
    r"|too many (input )?tokens",
    re.IGNORECASE,
)
_OFTEN = re.compile(r"\b429\b|rate.?limit|overloaded|too many requests", re.IGNORECASE)
_AGAIN = re.compile(r"\b(408|409|425|5\d\d)\b|connection|timed? ?out|high demand|temporar", re.I)
_STDERR_QUOTED = 600
_QUOTED = 400


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long a coding agent is waited for, in seconds."""

    start: float = 60.0
    """From the start of the program to its first answer; node takes seconds on a busy machine."""
    request: float = 60.0
    """For the answer to a request that does no work itself."""
    abort: float = 0.8
    """For a turn to end that was cut from outside; then the program is ended, and replaced."""
    interrupt: float = 5.0
    """For a turn to end that was told to."""
    redirect: float = 15.0
    """For a prompt to end that is cut for another word."""
    failed: float = 10.0
    """Of silence, after the program said that it failed and not that it is done."""
    tool: float = 900.0
    """Of silence, while a tool is at work."""


class RequestFailed(Exception):
    """A request was not answered, or its answer was no; only within a session."""

    def __init__(self, error: TurnError) -> None:
        super().__init__(error)
        self.error = error


@define(eq=False)
class Pending:
    """A request, until its answer has come."""

    answered: trio.Event = field(factory=trio.Event)
    frame: Frame | None = None
    error: TurnError | None = None


@define(eq=False)
class Life:
    """One incarnation of the program."""

    nursery: trio.Nursery
    process: Process
    outbox: trio.MemorySendChannel[Frame]
    pending: dict[str, Pending] = field(factory=dict[str, Pending])
    ours: bool = False
    """We ended it."""
    why: TurnError | None = None
    """Why it is no more."""
    over: trio.Event = field(factory=trio.Event)


SHAPES = (KeyError, TypeError, AttributeError, ValueError, IndexError)
"""What reading a frame raises that has another shape than we know."""


@define(eq=False, kw_only=True)
class Wire:
    """A program and its frames; what they mean is for a subclass to say.

    A program that dies by itself is not replaced.  One that we had to end (it was
    silent, deaf, or out of step) is, when it is next needed, if the new one
    remembers what was said.
    """

    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    resume_flags: tuple[str, ...] = ()
    """What stands before `resume_id` on the command line; () where a request says it."""
    timing: Timing = field(factory=Timing)
    grace: Grace = field(factory=lambda: Grace(eof=1.0, term=1.0, kill=2.0))
    max_line: int = MAX_LINE
    on_wire: OnWire | None = field(default=None, repr=False)
    run: Callable[..., AbstractAsyncContextManager[Any]] = field(default=open_process, repr=False)
    """Starts the program, as :func:`open_process` does."""
    name: str = "the coding agent"
    """As errors call it."""
    resume_id: str = field(
        default="", validator=validators.instance_of(str), on_setattr=setters.validate
    )
    """What the program calls this conversation; empty before it has said so."""
    ignored: int = field(init=False, default=0)
    """Frames that meant nothing to us."""
    noise: int = field(init=False, default=0)
    """Lines that were no frames."""
    late: int = field(init=False, default=0)
    """Answers that came when nobody waited any more."""
    _secrets: frozenset[str] = field(init=False, repr=False)
    _nursery: trio.Nursery | None = field(init=False, default=None, repr=False)
    _life: Life | None = field(init=False, default=None, repr=False)
    _lives: int = field(init=False, default=0, repr=False)
    _ids: int = field(init=False, default=0, repr=False)
    _gone: TurnError | None = field(init=False, default=None, repr=False)
    _closed: bool = field(init=False, default=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._secrets = secrets_of(self.env)

    # ---- what a subclass says

    async def greet(self) -> None:
        """Make the program ready for prompts, going on with `resume_id` if there is one.

        Raises:
            RequestFailed: it is not.
        """
        raise NotImplementedError

    def hear(self, frame: Frame) -> None:
        """Make of a frame what it means."""
        raise NotImplementedError

    def listening(self) -> None:
        """Something has come from the program, whatever it was."""

    def lost(self, why: TurnError) -> None:
        """The program is no more."""

    @property
    def remembers(self) -> bool:
        """A program in its place would know what was said to this one."""
        return True

    # ---- frames

    @property
    def pid(self) -> int | None:
        """Process id of the program; None when there is none."""
        life = self._life
        return None if life is None or life.why is not None else life.process.pid

    def send(self, frame: Frame) -> None:
        """Send a frame; it waits its turn, we do not.  To a program that is gone it is nothing."""
        life = self._life
        if life is not None and life.why is None:
            life.outbox.send_nowait(frame)

    def new_id(self) -> int:
        """A number that no request had."""
        self._ids += 1
        return self._ids

    async def request(self, key: str, frame: Frame, seconds: float | None = None) -> Frame:
        """Send a request and return its answer, whole.

        Raises:
            RequestFailed: it did not come in time, or the program is gone.
        """
        life = self._life
        if life is None or life.why is not None:
            raise RequestFailed(self._dead_error())
        pending = life.pending[key] = Pending()
        self.send(frame)
        limit = self.timing.request if seconds is None else seconds
        try:
            with trio.move_on_after(limit):
                await pending.answered.wait()
        finally:
            life.pending.pop(key, None)
        if pending.error is not None:
            raise RequestFailed(pending.error)
        if pending.frame is None:
            what = frame.get("method") or frame.get("type")
            message = f"{self.name} did not answer {what!r} within {limit:g} s"
            raise RequestFailed(TurnError("timeout", message, True))
        return pending.frame

    def answered(self, key: str, frame: Frame) -> None:
        """An answer came for request `key`."""
        life = self._life
        pending = None if life is None else life.pending.get(key)
        if pending is None:
            self._unasked(key)
            return
        pending.frame = frame
        pending.answered.set()

    def _unasked(self, key: str) -> None:
        """An answer that nobody waits for: too late, or of somebody out of step."""
        if key.isdigit() and 0 < int(key) <= self._ids:
            self.late += 1
            return
        why = f"{self.name} is out of step: it answered a request {key!r} that was never made"
        self.discard(TurnError("protocol", why, True))

    def fault(
        self, message: str, kind: ErrorKind | None = None, *, retryable: bool | None = None
    ) -> TurnError:
        """What went wrong with the model behind it, in the program's words."""
        said = quote(redact(message, self._secrets))
        if kind is None:
            if _OVERFLOW.search(said):
                kind = "context_overflow"
            elif _OFTEN.search(said):
                kind, retryable = "rate_limited", True
            else:
                kind = "provider"
                retryable = bool(_AGAIN.search(said)) if retryable is None else retryable
        return TurnError(kind, f"{self.name}: {said}", bool(retryable))

    def misshapen(self, error: Exception) -> TurnError:
        """What `error`, one of SHAPES, means where an answer was read."""
        why = f"{self.name} gave an answer of a shape unknown to us: {error!r:.200}"
        return TurnError("protocol", why, True)

    # ---- the program

    async def open(self, nursery: trio.Nursery) -> None:
        """Start the program in `nursery`, which it ends with.

        Raises:
            CannotRun: there is no such program.
            RequestFailed: it did not get ready.
        """
        self._nursery = nursery
        await nursery.start(self._live)

    async def ready(self) -> TurnError | None:
        """Have a program that takes prompts; or say why there is none."""
        if self._closed:
            return TurnError("closed", f"{self.name} was closed")
        life = self._life
        if life is not None and life.why is None:
            return None
        if life is not None:
            await life.over.wait()
        if self._gone is not None:
            return self._gone
        assert self._nursery is not None
        try:
            await self._nursery.start(self._live)
        except (CannotRun, RequestFailed) as error:
            why = error.error.message if isinstance(error, RequestFailed) else str(error)
            self._gone = TurnError("dead", f"{self.name} could not be replaced: {why}")
            return self._gone
        return None

    async def _live(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """One life of the program, from its start until nothing of it is left."""
        self._lives += 1
        life: Life | None = None
        command = self.command
        if self.resume_id and self.resume_flags:
            command = (*command, *self.resume_flags, self.resume_id)
        try:
            async with (
                self.run(command, cwd=self.cwd, env=self.env, grace=self.grace) as process,
                beside() as nursery,
            ):
                outbox, inbox = trio.open_memory_channel[Frame](math.inf)
                life = self._life = Life(nursery, process, outbox)
                nursery.start_soon(self._write, process, inbox)
                nursery.start_soon(self._read, life)
                ready = False
                try:
                    with trio.fail_after(self.timing.start):
                        await self.greet()
                    ready = True
                except trio.TooSlowError:
                    why = f"{self.name} was not ready within {self.timing.start:g} s"
                    raise RequestFailed(TurnError("start_failed", why, True)) from None
                except SHAPES as error:
                    raise RequestFailed(self.misshapen(error)) from error
                finally:
                    if not ready:
                        # It has nothing to save, and whoever waits has given up.
                        process.kill()
                task_status.started()
                await trio.sleep_forever()
        finally:
            if life is not None:
                # Whatever it died of was told before; this is us.
                life.ours = life.ours or life.why is None
                self._died(life, life.why or TurnError("dead", f"{self.name} has ended"))
                life.over.set()

    async def _write(self, process: Process, inbox: trio.MemoryReceiveChannel[Frame]) -> None:
        async for frame in inbox:
            if self.on_wire is not None:
                self.on_wire(">", frame)
            try:
                await process.send(encoded(frame) + b"\n")
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                # It does not listen any more; its end is told where it is read.
                return

    async def _read(self, life: Life) -> None:
        lines = LineReader(self.max_line)
        while data := await life.process.receive():
            for line in lines.feed(data):
                self._take(life, line)
                if life.why is not None:
                    return
        for line in lines.end():
            self._take(life, line)
        ended: Ended | None = None
        with trio.move_on_after(self.grace.eof):
            ended = await life.process.wait()
        what = "closed its output and lives on" if ended is None else f"ended {ended}"
        said = quote(redact(life.process.stderr_tail, self._secrets), _STDERR_QUOTED, tail=True)
        message = f"{self.name} {what}" + (f"; it said: {said}" if said else "")
        # To end well without an answer is not a crash, and no answer either.
        kind: ErrorKind = "protocol" if ended == Ended(0) else "crash"
        self._died(life, TurnError(kind, message, True))
        life.nursery.cancel_scope.cancel()

    def _take(self, life: Life, line: Frame | BadLine | TooLong) -> None:
        self.listening()
        if isinstance(line, BadLine):
            self.noise += 1
        elif isinstance(line, TooLong):
            why = f"{self.name} sent a line of more than {line.limit:,} bytes"
            self.discard(TurnError("protocol", why))
        else:
            if self.on_wire is not None:
                self.on_wire("<", line)
            try:
                self.hear(line)
            # A frame of another shape than we know is no reason to end: others follow.
            except SHAPES:
                self.ignored += 1
            # What it meant may be a tool at work, which is waited for longer.
            self.listening()

    def discard(self, why: TurnError) -> None:
        """End the program, because it is of no use; the next ask has another."""
        life = self._life
        if life is None or life.why is not None:
            return
        life.ours = True
        self._died(life, why)
        life.process.kill()
        life.nursery.cancel_scope.cancel()

    def _died(self, life: Life, why: TurnError) -> None:
        if life.why is None:
            life.why = why
        why = life.why
        for pending in life.pending.values():
            pending.error = pending.error or why
            pending.answered.set()
        if not life.ours:
            self._gone = self._gone or self._dead_error()
        elif not self.remembers:
            lost = f"{why.message}; it keeps no conversations, so that what was said is lost"
            self._gone = self._gone or TurnError("dead", lost)
        self.lost(why)

    def _dead_error(self) -> TurnError:
        life = self._life
        why = "" if life is None or life.why is None else f": {life.why.message}"
        return TurnError("dead", f"{self.name} is gone{why}")


def quote(text: str, most: int = _QUOTED, *, tail: bool = False) -> str:
    """`text` in one line of at most `most` characters, without colours.

    Examples:
        >>> quote("\\x1b[31mError:\\x1b[0m  no\\n route", 12)
        'Error: no ro…'
    """
    plain = " ".join(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).split())
    if len(plain) <= most:
        return plain
    return f"…{plain[-most:]}" if tail else f"{plain[:most]}…"
