"""Claims: who holds what, granted and not announced, for as long as its holder is at work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


@define(eq=False)
class _Lease:
    by: str
    until: float
    result: str | None = None


@define(eq=False)
class Claims:
    """Leases on keys: free, held, or done, which is never free again.

    A lease ends when it is released, when its holder is gone, or when the holder has
    done nothing for `seconds`.

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

    def take(self, by: str, key: str) -> Claim | ClaimRefused:
        """Claim `key`; whoever holds it already is granted it again."""
        key = key.strip()
        lease = self._lease(key)
        if lease is not None and lease.result is not None:
            return ClaimRefused(f"{key!r} was done by {lease.by}; {self._free_ones()}", lease.by)
        if lease is not None and lease.by != by:
            return ClaimRefused(f"{key!r} is held by {lease.by}; {self._free_ones()}", lease.by)
        if not key or (self.keys is not None and key not in self.keys):
            there = "anything that is not blank" if self.keys is None else ", ".join(self.keys)
            return ClaimRefused(f"{key!r} cannot be claimed; these can: {there}")
        if lease is None and self.max_each is not None and len(self.held(by)) >= self.max_each:
            mine = ", ".join(self.held(by))
            return ClaimRefused(f"you hold {mine}: finish or release one first")
        self._leases[key] = _Lease(by, self._until())
        self.renew(by)
        return self.look(key)

    def finish(self, by: str, key: str, result: str = "") -> Claim | ClaimRefused:
        """Say that `key` is done: it is nobody's to claim any more."""
        return self._give_up(by, key.strip(), result)

    def release(self, by: str, key: str) -> Claim | ClaimRefused:
        """Give `key` up, undone."""
        return self._give_up(by, key.strip(), None)

    def release_all(self, by: str) -> tuple[str, ...]:
        """Free what `by`, who is gone, holds; what it has done stays done."""
        mine = self.held(by)
        for key in mine:
            del self._leases[key]
        return mine

    def renew(self, by: str) -> None:
        """A sign of life of `by`: its leases last on."""
        for lease in self._leases.values():
            if lease.by == by and lease.result is None and lease.until > self.clock():
                lease.until = self._until()

    def look(self, key: str) -> Claim:
        """What is known of `key`."""
        lease = self._lease(key)
        if lease is None:
            return Claim(key)
        if lease.result is not None:
            return Claim(key, "done", lease.by, lease.result)
        return Claim(key, "held", lease.by)

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
        return tuple(key for key in self.keys or () if self._lease(key) is None)

    def all(self) -> tuple[Claim, ...]:
        """Every key that is known, as it is."""
        return tuple(self.look(key) for key in dict.fromkeys([*(self.keys or ()), *self._leases]))

    def _give_up(self, by: str, key: str, result: str | None) -> Claim | ClaimRefused:
        lease = self._lease(key)
        if lease is None or lease.by != by or lease.result is not None:
            holder = "" if lease is None else lease.by
            return ClaimRefused(f"you do not hold {key!r}", holder)
        if result is None:
            del self._leases[key]
        else:
            lease.result = result
        self.renew(by)
        return self.look(key)

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
