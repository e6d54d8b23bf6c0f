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

from standby_actors import ActorStopped, emit

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


class Cancelled(_NoBool, msgspec.Struct, frozen=True, tag=True):
    """It was cancelled, or its block ended first.  Not an exception: a value."""

    attempts: int = 0
    """How often it had begun; 0: never."""


Outcome = Ok[T] | Failed | TimedOut | Cancelled
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


class Job(Generic[T]):
    """A job that was started.  It needs nobody to hold it."""

    def __init__(
        self,
        name: str,
        call: Callable[[], Awaitable[T]],
        timeout: float | None,
        total: int,
        backoff: Backoff,
    ) -> None:
        self.name = name
        """What reports call it."""
        self.attempts = 0
        """How often it has begun."""
        self._call = call
        self._timeout = timeout
        self._total = total
        self._backoff = backoff
        self._scope = trio.CancelScope()
        self._done = trio.Event()
        self._outcome: Outcome[T] | None = None
        self._place: _Place

    def __repr__(self) -> str:
        return f"<Job {self.name}, {self._outcome if self.is_done else 'not done'}>"

    @property
    def is_done(self) -> bool:
        """Whether it has an outcome."""
        return self._outcome is not None

    async def join(self) -> Outcome[T]:
        """Wait for its outcome; never raises it.  Cancelled, the job goes on."""
        await self._done.wait()
        assert self._outcome is not None
        return self._outcome

    def cancel(self) -> None:
        """Cancel what it does, or see that it never begins.  Once it is done: nothing."""
        self._scope.cancel(reason="the job was cancelled")

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for its outcome."""
        return self._done.statistics().tasks_waiting > 0

    def _end(self, outcome: Outcome[T]) -> None:
        self._outcome = outcome
        self._done.set()


class Periodic:
    """A job that comes again and again, until it is cancelled or its block ends."""

    def __init__(self, name: str, seconds: float) -> None:
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
        self._scope = trio.CancelScope()
        self._nap = trio.CancelScope()

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
        self._jobs: dict[Job[Any], None] = {}
        self._periodic: dict[Periodic, None] = {}
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
        for each in self._periodic:
            each._nap.cancel()
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
        return tuple(self._jobs)

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
        job = self._job(function, args, timeout, attempts, backoff, name)
        job._place = self._slots.take()  # now, because tasks do not start in order
        self._jobs[job] = None
        self._nursery.start_soon(self._perform, job, name=job.name)
        return job

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
        first = self._job(function, args, timeout, 1, None, name)
        periodic = Periodic(first.name, seconds)
        self._periodic[periodic] = None
        self._nursery.start_soon(self._repeat, periodic, first, name=first.name)
        return periodic

    # ---- what is done

    def _job(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        timeout: float | None,
        attempts: int,
        backoff: Backoff | None,
        name: str | None,
    ) -> Job[Any]:
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

        async def call() -> Any:
            return await _call(function, args)

        return Job(f"{called}#{self._numbers}", call, timeout, attempts, backoff or Backoff())

    async def _perform(self, job: Job[Any]) -> None:
        """See a job to its end.  Raises a Cancelled from outside, and what ends the program."""
        self._jobs[job] = None
        outcome: Outcome[Any] | None = None
        try:
            with job._scope:
                outcome = await self._tries(job)
        # Cancelled, it failed to clean up: its scope has taken out the Cancelled.
        except Exception as error:
            outcome = Failed(_only(error), job.attempts)
        except BaseExceptionGroup as group:
            cancelled, rest = group.split(trio.Cancelled)
            if cancelled is None or not isinstance(rest, Exception):
                raise
            outcome = Failed(_only(rest), job.attempts)
            raise cancelled from None
        finally:
            self._end(job, outcome if outcome is not None else Cancelled(job.attempts))

    async def _tries(self, job: Job[Any]) -> Outcome[Any]:
        while True:
            await self._slots.wait(job._place)
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
                job.attempts += 1
                if job.attempts == 1:
                    emit("job.started", f"{self.name}/{job.name}", parent=self.name)
                outcome = await _try(job)
            finally:
                self._slots.release()
            if isinstance(outcome, Ok) or job.attempts >= job._total:
                return outcome
            seconds = job._backoff.draw(job.attempts, self._random)
            why = _why(outcome)
            emit(
                "job.retried",
                f"{self.name}/{job.name}",
                parent=self.name,
                attempts=job.attempts,
                reason=why,
                seconds=seconds,
            )
            logger.warning(
                "job %s/%s: attempt %d of %d: %s; again in %.3g s",
                self.name,
                job.name,
                job.attempts,
                job._total,
                why,
                seconds,
            )
            await trio.sleep(seconds)
            job._place = self._slots.take()

    def _end(self, job: Job[Any], outcome: Outcome[Any]) -> None:
        self._jobs.pop(job, None)
        why = _why(outcome)
        emit(
            "job.ended",
            f"{self.name}/{job.name}",
            parent=self.name,
            attempts=job.attempts,
            outcome=type(outcome).__name__,
            reason=why,
        )
        if isinstance(outcome, Failed | TimedOut):
            is_told = job.is_awaited and not job._scope.cancel_called
            logger.log(
                logging.INFO if is_told else logging.ERROR,
                "job %s/%s: after %d attempts: %s",
                self.name,
                job.name,
                job.attempts,
                why,
                exc_info=outcome.error if isinstance(outcome, Failed) else None,
            )
        job._end(outcome)

    async def _repeat(self, periodic: Periodic, job: Job[Any]) -> None:
        seconds = periodic.seconds
        try:
            with periodic._scope:
                due = trio.current_time() + seconds
                while not self._leaving:
                    with trio.CancelScope(deadline=due) as periodic._nap:
                        await trio.sleep_forever()
                    if self._leaving:
                        break
                    job._place = self._slots.take()
                    await self._perform(job)
                    outcome = periodic.last = job._outcome
                    periodic.runs += 1
                    periodic.failures += isinstance(outcome, Failed | TimedOut)
                    # From when it was due, not from now: a slow run must not slow the clock.
                    late = trio.current_time() - due
                    missed = max(0, math.ceil(late / seconds) - 1)
                    periodic.skipped += missed
                    due += (missed + 1) * seconds
                    job = Job(job.name, job._call, job._timeout, 1, job._backoff)
        finally:
            del self._periodic[periodic]


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


async def _try(job: Job[Any]) -> Outcome[Any]:
    timeout = job._timeout
    try:
        with trio.CancelScope(
            deadline=math.inf if timeout is None else trio.current_time() + timeout
        ):
            return Ok(await job._call(), job.attempts)
    # What a job raises is its outcome.
    except Exception as error:
        return Failed(_only(error), job.attempts)
    assert timeout is not None
    return TimedOut(timeout, job.attempts)


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
            return f"{type(error).__name__}: {error}"
        case TimedOut(seconds):
            return f"took longer than {seconds:g} s"
        case Cancelled():
            return "cancelled"


def _not_cancelled(error: BaseException) -> BaseException | None:
    """The first error that is no Cancelled, in groups or not."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_not_cancelled, error.exceptions)), None)
    return None if isinstance(error, trio.Cancelled) else error
