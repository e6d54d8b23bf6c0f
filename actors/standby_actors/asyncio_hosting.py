"""The runtime inside an asyncio program: beside its loop in a thread, or on it as a guest."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, overload

import outcome
import trio

from .door import Door, ThreadedDoor, raise_what_crashed
from .message import Request
from .nursery import Nursery, Receives
from .ref import Ref
from .snapshot import Snapshot

if TYPE_CHECKING:
    import asyncio

M = TypeVar("M")
R = TypeVar("R")
T = TypeVar("T")
Args = TypeVarTuple("Args")


class AsyncioFace:
    """What asyncio tasks may do with actors, whichever loop runs them.

    Everything begins at the call, and is awaited for its result; cancelling
    that ``await`` withdraws the question, or cancels the call.
    """

    def __init__(self, door: Door) -> None:
        self._door = door

    @overload
    def spawn(
        self, actor: Callable[[*Args], Receives[M]], /, *args: *Args, **options: Any
    ) -> asyncio.Future[Ref[M]]: ...
    @overload
    def spawn(self, actor: Callable[[M], object], /, **options: Any) -> asyncio.Future[Ref[M]]: ...
    def spawn(  # type: ignore[misc]  # mypy takes *Args for more than *args accepts
        self, actor: Callable[..., Any], /, *args: Any, **options: Any
    ) -> asyncio.Future[Any]:
        """Start an actor; arguments and errors are those of :meth:`Nursery.spawn`."""
        door = self._door
        return _as_asyncio(door.call(lambda: door.nursery.spawn(actor, *args, **options)))

    @overload
    def start(
        self, actor: Callable[[*Args], Receives[M]], /, *args: *Args, **options: Any
    ) -> asyncio.Future[Ref[M]]: ...
    @overload
    def start(self, actor: Callable[[M], object], /, **options: Any) -> asyncio.Future[Ref[M]]: ...
    def start(  # type: ignore[misc]  # mypy takes *Args for more than *args accepts
        self, actor: Callable[..., Any], /, *args: Any, **options: Any
    ) -> asyncio.Future[Any]:
        """Start an actor and wait for its start hook, as :meth:`Nursery.start`."""
        door = self._door
        return _as_asyncio(door.run(lambda: door.nursery.start(actor, *args, **options)))

    def tell(self, ref: Ref[M], message: M) -> None:
        """Put `message` into the mailbox soon.  Never waits.

        A mailbox that is full is logged and counted, not raised here:
        ``await host.send(…)`` waits for room.

        Raises:
            ActorStopped: the host has been left.
        """
        if not self._door.tell(ref, message):
            raise self._door.too_late()

    def send(self, ref: Ref[M], message: M) -> asyncio.Future[None]:
        """Put `message` into the mailbox, waiting for room, as :meth:`Ref.send`."""
        return _as_asyncio(self._door.run(lambda: ref.send(message)))

    @overload
    def ask(
        self, ref: Ref[Any], message: Request[R], timeout: float | None = None
    ) -> asyncio.Future[R]: ...
    @overload
    def ask(self, ref: Ref[M], message: M, timeout: float | None = None) -> asyncio.Future[Any]: ...
    def ask(self, ref: Ref[Any], message: Any, timeout: float | None = None) -> asyncio.Future[Any]:
        """Ask; arguments and errors are those of :meth:`Ref.ask`."""
        return _as_asyncio(self._door.ask(ref, message, timeout))

    def run(self, function: Callable[[*Args], Awaitable[T]], *args: *Args) -> asyncio.Future[T]:
        """Call an async function of trio's inside the host's block.

        Leaving the host cancels it, and it raises :class:`ActorStopped` here.
        """
        return _as_asyncio(self._door.run(lambda: function(*args)))

    def tree(self) -> asyncio.Future[Snapshot]:
        """What is alive in the host."""
        door = self._door
        return _as_asyncio(door.call(lambda: door.nursery.tree()))


class AsyncioHost(AsyncioFace):
    """Actors for an asyncio program: a thread runs them on a trio loop.

    ``async with standby.AsyncioHost() as host: await host.ask(ref, message)``,
    in the lifespan of a web application for example.

    Leaving is an ordered stop, as of a :class:`Host`.  It does not hold the
    asyncio loop.  A cancellation meanwhile goes on when it is finished.

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
        self._thread = ThreadedDoor(name=name, shutdown=shutdown, grace=grace, debug=debug)
        super().__init__(self._thread)

    async def __aenter__(self) -> AsyncioHost:
        self._thread.open()
        await _opened(self._door)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await _leave(self._door)
        raise_what_crashed(self._door.ended, error)


class _GuestDoor(Door):
    """A door to a loop that runs as a guest in this thread: calls cross at once."""

    def __init__(self, *, name: str, shutdown: float, grace: float, debug: bool | None) -> None:
        super().__init__(name=name, shutdown=shutdown, grace=grace, debug=debug)
        self._thread = threading.get_ident()
        self._call_soon: Callable[[Callable[[], object]], object]

    def post(self, call: Callable[[], object]) -> bool:
        if self.ended.done():
            return False
        if threading.get_ident() == self._thread:
            call()
        else:
            self._call_soon(call)
        return True

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the guest run on `loop`, which is running in this thread."""
        self._call_soon = loop.call_soon_threadsafe
        trio.lowlevel.start_guest_run(
            self.serve,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=loop.call_soon,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
        )

    def _done(self, result: outcome.Outcome[None]) -> None:
        error = result.error if isinstance(result, outcome.Error) else None
        if not self.ready.done():
            self.ready.set_exception(error or self.too_late())
        if error is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)


class Guest(AsyncioFace):
    """Actors on the asyncio loop itself; see :func:`open_guest`."""

    @property
    def nursery(self) -> Nursery:
        """The block.  It and its refs may be used from asyncio callbacks as they are.

        Only what is awaited must go through the guest: ``await guest.ask(…)``.
        """
        return self._door.nursery


@asynccontextmanager
async def open_guest(
    *, name: str = "guest", shutdown: float = 30.0, grace: float = 1.0, debug: bool | None = None
) -> AsyncGenerator[Guest]:
    """Run actors on the asyncio loop of this task, in its thread, with trio as a guest.

    For programs whose callbacks must touch actors directly, as those of a user
    interface do: ``guest.nursery.spawn(…)`` and ``ref.tell(…)`` work there.
    Each step of trio's costs about three times as much as on a loop of its own,
    and a handler that holds the loop holds asyncio too; else take an
    :class:`AsyncioHost`.  One guest at a time fits on a loop.

    Leaving is an ordered stop, as of an :class:`AsyncioHost`, whose arguments it has.
    """
    import asyncio  # who calls this has it; `import standby` does not

    door = _GuestDoor(name=name, shutdown=shutdown, grace=grace, debug=debug)
    door.open(asyncio.get_running_loop())
    await _opened(door)
    error: BaseException | None = None
    try:
        yield Guest(door)
    # It is raised again below, with what crashed.
    except BaseException as raised:
        error = raised
    await _leave(door)
    raise_what_crashed(door.ended, error)
    if error is not None:
        raise error


def _as_asyncio(future: Future[T]) -> asyncio.Future[T]:
    import asyncio  # as above

    return asyncio.wrap_future(future)


async def _opened(door: Door) -> None:
    """Wait until calls can cross.  Cancelled meanwhile, it leaves nothing behind."""
    import asyncio  # as above

    try:
        await _finished(door.ready)
        door.ready.result()
    except asyncio.CancelledError:
        await _leave(door)
        raise


async def _leave(door: Door) -> None:
    """Stop in order, and wait for the end of it, however often this task is cancelled."""
    import asyncio  # as above

    door.stop()
    try:
        if not await _finished(door.ended, door.bound):
            raise door.stuck()
    except asyncio.CancelledError as error:
        if door.ended.done():
            raise_what_crashed(door.ended, error)
        raise
    finally:
        if door.ended.done():
            door.settle()


async def _finished(future: Future[Any], seconds: float | None = None) -> bool:
    """Wait until `future` is resolved; returns whether it is.

    A cancellation is raised once it is, or the time is up.
    """
    import asyncio  # as above

    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    future.add_done_callback(lambda _: loop.call_soon_threadsafe(event.set))
    end = None if seconds is None else loop.time() + seconds
    cancelled: asyncio.CancelledError | None = None
    waiting = loop.create_task(event.wait())
    while not waiting.done() and (end is None or loop.time() < end):
        try:
            await asyncio.wait({waiting}, timeout=None if end is None else end - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
    waiting.cancel()
    if cancelled is not None:
        raise cancelled
    return future.done()
