"""The calls of one message: side by side, bounded, each one answered."""

from __future__ import annotations

import json
import os
import random
import string
from typing import Any

import pytest
import trio
import trio.testing

from standby.testing import sweep
from standby_actors.result import Attachment, ToolCall
from standby_actors.session import SessionEvent, ToolEnded, ToolStarted
from standby_actors.tools.calls import CallHistory, run_calls
from standby_actors.tools.guard import CallLimits
from standby_actors.tools.tool import ToolContext, ToolOutput, tool
from tests.actors.tools.calling import Counted, answer, call

GOOD = '{"n": 1}'


async def test_calls_run_side_by_side_and_are_answered_in_order(
    autojump_clock: trio.testing.MockClock,
) -> None:
    @tool
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return f"slept {seconds:g}"

    began = trio.current_time()
    answers = await run_calls([call("sleep", seconds=s) for s in (3, 1, 2)], [sleep], CallHistory())
    assert [each.output.text for each in answers.answered] == ["slept 3", "slept 1", "slept 2"]
    assert trio.current_time() - began == pytest.approx(3)
    assert [round(each.seconds) for each in answers.answered] == [3, 1, 2]


async def test_no_more_run_together_than_the_bound(autojump_clock: trio.testing.MockClock) -> None:
    running = most = 0

    @tool
    async def work(n: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    await run_calls([call("work", n=n) for n in range(30)], [work], CallHistory())
    assert most == 8


async def test_tools_that_want_it_are_called_in_order(
    autojump_clock: trio.testing.MockClock,
) -> None:
    did: list[str] = []

    @tool(in_order=True)
    async def first(n: int) -> None:
        did.append(f"first {n}")
        await trio.sleep(10 - n)
        did.append(f"end {n}")

    @tool(in_order=True)
    async def second() -> None:
        did.append("second")

    calls = [call("first", n=1), call("second"), call("first", n=2)]
    await run_calls(calls, [first, second], CallHistory())
    assert did == ["first 1", "end 1", "second", "first 2", "end 2"]


async def test_a_call_that_takes_too_long_is_cut_and_the_others_are_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    @tool(timeout=10)
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    calls = [call("sleep", seconds=1000), call("sleep", seconds=9)]
    late, fine = (await run_calls(calls, [sleep], CallHistory())).answered
    assert late.output.is_error
    assert "longer than its 10 s.  It was stopped." in late.output.text
    assert (late.fate, late.seconds, fine.output.text) == ("failed", 10, "slept")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("wrok", "There is no tool 'wrok'.  Do you mean work?", id="near"),
        pytest.param("?", "The call names no tool.  The tools are: work.", id="no name"),
        pytest.param("", "The call names no tool.", id="an empty name"),
        pytest.param("\n" * 10_000, "There is no tool", id="a very long name"),
    ],
)
async def test_an_unknown_name_is_answered_with_what_there_is(name: str, says: str) -> None:
    work = Counted()
    answered = await answer(call(name, GOOD), work.tool)
    assert answered.output.text.startswith(says)
    assert answered.output.is_error
    assert len(answered.output.text) < 1000
    assert (answered.fate, work.ran) == ("unknown", [])


MALFORMED = [
    pytest.param('{"n": 1', "no JSON", id="cut"),
    pytest.param("[]", "must be a JSON object, and are []", id="a list"),
    pytest.param("null", "must be a JSON object, and are null", id="null"),
    pytest.param('{"n": NaN}', "NaN is no JSON", id="NaN"),
    pytest.param('{"n": 1e999}', "too large", id="a number without end"),
    pytest.param('{"n": "1"}', "`n` must be an integer", id="a wrong type"),
    pytest.param('{"n": true}', "`n` must be an integer", id="a truth for a number"),
    pytest.param("{}", "`n` is missing", id="nothing"),
    pytest.param("", "`n` is missing", id="no text at all"),
    pytest.param('{"n": 1, "n": 2}', "comes twice", id="a key twice"),
    pytest.param('{"n": 1} and more', "Extra data", id="text behind"),
    pytest.param('```json\n{"n": 1}\n```', "no JSON", id="a fence"),
    pytest.param(json.dumps({"n": 1, "word": "x" * 1_000_000}), "at most 500,000", id="1 MB"),
    pytest.param('{"n": 1, "word": "\\ud800"}', "no text", id="half a character"),
    pytest.param('{"n":' + "[" * 100_000 + "]" * 100_000 + "}", "nested", id="very deep"),
    pytest.param('{"n": ' + "9" * 5000 + "}", "no text or no number", id="5,000 digits"),
    pytest.param('{"n": 1, "m": 2}', "`m` is not a parameter", id="one too many"),
    pytest.param("\x00", "no JSON", id="a zero byte"),
]


@pytest.mark.parametrize(("arguments", "why"), MALFORMED)
async def test_malformed_arguments_are_answered_and_their_sibling_runs_once(
    arguments: str, why: str
) -> None:
    work = Counted()
    calls = [call("work", arguments), call("work", GOOD)]
    answers = await run_calls(calls, [work.tool], CallHistory())
    bad, good = answers.answered
    assert bad.output.is_error
    assert why in bad.output.text
    assert len(bad.output.text) < 1000
    assert good.output.text == "worked 1"
    assert (work.ran, answers.error) == ([(1, "")], None)


@pytest.mark.parametrize(("arguments", "why"), MALFORMED)
async def test_after_two_corrections_a_turn_fails(arguments: str, why: str) -> None:
    work = Counted()
    history = CallHistory()
    for n in range(3):
        answers = await run_calls(
            [call("work", arguments), call("work", n=n)], [work.tool], history
        )
        assert (answers.error is not None) is (n == 2)
    assert answers.error is not None
    assert answers.error.kind == "protocol"
    assert len(work.ran) == 2


def malformed(rng: random.Random) -> ToolCall:
    """A call that nobody may execute, by `rng`."""
    good = json.dumps({"n": rng.randrange(1000), "word": "w" * rng.randrange(20)})
    match rng.randrange(8):
        case 0:
            text = good[: rng.randrange(1, len(good))]
        case 1:
            text = good + rng.choice(["}", "x", "{}", ",", "null", "\x00"])
        case 2:
            wrong: Any = rng.choice(["1", None, 1.5, [], {}, True, [1], {"n": 1}])
            text = json.dumps({"n": wrong})
        case 3:
            text = json.dumps(rng.choice([[], None, 0, "x", True, [good], 1.0]))
        case 4:
            text = '{"n": 1, "n": 1}'
        case 5:
            text = "".join(rng.choice(string.printable) for _ in range(1 + rng.randrange(50))) + "!"
        case 6:
            text = good.replace('"n"', rng.choice(['"m"', "n", "'n'", '"n']))
        case _:
            text = rng.choice(['{"n": Infinity}', '{"n": -NaN}', '{"n": 1e400}', '{"n": 0x1}'])
    name = (
        "work" if rng.random() < 0.8 else rng.choice(["", "?", "Work", "work ", "wörk", "w" * 99])
    )
    return ToolCall(f"call_{rng.random()}", name, text)


async def test_of_ten_thousand_malformed_calls_each_is_answered_and_none_executed() -> None:
    seed = int(os.environ.get("STANDBY_SEED") or random.randrange(2**32))
    print(f"STANDBY_SEED={seed}")
    rng = random.Random(seed)
    work = Counted()
    done = 0
    while done < 10_000:
        calls = [malformed(rng) for _ in range(rng.randrange(1, 6))]
        answers = await run_calls(calls, [work.tool], CallHistory())
        assert [each.call for each in answers.answered] == calls
        for message, each in zip(answers.messages(), calls, strict=True):
            assert message.is_error, each
            assert message.call == each.id
            assert message.text.strip(), each
        done += len(calls)
    assert work.ran == []


async def test_the_same_call_is_refused_and_then_ends_the_turn() -> None:
    work = Counted()
    history = CallHistory()
    fates: list[str] = []
    for _ in range(5):
        answers = await run_calls([call("work", GOOD)], [work.tool], history)
        fates.append(answers.answered[0].fate)
    assert fates == ["ran", "ran", "refused", "refused", "refused"]
    assert len(work.ran) == 2
    assert answers.error is not None
    assert (answers.error.kind, answers.ends_turn) == ("runaway", True)


async def test_equal_arguments_are_the_same_call_in_any_order() -> None:
    work = Counted()
    texts = ['{"n":1,"word":"a"}', '{"word":"a", "n":1}', ' {"n" : 1, "word": "\\u0061"}']
    answers = await run_calls([call("work", t) for t in texts], [work.tool], CallHistory())
    assert [each.fate for each in answers.answered] == ["ran", "ran", "refused"]


async def test_a_call_may_be_repeated_after_something_new_was_done() -> None:
    """The tests are run again after every edit."""
    tests, edit = Counted("tests"), Counted("edit")
    history = CallHistory()
    for n in range(20):
        for each in (call("edit", n=n), call("tests", GOOD)):
            answers = await run_calls([each], [tests.tool, edit.tool], history)
            assert answers.error is None
    assert (len(tests.ran), len(edit.ran)) == (20, 20)


async def test_going_round_in_a_circle_is_not_something_new() -> None:
    one, two = Counted("one"), Counted("two")
    history = CallHistory()
    kinds: list[str | None] = []
    for _ in range(10):
        for name in ("one", "two"):
            answers = await run_calls([call(name, GOOD)], [one.tool, two.tool], history)
            kinds.append(answers.error.kind if answers.error else None)
    assert len(one.ran) <= 3
    assert len(two.ran) <= 3
    assert "runaway" in kinds


async def test_a_turn_ends_at_the_cap_and_nothing_of_its_last_message_runs() -> None:
    work = Counted()
    history = CallHistory()
    first = await run_calls([call("work", n=n) for n in range(50)], [work.tool], history)
    assert first.error is None
    over = await run_calls([call("work", n=n) for n in range(50, 53)], [work.tool], history)
    assert over.error is not None
    assert over.error.kind == "runaway"
    assert [each.output.is_error for each in over.answered] == [True] * 3
    assert (len(work.ran), history.count) == (50, 53)


async def test_calling_tools_that_do_not_exist_ends_the_turn() -> None:
    answers = await run_calls(
        [call(f"guess{n}", GOOD) for n in range(5)], [Counted().tool], CallHistory()
    )
    assert answers.error is not None
    assert (answers.error.kind, len(answers.answered)) == ("runaway", 5)


async def test_a_long_output_is_cut_and_says_so() -> None:
    @tool
    async def dump() -> str:
        return "a" * 80_000 + "z" * 80_000

    text = (await answer(call("dump"), dump)).output.text
    assert text.startswith("a" * 25_000 + "\n[… 110,000 of 160,000 characters are not shown …]\nz")
    assert len(text) < 50_100


async def test_attachments_beyond_the_limit_are_left_out_and_that_is_said() -> None:
    @tool
    async def shots() -> ToolOutput:
        some = tuple(Attachment("image/png", b"x" * 6_000_000, f"{n}.png") for n in range(3))
        return ToolOutput("three", attachments=some)

    output = (await answer(call("shots"), shots)).output
    assert len(output.attachments) == 1
    assert "2 attachments are not shown" in output.text


async def test_what_cannot_be_sent_is_replaced() -> None:
    @tool
    async def name() -> str:
        return "file \udcff"

    assert (await answer(call("name"), name)).output.text == "file ?"


async def test_an_output_may_end_the_turn_and_its_siblings_are_answered() -> None:
    @tool
    async def decide() -> ToolOutput:
        return ToolOutput("decided", ends_turn=True)

    work = Counted()
    calls = [call("decide"), call("work", GOOD)]
    answers = await run_calls(calls, [decide, work.tool], CallHistory())
    assert (answers.ends_turn, answers.error, work.ran) == (True, None, [(1, "")])


async def test_no_calls_are_no_answers() -> None:
    assert (await run_calls([], [], CallHistory())).answered == ()


async def test_events_tell_of_what_begins_and_of_every_answer() -> None:
    heard: list[SessionEvent] = []
    work = Counted()
    calls = [call("work", GOOD), call("nothing")]
    await run_calls(calls, [work.tool], CallHistory(), on_event=heard.append)
    assert [type(each) for each in heard] == [ToolEnded, ToolStarted, ToolEnded]
    ended = [each for each in heard if isinstance(each, ToolEnded)]
    assert [(each.call.name, each.is_error) for each in ended] == [
        ("nothing", True),
        ("work", False),
    ]


async def test_cut_from_outside_every_call_is_cut_and_told_of(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cleaned: list[str] = []
    heard: list[SessionEvent] = []

    @tool
    async def hang(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            cleaned.append(name)
            if name == "bad":
                raise ValueError("cannot clean up")

    with trio.move_on_after(5) as scope:
        await run_calls(
            [call("hang", name=n) for n in ("a", "bad", "b")],
            [hang],
            CallHistory(),
            on_event=heard.append,
        )
    assert scope.cancelled_caught
    assert sorted(cleaned) == ["a", "b", "bad"]
    assert sum(isinstance(each, ToolStarted) for each in heard) == 3
    assert sum(isinstance(each, ToolEnded) for each in heard) == 3


async def test_a_nursery_that_fails_while_it_is_cut_does_not_hide_the_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fail() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("cannot clean up")

    @tool
    async def hang() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(trio.sleep_forever)

    heard: list[SessionEvent] = []
    with trio.move_on_after(5) as scope:
        await run_calls([call("hang")], [hang], CallHistory(), on_event=heard.append)
    assert scope.cancelled_caught
    [_, ended] = heard
    assert isinstance(ended, ToolEnded)
    assert "hang was cut with its turn." in ended.output


def test_cut_at_every_step_nothing_is_left() -> None:
    async def scenario(_: Any) -> None:
        running: list[int] = []

        @tool
        async def step(n: int) -> int:
            running.append(n)
            try:
                for _ in range(3):
                    await trio.lowlevel.checkpoint()
            finally:
                running.remove(n)
            return n

        try:
            await run_calls([call("step", n=n) for n in range(4)], [step], CallHistory())
        finally:
            assert running == []

    assert sweep(scenario) > 5


async def test_bounds_can_be_set_and_nonsense_is_refused() -> None:
    work = Counted()
    calls = [call("work", n=n) for n in range(3)]
    answers = await run_calls(calls, [work.tool], CallHistory(), limits=CallLimits(calls=2))
    assert answers.error is not None
    with pytest.raises(ValueError, match="calls is a whole number from 1"):
        CallLimits(calls=0)


async def test_a_tool_with_a_schema_only_is_checked_by_it() -> None:
    from standby_actors.tools.tool import Tool

    ran: list[dict[str, Any]] = []

    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        ran.append(arguments)
        return "ok"

    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}, "r": {"$ref": "http://x/y"}},
    }
    foreign = Tool("foreign", "", schema, run)
    assert "minimum 1" in (await answer(call("foreign", n=0), foreign)).output.text
    assert (await answer(call("foreign", n=1, r=1), foreign)).output.text == "ok"
    assert ran == [{"n": 1, "r": 1}]
