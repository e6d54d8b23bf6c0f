"""What was said on the event stream while a block was open."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from standby_actors import Event, open_events


@asynccontextmanager
async def heard() -> AsyncGenerator[list[Event]]:
    """The events of the block, in order; the list is whole once it is left."""
    seen: list[Event] = []
    async with open_events() as events:
        try:
            yield seen
        finally:
            events.close()
            seen += [each async for each in events]
