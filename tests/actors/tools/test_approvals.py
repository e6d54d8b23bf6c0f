"""Who may call what: rules, people, deadlines, and questions that outlive a process."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from standby_actors.tools.approvals import (
    ApprovalRequest,
    ApprovalRule,
    Approvals,
    ApprovalState,
    Approved,
    approvals_of,
)
from standby_actors.tools.calls import CallHistory, run_calls
from tests.actors.tools.calling import Counted, answer, call

N1 = '{"n":1}'


def asking() -> Counted:
    return Counted(approval="ask")


@pytest.mark.parametrize(
    ("policy", "ran"), [("allow", 1), ("reject", 0), (None, 0)], ids=["allow", "reject", "nobody"]
)
async def test_a_policy_decides_where_nobody_can_be_asked(policy: Any, ran: int) -> None:
    work, free = asking(), Counted("free")
    calls = [call("work", N1), call("free", N1)]
    answers = await run_calls(
        calls, [work.tool, free.tool], CallHistory(), approvals=approvals_of(policy)
    )
    assert (len(work.ran), len(free.ran)) == (ran, 1)
    assert answers.answered[0].output.is_error is (ran == 0)
    if not ran:
        assert "was not approved: nobody is there to approve it." in answers.answered[0].output.text


async def test_a_function_asks_somebody_and_always_is_remembered() -> None:
    asked: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> Approved:
        asked.append(request)
        return Approved("allow_always", arguments='{"n":1*')

    work = asking()
    approvals = Approvals(ask=ask)
    for n in (1, 12, 2):
        await answer(call("work", n=n), work.tool, approvals=approvals, subagent="coder#1")
    assert [request.arguments for request in asked] == ['{"n":1}', '{"n":2}']
    assert asked[0].subagent == "coder#1"
    assert asked[0].description == "Work."
    assert len(work.ran) == 3


async def test_a_rejection_is_told_with_its_reason_and_remembered() -> None:
    async def ask(request: ApprovalRequest) -> Approved:
        return Approved("reject_always", "not on a Friday")

    work = asking()
    approvals = Approvals(ask=ask)
    for _ in range(2):
        answered = await answer(call("work", N1), work.tool, approvals=approvals)
        assert answered.output.is_error
        assert "was not approved: not on a Friday." in answered.output.text
        assert answered.fate == "refused"
    assert approvals.rules == [ApprovalRule("work", "reject", reason="not on a Friday")]
    assert work.ran == []


async def test_a_request_waits_until_somebody_answers() -> None:
    work = asking()
    approvals = Approvals()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: answer(call("work", N1), work.tool, approvals=approvals)  # pyright: ignore[reportArgumentType]
        )
        await trio.testing.wait_all_tasks_blocked()
        [request] = approvals.pending
        assert work.ran == []
        approvals.answer(request.id, "allow_once")
    assert (len(work.ran), approvals.pending) == (1, ())
    with pytest.raises(KeyError, match="no request 'approval-1' waits"):
        approvals.answer(request.id, "allow_once")


async def test_nobody_answers_and_the_deadline_refuses(
    autojump_clock: trio.testing.MockClock,
) -> None:
    work = asking()
    approvals = Approvals(deadline=30)
    answered = await answer(call("work", N1), work.tool, approvals=approvals)
    assert "nobody answered within 30 s" in answered.output.text
    assert (trio.current_time() > 29, approvals.pending, work.ran) == (True, (), [])


async def test_waiting_for_a_person_is_not_the_tools_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def ask(request: ApprovalRequest) -> str:
        await trio.sleep(500)
        return "allow_once"

    work = Counted(approval="ask", timeout=1)
    answered = await answer(call("work", N1), work.tool, approvals=approvals_of(ask))  # type: ignore[arg-type] # any text is tried
    assert answered.output.text == "worked 1"


async def test_a_cut_turn_takes_its_requests_with_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    approvals = Approvals()
    with trio.move_on_after(1):
        calls = [call("work", n=n) for n in range(5)]
        await run_calls(calls, [asking().tool], CallHistory(), approvals=approvals)
    assert approvals.pending == ()


async def test_an_approver_that_fails_gives_no_permission() -> None:
    async def ask(request: ApprovalRequest) -> Approved:
        raise OSError("no terminal")

    work = asking()
    answered = await answer(call("work", N1), work.tool, approvals=Approvals(ask=ask))
    assert "could not be approved (OSError: no terminal)" in answered.output.text
    assert work.ran == []


async def test_an_answer_that_is_no_choice_gives_no_permission() -> None:
    async def ask(request: ApprovalRequest) -> Any:
        return "yes"

    work = asking()
    answered = await answer(call("work", N1), work.tool, approvals=Approvals(ask=ask))
    assert answered.output.is_error
    assert work.ran == []


async def test_rules_hold_for_tools_that_do_not_ask_and_the_last_one_wins() -> None:
    free = Counted("free")
    rules = [ApprovalRule("*", "reject"), ApprovalRule("free", "allow", '{"n":1}')]
    approvals = Approvals(rules)
    assert (await answer(call("free", n=1), free.tool, approvals=approvals)).fate == "ran"
    assert (await answer(call("free", n=2), free.tool, approvals=approvals)).fate == "refused"


@pytest.mark.parametrize(
    ("rule", "covers"),
    [
        pytest.param(ApprovalRule("mcp__git__*", "allow"), False, id="another tool"),
        pytest.param(ApprovalRule("work", "allow", '{"n":[1]}'), False, id="brackets are text"),
        pytest.param(ApprovalRule("w?rk", "allow", '*"n":1*'), True, id="wild cards"),
        pytest.param(ApprovalRule("WORK", "allow"), False, id="case matters"),
    ],
)
def test_a_rule_covers_by_pattern(rule: ApprovalRule, covers: bool) -> None:
    assert rule.covers("work", N1) is covers


async def test_a_question_outlives_its_process_and_its_answer_holds_for_the_same_call() -> None:
    first = Approvals([ApprovalRule("x", "allow")])
    stored = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: answer(call("work", N1), asking().tool, approvals=first, subagent="a#1")  # pyright: ignore[reportArgumentType]
        )
        await trio.testing.wait_all_tasks_blocked()
        stored = msgspec.json.encode(first.state)
        nursery.cancel_scope.cancel()

    later = Approvals.restored(msgspec.json.decode(stored, type=ApprovalState))
    [request] = later.pending
    assert (request.tool, request.arguments, request.subagent) == ("work", N1, "a#1")
    later.answer(request.id, "allow_once")
    assert later.pending == ()
    work = asking()
    assert (
        await answer(call("work", N1), work.tool, approvals=later, subagent="a#1")
    ).fate == "ran"
    # Once is once: the next one is a question again.
    with trio.move_on_after(0.01):
        await answer(call("work", N1), work.tool, approvals=later, subagent="a#1")
    assert len(work.ran) == 1


def test_what_says_nothing_about_approvals_is_refused() -> None:
    with pytest.raises(TypeError, match="approvals are"):
        approvals_of("maybe")  # type: ignore[arg-type] # it is what is tested
    with pytest.raises(ValueError, match="deadline"):
        Approvals(deadline=0)
