"""OTP's supervisor suite, cases 55, 56 and 79 to 82: trees, and restarts that do not succeed.

The name of each test contains the name of the original case; its numbers are the
original ones.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio

from standby_actors import ActorStopped, Ref, Shutdown, open_nursery
from standby_actors.cell import Cell
from standby_supervision import (
    AlreadyPresent,
    Branch,
    Done,
    NotFound,
    Restarting,
    Started,
    open_supervisor,
    supervisor,
)
from tests.conformance.children import (
    D,
    N,
    World,
    counts,
    crash,
    end,
    fails_later,
    life,
    lives,
    own,
    quiet,
    supervised,
    w,
    which,
)


async def test_child_unlink_does_not_hang_the_supervisor(autojump_clock: object) -> None:
    world = World()
    async with supervised(w(world, "c1", N)) as sup:
        assert await sup.terminate_child("c1") == Done()
        await trio.sleep(5)
        assert cast("Cell[Any]", sup.ref).mailbox is None
        assert await which(sup) == [("c1", "undefined")]


async def test_tree_restarts_all_when_one_branch_gives_up(autojump_clock: object) -> None:
    world = World(scripts={"c3": fails_later})
    options: dict[str, Any] = {"intensity": 4, "period": 3600}
    async with supervised(
        supervisor(w(world, "c1"), w(world, "c2"), id="s1", **options),
        supervisor(id="s2", **options),
        supervisor(id="s3", restart="transient", **options),
        strategy="one_for_all",
        **options,
    ) as top:
        assert await counts(top) == [3, 3, 3, 0]
        assert await top.terminate_child("s3") == Done()
        assert await counts(top) == [3, 2, 3, 0]
        s1, s2 = top.branch("s1"), top.branch("s2")
        assert await counts(s1) == [2, 2, 0, 2]
        assert await counts(s2) == [0, 0, 0, 0]
        c3 = await s2.start_child(w(world, "c3"))
        assert isinstance(c3, Started)
        c4 = await s2.start_child(w(world, "c4"))
        assert isinstance(c4, Started)
        assert await counts(s2) == [2, 2, 0, 2]

        before = await lives(s2)
        await crash(c4.ref)
        after = await lives(s2)
        assert after["c4"] != before["c4"]
        assert after["c3"] == before["c3"]

        supervisors, workers = await lives(top), await lives(s1)
        await crash(c3.ref)
        await trio.sleep(1)
        assert await counts(top) == [3, 3, 3, 0]  # s3 too
        fresh = await lives(top)
        assert all(fresh[each] != supervisors[each] for each in ("s1", "s2"))
        s1, s2, s3 = top.branch("s1"), top.branch("s2"), top.branch("s3")
        assert await which(s1) == [("c2", "running"), ("c1", "running")]
        assert (await lives(s1)).keys() == workers.keys()
        assert set((await lives(s1)).values()).isdisjoint(workers.values())
        assert await which(s2) == await which(s3) == []


async def test_simple_global_supervisor_names_find_what_was_started_again(
    autojump_clock: object,
) -> None:
    world = World()
    server = w(world, "server", name="server", shutdown=2.0)
    async with open_nursery() as nursery:
        names = nursery.names
        async with open_supervisor(
            supervisor(
                supervisor(server, id="sup2", name="sup2", shutdown=2.0),
                id="top",
                restart="temporary",
                strategy="one_for_all",
                intensity=3,
                period=60,
            ),
            names=names,
        ) as tree:

            async def after(what: Any) -> tuple[tuple[Ref[Any], int], tuple[Ref[Any], int]]:
                await what
                await trio.sleep(0.2)
                sup2, found = names.whereis("sup2"), names.whereis("server")
                assert sup2 is not None
                assert found is not None
                assert await found.ask("there?") == "there?"
                return life(sup2), life(found)

            def found(name: str) -> Ref[Any]:
                ref = names.whereis(name)
                assert ref is not None
                return ref

            async def stop_and_start() -> None:
                sup2 = tree.branch("top").branch("sup2")
                assert await sup2.terminate_child("server") == Done()
                assert isinstance(await sup2.restart_child("server"), Started)

            was = await after(quiet())
            now = await after(end(found("sup2"), "kill"))
            assert now[0] != was[0]
            assert now[1] != was[1]
            for way in ("kill", "crash"):
                was, now = now, await after(end(found("server"), way))
                assert now[0] == was[0]
                assert now[1] != was[1]
            was, now = now, await after(stop_and_start())
            assert now[0] == was[0]
            assert now[1] != was[1]

            await end(tree["top"], "kill")
            await trio.sleep(0.2)
            assert names.whereis("sup2") is None
            assert names.whereis("server") is None


@asynccontextmanager
async def looping(world: World, *before: Any, **options: Any) -> AsyncGenerator[Branch]:
    options = {"intensity": 8, "period": 10, **options}
    async with supervised(*before, **options) as sup:
        yield sup


async def loop(world: World, ref: Ref[Any]) -> None:
    """Crash a child whose restarts fail, and come back while they do."""
    world.hangs = True
    await crash(ref)
    await trio.sleep(2)


async def test_hanging_restart_loop_can_be_administered_and_ended(autojump_clock: object) -> None:
    world = World()
    c = w(world, "c", D, shutdown="brutal_kill")
    async with looping(world, c) as sup:
        await loop(world, sup["c"])
        assert await sup.start_child(c) == AlreadyPresent()
        assert await sup.restart_child("c") == Restarting()
        assert await sup.delete_child("c") == Restarting()
        assert await which(sup) == [("c", "restarting")]
        assert await counts(sup) == [1, 0, 0, 1]
        assert await sup.terminate_child("c") == Done()
        assert await which(sup) == [("c", "undefined")]
        world.hangs = False
        assert isinstance(await sup.restart_child("c"), Started)
        await loop(world, sup["c"])
        assert await sup.ref.stop() == Shutdown()


async def test_hanging_restart_loop_rest_for_one_leaves_the_earlier_alone(
    autojump_clock: object,
) -> None:
    world = World()
    c2 = w(world, "c2", D, shutdown="brutal_kill")
    children = (w(world, "c1"), c2, w(world, "c3"))
    async with looping(world, *children, strategy="rest_for_one") as sup:
        c1 = (await lives(sup))["c1"]
        await loop(world, sup["c2"])
        assert await sup.start_child(c2) == AlreadyPresent()
        assert await sup.restart_child("c2") == Restarting()
        assert await sup.delete_child("c2") == Restarting()
        assert await which(sup) == [("c3", "undefined"), ("c2", "restarting"), ("c1", "running")]
        assert await counts(sup) == [3, 1, 0, 3]
        assert await sup.terminate_child("c2") == Done()
        assert await which(sup) == [("c3", "undefined"), ("c2", "undefined"), ("c1", "running")]
        # Nobody is going to start it: who asks it must not wait.
        with pytest.raises(ActorStopped):
            await sup["c3"].ask("anybody?")
        assert await lives(sup) == {"c1": c1}
        world.hangs = False
        assert isinstance(await sup.restart_child("c2"), Started)
        await loop(world, sup["c2"])
        assert await sup.ref.stop() == Shutdown()


async def test_hanging_restart_loop_simple_forgets_a_child_that_is_terminated(
    autojump_clock: object,
) -> None:
    world = World()
    template = own(world, D, shutdown="brutal_kill")
    async with looping(world, template, strategy="dynamic") as sup:
        first = await sup.start("c")
        assert isinstance(first, Started)
        await loop(world, first.ref)
        assert [each.state for each in await sup.which_children()] == ["restarting"]
        assert await counts(sup) == [1, 0, 0, 1]
        assert await sup.terminate_child(first.ref) == Done()
        assert await which(sup) == []
        assert await sup.terminate_child("c") == NotFound()
        world.hangs = False
        second = await sup.start("c")
        assert isinstance(second, Started)
        await loop(world, second.ref)
        assert await sup.ref.stop() == Shutdown()
