"""A ledger reserves before it spawns, captures before it closes, and claims what it has seen."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent
from standby_actors.mind import Closed as SubagentClosed
from standby_actors.result import failed, succeeded
from standby_actors.subagent import reset_ids
from standby_supervision.ledger import (
    SUBAGENT,
    Anchor,
    BadFact,
    Blocker,
    CannotCapture,
    CaptureReceipt,
    CloseAck,
    Closed,
    CloseUnavailable,
    Fact,
    ForgedReceipt,
    Identified,
    Inventory,
    LastTurn,
    NotClosed,
    NotReplaced,
    Operation,
    Pending,
    ReservationUsed,
    Reuse,
    Scope,
    SessionLedger,
    SessionNotHere,
    SessionRef,
    SessionSpec,
    WindowOpen,
    fold,
)
from standby_supervision.ledger.facts import (
    SessionClosed,
    SessionNotSpawned,
    SessionReserved,
    SlotRetried,
)
from standby_supervision.ledger.names import read_name, task_name
from standby_supervision.ledger.roles import (
    CI_INVESTIGATOR,
    IMPLEMENTER,
    ROLES,
    SPEC_REVIEWER,
    GateResult,
    HeadReview,
    Implementation,
    Role,
)

from .sessions import Backend, Session, echo, slow, stage

SCOUT = Agent("scout", echo)
DONE = Implementation("DONE", "It parses dates now.", changed_files=("dates.py",))
CODER = SessionSpec(Agent("coder", echo), IMPLEMENTER, Scope(task="t1"))


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


async def test_each_dispatch_is_on_record_before_it_and_after_it() -> None:
    on = stage()
    seen: list[list[str]] = []

    async def look(task: str) -> str:
        seen.append(on.journal.kinds)
        return task

    async with on.ledger.open(SessionSpec(Agent("scout", look), SUBAGENT)) as seat:
        await seat.ask("a")
        await seat.ask("b")
    before = ["session.reserved", "session.opened", "capability.observed", "session.dispatched"]
    after = ["dispatch.settled", "session.dispatched"]
    assert seen == [before, before + after]
    end = ["dispatch.settled", "session.completed", "session.captured", "session.closed"]
    assert on.journal.kinds == before + after + end
    on.journal.check(on.ledger)


async def test_a_row_stands_and_is_pending_before_anything_is_spawned() -> None:
    on = stage()
    reservation = await on.ledger.reserve(CODER)
    row = on.ledger.row(reservation.ref)
    assert (row.identity, row.operation, row.cleanup) == (Pending(), None, None)
    assert str(row.identity) == "agent_id=pending"
    assert on.backend.tried == []
    async with on.ledger.open(reservation) as seat:
        assert seat.row.identity == Identified("coder#1")
        await seat.capture(DONE)
    with pytest.raises(ReservationUsed, match="d12_1 is reserved for one spawn"):
        async with on.ledger.open(reservation):
            pass
    assert len(on.backend.tried) == 1
    on.journal.check(on.ledger)


async def test_a_reservation_is_no_leave_to_pass_the_gate() -> None:
    """Both rows stand before either starts, and the spawn of the second still cleans up."""
    on = stage()
    first, second = await on.ledger.reserve(CODER), await on.ledger.reserve(CODER)
    async with on.ledger.open(first) as one:
        await one.capture(DONE)
        await one.complete()
        assert one.row.cleanup is None
        async with on.ledger.open(second) as two:
            assert isinstance(one.row.cleanup, Closed)
            await two.capture(DONE)
    on.journal.check(on.ledger)


async def test_names_are_counted_by_route_and_never_given_again() -> None:
    on = stage()
    review = HeadReview("a" * 40, "Fine.", "COMPLETE_NO_FINDINGS")
    for spec, state in [(CODER, DONE), (CODER, DONE)]:
        async with on.ledger.open(spec) as seat:
            await seat.capture(state)
    async with on.ledger.open(SessionSpec(SCOUT, SPEC_REVIEWER)) as reviewer:
        await reviewer.capture(review)
    assert [row.name for row in on.ledger.rows.ordered()] == ["d12_1", "d12_2", "d14_1"]
    again = SessionLedger(facts=on.journal.facts, spawn=on.backend.spawn)
    assert (await again.reserve(CODER)).ref.name == "d12_3"
    assert (await again.reserve(SessionSpec(SCOUT, CI_INVESTIGATOR))).ref.name == "d17_1"


async def test_two_who_reserve_at_once_get_two_names() -> None:
    on = stage()
    names: list[str] = []

    async def reserve() -> None:
        names.append((await on.ledger.reserve(CODER)).ref.name)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(reserve)
    assert sorted(names, key=lambda name: int(name[4:])) == [f"d12_{n}" for n in range(1, 21)]


@pytest.mark.parametrize("text", ["d0_1", "d1_0", "d1", "D1_1", "d1_1 ", "d1_1\n", "d01_1", ""])
def test_a_name_keeps_to_its_grammar(text: str) -> None:
    with pytest.raises(ValueError, match="is no name of a session"):
        read_name(text)


async def test_the_name_of_a_spawn_that_failed_is_not_given_again() -> None:
    spawn: Any = lambda *_, **__: Failing()  # noqa: E731 - what is returned is what is tested
    on = stage(spawn=spawn)
    with pytest.raises(OSError, match="no such program"):
        async with on.ledger.open(CODER):
            pass
    row = on.ledger.rows.ordered()[0]
    assert (row.unspawned, row.identity, row.cleanup) == ("start failed", Pending(), None)
    assert (await on.ledger.reserve(CODER)).ref.name == "d12_2"
    assert on.ledger.slots.holders() == ()
    on.journal.check(on.ledger)


class Failing:
    """A block that cannot be entered."""

    async def __aenter__(self) -> Session:
        raise OSError("no such program")

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError


# ---- capture before close


async def test_without_a_capture_nothing_is_closed() -> None:
    on = stage()
    async with on.ledger.open(CODER) as seat:
        with pytest.raises(ForgedReceipt, match="CaptureReceipt is given by a ledger"):
            await on.ledger.close(seat.ref, CaptureReceipt.__new__(CaptureReceipt))
        assert seat.row.cleanup is None
        assert on.backend.closes == []


async def test_a_receipt_made_by_hand_or_of_another_session_closes_nothing() -> None:
    on = stage()
    by_hand: Any = object()
    with pytest.raises(ForgedReceipt):
        CaptureReceipt(task_name(12, 1), by_hand)
    async with on.ledger.open(CODER) as one, on.ledger.open(CODER) as two:
        receipt = await one.capture(DONE)
        await two.capture(DONE)
        with pytest.raises(ForgedReceipt):
            await on.ledger.close(two.ref, receipt)
        elsewhere = stage()
        async with elsewhere.ledger.open(CODER) as other:
            with pytest.raises(ForgedReceipt):
                await on.ledger.close(one.ref, await other.capture(DONE))
        assert on.backend.closes == []
        assert isinstance(await on.ledger.close(one.ref, receipt), Closed)


async def test_closed_is_said_by_an_acknowledgement_alone() -> None:
    by_hand: Any = "scout#1"
    with pytest.raises(ForgedReceipt):
        CloseAck("scout#1", "", by_hand)
    with pytest.raises(ForgedReceipt):
        Closed(by_hand)
    async with stage().ledger.open(CODER) as seat:
        receipt = await seat.capture(DONE)
        with pytest.raises(TypeError, match="a CaptureReceipt is one of a kind"):
            copy.copy(receipt)
        with pytest.raises(TypeError, match="a CaptureReceipt is one of a kind"):
            pickle.dumps(receipt)


async def test_a_captured_state_is_checked_against_its_role_and_read_back_as_it_was() -> None:
    on = stage()
    async with on.ledger.open(CODER) as seat:
        wrong: Any = {"status": "sk-s3cr3t-status", "report": "x"}
        with pytest.raises(CannotCapture, match=r"another shape at `\$.status`$") as caught:
            await seat.capture(wrong)
        assert "s3cr3t" not in str(caught.value)
        assert seat.row.captured is None
        other = SessionRef(seat.ref.name, SPEC_REVIEWER)
        with pytest.raises(CannotCapture, match="is a implementer"):
            await on.ledger.capture(other, HeadReview("a" * 40, "x", "FAILED"))
        await seat.capture(DONE)
        assert seat.row.captured is not None
        assert IMPLEMENTER.read(seat.row.captured) == DONE


async def test_what_the_workflow_did_not_capture_is_taken_from_the_last_result() -> None:
    on = stage()

    async def answer(task: str) -> Any:
        return succeeded("coder", "{}", value=DONE) if task == "do" else "words"

    spec = SessionSpec(Agent("coder", answer), IMPLEMENTER)
    async with on.ledger.open(spec) as seat:
        await seat.ask("do")
    assert seat.row.captured is not None
    assert IMPLEMENTER.read(seat.row.captured) == DONE
    assert str(seat.row.cleanup) == "closed=yes"
    async with on.ledger.open(spec) as seat:
        await seat.ask("talk")
    assert (seat.row.captured, seat.row.cleanup) == (None, NotClosed("not captured"))
    assert seat.row.last == LastTurn("ok", None, "words", "", 1)
    on.journal.check(on.ledger)


async def test_silence_and_failure_are_no_result_of_a_role() -> None:
    """A review that timed out has not found nothing."""
    on = stage()

    async def late(task: str) -> Any:
        return failed("reviewer", "timeout", "timed out after 20 s")

    async with on.ledger.open(SessionSpec(Agent("reviewer", late), SPEC_REVIEWER)) as seat:
        await seat.ask("review")
    assert seat.row.captured is None
    assert seat.row.reviewer is None
    assert seat.row.cleanup == NotClosed("not captured")


async def test_a_role_needs_a_type_that_can_be_read_back() -> None:
    with pytest.raises(TypeError):
        Role("poet", 20, Backend)
    with pytest.raises(ValueError, match="a role is named like"):
        Role("The Poet", 20, GateResult)
    assert len(ROLES) == 19
    assert sorted(role.route for role in ROLES.values()) == list(range(1, 20))


# ---- honest outcomes


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [
        pytest.param(SubagentClosed(True), "closed=yes", id="it says that it closed"),
        pytest.param(SubagentClosed(False, "close timed out"), "close timed out", id="late"),
        pytest.param(
            SubagentClosed(False, "close failed: token sk-12345678"), "close failed", id="failed"
        ),
        pytest.param(
            SubagentClosed(False, "stuck: its turn does not end"), "did not stop", id="stuck"
        ),
        pytest.param(SubagentClosed(False, "hm"), "close failed", id="in words of its own"),
    ],
)
async def test_closed_is_what_was_seen_to_close(returned: SubagentClosed, outcome: str) -> None:
    async def closing(session: Session) -> SubagentClosed:
        return returned

    on = stage(Backend(closing=closing))
    async with on.ledger.open(CODER) as seat:
        await seat.capture(DONE)
    cleanup = seat.row.cleanup
    assert (cleanup.reason if isinstance(cleanup, NotClosed) else str(cleanup)) == outcome
    assert "sk-12345678" not in repr(on.ledger.rows)
    on.journal.check(on.ledger)


async def test_a_close_that_hangs_is_bounded_and_not_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def closing(session: Session) -> SubagentClosed:
        await trio.sleep_forever()
        raise AssertionError

    on = stage(Backend(closing=closing))
    start = trio.current_time()
    async with on.ledger.open(CODER) as seat:
        await seat.capture(DONE)
    assert seat.row.cleanup == NotClosed("close timed out")
    assert trio.current_time() - start == 15
    on.journal.check(on.ledger)


async def test_a_close_that_raises_is_not_closed_and_raises_once() -> None:
    async def closing(session: Session) -> SubagentClosed:
        raise OSError("the socket is gone")

    on = stage(Backend(closing=closing))
    with pytest.raises(OSError, match="the socket is gone"):
        async with on.ledger.open(CODER) as seat:
            await seat.capture(DONE)
    assert seat.row.cleanup == NotClosed("close failed")
    assert on.ledger.slots.holders() == ()
    on.journal.check(on.ledger)


async def test_a_target_without_a_close_says_so_in_the_exact_words() -> None:
    for backend, words, level in [
        (
            Backend(can_close=False),
            "close-unavailable: inventory-only; no close operation",
            "inventory-only",
        ),
        (
            Backend(can_close=False, has_ids=False),
            "close-unavailable: no inventory or close operation",
            "cleanup-unavailable",
        ),
        (
            Backend(has_ids=False),
            "close-unavailable: no inventory or close operation",
            "cleanup-unavailable",
        ),
    ]:
        on = stage(backend)
        async with on.ledger.open(CODER) as seat:
            await seat.capture(DONE)
        assert isinstance(seat.row.cleanup, CloseUnavailable)
        assert str(seat.row.cleanup) == words
        assert on.ledger.rows.targets == {"function": level}
        on.journal.check(on.ledger)


async def test_a_capability_that_proves_wrong_is_corrected() -> None:
    async def closing(session: Session) -> SubagentClosed:
        raise NotImplementedError

    on = stage(Backend(closing=closing))
    async with on.ledger.open(CODER) as seat:
        assert on.ledger.rows.targets == {"function": "automatic-close-supported"}
        await seat.capture(DONE)
    assert on.ledger.rows.targets == {"function": "inventory-only"}
    assert str(seat.row.cleanup) == "close-unavailable: inventory-only; no close operation"
    on.journal.check(on.ledger)


async def test_what_one_target_can_says_nothing_of_another() -> None:
    on = stage(Backend(can_close=False))
    async with on.ledger.open(CODER) as seat:
        await seat.capture(DONE)
        assert set(on.ledger.rows.targets) == {"function"}
    on.backend.can_close = True
    other = SessionSpec(Agent("coder", "Write.", backend="codex"), IMPLEMENTER)
    async with on.ledger.open(other) as seat:
        await seat.capture(DONE)
        assert on.ledger.rows.targets == {
            "function": "inventory-only",
            "backend codex": "automatic-close-supported",
        }


async def test_a_cancelled_block_has_settled_its_session() -> None:
    on = stage()
    with trio.CancelScope() as scope:
        async with on.ledger.open(CODER) as seat:
            await seat.capture(DONE)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert str(seat.row.cleanup) == "closed=yes"
    assert on.backend.closes == ["coder#1"]
    on.journal.check(on.ledger)


async def test_closing_twice_and_at_once_is_closing_once() -> None:
    on = stage()
    outcomes: list[Any] = []
    async with on.ledger.open(CODER) as seat:
        receipt = await seat.capture(DONE)

        async def close() -> None:
            outcomes.append(await seat.close(receipt))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(close)
        await close()
    assert len(set(map(id, outcomes))) == 1
    assert on.backend.closes == ["coder#1"]
    on.journal.check(on.ledger)


# ---- windows, superseding


async def test_an_open_window_blocks_the_close_and_leaving_it_by_an_error_releases_it() -> None:
    on = stage()
    async with on.ledger.open(CODER) as seat:
        receipt = await seat.capture(DONE)
        await seat.complete()

        async def follow_up() -> None:
            with seat.window():
                with pytest.raises(WindowOpen, match="d12_1 is kept open"):
                    await seat.close(receipt)
                assert await on.ledger.clean_up() == ()
                with seat.window():
                    pass
                with pytest.raises(WindowOpen):
                    await seat.close(receipt)
                raise KeyError

        with pytest.raises(KeyError):
            await follow_up()
        assert on.backend.closes == []
        assert await on.ledger.clean_up() == ("d12_1",)
    on.journal.check(on.ledger)


async def test_a_session_is_superseded_with_a_receipt_and_a_reason() -> None:
    on = stage()
    async with on.ledger.open(CODER) as seat:
        receipt = await seat.capture(DONE)
        with pytest.raises(BadFact, match="it has no reason"):
            await seat.supersede(receipt, "")
        await seat.supersede(receipt, "a larger model is needed")
        row = seat.row
        # A decision, and no state that it is in.
        assert (row.superseded, row.operation) == ("a larger model is needed", Operation.WAITING)
        assert row.cleanup is None
        assert await on.ledger.clean_up() == ("d12_1",)
    on.journal.check(on.ledger)


LARGER = SessionSpec(Agent("coder", echo, model="openai/gpt-5"), IMPLEMENTER, Scope(task="t1"))


async def test_another_configuration_of_a_task_needs_a_respawn() -> None:
    on = stage()
    async with on.ledger.open(CODER) as seat:
        with pytest.raises(NotReplaced, match=r"needs a capture, .* and then respawn\(\)"):
            await on.ledger.reserve(LARGER)
        decision = await seat.supersede(await seat.capture(DONE), "a larger model is needed")
        async with on.ledger.respawn(LARGER, decision) as larger:
            assert str(seat.row.cleanup) == "closed=yes"
            assert larger.row.replaces == seat.ref.name
            assert larger.row.configuration.model == "openai/gpt-5"
            await larger.capture(DONE)
    on.journal.check(on.ledger)


async def test_what_could_not_be_closed_is_not_replaced() -> None:
    async def closing(session: Session) -> SubagentClosed:
        return SubagentClosed(False, "close timed out")

    on = stage(Backend(closing=closing))
    async with on.ledger.open(CODER) as seat:
        decision = await seat.supersede(await seat.capture(DONE), "a larger model is needed")
        with pytest.raises(NotReplaced, match="close timed out"):
            async with on.ledger.respawn(LARGER, decision):
                pass
    assert len(on.backend.tried) == 1
    on.journal.check(on.ledger)


async def test_a_decision_made_by_hand_replaces_nothing() -> None:
    on, other = stage(), stage()
    async with other.ledger.open(CODER) as seat:
        decision = await seat.supersede(await seat.capture(DONE), "a larger model is needed")
        with pytest.raises(ForgedReceipt):
            async with on.ledger.respawn(LARGER, decision):
                pass
    assert on.backend.tried == []


# ---- rows


async def test_no_dimension_of_a_row_is_derived_from_another() -> None:
    on = stage()
    async with on.ledger.open(CODER) as seat:
        await on.ledger.note(
            seat.ref,
            anchor=Anchor("a" * 40, "b" * 40),
            reviewer="COMPLETE_WITH_FINDINGS",
            fixups=2,
            blocker=Blocker("review-loop-limit", "They do not agree."),
            reuse=Reuse("retained context available to follow-up"),
            inventory=Inventory("not listed"),
        )
        row = seat.row
        assert row.operation is Operation.WAITING
        assert (row.cleanup, row.captured, row.unspawned) == (None, None, None)
        assert (row.fixups, row.reviewer) == (2, "COMPLETE_WITH_FINDINGS")
        await on.ledger.note(seat.ref, fixups=3)
        assert (seat.row.fixups, seat.row.anchor.head) == (3, "b" * 40)
        await seat.capture(DONE)
        await seat.complete()
        assert (seat.row.operation, seat.row.cleanup) == (Operation.COMPLETED, None)
    on.journal.check(on.ledger)


async def test_a_cut_turn_interrupts_and_closes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = stage()
    async with on.ledger.open(SessionSpec(Agent("slow", slow), SUBAGENT)) as seat:
        with trio.move_on_after(1):
            await seat.ask("a")
        assert (seat.row.operation, seat.row.status) == (Operation.INTERRUPTED, "cancelled")
        assert seat.row.cleanup is None
        assert (await seat.ask("b")).ok
        assert (seat.row.operation, seat.row.status) == (Operation.WAITING, "ok")
    on.journal.check(on.ledger)


async def test_what_is_completed_takes_nothing_any_more() -> None:
    on = stage()
    async with on.ledger.open(SessionSpec(SCOUT, SUBAGENT)) as seat:
        await seat.complete()
        assert (await seat.ask("more")).status == "refused"
        assert on.backend.opened[0].tasks == []


async def test_it_is_not_completed_in_mid_turn(autojump_clock: trio.testing.MockClock) -> None:
    on = stage()
    async with on.ledger.open(SessionSpec(Agent("slow", slow), SUBAGENT)) as seat:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(seat.ask, "a")
            await trio.sleep(1)
            with pytest.raises(RuntimeError, match="d19_1 is at work"):
                await seat.complete()
        assert seat.row.operation is Operation.WAITING


def test_a_fact_that_cannot_be_true_is_refused() -> None:
    reserved = SessionReserved(
        task_name(12, 1), "implementer", Scope(), CODER.configuration, "function"
    )
    with pytest.raises(BadFact, match="there is no such row"):
        fold([SlotRetried(task_name(12, 1))])
    with pytest.raises(BadFact, match="that name was given before"):
        fold([reserved, reserved])
    with pytest.raises(BadFact, match="its state was not captured"):
        fold([reserved, SessionClosed(task_name(12, 1), "coder#1")])
    once: list[Fact] = [reserved, SlotRetried(task_name(12, 1))]
    with pytest.raises(BadFact, match="it was retried before"):
        fold([*once, SlotRetried(task_name(12, 1))])
    assert fold([reserved, SessionNotSpawned(task_name(12, 1), "cut")]).ordered()[0].is_over


async def test_sessions_of_a_process_that_is_gone_are_not_said_to_be_closed() -> None:
    on = stage()
    cut: list[Any] = []
    async with on.ledger.open(CODER) as done:
        await done.capture(DONE)
    async with on.ledger.open(CODER) as seat:
        await seat.capture(DONE)
        await on.ledger.reserve(CODER)
        cut = on.journal.facts
    again = SessionLedger(facts=cut, spawn=on.backend.spawn, slots=1)
    assert await again.recover() == ("d12_2", "d12_3")
    rows = again.rows.ordered()
    assert str(rows[0].cleanup) == "closed=yes"
    assert rows[1].cleanup == rows[2].cleanup == NotClosed("owner gone")
    assert rows[1].operation is Operation.INTERRUPTED
    assert rows[1].captured is not None
    assert again.slots.holders() == ()
    assert await again.recover() == ()
    with pytest.raises(SessionNotHere):
        again.row(SessionRef(task_name(1, 1), IMPLEMENTER))


# ---- prompts


async def test_no_prompt_has_anything_of_a_row_in_it() -> None:
    on = stage()
    scope = Scope(task="t-canary", phase="p-canary", review="r-canary")
    spec = SessionSpec(SCOUT, SUBAGENT, scope, capability="c-canary")
    async with on.ledger.open(spec) as seat:
        await on.ledger.note(seat.ref, blocker=Blocker("b-canary", "d-canary"))
        await seat.ask("first")
        await seat.ask("second")
        async with on.ledger.spawn(SCOUT) as player:
            await player.ask("third")
    assert [session.tasks for session in on.backend.opened] == [["first", "second"], ["third"]]
    assert "canary" not in json.dumps([session.tasks for session in on.backend.opened])
