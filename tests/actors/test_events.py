"""One stream of what happens: whoever listens changes nothing, and nobody has to."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
import trio
import trio.testing

from standby.testing import PumpSeam
from standby_actors import (
    Actor,
    ActorCrashed,
    Event,
    Ref,
    Snapshot,
    emit,
    events,
    listen,
    open_events,
    open_nursery,
)
from tests.support.heard import heard
from tests.support.homes import apart
from tests.support.schedule import seeded


class Grows(Actor):
    """Spawns, ends and crashes as the message says."""

    shutdown = 1.0

    async def receive(self, message: Any) -> Any:
        if message == "spawn":
            return self.spawn(Grows, link=False)
        if message == "crash":
            raise ValueError(message)
        if message == "leave":
            self.stop()
        return message


async def program(seed: int, look: Any = None) -> list[str]:
    """A drawn life of a tree; gives back the outcome of each of its steps."""
    drawn = random.Random(seed)
    outcomes: list[str] = []
    async with open_nursery(name="root") as nursery:
        refs = [await apart(nursery, Grows)]
        for _ in range(40):
            alive = [ref for ref in refs if ref.is_alive]
            if not alive:
                refs.append(await apart(nursery, Grows))
                alive = refs[-1:]
            ref = drawn.choice(alive)
            what = drawn.choice(["spawn", "spawn", "spawn", "hello", "leave", "crash", "kill"])
            answer = None
            if what == "kill":
                ref.kill()
            else:
                try:
                    answer = await ref.ask(what)
                except ActorCrashed:
                    answer = "a crash"
            if isinstance(answer, Ref):
                refs.append(answer)
                answer = "a child"
            outcomes.append(f"{what} {refs.index(ref)} {answer}")
            await trio.testing.wait_all_tasks_blocked()
            if look is not None:
                look(nursery.tree())
    outcomes.extend([str(await ref.join()) for ref in refs])
    return outcomes


def paths(tree: Snapshot) -> dict[str, str]:
    """Each actor of a tree and its owner, but for the root."""
    return {child.path: each.path for each in tree for child in each.children}


@pytest.mark.parametrize("seed", range(10))
async def test_replaying_the_events_rebuilds_the_tree_at_every_step(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    rebuilt: dict[str, str] = {}
    seen: list[Event] = []
    steps = 0

    async with open_events() as listener:

        def replay() -> None:
            while listener._events:  # pyright: ignore[reportPrivateUsage]
                event = listener._events.popleft()  # pyright: ignore[reportPrivateUsage]
                seen.append(event)
                if event.type == "actor.spawned":
                    assert event.actor not in rebuilt
                    rebuilt[event.actor] = event.parent
                elif event.type == "actor.stopped" and event.parent:
                    assert rebuilt.pop(event.actor) == event.parent

        def compare(tree: Snapshot) -> None:
            nonlocal steps
            replay()
            steps += 1
            assert rebuilt == paths(tree)

        await program(seed, compare)
        replay()
    assert steps == 40
    assert rebuilt == {}
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert [event.monotonic for event in seen] == sorted(event.monotonic for event in seen)
    assert all(event.incarnation == 1 for event in seen)
    crashed = [event.actor for event in seen if event.type == "actor.crashed"]
    assert len(crashed) == len(set(crashed))


class Sink:
    """A listener that misbehaves in the way of its name."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.taken = 0

    def fast(self, event: Event) -> None:
        self.taken += 1

    async def slow(self, event: Event) -> None:
        self.taken += 1
        await trio.sleep(1000)

    async def failing(self, event: Event) -> None:
        self.taken += 1
        if self.taken == 3:
            raise ConnectionError("the collector is away")

    async def stuck(self, event: Event) -> None:
        await trio.sleep_forever()

    def blocked(self, event: Event) -> None:
        self.release.wait()


def run_with(sinks: list[Any], *, virtual: bool = True) -> tuple[list[str], float]:
    """The outcome of a program with these listeners, and its length on its own clock."""

    async def main() -> tuple[list[str], float]:
        async with trio.open_nursery():
            return await nested(sinks)

    async def nested(rest: list[Any]) -> tuple[list[str], float]:
        if rest:
            async with listen(rest[0], linger=0.01):
                return await nested(rest[1:])
        with PumpSeam(5).installed():
            outcomes = await program(5)
        return outcomes, trio.current_time()

    with seeded(5):
        clock = trio.testing.MockClock(autojump_threshold=0) if virtual else None
        return trio.run(main, clock=clock)


def test_slow_failing_stuck_and_absent_listeners_change_no_result_and_cost_no_time() -> None:
    alone = run_with([])
    for names in (["slow"], ["failing"], ["stuck"], ["slow", "failing", "stuck"]):
        sink = Sink()
        assert run_with([getattr(sink, name) for name in names]) == alone


@pytest.mark.real
def test_a_listener_that_blocks_a_thread_changes_no_result() -> None:
    sink = Sink()
    try:
        assert run_with([sink.blocked, sink.fast], virtual=False)[0] == run_with([])[0]
    finally:
        sink.release.set()


async def test_a_listener_that_fails_is_reported_once_and_gets_no_further_event(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    sink = Sink()
    async with listen(sink.failing) as listener:
        await program(1)
    assert sink.taken == 3
    assert isinstance(listener.failure, ConnectionError)
    assert len([each for each in caplog.records if "listener failed" in each.getMessage()]) == 1


async def test_a_listener_that_does_not_take_the_rest_in_time_is_left_and_that_is_logged(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    async with listen(Sink().stuck, linger=2):
        emit("test.said", "somebody")
    assert trio.current_time() == 2
    assert "did not take its last events" in caplog.text


async def test_a_listener_gets_what_was_said_before_it_left_also_when_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[Event] = []

    async def take(event: Event) -> None:
        await trio.sleep(0.1)
        seen.append(event)

    with trio.CancelScope() as scope:
        async with listen(take):
            for number in range(5):
                emit("test.said", "somebody", number=number)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert [event.data["number"] for event in seen] == [0, 1, 2, 3, 4]


async def test_a_listener_that_lags_loses_the_oldest_and_they_are_counted() -> None:
    async with open_events(buffer=3) as listener:
        for number in range(10):
            emit("test.said", "somebody", number=number)
        assert listener.missed == 7
        listener.close()
        kept = [event async for event in listener]
    assert [event.data["number"] for event in kept] == [7, 8, 9]
    assert [event.seq for event in kept] == [8, 9, 10]


async def test_listeners_of_one_run_get_the_same_events_and_only_those_of_their_time() -> None:
    async with open_events() as early:
        emit("test.said", "a")
        async with heard() as late:
            emit("test.said", "b")
        emit("test.said", "c")
        early.close()
        seen = [event async for event in early]
    assert [event.actor for event in seen] == ["a", "b", "c"]
    assert late == [seen[1]]


async def test_nothing_is_built_when_nobody_listens(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("an event was built for nobody")

    monkeypatch.setattr(events, "Event", refuse)
    monkeypatch.setattr(events.Stream, "emit", refuse)
    emit("test.said", "somebody")
    await program(2)


async def test_an_event_of_another_layer_has_its_words_and_its_place_in_the_order() -> None:
    async with heard() as seen, open_nursery() as nursery:
        nursery.spawn(Grows, name="one")
        emit("subagent.text", "scout#1", parent="nursery", incarnation=2, text="hello")
    types = [event.type for event in seen]
    assert types.index("actor.spawned") < types.index("subagent.text")
    said = seen[types.index("subagent.text")]
    assert (said.actor, said.parent, said.incarnation) == ("scout#1", "nursery", 2)
    assert said.data == {"text": "hello"}
    assert said.wall > 1_600_000_000


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("leave", ["actor.spawned", "actor.stopped"]),
        ("crash", ["actor.spawned", "actor.crashed", "actor.stopped"]),
        ("kill", ["actor.spawned", "actor.stopped"]),
    ],
)
async def test_each_actor_has_one_first_and_one_last_event(
    how: str, expected: list[str], autojump_clock: trio.testing.MockClock
) -> None:
    async with heard() as seen, open_nursery() as nursery:
        ref = await apart(nursery, Grows)
        ref.kill() if how == "kill" else ref.tell(how)
        reason = await ref.join()
    about = [event for event in seen if event.actor == ref.path]
    assert [event.type for event in about] == expected
    assert about[-1].data["reason"] == str(reason)
