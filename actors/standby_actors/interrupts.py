"""Signals that end a program: counted where they arrive, acted upon in the loop.

Of Ctrl-C, of the word to end that a system sends (SIGTERM), and of a terminal that
went away (SIGHUP), the first is an ordered stop and each further one a kill.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Generator, Iterable
from types import FrameType

import trio
from trio.lowlevel import currently_ki_protected

from .block import open_blocks


class Terminated(SystemExit):
    """Raised from :func:`run` after SIGTERM or SIGHUP, once all is left.

    Uncaught, it ends the process with exit status 128 + `signum`, as a shell reports
    a program that the signal ended.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum
        self.code = self.status = 128 + signum

    def __str__(self) -> str:
        return f"ended by {signal.Signals(self.signum).name}"


def signals_to_take() -> tuple[signal.Signals, ...]:
    """Those that nobody handles or ignores, and that this thread may take.

    What is ignored stays ignored: so a program outlives its terminal under nohup.
    """
    if threading.current_thread() is not threading.main_thread():
        return ()
    untouched = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    if hasattr(signal, "SIGHUP"):  # Windows has none
        untouched[signal.SIGHUP] = signal.SIG_DFL
    return tuple(each for each, free in untouched.items() if signal.getsignal(each) is free)


class Interrupts:
    """The signals that a run has received; made in the loop whose `scope` they cancel."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self.times: list[float] = []
        """When each arrived, in seconds of :func:`time.monotonic`."""
        self._first = signal.SIGINT
        self._scope = scope
        self._taken = 0
        self._blocks = open_blocks()
        self._token = trio.lowlevel.current_trio_token()

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if not self.times:
            self._first = signal.Signals(signum)
        is_held = self._taken < len(self.times)
        self.times.append(time.monotonic())
        self._token.run_sync_soon(self._take)
        # The loop has not even seen the one before: somebody holds it.  What cannot
        # be stopped in order is broken, unless it is the runtime's own work.
        if is_held and not currently_ki_protected():
            raise KeyboardInterrupt

    def _take(self) -> None:
        self._taken += 1
        self._scope.cancel(reason="Ctrl-C" if self._first is signal.SIGINT else self._first.name)
        if self._taken > 1:
            for block in list(self._blocks):
                block.kill_all()

    @contextlib.contextmanager
    def installed(self, signals: Iterable[signal.Signals]) -> Generator[None]:
        """Receive `signals`, and give them back."""
        with contextlib.ExitStack() as stack:
            for each in signals:
                stack.callback(signal.signal, each, signal.signal(each, self))
            yield

    def ending(self) -> BaseException:
        """What the program ends with: the first signal decides."""
        if self._first is signal.SIGINT:
            return KeyboardInterrupt()
        return Terminated(self._first)
