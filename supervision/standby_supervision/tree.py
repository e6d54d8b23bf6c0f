"""Opening a supervision tree, and administering it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, cast, overload

from standby_actors import ActorStopped, Names, Ref, Reply, Snapshot
from standby_actors.actor import started
from standby_actors.block import Block
from standby_actors.cell import Cell

from .answers import (
    AlreadyStarted,
    ChildInfo,
    Counts,
    DeleteAnswer,
    NotFound,
    RestartAnswer,
    StartAnswer,
    Started,
    TerminateAnswer,
    UpdateAnswer,
)
from .backoff import Backoff
from .child import FLAGS, AutoShutdown, ChildSpec, Strategy, SupervisorSpec
from .router import Broadcast, Router, Routing
from .starts import check_known
from .supervisor import (
    CountChildren,
    DeleteChild,
    DynamicSupervisor,
    GetSpec,
    RestartChild,
    StartChild,
    Supervisor,
    TerminateChild,
    UpdateSpecs,
    WhichChildren,
)

if TYPE_CHECKING:
    from .partition import Partitions


class GaveUp(ExceptionGroup[Exception]):
    """Raised from the block of a supervisor that gave up; holds its last causes."""

    def derive(self, excs: Any) -> GaveUp:  # type: ignore[override]  # of its own kind
        return GaveUp(self.message, excs)


class Branch:
    """A supervisor, as those see it who administer it.

    Every call is served by the supervisor, one at a time, behind the ends of its
    children.  The answers are values; only a dead supervisor raises
    :class:`ActorStopped`.
    """

    def __init__(self, ref: Ref[Any]) -> None:
        self.ref = ref

    def __getitem__(self, key: str) -> Ref[Any]:
        """The ref of a child, which stays the same in all its lives.

        Raises:
            KeyError: there is no such child, or it has never run; names those that are there.
        """
        record = self._supervisor().records.get(key)
        if record is None or record.cell is None:
            known = ", ".join(self._supervisor().records) or "none"
            raise KeyError(f"no child {key!r} under {self.ref.path}; there are: {known}")
        return record.cell

    def find(self, key: str) -> Ref[Any] | None:
        """A child that runs, or is between two lives; None if there is none.  Asks nobody."""
        supervisor = cast("Cell[Any]", self.ref).actor
        record = supervisor.records.get(key) if supervisor is not None else None
        if record is None or record.cell is None or not record.cell.is_alive:
            return None
        return cast("Cell[Any]", record.cell)

    def branch(self, key: str) -> Branch:
        """A supervisor below this one."""
        ref = self[key]
        if not isinstance(cast("Cell[Any]", ref).actor, Supervisor):
            raise TypeError(f"child {key!r} of {self.ref.path} is no supervisor, or is down")
        return Branch(ref)

    @overload
    def router(self, pool: str, routing: Literal["broadcast"]) -> Broadcast[Any]: ...
    @overload
    def router(
        self,
        pool: str,
        routing: Routing = "round_robin",
        *,
        key: Callable[[Any], Hashable] | None = None,
    ) -> Router[Any]: ...
    def router(
        self,
        pool: str,
        routing: Routing | Literal["broadcast"] = "round_robin",
        *,
        key: Callable[[Any], Hashable] | None = None,
    ) -> Router[Any] | Broadcast[Any]:
        """A router in front of the children of a supervisor below this one.

        Args:
            pool: the supervisor's id; what :func:`workers` specifies, for example.
            routing: ``"round_robin"``, ``"least_loaded"``, ``"by_key"``: see
                :class:`Router`; ``"broadcast"``: to all of them.
            key: for ``"by_key"``: what to tell messages apart by.
        """
        if routing == "broadcast":
            return Broadcast(self.branch(pool))
        return Router(self.branch(pool), routing, key=key)

    def partitions(self, key: str) -> Partitions:
        """The children of what :func:`partitions` specifies, by key."""
        from .partition import Partitions  # it is made of branches

        return Partitions(self.branch(key))

    def _supervisor(self) -> Supervisor:
        cell = cast("Cell[Any]", self.ref)
        if cell.actor is None:
            raise ActorStopped(cell.path, str(cell.args))
        return cast("Supervisor", cell.actor)

    async def start_child(self, spec: ChildSpec) -> StartAnswer:
        """Start a further child, behind those that are there."""
        return await self.ref.ask(StartChild(spec))

    async def start(self, *args: Any, id: str | None = None) -> StartAnswer:  # noqa: A002 - OTP's word for it
        """Start a child of a dynamic supervisor, with `args` after its template's."""
        return await self.ref.ask(StartChild(None, args, id))

    async def get_or_start(self, key: str, *args: Any) -> Ref[Any]:
        """The child of a dynamic supervisor with that id, started if it is not there.

        However many ask at once, it is started once.

        Raises:
            LookupError: it could not be started; says what was answered.
        """
        ref = self.find(key)
        if ref is not None:
            return ref
        answer = await self.start(*args, id=key)
        if isinstance(answer, Started | AlreadyStarted):
            return answer.ref
        raise LookupError(f"child {key!r} of {self.ref.path} was not started: {answer}")

    async def terminate_child(self, key: str | Ref[Any]) -> TerminateAnswer:
        """Stop a child and keep its specification, unless it is temporary.

        A child that outlives its kill is answered as :class:`Stuck`, with its stack.
        It is no child any more: its id and its place are free, and another one that
        is started under that id has a ref of its own.  The block cannot be left
        before the old one has ended.
        """
        return await self.ref.ask(TerminateChild(key))

    async def restart_child(self, key: str) -> RestartAnswer:
        """Start a child that was stopped, or has ended."""
        return await self.ref.ask(RestartChild(key))

    async def delete_child(self, key: str) -> DeleteAnswer:
        """Forget a child that does not run."""
        return await self.ref.ask(DeleteChild(key))

    async def which_children(self) -> tuple[ChildInfo, ...]:
        """All children, newest first."""
        return await self.ref.ask(WhichChildren())

    async def count_children(self) -> Counts:
        """How many children there are, and how many of them run."""
        return await self.ref.ask(CountChildren())

    async def get_spec(self, key: str | Ref[Any]) -> ChildSpec | NotFound:
        """The specification of a child, with its defaults."""
        return await self.ref.ask(GetSpec(key))

    async def update_specs(self, spec: SupervisorSpec) -> UpdateAnswer:
        """Take new flags and specifications; no child is started or stopped.

        Children that `spec` does not mention are kept, behind those that it does.  New
        ones are there, and wait for :meth:`restart_child`.  If anything cannot be
        meant, the answer is ``Refused`` and all is as it was.

        - At once hold the supervisor's flags, and of a child what its supervisor does:
          `restart`, `significant`, `shutdown`, `when_down`, `redeliver`,
          `stalled_after`, and `name`: it moves with the child, which is found under
          the new one from now on, in its path as well.  Two children may swap theirs;
          a name that somebody else has is refused (``name_taken``).
        - From its next life on holds what it is made of and how it is run: `start`,
          `args`, `capacity`, `overflow`, `stop_mode`, `dedicated`, `start_timeout`, and
          all that stands below a supervisor.
        - Children of a template keep the arguments that they were started with.

        Intensity is counted on: restarts of before the update count as far as the new
        `period` reaches.  A supervisor that is itself restarted by the one above it is
        made of the specification which that one has.
        """
        return await self.ref.ask(UpdateSpecs(spec))

    def snapshot(self) -> Snapshot:
        """What is below, as values: with restarts, last reasons, and what each waits for."""
        return self.ref.snapshot()

    def render(self, *, most: int = 20, depth: int | None = None) -> str:
        """The same, as text; see :meth:`Snapshot.render`."""
        return self.snapshot().render(most=most, depth=depth)


class Tree(Branch):
    """A block that is a supervisor: ``async with open_supervisor(…) as tree``.

    Entering it starts the children in order; if one fails, those that had started
    are stopped in reverse order and the error is raised.  Leaving it stops them
    in reverse order, each by its own rule.  A supervisor that gives up ends the
    block's body, and the block raises :class:`GaveUp` with the causes.
    """

    def __init__(self, spec: SupervisorSpec, block: Block) -> None:
        self.spec = spec
        self._block = block

    async def __aenter__(self) -> Tree:
        await self._block.__aenter__()
        try:
            starter: Reply[Any] = Reply(None)
            start = DynamicSupervisor if self.spec.strategy == "dynamic" else Supervisor
            cell = self._block.root.spawn(start, (self.spec,), True, starter, None, "top")
            self._cell = cell
            self._last = cast("Supervisor", cell.actor)
            self.ref = await started(cell, starter)
            cell.monitor(cell, lambda _, down: self._ended())
        # The block must be left, whatever kept the tree from being entered.
        except BaseException as error:
            if await self._block.__aexit__(type(error), error, error.__traceback__):
                raise AssertionError("a block swallows no error of its body") from error
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            return await self._block.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            # It is a group itself, and `except*` refuses to look for one by its type.
            if len(group.exceptions) == 1 and isinstance(group.exceptions[0], GaveUp):
                raise group.exceptions[0] from None
            raise

    def _ended(self) -> None:
        """The top supervisor has ended: by itself, or because the block is left."""
        supervisor = self._last
        if supervisor.gave_up is not None:
            causes = [each for each in supervisor.causes if isinstance(each, Exception)]
            reason = f"{self._cell.path} gave up: {supervisor.gave_up.reason}"
            gave_up = GaveUp(reason, causes or [ActorStopped(self._cell.path, reason)])
            self._block.record(gave_up, self._cell.path)
        elif not self._block.root.extra or not self._block.root.extra.stopping:
            self._block.body_scope.cancel(reason="the supervisor has ended")

    async def join(self) -> None:
        """Serve until something ends the tree."""
        await self.ref.join()


def open_supervisor(
    *children: ChildSpec,
    strategy: Strategy = "one_for_one",
    intensity: int | None = 3,
    period: float = 5.0,
    backoff: Backoff | None = None,
    auto_shutdown: AutoShutdown = "never",
    max_children: float = math.inf,
    name: str = "supervisor",
    shutdown: float = math.inf,
    grace: float = 1.0,
    names: Names | None = None,
    **unknown: Never,
) -> Tree:
    """Open a supervision tree: ``async with standby.open_supervisor(child(…)) as tree``.

    Args:
        children: in start order; for ``strategy="dynamic"`` the template alone.
        strategy: ``"one_for_one"``, ``"one_for_all"``, ``"rest_for_one"``, ``"dynamic"``.
        intensity: restarts allowed within `period`; None for any number.
        period: seconds.
        backoff: delays before restarts.
        auto_shutdown: whether the end of significant children ends the tree.
        max_children: of a dynamic supervisor.
        name: the first part of the paths of its children.
        shutdown: seconds from leaving the block to the kill of all that is left.
        grace: seconds from a kill to the report that a child is stuck.
        names: the names that it shares.
        unknown: nothing; an option that does not exist is refused, with the nearest.

    Raises:
        BadSpec: a value that cannot be meant; nothing has started.
    """
    if unknown:
        options = (*FLAGS, "name", "shutdown", "grace", "names")
        check_known("supervisor", unknown, options, "supervisor")
    spec = SupervisorSpec(
        children=children,
        strategy=strategy,
        intensity=intensity,
        period=period,
        backoff=backoff,
        auto_shutdown=auto_shutdown,
        max_children=max_children,
    )
    return Tree(spec, Block(name=name, shutdown=shutdown, grace=grace, names=names))
