"""What the facts of a run come to: a pure fold, the same in every process."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from attrs import define, field

from standby_actors import Result
from standby_actors.usage import NOTHING, Usage

from .facts import (
    AgentExited,
    AgentRegistered,
    AgentTerminated,
    CancelWanted,
    EffectBegan,
    EffectCut,
    EffectEnded,
    EffectFailed,
    Ending,
    Forgiven,
    QuestionAnswered,
    QuestionAsked,
    QuestionExpired,
    RunEnded,
    RunFact,
    RunInterrupted,
    RunOpened,
    RunReleased,
    RunResumed,
    StepId,
    TurnBegan,
    TurnCut,
    TurnEnded,
)

RunStatus: TypeAlias = Literal["running", "interrupted"] | Ending
"""`running`: somebody works on it.  `interrupted`: nobody does, and it is not over."""

Outcome: TypeAlias = Result | msgspec.Raw | EffectFailed


@define
class Question:
    """One that somebody outside is to answer."""

    asked: QuestionAsked
    answer: str | None = None
    by: str = ""
    expired: bool = False

    @property
    def is_open(self) -> bool:
        """It waits for its answer."""
        return self.answer is None and not self.expired


@define
class RunState:
    """A run, as the facts up to now have left it."""

    name: str = ""
    command: tuple[str, ...] = ()
    cwd: str = ""
    status: RunStatus = "running"
    error: str = ""
    output: str = ""
    lives: int = 0
    """How often somebody has begun to work on it."""
    crashes: int = 0
    """How often in a row its owner has crashed before it brought anything about."""
    outcomes: dict[StepId, Outcome] = field(factory=dict)
    """What has ended, for good."""
    turns: int = 0
    """Turns that have ended, for good."""
    usage: Usage = NOTHING
    """What all turns have cost, those that were cut included."""
    attempts: dict[StepId, int] = field(factory=dict)
    """How often each step was begun without an end or a cut: the steps in doubt."""
    open: dict[StepId, str] = field(factory=dict)
    """The name of each step that has begun, and has not ended or been cut."""
    agents: dict[str, AgentRegistered] = field(factory=dict)
    """Those that have not ended."""
    numbers: dict[str, int] = field(factory=dict)
    """The highest number in an id, for each agent's name."""
    questions: dict[str, Question] = field(factory=dict)

    def apply(self, fact: RunFact) -> None:
        """Take in what happened next."""
        match fact:
            case RunOpened():
                self.name, self.lives = fact.name, 1
                self.command, self.cwd = fact.command, fact.cwd
            case RunResumed():
                self.status, self.error, self.lives = "running", "", self.lives + 1
            case RunInterrupted():
                self.status, self.error = "interrupted", fact.why
                self.crashes += fact.crashed
            case RunReleased():
                self.crashes = 0
            case CancelWanted():
                pass  # a wish, and no end
            case RunEnded():
                self.status, self.error, self.output = fact.how, fact.error, fact.output
            case TurnBegan():
                self._began(fact.step, fact.agent)
            case EffectBegan():
                self._began(fact.step, fact.name)
            case TurnEnded():
                self.turns += 1
                self.usage = self.usage.accumulate(fact.result.usage)
                self._ended(fact.step, fact.result)
            case EffectEnded():
                self._ended(fact.step, fact.value)
            case EffectFailed():
                self._ended(fact.step, fact)
            case TurnCut() | EffectCut() | Forgiven():
                if isinstance(fact, TurnCut) and fact.result is not None:
                    self.usage = self.usage.accumulate(fact.result.usage)
                self.attempts.pop(fact.step, None)
                self.open.pop(fact.step, None)
            case AgentRegistered():
                self.agents[fact.subagent] = fact
                number = int(fact.subagent.rpartition("#")[2] or 0)
                self.numbers[fact.agent] = max(number, self.numbers.get(fact.agent, 0))
            case AgentTerminated():
                pass  # it is there until its exit
            case AgentExited():
                self.agents.pop(fact.subagent, None)
            case QuestionAsked():
                self.questions.setdefault(fact.question, Question(fact))
            case QuestionAnswered():
                question = self.questions.get(fact.question)
                if question is not None and question.is_open:
                    question.answer, question.by = fact.answer, fact.by
            case QuestionExpired():
                question = self.questions.get(fact.question)
                if question is not None and question.is_open:
                    question.expired, question.answer = True, question.asked.default

    def _began(self, step: StepId, name: str) -> None:
        self.attempts[step] = self.attempts.get(step, 0) + 1
        self.open[step] = name

    def _ended(self, step: StepId, outcome: Outcome) -> None:
        self.crashes = 0
        # The first end counts: a second would be another truth about one step.
        self.outcomes.setdefault(step, outcome)
        self.attempts.pop(step, None)
        self.open.pop(step, None)
