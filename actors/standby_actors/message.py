"""Messages that say what their answer is."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

R_co = TypeVar("R_co", covariant=True)


class Request(msgspec.Struct, Generic[R_co], frozen=True):
    """Base of messages whose answer has the type ``R``.

    ``class Add(Request[int], frozen=True): n: int`` makes ``await
    ref.ask(Add(2))`` an ``int`` for the type checker.  Any other object is a
    message too; its answer is then ``Any``.

    Examples:
        >>> class Add(Request[int], frozen=True):
        ...     n: int
        >>> Add(2)
        Add(n=2)
    """
