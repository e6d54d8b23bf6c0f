"""How a person is asked: a port with one method, and three who stand behind it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TextIO, cast

import msgspec
import trio

from standby_actors.modeltext import json_objects


class Option(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """An answer that is offered."""

    label: str
    description: str = ""


class Question(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What a person is asked."""

    text: str
    options: tuple[Option, ...] = ()
    """Offered, not imposed: any other answer is one too."""
    header: str = ""

    @property
    def key(self) -> str:
        """The same for a question that is asked again, however it is spaced or spelt."""
        return " ".join(self.text.casefold().split()).rstrip("?.! ")


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What a person says."""

    question: str
    text: str
    custom: bool = False
    """It was none of the options."""


class Asker(Protocol):
    """Whoever can ask a person."""

    async def ask(self, question: Question, /) -> Answer | None:
        """The answer; None for a person who wants to answer no more.

        Cancelled, nothing is answered.
        """
        ...


def answered(question: Question, text: str) -> Answer:
    """`text` as the answer to `question`; a number picks the option that has it, from 1.

    Examples:
        >>> question = Question("Which?", (Option("left"), Option("right")))
        >>> answered(question, "2")
        Answer(question='Which?', text='right')
        >>> answered(question, "straight on").custom
        True
    """
    text = text.strip()
    labels = [option.label for option in question.options]
    if text.isdecimal() and 1 <= int(text) <= len(labels):
        return Answer(question.text, labels[int(text) - 1])
    same = next((label for label in labels if label.casefold() == text.casefold()), None)
    return Answer(question.text, same or text, custom=same is None)


def parse_question(text: str) -> Question | None:
    """The question in what an interviewer wrote; None if it asks none.

    The first JSON object with a `question`; `options` are texts, or objects with a
    `label` and perhaps a `description`.

    Examples:
        >>> parse_question('{"question": "Which?", "options": ["left", {"label": "right"}]}')
        Question(text='Which?', options=(Option(label='left'), Option(label='right')))
        >>> parse_question("Which way?") is None
        True
    """
    for each in json_objects(text):
        said = each.get("question")
        if isinstance(said, str) and said.strip():
            header = each.get("header")
            offered: Any = each.get("options") or []
            options = (
                tuple(option for one in offered if (option := _option(one)) is not None)
                if isinstance(offered, list)
                else ()
            )
            return Question(said.strip(), options, header if isinstance(header, str) else "")
    return None


def _option(said: Any) -> Option | None:
    if isinstance(said, str) and said.strip():
        return Option(said.strip())
    if isinstance(said, dict):
        one = cast("Mapping[str, Any]", said)
        label, description = one.get("label"), one.get("description")
        if isinstance(label, str) and label.strip():
            return Option(label.strip(), description if isinstance(description, str) else "")
    return None


class ScriptedAsker:
    """Answers from a list, in order, and then wants to answer no more.

    Args:
        answers: a text each; a number picks an option.
    """

    def __init__(self, answers: Iterable[str]) -> None:
        self._answers = iter(answers)
        self.asked: list[Question] = []
        """What was asked, in order."""

    async def ask(self, question: Question, /) -> Answer | None:
        """The next answer."""
        await trio.lowlevel.checkpoint()
        self.asked.append(question)
        text = next(self._answers, None)
        return None if text is None else answered(question, text)


class TerminalAsker:
    """Asks on a terminal, one question at a time, whoever asks.

    An empty line, or the end of the input, is a person who wants to answer no more.
    A cancelled question leaves its thread waiting for a line, because nothing can
    take a read of a terminal back.

    Args:
        out: where the question is printed; the standard error unless given, so
            that the output of a program stays its own.
        read: reads a line, without its end; raises `EOFError` at the end.
    """

    def __init__(self, out: TextIO | None = None, read: Callable[[], str] = input) -> None:
        self._out = out or sys.stderr
        self._read = read
        self._turn = trio.Lock()

    async def ask(self, question: Question, /) -> Answer | None:
        """Print the question, and wait for a line."""
        async with self._turn:
            print(render_question(question), file=self._out, flush=True)
            try:
                text = await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
            except EOFError:
                return None
        return answered(question, text) if text.strip() else None


def render_question(question: Question) -> str:
    """The question as a terminal shows it.

    Examples:
        >>> print(render_question(Question("Which?", (Option("left", "to the sea"),))))
        Which?
          1. left: to the sea
    """
    lines = [f"{question.header}: {question.text}" if question.header else question.text]
    for number, option in enumerate(question.options, 1):
        what = f": {option.description}" if option.description else ""
        lines.append(f"  {number}. {option.label}{what}")
    return "\n".join(lines)


class PostedAsker:
    """Keeps questions until somebody answers them from elsewhere: a web page, a chat.

    Examples:
        ``asker.pending`` is shown; ``asker.answer(id, text)`` ends the wait of whoever asked.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Question, trio.Event]] = {}
        self._answers: dict[int, Answer | None] = {}
        self._count = 0

    @property
    def pending(self) -> Mapping[int, Question]:
        """Questions without an answer, by id, oldest first."""
        return {number: question for number, (question, _) in self._waiting.items()}

    def answer(self, id: int, text: str | None) -> bool:  # noqa: A002 - as a page has it
        """Answer a question; None to answer no more.  False if nobody waits for it."""
        if id not in self._waiting:
            return False
        question, over = self._waiting.pop(id)
        self._answers[id] = None if text is None else answered(question, text)
        over.set()
        return True

    async def ask(self, question: Question, /) -> Answer | None:
        """Post the question, and wait for its answer.  Cancelled, it is posted no more."""
        self._count += 1
        number, over = self._count, trio.Event()
        self._waiting[number] = (question, over)
        try:
            await over.wait()
            return self._answers[number]
        finally:
            self._waiting.pop(number, None)
            self._answers.pop(number, None)
