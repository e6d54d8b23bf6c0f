"""A person is asked on a terminal, by a page, or by nobody at all."""

from __future__ import annotations

import io

import pytest
import trio
import trio.testing

from standby_combinators.asker import (
    Answer,
    Option,
    PostedAsker,
    Question,
    ScriptedAsker,
    TerminalAsker,
    answered,
    parse_question,
)

WHICH = Question("Which way?", (Option("left"), Option("right", "to the sea")), "Walk")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        pytest.param("1", Answer("Which way?", "left"), id="a number"),
        pytest.param(" RIGHT ", Answer("Which way?", "right"), id="a label"),
        pytest.param("3", Answer("Which way?", "3", custom=True), id="no such number"),
        pytest.param("up", Answer("Which way?", "up", custom=True), id="a word of one's own"),
    ],
)
def test_an_answer_picks_an_option_or_is_ones_own(said: str, answer: Answer) -> None:
    assert answered(WHICH, said) == answer


@pytest.mark.parametrize(
    ("said", "question"),
    [
        pytest.param('{"question": " "}', None, id="blank"),
        pytest.param('{"question": 3, "options": []}', None, id="no text"),
        pytest.param('{"question": "Q?", "options": 7}', Question("Q?"), id="options are none"),
        pytest.param(
            'Well: {"question": "Q?", "options": [3, "", {"label": "a"}, {"no": 1}]} and so on',
            Question("Q?", (Option("a"),)),
            id="in prose, with options that are none",
        ),
    ],
)
def test_a_question_is_read_leniently(said: str, question: Question | None) -> None:
    assert parse_question(said) == question


async def test_a_terminal_shows_the_question_and_reads_a_line() -> None:
    out, lines = io.StringIO(), iter(["2", ""])
    asker = TerminalAsker(out, lambda: next(lines))
    assert await asker.ask(WHICH) == Answer("Which way?", "right")
    assert out.getvalue() == "Walk: Which way?\n  1. left\n  2. right: to the sea\n"
    assert await asker.ask(WHICH) is None


async def test_the_end_of_the_input_is_a_person_who_answers_no_more() -> None:
    def read() -> str:
        raise EOFError

    assert await TerminalAsker(io.StringIO(), read).ask(WHICH) is None


async def test_a_script_that_has_run_out_answers_no_more() -> None:
    asker = ScriptedAsker(["left"])
    assert await asker.ask(WHICH) == Answer("Which way?", "left")
    assert await asker.ask(WHICH) is None
    assert asker.asked == [WHICH, WHICH]


async def test_a_posted_question_that_is_given_up_is_posted_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asker = PostedAsker()
    with trio.move_on_after(5) as scope:
        await asker.ask(WHICH)
    assert scope.cancelled_caught
    assert asker.pending == {}
    assert not asker.answer(1, "left")
