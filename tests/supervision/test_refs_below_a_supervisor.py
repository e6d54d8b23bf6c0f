"""A supervisor that is restarted brings back its children behind the same refs."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import Actor, ActorStopped, Ref, Reply, Shutdown
from standby_supervision import (
    Backoff,
    ChildSpec,
    Done,
    Started,
    Tree,
    child,
    open_supervisor,
    supervisor,
)

SLOW = Backoff(10.0, jitter=0.0)


class Says(Actor):
    """Answers with its life and the message; crashes, waits and leaves when it is told to."""

    def __init__(self, starts: list[str] | None = None) -> None:
        self.starts = starts

    async def on_start(self) -> None:
        if self.starts is not None:
            self.starts.append(self.ref.path.rpartition("/")[2])

    async def receive(self, message: Any) -> Any:
        match message:
            case "crash":
                raise ValueError(message)
            case "wait":
                return await trio.sleep_forever()
            case "leave":
                return self.stop()
            case "join", group:
                return self.join_group(group)
            case _:
                pass
        return self.ref.incarnation, message


def below(*more: ChildSpec, **options: Any) -> ChildSpec:
    return supervisor(
        child(Says, id="a"), child(Says, id="b", name="bee"), *more, id="sub", **options
    )


async def end(tree: Tree, how: str) -> None:
    """End the supervisor "sub" so that it is restarted."""
    sub = tree["sub"]
    if how == "kill":
        sub.kill()
    elif how == "gives up":
        tree.branch("sub")["a"].tell("crash")
    elif how == "stop":
        sub.stop()
    else:
        tree["before"].tell("crash")  # and the strategy takes it along
    await trio.testing.wait_all_tasks_blocked()


HOW = ["kill", "gives up", "stop", "taken along"]


def tree_with(sub: ChildSpec, **options: Any) -> Tree:
    options = {"strategy": "rest_for_one", "intensity": 20, **options}
    return open_supervisor(child(Says, id="before"), sub, **options)


@pytest.mark.parametrize("how", HOW)
async def test_the_refs_of_its_children_are_right_in_its_next_life(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with tree_with(below(intensity=0)) as tree:
        a, b = tree.branch("sub")["a"], tree.branch("sub")["b"]
        await end(tree, how)
        assert (tree["sub"].incarnation, a.incarnation, b.incarnation) == (2, 2, 2)
        assert (tree.branch("sub")["a"], tree.branch("sub")["b"]) == (a, b)
        assert await a.ask("hello") == (2, "hello")
        assert await b.ask("hello") == (2, "hello")
        assert [each.name for each in tree.snapshot()] == ["top", "before", "sub", "a", "bee"]


@pytest.mark.parametrize("how", HOW)
async def test_mail_of_its_children_waits_for_its_next_life(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    # Where nothing crashes but the supervisor itself, the back-off is the one above it.
    async with tree_with(below(intensity=0), backoff=SLOW) as tree:
        b = tree.branch("sub")["b"]
        b.tell("wait")
        await trio.testing.wait_all_tasks_blocked()
        waiting = b.ask("before")
        b.tell("told")
        await end(tree, how)
        if how in ("kill", "gives up"):
            assert not waiting.done
            assert b.is_alive
        later = b.ask("between")
        assert await later == (2, "between")
        assert await waiting == (2, "before")
        assert trio.current_time() >= 10


@pytest.mark.parametrize("how", HOW)
async def test_names_and_groups_of_its_children_stay(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with tree_with(below(intensity=0)) as tree:
        a, b = tree.branch("sub")["a"], tree.branch("sub")["b"]
        names = tree._block.names  # pyright: ignore[reportPrivateUsage] # that of the tree
        await b.ask(("join", "workers"))
        await end(tree, how)
        assert names.whereis("bee") == b
        assert names.members("workers") == (b,)
        await tree.terminate_child("sub")
        assert names.whereis("bee") is None
        assert names.members("workers") == ()
        assert not a.is_alive


async def test_when_it_does_not_come_back_nothing_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with tree_with(below(), backoff=SLOW) as tree:
        sub = tree.branch("sub")
        b = sub["b"]
        b.tell("wait")
        await trio.testing.wait_all_tasks_blocked()
        waiting = b.ask("before")
        sub.ref.kill()
        await trio.testing.wait_all_tasks_blocked()
        assert not waiting.done
        assert await tree.terminate_child("sub") == Done()  # while its restart is due
        with pytest.raises(ActorStopped):
            await waiting
        assert not b.is_alive
        assert isinstance(await tree.restart_child("sub"), Started)
        assert await b.ask("back") == (2, "back")


async def test_the_end_of_the_tree_ends_what_waits_between_two_lives(
    autojump_clock: trio.testing.MockClock,
) -> None:
    waits: list[Reply[Any]] = []
    nested = supervisor(below(), id="outer")
    async with open_supervisor(nested, backoff=SLOW) as tree:
        b = tree.branch("outer").branch("sub")["b"]
        tree["outer"].kill()
        await trio.testing.wait_all_tasks_blocked()
        waits.append(b.ask("never"))
        assert not waits[0].done
    with pytest.raises(ActorStopped):
        await waits[0]


@pytest.mark.parametrize("restart", ["temporary", "transient"])
async def test_a_supervisor_that_is_not_restarted_takes_its_children_along(
    restart: Any, autojump_clock: trio.testing.MockClock
) -> None:
    async with tree_with(below(restart=restart, intensity=0)) as tree:
        b = tree.branch("sub")["b"]
        waiting = b.ask("wait")
        await end(tree, "gives up")
        with pytest.raises(ActorStopped):
            await waiting
        assert not b.is_alive


async def test_a_whole_subtree_comes_back_however_deep(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spec = child(Says, id="leaf")
    for depth in range(300):
        spec = supervisor(spec, id=str(depth))
    async with open_supervisor(spec, backoff=SLOW) as tree:
        branch = tree.branch("299")
        top = branch.ref
        for depth in reversed(range(299)):
            branch = branch.branch(str(depth))
        leaf = branch["leaf"]
        top.kill()
        await trio.testing.wait_all_tasks_blocked()
        assert await leaf.ask("hello") == (2, "hello")
        assert top.incarnation == 2


async def test_what_was_added_at_run_time_and_what_is_temporary_does_not_come_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    temporary = child(Says, id="t", restart="temporary")
    async with tree_with(below(temporary)) as tree:
        sub = tree.branch("sub")
        added = await sub.start_child(child(Says, id="added", name="new"))
        assert isinstance(added, Started)
        t = sub["t"]
        sub.ref.kill()
        await trio.testing.wait_all_tasks_blocked()
        assert not added.ref.is_alive
        assert not t.is_alive
        assert [each.id for each in await sub.which_children()] == ["t", "b", "a"]
        assert sub["t"] != t
        names = tree._block.names  # pyright: ignore[reportPrivateUsage] # that of the tree
        assert names.whereis("new") is None


async def test_children_of_a_template_are_lost_with_their_supervisor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spec = supervisor(child(Says), id="sub", strategy="dynamic")
    async with tree_with(spec) as tree:
        one = await tree.branch("sub").get_or_start("one")
        tree["sub"].kill()
        await trio.testing.wait_all_tasks_blocked()
        assert not one.is_alive
        assert (await tree.branch("sub").count_children()).active == 0
        assert await tree.branch("sub").get_or_start("one") != one


async def test_what_had_ended_or_was_terminated_lives_again_behind_its_ref(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spec = supervisor(child(Says, id="a", restart="transient"), child(Says, id="b"), id="sub")
    async with tree_with(spec) as tree:
        sub = tree.branch("sub")
        a, b = sub["a"], sub["b"]
        await a.ask("leave")
        await sub.terminate_child("b")
        assert (a.is_alive, b.is_alive) == (False, False)
        sub.ref.kill()
        await trio.testing.wait_all_tasks_blocked()
        assert await a.ask("hello") == (2, "hello")
        assert await b.ask("hello") == (2, "hello")


async def test_a_next_life_that_cannot_start_is_tried_again_with_the_same_children(
    autojump_clock: trio.testing.MockClock,
) -> None:
    is_down = False

    class Fails(Says):
        async def on_start(self) -> None:
            if is_down:
                raise ConnectionError

    spec = supervisor(child(Says, id="a"), child(Fails, id="f"), child(Says, id="z"), id="sub")
    async with open_supervisor(spec, intensity=None, backoff=SLOW) as tree:
        refs = [tree.branch("sub")[each] for each in "afz"]
        is_down = True
        tree["sub"].kill()
        await trio.sleep(25)
        waiting = refs[2].ask("patience")
        is_down = False
        assert (await waiting)[1] == "patience"
        assert [tree.branch("sub")[each] for each in "afz"] == refs


async def test_an_update_moves_the_names_of_what_comes_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with tree_with(below()) as tree:
        b = tree.branch("sub")["b"]
        new = supervisor(child(Says, id="b", name="wasp"), id="sub")
        spec = tree.spec
        updated = type(spec)(children=(spec.children[0], new), strategy="rest_for_one")
        assert await tree.update_specs(updated) == Done()
        a = tree.branch("sub")["a"]
        tree["sub"].kill()
        await trio.testing.wait_all_tasks_blocked()
        names = tree._block.names  # pyright: ignore[reportPrivateUsage] # that of the tree
        assert (names.whereis("wasp"), names.whereis("bee")) == (b, None)
        assert not a.is_alive  # it is not in the specification any more
        assert await b.ask("hello") == (2, "hello")


async def test_an_ended_child_that_is_gone_for_good_is_let_go(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with tree_with(below()) as tree:
        sub = tree.branch("sub")
        added = await sub.start_child(child(Says, id="added"))
        assert isinstance(added, Started)
        ended = weakref.ref(added.ref)
        del added
        sub.ref.kill()
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        assert ended() is None


async def test_a_stop_ends_its_children_in_reverse_order_and_a_start_keeps_theirs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    starts: list[str] = []
    spec = supervisor(*(child(Says, starts, id=each, shutdown=1.0) for each in "cab"), id="sub")
    async with tree_with(spec) as tree:
        tree["sub"].kill()
        await trio.testing.wait_all_tasks_blocked()
        assert starts == ["c", "a", "b"] * 2
        ref: Ref[Any] = tree["sub"]
        assert [each.name for each in ref.snapshot().children] == ["c", "a", "b"]
        assert await tree.terminate_child("sub") == Done()
        assert await ref.join() == Shutdown()
