"""OTP's supervisor suite, cases 23 to 28: administration, and what a specification may say.

The name of each test contains the name of the original case; its numbers are the
original ones.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from standby_actors import Actor, ActorStopped, NameTaken, Shutdown, open_nursery
from standby_supervision import (
    AlreadyPresent,
    AlreadyStarted,
    BadSpec,
    ChildSpec,
    Done,
    NotFound,
    Refused,
    Running,
    Started,
    StartError,
    SupervisorSpec,
    WrongStrategy,
    child,
    open_supervisor,
)
from standby_supervision.child import check_child
from tests.conformance.children import (
    D,
    W,
    World,
    counts,
    crash,
    life,
    lives,
    own,
    quiet,
    stays,
    supervised,
    w,
    which,
)


async def test_child_adm_answers_what_it_was_asked(autojump_clock: object) -> None:
    world = World()
    c1 = w(world, "c1")
    async with supervised(c1, intensity=2, period=3600) as sup:
        ref = sup["c1"]
        assert await sup.start_child(c1) == AlreadyStarted(ref)
        assert await sup.terminate_child("nobody") == NotFound()

        assert await sup.terminate_child("c1") == Done()
        assert world.diary[-1] == ("down", "c1", "shutdown")
        assert await which(sup) == [("c1", "undefined")]
        assert await counts(sup) == [1, 0, 0, 1]
        assert await sup.terminate_child("c1") == Done()
        assert await sup.start_child(c1) == AlreadyPresent()

        assert await sup.restart_child("c1") == Started(ref)
        assert world.starts["c1"] == 2
        assert await counts(sup) == [1, 1, 0, 1]
        assert await sup.restart_child("c1") == Running()
        assert await sup.restart_child("nobody") == NotFound()
        assert await sup.delete_child("c1") == Running()
        assert await sup.delete_child("nobody") == NotFound()

        assert await sup.terminate_child("c1") == Done()
        assert await sup.delete_child("c1") == Done()
        assert await sup.restart_child("c1") == NotFound()
        assert await which(sup) == []
        assert await counts(sup) == [0, 0, 0, 0]

        again = await sup.start_child(c1)
        assert isinstance(again, Started)
        assert await sup.terminate_child(again.ref) == NotFound()  # by its ref, not by its id
        assert again.ref.is_alive
        assert await counts(sup) == [1, 1, 0, 1]


async def test_child_adm_of_a_supervisor_that_is_gone_raises(autojump_clock: object) -> None:
    world = World()
    async with supervised(w(world, "c1")) as sup:
        assert await sup.ref.stop() == Shutdown()
        for call in (
            sup.which_children,
            sup.count_children,
            lambda: sup.start_child(w(world, "c2")),
            lambda: sup.terminate_child("c1"),
            lambda: sup.restart_child("c1"),
            lambda: sup.delete_child("c1"),
        ):
            with pytest.raises(ActorStopped):
                await call()


async def test_child_adm_simple_goes_by_refs_and_by_ids_of_its_own(autojump_clock: object) -> None:
    world = World()
    async with (
        supervised(own(world), strategy="dynamic", intensity=2, period=3600) as sup,
        open_nursery() as elsewhere,
    ):
        assert await counts(sup) == [1, 0, 0, 0]
        one = await sup.start("one")
        assert isinstance(one, Started)
        assert await counts(sup) == [1, 1, 0, 1]
        two = await sup.start("two")
        assert isinstance(two, Started)
        assert await counts(sup) == [1, 2, 0, 2]
        assert {each.ref for each in await sup.which_children()} == {one.ref, two.ref}
        # A difference on purpose: the children of our dynamic supervisor have ids, so one
        # that is not there is not found; OTP refuses the question.
        assert await sup.terminate_child("template") == NotFound()
        assert await sup.terminate_child(one.ref) == Done()
        assert await counts(sup) == [1, 1, 0, 1]
        assert not one.ref.is_alive
        assert await sup.terminate_child(one.ref) == Done()
        stranger = elsewhere.spawn(W, world, "stranger")
        assert await sup.terminate_child(stranger) == NotFound()
        assert stranger.is_alive
        assert await sup.restart_child("template") == WrongStrategy("dynamic")
        assert await sup.delete_child("template") == WrongStrategy("dynamic")
        assert await sup.start_child(w(world, "c1")) == WrongStrategy("dynamic")


async def test_extra_return_is_nothing_that_administration_depends_on(
    autojump_clock: object,
) -> None:
    # OTP's start may answer with extra information; our answer is a ref, which can be asked.
    world = World()
    c1 = w(world, "c1")
    async with supervised(c1, intensity=2, period=3600) as sup:
        assert await sup["c1"].ask("extra") == "extra"
        assert await sup.terminate_child("c") == NotFound()
        assert await sup.restart_child("c") == NotFound()
        assert await sup.delete_child("c") == NotFound()
        assert await sup.delete_child("c1") == Running()
        assert await sup.restart_child("c1") == Running()
        assert await sup.terminate_child("c1") == Done()
        assert world.diary[-1] == ("down", "c1", "shutdown")
        assert await counts(sup) == [1, 0, 0, 1]
        restarted = await sup.restart_child("c1")
        assert isinstance(restarted, Started)
        assert await restarted.ref.ask("extra") == "extra"
        assert await sup.terminate_child("c1") == Done()
        assert await sup.terminate_child("c1") == Done()
        assert await sup.delete_child("c1") == Done()
        assert await sup.restart_child("c1") == NotFound()
        started = await sup.start_child(c1)
        assert isinstance(started, Started)
        before = life(started.ref)
        await crash(started.ref)
        assert (await lives(sup))["c1"] != before
        assert await counts(sup) == [1, 1, 0, 1]


# ---- specifications

BAD = [
    pytest.param({"start": None}, "missing_start", id="no start"),
    pytest.param({"start": "no actor"}, "invalid_start", id="a start that is none"),
    pytest.param({"id": ""}, "missing_id", id="no id"),
    pytest.param({"restart": "prmanent"}, "invalid_restart_type", id="restart"),
    pytest.param({"significant": "perhaps"}, "invalid_significant", id="significant"),
    pytest.param({"shutdown": -10}, "invalid_shutdown", id="shutdown below 0"),
    pytest.param({"shutdown": "kill"}, "invalid_shutdown", id="an unknown shutdown"),
    pytest.param({"shutdown": math.nan}, "invalid_shutdown", id="shutdown not a number"),
    pytest.param({"shutdown": True}, "invalid_shutdown", id="a bool for seconds"),
    pytest.param(
        {"significant": True}, "bad_combination", id="permanent by default, and significant"
    ),
]
"""OTP's `type` and `modules` cannot be wrong here: they follow from the start."""


def bad_spec(values: dict[str, Any]) -> ChildSpec:
    """A specification made past `child`, as a store or a wire would make it."""
    options: dict[str, Any] = {"id": "c1", "start": W, **values}
    return ChildSpec(**options)


@pytest.mark.parametrize(("values", "rule"), BAD)
def test_child_specs_are_refused_by_child(values: dict[str, Any], rule: str) -> None:
    options: dict[str, Any] = {"start": W, "id": "c1", **values}
    start = options.pop("start")
    with pytest.raises(BadSpec) as caught:
        child(start, **options)
    assert caught.value.rule == rule


@pytest.mark.parametrize(("values", "rule"), BAD)
async def test_child_specs_are_refused_by_start_child(
    values: dict[str, Any], rule: str, autojump_clock: object
) -> None:
    async with supervised(intensity=2, period=3600) as sup:
        answer = await sup.start_child(bad_spec(values))
        assert isinstance(answer, Refused)
        assert answer.rule == rule
        assert await which(sup) == []
        assert await stays(sup.ref, 0.1)


@pytest.mark.parametrize(("values", "rule"), BAD)
def test_child_specs_are_refused_before_anything_starts(values: dict[str, Any], rule: str) -> None:
    with pytest.raises(BadSpec) as caught:
        open_supervisor(bad_spec(values))
    assert caught.value.rule == rule


@pytest.mark.parametrize("what", ["spec", None, 7, W])
async def test_child_specs_that_are_none_are_refused(what: Any, autojump_clock: object) -> None:
    async with supervised() as sup:
        answer = await sup.start_child(what)
        assert isinstance(answer, Refused)
        assert answer.rule == "invalid_child_spec"
    with pytest.raises(BadSpec, match="invalid_child_spec"):
        open_supervisor(what)


def test_child_specs_of_all_valid_combinations_are_taken() -> None:
    # OTP's 96 are these times the forms of `modules`, which Python has no use for.
    starts: tuple[Any, ...] = (W, SupervisorSpec())
    for restart, shutdown, start in itertools.product(
        ("permanent", "transient", "temporary"), (0, 1.0, math.inf, "brutal_kill"), starts
    ):
        options: dict[str, Any] = {"restart": restart, "shutdown": shutdown}
        spec = child(start, id="c1", **options)
        check_child(spec)
        assert spec.type == ("worker" if start is W else "supervisor")


async def test_child_specs_with_an_id_twice_are_refused(autojump_clock: object) -> None:
    world = World()
    with pytest.raises(BadSpec, match="duplicate_child_name") as caught:
        open_supervisor(w(world, "c1"), w(world, "c2"), w(world, "c1"))
    assert caught.value.actor == "c1"


@pytest.mark.parametrize("number", [0, 2])
def test_child_specs_for_a_template_must_be_one(number: int) -> None:
    world = World()
    children = [w(world, f"c{each}") for each in range(number)]
    with pytest.raises(BadSpec) as caught:
        open_supervisor(*children, strategy="dynamic")
    assert caught.value.rule == "bad_start_spec"


UNSET = object()


def test_child_specs_map_with_significant_may_not_contradict_themselves() -> None:
    good = bad = 0
    starts: tuple[Any, ...] = (W, SupervisorSpec())
    for auto, restart, shutdown, start, significant in itertools.product(
        (UNSET, "never", "any_significant", "all_significant"),
        (UNSET, "permanent", "transient", "temporary"),
        (UNSET, 0, 1.0, math.inf, "brutal_kill"),
        starts,
        (UNSET, True, False),
    ):
        flags: dict[str, Any] = {} if auto is UNSET else {"auto_shutdown": auto}
        options: dict[str, Any] = {
            key: value
            for key, value in (
                ("restart", restart),
                ("shutdown", shutdown),
                ("significant", significant),
            )
            if value is not UNSET
        }
        args = (World(), "c1") if start is W else ()
        contradicts = significant is True and (
            auto in (UNSET, "never") or restart in (UNSET, "permanent")
        )
        if contradicts:
            with pytest.raises(BadSpec, match="bad_combination"):
                SupervisorSpec(children=(child(start, *args, id="c1", **options),), **flags)
            bad += 1
        else:
            SupervisorSpec(children=(child(start, *args, id="c1", **options),), **flags)
            good += 1
    assert (good, bad) == (360, 120)


def test_child_specs_map_with_an_unknown_key_is_an_error() -> None:
    # A difference on purpose: OTP ignores what it does not know, and so hides what is misspelt.
    options: dict[str, Any] = {"shutdwon": 1.0}
    with pytest.raises(BadSpec, match=r"shutdwon .* did you mean shutdown\?") as caught:
        child(W, **options)
    assert caught.value.rule == "unknown_key"


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        pytest.param({"strategy": "none_for_one"}, "invalid_strategy", id="strategy"),
        pytest.param({"intensity": math.inf}, "invalid_intensity", id="intensity infinite"),
        pytest.param({"intensity": -1}, "invalid_intensity", id="intensity below 0"),
        pytest.param({"period": 0}, "invalid_period", id="period 0"),
        pytest.param({"period": math.inf}, "invalid_period", id="period infinite"),
        pytest.param({"auto_shutdown": "sometimes"}, "invalid_auto_shutdown", id="auto_shutdown"),
        pytest.param(
            {"strategy": "dynamic", "auto_shutdown": "any_significant"},
            "bad_combination",
            id="auto_shutdown of a template",
        ),
        # A difference on purpose: any number of restarts is a thing to ask for, with a back-off.
        pytest.param({"intensity": None}, "invalid_intensity", id="no intensity, no back-off"),
    ],
)
def test_sup_flags_are_refused_before_anything_starts(flags: dict[str, Any], rule: str) -> None:
    with pytest.raises(BadSpec) as caught:
        open_supervisor(**flags)
    assert caught.value.rule == rule
    assert caught.value.actor == "supervisor"


def test_sup_flags_that_are_unknown_are_an_error() -> None:
    # A difference on purpose, as with the keys of a child.
    flags: dict[str, Any] = {"intensty": 3}
    with pytest.raises(TypeError, match="intensty"):
        open_supervisor(**flags)


# ---- not in the suite: what follows from the rules


async def test_a_name_is_free_again_after_a_failed_start(autojump_clock: object) -> None:
    world = World(scripts={"c1": lambda number: ValueError("no") if number == 1 else None})
    async with supervised() as sup:
        await sup.start_child(w(world, "c1", name="known"))
        assert isinstance(await sup.start_child(w(world, "c1", name="known")), Started)


async def test_who_asks_a_child_that_was_stopped_hears_so(autojump_clock: object) -> None:
    class Fails(Actor):
        fails = False

        def on_start(self) -> None:
            if self.fails:
                raise ValueError("no")

        def receive(self, message: object) -> object:
            return message

    async with supervised(child(Fails, id="c1")) as sup:
        ref = sup["c1"]
        await sup.terminate_child("c1")
        Fails.fails = True
        await sup.restart_child("c1")
        await quiet()
        with pytest.raises(ActorStopped):
            await ref.ask("anybody?")


async def test_a_child_keeps_its_name_over_a_restart_that_found_it_taken(
    autojump_clock: object,
) -> None:
    world = World()
    async with open_nursery() as nursery:
        c1 = w(world, "c1", name="known")
        async with open_supervisor(c1, names=nursery.names) as sup:
            assert await sup.terminate_child("known") == NotFound()
            assert await sup.terminate_child("c1") == Done()
            other = nursery.spawn(W, world, "other", name="known")
            refused = await sup.restart_child("c1")
            assert isinstance(refused, StartError)
            assert isinstance(refused.error, NameTaken)
            await other.stop()
            assert isinstance(await sup.restart_child("c1"), Started)
            assert nursery.whereis("known") is sup["c1"]


async def test_who_asks_a_child_that_was_deleted_hears_so(autojump_clock: object) -> None:
    world = World()
    children = w(world, "c1", D, shutdown="brutal_kill"), w(world, "c2")
    async with supervised(*children, strategy="rest_for_one", intensity=9) as sup:
        c2 = sup["c2"]
        world.hangs = True
        await crash(sup["c1"])
        asked = c2.ask("anybody?")
        assert await sup.delete_child("c2") == Done()
        with pytest.raises(ActorStopped):
            await asked
