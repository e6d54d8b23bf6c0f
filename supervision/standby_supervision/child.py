"""What a supervisor is told of its children: specifications, checked before anything starts.

They are values: compared, printed, and, where all in them can be imported, encoded
(:mod:`spec_json`).  A whole application is one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, Never

from attrs import Attribute, field, fields, frozen

from standby_actors.kind import HasKind, Overflow, StopMode, kind_of

from .backoff import Backoff
from .checks import AutoShutdown as AutoShutdown
from .checks import Restart as Restart
from .checks import Shutdown as Shutdown
from .checks import Strategy as Strategy
from .checks import WhenDown as WhenDown
from .checks import check_all_arguments as check_all_arguments
from .checks import check_child as check_child
from .checks import check_flags, check_siblings, is_a, names_of
from .checks import check_significant as check_significant
from .checks import is_count as is_count
from .errors import BadSpec
from .starts import check_known, checked_start


@frozen(str=False)
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
    names: tuple[str, ...] = field(init=False, eq=False, repr=False)
    """The names that its children, and those below them, will have."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "names", check_supervisor(self))

    def walk(self, path: str = "") -> Iterator[tuple[str, ChildSpec]]:
        """Every child below, with its path of ids, owners first."""
        above = f"{path}/" if path else ""
        todo = [(f"{above}{each.id}", each) for each in reversed(self.children)]
        while todo:
            here, spec = todo.pop()
            yield here, spec
            if isinstance(spec.start, SupervisorSpec):
                below = reversed(spec.start.children)
                todo.extend((f"{here}/{each.id}", each) for each in below)

    def render(self) -> str:
        """The tree as text, one line a child, in start order.  ``print`` shows it, too.

        What is not as by default is said; arguments are not, as they may be long, or secret.
        """
        return "\n".join((self.words(), *_lines(self)))

    def words(self) -> str:
        """Its own flags as text."""
        limit = f"{self.intensity} restarts in {self.period:g} s"
        words = [self.strategy, limit if self.intensity is not None else "any number of restarts"]
        if self.backoff is not None:
            words.append(f"back-off {self.backoff.first:g} to {self.backoff.cap:g} s")
        if self.auto_shutdown != "never":
            words.append(f"ends with {self.auto_shutdown}")
        if self.max_children != math.inf:
            words.append(f"at most {self.max_children:g} children")
        return ", ".join(words)

    __str__ = render


@frozen(str=False)
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
    stop_mode: StopMode | None = None
    """Whether its stop waits for the handler in progress, or interrupts it."""
    dedicated: bool | None = None
    """Whether all its hooks and handlers run on one task."""
    stalled_after: float | None = None
    """Seconds that it may be at one message; then it is killed, as crashed with ``Stalled``."""
    is_checked: bool = field(default=False, init=False, eq=False, repr=False)
    """Whether it is known to keep the rules."""

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

    def render(self) -> str:
        """The child, and all below it, as text; see :meth:`SupervisorSpec.render`."""
        below = _lines(self.start) if isinstance(self.start, SupervisorSpec) else ()
        return "\n".join((self.words(), *below))

    def words(self) -> str:
        """Itself as one line: id, what it is, and what is not as by default."""
        is_supervisor = isinstance(self.start, SupervisorSpec)
        words = [self.start.words() if is_supervisor else self.kind]
        for each in OPTIONS:
            value = getattr(self, each.name)
            if value != default_of(each, self.start):
                words.append(_words_of(each.name, value))
        return f"{self.id}: {', '.join(words)}"

    __str__ = render


OPTIONS: tuple[Attribute[Any], ...] = tuple(
    each for each in fields(ChildSpec) if each.init and each.name not in ("id", "start", "args")
)
"""What may be said of a child, beyond what it is."""


def default_of(option: Attribute[Any], start: Any) -> Any:
    """What `option` of a child is that does not say it."""
    if option.name not in ("shutdown", "start_timeout"):
        return option.default
    if isinstance(start, SupervisorSpec):
        return math.inf
    return getattr(kind_of(start), option.name)


def child(
    start: Callable[..., Any] | HasKind | SupervisorSpec,
    *args: Any,
    id: str | None = None,  # noqa: A002 - OTP's word for it
    restart: Restart = "permanent",
    shutdown: Shutdown | None = None,
    significant: bool = False,
    start_timeout: float | None = None,
    name: str | None = None,
    when_down: WhenDown = "wait",
    redeliver: int = 0,
    capacity: float | None = None,
    overflow: Overflow | None = None,
    stop_mode: StopMode | None = None,
    dedicated: bool | None = None,
    stalled_after: float | None = None,
    **unknown: Never,
) -> ChildSpec:
    """Specify a child.

    Args:
        start: an actor class, a ``functools.partial`` of one, a function of one
            message, or a supervisor's specification.
        args: what the class is called with, in every life.  Whether it can be is
            checked, here and where the child gets its supervisor.
        id: unique among its siblings; by default `name`, or the name of `start`.
        restart: ``"permanent"``: always; ``"transient"``: unless it ended normally
            or was asked to; ``"temporary"``: never.
        shutdown: seconds from its stop to its kill, ``"brutal_kill"``, or inf; by
            default what its class says, which is 5, and inf for a supervisor.
        significant: whether its end counts for its supervisor's `auto_shutdown`.
        start_timeout: seconds that its start hook may take; by default what its
            class says, which is 30, and inf for a supervisor.
        name: under which it is registered, in all its lives.  No two of a tree may
            have the same.
        when_down: whether asks that come between two lives ``"wait"`` or ``"fail"``.
        redeliver: how often a message that crashed it is given to it again.
        capacity: messages that may wait.
        overflow: what happens to one over that bound.
        stop_mode: whether its stop lets the handler in progress ``"finish"``, or is
            to ``"interrupt"`` it.
        dedicated: whether all its hooks and handlers run on one task.
        stalled_after: seconds that it may be at one message; one that is for longer
            (it shows within a quarter more) is killed, and crashed with ``Stalled``.
        unknown: nothing; an option that does not exist is refused, with the nearest.

    `capacity`, `overflow`, `stop_mode` and `dedicated` are, by default, what the class
    says; they and the rest from `redeliver` on are for workers.

    Raises:
        BadSpec: a value that cannot be meant; it names the child and the rule.
    """
    is_supervisor = isinstance(start, SupervisorSpec)
    if id is not None:
        known = id
    elif is_a(name, str):
        known = str(name)
    else:
        known = "supervisor" if is_supervisor else checked_start("", start)
    if unknown:
        check_known(known, unknown, ("id", *(each.name for each in OPTIONS)), "child")
    if not is_supervisor and (shutdown is None or start_timeout is None):
        checked_start(known, start)
        kind = kind_of(start)
        shutdown = kind.shutdown if shutdown is None else shutdown
        start_timeout = kind.start_timeout if start_timeout is None else start_timeout
    spec = ChildSpec(
        id=known,
        start=start,
        args=args,
        restart=restart,
        shutdown=shutdown if shutdown is not None else math.inf,
        significant=significant,
        start_timeout=start_timeout if start_timeout is not None else math.inf,
        name=name,
        when_down=when_down,
        redeliver=redeliver,
        capacity=capacity,
        overflow=overflow,
        stop_mode=stop_mode,
        dedicated=dedicated,
        stalled_after=stalled_after,
    )
    check_spec(spec)
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
    when_down: WhenDown = "wait",
    **unknown: Never,
) -> ChildSpec:
    """Specify a supervisor below another: a child with children.

    Its flags are those of :func:`open_supervisor`, the rest is as in :func:`child`.

    Raises:
        BadSpec: a value that cannot be meant; it names the child and the rule.
    """
    if unknown:
        check_known(id, unknown, SUPERVISOR_OPTIONS, "supervisor")
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
        name=name,
        when_down=when_down,
    )


FLAGS = tuple(each.name for each in fields(SupervisorSpec) if each.init and each.name != "children")
"""What may be said of a supervisor, beyond its children."""
SUPERVISOR_OPTIONS = (
    *FLAGS,
    "id",
    "restart",
    "shutdown",
    "significant",
    "name",
    "when_down",
)


def check_supervisor(spec: SupervisorSpec) -> tuple[str, ...]:
    """Check a supervisor's own values and its children, each and together.

    Returns the names that there will be, those of templates apart: they are had by
    their children, one of them at a time.
    """
    check_flags(spec)
    for each in spec.children:
        check_spec(each)
    check_siblings(spec.children, spec.auto_shutdown, spec.strategy)
    return names_of(spec.children) if spec.strategy != "dynamic" else ()


def check_spec(spec: object) -> None:
    """Check what shall be the specification of a child."""
    if not isinstance(spec, ChildSpec):
        raise BadSpec(_cut(spec), "invalid_child_spec", f"{_cut(spec)} is none: use child(…)")
    if not spec.is_checked:
        check_child(spec)
        # It is a value: what holds once, holds for ever.
        object.__setattr__(spec, "is_checked", True)


def _cut(what: object) -> str:
    text = repr(what)
    return text if len(text) <= 80 else f"{text[:80]} …"


def _words_of(option: str, value: Any) -> str:
    if option == "restart":
        return str(value)
    if option == "shutdown":
        return value if isinstance(value, str) else f"shutdown {value:g} s"
    if option in ("start_timeout", "stalled_after"):
        return f"{option} {value:g} s"
    if isinstance(value, bool):
        return option if value else f"not {option}"
    return f"{option} {value}"


def _lines(spec: SupervisorSpec) -> Iterator[str]:
    """One line for each child below, with the branches that lead to it."""
    todo = [("", each, each is spec.children[-1]) for each in reversed(spec.children)]
    while todo:
        before, each, is_last = todo.pop()
        yield before + ("└─ " if is_last else "├─ ") + each.words()
        if isinstance(each.start, SupervisorSpec):
            below = each.start.children
            inner = before + ("   " if is_last else "│  ")
            todo.extend((inner, one, one is below[-1]) for one in reversed(below))
