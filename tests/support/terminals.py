"""A program at a terminal of its own: what it draws is read, and keys are pressed."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

PATIENCE = 60.0
"""Seconds that a program has for one thing, also on a busy machine."""

_ORDERS = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")


class AtTerminal:
    """A program that runs; make it with :func:`at_terminal`."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self.raw = ""
        """Everything that it has written, orders to the terminal included."""
        self._seen = 0

    @property
    def text(self) -> str:
        """Everything that it has written, as text."""
        return _ORDERS.sub("", self.raw)

    def until(self, words: str | Callable[[], object]) -> None:
        """Read until `words` are written, or hold, after those of the call before."""
        end = time.monotonic() + PATIENCE
        while True:
            if callable(words):
                if words():
                    return
            else:
                at = self.text.find(words, self._seen)
                if at >= 0:
                    self._seen = at + len(words)
                    return
            if not self._read(end):
                raise AssertionError(f"not seen: {words}\n{self.text[self._seen :][-3000:]}")

    def _read(self, end: float) -> bool:
        """Read what there is; False at the end of the time, or of the program."""
        left = end - time.monotonic()
        if left <= 0:
            return False
        readable, _, _ = select.select([self._master], [], [], min(left, 0.1))
        if not readable:
            return self.process.poll() is None
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # its last end was closed
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)

    def press(self, keys: str) -> None:
        """Press keys, as a terminal sends them."""
        os.write(self._master, keys.encode())

    @property
    def is_set_for_keys(self) -> bool:
        """Whether each key is read as it is pressed, and not shown."""
        local = termios.tcgetattr(self._master)[3]
        return not local & termios.ICANON and not local & termios.ECHO

    @property
    def is_as_before(self) -> bool:
        """Whether it is set as it was, its cursor is shown, and pastes are not marked."""
        local = termios.tcgetattr(self._master)[3]
        cursor = self.raw.rfind("\x1b[?25h") >= self.raw.rfind("\x1b[?25l")
        paste = self.raw.rfind("\x1b[?2004l") >= self.raw.rfind("\x1b[?2004h")
        return bool(local & termios.ICANON and local & termios.ECHO and cursor and paste)

    def ended(self) -> int:
        """Read to its end, and return its exit code; nothing of its group is left."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self._read(end)
        while self._read(time.monotonic() + 0.2) and self.process.poll() is not None:
            readable, _, _ = select.select([self._master], [], [], 0)
            if not readable:
                break
        code = self.process.wait(timeout=1)
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return code
        raise AssertionError("something of its process group is left")

    def hang_up(self) -> None:
        """Take the terminal away."""
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        """Kill what is left."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)


@contextmanager
def at_terminal(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    size: tuple[int, int] = (24, 90),
    stdout: int | None = None,
) -> Generator[AtTerminal]:
    """Run `command` at a terminal that controls it, for the length of the block.

    Args:
        command: a program and its arguments.
        env: its environment; None for our own.
        cwd: where it runs.
        size: lines and columns.
        stdout: where its output goes, if not to the terminal.
    """
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_TERMINAL, *command],
        stdin=slave,
        stdout=slave if stdout is None else stdout,
        stderr=slave,
        env={**(os.environ if env is None else env), "TERM": "xterm-256color"},
        cwd=cwd,
        start_new_session=True,
    )
    os.close(slave)
    program = AtTerminal(process, master)
    try:
        yield program
    finally:
        program.close()


# A session has no terminal until one of its processes takes it.  A shell that starts
# us in the background has Ctrl-C ignored, which is inherited.
_AT_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, as by Ctrl-Z."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def go_on(program: AtTerminal) -> None:
    """Let a stopped program go on, in the foreground."""
    os.killpg(program.process.pid, signal.SIGCONT)
