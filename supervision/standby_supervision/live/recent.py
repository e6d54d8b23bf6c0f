"""Agents that have ended, for as long as somebody may want to look at them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import trio

from .keys import AgentKey

if TYPE_CHECKING:
    from .registry import LiveAgent

KEPT_SECONDS = 600.0
"""How long one is kept after its last change."""
RETRY_SECONDS = 60.0
"""After how long a record that was not acknowledged is tried again."""

Sync: TypeAlias = "Callable[[LiveAgent], Awaitable[None]]"


class Recent:
    """They hold no task and no slot: a state, what they did last, and how to resume them.

    One is evicted when it is terminal, was changed more than 10 minutes ago by trio's
    clock, and its record is acknowledged; the task that does so is the workspace's, and
    nobody has to look for it to happen.
    """

    def __init__(self) -> None:
        self._kept: dict[AgentKey, LiveAgent] = {}
        self._added = trio.Event()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, entry: LiveAgent) -> None:
        """Keep one that has exited."""
        self._kept[entry.key] = entry
        self._added.set()

    def all(self) -> list[LiveAgent]:
        """Those that are kept, the oldest end first."""
        return list(self._kept.values())

    def get(self, key: AgentKey) -> LiveAgent | None:
        """The one of that key, if it is kept."""
        return self._kept.get(key)

    def evict(self, now: float) -> list[LiveAgent]:
        """Drop those that may go at `now`, on trio's clock; returns them."""
        gone: list[LiveAgent] = []
        for entry in list(self._kept.values()):
            if now - entry.activity.updated <= KEPT_SECONDS:
                break  # they stand in the order of their ends
            if entry.is_recorded or entry.is_given_up:
                gone.append(self._kept.pop(entry.key))
        return gone

    async def reap(self, sync: Sync) -> None:
        """Evict what may go, for as long as the workspace is open.

        Args:
            sync: tries to have a record written that was not acknowledged.
        """
        while True:
            if not self._kept:
                self._added = trio.Event()
                await self._added.wait()
                continue
            first = next(iter(self._kept.values()))
            # One moment more: it is to be older than that.
            due = first.activity.updated + KEPT_SECONDS + 0.001
            await trio.sleep_until(max(due, trio.current_time()))
            now = trio.current_time()
            self.evict(now)
            late = [
                each for each in self._kept.values() if now - each.activity.updated > KEPT_SECONDS
            ]
            for entry in late:
                await sync(entry)
            self.evict(trio.current_time())
            if late:
                await trio.sleep(RETRY_SECONDS)
