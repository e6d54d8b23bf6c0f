"""OTP's supervisor suite, cases 44 to 54: what follows from how a child ends.

The name of each test contains the name of the original case; its numbers are the
original ones.  Each has one child, and a supervisor with an intensity of 2 in an hour.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from standby_actors import ExitReason, Normal, Ref, Shutdown
from standby_supervision import (
    Branch,
    ChildSpec,
    Started,
    StartFailed,
    open_supervisor,
    supervisor,
)
from tests.conformance.children import (
    World,
    counts,
    end,
    life,
    supervised,
    w,
    which,
)
from tests.support.heard import heard

SHUTDOWNS = (Shutdown(), Shutdown("some_info"))


@asynccontextmanager
async def one(restart: str) -> AsyncGenerator[tuple[Branch, Ref[object], ChildSpec]]:
    """A supervisor with one child c1, which was started through it."""
    c1 = w(World(), "c1", restart=restart)
    async with supervised(intensity=2, period=3600) as sup:
        answer = await sup.start_child(c1)
        assert isinstance(answer, Started)
        yield sup, answer.ref, c1


async def check_restarted(sup: Branch, ref: Ref[object], way: str | ExitReason) -> None:
    before = life(ref)
    await end(ref, way)
    assert life(ref) != before
    assert await which(sup) == [("c1", "running")]
    assert await counts(sup) == [1, 1, 0, 1]


async def check_let_be(sup: Branch, ref: Ref[object], way: str | ExitReason) -> None:
    await end(ref, way)
    assert await which(sup) == [("c1", "undefined")]
    assert await counts(sup) == [1, 0, 0, 1]


async def check_forgotten(sup: Branch, ref: Ref[object], way: str | ExitReason) -> None:
    await end(ref, way)
    assert await which(sup) == []
    assert await counts(sup) == [0, 0, 0, 0]


async def test_external_start_no_progress_log_at_info_level(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "standby.supervision")
    async with heard() as events, one("permanent") as (sup, ref, _):
        progress = [each for each in caplog.records if "progress" in each.message]
        assert [each.levelname for each in progress if "child c1" in each.message] == ["DEBUG"]
        await check_restarted(sup, ref, "normal")
        progress = [each for each in caplog.records if "progress" in each.message]
        assert [each.levelname for each in progress if "child c1" in each.message] == [
            "DEBUG",
            "INFO",
        ]
    levels = [
        each.data["level"]
        for each in events
        if each.type == "supervisor.progress" and each.data["child"] == "c1"
    ]
    assert levels == ["debug", "info"]


async def test_permanent_normal_is_restarted(autojump_clock: object) -> None:
    async with one("permanent") as (sup, ref, _):
        await check_restarted(sup, ref, "normal")


async def test_transient_normal_is_let_be(autojump_clock: object) -> None:
    async with one("transient") as (sup, ref, _):
        await check_let_be(sup, ref, "normal")


async def test_temporary_normal_is_forgotten(autojump_clock: object) -> None:
    async with one("temporary") as (sup, ref, _):
        await check_forgotten(sup, ref, "normal")


async def test_permanent_shutdown_is_restarted(autojump_clock: object) -> None:
    async with one("permanent") as (sup, ref, _):
        for reason in SHUTDOWNS:
            await check_restarted(sup, ref, reason)


async def test_transient_shutdown_is_let_be(autojump_clock: object) -> None:
    async with one("transient") as (sup, ref, _):
        await check_let_be(sup, ref, SHUTDOWNS[0])
        assert await sup.restart_child("c1") == Started(ref)
        await check_let_be(sup, ref, SHUTDOWNS[1])


async def test_temporary_shutdown_is_forgotten(autojump_clock: object) -> None:
    async with one("temporary") as (sup, ref, c1):
        await check_forgotten(sup, ref, SHUTDOWNS[0])
        answer = await sup.start_child(c1)
        assert isinstance(answer, Started)
        await check_forgotten(sup, answer.ref, SHUTDOWNS[1])


async def test_faulty_application_shutdown_carries_the_error_up_through_all_levels(
    autojump_clock: object,
) -> None:
    def calls_what_is_not_defined(_: int) -> None:
        undefined_function()  # type: ignore[name-defined]  # noqa: F821 - the point of it

    world = World(scripts={"c1": calls_what_is_not_defined})
    below = supervisor(w(world, "c0"), w(world, "c1"), id="below")
    with pytest.raises(StartFailed) as caught:
        async with open_supervisor(supervisor(below, id="middle"), name="faulty"):
            raise AssertionError("it has not started")
    levels: list[str] = []
    error: BaseException | None = caught.value
    while isinstance(error, StartFailed):
        levels.append(error.child)
        error = error.__cause__
    assert levels == ["middle", "below", "c1"]
    assert isinstance(error, NameError)
    frames = [each.name for each in traceback.extract_tb(error.__traceback__)]
    assert frames[-1] == "calls_what_is_not_defined"
    assert world.take() == [("up", "c0", 1), ("down", "c0", "shutdown")]


async def test_permanent_abnormal_is_restarted(autojump_clock: object) -> None:
    async with one("permanent") as (sup, ref, _):
        await check_restarted(sup, ref, "crash")


async def test_transient_abnormal_is_restarted(autojump_clock: object) -> None:
    async with one("transient") as (sup, ref, _):
        await check_restarted(sup, ref, "crash")


async def test_temporary_abnormal_is_forgotten(autojump_clock: object) -> None:
    async with one("temporary") as (sup, ref, _):
        await check_forgotten(sup, ref, "crash")


# ---- what is reported of it: OTP's table of exit reasons


@pytest.mark.parametrize(
    ("restart", "reports"),
    [
        ("permanent", {"normal", "shutdown", "crash", "kill"}),
        ("transient", {"crash", "kill"}),
        ("temporary", {"crash", "kill"}),
    ],
)
async def test_only_what_is_unexpected_is_reported(
    restart: str, reports: set[str], autojump_clock: object
) -> None:
    ways: dict[str, str | ExitReason] = {
        "normal": Normal(),
        "shutdown": Shutdown(),
        "crash": "crash",
        "kill": "kill",
    }
    for name, way in ways.items():
        async with heard() as events, one(restart) as (_, ref, _):
            await end(ref, way)
        terminated = [each for each in events if each.type == "supervisor.child_terminated"]
        assert len(terminated) == (1 if name in reports else 0), name
