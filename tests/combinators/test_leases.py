"""Leases on paths: no two writers in one place, nobody waits for ever, nothing stays held."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from standby import Agent
from standby_actors.result import TurnError
from standby_combinators import (
    Claim,
    ClaimRefused,
    Claims,
    Leased,
    NotGranted,
    PathClaims,
    Signal,
    SubagentPool,
    fan_out,
)

from .players import FakePlayer, FakeTroupe
from .teams import SCOUT, Played, says

# What a claim is in the way of.


@pytest.mark.parametrize(
    ("held", "asked", "granted"),
    [
        ("src", "src/a.py", False),
        ("src/a.py", "src", False),
        ("src/a.py", "src/b.py", True),
        ("src/a", "src/a.py", True),
        ("src/a", "src/a/b/c", False),
        (".", "anything", False),
        ("anything", ".", False),
        ("src/", "./src/../src//a.py", False),
        ("link", "src/a.py", False),
        ("link/a.py", "src", False),
        ("src/new/file", "src/new/other", True),
    ],
)
def test_a_claim_is_in_the_way_of_what_is_in_it_and_of_what_it_is_in(
    tmp_path: Path, held: str, asked: str, granted: bool
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to("src")
    claims = PathClaims(tmp_path, clock=lambda: 0.0)
    assert isinstance(claims.take("a", held), Claim)
    answer = claims.take("b", asked)
    assert isinstance(answer, Claim) is granted
    if isinstance(answer, ClaimRefused):
        assert answer.held_by == "a"
    # One's own is never in one's way.
    assert isinstance(claims.take("a", asked), Claim) is not granted


@pytest.mark.parametrize("path", ["..", "../x", "/", "/etc", "out/x", "", "a\0b"])
def test_what_leads_out_cannot_be_claimed(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    claims = PathClaims(root, clock=lambda: 0.0)
    assert isinstance(claims.take("a", path), ClaimRefused)
    assert claims.all() == ()
    assert isinstance(claims.take("a", str(root / "in")), Claim)


def test_case_counts_where_it_does_in_the_folder(tmp_path: Path) -> None:
    plain = PathClaims(tmp_path, clock=lambda: 0.0)
    same = (tmp_path.parent / tmp_path.name.swapcase()).exists()
    assert plain.ignore_case is (same and tmp_path.name.swapcase() != tmp_path.name)
    claims = PathClaims(tmp_path, ignore_case=True, clock=lambda: 0.0)
    assert isinstance(claims.take("a", "SRC/E\u0301"), Claim)
    assert isinstance(claims.take("b", "src/\u00e9"), ClaimRefused)


def test_only_what_is_below_the_keys_can_be_claimed_and_done_is_never_free(
    tmp_path: Path,
) -> None:
    claims = PathClaims(tmp_path, keys=["src/", "docs"], clock=lambda: 0.0)
    assert claims.free() == ("src", "docs")
    assert isinstance(claims.take("a", "other"), ClaimRefused)
    assert isinstance(claims.take("a", "src/a.py"), Claim)
    assert claims.free() == ("docs",)
    assert claims.finish("a", "./src/a.py", "ready") == Claim("src/a.py", "done", "a", "ready")
    refused = claims.take("b", "src")
    assert isinstance(refused, ClaimRefused)
    assert refused.reason == "'src/a.py', a part of 'src', was done by a; free are: docs"
    assert isinstance(claims.take("b", "src/b.py"), Claim)
    assert claims.release_all("b") == ("src/b.py",)


def test_several_are_granted_together_or_not_at_all() -> None:
    claims = Claims(max_each=2, clock=lambda: 0.0)
    assert isinstance(claims.take("a", "x"), Claim)
    assert isinstance(claims.take_all("b", "y", "x"), ClaimRefused)
    assert claims.held("b") == ()
    assert isinstance(claims.take_all("b", "y", "z"), tuple)
    assert isinstance(claims.take_all("c", "p", "q", "r"), ClaimRefused)
    assert isinstance(claims.take_all("c"), ClaimRefused)
    assert claims.held() == ("x", "y", "z")


# Waiting.


async def test_those_who_wait_are_served_in_the_order_of_asking(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    claims = PathClaims(tmp_path)
    order: list[str] = []

    async def writer(name: str, after: float, *paths: str) -> None:
        await trio.sleep(after)
        async with claims.hold(name, *paths):
            order.append(name)
            await trio.sleep(10)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer, "a", 0.0, "src/a.py")
        nursery.start_soon(writer, "b", 1.0, "src")
        # Would fit beside a; but b has asked before, and must not starve.
        nursery.start_soon(writer, "c", 2.0, "src/c.py")
        nursery.start_soon(writer, "d", 3.0, "docs")
        await trio.sleep(2.5)
        refused = claims.take("e", "src/e.py")
    assert isinstance(refused, ClaimRefused)
    assert refused.reason.startswith("'src/e.py' is waited for by b")
    assert order == ["a", "d", "b", "c"]
    assert claims.all() == ()


async def test_a_wait_has_its_deadline_and_leaves_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    claims = Claims()
    claims.take("a", "x")
    refused = await claims.acquire("b", "x", "y", seconds=5)
    assert isinstance(refused, ClaimRefused)
    assert (trio.current_time(), refused.held_by) == (5.0, "a")
    assert refused.reason.startswith("after 5 s: 'x' is held by a")
    with pytest.raises(NotGranted, match="b was not granted"):
        async with claims.hold("b", "x", seconds=0):
            pytest.fail("it is held")
    with trio.move_on_after(3) as cut:
        await claims.acquire("b", "x", "y")
    assert cut.cancelled_caught
    assert claims.held() == ("x",)
    # Nobody waits any more, so nobody is in the way.
    assert isinstance(claims.take("c", "y"), Claim)
    claims.finish("a", "x", "done")
    refused = await claims.acquire("b", "x")
    assert isinstance(refused, ClaimRefused)
    assert "was done by a" in refused.reason


async def test_who_would_wait_for_itself_is_refused_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    claims = Claims()
    said: list[str] = []

    async def takes(name: str, first: str, then: str) -> None:
        async with claims.hold(name, first):
            await trio.sleep(1 if name == "a" else 2)
            granted = await claims.acquire(name, then)
            if isinstance(granted, ClaimRefused):
                said.append(granted.reason)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(takes, "a", "x", "y")
        nursery.start_soon(takes, "b", "y", "z")
        nursery.start_soon(takes, "c", "z", "x")
    assert said == ["it would wait for ever: c waits for a waits for b waits for c"] or said == [
        "it would wait for ever: b waits for c waits for a waits for b"
    ]
    # Whoever was refused let go, and so the others came to what they waited for.
    assert len(claims.held()) == 2


async def test_a_lease_that_runs_out_is_the_next_ones_and_one_of_a_block_does_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    claims = Claims(seconds=10)
    claims.take("a", "x")
    assert isinstance(await claims.acquire("b", "x"), tuple)
    assert trio.current_time() == 10.0
    claims.release_all("b")
    async with claims.hold("c", "x"):
        assert isinstance(await claims.acquire("d", "x", seconds=100), ClaimRefused)
    assert isinstance(claims.take("d", "x"), Claim)


@pytest.mark.parametrize("seed", range(100))
async def test_at_no_time_are_two_in_one_place_and_in_the_end_nothing_is_held(
    autojump_clock: trio.testing.MockClock, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(seed)
    claims = PathClaims(ROOT)
    places = ["src", "src/a", "src/a/x", "src/b", "docs", "docs/x", "."]
    inside: dict[str, tuple[str, ...]] = {}
    served = 0

    async def writer(name: str) -> None:
        nonlocal served
        await trio.sleep(chance.choice([0.0, 0.5, 1.0]))
        wanted = tuple(chance.sample(places, chance.randrange(1, 4)))
        patience = chance.choice([None, None, 0.5, 3.0])
        with trio.move_on_after(chance.choice([1.0, 5.0, 1e9])):
            try:
                async with claims.hold(name, *wanted, seconds=patience):
                    for other in inside.values():
                        for mine in wanted:
                            for its in other:
                                assert not overlap(mine, its), (seed, mine, its)
                    inside[name] = wanted
                    try:
                        await trio.sleep(chance.choice([0.0, 0.7, 2.0]))
                        served += 1
                        if chance.random() < 0.2:
                            raise KeyError(name)
                    finally:
                        del inside[name]
            except (NotGranted, KeyError):
                pass

    with trio.fail_after(1_000):
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(writer, f"w{number}")
    assert claims.all() == ()
    assert served


ROOT = Path("/nowhere/at/all")


def overlap(one: str, other: str) -> bool:
    """Said in another way than it is made."""
    first, second = Path("/r", one), Path("/r", other)
    return first == second or first in second.parents or second in first.parents


# As members.


async def test_members_of_one_place_take_turns_and_others_work_beside_them(
    autojump_clock: trio.testing.MockClock,
) -> None:
    claims = PathClaims(ROOT)
    at_work: set[str] = set()
    most = 0

    async def writer(task: str) -> str:
        nonlocal most
        assert not any(overlap(task, other) for other in at_work)
        at_work.add(task)
        most = max(most, len(at_work))
        await trio.sleep(1)
        at_work.remove(task)
        return task

    tasks = ["src", "src/a", "docs", "docs", "lib"]
    done = await fan_out(Leased(writer, claims, lambda task: [task]), tasks, concurrency=5)
    assert [step.output for step in done.steps] == tasks
    assert (most, trio.current_time()) == (3, 2.0)
    assert claims.all() == ()


@pytest.mark.parametrize("end", ["answer", "crash", "signal", "cancel"])
async def test_however_a_holder_ends_the_next_one_has_its_claim(
    autojump_clock: trio.testing.MockClock, end: str
) -> None:
    claims = Claims()
    signal = Signal()

    async def holder(task: str, player: FakePlayer) -> Any:
        assert claims.held()
        await trio.sleep(1)
        if end == "crash":
            raise RuntimeError("it broke")
        if end == "signal":
            signal.set("enough")
        if end in ("signal", "cancel"):
            await trio.sleep(60)
        return ""

    played = Played(Leased(SCOUT, claims, ["x"]), FakeTroupe(holder), signal=signal)
    with trio.move_on_after(1 if end == "cancel" else 1_000):
        await played.run()
    played.check()
    assert claims.all() == ()


async def test_what_cannot_be_had_is_a_refused_turn_and_nothing_is_spawned(
    autojump_clock: trio.testing.MockClock,
) -> None:
    claims = Claims()
    claims.take("somebody", "x")
    troupe = FakeTroupe(says(TurnError("crash", "no")))
    played = Played(Leased(SCOUT, claims, ["x"], seconds=3), troupe)
    report = await played.run()
    assert report.status == "refused"
    assert "'x' is held by somebody" in str(report.error)
    assert troupe.opened == []
    played.check()
    signal = Signal()
    played = Played(Leased(SCOUT, claims, ["x"]), troupe, signal=signal)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(played.run)
        await trio.sleep(1)
        signal.set("enough")
    assert played.report.status == "aborted"
    played.check()


async def test_a_member_keeps_its_name_and_misuse_is_told_before_anything_runs() -> None:
    clerk = Agent("clerk", "File it.", description="Files things.")
    leased = Leased(clerk, Claims(), ["x"])
    assert (leased.name, leased.description) == ("clerk", "Files things.")
    with pytest.raises(TypeError, match="not 'src'"):
        Leased(clerk, Claims(), "src")
    async with SubagentPool(spawn=FakeTroupe().spawn) as pool:
        assert (await pool.turn(leased, "go")).ok
