"""Where calls from outside a trio loop cross into it, and answers come back.

What a host offers differs; how a call crosses, is cancelled, and comes too late
does not, and is here.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import trio

from .errors import ActorStopped, MailboxFull
from .kind import checked_seconds
from .loop_thread import LoopThread
from .nursery import Nursery, open_nursery
from .ref import Ref
from .reply import Reply

R = TypeVar("R")
T = TypeVar("T")

logger = logging.getLogger("standby")

LATE = 1.0
"""Seconds over the agreed time after which a caller stops waiting for the loop."""


class Door:
    """The block that is used from outside, and the calls into it.

    Every call becomes a future that is resolved in the loop.  Cancelling it,
    from any thread, cancels what it waits for.  One that comes when the block is
    left is refused with :class:`ActorStopped`.
    """

    def __init__(self, *, name: str, shutdown: float, grace: float, debug: bool | None) -> None:
        self.name = name
        self.shutdown = checked_seconds("shutdown", shutdown)
        self.grace = checked_seconds("grace", grace)
        self._debug = debug
        self.ready: Future[None] = Future()
        """Resolved once calls can cross, or never will."""
        self.ready.set_running_or_notify_cancel()
        self.ended: Future[None] = Future()
        """Resolved once the block is left, with what it raised."""
        self.ended.set_running_or_notify_cancel()
        self.nursery: Nursery
        self._calls: trio.Nursery
        self._waits: trio.Nursery

    def post(self, call: Callable[[], object]) -> bool:
        """Call something in the loop soon, from any thread; False where there is none."""
        raise NotImplementedError

    def settle(self) -> None:
        """Let nothing be left behind, once :attr:`ended` is resolved."""

    @property
    def bound(self) -> float:
        """Seconds in which the block is left, if what its actors wait for can be cancelled."""
        return self.shutdown + 3 * self.grace + LATE

    async def serve(self) -> None:
        """Hold the block open until :meth:`stop`, or a crash, which is raised."""
        nursery = open_nursery(
            name=self.name, shutdown=self.shutdown, grace=self.grace, debug=self._debug
        )
        raised: BaseException | None = None
        # Who waits for an answer stands outside the block: the ordered stop still
        # gives the answers of handlers in progress.  Other calls stand inside.
        async with trio.open_nursery() as self._waits:
            try:
                async with nursery, trio.open_nursery() as self._calls:
                    self.nursery = nursery
                    self.ready.set_result(None)
                    await nursery.join()
                    self._calls.cancel_scope.cancel(reason="the host is left")
            except (ExceptionGroup, KeyboardInterrupt, SystemExit) as error:
                raised = error  # as it is, not in a group of the nursery around it
        if raised is not None:
            raise raised

    def stop(self) -> None:
        """Begin the ordered stop."""
        self.post(lambda: self.nursery.stop())

    def kill(self) -> None:
        """Cancel everything, at once."""
        self.post(lambda: self.nursery.kill())

    def too_late(self) -> ActorStopped:
        """The error of a call that the block takes no more."""
        return ActorStopped(self.name, "its host has stopped, or stops")

    def stuck(self) -> TimeoutError:
        """The error of a block that could not be left in time."""
        return TimeoutError(
            f"{self.name} was not left within {self.bound:g} s: a handler holds its loop, or "
            "waits in a thread that cannot be abandoned"
        )

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Call a plain function in the loop."""
        future: Future[T] = Future()

        def in_loop() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            # It crosses: whoever waits for the future has it raised.
            except Exception as error:
                future.set_exception(error)

        return self._cross(in_loop, future)

    def tell(self, ref: Ref[Any], message: Any) -> bool:
        """Tell, where nobody waits to hear of an error; False where there is no loop."""

        def in_loop() -> None:
            try:
                ref.tell(message)
            except MailboxFull as full:
                logger.warning("a message was not added: %s", full)

        return self.post(in_loop)

    def run(self, function: Callable[[], Awaitable[T]]) -> Future[T]:
        """Call an async function in a task inside the block."""
        future: Future[T] = Future()
        return self._cross(lambda: self._start(self._calls, function, future), future)

    def ask(self, ref: Ref[Any], message: Any, timeout: float | None) -> Future[Any]:
        """Ask; without a task where the answer is there at once."""
        future: Future[Any] = Future()

        def in_loop() -> None:
            if future.cancelled():
                return
            try:
                reply = ref.ask(message, timeout=timeout)
                if reply.done:
                    _resolve(future, reply.result())
                    return
            # It crosses, as above.
            except Exception as error:
                _fail(future, error)
                return
            # Withdrawn at once, not when the task that waits has its turn: the actor
            # may begin before that.
            future.add_done_callback(
                lambda resolved: resolved.cancelled() and self.post(reply.withdraw)
            )
            self._start(self._waits, functools.partial(_wait_for, reply), future)

        return self._cross(in_loop, future)

    def _cross(self, in_loop: Callable[[], object], future: Future[T]) -> Future[T]:
        if not self.post(in_loop):
            _fail(future, self.too_late())
        return future

    def _start(
        self, nursery: trio.Nursery, function: Callable[[], Awaitable[T]], future: Future[T]
    ) -> None:
        scope = trio.CancelScope()

        def withdraw(resolved: Future[T]) -> None:
            if resolved.cancelled():
                self.post(lambda: scope.cancel(reason="its caller was cancelled"))

        try:
            nursery.start_soon(self._task, function, future, scope)
        except RuntimeError:  # it is closed: the block is being left
            _fail(future, self.too_late())
        else:
            future.add_done_callback(withdraw)

    async def _task(
        self, function: Callable[[], Awaitable[T]], future: Future[T], scope: trio.CancelScope
    ) -> None:
        try:
            with scope:
                if future.cancelled():
                    # As trio has it, it runs to its first checkpoint.
                    scope.cancel(reason="its caller was cancelled")
                _resolve(future, await function())
        # It crosses, as above.
        except Exception as error:
            if not _fail(future, error):
                logger.warning(
                    "%s: an error in a call that was cancelled", self.name, exc_info=error
                )
        finally:
            # Whatever it is that passes here is not the caller's; a Cancelled is the stop.
            _fail(future, self.too_late())


class ThreadedDoor(Door):
    """A door to a loop in a thread of its own."""

    def __init__(self, *, name: str, shutdown: float, grace: float, debug: bool | None) -> None:
        super().__init__(name=name, shutdown=shutdown, grace=grace, debug=debug)
        self._thread = LoopThread(self.serve, name=f"standby {name}")
        self.thread = self._thread.thread
        self.ended = self._thread.outcome

    def post(self, call: Callable[[], object]) -> bool:
        return self._thread.post(call)

    def settle(self) -> None:
        self.thread.join()  # the outcome is the last that it has given

    def open(self) -> None:
        """Start the thread; :attr:`ready` says when calls can cross."""
        self.ended.add_done_callback(self._ended_early)
        self._thread.start()

    def abandon(self) -> None:
        """End the thread, where opening was interrupted."""
        self._thread.abandon()

    def _ended_early(self, ended: Future[None]) -> None:
        if not self.ready.done():
            self.ready.set_exception(ended.exception() or self.too_late())


async def _wait_for(reply: Reply[R]) -> R:
    return await reply


def _resolve(future: Future[T], value: T) -> bool:
    """Give `future` its value; returns False where nobody waits for it."""
    if future.done() or not future.set_running_or_notify_cancel():
        return False
    future.set_result(value)
    return True


def _fail(future: Future[Any], error: BaseException) -> bool:
    """Give `future` an error; returns False where nobody waits for it."""
    if future.done() or not future.set_running_or_notify_cancel():
        return False
    future.set_exception(error)
    return True


def raise_what_crashed(ended: Future[None], error: BaseException | None) -> None:
    """Raise what the block raised, together with the `error` of the host's own body.

    What ends the program, or the task, passes alone; then the crash is logged.
    """
    raised = ended.exception()
    if raised is None:
        return
    if error is None:
        raise raised
    if not isinstance(error, Exception):
        logger.error("actors crashed", exc_info=raised)
    elif isinstance(raised, BaseExceptionGroup):
        raise BaseExceptionGroup(raised.message, [*raised.exceptions, error]) from None
    else:
        raise raised
