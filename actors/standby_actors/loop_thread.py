"""A thread that runs one async function on a trio loop of its own."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import trio

T = TypeVar("T")

BEGIN_SECONDS = 5.0
"""How long a thread that was started may take to begin."""


class LoopThread(Generic[T]):
    """Runs `main` on trio in a thread; leaving it cancels what still runs, and waits.

    The thread is a daemon: who gives up waiting for it can still end the process.
    """

    def __init__(self, main: Callable[[], Awaitable[T]], *, name: str) -> None:
        self._main = main
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._started = threading.Event()
        """Set once there is a token, or will be none."""
        self.outcome: Future[T] = Future()
        """What `main` came to, once the thread is about to end."""
        context = contextvars.copy_context()
        self.thread = threading.Thread(
            target=context.run, args=(self._run,), name=name, daemon=True
        )

    def start(self) -> None:
        """Start the thread; `main` begins in it soon."""
        # Whoever cancels the outcome has not cancelled the run.
        self.outcome.set_running_or_notify_cancel()
        self.thread.start()

    def _run(self) -> None:
        try:
            value = trio.run(self._guarded)
        # It is raised again, whatever it is, by whoever asks for the outcome.
        except BaseException as error:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(value)
        finally:
            self._started.set()

    async def _guarded(self) -> T:
        self._token = trio.lowlevel.current_trio_token()
        self._started.set()
        with self._scope:
            return await self._main()
        raise KeyboardInterrupt("who waited for it was interrupted")

    def cancel(self) -> None:
        """Cancel `main`, from any thread; nothing happens where it has ended."""
        self.post(self._scope.cancel)

    def post(self, call: Callable[[], Any]) -> bool:
        """Call `call` in the loop, from any thread; returns False where it has ended."""
        self._started.wait()
        if self._token is None:
            return False
        try:
            self._token.run_sync_soon(call)
        except trio.RunFinishedError:
            return False
        return True

    def result(self) -> T:
        """Wait for the outcome."""
        return self.outcome.result()

    def end(self) -> None:
        """Cancel `main`, if it runs still, and wait for the thread."""
        if not self.outcome.done():
            self.cancel()
        self.thread.join()

    def abandon(self) -> None:
        """End a thread whose start was interrupted: it has begun, or it never will."""
        if self._started.wait(BEGIN_SECONDS):
            self.end()

    def __enter__(self) -> LoopThread[T]:
        try:
            self.start()
        # A Ctrl-C, mostly: the thread may run by now, and nobody would end it.
        except BaseException:
            self.abandon()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
