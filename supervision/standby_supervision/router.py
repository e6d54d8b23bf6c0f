"""Pools of equal workers, and who chooses among them.

A router is no actor.  It picks the ref of a worker and calls it, in the task of
whoever sends: no hop, no mailbox that could fill, nobody who could crash.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, TypeVar, cast, get_args, overload

from attrs import evolve

from standby_actors import ActorError, ActorStopped, Ref, Reply, Request
from standby_actors.cell import DEAD, Cell
from standby_actors.kind import Overflow, StopMode, kind_of
from standby_actors.reply import ERROR, resolve

from .backoff import Backoff
from .child import ChildSpec, Restart, Shutdown, WhenDown, child, supervisor
from .errors import BadSpec
from .starts import check_known

if TYPE_CHECKING:
    from .tree import Branch

M = TypeVar("M")
R = TypeVar("R")

Routing = Literal["round_robin", "least_loaded", "by_key"]


def workers(
    start: Callable[..., Any],
    *args: Any,
    count: int,
    id: str | None = None,  # noqa: A002 - OTP's word for it
    intensity: int | None = 3,
    period: float = 5.0,
    backoff: Backoff | None = None,
    name: str | None = None,
    restart: Restart = "permanent",
    shutdown: Shutdown | None = None,
    start_timeout: float | None = None,
    when_down: WhenDown = "wait",
    redeliver: int = 0,
    capacity: float | None = None,
    overflow: Overflow | None = None,
    stop_mode: StopMode | None = None,
    dedicated: bool | None = None,
    stalled_after: float | None = None,
    **unknown: Never,
) -> ChildSpec:
    """Specify a pool: a supervisor with `count` equal workers, for ``tree.router(id)``.

    The workers restart one for one.  `restart` and what follows it is said of
    each of them, as in :func:`child`.

    Args:
        start: an actor class, or a function of one message.
        args: what the class is called with.
        count: how many, 1 or more; their ids are ``"1"``, ``"2"`` …
        id: the pool's; by default `name`, or the name of `start`.
        intensity: restarts allowed within `period`, of all of them together.
        period: seconds.
        backoff: delays before restarts.
        name: under which the pool's supervisor is registered.
        restart: whether a worker that has ended comes back.
        shutdown: seconds from a worker's stop to its kill.
        start_timeout: seconds that its start hook may take.
        when_down: whether asks that come between two lives ``"wait"`` or ``"fail"``.
        redeliver: how often a message that crashed a worker is given to it again.
        capacity: messages that may wait for one worker.
        overflow: what happens to one over that bound.
        stop_mode: whether its stop lets the handler in progress ``"finish"``, or is
            to ``"interrupt"`` it.
        dedicated: whether all hooks and handlers of a worker run on one task.
        stalled_after: seconds that a worker may be at one message.
        unknown: nothing; an option that does not exist is refused, with the nearest.

    Raises:
        BadSpec: a value that cannot be meant; it names the rule.
    """
    pool = id or name or _name_of(start)
    if unknown:
        check_known(pool, unknown, WORKERS_OPTIONS, "pool of workers")
    check_number(pool, count)
    each = child(
        start,
        *args,
        id="1",
        restart=restart,
        shutdown=shutdown,
        start_timeout=start_timeout,
        when_down=when_down,
        redeliver=redeliver,
        capacity=capacity,
        overflow=overflow,
        stop_mode=stop_mode,
        dedicated=dedicated,
        stalled_after=stalled_after,
    )
    return supervisor(
        *numbered(each, count),
        id=pool,
        intensity=intensity,
        period=period,
        backoff=backoff,
        name=name,
    )


WORKERS_OPTIONS = (
    *("count", "id", "intensity", "period", "backoff", "name", "restart", "shutdown"),
    *("start_timeout", "when_down", "redeliver", "capacity", "overflow", "stop_mode"),
    *("dedicated", "stalled_after"),
)


class Router(Generic[M]):
    """Sends each message to one worker of a pool.

    A worker between two lives keeps its mail (``when_down``).  One that was
    terminated gets none, except by key: then its messages are dead letters and
    its asks fail, rather than go to somebody who does not know the key.  While
    nobody is there, that is so for all.
    """

    def __init__(
        self,
        branch: Branch,
        routing: Routing = "round_robin",
        *,
        key: Callable[[M], Hashable] | None = None,
    ) -> None:
        """Choose among the children of `branch`, whatever specified them.

        Args:
            branch: the supervisor of the workers.
            routing: ``"round_robin"``: each in turn; ``"least_loaded"``: whoever
                has the fewest messages, waiting or in work, and is up;
                ``"by_key"``: the same key always to the same worker, so that the
                order of its messages is kept.
            key: for ``"by_key"``: what to tell messages apart by.

        Raises:
            ValueError: `routing` is none of these, or `key` does not go with it.
        """
        if routing not in get_args(Routing):
            raise ValueError(f"routing {routing!r} is none of {', '.join(get_args(Routing))}")
        if (key is not None) != (routing == "by_key"):
            raise ValueError("routing='by_key' and key=… go together, and with nothing else")
        self.routing: Routing = routing
        self._members = Members(branch.ref)
        self._key = key
        self._turn = 0

    def __len__(self) -> int:
        """How many workers there are."""
        return len(self._members.look_again())

    @property
    def workers(self) -> tuple[Ref[M], ...]:
        """The workers, in start order."""
        return tuple(self._members.look_again())

    def tell(self, message: M, /) -> None:
        """Put `message` into the mailbox of a worker, as :meth:`Ref.tell`."""
        cell = self._pick(message)
        if cell is not None:
            cell.tell(message)
        else:
            self._members.dead_letter(message)

    async def send(self, message: M, /) -> None:
        """Put `message` into the mailbox of a worker, waiting for room in it."""
        cell = self._pick(message)
        if cell is None:
            raise self._members.nobody()
        await cell.send(message)

    @overload
    def ask(self, message: Request[R], /, *, timeout: float | None = None) -> Reply[R]: ...
    @overload
    def ask(self, message: M, /, *, timeout: float | None = None) -> Reply[Any]: ...
    def ask(self, message: Any, /, *, timeout: float | None = None) -> Reply[Any]:
        """Send `message` to a worker at once, and return its answer, as :meth:`Ref.ask`."""
        cell = self._pick(message)
        if cell is None:
            return self._members.refused(message)
        return cell.ask(message, timeout=timeout)

    def _pick(self, message: Any) -> Cell[Any] | None:
        cells = self._members.cells()
        if self._key is not None:
            wanted = self._key(message)
            if cells and (cell := cells[spot(wanted, len(cells))]).mailbox is not DEAD:
                return cell
            cells = self._members.look_again()
            return cells[spot(wanted, len(cells))] if cells else None
        turn = self._turn
        if turn >= len(cells):
            turn = 0
        if self.routing == "round_robin":
            if not cells or cells[turn].mailbox is DEAD:
                cells = self._members.look_again()
                turn = next(
                    (at for at in _from(turn, len(cells)) if cells[at].mailbox is not DEAD), -1
                )
                if turn < 0:
                    return None
            self._turn = turn + 1
            return cells[turn]
        if not all(each.mailbox is not DEAD for each in cells):
            cells = self._members.look_again()
        best, least = -1, (True, 1 << 62)
        for at in _from(turn, len(cells)):
            cell = cells[at]
            if cell.mailbox is DEAD:
                continue
            # Without a look at who is up, one that waits for its restart would get it all.
            load = (cell.actor is None, cell.block.waiting_mail(cell) + cell.block.is_busy(cell))
            if load < least:
                best, least = at, load
        if best < 0:
            return None
        self._turn = best + 1
        return cells[best]


class Broadcast(Generic[M]):
    """Sends each message to all workers of a pool.  Made by ``tree.router(id, "broadcast")``."""

    def __init__(self, branch: Branch) -> None:
        self._members = Members(branch.ref)

    def __len__(self) -> int:
        """How many workers there are."""
        return len(self._members.look_again())

    @property
    def workers(self) -> tuple[Ref[M], ...]:
        """The workers, in start order."""
        return tuple(self._members.look_again())

    def tell(self, message: M, /) -> None:
        """Put `message` into every mailbox, as :meth:`Ref.tell`.

        Raises:
            ExceptionGroup: of :class:`MailboxFull`, one for each that was; the
                others have it.
        """
        errors: list[Exception] = []
        for cell in self._alive():
            try:
                cell.tell(message)
            # One that is full must not keep it from the others.
            except ActorError as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("not every worker has the message", errors)

    async def send(self, message: M, /) -> None:
        """Put `message` into every mailbox, one after another, waiting for room.

        Cancelled while it waits, those before have it, and those behind do not.
        """
        for cell in self._alive():
            await cell.send(message)

    @overload
    def ask(self, message: Request[R], /, *, timeout: float | None = None) -> Answers[R]: ...
    @overload
    def ask(self, message: M, /, *, timeout: float | None = None) -> Answers[Any]: ...
    def ask(self, message: Any, /, *, timeout: float | None = None) -> Answers[Any]:
        """Send `message` to all at once, and return their answers, to ``await``."""
        cells = self._alive()
        if not cells:
            return Answers([self._members.refused(message)])
        return Answers([cell.ask(message, timeout=timeout) for cell in cells])

    def _alive(self) -> list[Cell[Any]]:
        return [each for each in self._members.look_again() if each.mailbox is not DEAD]


class Answers(Generic[R]):
    """The answers of several actors, on their way.  ``await`` it once.

    It waits for all of them, and gives a list in the order of those who were
    asked.  Cancelled, it withdraws what is not answered.

    Raises:
        ExceptionGroup: on await; of what some of them failed with.
    """

    def __init__(self, replies: list[Reply[R]]) -> None:
        self.replies = tuple(replies)
        """Each one's own, for those who can do with a part."""

    def __await__(self) -> Generator[Any, Any, list[R]]:
        errors: list[Exception] = []
        values: list[R] = []
        try:
            for reply in self.replies:
                try:
                    values.append((yield from reply.__await__()))
                # Wait for the others all the same.
                except ActorError as error:
                    errors.append(error)
        finally:
            for reply in self.replies:
                reply.withdraw()
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {len(self.replies)} did not answer", errors)
        return values


class Members:
    """The children of a supervisor, looked up again when they have changed."""

    def __init__(self, ref: Ref[Any]) -> None:
        self._cell = cast("Cell[Any]", ref)
        self._records: dict[str, Any] | None = None
        self._cells: list[Cell[Any]] = []

    def cells(self) -> list[Cell[Any]]:
        """Those that have ever run.  One may be out of date exactly if its mailbox is dead."""
        owner = self._cell.actor
        if owner is None:
            return self._cells
        if owner.records is self._records and len(self._records or ()) == len(self._cells):
            return self._cells
        return self.look_again()

    def look_again(self) -> list[Cell[Any]]:
        """The same, up to date."""
        owner = self._cell.actor
        if owner is not None:
            self._records = owner.records
            self._cells = [each.cell for each in owner.records.values() if each.cell is not None]
        return self._cells

    def nobody(self) -> ActorStopped:
        """The error where there is no child to send to."""
        return ActorStopped(self._cell.path, "none of its children runs")

    def refused(self, message: Any) -> Reply[Any]:
        """An ask that nobody was there for."""
        reply: Reply[Any] = Reply(message, self._cell)
        resolve(reply, self.nobody(), ERROR)
        return reply

    def dead_letter(self, message: Any) -> None:
        """Count and report a message that nobody was there for."""
        self._cell.block.dead_letter(self._cell, message)


def spot(key: Hashable, count: int) -> int:
    """Which of `count` places `key` has: 0 to ``count - 1``, for this run of the program.

    Mixed, because the hash of a number is the number: keys that are all even
    would leave half of the places empty.

    Examples:
        >>> sorted({spot(key, 4) for key in range(0, 100, 4)})
        [0, 1, 2, 3]
    """
    return ((hash(key) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF) * count >> 64


def numbered(each: ChildSpec, count: int) -> list[ChildSpec]:
    """`count` specifications like `each`, with the ids ``"1"``, ``"2"`` …"""
    return [evolve(each, id=str(number)) for number in range(1, count + 1)]


def check_number(id: str, count: object) -> None:  # noqa: A002 - OTP's word for it
    """Refuse what cannot be the number of children of `id`."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise BadSpec(id, "invalid_count", f"count is an int of 1 or more, not {count!r}")


def _name_of(start: Any) -> str:
    try:
        return kind_of(start).name
    except (TypeError, ValueError):
        return "workers"  # child() says what is wrong with it


def _from(first: int, count: int) -> list[int]:
    return [*range(first, count), *range(min(first, count))]
