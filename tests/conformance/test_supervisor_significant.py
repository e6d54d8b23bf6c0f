"""OTP's supervisor suite, cases 57 to 70: significant children.

The name of each test contains the name of the original case; its numbers are the
original ones.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, get_args

import pytest

from standby_actors import Normal, Ref, Shutdown
from standby_supervision import (
    BadSpec,
    Branch,
    ChildSpec,
    Done,
    Refused,
    Started,
    open_supervisor,
    supervisor,
)
from tests.conformance.children import (
    Way,
    World,
    end,
    flags,
    life,
    own,
    quiet,
    reason_of,
    stays,
    supervised,
    w,
    which,
)

WAYS = get_args(Way)


async def end_by(sup: Branch, key: str, way: Way) -> None:
    if way == "terminate":
        assert await sup.terminate_child(key) == Done()
        await quiet()
    else:
        await end(sup[key], way)


def significant(world: World, name: str, restart: str) -> ChildSpec:
    return w(world, name, restart=restart, significant=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("auto", ["never", "any_significant", "all_significant"])
async def test_nonsignificant_temporary_children_end_nothing(
    auto: str, way: Way, autojump_clock: object
) -> None:
    world = World()
    async with supervised(w(world, "c1", restart="temporary"), auto_shutdown=auto) as sup:
        await end_by(sup, "c1", way)
        assert await which(sup) == []
        assert await stays(sup.ref)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("auto", ["never", "any_significant", "all_significant"])
async def test_nonsignificant_transient_children_end_nothing(
    auto: str, way: Way, autojump_clock: object
) -> None:
    world = World()
    async with supervised(
        w(world, "c1", restart="transient"), auto_shutdown=auto, intensity=5
    ) as sup:
        await end_by(sup, "c1", way)
        restarted = way in ("kill", "crash")
        assert await which(sup) == [("c1", "running" if restarted else "undefined")]
        assert world.starts["c1"] == (2 if restarted else 1)
        assert await stays(sup.ref)


@asynccontextmanager
async def three(
    world: World, restart: str, auto: str, **options: Any
) -> AsyncGenerator[tuple[Branch, dict[str, Ref[Any]]]]:
    """A supervisor of c1 and c2, which are significant, and c3, which is not."""
    async with supervised(
        significant(world, "c1", restart),
        significant(world, "c2", restart),
        w(world, "c3", restart=restart),
        auto_shutdown=auto,
        intensity=5,
        **options,
    ) as sup:
        yield sup, {each: sup[each] for each in ("c1", "c2", "c3")}


async def closed_down(sup: Branch, *others: Ref[Any]) -> None:
    """Check that a supervisor has ended because a significant child had, with its `others`."""
    # Its reason is a shutdown with a detail; OTP's is bare.
    reason = await reason_of(sup.ref)
    assert isinstance(reason, Shutdown)
    assert reason.detail.startswith("significant child")
    for each in others:
        assert not each.is_alive


async def test_significant_temporary_stays_when_it_is_stopped_by_hand(
    autojump_clock: object,
) -> None:
    world = World()
    async with three(world, "temporary", "any_significant") as (sup, refs):
        await end_by(sup, "c1", "terminate")
        assert await stays(sup.ref)
        assert isinstance(await sup.start_child(significant(world, "c1", "temporary")), Started)
        assert await which(sup) == [("c1", "running"), ("c3", "running"), ("c2", "running")]
        await end_by(sup, "c1", "kill")
        await closed_down(sup, refs["c2"], refs["c3"])


@pytest.mark.parametrize("way", ["kill", "crash", "normal"])
async def test_significant_temporary_ends_all(way: Way, autojump_clock: object) -> None:
    world = World()
    async with three(world, "temporary", "any_significant") as (sup, refs):
        await end_by(sup, "c1", way)
        await closed_down(sup, *refs.values())


@pytest.mark.parametrize("restart", ["temporary", "transient"])
async def test_significant_temporary_and_transient_end_all_when_all_have_ended(
    restart: str, autojump_clock: object
) -> None:
    world = World()
    async with three(world, restart, "all_significant") as (sup, refs):
        await end_by(sup, "c1", "normal")
        assert await stays(sup.ref)
        await end_by(sup, "c2", "normal")
        await closed_down(sup, *refs.values())


async def test_significant_transient_ends_all_only_when_it_ends_normally(
    autojump_clock: object,
) -> None:
    world = World()
    async with three(world, "transient", "any_significant") as (sup, refs):
        await end_by(sup, "c1", "terminate")
        assert await stays(sup.ref)
        assert isinstance(await sup.restart_child("c1"), Started)
        ways: tuple[Way, ...] = ("kill", "crash")
        for way in ways:
            before = life(refs["c1"])
            await end_by(sup, "c1", way)
            assert life(refs["c1"]) != before
            assert await stays(sup.ref)
        await end_by(sup, "c1", "normal")
        await closed_down(sup, *refs.values())


async def test_significant_simple_is_refused(autojump_clock: object) -> None:
    world = World()
    for auto in ("any_significant", "all_significant"):
        options: dict[str, Any] = {"strategy": "dynamic", "auto_shutdown": auto}
        with pytest.raises(BadSpec) as caught:
            open_supervisor(own(world, restart="temporary"), **options)
        assert caught.value.rule == "bad_combination"
    async with supervised(own(world), strategy="dynamic", auto_shutdown="never") as sup:
        assert await stays(sup.ref)


@pytest.mark.parametrize("auto", ["any_significant", "all_significant"])
@pytest.mark.parametrize(
    ("strategy", "concerned"),
    [
        ("one_for_one", ["c2"]),
        ("one_for_all", ["c1", "c2", "c3"]),
        ("rest_for_one", ["c2", "c3"]),
    ],
)
async def test_significant_bystander_ends_in_a_restart_and_ends_nothing(
    strategy: str, concerned: list[str], auto: str, autojump_clock: object
) -> None:
    world = World()
    async with supervised(
        significant(world, "c1", "transient"),
        w(world, "c2", restart="transient"),
        significant(world, "c3", "transient"),
        strategy=strategy,
        auto_shutdown=auto,
        intensity=5,
    ) as sup:
        await end_by(sup, "c2", "kill")
        assert [each for each in ("c1", "c2", "c3") if world.starts[each] == 2] == concerned
        assert await stays(sup.ref)


@pytest.mark.parametrize("is_significant", [True, False])
async def test_significant_escalation_goes_as_far_as_supervisors_are_significant(
    is_significant: bool, autojump_clock: object
) -> None:
    world = World()
    b = supervisor(
        significant(world, "c", "transient"),
        id="B",
        restart="transient",
        significant=is_significant,
        auto_shutdown="any_significant",
    )
    async with supervised(b, auto_shutdown="any_significant") as a:
        below = a.branch("B")
        assert await end(below["c"], "normal") == Normal()
        await closed_down(below)
        if is_significant:
            await closed_down(a)
        else:
            assert await stays(a.ref)
            assert await which(a) == [("B", "undefined")]


# ---- a supervisor that learns of significance while it runs


async def set_mode(sup: Branch, auto: str) -> None:
    """Change auto_shutdown, and nothing else: children that are not named are kept."""
    assert await sup.update_specs(flags(auto_shutdown=auto)) == Done()


@asynccontextmanager
async def upgraded(world: World, old: str, new: str, *names: str) -> AsyncGenerator[Branch]:
    """A supervisor with significant children, whose mode was changed after they had started.

    Under "never" they cannot start before the change.
    """
    async with supervised(w(world, "bystander"), auto_shutdown=old) as sup:
        for each in names if old != "never" else ():
            answer = await sup.start_child(significant(world, each, "transient"))
            assert isinstance(answer, Started)
        await set_mode(sup, new)
        for each in names if old == "never" else ():
            answer = await sup.start_child(significant(world, each, "transient"))
            assert isinstance(answer, Started)
        yield sup


@pytest.mark.parametrize(
    "new",
    [
        pytest.param("any_significant", id="significant_upgrade_never_any"),
        pytest.param("all_significant", id="significant_upgrade_never_all"),
    ],
)
async def test_significant_upgrade_from_never_lets_significant_children_in(
    new: str, autojump_clock: object
) -> None:
    world = World()
    async with supervised(auto_shutdown="never") as sup:
        refused = await sup.start_child(significant(world, "c1", "transient"))
        assert isinstance(refused, Refused)
        assert refused.rule == "bad_combination"
        await set_mode(sup, new)
        for each in ("c1", "c2"):
            answer = await sup.start_child(significant(world, each, "transient"))
            assert isinstance(answer, Started)
        await end_by(sup, "c1", "normal")
        if new == "all_significant":
            assert await stays(sup.ref)
            await end_by(sup, "c2", "normal")
        await closed_down(sup)


@pytest.mark.parametrize(
    "old",
    [
        pytest.param("any_significant", id="significant_upgrade_any_never"),
        pytest.param("all_significant", id="significant_upgrade_all_never"),
    ],
)
async def test_significant_upgrade_to_never_lets_significant_children_end(
    old: str, autojump_clock: object
) -> None:
    world = World()
    async with upgraded(world, old, "never", "c1") as sup:
        await end_by(sup, "c1", "normal")
        assert await stays(sup.ref)
        assert isinstance(await sup.restart_child("c1"), Started)
        refused = await sup.start_child(significant(world, "c2", "transient"))
        assert isinstance(refused, Refused)
        assert refused.rule == "bad_combination"


async def test_significant_upgrade_any_all_waits_for_the_last_one(autojump_clock: object) -> None:
    world = World()
    async with upgraded(world, "any_significant", "all_significant", "c1", "c2") as sup:
        await end_by(sup, "c1", "normal")
        assert await stays(sup.ref)
        await end_by(sup, "c2", "normal")
        await closed_down(sup)


async def test_significant_upgrade_all_any_does_not_wait_for_the_last_one(
    autojump_clock: object,
) -> None:
    world = World()
    async with upgraded(world, "all_significant", "any_significant", "c1", "c2") as sup:
        await end_by(sup, "c1", "normal")
        await closed_down(sup)


async def test_significant_upgrade_child_under_never_is_an_error() -> None:
    with pytest.raises(BadSpec) as caught:
        flags(children=(significant(World(), "c1", "transient"),))
    assert caught.value.rule == "bad_combination"


@pytest.mark.parametrize("was_significant", [True, False])
async def test_significant_upgrade_child_counts_from_then_on(
    was_significant: bool, autojump_clock: object
) -> None:
    world = World()
    yes = significant(world, "c1", "transient")
    no = w(world, "c1", restart="transient")
    old, new = (yes, no) if was_significant else (no, yes)
    async with supervised(old, auto_shutdown="any_significant") as sup:
        update = flags(children=(new,), auto_shutdown="any_significant")
        assert await sup.update_specs(update) == Done()
        await end_by(sup, "c1", "normal")
        if was_significant:
            assert await stays(sup.ref)
        else:
            await closed_down(sup)
