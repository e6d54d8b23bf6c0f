"""OTP's supervisor suite, cases 87 and 89 to 91: order, reports, and names that are taken.

The name of each test contains the name of the original case; its numbers are the
original ones.  Case 88 is a benchmark.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio

from standby_actors import Crashed, open_nursery
from standby_supervision import (
    AlreadyStarted,
    Started,
    open_supervisor,
    supervisor,
)
from tests.conformance.children import (
    E,
    W,
    World,
    crash,
    own,
    quiet,
    stays,
    supervised,
    w,
    which,
)
from tests.support.heard import heard

IDS = ["ch7", "ch3", "ch10", "ch2", "ch5"]


async def test_order_of_children_is_that_of_their_specifications(autojump_clock: object) -> None:
    world = World()
    async with supervised(
        *(w(world, each) for each in IDS), strategy="rest_for_one", intensity=2, period=3600
    ) as sup:
        assert world.take() == [("up", each, 1) for each in IDS]
        began = trio.current_time()
        await crash(sup["ch10"])
        assert trio.current_time() - began < 3.0
        assert world.take() == [
            ("down", "ch10", "crash"),
            ("down", "ch5", "shutdown"),
            ("down", "ch2", "shutdown"),
            ("up", "ch10", 2),
            ("up", "ch2", 2),
            ("up", "ch5", 2),
        ]
        await sup.ref.stop()
        assert world.take() == [("down", each, "shutdown") for each in reversed(IDS)]


async def test_format_log_1_a_report_says_who_what_why_and_of_whom(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    async with heard() as events, supervised(w(world, "c1", restart="transient")) as sup:
        await crash(sup["c1"])
    (report,) = [each for each in events if each.type == "supervisor.child_terminated"]
    assert report.actor == sup.ref.path
    assert dict(report.data) == {
        "child": "c1",
        "reason": "crashed (Died: c1)",
        "children": 1,
        "start": "W",
        "restart": "transient",
        "significant": False,
        "shutdown": 1.0,
        "child_type": "worker",
    }
    assert [each.getMessage() for each in caplog.records] == [
        f"supervisor {sup.ref.path}: child_terminated of child c1: crashed (Died: c1)"
    ]


async def test_format_log_1_cuts_a_reason_that_is_too_long(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    reason = Crashed(ValueError("x" * 100_000))
    async with heard() as events, supervised(w(world, "c1", E, reason)) as sup:
        sup["c1"].tell("stop")
        await quiet()
    (report,) = [each for each in events if each.type == "supervisor.child_terminated"]
    assert 1000 < len(report.data["reason"]) < 3000
    assert all(len(each.getMessage()) < 3000 for each in caplog.records)


async def test_format_log_2_counts_children_that_ended_alike(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    async with supervised(own(world), strategy="dynamic") as sup:
        for number in range(7):
            answer = await sup.start(f"c{number}")
            assert isinstance(answer, Started)
            answer.ref.tell(("sleep", 100))
        await quiet()
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"supervisor {sup.ref.path}: shutdown_error of 7 children: killed"
    )


async def test_already_started_outside_supervisor_tells_who_has_the_name(
    autojump_clock: object,
) -> None:
    world = World()
    async with open_nursery() as nursery:
        outside = nursery.spawn(W, world, "outside", name="known")
        async with open_supervisor(
            supervisor(w(world, "c0"), id="sup", restart="temporary"), names=nursery.names
        ) as top:
            sup = top.branch("sup")
            known: dict[str, Any] = {"name": "known"}
            assert await sup.start_child(w(world, "c1", **known)) == AlreadyStarted(outside)
            assert await which(sup) == [("c0", "running")]
            assert await stays(sup.ref)
            assert outside.is_alive
