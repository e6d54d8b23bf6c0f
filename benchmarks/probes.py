"""What can only be measured in a fresh process: memory, and the pauses of its collector.

``python -m benchmarks.probes NAME ARGUMENTS`` prints one line of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec
import trio

import standby
from standby import Actor, open_nursery

from . import sessions, supervised, teams
from .measure import Unmeasured
from .watch import Watch, resident

ROOT = Path(__file__).parent.parent
MAIL = 10
"""Messages that each of a million actors gets."""


def probe(name: str, *arguments: object) -> dict[str, float]:
    """Run a probe in a fresh process and return its figures."""
    command = [sys.executable, "-m", "benchmarks.probes", name, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise Unmeasured((done.stderr.strip() or "no output").splitlines()[-1])
    return msgspec.json.decode(done.stdout, type=dict[str, float])


class Idle(Actor):
    """Has nothing to do; written as a user would write it."""

    def receive(self, message: object) -> None:
        pass


class SlottedIdle(Actor):
    """The same with `__slots__`, for those who count bytes."""

    __slots__ = ()

    def receive(self, message: object) -> None:
        pass


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]


async def memory(what: str, scales: str, count: int) -> None:
    """Weigh one of `count` idle actors, each with a message behind it, or idle trio tasks.

    Nothing but their owner holds them.  `scales` is ``rss``, what the process
    takes from the machine, or ``tracemalloc``, what Python asked for.
    """
    weigh = _scales(scales)
    if what == "task":
        async with trio.open_nursery() as tasks:
            tasks.start_soon(trio.sleep_forever)
            await trio.lowlevel.checkpoint()
            before = weigh()
            for _ in range(count):
                tasks.start_soon(trio.sleep_forever)
            await trio.lowlevel.checkpoint()
            _answer(bytes=(weigh() - before) / count)
    actor: type[Actor] = {"actor": Idle, "slotted": SlottedIdle}[what]
    async with open_nursery() as nursery:
        await nursery.spawn(actor).ask(0)
        before = weigh()
        for number in range(count):
            nursery.spawn(actor).tell(number)
            if number % 500 == 499:
                await trio.lowlevel.checkpoint()
        await nursery.spawn(actor).ask(0)
        _answer(bytes=(weigh() - before) / count)


def _scales(name: str) -> Callable[[], int]:
    if name == "tracemalloc":
        tracemalloc.start()

    def weigh() -> int:
        gc.collect()
        return resident() if name == "rss" else _traced()

    return weigh


class Pauses:
    """Listens to the collector: the longest time for which it stopped the program."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.cpu = 0.0
        self._watch = Watch()
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._watch.__enter__()
        else:
            self._watch.__exit__()
            self.wall = max(self.wall, self._watch.wall)
            self.cpu = max(self.cpu, self._watch.cpu)

    def take(self, figures: dict[str, float], when: str) -> None:
        """Put the longest pause since the last call into `figures`, in milliseconds."""
        figures[f"{when}_pause"] = self.wall * 1e3
        figures["wall"] = max(figures.get("wall", 0.0), self.wall * 1e3)
        figures["cpu"] = max(figures.get("cpu", 0.0), self.cpu * 1e3)
        self.wall = self.cpu = 0.0


class Counting(Actor):
    """Counts its mail in a place shared by all."""

    seen = 0

    def receive(self, message: int) -> None:
        Counting.seen += 1


async def million(setting: str, count: int) -> None:
    """Keep `count` actors alive at once, give each ten messages in turn, stop them all."""
    if setting == "tuned":
        standby.tune_gc()
    gc.collect()
    before = resident()
    pauses = Pauses()
    figures: dict[str, float] = {}
    spawning, telling, stopping = Watch(), Watch(), Watch()
    async with open_nursery() as nursery:
        with spawning:
            refs = [nursery.spawn(Counting) for _ in range(count)]
            await trio.lowlevel.checkpoint()
        pauses.take(figures, "spawn")
        with telling:
            for _ in range(MAIL):
                for number, ref in enumerate(refs):
                    ref.tell(number)
                    if number % 500 == 499:
                        await trio.lowlevel.checkpoint()
            while Counting.seen < MAIL * count:
                await trio.lowlevel.checkpoint()
        pauses.take(figures, "tell")
        figures["megabytes"] = (resident() - before) / 1e6
        stopping.__enter__()
    stopping.__exit__()
    pauses.take(figures, "stop")
    _answer(
        spawn=spawning.wall / count * 1e6,
        tell=telling.wall / count / MAIL * 1e6,
        stop=stopping.wall / count * 1e6,
        **figures,
    )


async def restarts(count: int) -> None:
    """Restart one child ten times `count` times: the first and the last tenth, and the growth."""
    before = 0

    def weigh(number: int) -> None:
        nonlocal before
        gc.collect()
        if number == 0:
            before = resident()

    watches = [Watch() for _ in range(10)]
    with supervised.reports(None):
        await supervised.restarts(supervised.Crasher, count, watches, weigh)
    gc.collect()
    _answer(
        first_wall=watches[0].wall,
        first_cpu=watches[0].cpu,
        last_wall=watches[-1].wall,
        last_cpu=watches[-1].cpu,
        megabytes=(resident() - before) / 1e6,
    )


def _answer(**figures: float) -> NoReturn:
    # At once: to end a million tasks in order would take longer than the measurement.
    print(json.dumps(figures))
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    name, *arguments, count = sys.argv[1:]
    if name == "memory":
        what, scales = arguments
        trio.run(memory, what, scales, int(count))
    elif name == "restarts":
        trio.run(restarts, int(count))
    elif name == "sessions":
        _answer(bytes=trio.run(sessions.weigh_sessions, int(count)))
    elif name == "branches":
        _answer(bytes=trio.run(teams.weigh_branches, int(count)))
    else:
        trio.run(million, arguments[0], int(count))


if __name__ == "__main__":
    main()
