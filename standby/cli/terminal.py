"""The terminal that a person sits at: how it is set, and what is typed, read on trio.

It is opened anew, so that what we set on our descriptor (not to block) is not set on
the standard streams, which a shell shares with us.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import trio

from standby_actors.running import last_words

_BRACKETED_PASTE_ON = b"\x1b[?2004h"
_BRACKETED_PASTE_OFF = b"\x1b[?2004l"
_CURSOR_ON = b"\x1b[?25h"
_AWAY = 0.2
"""Seconds between two looks at whether the terminal is ours again."""
_CHUNK = 4_096

# Places in what `tcgetattr` returns.
_IN, _LOCAL, _CHARACTERS = 0, 3, 6


class Terminal:
    """One open terminal; make it with :func:`open_terminal`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before: list[Any] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether we stand in its foreground: nobody else may read it, or change how it is set."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            # It controls nobody, so that there is no background either; or it is gone.
            return os.isatty(self._fd)

    def enter(self) -> bool:
        """Have each key as it is pressed, and none of them shown; False if it is not ours.

        Ctrl-C and Ctrl-Z remain signals.
        """
        if self._before is not None or not self.is_ours:
            return self._before is not None
        try:
            before = termios.tcgetattr(self._fd)
            now = termios.tcgetattr(self._fd)
            now[_LOCAL] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
            # Ctrl-S would hold up our own drawing.
            now[_IN] &= ~termios.IXON
            now[_CHARACTERS][termios.VMIN] = 1
            now[_CHARACTERS][termios.VTIME] = 0
            # A core dump would leave the terminal as it is.
            now[_CHARACTERS][termios.VQUIT] = b"\x00"
            termios.tcsetattr(self._fd, termios.TCSANOW, now)
        except termios.error:
            return False
        self._before = before
        self._write(_BRACKETED_PASTE_ON)
        return True

    def leave(self) -> None:
        """Set it as it was.  Once is enough, more does nothing."""
        before, self._before = self._before, None
        if before is None or not self.is_ours:
            # In the background it is set as the shell wants it.
            return
        self._write(_BRACKETED_PASTE_OFF + _CURSOR_ON)
        with suppress(termios.error):
            termios.tcsetattr(self._fd, termios.TCSANOW, before)

    @contextmanager
    def keys(self) -> Generator[bool]:
        """As :meth:`enter` for the length of the block, however that is left."""
        try:
            yield self.enter()
        finally:
            self.leave()

    async def read(self) -> bytes:
        """What was typed since, at least one byte; empty once it is gone, or at its end.

        In the background nothing is read.  Cancelled, it has read nothing.
        """
        while True:
            if not self.is_ours:
                if not os.isatty(self._fd):
                    return b""
                await trio.sleep(_AWAY)
                continue
            await trio.lowlevel.wait_readable(self._fd)
            if not self.is_ours:
                continue
            try:
                return os.read(self._fd, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                return b""

    def close(self) -> None:
        """Set it as it was, and let it go."""
        self.leave()
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        # A terminal that takes nothing now may lack this order.
        with suppress(OSError):
            os.write(self._fd, data)


@contextmanager
def open_terminal() -> Generator[Terminal | None]:
    """The terminal of whoever called the command, for the length of the block.

    That of the standard input, or else the controlling one; None if there is none.
    When the block is left, it is set as it was.
    """
    flags = os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(_path(), flags)
    except OSError:
        yield None
        return
    terminal = Terminal(fd)
    last_words.append(terminal.leave)
    try:
        yield terminal
    finally:
        last_words.remove(terminal.leave)
        terminal.close()


def _path() -> str:
    try:
        return os.ttyname(sys.stdin.fileno())
    except (AttributeError, OSError, ValueError):
        return "/dev/tty"
