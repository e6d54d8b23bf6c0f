"""The runtime inside a synchronous program: actors on a loop in a thread."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar, TypeVarTuple, overload

from .door import LATE, ThreadedDoor, raise_what_crashed
from .errors import AskTimeout
from .message import Request
from .nursery import Receives
from .ref import Ref
from .snapshot import Snapshot

M = TypeVar("M")
R = TypeVar("R")
T = TypeVar("T")
Args = TypeVarTuple("Args")


class Host:
    """Actors for a synchronous program: a thread runs them on a trio loop.

    ``with standby.Host() as host: counter = host.spawn(Counter)``.  Every method
    may be called from any thread but the loop's own, and returns when it is
    done.  Refs are handed around as anywhere, and used through the host.

    Leaving is an ordered stop.  It raises what actors crashed with, in an
    ``ExceptionGroup``, as a block does; the first crash stops the others at once,
    and calls after it raise :class:`ActorStopped`.  Ctrl-C while it is left makes
    it a kill.

    Args:
        name: the first part of the paths of its actors.
        shutdown: seconds from leaving to the kill of all that is left.
        grace: seconds from a kill to the report that an actor is stuck.
        debug: whether a ref that is used outside the loop raises :class:`WrongThread`.
    """

    def __init__(
        self,
        *,
        name: str = "host",
        shutdown: float = 30.0,
        grace: float = 1.0,
        debug: bool | None = None,
    ) -> None:
        self._door = ThreadedDoor(name=name, shutdown=shutdown, grace=grace, debug=debug)

    def __enter__(self) -> Host:
        try:
            self._door.open()
            self._door.ready.result()
        # A Ctrl-C, mostly: the block is not entered, so nobody would leave it.
        except BaseException:
            self._door.abandon()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._door.stop()
        try:
            self._wait_for_end()
        except KeyboardInterrupt:
            self._door.kill()
            self._wait_for_end()
            raise
        raise_what_crashed(self._door.ended, error)

    def _wait_for_end(self) -> None:
        self._door.thread.join(self._door.bound)
        if self._door.thread.is_alive():
            raise self._door.stuck()

    def _result(self, future: Future[T], seconds: float | None = None) -> T:
        if threading.current_thread() is self._door.thread:
            future.cancel()
            raise RuntimeError(
                f"this is the loop of {self._door.name} itself: use the ref, and await"
            )
        try:
            return future.result(seconds)
        finally:
            future.cancel()  # interrupted, or out of time: nobody waits any more

    @overload
    def spawn(
        self, actor: Callable[[*Args], Receives[M]], /, *args: *Args, **options: Any
    ) -> Ref[M]: ...
    @overload
    def spawn(self, actor: Callable[[M], object], /, **options: Any) -> Ref[M]: ...
    def spawn(  # type: ignore[misc]  # mypy takes *Args for more than *args accepts
        self, actor: Callable[..., Any], /, *args: Any, **options: Any
    ) -> Ref[Any]:
        """Start an actor at once; arguments and errors are those of :meth:`Nursery.spawn`."""
        door = self._door
        return self._result(door.call(lambda: door.nursery.spawn(actor, *args, **options)))

    @overload
    def start(
        self, actor: Callable[[*Args], Receives[M]], /, *args: *Args, **options: Any
    ) -> Ref[M]: ...
    @overload
    def start(self, actor: Callable[[M], object], /, **options: Any) -> Ref[M]: ...
    def start(  # type: ignore[misc]  # mypy takes *Args for more than *args accepts
        self, actor: Callable[..., Any], /, *args: Any, **options: Any
    ) -> Ref[Any]:
        """Start an actor and wait for its start hook, as :meth:`Nursery.start`."""
        door = self._door
        return self._result(door.run(lambda: door.nursery.start(actor, *args, **options)))

    def tell(self, ref: Ref[M], message: M) -> None:
        """Put `message` into the mailbox, as :meth:`Ref.tell`; returns once it is there."""
        self._result(self._door.call(lambda: ref.tell(message)))

    def send(self, ref: Ref[M], message: M) -> None:
        """Put `message` into the mailbox, waiting for room, as :meth:`Ref.send`."""
        self._result(self._door.run(lambda: ref.send(message)))

    @overload
    def ask(self, ref: Ref[Any], message: Request[R], timeout: float | None = None) -> R: ...
    @overload
    def ask(self, ref: Ref[M], message: M, timeout: float | None = None) -> Any: ...
    def ask(self, ref: Ref[Any], message: Any, timeout: float | None = None) -> Any:
        """Ask, and wait for the answer; errors are those of :meth:`Ref.ask`.

        Interrupted by Ctrl-C while it waits, the question is withdrawn.

        Raises:
            AskTimeout: no answer within `timeout` seconds; where the loop is held,
                a second later.
        """
        future = self._door.ask(ref, message, timeout)
        try:
            return self._result(future, None if timeout is None else timeout + LATE)
        except TimeoutError:
            # The answer may itself be such an error; ours leaves a future without one.
            if timeout is None or not future.cancelled():
                raise
            raise AskTimeout(ref.path, timeout) from None

    @overload
    def submit(
        self, ref: Ref[Any], message: Request[R], timeout: float | None = None
    ) -> Future[R]: ...
    @overload
    def submit(self, ref: Ref[M], message: M, timeout: float | None = None) -> Future[Any]: ...
    def submit(self, ref: Ref[Any], message: Any, timeout: float | None = None) -> Future[Any]:
        """Ask, and return a future of the answer; cancelling it withdraws the question."""
        return self._door.ask(ref, message, timeout)

    def run(self, function: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Call an async function inside the host's block, and wait for what it returns.

        Leaving the host cancels it, and it raises :class:`ActorStopped` here.
        """
        return self._result(self._door.run(lambda: function(*args)))

    def tree(self) -> Snapshot:
        """What is alive in the host."""
        door = self._door
        return self._result(door.call(lambda: door.nursery.tree()))
