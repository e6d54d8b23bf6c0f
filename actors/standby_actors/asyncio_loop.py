"""One asyncio loop in a thread, for libraries that run nowhere else."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, TypeVar

import outcome
import trio
from attrs import define, field

T = TypeVar("T")
logger = logging.getLogger("standby")

GRACE_SECONDS = 5.0
"""How long a call that was cancelled may clean up before nobody waits for it."""
END_SECONDS = 5.0
"""How long the loop may take to end."""


class AsyncioLoop:
    """An asyncio loop that trio tasks call into; get one from :func:`open_asyncio_loop`."""

    # A Ctrl-C in here would leave a thread that nobody knows.
    @trio.lowlevel.enable_ki_protection
    def __init__(self) -> None:
        self.users = 0
        self._token = trio.lowlevel.current_trio_token()
        self._loop = asyncio.new_event_loop()
        self._ended = trio.Event()
        self._thread = threading.Thread(target=self._serve, name="standby asyncio", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=GRACE_SECONDS))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
            self.to_trio(self._ended.set)

    def to_trio(self, call: Callable[..., object], *args: Any) -> None:
        """Call `call` in trio's thread, in order; from the loop's."""
        with suppress(trio.RunFinishedError):  # then nobody is there to be told
            self._token.run_sync_soon(call, *args)

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        """Run the coroutine that `make` makes, in the loop, and return what it returns.

        Cancelled, it has cancelled the coroutine and waited for its clean-up, for
        at most 5 s; one that goes on then is left behind, and logged.
        """
        call: _Call[T] = _Call(self)
        self._loop.call_soon_threadsafe(call.begin, make)
        try:
            await call.over.wait()
        except trio.Cancelled:
            self._loop.call_soon_threadsafe(call.cancel)
            with trio.CancelScope(shield=True, deadline=trio.current_time() + GRACE_SECONDS):
                await call.over.wait()
            if not call.over.is_set():
                logger.error("a call into asyncio goes on %g s after its cancel", GRACE_SECONDS)
            raise
        assert call.came_to is not None
        return call.came_to.unwrap()

    async def end(self) -> None:
        """Cancel what is left in the loop, and end its thread; bounded, also when cancelled."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + END_SECONDS) as scope:
            await self._ended.wait()
            # It has nothing more to do, so that this takes no time.
            await trio.to_thread.run_sync(self._thread.join)
        if scope.cancelled_caught:
            logger.error("the asyncio loop did not end within %g s", END_SECONDS)


@define(eq=False)
class _Call(Generic[T]):
    """One call from trio into the loop."""

    loop: AsyncioLoop
    over: trio.Event = field(factory=trio.Event)
    came_to: outcome.Outcome[T] | None = None
    _task: asyncio.Task[T] | None = None

    def begin(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._task = asyncio.get_running_loop().create_task(make())
        self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            error: BaseException | None = asyncio.CancelledError()
        else:
            error = task.exception()
        came_to = outcome.Value(task.result()) if error is None else outcome.Error(error)
        self.loop.to_trio(self._tell, came_to)

    def _tell(self, came_to: outcome.Outcome[T]) -> None:
        self.came_to = came_to
        self.over.set()


_shared: trio.lowlevel.RunVar[AsyncioLoop | None] = trio.lowlevel.RunVar("standby asyncio loop")


@asynccontextmanager
async def open_asyncio_loop() -> AsyncGenerator[AsyncioLoop]:
    """The one asyncio loop of this run of trio: started for its first user, ended by its last."""
    loop = _shared.get(None)
    if loop is None:
        loop = AsyncioLoop()
        _shared.set(loop)
    loop.users += 1
    try:
        yield loop
    finally:
        loop.users -= 1
        if loop.users == 0:
            _shared.set(None)
            await loop.end()
