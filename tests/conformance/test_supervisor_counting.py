"""OTP's supervisor suite, cases 71 to 78: counting, and what is kept of temporary children.

The name of each test contains the name of the original case; its numbers are the
original ones.  Case 74 has no meaning outside BEAM, and 77 is a benchmark.
"""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import trio

from standby_actors import Actor, Ref
from standby_supervision import (
    AlreadyPresent,
    AlreadyStarted,
    Branch,
    Done,
    Started,
    SupervisorSpec,
    child,
)
from tests.conformance.children import (
    D,
    Way,
    World,
    counts,
    crash,
    end,
    own,
    quiet,
    stays,
    supervised,
    w,
    which,
)


class Counted(Actor):
    """One of very many."""

    def __init__(self, *_: object) -> None:
        pass

    def receive(self, message: Any) -> Any:
        return message


async def started(sup: Branch, number: int) -> list[Ref[Any]]:
    refs: list[Ref[Any]] = []
    for _ in range(number):
        answer = await sup.start()
        assert isinstance(answer, Started)
        refs.append(answer.ref)
    return refs


async def kill_all(refs: Sequence[Ref[Any]]) -> None:
    for each in refs:
        each.kill()
    await quiet()


async def test_count_children_of_a_template(autojump_clock: object) -> None:
    template = child(Counted, restart="temporary", shutdown=1.0)
    async with supervised(template, strategy="dynamic", intensity=2, period=3600) as sup:
        refs = await started(sup, 1000)
        assert await counts(sup) == [1, 1000, 0, 1000]
        refs += await started(sup, 1000)
        assert await counts(sup) == [1, 2000, 0, 2000]
        await kill_all(refs)
        assert await counts(sup) == [1, 0, 0, 0]


async def test_count_children_supervisor_counts_them_as_supervisors(
    autojump_clock: object,
) -> None:
    template = child(SupervisorSpec(), restart="temporary", shutdown=1.0)
    async with supervised(template, strategy="dynamic", intensity=2, period=3600) as sup:
        refs = await started(sup, 1000)
        assert await counts(sup) == [1, 1000, 1000, 0]
        refs += await started(sup, 1000)
        assert await counts(sup) == [1, 2000, 2000, 0]
        await kill_all(refs)
        assert await counts(sup) == [1, 0, 0, 0]


async def test_count_restarting_children_does_not_count_them_as_active(
    autojump_clock: object,
) -> None:
    world = World()
    template = own(world, D, shutdown="brutal_kill")
    async with supervised(template, strategy="dynamic", intensity=20, period=10) as sup:
        refs: list[Ref[Any]] = []
        for name in ("c1", "c2", "c3"):
            answer = await sup.start(name)
            assert isinstance(answer, Started)
            refs.append(answer.ref)
        assert await counts(sup) == [1, 3, 0, 3]
        for each in refs:
            await crash(each)
        await trio.sleep(0.4)
        assert await counts(sup) == [1, 3, 0, 3]
        world.hangs = True
        for each in refs[:2]:
            await crash(each)
        await trio.sleep(4)
        assert await counts(sup) == [1, 1, 0, 3]
        world.hangs = False
        await trio.sleep(4)
        assert await counts(sup) == [1, 3, 0, 3]
        for left in (2, 1, 0):
            assert await sup.terminate_child(refs[left]) == Done()
            assert await counts(sup) == [1, left, 0, left]


class Payload:
    """A large argument; what holds it can be found out."""

    def __init__(self) -> None:
        self.elements = list(range(1000))


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one", "dynamic"])
async def test_do_not_save_start_parameters_for_temporary_children(
    strategy: str, autojump_clock: object
) -> None:
    kept: dict[str, int] = {}
    for restart in ("permanent", "transient", "temporary"):
        options: dict[str, Any] = {"restart": restart, "shutdown": 1.0}
        template = [child(Counted, **options)] if strategy == "dynamic" else []
        async with supervised(*template, strategy=strategy) as sup:
            payloads: list[weakref.ref[Payload]] = []
            for number in range(100):
                payload = Payload()
                payloads.append(weakref.ref(payload))
                if strategy == "dynamic":
                    answer = await sup.start(payload)
                else:
                    answer = await sup.start_child(
                        child(Counted, payload, id=f"c{number}", **options)
                    )
                assert isinstance(answer, Started)
                del payload, answer
            await which(sup)
            gc.collect()
            kept[restart] = sum(each() is not None for each in payloads)
    assert kept == {"permanent": 100, "transient": 100, "temporary": 0}


@pytest.mark.parametrize("way", ["kill", "normal", "crash", "terminate"])
@pytest.mark.parametrize("strategy", ["one_for_all", "one_for_one", "rest_for_one"])
async def test_do_not_save_child_specs_for_temporary_children(
    strategy: str, way: Way, autojump_clock: object
) -> None:
    world = World()
    permanent, transient, temporary = (
        w(world, f"c-{restart}", restart=restart)
        for restart in ("permanent", "transient", "temporary")
    )
    async with supervised(strategy=strategy, intensity=9) as sup:
        for spec in (permanent, transient, temporary):
            answer = await sup.start_child(spec)
            assert isinstance(answer, Started)
            if way == "terminate":
                assert await sup.terminate_child(spec.id) == Done()
            else:
                await end(answer.ref, way)
            again = await sup.start_child(spec)
            if spec is temporary:
                assert isinstance(again, Started)
            elif way == "terminate" or (spec is transient and way == "normal"):
                assert again == AlreadyPresent()
                assert isinstance(await sup.restart_child(spec.id), Started)
            else:
                assert again == AlreadyStarted(answer.ref)


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_temporary_bystander_does_not_come_back(
    strategy: str, autojump_clock: object
) -> None:
    world = World()
    async with supervised(
        w(world, "c1", shutdown=0.1),
        w(world, "c2", restart="temporary", shutdown=0.1),
        strategy=strategy,
        intensity=2,
        period=300,
    ) as sup:
        await end(sup["c1"], "normal")
        assert await stays(sup.ref, 0.35)
        assert await which(sup) == [("c1", "running")]


# ---- not in the suite: Elixir's max_children


async def test_max_children_bounds_a_dynamic_supervisor(autojump_clock: object) -> None:
    template = child(Counted, restart="temporary")
    async with supervised(template, strategy="dynamic", max_children=2) as sup:
        refs = await started(sup, 2)
        assert not isinstance(await sup.start(), Started)
        await kill_all(refs)
        await started(sup, 2)
    async with supervised(template, strategy="dynamic", max_children=math.inf) as sup:
        await started(sup, 3)
