"""Slots: how many subagents may be at work at once, and who has one, in one object.

There is no count to get wrong: a slot is taken as long as its holder is listed, and who is
listed is taken off by the end of its block.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import trio
from attrs import define, field

from .names import TaskName

PATIENCE = 1.0
"""Seconds in line in which nobody plays a turn, after which there is no slot."""

SlotSizes: TypeAlias = int | Sequence[int] | None
"""How many at once: on each depth; on the depths from the top; or without a limit."""


@define(eq=False)
class Ticket:
    """A place in the line, and then the slot itself, until it is given back.

    Made by :meth:`Slots.line_up`.
    """

    name: TaskName
    depth: int
    _line: _Line
    since: float = field(factory=trio.current_time)
    wake: trio.Event = field(factory=trio.Event)
    has_slot: bool = False
    is_playing: bool = False

    async def wait(self, patience: float, longest: float = math.inf) -> bool:
        """Wait for the slot; False if there is none, and then it keeps its place in the line.

        Args:
            patience: seconds that are waited while nobody who has a slot plays a turn;
                as long as somebody does, waiting may help.
            longest: seconds that are waited in any case.
        """
        if self.has_slot:
            await trio.lowlevel.checkpoint()
            return True
        until = trio.current_time() + longest
        since = trio.current_time()
        while True:
            line = self._line
            quiet = math.inf if line.playing else max(line.quiet_since, since) + patience
            self.wake = trio.Event()
            with trio.CancelScope(deadline=min(quiet, until)):
                await self.wake.wait()
            if self.has_slot:
                return True
            now = trio.current_time()
            if now >= until or (not line.playing and now >= quiet):
                return False

    async def granted(self) -> None:
        """Wait for the slot, however long."""
        await self.wait(math.inf)

    def playing(self, is_playing: bool) -> None:
        """Say whether its holder plays a turn."""
        if self.has_slot and self.is_playing is not is_playing:
            self.is_playing = is_playing
            self._line.played(1 if is_playing else -1)

    def give_back(self) -> None:
        """Have the slot no more, or leave the line; once is enough."""
        self.playing(False)
        self._line.leave(self)


@define(eq=False)
class _Line:
    """The slots of one depth."""

    size: float
    holders: dict[TaskName, Ticket] = field(factory=dict[TaskName, Ticket])
    queue: deque[Ticket] = field(factory=deque[Ticket])
    playing: int = 0
    quiet_since: float = -math.inf

    def join(self, ticket: Ticket) -> None:
        self.queue.append(ticket)
        self._serve()

    def leave(self, ticket: Ticket) -> None:
        if ticket.has_slot:
            ticket.has_slot = False
            del self.holders[ticket.name]
            self._serve()
        elif ticket in self.queue:
            self.queue.remove(ticket)

    def played(self, change: int) -> None:
        self.playing += change
        if self.playing == (1 if change > 0 else 0):
            self.quiet_since = trio.current_time()
            # Whoever waits looks anew whether waiting may help.
            for ticket in self.queue:
                ticket.wake.set()

    def _serve(self) -> None:
        while self.queue and len(self.holders) < self.size:
            ticket = self.queue.popleft()
            ticket.has_slot = True
            self.holders[ticket.name] = ticket
            ticket.wake.set()


class Slots:
    """Leases on being at work, in the order of asking, apart for each depth.

    A subagent of a subagent takes a slot of the next depth, so that those above, who
    wait for it, cannot have what it needs.

    Args:
        sizes: how many at once on each depth; several: on the depths from the top, the
            last of them for all below; None for no limit.

    Raises:
        ValueError: one of them is less than 1.
    """

    def __init__(self, sizes: SlotSizes = None) -> None:
        several = (math.inf,) if sizes is None else (sizes,) if isinstance(sizes, int) else sizes
        self._sizes: tuple[float, ...] = tuple(several)
        if not self._sizes or any(not size >= 1 for size in self._sizes):
            raise ValueError(f"there are slots for at least 1 subagent at a time, not {sizes!r}")
        self._lines: dict[int, _Line] = {}

    @contextmanager
    def line_up(self, name: TaskName, depth: int = 0) -> Generator[Ticket]:
        """A place in the line of `depth`; leaving the block gives it, or the slot, back."""
        line = self._line(depth)
        ticket = Ticket(name, depth, line)
        line.join(ticket)
        try:
            yield ticket
        finally:
            ticket.give_back()
            if not line.holders and not line.queue:
                self._lines.pop(depth, None)

    def holders(self, depth: int | None = None) -> tuple[Ticket, ...]:
        """Who has a slot, on one depth or on all, in the order of getting it."""
        lines: Iterable[_Line] = self._lines.values() if depth is None else (self._line(depth),)
        return tuple(ticket for line in lines for ticket in line.holders.values())

    def size(self, depth: int = 0) -> float:
        """How many there are on that depth."""
        return self._sizes[min(depth, len(self._sizes) - 1)]

    def _line(self, depth: int) -> _Line:
        line = self._lines.get(depth)
        if line is None:
            line = self._lines[depth] = _Line(self.size(depth))
        return line

    def __repr__(self) -> str:
        taken = ", ".join(f"{len(each.holders)} on {n}" for n, each in self._lines.items())
        return f"<Slots: {taken or 'none taken'}>"
