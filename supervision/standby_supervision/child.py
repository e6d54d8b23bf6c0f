"""What a supervisor is told of its children: specifications, checked before anything starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

from attrs import field, frozen

from standby_actors.kind import Overflow, kind_of

from .backoff import Backoff
from .errors import BadSpec

Restart = Literal["permanent", "transient", "temporary"]
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one", "dynamic"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]
Shutdown = float | Literal["brutal_kill"]
WhenDown = Literal["wait", "fail"]


@frozen
class SupervisorSpec:
    """A supervisor and everything below it, as one value."""

    children: tuple[ChildSpec, ...] = ()
    """In start order; for the strategy ``dynamic`` exactly one, the template."""
    strategy: Strategy = "one_for_one"
    intensity: int | None = 3
    """Restarts allowed within `period`; None for any number, which needs a `backoff`."""
    period: float = 5.0
    """Seconds."""
    backoff: Backoff | None = None
    auto_shutdown: AutoShutdown = "never"
    max_children: float = math.inf
    """For the strategy ``dynamic``."""

    def __attrs_post_init__(self) -> None:
        check_flags(self)
        check_children(self.children, self.auto_shutdown, self.strategy)

    def walk(self, path: str = "") -> Iterator[tuple[str, ChildSpec]]:
        """Every child below, with its path of ids, owners first."""
        for spec in self.children:
            here = f"{path}/{spec.id}" if path else spec.id
            yield here, spec
            if isinstance(spec.start, SupervisorSpec):
                yield from spec.start.walk(here)

    def render(self, indent: str = "") -> str:
        """The tree as text, one line a child, in start order."""
        lines = [f"{indent}{self.strategy}, {self.intensity} restarts in {self.period:g} s"]
        for spec in self.children:
            if isinstance(spec.start, SupervisorSpec):
                lines.append(f"{indent}- {spec.id} ({spec.restart}):")
                lines.append(spec.start.render(indent + "    "))
            else:
                lines.append(f"{indent}- {spec.id} ({spec.restart}) {spec.kind}")
        return "\n".join(lines)


@frozen
class ChildSpec:
    """One child.  Make it with :func:`child` or :func:`supervisor`."""

    id: str
    start: Any
    """An actor class, a function of one message, or a :class:`SupervisorSpec`."""
    args: tuple[Any, ...] = field(default=(), repr=False)
    restart: Restart = "permanent"
    shutdown: Shutdown = 5.0
    """Seconds to the kill, ``"brutal_kill"``, or inf."""
    significant: bool = False
    start_timeout: float = 30.0
    name: str | None = None
    """Under which it is registered, in all its lives."""
    when_down: WhenDown = "wait"
    """Whether asks between two lives wait for the next one, or fail."""
    redeliver: int = 0
    """How often a message that crashed it is given to it again."""
    capacity: float | None = None
    overflow: Overflow | None = None
    stalled_after: float | None = None
    """Seconds that it may be at one message; then it is killed, as crashed with ``Stalled``."""

    @property
    def type(self) -> Literal["worker", "supervisor"]:
        """What it is."""
        return "supervisor" if isinstance(self.start, SupervisorSpec) else "worker"

    @property
    def kind(self) -> str:
        """Name of its class or function."""
        return "supervisor" if isinstance(self.start, SupervisorSpec) else kind_of(self.start).name

    @property
    def seconds(self) -> float:
        """Its shutdown as seconds: 0 is a kill."""
        return 0.0 if self.shutdown == "brutal_kill" else float(self.shutdown)


def child(
    start: Callable[..., Any] | SupervisorSpec,
    *args: Any,
    id: str | None = None,  # noqa: A002 - OTP's word for it
    restart: Restart = "permanent",
    shutdown: Shutdown | None = None,
    significant: bool = False,
    start_timeout: float = 30.0,
    name: str | None = None,
    when_down: WhenDown = "wait",
    redeliver: int = 0,
    capacity: float | None = None,
    overflow: Overflow | None = None,
    stalled_after: float | None = None,
) -> ChildSpec:
    """Specify a child.

    Args:
        start: an actor class, a function of one message, or a supervisor's specification.
        args: what the class is called with, in every life.
        id: unique among its siblings; by default `name`, or the name of `start`.
        restart: ``"permanent"``: always; ``"transient"``: unless it ended normally
            or was asked to; ``"temporary"``: never.
        shutdown: seconds from its stop to its kill, ``"brutal_kill"``, or inf; 5,
            and inf for a supervisor.
        significant: whether its end counts for its supervisor's `auto_shutdown`.
        start_timeout: seconds that its start hook may take.
        name: under which it is registered, in all its lives.
        when_down: whether asks that come between two lives ``"wait"`` or ``"fail"``.
        redeliver: how often a message that crashed it is given to it again.
        capacity: messages that may wait.
        overflow: what happens to one over that bound.
        stalled_after: seconds that it may be at one message; one that is for longer
            (it shows within a quarter more) is killed, and crashed with ``Stalled``.

    Raises:
        BadSpec: a value that cannot be meant; it names the rule.
    """
    is_supervisor = isinstance(start, SupervisorSpec)
    spec = ChildSpec(
        id=id if id is not None else name or checked_start(str(id), start),
        start=start,
        args=args,
        restart=restart,
        shutdown=shutdown if shutdown is not None else (math.inf if is_supervisor else 5.0),
        significant=significant,
        start_timeout=start_timeout,
        name=name,
        when_down=when_down,
        redeliver=redeliver,
        capacity=capacity,
        overflow=overflow,
        stalled_after=stalled_after,
    )
    check_child(spec)
    return spec


def supervisor(
    *children: ChildSpec,
    id: str = "supervisor",  # noqa: A002 - OTP's word for it
    strategy: Strategy = "one_for_one",
    intensity: int | None = 3,
    period: float = 5.0,
    backoff: Backoff | None = None,
    auto_shutdown: AutoShutdown = "never",
    max_children: float = math.inf,
    restart: Restart = "permanent",
    shutdown: Shutdown = math.inf,
    significant: bool = False,
    name: str | None = None,
) -> ChildSpec:
    """Specify a supervisor below another: a child with children.

    Raises:
        BadSpec: a value that cannot be meant; it names the rule.
    """
    return child(
        SupervisorSpec(
            children=children,
            strategy=strategy,
            intensity=intensity,
            period=period,
            backoff=backoff,
            auto_shutdown=auto_shutdown,
            max_children=max_children,
        ),
        id=id,
        restart=restart,
        shutdown=shutdown,
        significant=significant,
        start_timeout=math.inf,
        name=name,
    )


def check_flags(spec: SupervisorSpec) -> None:
    """Check a supervisor's own values, in OTP's order."""

    def bad(rule: str, detail: str) -> BadSpec:
        return BadSpec("supervisor", rule, detail)

    if spec.strategy not in get_args(Strategy):
        raise bad("invalid_strategy", f"strategy {spec.strategy!r} is none of {get_args(Strategy)}")
    intensity = spec.intensity
    if intensity is None:
        if spec.backoff is None:
            raise bad(
                "invalid_intensity",
                "intensity=None never gives up; it needs a backoff=, or a child that cannot "
                "start keeps the machine busy for ever",
            )
    elif not is_count(intensity):
        raise bad("invalid_intensity", f"intensity must be an int of 0 or more, not {intensity!r}")
    if not _is_number(spec.period) or not 0 < spec.period < math.inf:
        raise bad("invalid_period", f"period must be more than 0 seconds, not {spec.period!r}")
    if spec.auto_shutdown not in get_args(AutoShutdown):
        raise bad(
            "invalid_auto_shutdown",
            f"auto_shutdown {spec.auto_shutdown!r} is none of {get_args(AutoShutdown)}",
        )
    if spec.auto_shutdown != "never" and spec.strategy == "dynamic":
        raise bad("bad_combination", "auto_shutdown cannot be had with the strategy dynamic")
    if not _is_number(spec.max_children) or not spec.max_children >= 0:
        raise bad(
            "invalid_max_children", f"max_children must be 0 or more, not {spec.max_children!r}"
        )


def check_children(
    children: tuple[ChildSpec, ...], auto_shutdown: AutoShutdown, strategy: Strategy
) -> None:
    """Check the children of one supervisor together."""
    for each in children:
        if not _is_a(each, ChildSpec):
            raise BadSpec(
                str(each), "invalid_child_spec", f"{each!r} is no specification: use child(…)"
            )
        check_child(each)
        check_significant(each, auto_shutdown)
    if strategy == "dynamic" and len(children) != 1:
        raise BadSpec(
            "supervisor",
            "bad_start_spec",
            f"the strategy dynamic takes exactly one child, its template, not {len(children)}",
        )
    seen: set[str] = set()
    for each in children:
        if each.id in seen:
            raise BadSpec(
                each.id, "duplicate_child_name", "two children have this id; give each its id="
            )
        seen.add(each.id)


def check_significant(spec: ChildSpec, auto_shutdown: AutoShutdown) -> None:
    """Check a significant child against its supervisor."""
    if spec.significant and auto_shutdown == "never":
        raise BadSpec(
            spec.id, "bad_combination", "significant means nothing with auto_shutdown='never'"
        )


def check_child(spec: ChildSpec) -> None:
    """Check one child's values, in OTP's order."""

    def bad(rule: str, detail: str) -> BadSpec:
        return BadSpec(str(spec.id), rule, detail)

    if not _is_text(spec.id):
        raise bad("missing_id", f"an id is a text of at least one character, not {spec.id!r}")
    checked_start(spec.id, spec.start)
    if spec.restart not in get_args(Restart):
        raise bad(
            "invalid_restart_type", f"restart {spec.restart!r} is none of {get_args(Restart)}"
        )
    if not _is_a(spec.significant, bool):
        raise bad("invalid_significant", f"significant is a bool, not {spec.significant!r}")
    if spec.significant and spec.restart == "permanent":
        raise bad("bad_combination", "a permanent child cannot be significant: it never ends")
    if spec.shutdown != "brutal_kill" and not (_is_number(spec.shutdown) and spec.shutdown >= 0):
        raise bad(
            "invalid_shutdown",
            f"shutdown is seconds of 0 or more, inf, or 'brutal_kill', not {spec.shutdown!r}",
        )
    if not _is_number(spec.start_timeout) or not spec.start_timeout >= 0:
        raise bad("invalid_start_timeout", f"start_timeout is seconds, not {spec.start_timeout!r}")
    if spec.when_down not in get_args(WhenDown):
        raise bad("invalid_when_down", f"when_down {spec.when_down!r} is none of wait, fail")
    if not is_count(spec.redeliver):
        raise bad("invalid_redeliver", f"redeliver is an int of 0 or more, not {spec.redeliver!r}")
    if spec.stalled_after is not None and not (
        _is_number(spec.stalled_after) and spec.stalled_after > 0
    ):
        raise bad("invalid_stalled_after", f"stalled_after is seconds, not {spec.stalled_after!r}")
    if spec.stalled_after is not None and spec.type == "supervisor":
        raise bad("bad_combination", "stalled_after is for workers: a supervisor may have to wait")


def checked_start(of: str, start: object) -> str:
    """The name of what the child `of` is to be."""
    if start is None:
        raise BadSpec(of, "missing_start", "start is missing: give an actor class")
    if isinstance(start, SupervisorSpec):
        return "supervisor"
    try:
        return kind_of(start).name
    except TypeError as error:  # nothing that could be one, or nothing that has a hash
        raise BadSpec(of, "invalid_start", str(error)) from None


def is_count(value: object) -> bool:
    """Whether `value` is a number of things: an int of 0 or more, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_a(value: object, kind: type) -> bool:
    """Whether `value` is what its annotation says: callers need not be type-checked."""
    return isinstance(value, kind)
