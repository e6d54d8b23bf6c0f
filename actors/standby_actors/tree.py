"""What is alive, and what each is waiting for: values, and a picture for people."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from .reply import Reply

if TYPE_CHECKING:
    from .cell import Cell

State = Literal[
    "idle", "queued", "running", "waiting", "starting", "suspended", "stopping", "stuck", "ended"
]


@frozen
class Snapshot:
    """One actor at one moment.  A value: it does not change with the actor."""

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

    def render(self, *, most: int = 20) -> str:
        """The tree as text, one line an actor.

        Args:
            most: children shown of one actor; the rest are counted.
        """
        return "\n".join(self._lines("", "", most))

    def _lines(self, first: str, rest: str, most: int) -> Iterator[str]:
        words = [self.name, self.state]
        if self.mailbox:
            words.append(f"{self.mailbox} waiting")
        if self.incarnation > 1:
            words.append(f"life {self.incarnation}")
        if self.waits_for:
            words.append(f"on {self.waits_for}")
        yield first + "  ".join(words)
        shown = self.children[:most]
        hidden = len(self.children) - len(shown)
        for place, child in enumerate(shown):
            is_last = place == len(shown) - 1 and not hidden
            yield from child._lines(
                rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  "), most
            )
        if hidden:
            yield f"{rest}└─ … and {hidden} more"


def snapshot_of(cell: Cell[Any]) -> Snapshot:
    """What `cell` and everything it owns is doing now."""
    # Owners before children, then put together from the leaves up: a deep tree
    # must not need a deep stack.
    order: list[Cell[Any]] = []
    paths: dict[Cell[Any] | None, str] = {}
    todo = [cell]
    while todo:
        each = todo.pop()
        order.append(each)
        above = paths.get(each.parent)
        paths[each] = each.path if above is None else f"{above}/{each.own_name()}"
        todo.extend(_children(each))
    done: dict[int, Snapshot] = {}
    for each in reversed(order):
        children = tuple(done[id(child)] for child in _children(each))
        extra = each.extra
        done[id(each)] = Snapshot(
            path=paths[each],
            kind=each.kind.name,
            state=_state(each),
            mailbox=each.block.waiting_mail(each),
            waits_for=waits_on(each) if extra is not None else "",
            incarnation=each.incarnation,
            children=children,
        )
    return done[id(cell)]


def _children(cell: Cell[Any]) -> list[Cell[Any]]:
    """Actors that `cell` owns, those in blocks that its handlers hold included."""
    extra = cell.extra
    if extra is None:
        return []
    children = list(extra.children or ())
    if extra.rare is not None:
        children.extend(block.root for block in extra.rare.blocks)
    return children


def _state(cell: Cell[Any]) -> State:
    extra = cell.extra
    if cell.actor is None:
        return "ended"
    if extra is not None:
        rare = extra.rare
        if rare is not None and rare.stuck:
            return "stuck"
        if extra.stopping or extra.killed:
            return "stopping"
        if rare is not None and not rare.handled_start:
            return "starting"
        if extra.worker is not None or extra.coro is not None:
            if rare is not None and rare.mail_wait is not None:
                return "idle"
            return "waiting"
        if extra.suspended:
            return "suspended"
    if cell.block.running is cell or cell.block.stepping is cell:
        return "running"
    return "idle" if cell.mailbox is None else "queued"


def waits_on(cell: Cell[Any]) -> str:
    """What the handler in progress waits for, in words; empty where none waits."""
    extra = cell.extra
    if extra is None:
        return ""
    replies = [extra.waiting, *extra.also]
    asked = [
        each.target.path for each in replies if type(each) is Reply and each.target is not None
    ]
    if asked:
        return "an answer of " + ", ".join(asked)
    if extra.rare is not None and extra.rare.mail_wait is not None:
        return ""
    frames = list(await_frames(extra.coro))
    return frames[-1] if frames else ""


def await_frames(coro: Any) -> Iterator[str]:
    """Where `coro` stands, outermost first: ``name (file:line)`` for each frame.

    trio's own ``iter_await_frames`` ends where a worker drives a handler by hand.
    """
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
        code: CodeType | None = getattr(coro, "cr_code", None) or getattr(coro, "gi_code", None)
        if code is None:
            # `__await__` wrappers of coroutines carry no code of their own.
            name = type(coro).__name__
            if name != "coroutine_wrapper":
                yield name
            break
        if frame is not None:
            file = code.co_filename.rpartition("/")[2]
            yield f"{code.co_name} ({file}:{frame.f_lineno})"
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
