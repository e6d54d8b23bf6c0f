"""Background jobs: functions that run beside, bounded, timed, tried again, and never lost.

For work that has no state between two calls.  What keeps state, or is asked
more than once, is an actor.
"""

from __future__ import annotations

import collections
import inspect
import logging
import math
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar, TypeVarTuple, overload

import msgspec
import trio
from attrs import define, field

from standby_actors import ActorStopped, emit
from standby_actors.failure import described

from .backoff import Backoff
from .child import is_count

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Args = TypeVarTuple("Args")

logger = logging.getLogger("standby.supervision")


class _NoBool:
    """An outcome has no truth: "is there one" and "is it good" are different questions."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TypeError("an outcome is neither true nor false: match it, or use isinstance(…, Ok)")


class Ok(_NoBool, msgspec.Struct, Generic[T_co], frozen=True, tag=True):
    """The job returned :attr:`value`."""

    value: T_co
    attempts: int = 1


class Failed(_NoBool, msgspec.Struct, frozen=True, tag=True):
    """The last of its attempts raised :attr:`error`."""

    error: Exception
    attempts: int = 1


class TimedOut(_NoBool, msgspec.Struct, frozen=True, tag=True):
    """The last of its attempts took longer than the seconds that it was given."""

    seconds: float
    attempts: int = 1


class CalledOff(_NoBool, msgspec.Struct, frozen=True, tag=True):
    """It was cancelled, or its block ended first.  Not an exception: a value."""

    attempts: int = 0
    """How often it had begun; 0: never."""


Outcome = Ok[T] | Failed | TimedOut | CalledOff
"""How a job ended.  A ``match`` over the four is complete."""


class _Place:
    """One place in the queue for a slot."""

    __slots__ = ("event", "is_granted")

    def __init__(self, is_granted: bool) -> None:
        self.is_granted = is_granted
        self.event = None if is_granted else trio.Event()


class _Slots:
    """How many jobs may run; the others wait in the order of :meth:`take`."""

    def __init__(self, count: float) -> None:
        self._free = count
        self._waiting: collections.deque[_Place] = collections.deque()

    def take(self) -> _Place:
        """Take a slot, or a place in the queue for one; :meth:`wait` for it next."""
        if self._free:
            self._free -= 1
            return _Place(True)
        place = _Place(False)
        self._waiting.append(place)
        return place

    async def wait(self, place: _Place) -> None:
        """Wait for the slot.  Cancelled, the place is given up."""
        if place.is_granted:
            return
        assert place.event is not None
        try:
            await place.event.wait()
        except trio.Cancelled:
            if place.is_granted:
                self.release()
            else:
                self._waiting.remove(place)
            raise

    def release(self) -> None:
        """Give a slot to who waits longest."""
        if self._waiting:
            place = self._waiting.popleft()
            place.is_granted = True
            assert place.event is not None
            place.event.set()
        else:
            self._free += 1


@define(eq=False)
class _Work:
    """A job, as its block knows it."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    timeout: float | None
    total: int
    """How often it may begin."""
    backoff: Backoff
    attempts: int = 0
    place: _Place | None = None
    """Where it stands in the queue, from before its task has begun."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    done: trio.Event = field(factory=trio.Event)
    outcome: Outcome[Any] | None = None

    def again(self) -> _Work:
        """The same, to be done once more."""
        return _Work(self.name, self.function, self.args, self.timeout, self.total, self.backoff)


class Job(Generic[T]):
    """A job that was started.  It needs nobody to hold it."""

    def __init__(self, work: _Work) -> None:
        self._work = work

    def __repr__(self) -> str:
        return f"<Job {self.name}, {self._work.outcome if self.is_done else 'not done'}>"

    @property
    def name(self) -> str:
        """What reports call it."""
        return self._work.name

    @property
    def attempts(self) -> int:
        """How often it has begun."""
        return self._work.attempts

    @property
    def is_done(self) -> bool:
        """Whether it has an outcome."""
        return self._work.outcome is not None

    async def join(self) -> Outcome[T]:
        """Wait for its outcome; never raises it.  Cancelled, the job goes on."""
        await self._work.done.wait()
        assert self._work.outcome is not None
        return self._work.outcome

    def cancel(self) -> None:
        """Cancel what it does, or see that it never begins.  Once it is done: nothing."""
        self._work.scope.cancel(reason="the job was cancelled")


class Periodic:
    """A job that comes again and again, until it is cancelled or its block ends."""

    def __init__(self, name: str, seconds: float, scope: trio.CancelScope) -> None:
        self.name = name
        self.seconds = seconds
        """From one tick to the next."""
        self.runs = 0
        """Runs that have ended."""
        self.failures = 0
        """Those of them that failed, or ran out of time."""
        self.skipped = 0
        """Ticks that came while the run before was not over."""
        self.last: Outcome[Any] | None = None
        """How the last run ended."""
        self._scope = scope

    def cancel(self) -> None:
        """End it, with the run in progress."""
        self._scope.cancel(reason="the periodic job was cancelled")


class Jobs:
    """A block of background jobs; see :func:`open_jobs`."""

    def __init__(self, max_running: float, shutdown: float, name: str) -> None:
        self.name = name
        self._slots = _Slots(max_running)
        self._shutdown = shutdown
        self._random = random.Random()
        self._numbers = 0
        self._works: dict[_Work, None] = {}
        self._naps: dict[Periodic, trio.CancelScope] = {}
        """What each sleeps in until its next tick."""
        self._leaving = self._closed = False
        self._nursery: trio.Nursery

    async def __aenter__(self) -> Jobs:
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._leaving = True
        for nap in self._naps.values():
            nap.cancel()
        scope = self._nursery.cancel_scope
        if error is not None:
            scope.cancel(reason="the block of the jobs is left with an error")
        else:
            scope.deadline = trio.current_time() + self._shutdown
        try:
            await self._manager.__aexit__(None, None, None)
        # What a job may raise here ends the program, and leaves bare: a caller must not
        # look for a KeyboardInterrupt in a group.
        except BaseException as raised:
            ends_program = _not_cancelled(raised)
            if ends_program is not None:
                raise ends_program from None
            if error is None:
                raise
        finally:
            self._closed = True
        return False

    @property
    def pending(self) -> tuple[Job[Any], ...]:
        """Jobs that are not done: running, waiting for a slot, or for another try."""
        return tuple(Job(work) for work in self._works)

    @overload
    def start(
        self,
        function: Callable[[*Args], Awaitable[T]],
        *args: *Args,
        timeout: float | None = None,
        attempts: int = 1,
        backoff: Backoff | None = None,
        name: str | None = None,
    ) -> Job[T]: ...
    @overload
    def start(
        self,
        function: Callable[[*Args], T],
        *args: *Args,
        timeout: float | None = None,
        attempts: int = 1,
        backoff: Backoff | None = None,
        name: str | None = None,
    ) -> Job[T]: ...
    def start(  # type: ignore[misc]  # mypy takes *Args for more than *args accepts
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout: float | None = None,
        attempts: int = 1,
        backoff: Backoff | None = None,
        name: str | None = None,
    ) -> Job[Any]:
        """Start a job, and go on.

        A failure that nobody is waiting for is logged as an error.

        Args:
            function: ``async def``, or ``def``, which runs in a thread; cancelled,
                the thread is left to itself, because no library can end one.
            args: what it is called with.
            timeout: seconds that one attempt may take, from when it has a slot.
            attempts: how often it is tried, 1 or more; what raises or takes too
                long is tried again.
            backoff: delays between two attempts, in which it holds no slot;
                ``Backoff()`` by default.
            name: what reports call it.

        Raises:
            ActorStopped: the block has been left.
            ValueError: a number that cannot be meant; nothing was started.
        """
        work = self._work(function, args, timeout, attempts, backoff, name)
        work.place = self._slots.take()  # now, because tasks do not start in order
        self._works[work] = None
        self._nursery.start_soon(self._perform, work, name=work.name)
        return Job(work)

    @overload
    async def run(
        self,
        function: Callable[[*Args], Awaitable[T]],
        *args: *Args,
        timeout: float | None = None,  # noqa: ASYNC109 - of each attempt, not of the call
        attempts: int = 1,
        backoff: Backoff | None = None,
        name: str | None = None,
    ) -> Outcome[T]: ...
    @overload
    async def run(
        self,
        function: Callable[[*Args], T],
        *args: *Args,
        timeout: float | None = None,  # noqa: ASYNC109 - of each attempt, not of the call
        attempts: int = 1,
        backoff: Backoff | None = None,
        name: str | None = None,
    ) -> Outcome[T]: ...
    async def run(  # type: ignore[misc]  # as above
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout: float | None = None,  # noqa: ASYNC109 - of each attempt, not of the call
        attempts: int = 1,
        backoff: Backoff | None = None,
        name: str | None = None,
    ) -> Outcome[Any]:
        """Run a job, and return how it ended; arguments are those of :meth:`start`.

        Cancelled while it waits, the job is cancelled, and has cleaned up.
        """
        job = self.start(
            function,
            *args,
            timeout=timeout,
            attempts=attempts,
            backoff=backoff,
            name=name,
        )
        try:
            return await job.join()
        except trio.Cancelled:
            job.cancel()
            with trio.CancelScope(shield=True):
                await job.join()
            raise

    def every(
        self,
        seconds: float,
        function: Callable[[*Args], object],
        *args: *Args,
        timeout: float | None = None,
        name: str | None = None,
    ) -> Periodic:
        """Run a job every `seconds`, the first time in `seconds`.

        Runs do not overlap: a tick that comes before the last run is over is
        skipped.  A run that fails is logged as an error, and the next comes all
        the same.  Leaving the block lets a run in progress end, and no other begin.

        Args:
            seconds: from one tick to the next, more than 0.
            function: as of :meth:`start`.
            args: what it is called with.
            timeout: seconds that a run may take, from when it has a slot.
            name: what reports call it.
        """
        if not 0 < seconds < math.inf:
            raise ValueError(f"a period must be more than 0 seconds, not {seconds!r}")
        work = self._work(function, args, timeout, 1, None, name)
        scope = trio.CancelScope()
        periodic = Periodic(work.name, seconds, scope)
        self._nursery.start_soon(self._repeat, periodic, work, scope, name=work.name)
        return periodic

    # ---- what is done

    def _work(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        timeout: float | None,
        attempts: int,
        backoff: Backoff | None,
        name: str | None,
    ) -> _Work:
        if self._closed:
            raise ActorStopped(self.name, "the block of the jobs has been left")
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout must be seconds, 0 or more, not {timeout!r}")
        if not is_count(attempts) or attempts < 1:
            raise ValueError(f"attempts must be an int of 1 or more, not {attempts!r}")
        if not callable(function):
            raise TypeError(f"{function!r} is no function; give it and its arguments, uncalled")
        self._numbers += 1
        called = name or getattr(function, "__name__", type(function).__name__)
        return _Work(
            f"{called}#{self._numbers}", function, args, timeout, attempts, backoff or Backoff()
        )

    async def _perform(self, work: _Work) -> Outcome[Any]:
        """See a job to its end.  Raises a Cancelled from outside, and what ends the program."""
        self._works[work] = None
        outcome: Outcome[Any] | None = None
        try:
            with work.scope:
                outcome = await self._tries(work)
        # Cancelled, it failed to clean up: its scope has taken out the Cancelled.
        except Exception as error:
            outcome = Failed(_only(error), work.attempts)
        except BaseExceptionGroup as group:
            cancelled, rest = group.split(trio.Cancelled)
            if cancelled is None or not isinstance(rest, Exception):
                raise
            outcome = Failed(_only(rest), work.attempts)
            raise cancelled from None
        finally:
            if outcome is None:
                outcome = CalledOff(work.attempts)
            self._end(work, outcome)
        return outcome

    async def _tries(self, work: _Work) -> Outcome[Any]:
        while True:
            place = work.place or self._slots.take()
            work.place = None
            await self._slots.wait(place)
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
                work.attempts += 1
                if work.attempts == 1:
                    emit("job.started", f"{self.name}/{work.name}", parent=self.name)
                outcome = await _try(work)
            finally:
                self._slots.release()
            if isinstance(outcome, Ok) or work.attempts >= work.total:
                return outcome
            seconds = work.backoff.draw(work.attempts, self._random)
            why = _why(outcome)
            emit(
                "job.retried",
                f"{self.name}/{work.name}",
                parent=self.name,
                attempts=work.attempts,
                reason=why,
                seconds=seconds,
            )
            logger.warning(
                "job %s/%s: attempt %d of %d: %s; again in %.3g s",
                self.name,
                work.name,
                work.attempts,
                work.total,
                why,
                seconds,
            )
            await trio.sleep(seconds)

    def _end(self, work: _Work, outcome: Outcome[Any]) -> None:
        self._works.pop(work, None)
        why = _why(outcome)
        emit(
            "job.ended",
            f"{self.name}/{work.name}",
            parent=self.name,
            attempts=work.attempts,
            outcome=type(outcome).__name__,
            reason=why,
        )
        if isinstance(outcome, Failed | TimedOut):
            is_awaited = work.done.statistics().tasks_waiting > 0
            is_told = is_awaited and not work.scope.cancel_called
            logger.log(
                logging.INFO if is_told else logging.ERROR,
                "job %s/%s: after %d attempts: %s",
                self.name,
                work.name,
                work.attempts,
                why,
                exc_info=outcome.error if isinstance(outcome, Failed) else None,
            )
        work.outcome = outcome
        work.done.set()

    async def _repeat(self, periodic: Periodic, work: _Work, scope: trio.CancelScope) -> None:
        seconds = periodic.seconds
        due = trio.current_time() + seconds
        try:
            with scope:
                while not self._leaving:
                    with trio.CancelScope(deadline=due) as self._naps[periodic]:
                        await trio.sleep_forever()
                    if self._leaving:
                        break
                    outcome = await self._perform(work)
                    periodic.last = outcome
                    periodic.runs += 1
                    periodic.failures += isinstance(outcome, Failed | TimedOut)
                    # From when it was due, not from now: a slow run must not slow the clock.
                    late = trio.current_time() - due
                    missed = max(0, math.ceil(late / seconds) - 1)
                    periodic.skipped += missed
                    due += (missed + 1) * seconds
                    work = work.again()
        finally:
            self._naps.pop(periodic, None)


def open_jobs(*, max_running: float = 10, shutdown: float = 30.0, name: str = "jobs") -> Jobs:
    """Open a block of background jobs: ``async with standby.open_jobs() as jobs``.

    Leaving it waits for the jobs that were started, the waiting ones included, at
    most `shutdown` seconds; the rest is cancelled.  Leaving it with an error, or
    by a cancellation, cancels all at once.  Either way every job has its outcome,
    and none is left when the block is.

    Args:
        max_running: how many run at the same time; inf for any number.  The
            others wait in order.  A job that waits for another of the same block
            keeps its slot.
        shutdown: seconds.
        name: what reports call it.

    Raises:
        ValueError: a number that cannot be meant.
    """
    if max_running != math.inf and not (max_running >= 1 and max_running == int(max_running)):
        raise ValueError(f"max_running is an int of 1 or more, or inf, not {max_running!r}")
    if not shutdown >= 0:
        raise ValueError(f"shutdown must be seconds, 0 or more, not {shutdown!r}")
    return Jobs(max_running, shutdown, name)


async def _try(work: _Work) -> Outcome[Any]:
    timeout = work.timeout
    try:
        with trio.CancelScope(
            deadline=math.inf if timeout is None else trio.current_time() + timeout
        ):
            return Ok(await _call(work.function, work.args), work.attempts)
    # What a job raises is its outcome.
    except Exception as error:
        return Failed(_only(error), work.attempts)
    assert timeout is not None
    return TimedOut(timeout, work.attempts)


async def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - whether it is async, not whether it is
    )
    if is_async:
        return await function(*args)
    return await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True)


def _only(error: Exception) -> Exception:
    """A group of one is its only member, so that a job with a nursery fails as one without."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _why(outcome: Outcome[Any]) -> str:
    match outcome:
        case Ok():
            return "ok"
        case Failed(error):
            return described(error)
        case TimedOut(seconds):
            return f"took longer than {seconds:g} s"
        case CalledOff():
            return "cancelled"


def _not_cancelled(error: BaseException) -> BaseException | None:
    """The first error that is no Cancelled, in groups or not."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_not_cancelled, error.exceptions)), None)
    return None if isinstance(error, trio.Cancelled) else error
