"""Looking at what is alive, and at what each waits for; :mod:`snapshot` has the values."""

from __future__ import annotations

import collections
import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias

import trio
from attrs import define, field

from .reply import Reply
from .snapshot import (
    NOT_ACTIVE,
    WORTH_A_LOOK,
    ChildStatus,
    Role,
    Snapshot,
    State,
    SupervisorStatus,
    Tally,
    chosen,
    sound,
)

if TYPE_CHECKING:
    from .cell import Cell, Keeper

_TRIO = trio.__file__.removesuffix("__init__.py")
AT_A_TIME = 500
"""Actors looked at before others may have their turn."""


class Overseer:
    """An actor that knows of its children more than their cells do: a supervisor."""

    __slots__ = ()

    def keepers(self) -> Iterable[Keeper]:
        """What stands for each child, in start order, those that do not run included."""
        raise NotImplementedError

    def supervisor_status(self, active: int, now: float | None) -> SupervisorStatus:
        """What it does about its children, `active` of which have a life.

        Args:
            active: counted by who looks.
            now: on trio's clock; None outside of trio.
        """
        raise NotImplementedError


@define(eq=False)
class _Seen:
    """One place in the tree, while it is being looked at."""

    cell: Cell[Any] | None
    """None for a child that has never run."""
    keeper: Keeper | None
    path: str
    depth: int
    below: list[_Seen] = field(factory=list["_Seen"])
    known: int = 0
    """How many of the first ones of :attr:`below` are a supervisor's children."""
    not_shown: tuple[Tally, ...] = ()


_Place: TypeAlias = "Cell[Any] | Keeper"
"""A child, not looked at yet.  No pair of both: of 100,000 of those the garbage
collector would hear."""


def snapshot_of(cell: Cell[Any]) -> Snapshot:
    """What `cell` and everything it owns is doing now."""
    look = look_at([cell])
    while True:
        try:
            next(look)
        except StopIteration as done:
            (snapshot,) = done.value
            assert isinstance(snapshot, Snapshot)
            return snapshot


def look_at(
    cells: Sequence[Cell[Any]],
    *,
    most: float = math.inf,
    depth: float = math.inf,
    limit: float = math.inf,
) -> Generator[None, None, tuple[Snapshot, ...]]:
    """Look at `cells` and what they own, pausing now and then; returns a snapshot of each.

    Whoever drives it may let others run at each pause.  Each actor is then seen at
    one moment, and the tree within a few.

    Args:
        most: children of one actor that are looked at one by one.
        depth: levels below `cells`.
        limit: actors looked at in all, `cells` included; nearer ones first.
    """
    roots = [_Seen(cell, None, cell.path, 0) for cell in cells]
    # Owners before children, then put together from the leaves up: a deep tree must
    # not need a deep stack.
    order: list[_Seen] = []
    todo = collections.deque(roots)
    while todo:
        seen = todo.popleft()
        order.append(seen)
        if len(order) % AT_A_TIME == 0:
            yield
        keepers, cells = _below(seen)
        places: list[_Place] = [*keepers, *cells]
        room = min(most, limit - len(order) - len(todo)) if seen.depth < depth else 0
        if len(places) > room:
            places = yield from _choose(seen, places, len(keepers), int(max(0, room)))
        else:
            seen.known = len(keepers)
        for number, place in enumerate(places):
            cell, keeper = _both(place, number < seen.known)
            path = f"{seen.path}/{_name_of(cell, keeper)}"
            seen.below.append(_Seen(cell, keeper, path, seen.depth + 1))
        todo.extend(seen.below)
    done: dict[int, Snapshot] = {}
    for number, seen in enumerate(reversed(order), start=1):
        done[id(seen)] = _snapshot(seen, tuple(done.pop(id(each)) for each in seen.below))
        if number % AT_A_TIME == 0:
            yield
    return tuple(done[id(root)] for root in roots)


def _snapshot(seen: _Seen, children: tuple[Snapshot, ...]) -> Snapshot:
    cell, keeper = seen.cell, seen.keeper
    try:
        now = trio.current_time()
    except RuntimeError:
        now = None  # nobody runs any more, or another thread asks
    if cell is None:
        assert keeper is not None
        return Snapshot(
            path=sound(seen.path),
            kind=keeper.kind,
            state=_state(cell, keeper),
            mailbox=0,
            waits_for="",
            incarnation=1,
            children=children,
            role=keeper.role,
            child=keeper.child_status(now),
        )
    extra = cell.extra
    if keeper is None:
        keeper = cell.keeper
    role: Role = "block" if cell.parent is None else keeper.role if keeper else "worker"
    supervisor: SupervisorStatus | None = None
    if isinstance(cell.actor, Overseer):
        role = "supervisor"
        active = sum(child.state not in NOT_ACTIVE for child in children)
        active += sum(each.count for each in seen.not_shown if each.state not in NOT_ACTIVE)
        supervisor = cell.actor.supervisor_status(active, now)
    child: ChildStatus | None = keeper.child_status(now) if keeper is not None else None
    message = ""
    asks: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    if extra is not None:
        message = _message(extra.message)
        asks = _asks(cell)
        frames = tuple(frame for _, frame in _frames(extra.coro))
    return Snapshot(
        path=sound(seen.path),
        kind=cell.kind.name,
        state=_state(cell, keeper),
        mailbox=cell.block.waiting_mail(cell),
        waits_for=sound(waits_on(cell)) if extra is not None else "",
        incarnation=cell.incarnation,
        children=children,
        role=role,
        message=message,
        asks=asks,
        stack=frames,
        not_shown=seen.not_shown,
        child=child,
        supervisor=supervisor,
    )


def _choose(
    seen: _Seen, places: list[_Place], known: int, room: int
) -> Generator[None, None, list[_Place]]:
    """The children to look at, as many as there is `room` for; counts the others."""
    states: list[State] = []
    counts: collections.Counter[State] = collections.Counter()
    first: list[int] = []
    for start in range(0, len(places), AT_A_TIME):
        some: list[State] = [
            _state(*_both(place, number < known))
            for number, place in enumerate(places[start : start + AT_A_TIME], start)
        ]
        states.extend(some)
        counts.update(some)
        if len(first) < room and not WORTH_A_LOOK.isdisjoint(some):
            first.extend(
                start + place for place in chosen(some, room) if some[place] in WORTH_A_LOOK
            )
        yield
    taken = set(first[:room])
    # Not over all of them: these are many, and this is one step.
    for place in range(len(places)):
        if len(taken) >= room:
            break
        taken.add(place)
    counts.subtract(states[place] for place in taken)
    seen.not_shown = tuple(Tally(*each) for each in (+counts).most_common())
    seen.known = sum(place < known for place in taken)
    return [places[place] for place in sorted(taken)]


def _below(seen: _Seen) -> tuple[list[Keeper], list[Cell[Any]]]:
    """What is owned by what was `seen`: a supervisor's children, and whatever else there
    is, blocks that its handlers hold included."""
    cell = seen.cell
    if cell is None:
        return [], []
    keepers: list[Keeper] = []
    cells: list[Cell[Any]] = []
    extra = cell.extra
    if isinstance(cell.actor, Overseer):
        keepers = list(cell.actor.keepers())
    elif extra is not None and extra.children:
        cells = list(extra.children)
    if extra is not None and extra.rare is not None:
        cells.extend(block.root for block in extra.rare.blocks)
    return keepers, cells


def _both(place: Any, is_known: bool) -> tuple[Cell[Any] | None, Keeper | None]:
    """The cell of a child, and what stands for it in its supervisor, if it has one."""
    return (place.cell, place) if is_known else (place, None)


def _name_of(cell: Cell[Any] | None, keeper: Keeper | None) -> str:
    if cell is not None:
        return cell.own_name()
    assert keeper is not None
    return keeper.id


def _state(cell: Cell[Any] | None, keeper: Keeper | None) -> State:
    if cell is None or cell.actor is None:
        return _state_without_life(cell, keeper)
    extra = cell.extra
    if extra is not None:
        rare = extra.rare
        # One that waits for a stuck child is not what somebody has to look at.
        if rare is not None and rare.stuck and cell.block.is_busy(cell):
            return "stuck"
        if extra.stopping or extra.killed:
            return "stopping"
        if rare is not None and not rare.handled_start:
            return "starting"
        if extra.worker is not None or extra.coro is not None:
            if rare is not None and rare.mail_wait is not None:
                return "suspended" if extra.suspended else "idle"
            return "waiting"
        if extra.suspended:
            return "suspended"
    if cell.block.running is cell or cell.block.stepping is cell:
        return "running"
    return "idle" if cell.mailbox is None else "queued"


def _state_without_life(cell: Cell[Any] | None, keeper: Keeper | None) -> State:
    # Whose mailbox is open will have another life, whatever its supervisor is at.
    if (cell is not None and cell.is_alive) or (keeper and keeper.state == "restarting"):
        return "restarting"
    return "ended" if keeper is None else "down"


def _asks(cell: Cell[Any]) -> tuple[str, ...]:
    """Paths of the actors whose answers a handler of `cell` waits for."""
    extra = cell.extra
    if extra is None:
        return ()
    replies = [extra.waiting, *extra.also]
    return tuple(
        sound(each.target.path)
        for each in replies
        if type(each) is Reply and each.target is not None
    )


def _message(message: Any) -> str:
    """The type of a message in progress, or which hook it is; empty where there is none."""
    if type(message) is Reply:
        message = message.message
    if message is None:
        return ""
    label = getattr(message, "label", None) if type(message).__name__ == "System" else None
    return label or type(message).__name__


def waits_on(cell: Cell[Any]) -> str:
    """What the handler in progress waits for, in words; empty where none waits."""
    extra = cell.extra
    if extra is None:
        return ""
    asked = _asks(cell)
    if asked:
        return "an answer of " + ", ".join(asked)
    if extra.rare is not None and extra.rare.mail_wait is not None:
        return ""
    # The line of the handler's own code says it; trio's traps below it say nothing.
    line = ""
    for file, frame in _frames(extra.coro):
        if not line or not file.startswith(_TRIO):
            line = frame
    return line


def await_frames(coro: Any) -> Iterator[str]:
    """Where `coro` stands, outermost first: ``name (file:line)`` for each frame.

    trio's own ``iter_await_frames`` ends where a worker drives a handler by hand.
    """
    for _, frame in _frames(coro):
        yield frame


def _frames(coro: Any) -> Iterator[tuple[str, str]]:
    """The same, each after the path of its file."""
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
        code: CodeType | None = getattr(coro, "cr_code", None) or getattr(coro, "gi_code", None)
        if code is None:
            # `__await__` wrappers of coroutines carry no code of their own.
            name = type(coro).__name__
            if name != "coroutine_wrapper":
                yield _TRIO, name
            break
        if frame is not None:
            file = code.co_filename.rpartition("/")[2]
            yield code.co_filename, f"{code.co_name} ({file}:{frame.f_lineno})"
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
