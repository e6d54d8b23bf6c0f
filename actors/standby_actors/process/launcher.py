"""Runs one command and ends everything that it started: a program of its own.

It imports nothing of ours and little of Python's, so that it starts fast:
``python -I -S launcher.py CONTROL HOST COMMAND...``.  CONTROL is the number of an
inherited socket, HOST the process id of whoever holds its other end.

It tells on the socket, a line each: ``started PID``, or ``failed ERRNO``; then
``ended CODE`` (negative: the signal); then, if something outlives the kill,
``left PID PID...``.  It is told, a byte each: ``T``, send the command SIGTERM;
``K``, end everything now.

It ends the whole tree when the command ends, when it is told so, on a signal,
and when its host is gone, however that came.  Every process below it is found,
whatever session or group it has put itself into, because the kernel gives
the orphans among them to the nearest ancestor that asked for them: this one.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36

HOSTLESS_SECONDS = 0.5
"""How long the command may take to end by itself once the host is gone."""
KILL_SECONDS = 10.0
"""How long what was killed may take to be gone; a process in the kernel's hands may not be."""

# What a shell would give its commands: Python ignores or handles these itself.
_DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(control: int, host: int, command: list[str]) -> int:
    """Run `command` to its end, and its tree's."""
    # Ours alone: what we start shall neither speak for us nor keep it open.
    os.set_inheritable(control, False)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        return _fail(control, ctypes.get_errno())
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _hear)
    try:
        # A host that forks hands the socket's other end on, so that its
        # closing is not enough to know that the host is gone.
        watched = os.pidfd_open(host)
    except OSError:
        watched = -1
    if os.getppid() != host:
        return 0
    child = _start(libc, control, command)
    if child < 0:
        return 127
    _tell(control, f"started {child}")
    # What the tree says is between it and the host: we must not hold its pipes open.
    null = os.open(os.devnull, os.O_RDWR)
    for end in (0, 1, 2):
        os.dup2(null, end)
    os.close(null)
    _watch(control, watched, wake, child)
    left = _end_tree(control, wake, child)
    if left:
        _tell(control, "left " + " ".join(map(str, left)))
    return 0


def _hear(number: int, frame: object) -> None:
    """Exist, so that the signal reaches the pipe."""


def _start(libc: ctypes.CDLL, control: int, command: list[str]) -> int:
    """Fork and execute `command`; its process id, or -1 once the failure is told."""
    told, tell = os.pipe()
    launcher = os.getpid()
    child = os.fork()
    if child == 0:
        code = 0
        try:
            # In a session of its own, a `kill 0` of its does not reach us.
            os.setsid()
            # Should somebody kill us, it ends too.  We have one thread, so
            # that this cannot fire because a thread ended.
            libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() == launcher:
                signal.set_wakeup_fd(-1)
                for number in _DEFAULTS:
                    signal.signal(number, signal.SIG_DFL)
                os.execvp(command[0], command)
        except OSError as error:
            code = error.errno or 1
        except ValueError:
            code = 22
        os.write(tell, str(code).encode())
        os._exit(127)
    os.close(tell)
    problem = os.read(told, 16)
    os.close(told)
    if problem:
        os.waitpid(child, 0)
        _fail(control, int(problem))
        return -1
    return child


def _watch(control: int, host: int, wake: int, child: int) -> None:
    """Return when the tree is to end: its command has, or somebody wants it to."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    if host >= 0:
        poll.register(host, select.POLLIN)
    hostless_until = None
    while True:
        if hostless_until is None:
            wait = None
        else:
            wait = max(0.0, (hostless_until - time.monotonic()) * 1000)
        ready = {end for end, _ in poll.poll(wait)}
        if hostless_until is not None and time.monotonic() >= hostless_until:
            return
        leave = host in ready
        if wake in ready:
            numbers = os.read(wake, 512)
            if _reap(control, child):
                return
            leave = leave or any(n != signal.SIGCHLD for n in numbers)
        if control in ready:
            try:
                orders = os.read(control, 64)
            except OSError:
                orders = b""
            if b"K" in orders:
                return
            if b"T" in orders:
                _signal(child, signal.SIGTERM)
            leave = leave or not orders
        if leave and hostless_until is None:
            # Nobody is there to read what it says.  A moment to save its work.
            for end in {control, host} - {-1}:
                poll.unregister(end)
            hostless_until = time.monotonic() + HOSTLESS_SECONDS
            _signal(child, signal.SIGTERM)


def _reap(control: int, child: int) -> bool:
    """Bury whoever is dead; True if `child` is among them, which is then told."""
    ended = False
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if pid == child:
            ended = True
            _tell(control, f"ended {os.waitstatus_to_exitcode(status)}")


def _end_tree(control: int, wake: int, child: int) -> list[int]:
    """Kill every process below us, and those that they start meanwhile; who is left.

    Killing our own children is enough: with each generation that dies, the
    next becomes ours.  A process that forks without end loses, since what is
    dead forks no more, and we look again at once.
    """
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    until = time.monotonic() + KILL_SECONDS
    while True:
        children = _children()
        for pid in children:
            # Still our child, so that its number is nobody else's.
            _signal(pid, signal.SIGKILL)
        _reap(control, child)
        if not children or time.monotonic() > until:
            return children
        if poll.poll(5):
            _hush(os.read, wake, 512)


def _children() -> list[int]:
    """Our children, the dead that nobody buried yet among them."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        pass
    # A kernel without that file: ask every process who its parent is.
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # Its name stands in brackets and may hold anything.
                    parent = file.read().rpartition(b")")[2].split()[1]
            except (OSError, IndexError):
                continue
            if int(parent) == me:
                found.append(int(name))
    return found


def _signal(pid: int, number: int) -> None:
    # Dead already, or another user's: what is left is told at the end.
    _hush(os.kill, pid, number)


def _tell(control: int, text: str) -> None:
    # The host may be gone, or not listen any more.
    _hush(os.write, control, f"{text}\n".encode())


def _hush(call: Callable[..., object], *arguments: object) -> None:
    """`contextlib.suppress(OSError)`, whose import would double our start."""
    try:  # noqa: SIM105 - see above
        call(*arguments)
    except OSError:
        pass


def _fail(control: int, errno: int) -> int:
    _tell(control, f"failed {errno}")
    return 127


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
