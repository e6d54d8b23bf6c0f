"""Whatever goes wrong at a named point of supervision, nothing is lost and nothing stays.

One program passes all points.  At its first pass of any of them something is done
(an error, a kill, a stop, a cancellation, an ask); then at its second, its third …
until a run has fewer passes than that.  Every ask resolves, every block ends.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

import standby_actors
import standby_supervision
from standby.testing import z_checks
from standby_actors import Actor, ActorError, ExitReason, Ref, Reply, Shutdown, chaos
from standby_supervision import Branch, Tree, child, open_supervisor, supervisor
from tests.support.schedule import seeded

pytestmark = pytest.mark.usefixtures("quiet_reports")


class Boom(Exception):
    """What goes wrong at a point."""


class Worker(Actor):
    """Waits in its hooks, crashes when it is told to, and may fail its second start."""

    shutdown = 0.5

    def __init__(self, starts: list[int], fails: int = 0) -> None:
        self.starts = starts
        self.fails = fails

    async def on_start(self) -> None:
        self.starts.append(1)
        await trio.sleep(0.01)
        if len(self.starts) == self.fails:
            raise ValueError("this once")

    async def receive(self, message: Any) -> Any:
        if message == "die":
            raise ValueError(message)
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep(0.01)


@define(eq=False)
class Scene:
    """What the acts get to see."""

    scope: trio.CancelScope
    tree: Tree | None = None
    asks: list[Reply[Any]] = field(factory=list)
    passed: list[str] = field(factory=list)

    def ref(self, *path: str) -> Ref[Any] | None:
        """The ref at `path`, if there is one now."""
        if self.tree is None:
            return None
        with contextlib.suppress(KeyError, TypeError, ActorError):
            branch: Branch = self.tree
            for each in path[:-1]:
                branch = branch.branch(each)
            return branch[path[-1]]
        return None

    def ask(self, *path: str, message: str = "x") -> None:
        """Ask who is at `path`, if somebody is; the answer is looked at in the end."""
        ref = self.ref(*path)
        if ref is not None:
            self.asks.append(ref.ask(message))


def raises(scene: Scene) -> None:
    raise Boom


def begin_stop(ref: Any) -> None:
    """Stop it as its owner would: its own handler may be what runs."""
    if ref is not None:
        ref.block.begin_stop(ref, Shutdown())


def kill(ref: Any) -> None:
    if ref is not None:
        ref.kill()


ACTS: dict[str, Callable[[Scene], object]] = {
    "an error": raises,
    "a kill of the child": lambda scene: kill(scene.ref("below", "a")),
    "a kill of its sibling": lambda scene: kill(scene.ref("below", "b")),
    "a stop of the child": lambda scene: begin_stop(scene.ref("below", "a")),
    "a kill of the supervisor": lambda scene: kill(scene.ref("below")),
    "a stop of the supervisor": lambda scene: begin_stop(scene.ref("below")),
    "a kill of the top": lambda scene: kill(scene.tree and scene.tree.ref),
    "a cancellation": lambda scene: scene.scope.cancel(),
    "an ask": lambda scene: scene.ask("below", "a"),
    "a crash": lambda scene: scene.ask("below", "b", message="die"),
}


CALLS: tuple[Callable[[Branch], Awaitable[object]], ...] = (
    lambda branch: branch.start_child(child(Worker, [], id="new")),
    lambda branch: branch.terminate_child("new"),
    lambda branch: branch.restart_child("new"),
    lambda branch: branch.terminate_child("new"),
    lambda branch: branch.delete_child("new"),
)


async def program(scene: Scene) -> None:
    """Pass every point at least once."""
    below = supervisor(
        child(Worker, [], id="a"),
        child(Worker, [], 2, id="b"),
        child(Worker, [], id="t", restart="temporary"),
        id="below",
        strategy="one_for_all",
        intensity=2,
        period=60,
    )
    with scene.scope:
        async with open_supervisor(below, intensity=10) as tree:
            scene.tree = tree
            for each in ("a", "b"):
                scene.ask("below", each)
            scene.ask("below", "a", message="die")
            for each in ("a", "b"):
                scene.ask("below", each)
            await trio.sleep(1)
            for what in CALLS:
                with contextlib.suppress(ActorError, KeyError, TypeError):
                    await what(tree.branch("below"))
            scene.ask("below", "a", message="die")  # the third restart: it gives up
            scene.ask("below", "b")
            await trio.sleep(1)
            await goes_on(tree)


async def goes_on(tree: Tree) -> None:
    """Check that a tree that is up serves."""
    with contextlib.suppress(ActorError):
        for each in await tree.which_children():
            assert each.state == "running"
        for each in await tree.branch("below").which_children():
            assert each.state in ("running", "undefined")
            if each.ref is not None:
                assert await each.ref.ask("still") == "still"


def run(act: Callable[[Scene], object] | None, at: int, seed: int) -> list[str]:
    """Run the program with `act` at pass number `at`; returns the points passed."""
    passed: list[str] = []

    async def main() -> None:
        scene = Scene(trio.CancelScope())

        def pass_by(name: str) -> None:
            assert name in chaos.POINTS, name
            passed.append(name)
            # What raises where a life ends or begins would be an error of the runtime.
            if len(passed) == at and act is not None:
                if act is raises and name.startswith("life."):
                    return
                act(scene)

        with chaos.at_points(pass_by), contextlib.suppress(Boom, ExceptionGroup, ActorError):
            await program(scene)
        assert all(each.done for each in scene.asks), scene.asks

    with seeded(seed), z_checks():
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return passed


def test_the_program_passes_every_point() -> None:
    assert set(run(None, 0, 0)) == set(chaos.POINTS)


@pytest.mark.parametrize("act", ACTS)
def test_nothing_is_lost_whatever_happens_at_a_point(act: str) -> None:
    at = 1
    while len(run(ACTS[act], at, at)) >= at:
        at += 1
    assert at > 20


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("act", ACTS)
def test_nothing_is_lost_whatever_happens_at_a_point_in_any_order(
    act: str, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    at = 1
    while len(run(ACTS[act], at, seed)) >= at:
        at += 1


def test_every_point_in_the_code_is_a_known_one_and_the_other_way_round() -> None:
    found: set[str] = set()
    for package in (standby_actors, standby_supervision):
        for path in pathlib.Path(str(package.__file__)).parent.rglob("*.py"):
            for call in re.findall(r"(?<!def )\bpoint\(([^)]*)\)", path.read_text()):
                found.update(re.findall(r'"([^"]+)"', call))
    assert found == set(chaos.POINTS)
