"""OTP's supervisor suite, cases 83 to 86: new specifications for a supervisor that runs.

The name of each test contains the name of the original case; its numbers are the
original ones.  What is OTP's code_change is `update_specs` here: there is no code to
change, only what is specified.
"""

from __future__ import annotations

from typing import Any

import pytest

from standby_actors import Killed, Shutdown
from standby_supervision import (
    BadSpec,
    ChildSpec,
    Done,
    NotFound,
    Refused,
    Started,
    SupervisorSpec,
    child,
)
from tests.conformance.children import (
    W,
    World,
    crash,
    flags,
    lives,
    own,
    quiet,
    reason_of,
    supervised,
    w,
    which,
)


async def shutdown_of(sup: Any, key: str) -> object:
    spec = await sup.get_spec(key)
    assert isinstance(spec, ChildSpec)
    return spec.shutdown


async def test_code_change_takes_flags_and_specifications_and_starts_nothing(
    autojump_clock: object,
) -> None:
    world = World()
    c1, c2, c3 = (w(world, each, shutdown=2.0) for each in ("c1", "c2", "c3"))
    async with supervised(intensity=0, period=1) as sup:
        # Flags.
        assert await sup.update_specs(flags(strategy="rest_for_one", intensity=4)) == Done()

        # A specification without a start: an error, and all is as it was.
        bad: Any = None
        with pytest.raises(BadSpec, match="missing_start"):
            flags(children=(ChildSpec(id="c1", start=bad),))

        # New children: known, and not started.
        assert await sup.update_specs(flags(children=(c1, c2))) == Done()
        assert await which(sup) == [("c2", "undefined"), ("c1", "undefined")]
        assert not world.starts
        assert isinstance(await sup.restart_child("c1"), Started)
        assert isinstance(await sup.restart_child("c2"), Started)
        assert await shutdown_of(sup, "c1") == 2.0

        # c1 changes, c2 is not mentioned and kept, c3 is new.
        before = await lives(sup)
        quicker = w(world, "c1", shutdown=1.0)
        assert await sup.update_specs(flags(children=(quicker, c3))) == Done()
        assert await which(sup) == [("c2", "running"), ("c3", "undefined"), ("c1", "running")]
        assert await lives(sup) == before
        assert await shutdown_of(sup, "c1") == 1.0
        assert await shutdown_of(sup, "c2") == 2.0
        assert isinstance(await sup.get_spec("c3"), ChildSpec)

        # Nonsense, and flags that are wrong.
        answer = await sup.update_specs("nonsense")  # type: ignore[arg-type]  # what is tested
        assert isinstance(answer, Refused)
        assert answer.rule == "bad_return"
        for wrong, rule in (
            ({"intensity": "faulty"}, "invalid_intensity"),
            ({"strategy": "faulty"}, "invalid_strategy"),
            ({"period": -1}, "invalid_period"),
        ):
            options: dict[str, Any] = dict(wrong)
            with pytest.raises(BadSpec) as caught:
                flags(**options)
            assert caught.value.rule == rule
        assert await lives(sup) == before


async def test_code_change_map_the_new_shutdown_rules_the_life_that_is(
    autojump_clock: object,
) -> None:
    world = World()
    async with supervised(w(world, "c1", shutdown=2.0), intensity=0, period=1) as sup:
        quicker = w(world, "c1", shutdown="brutal_kill")
        assert await sup.update_specs(flags(children=(quicker,))) == Done()
        ref = sup["c1"]
        assert await sup.terminate_child("c1") == Done()
        assert isinstance(await ref.join(), Killed)


class Successor(W):
    """What a child becomes with its next life."""

    async def receive(self, message: Any) -> Any:
        return await super().receive(message if message == "die" else ("new", message))


async def test_code_change_the_next_life_is_what_the_new_specification_says(
    autojump_clock: object,
) -> None:
    world = World()
    async with supervised(w(world, "c1"), intensity=3) as sup:
        new = w(world, "c1", Successor)
        assert await sup.update_specs(flags(children=(new,), intensity=3)) == Done()
        ref = sup["c1"]
        assert await ref.ask("who?") == "who?"
        await crash(ref)
        assert await ref.ask("who?") == ("new", "who?")


async def test_code_change_of_the_flags_rules_the_next_restart(autojump_clock: object) -> None:
    world = World()
    async with supervised(w(world, "c1"), w(world, "c2"), intensity=5) as sup:
        update = SupervisorSpec(strategy="one_for_all", intensity=1)
        assert await sup.update_specs(update) == Done()
        await crash(sup["c2"])
        assert world.starts == {"c1": 2, "c2": 2}
        await crash(sup["c2"])
        assert isinstance(await reason_of(sup.ref), Shutdown)


@pytest.mark.parametrize("case", ["code_change_simple", "code_change_simple_map"])
async def test_code_change_simple_changes_the_template_and_leaves_it_one(
    case: str, autojump_clock: object
) -> None:
    world = World()
    async with supervised(own(world, shutdown=2.0), strategy="dynamic") as sup:
        running = await sup.start("before")
        assert isinstance(running, Started)
        quicker = SupervisorSpec(children=(own(world, shutdown=1.0),), strategy="dynamic")
        assert await sup.update_specs(quicker) == Done()
        fresh = await sup.start("after")
        assert isinstance(fresh, Started)
        for each in (running.ref, fresh.ref):
            spec = await sup.get_spec(each)
            assert not isinstance(spec, NotFound)
            assert spec.shutdown == 1.0
        for children in ((), (own(world), child(W, id="another"))):
            with pytest.raises(BadSpec) as caught:
                SupervisorSpec(children=children, strategy="dynamic")
            assert caught.value.rule == "bad_start_spec"
        # It stays one with a template: children that have names of their own are others.
        answer = await sup.update_specs(flags(children=()))
        assert isinstance(answer, Refused)
        running.ref.tell(("sleep", 100))
        await quiet()
        assert await sup.terminate_child(running.ref) == Done()
        assert isinstance(await running.ref.join(), Killed)
