"""One stream of what happens, for whoever listens; free where nobody does.

Every event has a number, a monotonic and a wall time, and says which
incarnation of which actor it is about.  Stores, displays and telemetry are
independent readers of this stream: a reader that is slow, fails, or is absent
changes nothing for what it reads about.
"""

from __future__ import annotations

import collections
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

logger = logging.getLogger("standby")

BUFFER = 10_000
"""Events that a listener may lag behind before the oldest are dropped for it."""
LINGER = 1.0
"""Seconds that a listener has, after the block it listens to, to take the rest."""


class Event(msgspec.Struct, frozen=True):
    """Something that happened to an actor, or to what a layer above makes of it."""

    seq: int
    """Strictly increasing within one run of trio, from 1."""
    monotonic: float
    """Seconds on trio's clock, virtual in tests."""
    wall: float
    """Seconds since the epoch."""
    type: str
    """What happened: ``actor.spawned``, ``actor.stopped``, ``subagent.text`` …"""
    actor: str
    """Path of the actor."""
    incarnation: int
    """Which life of it, from 1."""
    parent: str
    """Path of its owner; empty for a block's own root."""
    data: Mapping[str, Any]
    """What the type says more."""


Sink = Callable[[Event], object] | Callable[[Event], Awaitable[object]]


class Listener:
    """One reader's view of the stream, with a bounded lag."""

    def __init__(self, buffer: int) -> None:
        self._events: collections.deque[Event] = collections.deque()
        self._buffer = buffer
        self._woken: trio.Event | None = None
        self._closed = False
        self.missed = 0
        """Events dropped because this listener lagged more than its buffer."""
        self.failure: Exception | None = None
        """The error with which its sink failed; it got no event after that."""

    def take(self, event: Event) -> None:
        """Keep `event` for the reader; never waits and never fails."""
        if self._closed:
            return
        if len(self._events) >= self._buffer:
            self._events.popleft()
            self.missed += 1
        self._events.append(event)
        if self._woken is not None:
            self._woken.set()

    def close(self) -> None:
        """Take no event any more; the reader ends after those that are there."""
        self._closed = True
        if self._woken is not None:
            self._woken.set()

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> Event:
        await trio.lowlevel.checkpoint()
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._woken = trio.Event()
            await self._woken.wait()
        return self._events.popleft()


class Stream:
    """The events of one run of trio."""

    __slots__ = ("listeners", "seq")

    def __init__(self) -> None:
        self.seq = 0
        self.listeners: tuple[Listener, ...] = ()

    def emit(
        self,
        type: str,  # noqa: A002 - the name that the event's field has
        actor: str,
        incarnation: int,
        parent: str,
        data: Mapping[str, Any],
    ) -> None:
        """Give an event to every listener.  Call it only where there is one."""
        self.seq += 1
        event = Event(
            self.seq,
            trio.current_time(),
            time.time(),
            type,
            actor,
            incarnation,
            parent,
            data,
        )
        for listener in self.listeners:
            listener.take(event)


_stream: trio.lowlevel.RunVar[Stream] = trio.lowlevel.RunVar("standby events")


def current_stream() -> Stream:
    """The stream of this run of trio."""
    try:
        return _stream.get()
    except LookupError:
        stream = Stream()
        _stream.set(stream)
        return stream


def emit(type: str, actor: str, *, parent: str = "", incarnation: int = 1, **data: Any) -> None:  # noqa: A002 - the name that the event's field has
    """Put an event of a layer above the core on the stream, if anybody listens.

    Args:
        type: what happened, as ``noun.verb``.
        actor: path or id of whom it is about.
        parent: path of its owner.
        incarnation: which life of it.
        data: what else there is to say; values that msgspec can encode.
    """
    stream = current_stream()
    if stream.listeners:
        stream.emit(type, actor, incarnation, parent, data)


@asynccontextmanager
async def open_events(buffer: int = BUFFER) -> AsyncGenerator[Listener]:
    """Read the stream of this run: ``async with open_events() as events: async for …``.

    Leaving the block ends the subscription.  A reader that lags more than
    `buffer` events behind loses the oldest, and :attr:`Listener.missed` counts
    them; who emits never waits.
    """
    stream = current_stream()
    listener = Listener(buffer)
    stream.listeners = (*stream.listeners, listener)
    try:
        yield listener
    finally:
        listener.close()
        stream.listeners = tuple(each for each in stream.listeners if each is not listener)


@asynccontextmanager
async def listen(
    sink: Sink, *, buffer: int = BUFFER, linger: float = LINGER
) -> AsyncGenerator[Listener]:
    """Call `sink` with each event, in order, while the block is open.

    A ``def`` sink runs in a worker thread, an ``async def`` one in a task of its
    own, so a sink that blocks holds nobody up but itself.  One that raises gets
    no further event: the error is logged and kept in :attr:`Listener.failure`.
    Leaving the block gives the sink `linger` seconds to take what is left, then
    leaves without it, and logs that.

    Args:
        sink: called with one :class:`Event`.
        buffer: events that it may lag behind.
        linger: seconds for the rest at the end.
    """
    async with open_events(buffer) as listener, trio.open_nursery() as nursery:
        over = trio.CancelScope()
        nursery.start_soon(_feed, listener, sink, over)
        try:
            yield listener
        finally:
            listener.close()
            over.deadline = trio.current_time() + linger
            # The sink's task is shielded from a cancellation of this block, for
            # these last seconds only: what was recorded is to be seen.
            over.shield = True


async def _feed(listener: Listener, sink: Sink, over: trio.CancelScope) -> None:
    call: Any = sink
    with over:
        try:
            async for event in listener:
                if inspect.iscoroutinefunction(call):
                    await call(event)
                else:
                    await trio.to_thread.run_sync(call, event, abandon_on_cancel=True)
        # A listener is outside what it listens to: its failure is a value here,
        # as an actor's is in its cell, and must not end the program it watches.
        except Exception as error:
            listener.failure = error
            listener.close()
            logger.exception("a listener failed and gets no further events")
    if over.cancelled_caught:
        logger.warning("a listener did not take its last events in time")
