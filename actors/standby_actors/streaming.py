"""A turn as it happens: its events one by one, then its Result."""

from __future__ import annotations

import collections
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

import trio

from .result import Result
from .session import SessionEvent, TextDelta

_LOOSE = 256
"""Events that may wait before the pieces of a text are put together."""


class Stream:
    """Yields the events of one turn: ``async for event in subagent.stream(task)``.

    The turn begins when the first event is asked for.  After the last event,
    :attr:`result` is what the turn came to.  It is played by the subagent's own
    block, so that a reader who dawdles holds up nothing: pieces of text that
    nobody has read yet are put together, and no other event is dropped.

    A loop that is left early lets the turn go on.  In ``async with
    subagent.stream(task) as events`` leaving the block cuts it.
    """

    def __init__(
        self,
        play: Callable[[Callable[[SessionEvent], None]], Coroutine[Any, Any, Result]],
        begin: Callable[[Callable[[], Coroutine[Any, Any, None]]], object],
    ) -> None:
        self._play = play
        self._begin = begin
        self._events: collections.deque[SessionEvent] = collections.deque()
        self._news = trio.Event()
        self._scope = trio.CancelScope()
        self._is_begun = False
        self._over = trio.Event()
        self._result: Result | None = None
        self._error: BaseException | None = None

    @property
    def result(self) -> Result:
        """What the turn came to.

        Raises:
            RuntimeError: it is not over, or it was cut by leaving the block.
        """
        if self._result is None and self._scope.cancel_called:
            raise RuntimeError("the turn was cut: its block was left before its events ended")
        if self._result is None:
            raise RuntimeError("the turn is not over: read its events to the end first")
        return self._result

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> SessionEvent:
        if not self._is_begun:
            self._is_begun = True
            self._begin(self._run)
        while not self._events:
            if self._over.is_set():
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._news = trio.Event()
            await self._news.wait()
        return self._events.popleft()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_begun and not self._over.is_set():
            self._scope.cancel()
            # Bounded: a turn that is cut is given up after its grace.
            with trio.CancelScope(shield=True):
                await self._over.wait()

    async def _run(self) -> None:
        try:
            with self._scope:
                self._result = await self._play(self._hear)
        # Not swallowed: whoever reads the events gets it at their end.
        except Exception as error:
            self._error = error
        finally:
            self._over.set()
            self._news.set()

    def _hear(self, event: SessionEvent) -> None:
        events = self._events
        if len(events) >= _LOOSE and isinstance(event, TextDelta):
            last = events[-1]
            if isinstance(last, TextDelta):
                events[-1] = TextDelta(last.text + event.text)
                return
        events.append(event)
        self._news.set()
