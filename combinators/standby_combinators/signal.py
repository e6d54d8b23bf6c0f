"""A signal calls off whatever is under it: a flag that is set once, with a reason."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import trio

from standby_actors.result import TurnError

Kind: TypeAlias = Literal["aborted", "stopped", "cancelled"]
"""Who calls off: whoever runs the whole, whoever stops one or all by hand, or a
sibling that has made the rest superfluous.  It is the status of what is cut."""


class Signal:
    """A flag that is set once, and stays so, with a reason.

    Turns in flight under it end with its kind for a status, and cost what they
    have cost; later ones spawn nothing, and are recorded as ended in the same
    way.  It is no cancellation: whoever waits for a turn gets a Result.

    Examples:
        >>> signal = Signal()
        >>> signal.set("the meeting is over"), signal.set("twice")
        (True, False)
        >>> str(signal.error)
        'aborted: the meeting is over'
    """

    __slots__ = ("_calls", "_error")

    def __init__(self) -> None:
        self._error: TurnError | None = None
        # In the order of registering; a dict, so that each is removed in no time.
        self._calls: dict[object, Callable[[], object]] = {}

    @property
    def is_set(self) -> bool:
        """Whether it was set."""
        return self._error is not None

    @property
    def error(self) -> TurnError | None:
        """Why, as what it cuts has it; None while it is not set."""
        return self._error

    def set(self, reason: str = "", *, kind: Kind = "aborted") -> bool:
        """Call off everything that is under it; False if that was done before.

        Args:
            reason: a sentence for people; the kind's own name unless given.
            kind: which status it gives.
        """
        return self.pass_on(TurnError(kind, reason or kind))

    async def wait(self) -> TurnError:
        """Wait until it is set, and return why."""
        over = trio.Event()
        with self.calling(over.set):
            await over.wait()
        assert self._error is not None
        return self._error

    @contextmanager
    def calling(self, call: Callable[[], object]) -> Generator[None]:
        """Have `call` called when it is set while the block is open; at once if it is already.

        Args:
            call: must neither wait nor raise.
        """
        if self._error is not None:
            call()
            yield
            return
        place = object()
        self._calls[place] = call
        try:
            yield
        finally:
            self._calls.pop(place, None)

    def pass_on(self, error: TurnError) -> bool:
        """As :meth:`set`, with the reason of another signal."""
        if self._error is not None:
            return False
        self._error = error
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call()
        return True

    def __repr__(self) -> str:
        return f"<Signal: {self._error or 'not set'}>"


@contextmanager
def signal_below(above: Signal | None) -> Generator[Signal]:
    """A signal for the length of the block that `above` sets too.

    Setting it leaves `above`, and whatever else is under that, as they are.
    """
    below = Signal()
    if above is None:
        yield below
        return

    def pass_on() -> None:
        assert above.error is not None
        below.pass_on(above.error)

    with above.calling(pass_on):
        yield below
