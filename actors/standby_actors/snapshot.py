"""What one actor and all below it are doing at one moment, as values, and as lines for people.

Nothing here looks at an actor: :mod:`tree` does, and puts these together.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

State = Literal[
    "idle",
    "queued",
    "running",
    "waiting",
    "starting",
    "suspended",
    "stopping",
    "stuck",
    "ended",
    "restarting",
    "down",
]
"""``restarting``: between two lives.  ``down``: its supervisor knows it, and it does not run."""
Role = Literal["worker", "supervisor", "block"]
WordKind = Literal["name", "state", "mail", "life", "rule", "trouble", "wait", "more"]

WORTH_A_LOOK: frozenset[State] = frozenset({"stuck", "restarting", "down"})
"""States of children that are shown first, where not all are."""
NOT_ACTIVE: frozenset[State] = frozenset({"ended", "restarting", "down"})
REASON_SHOWN = 160
"""Characters of a reason that a line has room for."""


class ChildStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a supervisor knows of one of its children."""

    id: str
    restart: str
    """``"permanent"``, ``"transient"`` or ``"temporary"``."""
    restarts: int = 0
    """How often it was started again."""
    last_reason: str = ""
    """How its last life ended; empty where it has had one only."""
    uptime_seconds: float | None = None
    """How long this life has lasted; None while it has none, or outside of trio."""
    retry_seconds: float | None = None
    """Until it is tried again, where a back-off delays that; None where nothing is due."""
    streak: int = 0
    """Restarts in a row, none of them followed by a life long enough."""


class SupervisorStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a supervisor does about its children."""

    strategy: str
    children: int
    """How many it knows."""
    active: int
    """How many of them have a life."""
    intensity: int | None
    """Restarts allowed within :attr:`period_seconds`; None for any number."""
    period_seconds: float
    recent_restarts: int = 0
    """Restarts that count at this moment."""
    restarts: int = 0
    """All that it has ever counted, in this life of its own."""
    gave_up: str = ""
    """Why it gave up, if it did."""


class Tally(msgspec.Struct, frozen=True):
    """Children that are not shown one by one."""

    state: State
    count: int


class Word(NamedTuple):
    """A part of a line, and what it is about."""

    kind: WordKind
    text: str


class Line(NamedTuple):
    """One line of a picture of a tree."""

    branch: str
    """What draws the tree, on the left."""
    words: tuple[Word, ...]

    def __str__(self) -> str:
        return self.branch + "  ".join(word.text for word in self.words)


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """One actor at one moment.  A value: it does not change with the actor, and can be encoded."""

    path: str
    kind: str
    """Name of its class or function."""
    state: State
    mailbox: int
    """Messages that wait."""
    waits_for: str
    """What the handler in progress waits for; empty where none waits."""
    incarnation: int
    children: tuple[Snapshot, ...]
    role: Role = "worker"
    message: str = ""
    """Type of the message in progress; what is in it is its own business."""
    asks: tuple[str, ...] = ()
    """Paths of the actors whose answers it waits for."""
    stack: tuple[str, ...] = ()
    """Where the handler in progress stands, outermost first: ``name (file:line)``."""
    not_shown: tuple[Tally, ...] = ()
    """Further children, counted by state."""
    child: ChildStatus | None = None
    """What its supervisor knows of it; None where it has none."""
    supervisor: SupervisorStatus | None = None
    """What it does about its children; None where it is no supervisor."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def __iter__(self) -> Iterator[Snapshot]:
        """This actor and all below it, owners first."""
        todo: list[Snapshot] = [self]
        while todo:
            snapshot = todo.pop()
            yield snapshot
            todo.extend(reversed(snapshot.children))

    def render(self, *, most: int = 20, depth: int | None = None) -> str:
        """The tree as text, one line an actor.

        Args:
            most: children shown of one actor; the rest are counted by state.  Those
                that are stuck, restarting or down come first.
            depth: levels shown below this one; None for all.
        """
        return "\n".join(map(str, self.lines(most=most, depth=depth)))

    def lines(self, *, most: int = 20, depth: int | None = None) -> Iterator[Line]:
        """The same in parts, for who sets them in colours."""
        # What is still to be written, the next line last: not by recursion, as a tree
        # may be deeper than the stack.
        todo: list[tuple[str, str, int, Snapshot | str]] = [("", "", 0, self)]
        while todo:
            first, rest, level, what = todo.pop()
            if isinstance(what, str):
                yield Line(first, (Word("more", what),))
                continue
            yield Line(first, tuple(_words(what)))
            room = most if depth is None or level < depth else 0
            below = _shown(what, room)
            for number, child in enumerate(reversed(below)):
                branch, indent = ("├─ ", "│  ") if number else ("└─ ", "   ")
                todo.append((rest + branch, rest + indent, level + 1, child))


def chosen(states: Sequence[State], room: int) -> list[int]:
    """Which of many children to show, as places in `states`, in their order.

    Examples:
        >>> chosen(["idle", "idle", "stuck", "idle"], 2)
        [0, 2]
    """
    first = [place for place, state in enumerate(states) if state in WORTH_A_LOOK][:room]
    taken = set(first)
    for place in range(len(states)):
        if len(taken) >= room:
            break
        taken.add(place)
    return sorted(taken)


def _shown(snapshot: Snapshot, room: int) -> list[Snapshot | str]:
    """The children to write, and at last what is said of the others."""
    children = snapshot.children
    below: list[Snapshot | str] = list(children)
    hidden: collections.Counter[State] = collections.Counter()
    for tally in snapshot.not_shown:
        hidden[tally.state] += tally.count
    if len(children) > room:
        places = chosen([child.state for child in children], room)
        below = [children[place] for place in places]
        hidden.update(child.state for child in children)
        hidden.subtract(children[place].state for place in places)
        hidden = +hidden
    if hidden:
        states = ", ".join(f"{count:,} {state}" for state, count in hidden.most_common())
        below.append(f"… and {hidden.total():,} more: {states}" if below else f"… {states}")
    return below


def _words(snapshot: Snapshot) -> Iterator[Word]:
    yield Word("name", one_line(snapshot.name))
    status = snapshot.supervisor
    # That a supervisor has no message just now is not what one wants to know of it.
    if status is None or snapshot.state != "idle":
        yield Word("state", snapshot.state)
    if snapshot.mailbox:
        yield Word("mail", f"{snapshot.mailbox:,} in mailbox")
    if snapshot.incarnation > 1:
        yield Word("life", f"life {snapshot.incarnation}")
    if status is not None:
        yield from _of_supervisor(status)
    if snapshot.child is not None:
        yield from _of_child(snapshot.child)
    if snapshot.waits_for:
        yield Word("wait", f"on {one_line(snapshot.waits_for)}")


def _of_supervisor(status: SupervisorStatus) -> Iterator[Word]:
    up = f"{status.active:,}"
    if status.active != status.children:
        up += f" of {status.children:,}"
    yield Word("rule", f"{status.strategy}, {up} up")
    if status.restarts:
        words = f"{status.restarts:,} restarts" if status.restarts > 1 else "1 restart"
        if status.intensity is not None:
            window = f"{status.period_seconds:g} s"
            words += f", {status.recent_restarts} of {status.intensity} within {window}"
        yield Word("trouble" if status.recent_restarts else "rule", words)
    if status.gave_up:
        yield Word("trouble", f"gave up: {one_line(status.gave_up)}")


def _of_child(status: ChildStatus) -> Iterator[Word]:
    if status.restarts and status.uptime_seconds is not None:
        yield Word("life", f"up {span(status.uptime_seconds)}")
    if status.retry_seconds is not None:
        yield Word("wait", f"again in {span(status.retry_seconds)}")
    if status.last_reason:
        is_well = status.last_reason.startswith(("normal", "shutdown"))
        yield Word("life" if is_well else "trouble", f"last: {one_line(status.last_reason)}")


def one_line(text: str) -> str:
    """`text` on one line, without what a terminal would take for an order.

    Examples:
        >>> one_line("no\\n  tea\\x1b[2J")
        'no tea\\ufffd[2J'
    """
    words = " ".join(text.split())
    if len(words) > REASON_SHOWN:
        words = f"{words[:REASON_SHOWN]} …"
    return "".join(each if each.isprintable() else "\ufffd" for each in words)


def sound(text: str) -> str:
    """`text` without the half letters that cannot be encoded, as from names of files.

    Examples:
        >>> sound("caf\\udce9")
        'caf?'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def span(seconds: float) -> str:
    """`seconds` as one says them, in at most two units.

    Examples:
        >>> span(0.25), span(59), span(61), span(7260), span(200_000)
        ('0.2 s', '59 s', '1 min 1 s', '2 h 1 min', '2 d 7 h')
    """
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}".removesuffix(".0") + " s"
    whole = int(seconds)
    for size, unit, below, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    minutes, rest = divmod(whole, 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min" + (f" {rest} s" if rest else "")
