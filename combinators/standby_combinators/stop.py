"""The switch that stops one subagent by its id, or all, and says when they are down."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import trio
from attrs import define, field

from standby_actors.session import Steering
from standby_actors.subagent import Subagent

from .signal import Signal


@define(eq=False)
class Standing:
    """One subagent that a switch can stop."""

    stop: Callable[[], object]
    is_kept: bool
    """It lives on between its turns: then it is down while it plays none."""
    subagent: Subagent | None = None
    """None for what is no whole subagent, which can be stopped and nothing else."""
    turns: int = 0
    """Turns in flight."""
    is_gone: bool = False
    changed: trio.Event = field(factory=trio.Event)

    @property
    def is_down(self) -> bool:
        """Nothing of it is at work any more."""
        return self.is_gone or (self.is_kept and not self.turns)

    def note(self) -> None:
        """Wake whoever waits for it to be down."""
        self.changed.set()
        self.changed = trio.Event()


class StopSwitch:
    """Stops, cuts or steers single subagents by their ids: give it to a combinator as `switch=`.

    ``switch = stop_switch()``, ``fan_out(scout, files, switch=switch)``, and from
    anywhere else ``await switch.one("scout#2")``.

    A subagent that was stopped ends its turn with status `stopped`, and so does what
    it has delegated, since that ends with its turn.  Siblings do not notice.  One that
    is kept answers every later turn with `stopped`; it is still its owner's to close.
    After :meth:`all` nothing is spawned any more: later turns are recorded as `stopped`.
    """

    def __init__(self, signal: Signal | None = None) -> None:
        self._signal = signal or Signal()
        self._there: dict[str, Standing] = {}

    @property
    def signal(self) -> Signal:
        """Calls off everything under the switch, for whatever reason it is set."""
        return self._signal

    @property
    def ids(self) -> tuple[str, ...]:
        """Those who can be stopped now, oldest first."""
        return tuple(self._there)

    def interrupt(self, id: str) -> bool:  # noqa: A002 - as a subagent has it
        """Cut the turn that `id` is playing, which ends `stopped`; its later ones are played.

        False if it is not there, or plays none that can be cut.
        """
        subagent = self._subagent(id)
        return subagent is not None and subagent.interrupt()

    def steer(self, id: str, text: str) -> Steering | None:  # noqa: A002 - as above
        """Put a word into the turn that `id` is playing, as `Subagent.steer`.

        None if it is not there.
        """
        subagent = self._subagent(id)
        if subagent is None:
            return "unsupported" if id in self._there else None
        return subagent.steer(text)

    def _subagent(self, id: str) -> Subagent | None:  # noqa: A002 - as above
        standing = self._there.get(id)
        return None if standing is None else standing.subagent

    async def one(self, id: str) -> bool:  # noqa: A002 - as a subagent has it
        """Stop the subagent called `id`; False if there is none, or no longer.

        True says that it is down: its turn has ended, and it is closed, unless it is
        kept for more turns by a pool.  How long that takes is bounded by the graces of
        its own close.  Cancelled, it is stopping all the same.
        """
        standing = self._there.get(id)
        if standing is None:
            await trio.lowlevel.checkpoint()
            return False
        standing.stop()
        await _down(standing)
        return True

    async def all(self, reason: str = "") -> int:
        """Stop them all, those to come included; once they are down, how many there were."""
        there = list(self._there.values())
        self._signal.set(reason, kind="stopped")
        for standing in there:
            await _down(standing)
        await trio.lowlevel.checkpoint()
        return len(there)

    @contextmanager
    def standing(
        self,
        id: str,  # noqa: A002 - as above
        stop: Callable[[], object],
        *,
        is_kept: bool = False,
        subagent: Subagent | None = None,
    ) -> Generator[Standing]:
        """Let the subagent called `id` be stopped while the block is open; for who spawns.

        Args:
            id: of the subagent.
            stop: ends its turn as `stopped`, and those to come; neither waits nor raises.
            is_kept: whether it lives on between its turns.
            subagent: who can be interrupted and steered as well.
        """
        standing = self._there[id] = Standing(stop, is_kept, subagent)
        try:
            yield standing
        finally:
            # The same subagent may stand in two pools, where a third block keeps it.
            if self._there.get(id) is standing:
                del self._there[id]
            standing.is_gone = True
            standing.note()

    @contextmanager
    def playing(self, id: str) -> Generator[None]:  # noqa: A002 - as above
        """Note that the subagent called `id` has a turn in flight, for who plays it."""
        standing = self._there.get(id)
        if standing is None:
            yield
            return
        standing.turns += 1
        try:
            yield
        finally:
            standing.turns -= 1
            standing.note()

    def __repr__(self) -> str:
        return f"<StopSwitch of {len(self._there)}: {self._signal}>"


async def _down(standing: Standing) -> None:
    while not standing.is_down:
        await standing.changed.wait()


def stop_switch(signal: Signal | None = None) -> StopSwitch:
    """A switch for everything that it is given to.

    Args:
        signal: what calls off everything as well; a new one unless given.

    Examples:
        >>> stop_switch()
        <StopSwitch of 0: <Signal: not set>>
    """
    return StopSwitch(signal)
