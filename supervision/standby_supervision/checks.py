"""What a specification may say: its rules, in OTP's order, then our own.

Each names the child and the rule it breaks.  Nothing here starts or changes anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from standby_actors.kind import checked_capacity, checked_overflow, checked_stop_mode
from standby_actors.names import checked_name

from .backoff import Backoff
from .errors import BadSpec
from .starts import check_arguments, checked_start

if TYPE_CHECKING:
    from .child import ChildSpec, SupervisorSpec

Restart = Literal["permanent", "transient", "temporary"]
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one", "dynamic"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]
Shutdown = float | Literal["brutal_kill"]
WhenDown = Literal["wait", "fail"]
RESTARTS = get_args(Restart)
WHENS_DOWN = get_args(WhenDown)

FOR_WORKERS = ("redeliver", "capacity", "overflow", "stop_mode", "dedicated", "stalled_after")
"""Options of a child that mean nothing for a supervisor, or harm it."""


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
    if not is_number(spec.period) or not 0 < spec.period < math.inf:
        raise bad("invalid_period", f"period must be more than 0 seconds, not {spec.period!r}")
    if spec.auto_shutdown not in get_args(AutoShutdown):
        raise bad(
            "invalid_auto_shutdown",
            f"auto_shutdown {spec.auto_shutdown!r} is none of {get_args(AutoShutdown)}",
        )
    if spec.auto_shutdown != "never" and spec.strategy == "dynamic":
        raise bad("bad_combination", "auto_shutdown cannot be had with the strategy dynamic")
    if not is_number(spec.max_children) or not spec.max_children >= 0:
        raise bad(
            "invalid_max_children", f"max_children must be 0 or more, not {spec.max_children!r}"
        )
    if not is_a(spec.backoff, Backoff | None):
        raise bad("invalid_backoff", f"backoff is a Backoff or None, not {spec.backoff!r}")
    if not is_a(spec.children, tuple):
        raise bad(
            "bad_start_spec", f"children is a tuple of child(…), not {type(spec.children).__name__}"
        )


def check_siblings(
    children: tuple[ChildSpec, ...], auto_shutdown: AutoShutdown, strategy: Strategy
) -> None:
    """Check the children of one supervisor together; each of them has been checked."""
    for each in children:
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
        if strategy != "dynamic":  # to a template's, more are added when its children start
            check_all_arguments(each)


def names_of(children: tuple[ChildSpec, ...]) -> tuple[str, ...]:
    """The names that `children` and all below them have, those of templates apart.

    Raises:
        BadSpec: two of them are the same: both could never run.
    """
    names: dict[str, None] = {}
    for each in children:
        below = each.start.names if each.type == "supervisor" else ()
        for name in (*((each.name,) if each.name is not None else ()), *below):
            if name in names:
                raise BadSpec(
                    each.id, "duplicate_name", f"two actors of this tree have the name {name!r}"
                )
            names[name] = None
    return tuple(names)


def check_all_arguments(spec: ChildSpec) -> None:
    """Check that a child can be made with the arguments that it has."""
    if spec.type == "worker":
        check_arguments(spec.id, spec.start, spec.args, are_all=True)


def check_significant(spec: ChildSpec, auto_shutdown: AutoShutdown) -> None:
    """Check a significant child against its supervisor."""
    if spec.significant and auto_shutdown == "never":
        raise BadSpec(
            spec.id, "bad_combination", "significant means nothing with auto_shutdown='never'"
        )


def check_child(spec: ChildSpec) -> None:
    """Check one child's values, in OTP's order."""

    def bad(rule: str, detail: str) -> BadSpec:
        return BadSpec(spec.id if is_a(spec.id, str) else repr(spec.id), rule, detail)

    def check(what: str, checked: Callable[[Any], object]) -> None:
        value = getattr(spec, what)
        try:
            checked(value)
        # Out of its range, or of a type that cannot be compared with it.
        except (ValueError, TypeError, OverflowError) as error:
            raise bad(f"invalid_{what}", str(error)) from None

    if not is_a(spec.id, str) or not spec.id:
        raise bad("missing_id", f"an id is a text of at least one character, not {spec.id!r}")
    if spec.type == "worker":
        checked_start(spec.id, spec.start)
    if spec.restart not in RESTARTS:
        raise bad("invalid_restart_type", f"restart {spec.restart!r} is none of {RESTARTS}")
    if not is_a(spec.significant, bool):
        raise bad("invalid_significant", f"significant is a bool, not {spec.significant!r}")
    if spec.significant and spec.restart == "permanent":
        raise bad("bad_combination", "a permanent child cannot be significant: it never ends")
    if spec.shutdown != "brutal_kill" and not (is_number(spec.shutdown) and spec.shutdown >= 0):
        raise bad(
            "invalid_shutdown",
            f"shutdown is seconds of 0 or more, inf, or 'brutal_kill', not {spec.shutdown!r}",
        )
    if not is_number(spec.start_timeout) or not spec.start_timeout >= 0:
        raise bad("invalid_start_timeout", f"start_timeout is seconds, not {spec.start_timeout!r}")
    if spec.name is not None:
        check("name", checked_name)
    if spec.when_down not in WHENS_DOWN:
        raise bad("invalid_when_down", f"when_down {spec.when_down!r} is none of wait, fail")
    if not is_count(spec.redeliver):
        raise bad("invalid_redeliver", f"redeliver is an int of 0 or more, not {spec.redeliver!r}")
    if spec.capacity is not None:
        if not is_number(spec.capacity):
            raise bad("invalid_capacity", f"capacity is a number, not {spec.capacity!r}")
        check("capacity", checked_capacity)
    if spec.overflow is not None:
        check("overflow", checked_overflow)
    if spec.stop_mode is not None:
        check("stop_mode", checked_stop_mode)
    if spec.dedicated is not None and not is_a(spec.dedicated, bool):
        raise bad("invalid_dedicated", f"dedicated is a bool, not {spec.dedicated!r}")
    if spec.stalled_after is not None and not (
        is_number(spec.stalled_after) and spec.stalled_after > 0
    ):
        raise bad("invalid_stalled_after", f"stalled_after is seconds, not {spec.stalled_after!r}")
    if spec.type == "supervisor":
        if spec.args:
            raise bad("bad_combination", "a supervisor is made with its specification alone")
        for what in FOR_WORKERS:
            if getattr(spec, what):
                raise bad("bad_combination", f"{what} is for workers, and means nothing here")
    else:
        check_arguments(spec.id, spec.start, spec.args, are_all=False)


def is_count(value: object) -> bool:
    """Whether `value` is a number of things: an int of 0 or more, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: object) -> bool:
    """Whether `value` is an int or a float, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_a(value: object, kind: Any) -> bool:
    """Whether `value` is what its annotation says: callers need not be type-checked."""
    return isinstance(value, kind)
