"""Case C28 and its kind: a name is one actor's while it lives, and nobody's from then on.

Whatever cuts an actor short, its name resolves to nothing once it has ended, and
can be taken at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby.testing import PumpSeam, sweep
from standby_actors import Actor, ActorCrashed, ExitReason, NameTaken, Ref, open_nursery
from standby_actors.names import Names
from standby_supervision import Backoff, Started, child, open_supervisor, supervisor

NAME = "n"
GROUP = "g"


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Report nothing of the many crashes here: to render their traces takes most of the time."""
    caplog.set_level("CRITICAL", logger="standby")


class Named(Actor):
    """Takes a while over everything, and is a member of a group."""

    async def on_start(self) -> None:
        self.join_group(GROUP)
        await trio.sleep(0.1)

    async def receive(self, message: Any) -> Any:
        await trio.sleep(0.1)
        if message == "crash":
            raise ConnectionResetError
        if message == "leave":
            self.stop()
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep(0.1)


class NamedOnItsTask(Named):
    """The same on a task of its own."""

    dedicated = True


class Owner(Named):
    """Has a named child, and no name of its own."""

    async def on_start(self) -> None:
        self.below: Ref[Any] = await self.start(Named, name=NAME)

    async def receive(self, message: Any) -> Any:
        return await self.below.ask(message)


async def in_a_block(names: Names, kind: Any, message: str) -> None:
    async with open_nursery(names=names) as nursery:
        ref: Ref[Any] = await nursery.start(kind, name=None if kind is Owner else NAME)
        assert names.whereis(NAME) is not None
        await ref.ask("turn")
        if message != "crash":  # it would be the block's
            await ref.ask(message)
        await ref.stop()


async def below_a_supervisor(names: Names, kind: Any, message: str) -> None:
    spec = child(kind, id="c", name=None if kind is Owner else NAME)
    async with open_supervisor(spec, names=names, intensity=2) as tree:
        await tree["c"].ask("turn")
        try:
            await tree["c"].ask(message)
        except ActorCrashed:
            await tree["c"].ask("back")
        await tree.terminate_child("c")
        await tree.restart_child("c")


async def two_levels_down(names: Names, kind: Any, message: str) -> None:
    spec = child(kind, id="c", name=None if kind is Owner else NAME, restart="transient")
    outer = supervisor(supervisor(spec, id="inner", backoff=Backoff(0.1, jitter=0.0)), id="outer")
    async with open_supervisor(outer, names=names) as tree:
        inner = tree.branch("outer").branch("inner")
        try:
            await inner["c"].ask(message)
        except ActorCrashed:
            await inner["c"].ask("back")
        await tree["outer"].stop()


async def as_one_of_many(names: Names, kind: Any, message: str) -> None:
    spec = child(kind, id="t", name=None if kind is Owner else NAME, restart="temporary")
    async with open_supervisor(spec, names=names, strategy="dynamic") as pool:
        for _ in range(2):
            ref = await pool.get_or_start("c")
            try:
                await ref.ask(message)
            except ActorCrashed:
                await ref.join()  # it cleans up meanwhile
            await pool.terminate_child(ref)


LIVES = [in_a_block, below_a_supervisor, two_levels_down, as_one_of_many]
SHORT = {
    (in_a_block, Named, "leave"),
    (below_a_supervisor, NamedOnItsTask, "crash"),
}


@pytest.mark.parametrize(
    ("life", "kind", "message"),
    [
        pytest.param(*each, marks=[] if each in SHORT else pytest.mark.deep)
        for each in itertools.product(LIVES, [Named, NamedOnItsTask, Owner], ["leave", "crash"])
    ],
)
def test_cut_before_any_step_of_start_turn_and_close_the_name_is_nobodys_and_can_be_taken(
    life: Any, kind: Any, message: str
) -> None:
    async def scenario(count: Callable[[int], None]) -> None:
        names = Names()
        try:
            with PumpSeam(before_turn=count).installed():
                await life(names, kind, message)
        finally:
            assert names.whereis(NAME) is None
            assert names.names() == ()
            assert names.members(GROUP) == ()
            with trio.CancelScope(shield=True):
                async with open_nursery(names=names) as nursery:
                    taken: Ref[Any] = await nursery.start(Named, name=NAME)
                    assert names.whereis(NAME) is taken

    assert sweep(scenario) > 20


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
@pytest.mark.parametrize("kind", [Named, NamedOnItsTask])
async def test_whoever_hears_of_an_end_finds_the_name_free(
    kind: type[Named], end: str, autojump_clock: MockClock
) -> None:
    heard: list[Ref[Any]] = []

    class Successor(Actor):
        """Watches an actor, and takes its name on hearing that it has ended."""

        def receive(self, ref: Ref[Any]) -> None:
            self.monitor(ref)

        def on_down(self, down: Any) -> None:
            assert self.whereis(NAME) is None
            heard.append(self.spawn(Named, name=NAME))

    spec = child(kind, id="c", name=NAME, restart="temporary")
    async with open_supervisor(spec, child(Successor)) as tree:
        ref = tree["c"]
        await tree["Successor"].ask(ref)
        match end:
            case "stop":
                await ref.stop()
            case "kill":
                ref.kill()
            case _:
                ref.tell(end)
        await trio.sleep(1)
        assert len(heard) == 1
        assert await heard[0].ask("here") == "here"


# ---- (b) siblings


class Sibling(Actor):
    """Looks itself up under its name, and sends an ask that way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.served: list[Any] = []

    def on_start(self) -> None:
        self.join_group(GROUP)

    async def receive(self, message: Any) -> Any:
        match message:
            case "finish":
                return self.stop()
            case "crash":
                raise ConnectionResetError
            case "look yourself up", other:
                assert self.whereis(self.name) is self.ref
                found = self.whereis(other)
                assert found is not None
                return await found.ask(("serve", self.name))
            case "serve", asker:
                self.served.append(asker)
                return f"{self.name} served {asker}"
            case _:
                raise AssertionError(message)


@pytest.mark.parametrize("first_end", ["finish", "crash", "be killed", "be stopped"])
@pytest.mark.parametrize("strategy", ["one_for_one", "dynamic", "plain actor"])
async def test_of_three_siblings_the_two_that_are_left_find_themselves_and_are_served(
    strategy: Any, first_end: str, autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        if strategy == "plain actor":
            owner: Ref[Any] = nursery.spawn(Family)
            refs: list[Ref[Any]] = await owner.ask(["a", "b", "c"])
            await _ends_and_others_serve(nursery.names, refs, first_end)
            return
        specs = [child(Sibling, name, name=name, restart="temporary") for name in "abc"]
        async with open_supervisor(*specs, names=nursery.names) as tree:
            refs = [tree[name] for name in "abc"]
            await _ends_and_others_serve(nursery.names, refs, first_end)
            # The key of the dead one blocks nobody.
            assert isinstance(await tree.start_child(specs[0]), Started)
            assert await tree["b"].ask(("look yourself up", "a")) == "a served b"


class Family(Actor):
    """Spawns siblings, all at once, and outlives them."""

    def receive(self, names: list[str]) -> list[Ref[Any]]:
        return [self.spawn(Sibling, name, name=name, link=False) for name in names]


async def _ends_and_others_serve(names: Names, refs: list[Ref[Any]], end: str) -> None:
    first, *others = refs
    await trio.testing.wait_all_tasks_blocked()
    assert names.members(GROUP) == tuple(refs)
    match end:
        case "be killed":
            first.kill()
        case "be stopped":
            await first.stop()
        case _:
            first.tell(end)
    await trio.testing.wait_all_tasks_blocked()
    assert names.whereis("a") is None
    assert names.members(GROUP) == tuple(others)
    assert await others[0].ask(("look yourself up", "c")) == "c served b"
    assert await others[1].ask(("look yourself up", "b")) == "b served c"


async def test_of_many_under_one_key_each_has_a_place_of_its_own(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(child(Sibling, id="t"), strategy="dynamic") as pool:
        answers = [await pool.start(name) for name in "abc"]  # ids are counted
        refs = [each.ref for each in answers if isinstance(each, Started)]
        assert len({ref.path for ref in refs}) == 3
        await pool.terminate_child(refs[0])
        assert [each.ref for each in await pool.which_children()] == [refs[2], refs[1]]
        # The same key again is the same child, until that one has ended.
        one = await pool.get_or_start("k", "k")
        assert await pool.get_or_start("k", "k") is one
        await pool.terminate_child("k")
        other = await pool.get_or_start("k", "k")
        assert other is not one
        assert other.is_alive


# ---- (c) strangers


async def test_nobody_but_its_owner_can_take_a_name_away(autojump_clock: MockClock) -> None:
    async with open_nursery() as nursery:
        names = nursery.names
        owner: Ref[Any] = nursery.spawn(Sibling, NAME, name=NAME)
        stranger: Any = nursery.spawn(Sibling, "stranger", name="stranger")
        await trio.testing.wait_all_tasks_blocked()
        for attempt in range(3):
            names.forget(stranger, NAME, (GROUP,))
            with pytest.raises(NameTaken):
                names.register(NAME, stranger)
            with pytest.raises(NameTaken):
                nursery.spawn(Sibling, NAME, name=NAME)
            assert names.whereis(NAME) is owner, attempt
        # It has left the group by that, and took nobody along.
        assert names.members(GROUP) == (owner,)
        await stranger.stop()
        assert names.whereis(NAME) is owner
        assert names.names() == (NAME,)


async def test_an_ended_actor_does_not_take_its_successors_name_with_it(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        old: Ref[Any] = await nursery.start(Named, name=NAME)
        await old.stop()
        new: Ref[Any] = await nursery.start(Named, name=NAME)
        old.kill()
        await old.stop()
        assert nursery.whereis(NAME) is new
        assert await new.ask("here") == "here"


async def test_a_name_follows_its_actor_over_restarts_and_is_free_between_none_of_them(
    autojump_clock: MockClock,
) -> None:
    spec = child(Named, id="c", name=NAME)
    backoff = Backoff(1.0, cap=1.0, jitter=0.0)
    async with (
        open_nursery() as nursery,
        open_supervisor(spec, names=nursery.names, intensity=None, backoff=backoff) as tree,
    ):
        ref = tree["c"]
        for life in range(2, 6):
            with pytest.raises(ActorCrashed):
                await ref.ask("crash")
            await trio.sleep(0.5)  # between two lives
            assert nursery.whereis(NAME) is ref
            with pytest.raises(NameTaken):
                nursery.spawn(Named, name=NAME)
            assert await ref.ask("back") == "back"
            assert ref.incarnation == life
            assert nursery.names.members(GROUP) == (ref,)
