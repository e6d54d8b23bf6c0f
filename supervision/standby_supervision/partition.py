"""One dynamic supervisor is a queue; for very many children, several side by side.

After Elixir's ``PartitionSupervisor``.  A child belongs to the partition that its
key falls into: starts, ends and restarts of different partitions do not wait for
one another, and each counts its own restarts.
"""

from __future__ import annotations

import math
from typing import Any, Never

from standby_actors import Ref

from .answers import ChildInfo, Counts, StartAnswer, TerminateAnswer
from .backoff import Backoff
from .child import ChildSpec, supervisor
from .router import Members, check_number, numbered, spot
from .starts import check_known
from .tree import Branch


def partitions(
    template: ChildSpec,
    *,
    count: int = 8,
    id: str = "partitions",  # noqa: A002 - OTP's word for it
    intensity: int | None = 3,
    period: float = 5.0,
    backoff: Backoff | None = None,
    max_children: float = math.inf,
    name: str | None = None,
    **unknown: Never,
) -> ChildSpec:
    """Specify `count` dynamic supervisors below one, for ``tree.partitions(id)``.

    Args:
        template: what their children are like.
        count: how many, 1 or more.  It has nothing to do with the number of
            cores: more of them means fewer children that share a restart budget,
            and fewer that wait while another one's start hook runs.
        id: of the supervisor above them.
        intensity: restarts of children allowed within `period`, in each.
        period: seconds.
        backoff: delays before restarts.
        max_children: in each.
        name: under which the supervisor above them is registered.
        unknown: nothing; an option that does not exist is refused, with the nearest.

    Raises:
        BadSpec: a value that cannot be meant; it names the rule.
    """
    if unknown:
        options = ("count", "id", "intensity", "period", "backoff", "max_children", "name")
        check_known(id, unknown, options, "partitioned supervisor")
    check_number(id, count)
    one = supervisor(
        template,
        id="1",
        strategy="dynamic",
        intensity=intensity,
        period=period,
        backoff=backoff,
        max_children=max_children,
    )
    return supervisor(*numbered(one, count), id=id, name=name)


class Partitions:
    """Many children, by key, over several dynamic supervisors.

    The key is the child's id.  Answers and errors are those of :class:`Branch`.
    """

    def __init__(self, branch: Branch) -> None:
        """Administer `branch`, specified with :func:`partitions`."""
        self._branch = branch
        self._members = Members(branch.ref)

    def __len__(self) -> int:
        """How many partitions there are."""
        return len(self._members.look_again())

    def partition(self, key: str) -> Branch:
        """The dynamic supervisor that `key` belongs to; always the same one.

        Raises:
            ActorStopped: the supervisor above has ended.
        """
        cells = self._members.cells()
        if not cells or not (cell := cells[spot(key, len(cells))]).is_alive:
            cells = self._members.look_again()
            if not cells:
                raise self._members.nobody()
            cell = cells[spot(key, len(cells))]
        return Branch(cell)

    def __getitem__(self, key: str) -> Ref[Any]:
        """The ref of the child with that key.

        Raises:
            KeyError: there is none.
        """
        ref = self.find(key)
        if ref is None:
            raise KeyError(f"no child {key!r} under {self._branch.ref.path}")
        return ref

    def find(self, key: str) -> Ref[Any] | None:
        """The child with that key, or None; asks nobody."""
        return self.partition(key).find(key)

    async def start(self, key: str, *args: Any) -> StartAnswer:
        """Start a child, with `args` after its template's."""
        return await self.partition(key).start(*args, id=key)

    async def get_or_start(self, key: str, *args: Any) -> Ref[Any]:
        """The child with that key, started if it is not there; once, however many ask.

        Raises:
            LookupError: it could not be started; says what was answered.
        """
        return await self.partition(key).get_or_start(key, *args)

    async def terminate_child(self, key: str) -> TerminateAnswer:
        """Stop a child, and forget it."""
        return await self.partition(key).terminate_child(key)

    async def count_children(self) -> Counts:
        """How many children there are in all partitions, and how many of them run."""
        counts = [await each.count_children() for each in self._all()]
        return Counts(
            specs=sum(each.specs for each in counts),
            active=sum(each.active for each in counts),
            supervisors=sum(each.supervisors for each in counts),
            workers=sum(each.workers for each in counts),
        )

    async def which_children(self) -> tuple[ChildInfo, ...]:
        """All children, partition by partition, newest first."""
        found: list[ChildInfo] = []
        for each in self._all():
            found.extend(await each.which_children())
        return tuple(found)

    def _all(self) -> list[Branch]:
        return [Branch(cell) for cell in self._members.look_again()]
