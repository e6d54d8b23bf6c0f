"""A crash of which only the instance dies is dealt with on the spot: what follows is the same.

It is dealt with in order where somebody listens to events; so each test here runs
both ways, and expects the same.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import Actor, ActorCrashed, open_events
from standby_supervision import GaveUp, Ignore, Refused, child, open_supervisor

settled = trio.testing.wait_all_tasks_blocked


@pytest.fixture(params=["on the spot", "in order"], autouse=True)
async def way(request: pytest.FixtureRequest) -> AsyncGenerator[str]:
    if request.param == "on the spot":
        yield request.param
        return
    async with open_events():
        yield request.param


class Plain(Actor):
    """Crashes, says who and in which life it is, or tells itself something first."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.number = type(self).made
        self.seen: list[Any] = []

    def do(self, message: Any) -> Any:
        if message == "die":
            raise ValueError(message)
        if message == "remind and die":
            self.ref.tell("reminder")
            raise ValueError(message)
        self.seen.append(message)
        return self.number, self.ref.incarnation, list(self.seen)

    def receive(self, message: Any) -> Any:
        return self.do(message)


class Async(Plain):
    """The same, with an ``async def`` handler."""

    async def receive(self, message: Any) -> Any:
        return self.do(message)


class Waiting(Plain):
    """The same, with a handler that waits in trio first, and so has a task."""

    async def receive(self, message: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return self.do(message)


KINDS = pytest.mark.parametrize("kind", [Plain, Async, Waiting])


@pytest.fixture(autouse=True)
def nobody_made() -> None:
    for kind in (Plain, Async, Waiting):
        kind.made = 0


@KINDS
async def test_the_next_life_is_another_instance_behind_the_same_ref(kind: type[Plain]) -> None:
    async with open_supervisor(child(kind, id="w"), intensity=3) as tree:
        ref = tree["w"]
        for life in (1, 2, 3):
            assert await ref.ask("hello") == (life, life, ["hello"])
            with pytest.raises(ActorCrashed) as crash:
                await ref.ask("die")
            assert isinstance(crash.value.__cause__, ValueError)
        assert await ref.ask("hello") == (4, 4, ["hello"])
        (info,) = await tree.which_children()
        assert (info.ref, info.state, info.restarts) == (ref, "running", 3)
        assert info.last_reason == "crashed (ValueError: die)"


@KINDS
async def test_what_waits_behind_a_crash_is_handled_in_its_order(kind: type[Plain]) -> None:
    async with open_supervisor(child(kind, id="w"), intensity=3) as tree:
        ref = tree["w"]
        for message in ("a", "die", "b", "c", "die", "d"):
            ref.tell(message)
        assert await ref.ask("e") == (3, 3, ["d", "e"])


@KINDS
async def test_the_instance_that_crashed_is_let_go(kind: type[Plain]) -> None:
    async with open_supervisor(child(kind, id="w"), intensity=20) as tree:
        cell: Any = tree["w"]
        first = weakref.ref(cell.actor)
        # The last errors are remembered, with their frames, and those hold the instance.
        for _ in range(11):
            cell.tell("die")
        await settled()
        assert cell.incarnation == 12
        assert first() is None


@KINDS
async def test_one_restart_more_than_allowed_ends_the_supervisor(
    kind: type[Plain], autojump_clock: MockClock
) -> None:
    with pytest.raises(GaveUp) as gave_up:  # noqa: PT012 - leaving the tree is what raises
        async with open_supervisor(child(kind, id="w"), intensity=2, period=10) as tree:
            for _ in range(2):
                tree["w"].tell("die")
                await settled()
            await trio.sleep(10)  # just inside: the window counts its edge
            tree["w"].tell("die")
            await trio.sleep_forever()
    assert trio.current_time() == 10
    assert len(gave_up.value.exceptions) == 3


async def test_restarts_that_are_long_ago_do_not_count(autojump_clock: MockClock) -> None:
    async with open_supervisor(child(Plain, id="w"), intensity=2, period=10) as tree:
        for _ in range(6):
            tree["w"].tell("die")
            await trio.sleep(5.1)
        assert tree["w"].incarnation == 7


@KINDS
async def test_a_constructor_that_fails_is_tried_again_and_counts(kind: type[Plain]) -> None:
    tries: list[int] = []

    class Reluctant(kind):  # type: ignore[valid-type, misc]  # either of them
        def __init__(self) -> None:
            super().__init__()
            tries.append(1)
            if len(tries) in (2, 3):
                raise RuntimeError("not yet")

    async with open_supervisor(child(Reluctant, id="w"), intensity=3) as tree:
        tree["w"].tell("die")
        assert await tree["w"].ask("hello") == (4, 2, ["hello"])
        assert len(tries) == 4
        (info,) = await tree.which_children()
        assert info.restarts == 1
        snapshot = tree.snapshot().supervisor
        assert snapshot is not None
        assert snapshot.restarts == 3  # counted: two of them were attempts


async def test_a_constructor_that_wants_no_restart_has_none() -> None:
    class Once(Plain):
        def __init__(self) -> None:
            super().__init__()
            if type(self).made > 1:
                raise Ignore

    async with open_supervisor(child(Once, id="w")) as tree:
        tree["w"].tell("die")
        await settled()
        assert [each.state for each in await tree.which_children()] == ["undefined"]


@KINDS
async def test_a_constructor_may_stop_who_owns_it(kind: type[Plain]) -> None:
    stopped: list[Any] = []

    class Rebel(kind):  # type: ignore[valid-type, misc]  # either of them
        def __init__(self) -> None:
            super().__init__()
            if type(self).made > 1:
                stopped.append(tree.ref.stop())

    async with open_supervisor(child(Rebel, id="w")) as tree:
        ref = tree["w"]
        ref.tell("die")
        await trio.sleep_forever()
    assert len(stopped) == 1
    assert not ref.is_alive


@KINDS
async def test_what_it_told_itself_dies_with_it_and_what_others_told_it_does_not(
    kind: type[Plain],
) -> None:
    async with open_supervisor(child(kind, id="w")) as tree:
        ref = tree["w"]
        ref.tell("remind and die")
        ref.tell("theirs")
        assert await ref.ask("now") == (2, 2, ["theirs", "now"])


@KINDS
async def test_what_it_told_itself_while_it_answered_at_once_dies_with_it_too(
    kind: type[Plain],
) -> None:
    async with open_supervisor(child(kind, id="w")) as tree:
        with pytest.raises(ActorCrashed):
            await tree["w"].ask("remind and die")
        assert await tree["w"].ask("now") == (2, 2, ["now"])


async def test_what_another_told_it_whom_it_asked_is_not_its_own() -> None:
    class Tells(Actor):
        def receive(self, message: Any) -> None:
            message.tell("theirs")

    class Asks(Plain):
        def receive(self, message: Any) -> Any:
            if message == "ask and die":
                other.ask(self.ref)
                raise ValueError(message)
            return self.do(message)

    async with open_supervisor(child(Tells, id="other"), child(Asks, id="w")) as tree:
        other = tree["other"]
        tree["w"].tell("ask and die")
        await settled()
        assert await tree["w"].ask("now") == (2, 2, ["theirs", "now"])


async def test_a_supervisor_hears_of_new_rules_between_two_crashes() -> None:
    async with open_supervisor(child(Plain, id="w"), intensity=1) as tree:
        tree["w"].tell("die")
        await settled()
        spec = tree.spec
        assert not isinstance(await tree.update_specs(spec), Refused)
        assert await tree["w"].ask("hello") == (2, 2, ["hello"])
