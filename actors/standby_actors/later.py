"""An answer that a handler promises and gives later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import ActorStopped
from .reply import ERROR, VALUE, Reply, resolve

if TYPE_CHECKING:
    from .cell import Cell

A = TypeVar("A")


class Later(Generic[A]):
    """Returned from ``receive`` in place of the answer.

    Whoever has it gives the answer with :meth:`reply` or :meth:`fail`, now or
    in a later message; the first one counts.  If the actor ends or restarts
    before that, the asker gets :class:`ActorStopped`.  Returned for a message
    that was told, not asked, it answers nobody.

    Examples:
        def receive(self, message: Ticket) -> Later[int]:
            later = self.reply_later()
            self.waiting.append(later)
            return later
    """

    __slots__ = ("_answer", "_cell", "_reply", "message")

    def __init__(self, message: Any = None) -> None:
        self.message = message
        self._cell: Cell[Any] | None = None
        self._reply: Reply[Any] | None = None
        self._answer: tuple[Any, int] | None = None

    @property
    def asked(self) -> Reply[Any] | None:
        """The ask that it will answer; None before it was returned for one."""
        return self._reply

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody still wants the answer."""
        return self._reply is not None and not self._reply.done

    def reply(self, value: A) -> None:
        """Answer with `value`."""
        self._settle(value, VALUE)

    def fail(self, error: BaseException) -> None:
        """Make the ask raise `error`."""
        self._settle(error, ERROR)

    def _settle(self, value: Any, state: int) -> None:
        if self._answer is not None:
            return
        self._answer = (value, state)
        if self._reply is not None:
            self._release()
            resolve(self._reply, value, state)

    def bind(self, cell: Cell[Any], reply: Reply[Any]) -> None:
        """Tie the promise to the ask whose handler returned it."""
        assert self._reply is None
        self._reply = reply
        if self._answer is not None:
            resolve(reply, *self._answer)
            return
        self._cell = cell
        rare = cell.rare()
        if rare.laters is None:
            rare.laters = {}
        rare.laters[self] = None

    def break_off(self, error: ActorStopped) -> None:
        """Answer that there will be no answer: the incarnation has ended."""
        if self._answer is None:
            self._answer = (error, ERROR)
            if self._reply is not None:
                resolve(self._reply, error, ERROR)

    def _release(self) -> None:
        if self._cell is not None:
            rare = self._cell.rare()
            if rare.laters is not None:
                rare.laters.pop(self, None)
            self._cell = None

    def pass_on(self, to: Later[Any]) -> None:
        """Let this promise, returned by a later handling, keep the earlier one."""
        if to._reply is None:
            return
        to._release()
        reply, to._reply = to._reply, None
        if to._answer is None and not reply.done and reply.target is not None:
            to._answer = (None, VALUE)
            self.bind(reply.target, reply)
