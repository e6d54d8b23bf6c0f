"""What is alive, and what each is waiting for: values, and a picture for people."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal

import trio
from attrs import frozen

from .reply import Reply

if TYPE_CHECKING:
    from .cell import Cell

_TRIO = trio.__file__.removesuffix("__init__.py")

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
        return "\n".join(self._lines(most))

    def _words(self) -> str:
        words = [self.name, self.state]
        if self.mailbox:
            words.append(f"{self.mailbox} waiting")
        if self.incarnation > 1:
            words.append(f"life {self.incarnation}")
        if self.waits_for:
            words.append(f"on {self.waits_for}")
        return "  ".join(words)

    def _lines(self, most: int) -> Iterator[str]:
        # What is still to be written, the next line last: not by recursion, as a tree
        # may be deeper than the stack.
        todo: list[tuple[str, str, Snapshot | str]] = [("", "", self)]
        while todo:
            first, rest, what = todo.pop()
            if isinstance(what, str):
                yield first + what
                continue
            yield first + what._words()
            below: list[Snapshot | str] = list(what.children[:most])
            hidden = len(what.children) - len(below)
            if hidden:
                below.append(f"… and {hidden} more")
            for child in reversed(below):
                is_last = child is below[-1]
                todo.append(
                    (
                        rest + ("└─ " if is_last else "├─ "),
                        rest + ("   " if is_last else "│  "),
                        child,
                    )
                )


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
                return "suspended" if extra.suspended else "idle"
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
