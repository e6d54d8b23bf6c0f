"""The work that is timed, done under supervisors; each checks that it was really done.

A supervisor reports every crash to `logging`.  What is compared with trio and
with Erlang has those reports turned off, as Erlang's are; one row has them on.
"""

from __future__ import annotations

import contextlib
import logging
import math
import statistics
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import msgspec
import trio

from standby import (
    Actor,
    Branch,
    Done,
    Ref,
    Request,
    Started,
    child,
    open_nursery,
    open_supervisor,
    supervisor,
)

from .floors import BURST
from .measure import Sample
from .watch import Watch
from .workloads import Echo, ask_in_turn

PLENTY = 10**9
"""Restarts that a supervisor allows here: more than are made."""
BRIEF = 0.01
"""Seconds that a restart counts for, so that those that count do not pile up."""

_logger = logging.getLogger("standby.supervision")


class Reader(logging.Handler):
    """Formats every report, and throws it away."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)


@contextlib.contextmanager
def reports(to: logging.Handler | None) -> Generator[None]:
    """Have the supervisors' reports go to one handler alone, or nowhere."""
    level, propagate = _logger.level, _logger.propagate
    _logger.propagate = False
    if to is None:
        _logger.setLevel(logging.CRITICAL)
    else:
        _logger.addHandler(to)
    try:
        yield
    finally:
        _logger.propagate = propagate
        _logger.setLevel(level)
        if to is not None:
            _logger.removeHandler(to)


# ---- crash and restart


class Drive(msgspec.Struct, frozen=True):
    """Tells a driver whom to crash, and how often."""

    crasher: Ref[int]
    crashes: int
    done: trio.Event


class Driver(Actor):
    """Makes another crash, hears of its next life, makes it crash, and so on."""

    def __init__(self) -> None:
        self.drive: Drive | None = None
        self.left = 0

    def receive(self, message: Drive | None) -> None:
        if message is not None:
            self.drive = message
            self.left = message.crashes
        elif self.drive is not None:
            self.left -= 1
        if self.drive is not None:
            if self.left:
                self.drive.crasher.tell(self.left)
            else:
                self.drive.done.set()
                self.drive = None


class Crasher(Actor):
    """Tells its driver that it is there; crashes at its first message."""

    def __init__(self, driver: Ref[Drive | None]) -> None:
        driver.tell(None)

    def receive(self, message: int) -> None:
        raise ValueError(message)


class AsyncCrasher(Actor):
    """The same, with an ``async def`` handler."""

    def __init__(self, driver: Ref[Drive | None]) -> None:
        driver.tell(None)

    async def receive(self, message: int) -> None:
        raise ValueError(message)


class HookedCrasher(Actor):
    """The same, with a start hook that its supervisor waits for."""

    def __init__(self, driver: Ref[Drive | None]) -> None:
        self.driver = driver

    async def on_start(self) -> None:
        self.driver.tell(None)

    def receive(self, message: int) -> None:
        raise ValueError(message)


async def restarts(
    crasher: Callable[..., Any],
    crashes: int,
    watches: list[Watch],
    after: Callable[[int], object] = lambda _: None,
) -> None:
    """Let a supervised child crash and live again `crashes` times for each watch, in one tree.

    Args:
        after: called with the number of each watch, from 0, when its part is over.
    """
    async with open_supervisor(child(Driver), intensity=PLENTY, period=BRIEF) as tree:
        driver = tree["Driver"]
        started = await tree.start_child(child(crasher, driver, id="crasher"))
        assert isinstance(started, Started)
        for number, watch in enumerate(watches):
            done = trio.Event()
            with watch:
                driver.tell(Drive(tree["crasher"], crashes, done))
                await done.wait()
            after(number)
        crashed, _ = await tree.which_children()
        assert crashed.restarts == crashes * len(watches)
        assert crashed.state == "running"


def restarting(
    crasher: Callable[..., Any], to: logging.Handler | None = None
) -> Callable[[int, Watch], Awaitable[None]]:
    """Return the workload in which `crasher` crashes and is restarted, one by one."""

    async def crash_and_restart(crashes: int, watch: Watch) -> None:
        with reports(to):
            await restarts(crasher, crashes, [watch])

    return crash_and_restart


# ---- a tree of very many children

BRANCHES = 250
"""Supervisors among which the children of a tree are divided; at the smallest size fewer."""


def branches(children: int) -> int:
    """How many supervisors a tree of so many children has, here and at Erlang's."""
    return BRANCHES if children >= 100 * BRANCHES else 10


class Leaf(Actor):
    """Has nothing to do."""

    def receive(self, message: object) -> None:
        pass


class Populate(Request[int], frozen=True):
    """Asks for so many children to be started at each of some dynamic supervisors."""

    supervisors: list[Branch]
    each: int


class Populator(Actor):
    """Starts children by asking their supervisors, one after the other."""

    async def receive(self, message: Populate) -> int:
        started = 0
        for one in message.supervisors:
            for _ in range(message.each):
                started += isinstance(await one.start(), Started)
        return started


async def specified_tree(children: int, starting: Watch, stopping: Watch) -> None:
    """Start a tree from its specification, and leave it.  Two levels, one_for_one.

    To write the specification is part of the start: Erlang's is made by init/1.
    """
    many = branches(children)
    each = children // many
    leaves: list[Ref[Any]] = []
    with reports(None):
        starting.__enter__()
        specs = (
            supervisor(*(child(Leaf, id=f"leaf {n}") for n in range(each)), id=f"branch {b}")
            for b in range(many)
        )
        async with open_supervisor(*specs) as tree:
            starting.__exit__()
            below = [tree.branch(f"branch {b}") for b in range(many)]
            leaves += [one[f"leaf {n}"] for one in below for n in range(each)]
            assert all(leaf.is_alive for leaf in leaves)
            stopping.__enter__()
        stopping.__exit__()
    assert len(leaves) == each * many
    assert not any(leaf.is_alive for leaf in leaves)


async def populated_tree(children: int, starting: Watch, stopping: Watch) -> None:
    """Start dynamic supervisors, have an actor ask them for every child, and leave them."""
    many = branches(children)
    each = children // many
    below: list[Branch] = []
    template = child(Leaf)
    names = [f"branch {b}" for b in range(many)]
    specs = (supervisor(template, id=name, strategy="dynamic") for name in names)
    with reports(None):
        async with open_supervisor(child(Populator), *specs) as tree:
            below += map(tree.branch, names)
            with starting:
                started = await tree["Populator"].ask(Populate(below, each))
            assert started == each * many
            stopping.__enter__()
        stopping.__exit__()
    assert not any(branch.ref.is_alive for branch in below)


TreeWorkload = Callable[[int, Watch, Watch], Awaitable[None]]


def start_of(tree: TreeWorkload) -> Callable[[int, Watch], Awaitable[None]]:
    """Return the workload that times how `tree` starts."""

    async def start(children: int, watch: Watch) -> None:
        await tree(children, watch, Watch())

    return start


def stop_of(tree: TreeWorkload) -> Callable[[int, Watch], Awaitable[None]]:
    """Return the workload that times how `tree` stops."""

    async def stop(children: int, watch: Watch) -> None:
        await tree(children, Watch(), watch)

    return stop


# ---- what supervision adds to a message

PIECES = 20
"""Parts into which a comparison is cut; the two take turns at being first."""


class Total(Actor):
    """Adds up, and answers with the sum so far."""

    def __init__(self) -> None:
        self.total = 0

    def receive(self, message: int) -> int:
        self.total += message
        return self.total


async def _plain_and_kept(
    actor: Callable[..., Any],
    args: tuple[Any, ...],
    piece: Callable[[Ref[Any], Watch], Awaitable[object]],
) -> Sample:
    walls: list[float] = []
    cpus: list[float] = []
    async with (
        open_nursery() as nursery,
        open_supervisor(child(actor, *args, id="kept", capacity=math.inf)) as tree,
    ):
        pair = {"plain": nursery.spawn(actor, *args, capacity=math.inf), "kept": tree["kept"]}
        for number in range(PIECES):
            taken = {"plain": Watch(), "kept": Watch()}
            for name in sorted(taken, reverse=bool(number % 2)):
                await piece(pair[name], taken[name])
            walls.append(taken["kept"].wall / taken["plain"].wall)
            cpus.append(taken["kept"].cpu / taken["plain"].cpu)
    wall, cpu = (100 * (statistics.median(each) - 1) for each in (walls, cpus))
    return Sample(wall, cpu)


def tell_overhead(messages: int) -> Sample:
    """By how many per cent a tell to a supervised actor is slower than one to another."""

    each = messages // PIECES // BURST

    async def piece(ref: Ref[Any], watch: Watch) -> None:
        tell = ref.tell
        before = await ref.ask(0)
        with watch:
            for _ in range(each):
                for _ in range(BURST):
                    tell(1)
                await trio.lowlevel.checkpoint()
            assert await ref.ask(0) == before + each * BURST

    return trio.run(_plain_and_kept, Total, (), piece)


def ask_overhead(questions: int) -> Sample:
    """The same of an ask."""

    async def piece(ref: Ref[Any], watch: Watch) -> None:
        await ask_in_turn(ref, questions // PIECES, watch)

    return trio.run(_plain_and_kept, Echo, (), piece)


# ---- OTP's own cases of scale


async def terminate_temporary(children: int, watch: Watch) -> None:
    """Case 77: terminate so many temporary children of a dynamic supervisor."""
    template = child(Leaf, restart="temporary", shutdown=1.0)
    async with open_supervisor(template, strategy="dynamic", intensity=2, period=3600) as tree:
        started = [await tree.start() for _ in range(children)]
        refs = [one.ref for one in started if isinstance(one, Started)]
        assert len(refs) == children
        with watch:
            for ref in refs:
                assert await tree.terminate_child(ref) == Done()
        assert (await tree.count_children()).active == 0


async def start_and_terminate(children: int, starting: Watch, stopping: Watch) -> None:
    """Case 88: start so many children of a supervisor without any, then terminate each."""
    with reports(None):
        async with open_supervisor() as tree:
            specs = [child(Leaf, id=str(n), shutdown=1.0) for n in range(children)]
            with starting:
                for spec in specs:
                    assert isinstance(await tree.start_child(spec), Started)
            with stopping:
                for spec in specs:
                    assert await tree.terminate_child(spec.id) == Done()
            counts = await tree.count_children()
            assert (counts.specs, counts.active) == (children, 0)


def scaling(workload: Callable[[int, Watch], Awaitable[None]], many: int, few: int) -> Sample:
    """How many times longer all of `many` take than all of `few`."""
    long, short = Watch(), Watch()
    trio.run(workload, few, short)
    trio.run(workload, many, long)
    return Sample(
        long.wall / short.wall,
        long.cpu / short.cpu,
        {
            f"each of {few:,}": (short.wall / few, "µs"),
            f"each of {many:,}": (long.wall / many, "µs"),
        },
    )
