"""Random programs: whatever happens, every block ends with nothing left.

A program of spawns, asks, crashes, kills, stops, scopes, nurseries and nested
blocks is drawn from a seed, run under a virtual clock, and checked: no task, no
actor, no open ask, no name.  A failing test names its seed.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from standby.testing import PumpSeam, sweep, z_checks
from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    AskCycle,
    ExitReason,
    MailboxFull,
    open_nursery,
)
from tests.support.schedule import seeded

KINDS = [
    "nothing",
    "ask",
    "ask",
    "ask",
    "sleep",
    "checkpoint",
    "crash",
    "kill peer",
    "kill self",
    "stop peer",
    "leave",
    "scope",
    "nursery",
    "block",
    "for ever",
    "shield",
    "spawn",
]
FAILURES = (ActorStopped, ActorCrashed, AskCycle, MailboxFull)


class Player(Actor):
    """Acts as its messages say; may await in its hooks."""

    shutdown = 0.05

    def __init__(self, starts_slowly: bool, stops_slowly: bool) -> None:
        self.starts_slowly = starts_slowly
        self.stops_slowly = stops_slowly

    async def on_start(self) -> None:
        if self.starts_slowly:
            await trio.lowlevel.checkpoint()

    async def receive(self, message: Any) -> Any:
        what, peers, drawn = message
        await act(what, peers, drawn, self)
        return what

    async def on_stop(self, reason: ExitReason) -> None:
        if self.stops_slowly:
            await trio.sleep(0.001)


class Plain(Actor):
    """The same without ever waiting."""

    def receive(self, message: Any) -> Any:
        what, peers, drawn = message
        if what == "crash":
            raise ValueError(what)
        if what == "kill peer":
            drawn.choice(peers).kill()
        if what == "stop peer":
            drawn.choice(peers).stop()
        if what == "leave":
            self.stop()
        if what == "ask":
            drawn.choice(peers).ask(("nothing", peers, drawn))
        return what


async def act(what: str, peers: Any, drawn: random.Random, self: Actor) -> None:
    peer = drawn.choice(peers)
    next_what = drawn.choice(KINDS)
    if what == "ask":
        with contextlib.suppress(*FAILURES):
            await peer.ask((next_what, peers, drawn))
    elif what == "sleep":
        await trio.sleep(0.002)
    elif what == "checkpoint":
        await trio.lowlevel.checkpoint()
    elif what == "crash":
        raise ValueError(what)
    elif what == "kill peer":
        peer.kill()
    elif what == "kill self":
        self.ref.kill()
        await trio.lowlevel.checkpoint()
    elif what == "stop peer":
        if peer is not self.ref:
            peer.stop()
    elif what == "leave":
        self.stop()
    elif what == "scope":
        with trio.move_on_after(0.002):
            await act(drawn.choice(["ask", "sleep", "for ever"]), peers, drawn, self)
    elif what == "nursery":
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(
                    act, drawn.choice(["ask", "sleep", "checkpoint"]), peers, drawn, self
                )
    elif what == "block":
        try:
            async with open_nursery(grace=0.05) as inner:
                inside = [inner.spawn(Player, False, True), inner.spawn(Plain)]
                with trio.move_on_after(0.005):
                    with contextlib.suppress(*FAILURES):
                        await inside[0].ask((drawn.choice(KINDS[:-4]), inside, drawn))
        except* ValueError:
            pass
    elif what == "for ever":
        await trio.sleep_forever()
    elif what == "shield":
        with trio.move_on_after(0.003, shield=True):
            await trio.sleep_forever()
    elif what == "spawn":
        try:
            child = self.spawn(Player, True, True, link=drawn.random() < 0.3)
            child.tell(("nothing" if next_what == "spawn" else next_what, peers, drawn))
        except FAILURES:
            pass


async def program(seed: int, seam: PumpSeam) -> None:
    drawn = random.Random(seed)
    asked = []
    with seam.installed():
        async with open_nursery(grace=0.05) as nursery:
            # A crash would end a plain block at once, and the program with it; so
            # every player stands below one that does not mind.
            home = nursery.spawn(Home)
            peers: list[Any] = [await home.ask(drawn.random()) for _ in range(5)]
            for _ in range(15):
                peer = drawn.choice(peers)
                message = (drawn.choice(KINDS[:-1]), peers, drawn)
                if drawn.random() < 0.5:
                    peer.tell(message)
                else:
                    asked.append(peer.ask(message))
                if drawn.random() < 0.3:
                    await trio.lowlevel.checkpoint()
            await trio.sleep(drawn.random() * 0.006)
    for reply in asked:
        assert reply.done
    for peer in peers:
        assert not peer.is_alive


class Home(Actor):
    """Spawns players that may crash without ending anybody else."""

    shutdown = 5.0

    def receive(self, message: float) -> Any:
        if message < 0.6:
            return self.spawn(Player, message < 0.3, message > 0.2, link=False)
        return self.spawn(Plain, link=False)


def run_program(seed: int, *, budget: int) -> None:
    async def main() -> None:
        with trio.fail_after(30):
            await program(seed, PumpSeam(seed, budget=budget))

    with z_checks(), seeded(seed):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("budget", [1, 3, 512])
@pytest.mark.parametrize("chunk", range(5))
def test_a_random_program_leaves_nothing(chunk: int, budget: int) -> None:
    for seed in range(chunk * 40, chunk * 40 + 40):
        try:
            run_program(seed, budget=budget)
        except BaseException:
            print(f"seed {seed}, budget {budget}")
            raise


@pytest.mark.parametrize("seed", [7, 1007, 2007])
def test_a_program_cut_before_any_step_leaves_nothing(seed: int) -> None:
    async def scenario(count: Callable[[int], None]) -> None:
        await program(seed, PumpSeam(seed, before_turn=count))

    with seeded(seed):
        assert sweep(scenario) > 20


@pytest.mark.deep
@pytest.mark.parametrize("chunk", range(50))
def test_ten_thousand_random_programs_leave_nothing(
    chunk: int, caplog: pytest.LogCaptureFixture
) -> None:
    # In chunks, and without a log: the check after each looks at every object that the
    # programs before it have left in the memory of the test.
    caplog.set_level("CRITICAL")
    for seed in range(chunk * 200, chunk * 200 + 200):
        try:
            run_program(seed, budget=1 + seed % 4)
        except BaseException:
            print(f"seed {seed}, budget {1 + seed % 4}")
            raise
