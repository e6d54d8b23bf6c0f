"""A child that holds the loop, hangs, or ignores its end is reported while it does, not afterwards.

What holds the loop holds its own report up, unless a thread looks: so these run in
real time.  Nothing sleeps: each child goes on when, and only when, it has been
reported.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Generator
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby.testing import PumpSeam
from standby_actors import Actor, ActorCrashed, ExitReason, Ref, watch_loop
from standby_supervision import Stalled, child, open_supervisor, supervisor
from tests.support.heard import heard


@define(eq=False)
class Report:
    """Whether the log has told of what is going on, and what it said."""

    arrived: threading.Event = field(factory=threading.Event)
    text: str = ""

    def hold(self) -> None:
        """Hold the loop until it has been told of."""
        if not self.arrived.is_set():
            assert self.arrived.wait(30), "nobody has told of it"


class Ear(logging.Handler):
    """Keeps the first report of a held loop."""

    def __init__(self, report: Report) -> None:
        super().__init__(logging.WARNING)
        self.report = report

    def emit(self, record: logging.LogRecord) -> None:
        """Called in the thread that looks."""
        if "holds the loop" in record.getMessage() and not self.report.arrived.is_set():
            self.report.text = record.getMessage()
            self.report.arrived.set()


@contextlib.contextmanager
def listening() -> Generator[Report]:
    """Listen to the log meanwhile."""
    report = Report()
    ear = Ear(report)
    logger = logging.getLogger("standby")
    logger.addHandler(ear)
    try:
        yield report
    finally:
        logger.removeHandler(ear)


class Holds(Actor):
    """Holds the loop in one of the places that are its own."""

    def __init__(self, report: Report, place: str) -> None:
        self.report = report
        self.place = place
        self.hold_in("constructor")

    def hold_in(self, place: str) -> None:
        """Hold the loop here, if this is the place."""
        if self.place == place:
            self.report.hold()

    def on_start(self) -> Any:
        self.hold_in("start hook")

    def receive(self, message: Any) -> Any:
        self.hold_in("handler")
        if message == "crash":
            self.place = "gone"
            raise ConnectionResetError
        return message

    def on_stop(self, reason: ExitReason) -> Any:
        self.hold_in("stop hook")


class HoldsAwaiting(Holds):
    """The same in coroutines, after they have waited for something real."""

    async def on_start(self) -> None:
        await trio.lowlevel.checkpoint()
        self.hold_in("start hook")

    async def receive(self, message: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return super().receive(message)

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.lowlevel.checkpoint()
        self.hold_in("stop hook")


class HoldsOnItsTask(HoldsAwaiting):
    """The same on a task of its own."""

    dedicated = True


PLACES = ["constructor", "start hook", "handler", "stop hook"]


@pytest.mark.real
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [Holds, HoldsAwaiting, HoldsOnItsTask])
async def test_a_child_that_holds_the_loop_is_told_of_while_it_does(
    kind: type[Holds], place: str
) -> None:
    with listening() as report:
        async with watch_loop(0.02):
            spec = supervisor(child(kind, report, place, id="c"), id="below")
            async with heard() as events, open_supervisor(spec) as tree:
                ref: Ref[Any] = tree.branch("below")["c"]
                assert await ref.ask("turn") == "turn"
    assert report.arrived.is_set()
    assert "self.report.hold()" in report.text
    # Whoever makes a child holds the loop in its constructor.
    holder = "supervisor/top/below" if place == "constructor" else "supervisor/top/below/c"
    assert report.text.startswith(f"{holder} holds the loop for ")
    assert not any(each.type == "supervisor.stalled" for each in events)


@pytest.mark.real
async def test_a_constructor_that_holds_the_loop_on_a_restart_is_told_of_as_well() -> None:
    with listening() as report:
        lives = 0

        class Later(Actor):
            """Holds the loop when it is made for the second time; has no start hook."""

            def __init__(self) -> None:
                nonlocal lives
                lives += 1
                if lives == 2:
                    report.hold()

            def receive(self, message: Any) -> Any:
                if message == "crash":
                    raise ConnectionResetError
                return message

        async with watch_loop(0.02), open_supervisor(child(Later, id="c")) as tree:
            tree["c"].tell("crash")
            assert await tree["c"].ask("back") == "back"
    assert "report.hold()" in report.text
    assert report.text.startswith("supervisor/top/c holds the loop for ")


# ---- hanging, and ignoring the end, are seen from the loop itself


class Hangs(Actor):
    """Waits for ever for what it was told to, in a shield if it is told to."""

    async def receive(self, message: str) -> str:
        if message == "hang":
            await trio.sleep_forever()
        if message == "cling":
            with trio.CancelScope(shield=True):
                await trio.sleep(1000)
        return message


class HangsOnItsTask(Hangs):
    """The same on a task of its own."""

    dedicated = True


@pytest.mark.parametrize("kind", [Hangs, HangsOnItsTask])
async def test_a_child_that_hangs_is_told_of_with_its_stack_before_it_is_ended(
    kind: type[Hangs], autojump_clock: MockClock
) -> None:
    told: list[tuple[float, bool]] = []

    class Listens(logging.Handler):
        """Looks at the child when it is told of."""

        def emit(self, record: logging.LogRecord) -> None:
            if "is stalled" in record.getMessage():
                assert "receive (test_reported_while_it_happens.py:" in record.getMessage()
                told.append((trio.current_time(), ref.incarnation == 1 and ref.is_alive))

    listens = Listens()
    logger = logging.getLogger("standby.supervision")
    logger.addHandler(listens)
    try:
        async with open_supervisor(child(kind, id="c", stalled_after=8.0)) as tree:
            ref = tree["c"]
            with pytest.raises(ActorCrashed) as caught:
                await ref.ask("hang")
            assert isinstance(caught.value.__cause__, Stalled)
            assert await ref.ask("back") == "back"
    finally:
        logger.removeHandler(listens)
    ((at, was_alive),) = told
    assert was_alive
    assert at == pytest.approx(10, abs=0.01)


@pytest.mark.parametrize("way", ["kill", "stop", "terminate", "left"])
@pytest.mark.parametrize("kind", [Hangs, HangsOnItsTask])
async def test_a_child_that_ignores_its_end_is_told_of_with_its_stack_at_its_grace(
    kind: type[Hangs], way: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    told_at: list[float] = []

    class Listens(logging.Handler):
        """Notes when it was told of."""

        def emit(self, record: logging.LogRecord) -> None:
            if "stuck: supervisor/top/c outlived its kill" in record.getMessage():
                assert "receive (test_reported_while_it_happens.py:" in record.getMessage()
                assert ref.snapshot().state == "stuck"
                told_at.append(trio.current_time())

    listens = Listens()
    logger = logging.getLogger("standby")
    logger.addHandler(listens)
    try:
        async with open_supervisor(
            child(kind, id="c", shutdown=5.0, restart="temporary"), grace=1.0
        ) as tree:
            ref = tree["c"]
            ref.tell("cling")
            await trio.testing.wait_all_tasks_blocked()
            match way:
                case "kill":
                    ref.kill()
                    await trio.sleep(1)
                case "stop":
                    await ref.stop()
                case "terminate":
                    await tree.terminate_child("c")
                case _:
                    pass
    finally:
        logger.removeHandler(listens)
    assert told_at == [1.0 if way == "kill" else 6.0]


# ---- what it costs


class Plain(Actor):
    """Costs as little as an actor can."""

    def receive(self, message: Any) -> Any:
        return message


class Awaits(Actor):
    """The same as a coroutine that does not wait."""

    async def receive(self, message: Any) -> Any:
        return message


async def calls_for_a_thousand(kind: type[Actor], stalled_after: float | None, how: str) -> int:
    """Calls of functions, Python's and C's, from a thousand messages to their end."""
    count = 0

    def note(frame: Any, what: str, _: Any) -> None:
        nonlocal count
        count += what in ("call", "c_call")

    async with open_supervisor(
        child(kind, id="c", capacity=2000, stalled_after=stalled_after)
    ) as tree:
        ref = tree["c"]
        await ref.ask("warm up")
        sys.setprofile(note)
        try:
            if how == "ask":
                for number in range(1000):
                    await ref.ask(number)
            else:
                for number in range(1000):
                    ref.tell(number)
                await ref.ask("last")
        finally:
            sys.setprofile(None)
    return count


@pytest.mark.parametrize("how", ["ask", "tell"])
@pytest.mark.parametrize("kind", [Plain, Awaits])
async def test_a_progress_deadline_costs_no_call_for_any_message(
    kind: type[Actor], how: str, autojump_clock: MockClock
) -> None:
    counts: dict[float | None, int] = {}
    # On a clock of its own, so that the pump pauses at the same messages each time.
    with PumpSeam(budget=512).installed():
        for seconds in (None, 60.0, None, 60.0):  # the first time for what is worked out once
            counts[seconds] = await calls_for_a_thousand(kind, seconds, how)
    assert counts[None] > 1000
    # One call for each message would be a thousand; trio's own turns are some dozens.
    assert abs(counts[60.0] - counts[None]) < 500
