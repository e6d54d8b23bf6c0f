"""What a person is asked and answered while a team works, without a terminal."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from rich.console import Console

from standby.cli.asking import PipedAsker, ToldAsker, read_answers, write_answers
from standby.cli.crew import Crew, Hand
from standby.cli.desk import Desk
from standby.cli.keys import Key
from standby.cli.line import Line
from standby.cli.performing import exit_code
from standby.cli.scene import PROMPT, Scene
from standby_actors.result import Result, failed, succeeded
from standby_combinators.asker import Answer, Option, Question, ScriptedAsker
from standby_combinators.stop import StopSwitch
from tests.support.heard import heard

WHICH = Question("Which?", (Option("left"), Option("right")))


class Sitting:
    """A desk, and what was said there."""

    def __init__(self, desk: Desk, paper: io.StringIO) -> None:
        self.desk = desk
        self.paper = paper

    @property
    def said(self) -> list[str]:
        self.desk.finish()
        return self.paper.getvalue().splitlines()

    def type(self, text: str) -> None:
        for key in (Key("text", text), Key("enter")):
            self.desk.press(key)


@asynccontextmanager
async def sitting(switch: StopSwitch | None = None) -> AsyncGenerator[Sitting]:
    paper = io.StringIO()
    async with trio.open_nursery() as nursery:
        scene = Scene("chain", "Go.", Crew(), line=Line())
        desk = Desk(scene, switch or StopSwitch(), Console(file=paper), None, nursery, live=False)
        yield Sitting(desk, paper)
        nursery.cancel_scope.cancel()


async def test_a_delegate_is_stopped_with_whoever_has_it_work() -> None:
    switch = StopSwitch()
    with switch.standing("boss#1", lambda: None):
        async with sitting(switch) as here:
            hands = here.desk.scene.crew.hands
            hands["boss#1"] = Hand("boss#1")
            hands["helper#1"] = Hand("helper#1", parent="boss#1")
            hands["gone#1"] = Hand("gone#1")
            here.type("/stop helper#1")
            here.type("/stop gone#1")
            assert here.said == [
                "standby: helper#1 works for boss#1: say that name to end both",
                "standby: gone#1 has ended already",
            ]


async def test_questions_are_asked_one_at_a_time_in_their_order() -> None:
    answers: list[Answer | None] = []

    async def ask(desk: Desk, question: Question) -> None:
        answers.append(await desk.ask(question))

    async with sitting() as here, trio.open_nursery() as nursery:
        here.desk.is_deaf = False
        for text in ("First?", "Second?"):
            nursery.start_soon(ask, here.desk, Question(text))
            await trio.testing.wait_all_tasks_blocked()
        assert here.desk.scene.prompt == "answer >"
        here.type("one")
        await trio.testing.wait_all_tasks_blocked()
        here.type("two")
    assert [(each.question, each.text) for each in answers if each] == [
        ("First?", "one"),
        ("Second?", "two"),
    ]
    assert here.desk.scene.prompt == PROMPT


async def test_an_order_is_none_of_the_answers() -> None:
    switch = StopSwitch()
    async with sitting(switch) as here, trio.open_nursery() as nursery:
        here.desk.is_deaf = False
        nursery.start_soon(here.desk.ask, WHICH)
        await trio.testing.wait_all_tasks_blocked()
        here.type("/stop")
        assert switch.signal.is_set
        assert here.desk.scene.prompt == "answer >"
        nursery.cancel_scope.cancel()
    assert here.desk.scene.prompt == PROMPT


@pytest.mark.parametrize("how", ["esc", "ctrl+d"])
async def test_a_key_ends_the_questions(how: str) -> None:
    answers: list[Answer | None] = []

    async def ask() -> None:
        answers.append(await here.desk.ask(WHICH))

    async with sitting() as here, trio.open_nursery() as nursery:
        here.desk.is_deaf = False
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        here.desk.press(Key(how))
    assert answers == [None]


async def test_nobody_is_asked_where_nobody_types() -> None:
    async with sitting() as here:
        here.desk.deafen()
        assert await here.desk.ask(WHICH) is None
        assert here.said == []


async def test_a_terminal_that_goes_away_ends_the_question() -> None:
    answers: list[Answer | None] = []

    async def ask() -> None:
        answers.append(await here.desk.ask(WHICH))

    async with sitting() as here, trio.open_nursery() as nursery:
        here.desk.is_deaf = False
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        here.desk.deafen()
    assert answers == [None]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for each in (reading, writing):
        try:
            os.close(each)
        except OSError:
            continue


async def test_a_question_that_is_cut_takes_no_line(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    asker = PipedAsker(reading)
    with trio.move_on_after(0.01):
        await asker.ask(WHICH)
    os.write(writing, b"2\nown ")
    assert await asker.ask(WHICH) == Answer("Which?", "right")
    os.write(writing, b"words")
    os.close(writing)
    # The last line need not be ended.
    assert await asker.ask(WHICH) == Answer("Which?", "own words", custom=True)
    assert await asker.ask(WHICH) is None


async def test_answers_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_text("1\n")
    with path.open("rb") as file:
        asker = PipedAsker(file.fileno())
        assert await asker.ask(WHICH) == Answer("Which?", "left")
        assert await asker.ask(WHICH) is None


async def test_each_answer_is_kept_at_once_and_told(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    before = (Answer("Before?", "yes"),)
    asker = ToldAsker(ScriptedAsker(["1"]), before, path)
    async with heard() as events:
        assert await asker.ask(WHICH) == Answer("Which?", "left")
        assert read_answers(path) == (*before, Answer("Which?", "left"))
        assert await asker.ask(WHICH) is None
    kinds = [each.type for each in events if each.type.startswith("question.")]
    assert kinds == ["question.asked", "question.answered"] * 2
    assert len(read_answers(path)) == 2


def test_what_holds_no_answers_is_refused_by_its_name(tmp_path: Path) -> None:
    assert read_answers(tmp_path / "none") == ()
    write_answers(tmp_path / "some", [Answer("Which?", "left")])
    assert read_answers(tmp_path / "some") == (Answer("Which?", "left"),)
    for text in ("{", '{"a": 1}', "[1]"):
        (tmp_path / "bad").write_text(text)
        with pytest.raises(ValueError, match="bad holds no answers"):
            read_answers(tmp_path / "bad")


GOOD, BAD = succeeded("a", "Yes."), failed("a", "timeout")


@pytest.mark.parametrize(
    ("result", "doubt", "ended", "code"),
    [
        (GOOD, "", None, 0),
        (GOOD, "not converged", None, 1),
        (GOOD, "", 130, 130),
        (GOOD, "", 143, 143),
        (BAD, "", None, 1),
        (BAD, "", 130, 130),
        (failed("a", "stopped"), "", None, 130),
        (failed("a", "aborted"), "", None, 1),
        (failed("a", "budget"), "", None, 1),
    ],
    ids=["ok", "not good", "ctrl-c", "sigterm", "failed", "both", "stopped", "deadline", "budget"],
)
def test_the_exit_code_says_how_it_ended(result: Result, doubt: str, ended: Any, code: int) -> None:
    assert exit_code(result, doubt, ended) == code
