"""Names of actors, and groups of them: who can be found without being handed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import NameTaken

if TYPE_CHECKING:
    from .cell import Cell


def checked_name(name: Any) -> str:
    """`name`, which must be one that an actor can have.

    Raises:
        ValueError: it is empty, too long, or has a ``/`` or a control character in it.
    """
    if not isinstance(name, str) or not 1 <= len(name) <= 200:
        raise ValueError(f"a name is a text of 1 to 200 characters, not {str(name)[:60]!r}")
    if "/" in name or not name.isprintable():
        raise ValueError(f"a name is 1 to 200 printable characters without '/', not {name[:60]!r}")
    return name


class Names:
    """Names and groups of one block and the blocks inside it.

    A name belongs to one actor alive, and is free again before anybody hears of
    the actor's end.  A group is a set of actors; an actor that ends has left all
    of its groups (Erlang's ``pg``).
    """

    __slots__ = ("_groups", "_named")

    def __init__(self) -> None:
        self._named: dict[str, Cell[Any]] = {}
        self._groups: dict[str, dict[Cell[Any], None]] = {}

    def __len__(self) -> int:
        return len(self._named) + sum(map(len, self._groups.values()))

    def check_free(self, name: str) -> None:
        """Raise unless `name` can be given to a new actor.

        Raises:
            NameTaken: an actor alive has it.
            ValueError: it is empty, or has a ``/`` or a control character in it.
        """
        holder = self._named.get(checked_name(name))
        if holder is not None:
            raise NameTaken(holder.path, name)

    def register(self, name: str, cell: Cell[Any]) -> None:
        """Give `name` to an actor alive.

        Raises:
            NameTaken: another actor has it, or this one has a name already.
        """
        if self._named.get(name) is cell:
            return
        self.check_free(name)
        rare = cell.rare()
        if rare.name is not None:
            raise NameTaken(cell.path, rare.name)
        self._named[name] = cell
        rare.name = name

    def rename(self, moves: Mapping[Cell[Any], str | None]) -> None:
        """Give actors other names, all at once: one may get what another gives up.

        None takes a name away.  What they are members of stays.

        Raises:
            NameTaken: an actor that keeps its name has it already; nothing has changed.
            ValueError: it can be nobody's name; nothing has changed.
        """
        taken: set[str] = set()
        for cell, name in moves.items():
            if name is None:
                continue
            holder = self._named.get(checked_name(name))
            if name in taken or (holder is not None and holder not in moves):
                raise NameTaken(holder.path if holder is not None else cell.path, name)
            taken.add(name)
        for cell in moves:
            rare = cell.rare()
            if rare.name is not None and self._named.get(rare.name) is cell:
                del self._named[rare.name]
            rare.name = None
        for cell, name in moves.items():
            cell.rare().name = name
            # One that has ended for good gets it when it lives again.
            if name is not None and not cell.is_closed:
                self._named[name] = cell

    def whereis(self, name: str) -> Cell[Any] | None:
        """The actor alive of that name, or None."""
        return self._named.get(name)

    def names(self) -> tuple[str, ...]:
        """Names in use, oldest first."""
        return tuple(self._named)

    def join(self, group: str, cell: Cell[Any]) -> None:
        """Make an actor alive a member of `group`; a second time changes nothing."""
        self._groups.setdefault(group, {})[cell] = None
        rare = cell.rare()
        if group not in rare.groups:
            rare.groups = (*rare.groups, group)

    def leave(self, group: str, cell: Cell[Any]) -> None:
        """End a membership, if it is one."""
        members = self._groups.get(group)
        if members is not None and cell in members:
            del members[cell]
            if not members:
                del self._groups[group]
            rare = cell.rare()
            rare.groups = tuple(each for each in rare.groups if each != group)

    def members(self, group: str) -> tuple[Cell[Any], ...]:
        """Members of `group`, in the order in which they joined."""
        return tuple(self._groups.get(group, ()))

    def broadcast(self, group: str, message: Any) -> int:
        """Tell `message` to each member of `group`; returns how many there are.

        Raises:
            MailboxFull: the mailbox of a member is at its bound.  Members before
                it have the message, those after it have not.
        """
        members = self.members(group)
        for member in members:
            member.tell(message)
        return len(members)

    def forget(self, cell: Cell[Any], name: str | None, groups: tuple[str, ...]) -> None:
        """Free everything that an ended actor held."""
        if name is not None and self._named.get(name) is cell:
            del self._named[name]
        for group in groups:
            members = self._groups.get(group)
            if members is not None:
                members.pop(cell, None)
                if not members:
                    del self._groups[group]
