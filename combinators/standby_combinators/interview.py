"""One asks a person, question by question, and writes down what they want."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import trio
from attrs import field, frozen

from standby_actors.agent import Agent
from standby_actors.modeltext import says_word
from standby_actors.result import Result

from .asker import Answer, Asker, Question, parse_question
from .checks import at_least, check_seconds
from .endings import raised_by, without_failures
from .member import Asked, Member, member_of
from .options import Options
from .team import Stage, Team
from .trail import Report

MAX_QUESTIONS = 6
"""Questions to a person at most, unless another number is given."""

READY = "READY"
"""What an interviewer says alone on a line when it needs to know no more."""


class Interviewed(Report, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What an interview came to: its output is the brief."""

    answers: tuple[Answer, ...] = ()
    """What the person said, those known before included: what is never asked again."""
    submitted: bool = False
    """The person wanted to answer no more, before the interviewer was ready."""


@frozen(eq=False)
class Interview(Team[Interviewed]):
    """:func:`interview` as a member of a team."""

    interviewer: Asked = field(converter=member_of)
    asker: Asker
    max_questions: int = field(
        default=MAX_QUESTIONS, kw_only=True, validator=at_least(1, "questions")
    )
    known: Sequence[Answer] = field(default=(), kw_only=True)
    patience: float | None = field(default=None, kw_only=True, validator=check_seconds)
    name: str = field(default="interview", kw_only=True)
    description: str = field(default="", kw_only=True)

    async def play(self, task: str, stage: Stage, /) -> Interviewed:
        """Ask until it is enough, then have the brief written."""
        who = self.interviewer
        # One who forgot the question before would hold no conversation.
        held = await stage.hold(who) if isinstance(who, Agent) else None

        async def ask(text: str) -> Result:
            return await (stage.turn(who, text) if held is None else held.ask(text))

        known = {Question(each.question).key: each for each in self.known}
        steps: list[Result] = []
        submitted = False

        def ended(deciding: Result) -> Interviewed:
            return stage.report(
                deciding,
                steps,
                kind=Interviewed,
                answers=tuple(known.values()),
                submitted=submitted,
            )

        left = self.max_questions
        text = opening_prompt(task, self.known, left)
        while left > 0:
            said = await ask(text)
            steps.append(said)
            if not said.ok:
                return ended(said)
            question = None if says_word(said.output, READY) else parse_question(said.output)
            if question is None:
                break
            left -= 1
            there = known.get(question.key)
            if there is not None:
                text = f"That was answered before: {there.text}\n\n{_left(left)}"
                continue
            try:
                answer = await self._asked(question, stage)
            # A combinator counts failures: to raise here would lose the turns, which were paid for.
            except Exception as error:
                steps.append(stage.refuse(who, raised_by("the asker", error)))
                return ended(steps[-1])
            except BaseExceptionGroup as group:
                raise without_failures(group) from None
            if stage.signal is not None and stage.signal.error is not None:
                steps.append(stage.refuse(who, stage.signal.error))
                return ended(steps[-1])
            if answer is None:
                submitted = True
                break
            known[question.key] = answer
            typed = " (typed, not one of your options)" if answer.custom else ""
            text = f"The answer{typed}: {answer.text}\n\n{_left(left)}"
        brief = await ask(brief_prompt(task, tuple(known.values())))
        steps.append(brief)
        return ended(brief)

    async def _asked(self, question: Question, stage: Stage) -> Answer | None:
        """What the person says; None also if nobody does in time, or all is called off."""
        scope = trio.CancelScope()
        if self.patience is not None:
            scope.deadline = trio.current_time() + self.patience
        answer: Answer | None = None
        if stage.signal is None:
            with scope:
                answer = await self.asker.ask(question)
        else:
            with stage.signal.calling(scope.cancel), scope:
                answer = await self.asker.ask(question)
        return answer


async def interview(
    interviewer: Member,
    task: str,
    asker: Asker,
    *,
    max_questions: int = MAX_QUESTIONS,
    known: Sequence[Answer] = (),
    patience: float | None = None,
    **options: Unpack[Options],
) -> Interviewed:
    """Have a person asked, one question at a time, and a brief written of what they say.

    The interviewer asks with a JSON object, `question` and `options`; READY alone on a
    line, or any other prose, ends the questions.  A question that was answered is
    never put to the person again: the interviewer is told the answer.  The last turn
    writes the brief, also when the person wants to answer no more.

    The steps of the Report are the interviewer's turns; the last, the brief, decides.

    Args:
        interviewer: who asks; an agent is held for the whole conversation.
        task: what the person wants, in their own words.
        asker: how the person is asked.
        max_questions: at most so many, at least 1.
        known: what was answered before, as in an interview that was cut.
        patience: seconds to wait for each answer, after which it is as if the person
            wanted to answer no more; None to wait.
        options: about the subagents; see :class:`Options`.

    Raises:
        ModelError: there is no model to ask.
        TypeError: the interviewer cannot be asked; nothing was spawned.
        ValueError: a number is out of its range.
    """
    made = Interview(
        interviewer, asker, max_questions=max_questions, known=known, patience=patience
    )
    return await made.ask(task, **options)


def opening_prompt(task: str, known: Sequence[Answer], left: int) -> str:
    """What an interviewer is asked first."""
    parts = [f"Find out what is to be done here by asking the person.\n\n## Request\n\n{task}"]
    if known:
        parts.append(f"## What is known\n\n{_answers(known)}")
    parts.append(
        'Ask one question at a time, as a JSON object: {"question": "…", "options": ["…", "…"]}.'
        f" When you know enough, answer {READY} and nothing else. {_left(left)}"
    )
    return "\n\n".join(parts)


def brief_prompt(task: str, answers: Sequence[Answer]) -> str:
    """What an interviewer is asked last."""
    said = _answers(answers) or "The person answered nothing."
    return (
        "Ask no more. Write the brief: what is to be done, with all that was decided.\n\n"
        f"## Request\n\n{task}\n\n## Answers\n\n{said}"
    )


def _answers(answers: Sequence[Answer]) -> str:
    return "\n".join(f"- {each.question} {each.text}" for each in answers)


def _left(left: int) -> str:
    if left == 0:
        return "That was the last question."
    return "You have 1 question left." if left == 1 else f"You have {left} questions left."
