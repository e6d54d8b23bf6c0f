"""Members that write, each in a copy of its own; their changes are landed when they have ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, Unpack

from attrs import field, frozen

from standby_actors.result import Result, TurnError

from .copies import CannotCopy, Copies, open_copies
from .git import GitFailed
from .member import Asked, Member, member_of, name_of
from .options import Options
from .patches import Patch
from .team import Stage, Team
from .trail import Report
from .workplace import OutsideCopy

CopiesLike: TypeAlias = str | Path | Copies
"""Copies that are open, or the folder to open some of."""


class Copied(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What members came to that worked in copies, and what became of their changes.

    `ok` says that every turn was answered; whether all of it is in the tree, `landed` says.
    """

    patches: tuple[Patch, ...] = ()
    """One for each copy, in the order of the branches; none where there were no copies."""

    @property
    def landed(self) -> bool:
        """All that was changed is in the tree now."""
        return all(each.state in ("landed", "empty") for each in self.patches)


@frozen(eq=False)
class InCopy(Team[Copied]):
    """:func:`in_copy` as a member of a team: a worker of a plan, a branch of a race."""

    member: Asked = field(converter=member_of)
    root: CopiesLike = "."
    name: str = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        # Whoever chooses among members chooses the writer, and need not know of the copy.
        if not self.name:
            object.__setattr__(self, "name", name_of(self.member))
        if not self.description:
            object.__setattr__(self, "description", getattr(self.member, "description", ""))

    async def play(self, task: str, stage: Stage, /) -> Copied:
        """Ask the member in a copy, and land what it has changed."""
        if stage.signal is not None and stage.signal.is_set:
            return self._ended(stage, stage.unstarted(self.member), ())
        result: Result | None = None
        try:
            async with copies_for(self.root, stage) as copies:
                result, place = await turn_in_copy(stage, copies, self.member, task)
                patches = await settle(copies, () if place is None else (place,), stage)
        except (CannotCopy, OutsideCopy) as error:
            assert result is None
            refused = TurnError("workspace_denied", str(error))
            return self._ended(stage, stage.refuse(self.member, refused), ())
        return self._ended(stage, result, patches)

    def _ended(self, stage: Stage, result: Result, patches: tuple[Patch, ...]) -> Copied:
        return stage.report(result, [result], kind=Copied, patches=patches)


async def in_copy(
    member: Member, task: str, root: CopiesLike = ".", **options: Unpack[Options]
) -> Copied:
    """Ask `member` in a copy of a repository, and land what it has changed if it is ok.

    When this returns, raises or is cancelled, the copy is gone, and what was changed in it
    is in the tree, or in the file that its patch names.

    Args:
        member: who is asked; a whole team works in the one copy.
        task: what it is asked.
        root: a folder in the repository, or copies that are open.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
    """
    return await InCopy(member, root).ask(task, **options)


@asynccontextmanager
async def copies_for(root: CopiesLike, stage: Stage) -> AsyncGenerator[Copies]:
    """Copies of `root`, as it is seen from `stage`; those that are open stay so.

    On a stage that is in a copy itself, they are copies of that.

    Raises:
        CannotCopy: none can be made.
        OutsideCopy: it is not in the copy.
    """
    if isinstance(root, Copies):
        yield root
        return
    where = Path(root)
    if stage.workplace is not None:
        absolute = where if where.is_absolute() else stage.workplace.folder / where
        where = stage.workplace.here("a team of writers", absolute)
    async with open_copies(where) as copies:
        yield copies


async def turn_in_copy(
    stage: Stage, copies: Copies, member: Asked, task: str, *, branch: str = ""
) -> tuple[Result, int | None]:
    """One turn of `member` in a copy of its own, and that copy's place; None if it had none.

    A copy that cannot be made is a refused turn.  Its patch is kept, and will not be
    landed, unless the turn is ok.
    """
    if stage.signal is not None and stage.signal.is_set:
        return stage.unstarted(member), None
    try:
        async with copies.open(name_of(member)) as copy:
            async with stage.elsewhere(copy.workplace, branch) as there:
                result = await there.turn(member, task)
            if not result.ok:
                copy.keep(f"{result.agent} did not get to its end: {result.error}")
            place = copy.place
    except GitFailed as error:
        return stage.refuse(member, TurnError("workspace_denied", str(error))), None
    return result, place


async def settle(
    copies: Copies, places: Iterable[int], stage: Stage, *, spare: Iterable[int] = ()
) -> tuple[Patch, ...]:
    """Land what has its place in `places`, and keep what is `spare`; what became of all.

    Where the stage is called off nothing is landed.
    """
    wanted = list(places)
    copies.keep(spare, "it was not needed")
    error: Any = None if stage.signal is None else stage.signal.error
    if error is None:
        try:
            await copies.land(wanted)
        except (GitFailed, OSError) as failure:
            error = failure
    if error is not None:
        copies.keep(wanted, str(error))
    return tuple(copies.patches[place] for place in sorted({*wanted, *spare}))
