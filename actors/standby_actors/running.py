"""How a program is run: who owns its signals, and the one place that may end the process.

A library must not take a signal or end a process; a program may.  So both stand
here, where a program hands over its main, and nowhere below.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import inspect
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, ParamSpec, TypeVar, TypeVarTuple

import trio

from .block import Block, open_blocks
from .interrupts import Interrupts, signals_to_take
from .kind import checked_seconds
from .loop_thread import LoopThread

T = TypeVar("T")
P = ParamSpec("P")
Args = TypeVarTuple("Args")

EX_SOFTWARE = 70
"""Exit code of a process that is ended over actors that do not end."""
POLL = 0.1
"""Seconds between two looks at whether the time for a hard exit has come."""
FLUSH = 1.0
"""Seconds that what was printed has to get out before a hard exit."""
GC_THRESHOLDS = (100_000, 50, 1_000)


last_words: list[Callable[[], object]] = []
"""Called right before a hard exit, in a thread: for what must not be left as it is, such as a
terminal that was set for single keys.  They neither wait nor raise."""


class _HardExit:
    """Ends the process when a run cannot be left; from a thread, as the loop may be held."""

    def __init__(self, seconds: float, interrupts: Interrupts | None) -> None:
        self._seconds = seconds
        self._interrupts = interrupts
        self._blocks = open_blocks()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="standby hard exit", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        first: float | None = None
        while not self._over.wait(POLL):
            blocks = list(self._blocks)
            bounds = [_left_by(block) for block in blocks]
            times = list(self._interrupts.times) if self._interrupts is not None else []
            if times:
                if first is None:
                    # One in another is left after it, so their times add up.
                    first = times[0] + sum(_bound(block) for block in blocks)
                bounds.append(first)
            bounds.extend(times[1:2])
            if any(time.monotonic() > bound + self._seconds for bound in bounds):
                self._end_process(blocks)

    def _end_process(self, blocks: list[Block]) -> NoReturn:
        # Straight to the descriptor: the locks of sys.stderr may be held by who hangs.
        lines = [f"standby: still running {self._seconds:g} s after it had to end; exit 70"]
        for block in blocks:
            with contextlib.suppress(RuntimeError):  # it changes while we read it
                lines.append(block.root.snapshot().render())
        os.write(2, ("\n".join(lines) + "\n").encode())
        faulthandler.dump_traceback(file=2, all_threads=True)
        flusher = threading.Thread(target=sys.stdout.flush, daemon=True)
        flusher.start()
        flusher.join(FLUSH)
        try:
            for call in list(last_words):
                call()
        finally:
            os._exit(EX_SOFTWARE)


def _bound(block: Block) -> float:
    """Seconds in which `block` is left, if what its actors wait for can be cancelled.

    From the stop to the kill, to the report of who is stuck, to dropping them.
    """
    return block.shutdown + 2 * block.grace


def _left_by(block: Block) -> float:
    since = block.leaving_since
    return float("inf") if since is None else since + _bound(block)


def _is_function(main: Any) -> None:
    if inspect.iscoroutine(main):
        main.close()
        name = main.__name__
        raise TypeError(
            f"give the async function and its arguments: {name}, …, not the call {name}(…)"
        )


def run(
    main: Callable[[*Args], Awaitable[T]],
    *args: *Args,
    hard_exit: float | None = None,
    clock: trio.abc.Clock | None = None,
) -> T:
    """Run an async `main` on trio, and return what it returns.  Its end is in order here.

    The first Ctrl-C, SIGTERM or SIGHUP cancels `main`, so that every block that is
    open stops in order, and records of subagents tell the end of their turns.  Each
    further one kills every block that is open then; where a handler holds the loop,
    so that the one before could not be seen, it also interrupts that handler.  Once
    all is left, ``KeyboardInterrupt`` is raised from here, or for a program that was
    told to end :class:`Terminated`, whatever `main` made of its cancellation, unless
    it raised ``SystemExit``.

    The signals are taken only in the main thread, and each only where nobody else
    handles or ignores it; they are given back before this returns.

    Args:
        main: an async function, called with `args`.
        hard_exit: seconds after which the process is ended, with the tree of
            actors and the stacks of all threads on stderr and exit code 70: after
            the second signal, or after a block should have been left, by its own
            ``shutdown`` and ``grace``, and is not.  None never does.
        clock: the clock of trio; for tests.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        Terminated: SIGTERM or SIGHUP came first; a SystemExit of 143, or 129.
        BaseException: what `main` raised.
    """
    _is_function(main)
    if hard_exit is not None:
        checked_seconds("hard_exit", hard_exit)
    taken = signals_to_take()
    interrupts: Interrupts | None = None

    async def owned() -> T:
        nonlocal interrupts
        with contextlib.ExitStack() as stack, trio.CancelScope() as scope:
            if taken:
                interrupts = Interrupts(scope)
                stack.enter_context(interrupts.installed(taken))
            if hard_exit is not None:
                stack.enter_context(_HardExit(hard_exit, interrupts))
            return await main(*args)
        raise KeyboardInterrupt  # nobody else has that scope

    try:
        value = trio.run(owned, clock=clock)
    except SystemExit:
        raise
    # Whatever the interruption led to, who called us must see the interruption.
    except BaseException as error:
        if interrupts is None or not interrupts.times:
            raise
        ending = interrupts.ending()
        if isinstance(error, KeyboardInterrupt):
            # Ours, mostly: of the scope, or to break whoever held the loop.
            if isinstance(ending, KeyboardInterrupt):
                raise
            raise ending from None
        raise ending from error
    if interrupts is not None and interrupts.times:
        raise interrupts.ending()
    return value


def run_sync(function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call an async function from synchronous code, and return what it returns.

    The door for scripts and notebooks: ``standby.run_sync(standby.run_agent,
    agent, task)``.  It is :func:`run` where no loop runs.  In a running asyncio loop
    (Jupyter) the function runs on a trio loop in a thread of its own, and the
    asyncio loop waits.

    Raises:
        RuntimeError: trio runs in this thread already; nothing was called.
        BaseException: what the function raised.
    """
    _is_function(function)
    if trio.lowlevel.in_trio_run():
        name = getattr(function, "__name__", "it")
        raise RuntimeError(f"trio runs here already: write `await {name}(…)` without run_sync")
    call = functools.partial(function, *args, **kwargs)
    if not _asyncio_runs():
        return run(call)
    with LoopThread(call, name="standby run_sync") as thread:
        return thread.result()


def _asyncio_runs() -> bool:
    asyncio: Any = sys.modules.get("asyncio")  # who has not imported it does not run it
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def tune_gc(*, freeze: bool = False) -> tuple[int, int, int]:
    """Make the garbage collector fit for many actors; returns the thresholds before.

    They are the process's, so no import and no block changes them: a program
    says so itself.  The new ones are 100,000, 50 and 1,000, after Python's 700,
    10 and 10.  With a million actors and ten million messages on one core that
    was 1.0 s instead of 2.1 s to spawn, 3.6 s instead of 5.8 s for the messages,
    and 10 ms instead of 404 ms for the longest pause.  Garbage in cycles is
    found later in return, so a program that makes much of it needs more memory.

    Args:
        freeze: also take what is alive now out of all later collections: call it
            once the actors are there.  That made the messages another 8 % faster.
    """
    before = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    if freeze:
        gc.collect()
        gc.freeze()
    return before
