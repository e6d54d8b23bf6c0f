"""What the runtime knows about an actor class or function, worked out once."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypedDict, TypeVar, cast, get_args

from attrs import evolve, field, frozen
from trio.lowlevel import disable_ki_protection

Overflow = Literal["raise", "drop_oldest", "drop_new"]
StopMode = Literal["finish", "interrupt"]
F = TypeVar("F", bound=Callable[..., Any])

UNBOUNDED = sys.maxsize
"""``capacity=math.inf`` as an int; as long as the mailbox of an ended actor says it is."""


class SpawnOptions(TypedDict, total=False):
    """What may be said of an actor where it is spawned; its class says the rest."""

    name: str | None
    """Unique in its block and those inside it, free again when it ends."""
    capacity: float | None
    """Messages that may wait; 1,000 unless the class says otherwise."""
    overflow: Overflow | None
    """``"raise"``, ``"drop_oldest"`` or ``"drop_new"``."""
    shutdown: float | None
    """Seconds from its stop to its kill; 5."""
    start_timeout: float | None
    """Seconds that its start hook may take; 30."""
    stop_mode: StopMode | None
    """``"finish"`` the handler in progress, or ``"interrupt"`` it."""
    dedicated: bool | None
    """Whether all its hooks and handlers run on one task."""


@frozen(eq=False)
class Kind:
    """How to run one sort of actor.

    Spawning with options makes a kind of its own, kept for the next spawn with
    the same, so that a cell needs no room for them.
    """

    make: Callable[..., Any]
    """Makes the instance from the arguments of spawn."""
    name: str
    receive: Callable[[Any, Any], Any]
    is_async: bool
    on_start: Callable[[Any], Any] | None = None
    on_stop: Callable[[Any, Any], Any] | None = None
    shutdown: float = 5.0
    """Seconds from the stop to the kill."""
    start_timeout: float = 30.0
    stop_mode: StopMode = "finish"
    trap_exits: bool = False
    capacity: int = 1000
    """Messages that may wait; :data:`UNBOUNDED` at most."""
    overflow: Overflow = "raise"
    dedicated: bool = False
    stops_together: bool = False
    """Whether its children are stopped all at once, not one after another."""
    cut_when_withdrawn: bool = False
    """Whether an asker that gives up cuts the turn in progress."""
    watches_silence: bool = False
    """Whether every message must reset a receive timeout."""
    contained: bool = False
    """Whether its crash is the business of who asked it, and of nobody else."""
    plain: bool = field(init=False)
    """A ``def`` on shared workers: called, never driven."""
    derived: dict[tuple[Any, ...], Kind] = field(factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "plain", not self.is_async and not self.dedicated)

    def traced(self, note: Callable[[Any, Any], object]) -> Kind:
        """This kind, with `note(actor, message)` called before each message."""
        inner = self.receive

        def receive(actor: Any, message: Any) -> Any:
            note(actor, message)
            return inner(actor, message)

        return evolve(self, receive=receive, derived={})

    def with_options(
        self,
        capacity: float | None,
        overflow: Overflow | None,
        shutdown: float | None,
        start_timeout: float | None,
        stop_mode: StopMode | None,
        dedicated: bool | None,
    ) -> Kind:
        """This kind with the options that are not None.

        Raises:
            ValueError: an option is out of its range; it says which.
        """
        # Its type too: True is equal to 1, and is no capacity.
        key = (type(capacity), capacity, overflow, shutdown, start_timeout, stop_mode, dedicated)
        kind = self.derived.get(key)
        if kind is None:
            kind = self.derived[key] = evolve(
                self,
                capacity=self.capacity if capacity is None else checked_capacity(capacity),
                overflow=self.overflow if overflow is None else checked_overflow(overflow),
                shutdown=self.shutdown
                if shutdown is None
                else checked_seconds("shutdown", shutdown),
                start_timeout=self.start_timeout
                if start_timeout is None
                else checked_seconds("start_timeout", start_timeout),
                stop_mode=self.stop_mode if stop_mode is None else checked_stop_mode(stop_mode),
                dedicated=self.dedicated if dedicated is None else dedicated,
                derived={},
            )
        return kind


def checked_capacity(capacity: float) -> int:
    """`capacity` as the number of messages that may wait."""
    if capacity == math.inf:
        return UNBOUNDED
    if isinstance(capacity, bool) or not capacity >= 1 or capacity != int(capacity):
        raise ValueError(
            f"capacity must be a whole number of messages, at least 1, or math.inf, "
            f"not {capacity!r}"
        )
    return int(capacity)


def checked_seconds(what: str, seconds: float) -> float:
    """`seconds`, which must not be negative or not a number; `what` names the option."""
    if not seconds >= 0:
        raise ValueError(
            f"{what} must be a number of seconds, 0 or more, or math.inf, not {seconds!r}"
        )
    return float(seconds)


def checked_overflow(overflow: str) -> Overflow:
    """`overflow`, which must be one of the three policies."""
    if overflow not in get_args(Overflow):
        raise ValueError(f"overflow must be one of {get_args(Overflow)}, not {overflow!r}")
    return cast("Overflow", overflow)


def checked_stop_mode(stop_mode: str) -> StopMode:
    """`stop_mode`, which must be one of the two."""
    if stop_mode not in get_args(StopMode):
        raise ValueError(f"stop_mode must be one of {get_args(StopMode)}, not {stop_mode!r}")
    return cast("StopMode", stop_mode)


def interruptible(function: F) -> F:
    """Let Ctrl-C land in `function`, which is a user's.

    The runtime's own functions are protected, so that a Ctrl-C never lands in
    the middle of a queue operation; without this mark the handlers that they
    call would be protected as well, and an endless one could not be broken.
    """
    if hasattr(function, "__code__"):
        disable_ki_protection(function)
    return function


class HasKind(Protocol):
    """What stands where an actor class may without being one: an agent."""

    @property
    def actor_kind(self) -> Kind:
        """How to run what it makes."""
        ...


def is_agent(actor: Any) -> bool:
    """Whether `actor` stands for an actor class without being one: then it makes a subagent."""
    return not isinstance(actor, type) and hasattr(actor, "actor_kind")


class FunctionActor:
    """An actor that is a function of its message."""

    __slots__ = ("function", "ref")
    ref: Any

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function


def _call(actor: FunctionActor, message: Any) -> Any:
    return actor.function(message)


def _call_async(actor: FunctionActor, message: Any) -> Any:
    # Returns the coroutine; the kind says that it is to be driven.
    return actor.function(message)


USER_METHODS = (
    "__init__",
    "receive",
    "on_start",
    "on_stop",
    "on_continue",
    "on_down",
    "on_exit",
    "on_receive_timeout",
    "inspect_state",
)
kinds: dict[Any, Kind] = {}
"""What :func:`kind_of` has worked out."""
KINDS_KEPT = 4096
"""Kinds that are remembered; beyond, all are worked out anew."""


def kind_of(actor: Any) -> Kind:
    """The kind of an actor class, a ``functools.partial`` of one, or a function of one message.

    Raises:
        TypeError: it is neither; the message says what is missing.
    """
    kind = kinds.get(actor)
    if kind is None:
        if isinstance(actor, type):
            kind = _class_kind(actor)
        else:
            # What stands for an actor class, as an agent does, brings its kind.
            kind = getattr(actor, "actor_kind", None) or _function_kind(actor)
        if len(kinds) >= KINDS_KEPT:
            # Closures and partials are new each time, and so would be kept for ever.
            kinds.clear()
        kinds[actor] = kind
    return kind


def _breaking_silence(receive: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`receive`, which first ends a receive timeout: any message does."""

    def heard(actor: Any, message: Any) -> Any:
        rare = actor.ref.rare()
        if rare.silence is not None:
            rare.silence.cancel()
            rare.silence = None
        return receive(actor, message)

    return interruptible(heard)


def _class_kind(cls: Any) -> Kind:
    receive = getattr(cls, "receive", None)
    if not callable(receive):
        raise TypeError(
            f"{cls.__name__} has no receive method: an actor is a class with "
            "`def receive(self, message)` or `async def receive(self, message)`"
        )
    hooks = [getattr(cls, name, None) for name in ("on_start", "on_stop")]
    for name in USER_METHODS:
        if hasattr(cls, name):
            interruptible(getattr(cls, name))
    watches_silence = getattr(cls, "on_receive_timeout", None) is not None
    return Kind(
        make=cls,
        name=cls.__name__,
        receive=_breaking_silence(receive) if watches_silence else receive,
        is_async=inspect.iscoroutinefunction(receive),
        on_start=hooks[0],
        on_stop=hooks[1],
        shutdown=checked_seconds("shutdown", getattr(cls, "shutdown", 5.0)),
        start_timeout=checked_seconds("start_timeout", getattr(cls, "start_timeout", 30.0)),
        stop_mode=checked_stop_mode(getattr(cls, "stop_mode", "finish")),
        trap_exits=bool(getattr(cls, "trap_exits", False)),
        capacity=checked_capacity(getattr(cls, "capacity", 1000)),
        overflow=checked_overflow(getattr(cls, "overflow", "raise")),
        dedicated=bool(getattr(cls, "dedicated", False)),
        stops_together=bool(getattr(cls, "stops_together", False)),
        cut_when_withdrawn=bool(getattr(cls, "cut_when_withdrawn", False)),
        watches_silence=watches_silence,
    )


def no_actor(kind: Kind, made: object) -> TypeError:
    """The error for what `kind` has made, where it has no room for its own ref."""
    return TypeError(
        f"{kind.name} makes {made!r}, which cannot be an actor: it has no attribute `ref`, "
        "and takes none; make an instance of Actor, or name `ref` in its slots"
    )


def _function_kind(function: Any) -> Kind:
    if not callable(function):
        raise TypeError(
            f"{function!r} is not an actor: give an actor class, or a function of one message"
        )
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if isinstance(inner, type) and hasattr(inner, "receive"):
        # An actor class with some of its arguments, by keyword for example.
        return evolve(kind_of(inner), make=function, derived={})
    interruptible(inner)
    is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - its type is asked, not whether it is there
    )
    interruptible(_call)
    interruptible(_call_async)
    return Kind(
        make=functools.partial(FunctionActor, function),
        name=getattr(inner, "__name__", type(inner).__name__).strip("<>"),
        receive=_call_async if is_async else _call,
        is_async=is_async,
    )
