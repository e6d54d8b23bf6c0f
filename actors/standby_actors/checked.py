"""Refs that know their thread: what debug mode makes actors of.

A ref that is used in another thread may seem to work: it fails only where the
pump happens to be parked.  A class of their own, chosen when the block opens,
makes the check free for everybody else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .cell import Cell
from .errors import WrongThread
from .exits import ExitReason, Stuck
from .reply import Reply

M_contra = TypeVar("M_contra", contravariant=True)


def is_debugging(debug: bool | None) -> bool:
    """Whether refs check their thread: as said, or as ``STANDBY_DEBUG`` has it."""
    return bool(os.environ.get("STANDBY_DEBUG")) if debug is None else debug


class CheckedCell(Cell[M_contra]):
    """A cell that refuses to be used outside the thread of its block."""

    __slots__ = ()

    def _check(self) -> None:
        if threading.get_ident() != self.block.thread:
            raise WrongThread(self.path)

    def tell(self, message: M_contra, /) -> None:
        self._check()
        super().tell(message)

    async def send(self, message: M_contra, /) -> None:
        self._check()
        await super().send(message)

    def ask(self, message: Any, /, *, timeout: float | None = None) -> Reply[Any]:
        self._check()
        return super().ask(message, timeout=timeout)

    def stop(self, reason: ExitReason | None = None) -> Reply[ExitReason | Stuck]:
        self._check()
        return super().stop(reason)

    def kill(self) -> None:
        self._check()
        super().kill()

    def ended(self) -> Reply[ExitReason]:
        self._check()
        return super().ended()

    def get_state(self) -> Reply[Any]:
        self._check()
        return super().get_state()

    def suspend(self) -> None:
        self._check()
        super().suspend()

    def resume(self) -> None:
        self._check()
        super().resume()

    def trace(self, note: Callable[[Any], object] | None) -> None:
        self._check()
        super().trace(note)
