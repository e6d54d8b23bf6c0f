"""Claims: who holds what, granted and not announced, for as long as its holder is at work."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import msgspec
import trio
from attrs import define, field

ClaimState: TypeAlias = Literal["free", "held", "done"]


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """One key, and what is known of it."""

    key: str
    state: ClaimState = "free"
    by: str = ""
    """Who holds it, or has done it."""
    result: str = ""
    """What came of it, once it is done."""


class ClaimRefused(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A key that was not granted, or not given up."""

    reason: str
    held_by: str = ""


class NotGranted(RuntimeError):
    """Raised where claims were to be held for a block and were refused; none is held."""

    def __init__(self, by: str, refusal: ClaimRefused) -> None:
        super().__init__(by, refusal)
        self.by = by
        self.refusal = refusal

    def __str__(self) -> str:
        return f"{self.by} was not granted what it asked for: {self.refusal.reason}"


@define(eq=False)
class _Lease:
    by: str
    until: float
    result: str | None = None


@define(eq=False)
class _Waiter:
    """Somebody who waits for several keys, to be granted together."""

    by: str
    keys: tuple[str, ...]
    changed: trio.Event = field(factory=trio.Event)


@define(eq=False)
class Claims:
    """Leases on keys: free, held, or done, which is never free again.

    A lease ends when it is released, when its holder is gone, or when the holder has
    done nothing for `seconds`.  Who wants to wait, waits in :meth:`hold` or :meth:`acquire`:
    they are served in the order of asking, and nobody is granted by :meth:`take` what
    somebody waits for already.

    Args:
        keys: what can be claimed; None for anything.
        max_each: keys that one may hold at a time; None for any number.
        seconds: how long a lease holds without a sign of life; None for as long as its
            holder is there.

    Examples:
        >>> claims = Claims(["a", "b"], clock=lambda: 0.0)
        >>> claims.take("scout@1", "a")
        Claim(key='a', state='held', by='scout@1')
        >>> claims.take("scout@2", "a")
        ClaimRefused(reason="'a' is held by scout@1; free are: b", held_by='scout@1')
        >>> claims.finish("scout@1", "a", "It works.")
        Claim(key='a', state='done', by='scout@1', result='It works.')
        >>> claims.free()
        ('b',)
    """

    keys: Sequence[str] | None = None
    max_each: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] = trio.current_time
    _leases: dict[str, _Lease] = field(init=False, factory=dict[str, _Lease])
    _queue: list[_Waiter] = field(init=False, factory=list[_Waiter])

    def take(self, by: str, key: str) -> Claim | ClaimRefused:
        """Claim `key`; whoever holds it already is granted it again."""
        granted = self.take_all(by, key)
        return granted if isinstance(granted, ClaimRefused) else granted[0]

    def take_all(self, by: str, *keys: str) -> tuple[Claim, ...] | ClaimRefused:
        """Claim all of `keys`, or none of them, and do not wait."""
        spelled = self._spelled_all(keys)
        if isinstance(spelled, ClaimRefused):
            return spelled
        return self._grant(by, spelled, self._queue)

    async def acquire(
        self, by: str, *keys: str, seconds: float | None = None
    ) -> tuple[Claim, ...] | ClaimRefused:
        """Claim all of `keys`, or none of them, after those who have asked before.

        What is done is refused at once, and so is a wait that could not end: for
        somebody who waits, over whatever others, for what `by` holds itself.  Cancelled,
        it holds nothing more than before.

        Args:
            by: who asks.
            keys: what for.
            seconds: to wait at most; None for as long as it takes.
        """
        spelled = self._spelled_all(keys)
        if isinstance(spelled, ClaimRefused):
            return spelled
        waiter = _Waiter(by, spelled)
        self._queue.append(waiter)
        refused = ClaimRefused("nobody has looked at it yet")
        try:
            with trio.move_on_after(math.inf if seconds is None else seconds):
                await trio.lowlevel.checkpoint()
                while True:
                    before = self._queue[: self._queue.index(waiter)]
                    granted = self._grant(by, spelled, before)
                    if not isinstance(granted, ClaimRefused) or not self._may_come(waiter):
                        return granted
                    refused = granted
                    circle = self._circle(waiter)
                    if circle:
                        why = " waits for ".join(circle)
                        return ClaimRefused(f"it would wait for ever: {why}", refused.held_by)
                    waiter.changed = trio.Event()
                    with trio.move_on_after(self._next_end()):
                        await waiter.changed.wait()
            return ClaimRefused(f"after {seconds:g} s: {refused.reason}", refused.held_by)
        finally:
            self._queue.remove(waiter)
            self._tell()

    @asynccontextmanager
    async def hold(
        self, by: str, *keys: str, seconds: float | None = None
    ) -> AsyncGenerator[tuple[Claim, ...]]:
        """Hold all of `keys` for the length of the block, however it ends.

        What was held before stays held; what was finished in the block stays done.  Inside
        no lease runs out.

        Args:
            by, keys, seconds: as :meth:`acquire` has them.

        Raises:
            NotGranted: they were refused, or not granted in time.
        """
        mine = self.held(by)
        granted = await self.acquire(by, *keys, seconds=seconds)
        if isinstance(granted, ClaimRefused):
            raise NotGranted(by, granted)
        leases = {claim.key: self._leases[claim.key] for claim in granted if claim.key not in mine}
        for lease in leases.values():
            lease.until = math.inf
        try:
            yield granted
        finally:
            for key, lease in leases.items():
                if self._leases.get(key) is lease and lease.result is None:
                    del self._leases[key]
            self._tell()

    def finish(self, by: str, key: str, result: str = "") -> Claim | ClaimRefused:
        """Say that `key` is done: it is nobody's to claim any more."""
        return self._give_up(by, key, result)

    def release(self, by: str, key: str) -> Claim | ClaimRefused:
        """Give `key` up, undone."""
        return self._give_up(by, key, None)

    def release_all(self, by: str) -> tuple[str, ...]:
        """Free what `by`, who is gone, holds; what it has done stays done."""
        mine = self.held(by)
        for key in mine:
            del self._leases[key]
        self._tell()
        return mine

    def renew(self, by: str) -> None:
        """A sign of life of `by`: its leases last on."""
        for lease in self._leases.values():
            if lease.by == by and lease.result is None and lease.until > self.clock():
                lease.until = max(lease.until, self._until())

    def keep(self, by: str) -> None:
        """Let no lease of `by` run out: it is at work until it gives them up."""
        for lease in self._leases.values():
            if lease.by == by:
                lease.until = math.inf

    def look(self, key: str) -> Claim:
        """What is known of `key`."""
        spelled = self._spelled(key)
        return self._look(key if isinstance(spelled, ClaimRefused) else spelled)

    def held(self, by: str | None = None) -> tuple[str, ...]:
        """What is held, by anybody or by one, in the order of taking."""
        return tuple(
            key
            for key in list(self._leases)
            if (lease := self._lease(key)) is not None
            and lease.result is None
            and by in (None, lease.by)
        )

    def free(self) -> tuple[str, ...]:
        """Which of the keys nobody holds or has done; none if anything can be claimed."""
        return tuple(key for key in self.keys or () if next(self._over(key), None) is None)

    def all(self) -> tuple[Claim, ...]:
        """Every key that is known, as it is."""
        return tuple(self._look(key) for key in dict.fromkeys([*(self.keys or ()), *self._leases]))

    def _look(self, key: str) -> Claim:
        lease = self._lease(key)
        if lease is None:
            return Claim(key)
        if lease.result is not None:
            return Claim(key, "done", lease.by, lease.result)
        return Claim(key, "held", lease.by)

    def _spelled(self, key: str) -> str | ClaimRefused:
        """`key` as it is kept, however it was written."""
        return key.strip()

    def _over(self, key: str) -> Iterator[str]:
        """The keys, taken or done, that cannot be somebody's while `key` is somebody else's."""
        if self._lease(key) is not None:
            yield key

    def _overlap(self, one: str, other: str) -> bool:
        return one == other

    def _may_claim(self, key: str) -> bool:
        return bool(key) and (self.keys is None or key in self.keys)

    def _spelled_all(self, keys: Sequence[str]) -> tuple[str, ...] | ClaimRefused:
        if not keys:
            return ClaimRefused("nothing was asked for")
        spelled: dict[str, None] = {}
        for key in keys:
            one = self._spelled(key)
            if isinstance(one, ClaimRefused):
                return one
            spelled[one] = None
        return tuple(spelled)

    def _grant(
        self, by: str, keys: tuple[str, ...], before: Sequence[_Waiter]
    ) -> tuple[Claim, ...] | ClaimRefused:
        """All of `keys` to `by`, unless one is in use, or waited for by those `before`."""
        for key in keys:
            for other in self._over(key):
                lease = self._leases[other]
                which = repr(key) if other == key else f"{key!r} is a part of {other!r}, which"
                if other != key and not self._contains(other, key):
                    which = f"{other!r}, a part of {key!r},"
                if lease.result is not None:
                    why = f"{which} was done by {lease.by}; {self._free_ones()}"
                    return ClaimRefused(why, lease.by)
                if lease.by != by:
                    return ClaimRefused(
                        f"{which} is held by {lease.by}; {self._free_ones()}", lease.by
                    )
            if not self._may_claim(key):
                there = "anything that is not blank" if self.keys is None else ", ".join(self.keys)
                return ClaimRefused(f"{key!r} cannot be claimed; these can: {there}")
        fresh = [key for key in keys if self._lease(key) is None]
        held = self.held(by)
        if fresh and self.max_each is not None and len(held) + len(fresh) > self.max_each:
            mine = ", ".join(held) or "nothing"
            few = "finish or release one first" if held else f"{self.max_each} is all you may hold"
            return ClaimRefused(f"you hold {mine}: {few}")
        for key in fresh:
            for waiter in before:
                if waiter.by != by and any(self._overlap(key, each) for each in waiter.keys):
                    why = f"{key!r} is waited for by {waiter.by}; {self._free_ones()}"
                    return ClaimRefused(why, waiter.by)
        for key in keys:
            self._leases[key] = _Lease(by, self._until())
        self.renew(by)
        return tuple(self._look(key) for key in keys)

    def _contains(self, one: str, other: str) -> bool:
        """Whether `other` is a part of `one`."""
        return one == other

    def _may_come(self, waiter: _Waiter) -> bool:
        """Whether waiting may help: nothing of it is done, unknown, or too much."""
        over = [self._leases[each] for key in waiter.keys for each in self._over(key)]
        if any(lease.result is not None for lease in over):
            return False
        if not all(self._may_claim(key) for key in waiter.keys):
            return False
        return self.max_each is None or len({*self.held(waiter.by), *waiter.keys}) <= self.max_each

    def _blockers(self, waiter: _Waiter) -> set[str]:
        """Whom `waiter` waits for: those who hold, and those who have asked before."""
        found = {self._leases[each].by for key in waiter.keys for each in self._over(key)}
        for other in self._queue[: self._queue.index(waiter)]:
            if any(self._overlap(one, each) for one in waiter.keys for each in other.keys):
                found.add(other.by)
        return found - {waiter.by}

    def _circle(self, waiter: _Waiter) -> list[str]:
        """Who would wait for whom, if `waiter` is among those that it waits for; else nobody."""
        paths = [[waiter.by, each] for each in sorted(self._blockers(waiter))]
        seen: set[str] = set()
        while paths:
            path = paths.pop()
            if path[-1] == waiter.by:
                return path
            if path[-1] in seen:
                continue
            seen.add(path[-1])
            for other in self._queue:
                if other.by == path[-1]:
                    paths += [[*path, each] for each in sorted(self._blockers(other))]
        return []

    def _next_end(self) -> float:
        """Seconds until the next lease runs out by itself."""
        held = [lease.until for lease in self._leases.values() if lease.result is None]
        return max(0.0, min(held, default=math.inf) - self.clock())

    def _tell(self) -> None:
        """Have everybody who waits look again."""
        for waiter in self._queue:
            waiter.changed.set()

    def _give_up(self, by: str, key: str, result: str | None) -> Claim | ClaimRefused:
        spelled = self._spelled(key)
        if isinstance(spelled, ClaimRefused):
            return spelled
        key = spelled
        lease = self._lease(key)
        if lease is None or lease.by != by or lease.result is not None:
            holder = "" if lease is None else lease.by
            return ClaimRefused(f"you do not hold {key!r}", holder)
        if result is None:
            del self._leases[key]
        else:
            lease.result = result
        self._tell()
        self.renew(by)
        return self._look(key)

    def _lease(self, key: str) -> _Lease | None:
        lease = self._leases.get(key)
        if lease is not None and lease.result is None and lease.until <= self.clock():
            del self._leases[key]
            return None
        return lease

    def _until(self) -> float:
        return math.inf if self.seconds is None else self.clock() + self.seconds

    def _free_ones(self) -> str:
        if self.keys is None:
            return "anything else can be claimed"
        return f"free are: {', '.join(self.free()) or 'none'}"
