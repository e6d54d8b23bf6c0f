"""OTP's supervisor suite, cases 1 to 15: how a supervisor and its children start.

The name of each test contains the name of the original case; its numbers are the
original ones.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio

from standby_actors import Actor, Shutdown, open_nursery
from standby_supervision import (
    BadSpec,
    Done,
    Ignore,
    Ignored,
    NotFound,
    Started,
    StartError,
    StartFailed,
    child,
    open_supervisor,
    supervisor,
)
from tests.conformance.children import (
    NotToday,
    W,
    World,
    counts,
    fails_always,
    fails_later,
    ignored_first,
    own,
    reason_of,
    supervised,
    w,
    which,
)
from tests.support.heard import heard

FLAGS: dict[str, Any] = {"intensity": 2, "period": 3600}


async def test_sup_start_normal_runs_without_children_and_ends_as_asked(
    autojump_clock: object,
) -> None:
    async with supervised(**FLAGS) as sup:
        assert await which(sup) == []
        assert await sup.ref.stop() == Shutdown()


async def test_sup_start_ignore_init_leaves_nothing_that_ends(autojump_clock: object) -> None:
    # Our supervisors are data, with no callback that could say so; an owner of actors is code.
    class Owner(Actor):
        def on_start(self) -> None:
            self.spawn(W, World(), "below")
            raise Ignore

        def receive(self, message: object) -> None:
            raise AssertionError("it never runs")

    async with heard() as events, supervised(**FLAGS) as sup:
        assert await sup.start_child(child(Owner, id="owner", restart="temporary")) == Ignored()
        assert await reason_of(sup.ref, 0.1) is None
        assert await which(sup) == []
    kinds = {each.type for each in events}
    assert not kinds & {"supervisor.start_error", "supervisor.child_terminated"}


async def test_sup_start_ignore_child_keeps_its_specification(autojump_clock: object) -> None:
    world = World(scripts={"c1": ignored_first})
    async with supervised(**FLAGS) as sup:
        assert await sup.start_child(w(world, "c1")) == Ignored()
        assert isinstance(await sup.start_child(w(world, "c2")), Started)
        assert await which(sup) == [("c2", "running"), ("c1", "undefined")]
        assert await counts(sup) == [2, 1, 0, 2]
        assert isinstance(await sup.restart_child("c1"), Started)


async def test_sup_start_ignore_temporary_child_is_not_kept(autojump_clock: object) -> None:
    world = World(scripts={"c1": ignored_first})
    c1, c2 = (w(world, each, restart="temporary") for each in ("c1", "c2"))
    async with supervised(c1, c2, **FLAGS) as sup:
        assert await which(sup) == [("c2", "running")]
        assert await counts(sup) == [1, 1, 0, 1]


async def test_sup_start_ignore_temporary_child_start_child_is_not_kept(
    autojump_clock: object,
) -> None:
    world = World(scripts={"c1": ignored_first})
    c1, c2 = (w(world, each, restart="temporary") for each in ("c1", "c2"))
    async with supervised(**FLAGS) as sup:
        assert await sup.start_child(c1) == Ignored()
        assert isinstance(await sup.start_child(c2), Started)
        assert await which(sup) == [("c2", "running")]
        assert await counts(sup) == [1, 1, 0, 1]


@pytest.mark.parametrize(
    "restart",
    [
        pytest.param("temporary", id="sup_start_ignore_temporary_child_start_child_simple"),
        pytest.param("permanent", id="sup_start_ignore_permanent_child_start_child_simple"),
    ],
)
async def test_sup_start_ignore_child_start_child_simple_stores_nothing(
    restart: str, autojump_clock: object
) -> None:
    world = World(scripts={"c1": ignored_first})
    async with supervised(own(world, restart=restart), strategy="dynamic", **FLAGS) as sup:
        assert await sup.start("c1") == Ignored()
        two = await sup.start("c2")
        assert isinstance(two, Started)
        assert [each.ref for each in await sup.which_children()] == [two.ref]
        assert await counts(sup) == [1, 1, 0, 1]
        assert await sup.ref.stop() == Shutdown()


async def test_sup_start_error_return_of_what_is_no_specification(autojump_clock: object) -> None:
    # Where OTP's callback returns nonsense, ours is nonsense in the place of the data.
    nonsense: Any = "invalid"
    async with heard() as events:
        with pytest.raises(BadSpec) as caught:
            open_supervisor(nonsense)
        assert caught.value.rule == "invalid_child_spec"
        with pytest.raises(BadSpec) as caught:
            child(nonsense)
        assert caught.value.rule == "invalid_start"
        await trio.sleep(0.1)
    assert not events


async def test_sup_start_fail_raises_once_and_where_it_was_started(autojump_clock: object) -> None:
    class Fails(Actor):
        def __init__(self) -> None:
            raise NotToday("fail")

        def receive(self, message: object) -> None:
            raise AssertionError("it never runs")

    async with heard() as events:
        with pytest.raises(StartFailed) as caught:
            async with open_supervisor(child(Fails, id="fails")):
                raise AssertionError("it has not started")
        assert isinstance(caught.value.__cause__, NotToday)
        await trio.sleep(0.1)
    assert [each.data["child"] for each in events if each.type == "supervisor.start_error"] == [
        "fails"
    ]


async def test_sup_start_restart_child_returns_error_and_stays_down(
    autojump_clock: object,
) -> None:
    world = World(scripts={"c1": fails_later})
    async with supervised(w(world, "c1"), **FLAGS) as sup:
        assert await sup.terminate_child("c1") == Done()
        answer = await sup.restart_child("c1")
        assert isinstance(answer, StartError)
        assert isinstance(answer.error, NotToday)
        assert await which(sup) == [("c1", "undefined")]
        # Neither tried again nor counted.
        assert await reason_of(sup.ref) is None
        assert world.starts["c1"] == 2


class Raises(Actor):
    """Fails before it has a start hook: when it is made."""

    def __init__(self, world: World, name: str) -> None:
        raise NotToday(name)

    def receive(self, message: object) -> None:
        raise AssertionError("it never runs")


async def test_sup_start_child_returns_error_and_keeps_nothing(autojump_clock: object) -> None:
    world = World(scripts={"c1": fails_always})
    async with supervised(**FLAGS) as sup:
        for spec in (w(world, "c1"), child(Raises, world, "c1", id="c1")):
            answer = await sup.start_child(spec)
            assert isinstance(answer, StartError)
            assert isinstance(answer.error, NotToday)
            assert await which(sup) == []


async def test_sup_start_child_returns_error_simple_and_keeps_nothing(
    autojump_clock: object,
) -> None:
    world = World(scripts={"c1": fails_always})
    for template in (own(world), child(Raises, world, id="raises")):
        async with supervised(template, strategy="dynamic", **FLAGS) as sup:
            answer = await sup.start("c1")
            assert isinstance(answer, StartError)
            assert isinstance(answer.error, NotToday)
            assert await which(sup) == []


# ---- defaults


async def test_sup_start_map_fills_in_the_defaults(autojump_clock: object) -> None:
    world = World()
    async with open_supervisor(
        child(W, world, "c1", id="c1"),
        child(W, world, "c2", id="c2", shutdown="brutal_kill"),
        supervisor(id="c3"),
    ) as sup:
        c1, c2, c3 = [await sup.get_spec(each) for each in ("c1", "c2", "c3")]
        assert not isinstance(c1, NotFound)
        assert (c1.restart, c1.shutdown, c1.type, c1.significant) == (
            "permanent",
            5.0,
            "worker",
            False,
        )
        assert not isinstance(c2, NotFound)
        assert c2.shutdown == "brutal_kill"
        assert not isinstance(c3, NotFound)
        assert (c3.type, c3.shutdown) == ("supervisor", math.inf)
        assert await sup.get_spec("c4") == NotFound()
        assert await sup.get_spec(sup["c1"]) == c1


async def test_sup_start_map_simple_shows_the_template(autojump_clock: object) -> None:
    world = World()
    template = child(W, world, id="template", restart="temporary")
    async with (
        open_supervisor(template, strategy="dynamic") as sup,
        open_nursery() as elsewhere,
    ):
        for name in ("c1", "c2", "c3"):
            answer = await sup.start(name)
            assert isinstance(answer, Started)
            spec = await sup.get_spec(answer.ref)
            assert not isinstance(spec, NotFound)
            assert (spec.restart, spec.shutdown, spec.type, spec.significant) == (
                "temporary",
                5.0,
                "worker",
                False,
            )
        assert await sup.get_spec(elsewhere.spawn(W, world, "stranger")) == NotFound()


def test_sup_start_map_faulty_specs_are_refused_before_anything_starts() -> None:
    child4: Any = "child4"
    for make, rule in (
        (lambda: child(W, id=""), "missing_id"),
        (lambda: child(None), "missing_start"),  # type: ignore[arg-type]  # what is tested
        (lambda: open_supervisor(child4), "invalid_child_spec"),
    ):
        with pytest.raises(BadSpec) as caught:
            make()
        assert caught.value.rule == rule


# ---- not in the suite: what follows from the rules


async def test_a_start_that_takes_too_long_is_an_error_and_leaves_nothing(
    autojump_clock: object,
) -> None:
    # A difference on purpose: OTP waits for ever, unless it is told otherwise.
    async def never(_: int) -> None:
        await trio.sleep_forever()

    world = World(scripts={"c1": never})
    async with supervised(**FLAGS) as sup:
        began = trio.current_time()
        answer = await sup.start_child(w(world, "c1", name="known"))
        assert isinstance(answer, StartError)
        assert trio.current_time() - began == 30.0
        assert await which(sup) == []
        world.scripts.clear()
        assert isinstance(await sup.start_child(w(world, "c1", name="known")), Started)
