"""An actor that is in one state at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from .actor import Actor, ScheduledMessage
from .kind import interruptible

S = TypeVar("S", bound=str)


class StateMachine(Actor, Generic[S]):
    """One handler for each state, after OTP's ``gen_statem``.

    A subclass says ``initial = "idle"`` and defines ``def idle(self, message)``
    and so on, one method a state.  A handler moves with :meth:`become`, and
    keeps a message for another state by returning ``self.postpone(message)``:
    postponed messages are handled, in their order, before any other as soon as
    the state has changed.  A state timeout ends with its state.

    An unknown state is an error where it is named, before anything has changed.
    """

    initial: ClassVar[str]

    def __init__(self) -> None:
        self._state = self._known(self.initial)
        self._timeout: ScheduledMessage | None = None

    @property
    def state(self) -> str:
        """The state it is in."""
        return self._state

    def receive(self, message: Any, /) -> Any:
        """Hand `message` to the handler of the state."""
        if type(message) is _StateTimeout:
            if message.state != self._state or message is not self._expected:
                return None
            return self._handler(self._state)(message.message)
        return self._handler(self._state)(message)

    _expected: _StateTimeout | None = None

    def become(self, state: S) -> None:
        """Be in `state` from the next message on; `on_enter(state, before)` is called.

        To become the state that it is in changes nothing.
        """
        known = self._known(state)
        before = self._state
        if known == before:
            return
        self._state = known
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        self._expected = None
        self.on_enter(known, before)
        self.replay_postponed()

    def on_enter(self, state: str, before: str) -> None:
        """Called when the state has changed."""

    def state_timeout(self, seconds: float, message: Any) -> None:
        """Handle `message` in this state in `seconds`, unless the state changes first."""
        if self._timeout is not None:
            self._timeout.cancel()
        self._expected = _StateTimeout(self._state, message)
        self._timeout = self.send_after(seconds, self._expected)

    def _handler(self, state: str) -> Callable[[Any], Any]:
        handler: Callable[[Any], Any] = getattr(self, state)
        return handler

    def _known(self, state: str) -> str:
        handler = getattr(type(self), state, None)
        if not callable(handler) or state.startswith("_") or hasattr(StateMachine, state):
            raise ValueError(
                f"{type(self).__name__} has no state {state!r}: define `def {state}(self, message)`"
            )
        interruptible(handler)
        return state


class _StateTimeout:
    __slots__ = ("message", "state")

    def __init__(self, state: str, message: Any) -> None:
        self.state = state
        self.message = message
