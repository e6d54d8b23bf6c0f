"""The events of a run as lines of JSON: one object each, written whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

import msgspec
import trio

from standby_actors.events import Listener, open_events


class JsonLines:
    """Writes events to a stream, from a thread: a reader that is slow holds nobody up.

    Args:
        stream: where to; each line is one write.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.json.Encoder(enc_hook=repr)
        self._broken: BrokenPipeError | None = None

    @asynccontextmanager
    async def following(self, scope: trio.CancelScope) -> AsyncGenerator[None]:
        """Write every event while the block is open; the last is written when it is left.

        Args:
            scope: cancelled when nobody reads any more.
        """
        async with open_events() as events, trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, events, scope)
            try:
                yield
            finally:
                events.close()

    async def _follow(self, events: Listener, scope: trio.CancelScope) -> None:
        missed = 0
        try:
            async for event in events:
                await trio.to_thread.run_sync(self.write, event, abandon_on_cancel=True)
                if events.missed > missed:
                    lost = {"type": "events.missed", "count": events.missed - missed}
                    missed = events.missed
                    await trio.to_thread.run_sync(self.write, lost, abandon_on_cancel=True)
        except BrokenPipeError as error:
            self._broken = error
            scope.cancel()

    def write(self, thing: msgspec.Struct | Mapping[str, Any]) -> None:
        """Write one object.

        Raises:
            BrokenPipeError: nobody reads any more.
        """
        self._stream.write(self._encoder.encode(thing) + b"\n")
        self._stream.flush()

    def raise_if_broken(self) -> None:
        """Raise the error with which the reader went away, if it did."""
        if self._broken is not None:
            raise self._broken
