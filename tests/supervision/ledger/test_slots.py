"""Slots are leases: given in order, given back by the end of a block, tried for once more."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent
from standby_actors.mind import Closed as SubagentClosed
from standby_combinators import SubagentPool, chain, fan_out
from standby_supervision.ledger import (
    SUBAGENT,
    Closed,
    Fact,
    NotClosed,
    OperatorWait,
    PermitSpent,
    Reservation,
    RetryPermit,
    Role,
    Scope,
    Seat,
    SessionLedger,
    SessionSpec,
    Slots,
    SpawnBlocked,
)
from standby_supervision.ledger.facts import SlotExhausted
from standby_supervision.ledger.gate import Holder, cause_of
from standby_supervision.ledger.names import task_name
from standby_supervision.ledger.roles import SPEC_REVIEWER, GateResult, HeadReview

from .sessions import Backend, Journal, Session, Stage, echo, slow, stage

SCOUT = Agent("scout", echo)
SPEC = SessionSpec(SCOUT, SUBAGENT)
ASSESSOR: Role[GateResult] = Role("issue-assessor", 1, GateResult)


# ---- the lease


async def test_slots_are_given_in_the_order_of_asking() -> None:
    slots = Slots(1)
    order: list[int] = []

    async def hold(number: int, *, task_status: trio.TaskStatus[None]) -> None:
        with slots.line_up(task_name(1, number)) as ticket:
            task_status.started()
            await ticket.granted()
            order.append(number)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        with slots.line_up(task_name(2, 1)):
            for number in range(1, 21):
                await nursery.start(hold, number)
            await trio.testing.wait_all_tasks_blocked()
            assert order == []
    assert order == list(range(1, 21))
    assert slots.holders() == ()


async def test_whoever_leaves_the_line_or_fails_holds_nothing() -> None:
    slots = Slots(1)
    with slots.line_up(task_name(1, 1)) as first:
        with slots.line_up(task_name(1, 2)) as second:
            assert not second.has_slot
        with slots.line_up(task_name(1, 3)) as third:
            first.give_back()
            assert third.has_slot
            first.give_back()
            assert third.has_slot
    with pytest.raises(KeyError), slots.line_up(task_name(1, 4)):
        raise KeyError
    assert slots.holders() == ()


async def test_a_wait_that_is_cut_gives_its_place_to_the_next() -> None:
    slots = Slots(1)
    with slots.line_up(task_name(1, 1)) as first:
        with trio.CancelScope() as scope, slots.line_up(task_name(1, 2)) as second:
            scope.cancel()
            await second.granted()
        with slots.line_up(task_name(1, 3)) as third:
            first.give_back()
            assert third.has_slot


@pytest.mark.parametrize("size", [0, -1, (), (2, 0)])
def test_there_is_a_slot_at_least(size: Any) -> None:
    with pytest.raises(ValueError, match="there are slots for at least 1"):
        Slots(size)


async def test_it_is_waited_as_long_as_somebody_is_at_work(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(slots=2)
    report = await fan_out(slow, list("abcdef"), spawn=on.ledger.spawn)
    assert [step.status for step in report.steps] == ["ok"] * 6
    assert trio.current_time() == 30
    assert "slot.exhausted" not in on.journal.kinds
    on.journal.check(on.ledger)


# ---- finished agents hold none (C33)


async def test_twenty_rounds_of_three_all_spawn() -> None:
    on = stage(slots=6)
    for _ in range(20):
        report = await fan_out(echo, ["a", "b", "c"], spawn=on.ledger.spawn)
        assert [step.status for step in report.steps] == ["ok"] * 3
    assert len(on.backend.tried) == 60
    assert on.ledger.slots.holders() == ()
    assert {str(row.cleanup) for row in on.ledger.rows.ordered()} == {"closed=yes"}
    on.journal.check(on.ledger)


async def seats(on: Stage, stack: Any, number: int, *, capture: bool = True) -> list[Any]:
    """So many workflow agents that have answered and are done, not closed."""
    spec = SessionSpec(SCOUT, SPEC_REVIEWER)
    there: list[Any] = []
    for _ in range(number):
        seat = await stack.enter_async_context(on.ledger.open(spec))
        await seat.ask("look")
        if capture:
            await seat.capture(HeadReview("a" * 40, "Fine.", "COMPLETE_NO_FINDINGS"))
        await seat.complete()
        there.append(seat)
        capture = True
    return there


async def test_the_gate_closes_the_done_ones_of_a_full_house_and_a_seventh_is_spawned() -> None:
    on = stage(Backend(most=6), slots=6)
    async with AsyncExitStack() as stack:
        there = await seats(on, stack, 6)
        assert on.ledger.slots.holders() == ()
        async with on.ledger.open(SPEC) as seventh:
            assert (await seventh.ask("look")).ok
            assert {str(seat.row.cleanup) for seat in there} == {"closed=yes"}
    on.journal.check(on.ledger)


async def test_one_that_is_done_late_has_the_spawn_tried_exactly_once_more() -> None:
    """The backend is full when it is asked; clean-up then makes room."""
    backend, journal = Backend(most=6), Journal()
    six: list[Seat[HeadReview]] = []

    async def record(fact: Fact) -> None:
        await journal.record(fact)
        if isinstance(fact, SlotExhausted):
            for seat in six:
                await seat.complete()

    ledger = SessionLedger(record, spawn=backend.spawn)
    async with AsyncExitStack() as stack:
        for _ in range(6):
            seat = await stack.enter_async_context(ledger.open(SessionSpec(SCOUT, SPEC_REVIEWER)))
            await seat.capture(HeadReview("a" * 40, "Fine.", "COMPLETE_NO_FINDINGS"))
            six.append(seat)
        async with ledger.open(SPEC) as seventh:
            assert len(backend.tried) == 6 + 2
            assert seventh.row.retries == 1
            assert {str(seat.row.cleanup) for seat in six} == {"closed=yes"}
    assert journal.kinds.count("slot.retried") == 1
    assert "slot.awaited" not in journal.kinds
    journal.check(ledger)


async def test_one_whose_result_is_not_captured_is_not_closed() -> None:
    on = stage(slots=6)
    async with AsyncExitStack() as stack:
        there = await seats(on, stack, 6, capture=False)
        async with on.ledger.open(SPEC):
            outcomes = [seat.row.cleanup for seat in there]
            assert outcomes[0] is None
            assert all(isinstance(each, Closed) for each in outcomes[1:])
            assert there[0].id in on.backend.open
    assert there[0].row.cleanup == NotClosed("not captured")
    on.journal.check(on.ledger)


async def test_a_message_on_its_way_to_one_that_completes_pins_no_slot(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(slots=1)
    async with on.ledger.open(SessionSpec(Agent("slow", slow), SUBAGENT)) as seat:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(seat.ask, "a")
            await trio.sleep(1)
        await seat.complete()
        assert (await seat.ask("b")).status == "refused"
        assert on.ledger.slots.holders() == ()
        async with on.ledger.open(SPEC):
            pass
    on.journal.check(on.ledger)


async def test_clean_up_that_frees_nothing_ends_as_a_blocked_result(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(slots=1, operator_seconds=60)
    async with on.ledger.open(SessionSpec(SCOUT, SUBAGENT, Scope(task="t1"))) as seat:
        await seat.ask("look")
        start = trio.current_time()
        report = await chain([echo], "go", spawn=on.ledger.spawn)
        # A second in line, then a minute for the operator.
        assert trio.current_time() - start == 61
    result = report.steps[0]
    assert (result.status, result.error and result.error.kind) == ("blocked", "blocked")
    assert result.error is not None
    assert result.error.message == (
        "orchestration resource exhaustion: no slot (retained) for subagent, no scope\n"
        "open: scout#1\n"
        "- scout#1  waiting  subagent  task t1\n"
        "- pending  not opened  subagent  no scope"
    )
    assert len(on.backend.tried) == 1
    kinds = [kind for kind in on.journal.kinds if kind.startswith("slot.")]
    assert kinds == ["slot.exhausted", "slot.awaited", "slot.escalated"]
    assert on.ledger.rows.ordered()[1].unspawned == "slots exhausted"
    on.journal.check(on.ledger)


async def test_exhaustion_is_classed_as_nobodys_failure_and_changes_no_other_count(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(slots=1)
    async with on.ledger.open(SPEC) as seat:
        await on.ledger.note(seat.ref, fixups=2)
        before = seat.row
        with pytest.raises(SpawnBlocked) as caught:
            async with on.ledger.open(SPEC):
                pass
        assert seat.row == before
    blocked = on.ledger.rows.ordered()[1]
    assert (blocked.fixups, blocked.status, blocked.reviewer) == (0, None, None)
    assert (blocked.blocker, blocked.dispatches) == (None, 0)
    assert caught.value.escalation.classification == "orchestration resource exhaustion"
    exhausted = [fact for fact in on.journal.facts if isinstance(fact, SlotExhausted)]
    assert [fact.classification for fact in exhausted] == ["orchestration resource exhaustion"]


# ---- one retry


async def test_a_permit_is_used_once_and_for_the_same_specification_alone() -> None:
    permit = RetryPermit(task_name(19, 1), SPEC)
    same_words = SessionSpec(SCOUT, SUBAGENT)
    with pytest.raises(PermitSpent, match="that is another specification"):
        permit.use(same_words)
    assert permit.use(SPEC) is SPEC
    with pytest.raises(PermitSpent, match="its one retry has been"):
        permit.use(SPEC)


async def confirmed(on: Stage, seconds: float, by: str = "ann") -> None:
    await trio.sleep(seconds)
    assert on.ledger.confirm(by) == 1


async def test_a_confirmed_clean_up_has_the_same_spawn_tried_once_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    waits: list[OperatorWait] = []
    on = stage(Backend(most=1), on_wait=waits.append, operator_seconds=600)
    spec = SessionSpec(SCOUT, SUBAGENT, options={"budget": "the same"})
    async with on.ledger.open(SPEC), trio.open_nursery() as nursery:

        async def clean() -> None:
            await trio.sleep(30)
            on.backend.open.clear()  # by hand, where the sessions are seen
            assert on.ledger.confirm("ann") == 1

        nursery.start_soon(clean)
        async with on.ledger.open(spec) as second:
            assert trio.current_time() == 30
            assert second.spec is spec
            assert second.row.retries == 1
    assert len(on.backend.tried) == 3
    assert on.ledger.confirm() == 0
    text = str(waits[0])
    assert "no slot for d19_2 (subagent)" in text
    assert "Then confirm that it is done" in text
    assert "Open: scout#1." in text
    on.journal.check(on.ledger)


async def test_a_retry_that_fails_again_is_the_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(Backend(most=1))
    async with on.ledger.open(SPEC), trio.open_nursery() as nursery:
        nursery.start_soon(confirmed, on, 5)
        with pytest.raises(SpawnBlocked):
            async with on.ledger.open(SPEC):
                pass
    assert len(on.backend.tried) == 3
    kinds = [kind for kind in on.journal.kinds if kind.startswith("slot.")]
    assert kinds == [
        "slot.exhausted",
        "slot.awaited",
        "slot.confirmed",
        "slot.retried",
        "slot.escalated",
    ]
    on.journal.check(on.ledger)


async def test_a_retry_that_fails_otherwise_is_the_last_as_well(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(Backend(most=1))

    class Broken:
        async def __aenter__(self) -> Session:
            raise OSError("token sk-12345678")

        async def __aexit__(self, *_: object) -> None:
            raise AssertionError

    async with on.ledger.open(SPEC), trio.open_nursery() as nursery:

        async def broken() -> None:
            await trio.sleep(5)
            on.ledger._spawns = lambda *_, **__: Broken()  # pyright: ignore[reportPrivateUsage]
            on.ledger.confirm()

        nursery.start_soon(broken)
        with pytest.raises(SpawnBlocked) as caught:
            async with on.ledger.open(SPEC):
                pass
    assert isinstance(caught.value.__cause__, OSError)
    assert "sk-12345678" not in str(caught.value)
    assert on.journal.kinds.count("slot.retried") == 1
    on.journal.check(on.ledger)


@pytest.mark.parametrize(("on_deadline", "tries"), [("escalate", 2), ("retry", 3)])
async def test_an_operator_who_says_nothing_is_waited_for_so_long_and_then_has_a_default(
    autojump_clock: trio.testing.MockClock, on_deadline: Any, tries: int
) -> None:
    on = stage(Backend(most=1), on_deadline=on_deadline, operator_seconds=90)
    async with on.ledger.open(SPEC):
        start = trio.current_time()
        with pytest.raises(SpawnBlocked):
            async with on.ledger.open(SPEC):
                pass
        assert trio.current_time() - start == 90
    assert len(on.backend.tried) == tries
    assert on.ledger.waiting == ()


async def test_a_slot_that_comes_free_ends_the_wait_for_an_operator(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(slots=1, operator_seconds=600)
    async with trio.open_nursery() as nursery:

        async def hold() -> None:
            async with on.ledger.open(SPEC):
                await trio.sleep(30)

        nursery.start_soon(hold)
        await trio.sleep(1)
        async with on.ledger.open(SPEC) as seat:
            assert trio.current_time() == 30
            assert seat.row.retries == 1
    on.journal.check(on.ledger)


async def test_a_spawn_that_is_cut_while_it_waits_leaves_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(slots=1)
    async with on.ledger.open(SPEC):
        for seconds in (0.5, 30):  # in line, and before an operator
            with trio.move_on_after(seconds):
                async with on.ledger.open(SPEC):
                    pass
        assert len(on.ledger.slots.holders()) == 1
        assert on.ledger.waiting == ()
    assert [row.unspawned for row in on.ledger.rows.ordered()] == [None, "cut", "cut"]
    on.journal.check(on.ledger)


async def test_without_an_inventory_that_is_said(autojump_clock: trio.testing.MockClock) -> None:
    on = stage(Backend(most=1, can_close=False, has_ids=False))
    async with on.ledger.open(SPEC):
        with pytest.raises(SpawnBlocked, match="open: inventory is unavailable"):
            async with on.ledger.open(SPEC):
                pass


# ---- depths


async def test_parents_that_hold_every_slot_can_still_run_children(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(slots=2)

    async def parent() -> None:
        async with on.ledger.open(SPEC) as seat:
            await trio.sleep(1)
            for _ in range(3):
                async with on.ledger.spawn(SCOUT, above=seat) as child:
                    assert (await child.ask("look")).ok

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(parent)
    assert trio.current_time() == 1
    children = [row for row in on.ledger.rows.ordered() if row.parent is not None]
    assert len(children) == 6
    on.journal.check(on.ledger)


async def test_each_depth_has_its_own_number_of_slots() -> None:
    on = stage(slots=(3, 1))
    async with on.ledger.open(SPEC) as parent, on.ledger.open(SPEC, above=parent) as child:
        assert [t.depth for t in on.ledger.slots.holders()] == [0, 1]
        async with on.ledger.open(SPEC, above=child):
            assert [t.depth for t in on.ledger.slots.holders()] == [0, 1, 2]
    assert Slots((3, 1)).size(7) == 1


async def test_whoever_waits_for_the_asker_is_told_from_whoever_only_has_a_slot(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage(Backend(most=1))
    async with on.ledger.open(SPEC) as parent:
        with pytest.raises(SpawnBlocked) as caught:
            async with on.ledger.open(SPEC, above=parent):
                pass
    assert caught.value.escalation.cause == "nested"


@pytest.mark.parametrize(
    ("holders", "cause"),
    [
        pytest.param([(1, True), (2, True)], "active", id="all are at work"),
        pytest.param([(1, True), (2, False)], "retained", id="one is not"),
        pytest.param([(1, True), (9, True)], "nested", id="one waits for the asker"),
        pytest.param([], "active", id="the backend does not say"),
    ],
)
def test_the_cause_is_a_pure_decision(holders: list[tuple[int, bool]], cause: str) -> None:
    many = [Holder(task_name(1, number), is_playing) for number, is_playing in holders]
    assert cause_of(many, [task_name(1, 9)]) == cause


# ---- pools


async def test_a_pool_spawns_through_the_gate(autojump_clock: trio.testing.MockClock) -> None:
    on = stage(slots=1)
    async with SubagentPool(spawn=on.ledger.spawn, lifetime="workflow") as pool:
        first = await pool.turn(SCOUT, "a")
        assert (await pool.turn(SCOUT, "b")).ok
        assert first.ok
    assert str(on.ledger.rows.ordered()[0].cleanup) == "closed=yes"
    assert on.ledger.rows.ordered()[0].dispatches == 2
    on.journal.check(on.ledger)


async def test_unlimited_is_the_default() -> None:
    on = stage()
    report = await fan_out(echo, [str(n) for n in range(300)], spawn=on.ledger.spawn)
    assert all(step.ok for step in report.steps)
    on.journal.check(on.ledger)


async def test_a_session_of_a_pool_lives_as_long_as_its_block() -> None:
    on = stage()
    async with on.ledger.spawn(SCOUT, lifetime="session") as player:
        await player.ask("a")
    assert on.ledger.rows.ordered()[0].configuration.lifetime == "workflow"
    assert str(on.ledger.rows.ordered()[0].cleanup) == "closed=yes"


async def test_a_hanging_close_in_the_gate_does_not_hang_the_spawn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def closing(session: Session) -> SubagentClosed:
        await trio.sleep_forever()
        raise AssertionError

    on = stage(Backend(closing=closing))
    async with on.ledger.open(SPEC) as seat:
        await seat.complete()
        async with on.ledger.open(SPEC) as second:
            assert trio.current_time() == 15
            assert seat.row.cleanup == NotClosed("close timed out")
            assert second.row.operation is not None


async def test_a_reservation_of_another_ledger_is_not_there() -> None:
    on, other = stage(), stage()
    reservation: Reservation[Any] = await other.ledger.reserve(SPEC)
    with pytest.raises(LookupError):
        async with on.ledger.open(reservation):
            pass
    assert on.backend.tried == []
    assert isinstance(on.ledger, SessionLedger)
