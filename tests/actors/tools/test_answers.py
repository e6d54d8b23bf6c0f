"""Answers that are tool calls: submit, verdict, and the turn that has to call something."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from standby_actors.tools.answers import Submission, Verdicts, no_tool
from standby_actors.tools.calls import Answers, CallHistory, run_calls
from tests.actors.tools.calling import Counted, call


class Report(msgspec.Struct):
    title: str
    lines: int


async def submit(submission: Submission, history: CallHistory, **arguments: Any) -> Answers:
    return await run_calls([call("submit", **arguments)], [submission.tool], history)


async def test_an_answer_is_handed_in_as_data_and_ends_the_turn() -> None:
    submission = Submission(Report)
    answers = await submit(submission, CallHistory(), title="x", lines=3)
    assert answers.ends_turn
    assert submission.hear(answers) is None
    assert (submission.value, submission.error()) == (Report("x", 3), None)


async def test_what_is_no_object_is_wrapped() -> None:
    submission = Submission(list[int])
    assert submission.tool.parameters["properties"]["value"]["type"] == "array"
    await submit(submission, CallHistory(), value=[1, 2])
    assert submission.value == [1, 2]


async def test_a_wrong_answer_may_be_corrected_once() -> None:
    submission = Submission(Report)
    history = CallHistory()
    wrong = await submit(submission, history, title=1)
    text = wrong.answered[0].output.text
    assert "`title` must be a string, and is 1" in text
    assert "`lines` is missing" in text
    assert submission.hear(wrong) is None
    right = await submit(submission, history, title="x", lines=1)
    assert submission.hear(right) is None
    assert submission.value == Report("x", 1)


async def test_a_second_wrong_answer_fails_the_turn() -> None:
    submission = Submission(Report)
    history = CallHistory()
    submission.hear(await submit(submission, history, title=1))
    error = submission.hear(await submit(submission, history, title=2))
    assert error is not None
    assert error.kind == "schema"
    assert "`title` must be a string, and is 2" in error.message


async def test_the_last_accepted_call_is_the_answer() -> None:
    submission = Submission(int)
    calls = [call("submit", value=1), call("submit", value=2), call("submit", value="x")]
    answers = await run_calls(calls, [submission.tool], CallHistory())
    assert submission.hear(answers) is None
    assert submission.value == 2


def test_a_turn_that_ends_in_prose_is_asked_once() -> None:
    submission = Submission(int)
    assert "Call it now" in (submission.ask_again() or "")
    assert submission.ask_again() is None
    error = submission.error()
    assert error is not None
    assert error.kind == "schema"


async def decide(verdicts: Verdicts, **arguments: Any) -> str:
    answers = await run_calls([call("verdict", **arguments)], [verdicts.tool], CallHistory())
    return answers.answered[0].output.text


async def test_a_rejection_without_remarks_is_refused() -> None:
    verdicts = Verdicts()
    assert "needs its remarks" in await decide(verdicts, approved=False, raised=[" "])
    assert verdicts.verdict is None


async def test_an_unknown_id_is_named_and_the_decision_kept() -> None:
    verdicts = Verdicts({"o1": "test it"})
    resolved = [{"id": "o1", "how": "addressed"}, {"id": "o9", "how": "withdrawn"}]
    said = await decide(verdicts, approved=True, resolved=resolved)
    assert "not known and left out: o9" in said
    assert verdicts.settled


@pytest.mark.parametrize(
    ("arguments", "settled"),
    [
        pytest.param({"approved": True}, False, id="a remark is open"),
        pytest.param(
            {"approved": True, "resolved": [{"id": "o1", "how": "addressed"}], "raised": ["more"]},
            False,
            id="a remark was raised",
        ),
        pytest.param(
            {"approved": True, "resolved": [{"id": "o1", "how": "addressed"}]}, True, id="all done"
        ),
    ],
)
async def test_approved_is_approved_only_with_nothing_open(
    arguments: dict[str, Any], settled: bool
) -> None:
    verdicts = Verdicts({"o1": "test it"})
    said = await decide(verdicts, **arguments)
    assert verdicts.settled is settled
    assert ("not yet approved" in said) is not settled


async def test_a_verdict_ends_the_turn_and_the_last_one_counts() -> None:
    verdicts = Verdicts()
    calls = [call("verdict", approved=True), call("verdict", approved=False, remarks="no")]
    answers = await run_calls(calls, [verdicts.tool], CallHistory())
    assert answers.ends_turn
    assert verdicts.verdict is not None
    assert verdicts.verdict.remarks == "no"


async def test_a_turn_that_must_call_a_tool_and_does_not_has_failed() -> None:
    history = CallHistory()
    error = no_tool(history)
    assert error is not None
    assert error.kind == "no_tool"
    work = Counted()
    await run_calls([call("nothing")], [work.tool], history)
    assert no_tool(history) is not None
    await run_calls([call("work", n=1)], [work.tool], history)
    assert no_tool(history) is None
    missing = no_tool(history, ["work", "grep"])
    assert missing is not None
    assert "did not call grep" in missing.message
