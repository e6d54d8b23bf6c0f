"""How a life ended is told once, and as it was; each of these was told wrongly before."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import Actor, ActorError, ExitReason, open_nursery
from standby_supervision import Ignore, StartError, child, open_supervisor, supervisor

settled = trio.testing.wait_all_tasks_blocked


class Worker(Actor):
    """Ends as it is told; takes as long to start, and to stop, as it was made to."""

    def __init__(self, diary: list[str], start: float = 0, stop: float = 0) -> None:
        self.diary = diary
        self.start_seconds = start
        self.stop_seconds = stop

    async def on_start(self) -> None:
        await trio.sleep(self.start_seconds)

    async def receive(self, message: Any) -> Any:
        if message == "leave":
            self.stop()
        if message == "die":
            raise ValueError(message)
        return self.ref.incarnation

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep(self.stop_seconds)
        self.diary.append(str(reason))


async def test_a_brutal_kill_child_that_leaves_by_itself_has_ended_normally(
    autojump_clock: MockClock,
) -> None:
    diary: list[str] = []
    spec = child(Worker, diary, id="w", restart="transient", shutdown="brutal_kill")
    async with open_supervisor(spec) as tree:
        await tree["w"].ask("leave")
        await settled()
        assert [(each.state, each.restarts) for each in await tree.which_children()] == [
            ("undefined", 0)
        ]
    assert diary == ["normal"]


async def test_a_brutal_kill_child_that_crashes_has_its_stop_hook(
    autojump_clock: MockClock,
) -> None:
    diary: list[str] = []
    spec = child(Worker, diary, id="w", restart="temporary", shutdown="brutal_kill")
    async with open_supervisor(spec) as tree:
        tree["w"].tell("die")
        await settled()
    assert diary == ["crashed (ValueError: die)"]


async def test_a_child_that_is_killed_while_it_starts_is_a_start_that_failed_and_no_more(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(strategy="rest_for_one", intensity=0) as tree:
        answers: list[Any] = []

        async def start() -> None:
            answers.append(await tree.start_child(child(Worker, [], 1.0, id="w")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            await trio.sleep(0.5)
            tree["w"].kill()
        assert [type(each) for each in answers] == [StartError]
        assert await tree.which_children() == ()


async def test_a_restart_that_is_killed_while_it_starts_is_counted_once(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(child(Worker, [], 1.0, id="w"), intensity=2) as tree:
        tree["w"].tell("die")
        await trio.sleep(0.5)
        tree["w"].kill()
        await trio.sleep(2)
        assert [each.restarts for each in await tree.which_children()] == [1]
        assert await tree["w"].ask("life") == 3


async def test_what_the_last_life_of_a_supervisor_heard_is_nothing_to_its_next(
    autojump_clock: MockClock,
) -> None:
    slow = child(Worker, [], 0, 1.0, id="slow")
    below = supervisor(slow, child(Worker, [], id="w"), id="below", intensity=1)
    async with open_supervisor(below) as tree:
        branch = tree.branch("below")
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                nursery.start_soon(branch.terminate_child, "slow")
                await settled()
                branch["w"].tell("die")  # its end waits behind the terminate
                await settled()
                branch.ref.kill()
                scope.cancel()
            nursery.cancel_scope.cancel()
        await settled()
        now = tree.branch("below")
        assert {each.id: each.restarts for each in await now.which_children()} == {
            "slow": 0,
            "w": 0,
        }


async def test_a_brutal_kill_child_on_its_way_out_is_killed_when_it_is_stopped(
    autojump_clock: MockClock,
) -> None:
    diary: list[str] = []
    spec = child(Worker, diary, 0, 60.0, id="w", restart="transient", shutdown="brutal_kill")
    async with open_supervisor(spec) as tree:
        tree["w"].tell("leave")
        await trio.sleep(1)
        await tree.terminate_child("w")
    assert trio.current_time() == 1
    assert diary == []


class Bare(Actor):
    """Crashes, or says in which life it was asked what."""

    async def receive(self, message: Any) -> Any:
        if message == "die":
            raise ValueError(message)
        return self.ref.incarnation, message


@pytest.mark.parametrize("kind", [Bare, Worker])
@pytest.mark.parametrize("number", [1, 2, 5])
async def test_what_waits_behind_the_message_that_crashes_is_for_the_next_life(
    kind: Any, number: int, autojump_clock: MockClock
) -> None:
    args: tuple[Any, ...] = ([],) if kind is Worker else ()
    async with open_supervisor(child(kind, *args, id="w")) as tree:
        tree["w"].tell("die")
        asks = [tree["w"].ask(each) for each in range(number)]
        await settled()
        assert [each.result() for each in asks] == [
            (2, each) if kind is Bare else 2 for each in range(number)
        ]


async def test_a_child_whose_constructor_ignores_its_restart_is_no_start_error(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Any] = []

    class Once(Bare):
        def __init__(self) -> None:
            made.append(self)
            if len(made) > 1:
                raise Ignore

    async with open_supervisor(child(Once, id="w")) as tree:
        tree["w"].tell("die")
        await settled()
        assert [each.state for each in await tree.which_children()] == ["undefined"]
    assert "start_error" not in caplog.text


async def test_a_supervisor_that_is_killed_while_it_makes_a_child_ends(
    autojump_clock: MockClock,
) -> None:
    made: list[Any] = []

    class Ends(Bare):
        """Kills who is about to own it, in its constructor: its life would have no owner."""

        def __init__(self) -> None:
            made.append(self)
            if len(made) == 2:
                tree["below"].kill()

        async def on_start(self) -> None:
            await trio.lowlevel.checkpoint()

    below = supervisor(child(Ends, id="w"), child(Bare, id="v"), id="below", strategy="one_for_all")
    async with open_supervisor(below) as tree:
        tree.branch("below")["w"].tell("die")
        await trio.sleep(1)
        assert (await tree.branch("below")["w"].ask("x"))[1] == "x"
        assert tree["below"].incarnation == 2


async def test_an_actor_that_is_killed_while_it_makes_a_child_ends(
    autojump_clock: MockClock,
) -> None:
    class Kills(Bare):
        def __init__(self, owner: Any) -> None:
            owner.kill()

    class Owner(Actor):
        async def receive(self, message: Any) -> Any:
            return self.spawn(Kills, self.ref)

    async with open_nursery() as nursery:
        owner = nursery.spawn(Owner)
        with pytest.raises(ActorError):
            await owner.ask("spawn")
        await settled()
        assert not owner.is_alive


async def test_the_stop_of_a_supervisor_that_gives_up_is_bounded_by_its_shutdown(
    autojump_clock: MockClock,
) -> None:
    below = supervisor(
        child(Worker, [], 0, 60.0, id="slow", shutdown=100),
        child(Bare, id="w"),
        id="below",
        intensity=0,
        shutdown=2,
        restart="temporary",
    )
    async with open_supervisor(below) as tree:
        branch = tree.branch("below")
        branch["w"].tell("die")
        await branch.ref.join()
        assert trio.current_time() == 2


async def test_a_stop_that_cuts_a_restart_by_hand_stops_in_reverse_order_all_the_same(
    autojump_clock: MockClock,
) -> None:
    diaries: dict[str, list[str]] = {}
    order: list[str] = []

    class Notes(Worker):
        """Notes that it ends."""

        def __init__(self, name: str) -> None:
            super().__init__(diaries.setdefault(name, []), 0.5)
            self.name = name

        def on_stop(self, reason: ExitReason) -> None:  # type: ignore[override]  # at once
            order.append(self.name)

    async with open_supervisor(child(Notes, "a", id="a"), child(Notes, "b", id="b")) as tree:
        await tree.terminate_child("a")
        order.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tree.restart_child, "a")
            await trio.sleep(0.1)
            tree.ref.stop()
            nursery.cancel_scope.cancel()
        await tree.ref.join()
    assert order == ["b", "a"]
