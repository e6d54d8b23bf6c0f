"""Receipts, and how a session was cleaned up: only what was observed can be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, TypeAlias, TypeVar

import msgspec

from .dimensions import NotClosedReason, UnavailableReason

if TYPE_CHECKING:
    from .names import TaskName

R = TypeVar("R")


class ForgedReceipt(ValueError):
    """Raised on a receipt that no ledger has given; nothing was done."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is given by a ledger that has seen it, and not made by hand"


class _Mint:
    """Who may say that something was observed: the modules of this package."""

    __slots__ = ()


_MINT = _Mint()


class _Minted:
    """A value that is made here alone."""

    __slots__ = ()

    def __init__(self, by: _Mint) -> None:
        if by is not _MINT:
            raise ForgedReceipt(type(self).__name__)

    def __copy__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is one of a kind")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is one of a kind")

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is one of a kind")


class CaptureReceipt(_Minted, Generic[R]):
    """What a session's role needs has been kept, in the form `R`; it may be closed."""

    __slots__ = ("name",)

    def __init__(self, name: TaskName, by: _Mint) -> None:
        super().__init__(by)
        self.name = name
        """Whose."""

    def __repr__(self) -> str:
        return f"<CaptureReceipt {self.name}>"


class SupersededBy(_Minted):
    """It was decided that another session takes the place of `name`."""

    __slots__ = ("name", "reason")

    def __init__(self, name: TaskName, reason: str, by: _Mint) -> None:
        super().__init__(by)
        self.name = name
        self.reason = reason

    def __repr__(self) -> str:
        return f"<SupersededBy {self.name}>"


class CloseAck(_Minted):
    """A close of `session` has been seen to return, and it said that it had closed."""

    __slots__ = ("export", "session")

    def __init__(self, session: str, export: str, by: _Mint) -> None:
        super().__init__(by)
        self.session = session
        self.export = export
        """The file with its transcript; empty without one."""

    def __repr__(self) -> str:
        return f"<CloseAck {self.session}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CloseAck) and (other.session, other.export) == (
            self.session,
            self.export,
        )

    def __hash__(self) -> int:
        return hash((self.session, self.export))


class Closed:
    """It is closed, as its `ack` says.

    Only from a :class:`CloseAck`, which a ledger gives when the close has returned.
    """

    __slots__ = ("ack",)

    def __init__(self, ack: CloseAck) -> None:
        if not isinstance(ack, CloseAck):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller without types
            raise ForgedReceipt("Closed")
        self.ack = ack

    def __str__(self) -> str:
        return "closed=yes"

    def __repr__(self) -> str:
        return "Closed(closed=yes)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Closed) and other.ack == self.ack

    def __hash__(self) -> int:
        return hash(self.ack)


class NotClosed(msgspec.Struct, frozen=True):
    """It is not known to be closed: a close was tried and did not say so, or could not be."""

    reason: NotClosedReason

    def __str__(self) -> str:
        return "closed=no"


class CloseUnavailable(msgspec.Struct, frozen=True):
    """Its target has no operation that would close it."""

    reason: UnavailableReason

    def __str__(self) -> str:
        return f"close-unavailable: {self.reason}"


Cleanup: TypeAlias = Closed | NotClosed | CloseUnavailable
"""How a session was cleaned up; a row has one of these, or none yet."""


def receipt_of(name: TaskName) -> CaptureReceipt[R]:
    """For the ledger, which has just recorded the capture."""
    return CaptureReceipt(name, _MINT)


def superseded(name: TaskName, reason: str) -> SupersededBy:
    """For the ledger, which has just recorded the decision."""
    return SupersededBy(name, reason, _MINT)


def acknowledged(session: str, export: str) -> CloseAck:
    """For the ledger, whose call of a close has just returned; and for the fold of that."""
    return CloseAck(session, export, _MINT)
