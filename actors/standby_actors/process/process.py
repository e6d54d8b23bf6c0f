"""A child process whose whole tree ends with the block that opened it.

ProcessError
└── CannotRun     the program is not there, or may not be run
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec
import trio
from attrs import define, field

from ..agent_checks import nearest
from .environment import child_environment
from .nursed import beside

LAUNCHER = Path(__file__).with_name("launcher.py")
MARK = "STANDBY_TREE"
"""The variable by which a tree is known whose launcher was killed."""
START_SECONDS = 30.0
"""How long the machine may take to start a program."""
BURY_SECONDS = 3.0
"""How long a launcher may take to end, once all is done."""

_NEAR = 0.7
"""How alike a name must be to be told: among all programs of a machine there is always one."""
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)


class ProcessError(Exception):
    """Base of what is wrong with a child process."""


class CannotRun(ProcessError):
    """Raised when a program cannot be started; nothing of it is left."""

    def __init__(self, program: str, why: str) -> None:
        super().__init__(program, why)
        self.program = program
        self.why = why

    def __str__(self) -> str:
        return f"cannot run {self.program!r}: {self.why}"


class Grace(msgspec.Struct, frozen=True):
    """How long a process may take over its end, in seconds, one after the other."""

    eof: float = 2.0
    """After its input was closed."""
    term: float = 2.0
    """After SIGTERM."""
    kill: float = 2.0
    """After SIGKILL to its whole tree, for the tree to be gone."""


class Ended(msgspec.Struct, frozen=True):
    """How a process ended."""

    code: int | None
    """Its exit code; negative: the signal; None when its launcher was killed and nobody knows."""

    def __str__(self) -> str:
        if self.code is None:
            return "for an unknown reason"
        if self.code >= 0:
            return f"with exit code {self.code}"
        try:
            return f"by {signal.Signals(-self.code).name}"
        except ValueError:
            return f"by signal {-self.code}"


class _Tree(Protocol):
    """A process and everything that it started."""

    @property
    def pid(self) -> int: ...
    async def watch(self, ended: Callable[[Ended], None]) -> None:
        """Return when the whole tree is gone; say before when its command has ended."""
        ...

    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    async def bury(self) -> None: ...


@define(eq=False)
class _Launched:
    """A tree below a launcher that ends it, also when we are killed."""

    popen: trio.Process
    control: trio.SocketStream
    mark: str
    pid: int = 0
    _ended: bool = field(init=False, default=False)
    _rest: bytes = field(init=False, default=b"")

    async def started(self) -> int | None:
        """Wait until the command runs; the error number if it cannot."""
        line = await self._line()
        word, _, number = line.partition(" ")
        if word == "failed":
            return int(number)
        if word != "started":
            raise CannotRun(sys.executable, "its launcher ended before it started anything")
        self.pid = int(number)
        return None

    async def watch(self, ended: Callable[[Ended], None]) -> None:
        while line := await self._line():
            word, _, rest = line.partition(" ")
            if word == "ended":
                self._ended = True
                ended(Ended(int(rest)))
        await self.popen.wait()
        if not self._ended:
            # Somebody killed the launcher, and what it kept is without a keeper.
            await trio.to_thread.run_sync(end_marked, self.mark)
            ended(Ended(None))

    def terminate(self) -> None:
        self._order(b"T")

    def kill(self) -> None:
        self._order(b"K")

    def _order(self, order: bytes) -> None:
        # A byte into an empty socket never waits.
        with suppress(OSError):
            os.write(self.control.socket.fileno(), order)

    async def bury(self) -> None:
        # It may be in the middle of the start, where a kill of the launcher
        # would leave a child behind that knows of nobody.
        self.kill()
        with trio.move_on_after(BURY_SECONDS):
            await self.popen.wait()
        if self.popen.returncode is None:
            self.popen.kill()
            await self.popen.wait()
            await trio.to_thread.run_sync(end_marked, self.mark)
        await self.control.aclose()

    async def _line(self) -> str:
        while b"\n" not in self._rest:
            try:
                data = await self.control.receive_some(4096)
            except _BROKEN:
                data = b""
            if not data:
                return ""
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()


@define(eq=False)
class _Grouped:
    """A tree where there is no launcher: the process and its group, and no more.

    What leaves the group, as tools of coding agents do, outlives it, and so
    does everything when we are killed.
    """

    popen: trio.Process

    @property
    def pid(self) -> int:
        return self.popen.pid

    async def watch(self, ended: Callable[[Ended], None]) -> None:
        code = await self.popen.wait()
        ended(Ended(code))
        self.kill()

    def terminate(self) -> None:
        self.popen.terminate()

    def kill(self) -> None:
        with suppress(OSError):
            if sys.platform == "win32":
                self.popen.kill()
            else:
                os.killpg(self.popen.pid, signal.SIGKILL)

    async def bury(self) -> None:
        self.popen.kill()
        await self.popen.wait()


@define(eq=False)
class Process:
    """A running command; :func:`open_process` opens one."""

    command: tuple[str, ...]
    grace: Grace
    _tree: _Tree = field(repr=False)
    _stdin: trio.abc.SendStream = field(repr=False)
    _stdout: trio.abc.ReceiveStream = field(repr=False)
    _stderr: trio.abc.ReceiveStream = field(repr=False)
    _keep: int = field(repr=False)
    ended: Ended | None = field(init=False, default=None)
    """How the command ended; None while it runs."""
    _over: trio.Event = field(init=False, factory=trio.Event, repr=False)
    _gone: trio.Event = field(init=False, factory=trio.Event, repr=False)
    _ending: trio.Event = field(init=False, factory=trio.Event, repr=False)
    _tail: deque[bytes] = field(init=False, factory=deque[bytes], repr=False)
    _tail_bytes: int = field(init=False, default=0, repr=False)
    _ears: trio.CancelScope = field(
        init=False, factory=lambda: trio.CancelScope(shield=True), repr=False
    )

    @property
    def pid(self) -> int:
        """Process id of the command."""
        return self._tree.pid

    @property
    def gone(self) -> bool:
        """Nothing of the tree is left."""
        return self._gone.is_set()

    @property
    def stderr_tail(self) -> str:
        """The last of what was written to stderr, at most `stderr_keep` bytes of it."""
        data = b"".join(self._tail)[-self._keep :] if self._keep else b""
        return data.decode("utf-8", "replace")

    async def send(self, data: bytes) -> None:
        """Write `data` to its input, waiting until it has been taken.

        Cancelled, part of it may have been written.

        Raises:
            trio.BrokenResourceError: it does not read any more.
            trio.ClosedResourceError: its input was closed.
        """
        await self._stdin.send_all(data)

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """The next of its output, at most `max_bytes`; empty at its end."""
        try:
            return bytes(await self._stdout.receive_some(max_bytes))
        except _BROKEN:
            return b""

    async def close_stdin(self) -> None:
        """Tell it that nothing more comes."""
        await self._stdin.aclose()

    def terminate(self) -> None:
        """Ask the command to end: SIGTERM."""
        self._tree.terminate()

    def kill(self) -> None:
        """End the whole tree at once."""
        self._tree.kill()

    async def wait(self) -> Ended:
        """Wait until the command ends; what it left behind is then being killed."""
        await self._over.wait()
        assert self.ended is not None
        return self.ended

    # ---- what runs beside the block

    async def attend(self) -> None:
        """Watch and listen until it is buried; for :func:`open_process`."""
        # Shielded, since the end is watched also when the block is cancelled;
        # bounded, since `bury` ends it.
        with self._ears:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                nursery.start_soon(self._listen)
                nursery.start_soon(self._drain)

    async def _watch(self) -> None:
        await self._tree.watch(self._hear_end)
        self._gone.set()

    def _hear_end(self, ended: Ended) -> None:
        self.ended = ended
        self._over.set()

    async def _listen(self) -> None:
        while data := await _some(self._stderr):
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._keep:
                self._tail_bytes -= len(self._tail.popleft())

    async def _drain(self) -> None:
        await self._ending.wait()
        # One that waits for us to read would not notice that it is to end.
        with suppress(trio.BusyResourceError):
            while await _some(self._stdout):
                pass

    async def end(self) -> None:
        """See the tree to its end, each step when the one before was not enough."""
        self._ending.set()
        with trio.move_on_after(self.grace.eof):
            with suppress(*_BROKEN):
                await self._stdin.aclose()
            await self._over.wait()
        if not self._over.is_set():
            self.terminate()
            with trio.move_on_after(self.grace.term):
                await self._over.wait()
        if not self._gone.is_set():
            self.kill()
            with trio.move_on_after(self.grace.kill):
                await self._gone.wait()

    async def bury(self) -> None:
        """Let go of everything; for :func:`open_process`."""
        self._ears.cancel()
        for stream in (self._stdin, self._stdout, self._stderr):
            await stream.aclose()
        await self._tree.bury()
        if self.ended is None:
            self._hear_end(Ended(None))


async def _some(stream: trio.abc.ReceiveStream) -> bytes:
    try:
        return bytes(await stream.receive_some(65_536))
    except _BROKEN:
        return b""


@asynccontextmanager
async def open_process(
    command: Sequence[str],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    grace: Grace | None = None,
    stderr_keep: int = 65_536,
    contained: bool | None = None,
) -> AsyncGenerator[Process]:
    """Run `command` for as long as the block lasts.

    When the block is left, also by a cancellation, its input is closed; then
    it is sent SIGTERM; then its whole tree is killed: each after the grace
    before it, so that leaving takes at most their sum and a second.  On Linux
    the tree is everything that it started, in whatever session or group, and it
    ends also when this process is killed.  Elsewhere it is its process group,
    and nothing ends it when we are killed.

    Args:
        command: a program, found on the PATH of `env`, and its arguments.
        cwd: its working directory; None for ours.
        env: its environment, whole; None for :func:`child_environment`.
        grace: how long each step of its end may take; None for the defaults.
        stderr_keep: bytes of its stderr that are kept, the latest.
        contained: False: only the promise of systems that are not Linux.

    Raises:
        CannotRun: there is no such program, or it may not be run.
    """
    environment = dict(child_environment() if env is None else env)
    argv = (*command,)
    program = _find(argv[0], environment, cwd)
    if contained is None:
        contained = sys.platform == "linux" and bool(sys.executable)
    argv = (program, *argv[1:])
    popen, tree = await (_launch if contained else _group)(argv, cwd, environment)
    assert popen.stdin is not None
    assert popen.stdout is not None
    assert popen.stderr is not None
    grace = grace or Grace()
    process = Process(argv, grace, tree, popen.stdin, popen.stdout, popen.stderr, stderr_keep)
    async with beside() as nursery:
        try:
            if isinstance(tree, _Launched):
                with trio.fail_after(START_SECONDS):
                    number = await tree.started()
                if number is not None:
                    raise CannotRun(argv[0], os.strerror(number))
            nursery.start_soon(process.attend)
            try:
                yield process
            finally:
                until = trio.current_time() + grace.eof + grace.term + grace.kill + 1
                with trio.CancelScope(deadline=until, shield=True):
                    await process.end()
        finally:
            with trio.CancelScope(deadline=trio.current_time() + 2 * BURY_SECONDS, shield=True):
                await process.bury()


async def _launch(
    argv: tuple[str, ...], cwd: str | Path | None, env: dict[str, str]
) -> tuple[trio.Process, _Tree]:
    ours, theirs = socket.socketpair()
    mark = secrets.token_hex(12)
    launcher = (sys.executable, "-I", "-S", str(LAUNCHER), str(theirs.fileno()), str(os.getpid()))
    try:
        popen = await _popen((*launcher, *argv), cwd, {**env, MARK: mark}, theirs.fileno())
    except BaseException:  # closed, and raised again
        ours.close()
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return popen, _Launched(popen, trio.SocketStream(trio.socket.from_stdlib_socket(ours)), mark)


async def _group(
    argv: tuple[str, ...], cwd: str | Path | None, env: dict[str, str]
) -> tuple[trio.Process, _Tree]:
    popen = await _popen(argv, cwd, env)
    return popen, _Grouped(popen)


async def _popen(
    argv: tuple[str, ...], cwd: str | Path | None, env: dict[str, str], *passed: int
) -> trio.Process:
    try:
        return await trio.lowlevel.open_process(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            pass_fds=passed,
            # Ctrl-C of a terminal is ours: we end it in order.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CannotRun(argv[0], str(error)) from error


def _find(program: str, env: Mapping[str, str], cwd: str | Path | None) -> str:
    """The file of `program`.

    Raises:
        CannotRun: there is none, or there is no directory to run it in.
    """
    if cwd is not None and not os.path.isdir(cwd):
        raise CannotRun(program, f"there is no directory {str(cwd)!r} to run it in")
    if os.sep in program:
        # As the child would read it, which starts in `cwd`.
        path = os.path.join(cwd or "", program)
        if not os.path.exists(path):
            raise CannotRun(program, os.strerror(errno.ENOENT))
        if os.path.isdir(path) or not os.access(path, os.X_OK):
            raise CannotRun(program, os.strerror(errno.EACCES))
        return os.path.abspath(path)
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None:
        near = nearest(program, _programs(env.get("PATH", os.defpath)), _NEAR)
        there = f", where the nearest name is {near!r}" if near else ""
        raise CannotRun(program, f"it is not on the PATH{there}; install it, or give its path")
    return os.path.abspath(found)


def _programs(path: str) -> set[str]:
    """The names of what may be run from the directories of `path`."""
    names: set[str] = set()
    for directory in path.split(os.pathsep):
        with suppress(OSError):
            names.update(each.name for each in os.scandir(directory or ".") if _may_run(each))
    return names


def _may_run(entry: os.DirEntry[str]) -> bool:
    return entry.is_file() and os.access(entry.path, os.X_OK)


def end_marked(mark: str, seconds: float = 5.0) -> None:
    """Kill every process whose environment carries `mark`, and those that they start meanwhile.

    Linux only.  One that changed its environment is not found, and after
    `seconds` it looks no more for those that the kernel does not let die.
    """
    wanted = f"{MARK}={mark}".encode()
    until = time.monotonic() + seconds
    clean = 0
    # Twice: one that was being started while we looked is seen the next time.
    while clean < 2 and time.monotonic() < until:
        clean += 1
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with suppress(OSError):
                # Through a descriptor: the number may be another's by now.
                process = os.pidfd_open(int(name))
                try:
                    if wanted in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                        signal.pidfd_send_signal(process, signal.SIGKILL)
                        clean = 0
                finally:
                    os.close(process)
