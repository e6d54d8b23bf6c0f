"""What becomes of a turn: an answer, a crash, or a cut.

Every exception out of an actor comes to :meth:`Outcomes.failed`, the one place
where it becomes a value; :func:`failure.judge` decides, and this applies.
"""

from __future__ import annotations

import logging
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from . import chaos
from .cell import HELD, Cell, KeptCell, System, asked
from .errors import ActorStopped, AskTimeout
from .exits import Crashed, Killed
from .failure import Crash, Fatal, WasCut, described, judge
from .later import Later
from .reply import ERROR, Reply, crashed, resolve
from .stopping import Stopping

logger = logging.getLogger("standby")

NOT_RUN = frozenset({GeneratorType, AsyncGeneratorType, Later})
"""Types of what a hook returns that has done nothing yet, and that nobody will ask to."""


class Outcomes(Stopping):
    """What the turns of a block lead to."""

    leaving_since: float | None

    def __init__(self) -> None:
        super().__init__()
        self.fatal: list[BaseException] = []
        """What ends the program, raised by actors."""
        self.masked = 0
        self.crashes = 0

    # ---- answers

    def turn_over(self, cell: Cell[Any], message: Any, value: Any) -> None:
        """Do what follows a turn that ended with `value`."""
        if type(message) is Reply:
            self.answer(cell, message, value)
        elif type(message) is System:
            if (
                message.later is not None
                and type(value) in HELD
                and not self._is_an_answer(cell, value, message)
            ):
                return
            if type(value) in NOT_RUN and message.label in ("on_start", "on_stop"):
                self.failed(cell, _not_run(cell, message.label, value), message)
                return
            if message.then is not None:
                message.then(cell, value)
            if message.reply is not None:
                resolve(message.reply, value)

    def answer(self, cell: Cell[Any], reply: Reply[Any], value: Any) -> None:
        """Answer an ask whose handler returned `value`, which may need thought."""
        if reply.target is None:
            resolve(reply, None)  # a message in an envelope; nobody asked
            return
        if type(value) in HELD:
            if self._is_an_answer(cell, value, reply):
                value.bind(cell, reply)
            return
        extra = cell.extra
        if extra is not None and extra.stopping and extra.leaving:
            # OTP's `{stop, Reason, Reply, State}`: the stop hook runs to its end,
            # then the caller gets its answer.
            rare = cell.rare()
            if rare.farewell is None:
                rare.farewell = []
            rare.farewell.append((reply, value))
            return
        if not resolve(reply, value):
            self.late(cell)

    def _is_an_answer(self, cell: Cell[Any], value: Any, message: Any) -> bool:
        """Whether what a handler returned is a promise that is still free; else it crashes."""
        name = f"{cell.kind.name}.receive"
        if type(value) is Later:
            if value.asked is None:
                return True
            what = f"{name} returned the same Later for two asks; make one for each"
            self.failed(cell, RuntimeError(what), message)
            return False
        if type(value) is CoroutineType:
            value.close()
        what = f"{name} returned an awaitable; make it async def and await"
        self.failed(cell, TypeError(what), message)
        return False

    # ---- failures

    def failed(self, cell: Cell[Any], error: BaseException, message: Any) -> None:
        """Take an exception out of a handler or hook of `cell`."""
        extra = cell.extra or cell.grow()
        verdict = judge(
            error, "killed" if extra.killed else "interrupted" if extra.interrupted else "no"
        )
        ask = asked(message)
        match verdict:
            case WasCut(masked):
                self.was_cut(cell, message)
                if masked is not None:
                    self._report_masked(cell, masked)
            case Crash(AskTimeout(is_inherited=True)) if ask is not None and ask.done:
                pass  # who asked has given up, and took this turn along: no crash
            case Crash(raised):
                if not self._is_offered_again(cell, message) and ask is not None:
                    resolve(ask, crashed(cell.path, raised), ERROR)
                self._crash(cell, raised, message)
            case Fatal(raised):
                if ask is not None:
                    resolve(ask, crashed(cell.path, raised), ERROR)
                self.fatal.append(raised)
                cell.rare().start_error = raised
                self.begin_stop(cell, Crashed(raised), own=True)
                self.body_scope.cancel(reason="an actor raised what ends the program")
                if self.leaving_since is not None and isinstance(raised, KeyboardInterrupt):
                    # Ctrl-C on the way out makes it a kill, also where it lands in a hook.
                    self.kill_all()

    def _is_offered_again(self, cell: Cell[Any], message: Any) -> bool:
        """Whether the message that crashed `cell` is kept for its next life."""
        keeper = cell.keeper
        if keeper is None or not keeper.redeliver:
            return False
        if type(message) is System or cell.extra is None or cell.extra.stopping:
            return False
        rare = cell.rare()
        if type(message) is Reply and (
            message in (rare.own or ()) or message in (rare.pinned or ())
        ):
            return False  # it was for this life only
        if rare.again is not message:
            rare.tried = 0
        rare.again = message
        rare.tried += 1
        if rare.tried <= keeper.redeliver:
            return True
        rare.again = None
        if type(message) is not Reply:
            self.dead_letter(cell, message)
        return False

    def was_cut(self, cell: Cell[Any], message: Any) -> None:
        """Tell who asked that the turn on `message` was cut."""
        assert cell.extra is not None
        ask = asked(message)
        reason = cell.extra.reason
        if cell.extra.killed and isinstance(reason, Crashed):
            # Condemned: to who asked, and to who counts, this message has crashed it.
            if not self._is_offered_again(cell, message) and ask is not None:
                resolve(ask, crashed(cell.path, reason.error), ERROR)
            return
        if ask is not None:
            why = "killed" if cell.extra.killed else "the turn was cut"
            resolve(ask, ActorStopped(cell.path, why), ERROR)

    def _crash(self, cell: Cell[Any], error: BaseException, message: Any) -> None:
        self.crashes += 1
        if self.stream.listeners:
            self.emit("actor.crashed", cell, error=described(error))
        elif type(cell) is KeptCell and self._lives_on(cell, error):
            return
        extra = cell.extra
        assert extra is not None
        if extra.rare is not None and not extra.rare.handled_start:
            self._start_failed(cell, error)
        else:
            self._tell_owner(cell, error)
        if cell.actor is not None:
            extra.reason = Crashed(error)
            self.begin_stop(cell, extra.reason, own=True)

    def _lives_on(self, cell: KeptCell[Any], error: BaseException) -> bool:
        """Give a crashed actor its next life on the spot, if all there is to do is that.

        Most that crash have no children, no hooks, nobody who watches them, and made
        no promise: to end such a life in order is to forget the instance.  Its mailbox
        and what is being taken from it stay as they are.
        """
        extra = cell.extra
        kind = cell.kind
        keeper = cell.keeper
        if (
            keeper is None
            or cell.actor is None
            or extra is None
            or extra.rare is not None
            or extra.alert
            or extra.interrupted
            or extra.children
            or extra.context is not None
            or extra.is_waiting()
            or kind.on_start is not None
            or kind.on_stop is not None
            or kind.dedicated
            or chaos.hook is not None
        ):
            return False
        running, self.running = self.running, None
        stepping, self.stepping = self.stepping, None
        self.making = cell
        try:
            instance = keeper.replaced(cell, error)
        finally:
            self.making = None
            self.running, self.stepping = running, stepping
        if instance is None:
            return False
        cell.actor = instance
        cell.lives += 1
        return True

    def condemn(self, cell: Cell[Any], error: BaseException) -> None:
        """Make `error` the crash of a kept `cell`, and kill it for that."""
        if cell.actor is None:
            return
        extra = cell.extra or cell.grow()
        if extra.killed:
            return
        self.crashes += 1
        if self.stream.listeners:
            self.emit("actor.crashed", cell, error=described(error))
        extra.reason = Crashed(error)
        self.kill(cell, Killed())

    def _report_masked(self, cell: Cell[Any], error: BaseException) -> None:
        self.masked += 1
        if self.stream.listeners:
            self.emit("actor.masked", cell, error=described(error))
        logger.warning(
            "actor %s: an error was possibly masked by its cancellation", cell.path, exc_info=error
        )


def _not_run(cell: Cell[Any], hook: str, value: Any) -> TypeError:
    value_is = "a promise" if type(value) is Later else "a generator"
    what = f"{cell.kind.name}.{hook} returned {value_is}, which does nothing by itself"
    return TypeError(f"{what}: do the work in the hook, without yield, or make it async def")
