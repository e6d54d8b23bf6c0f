"""`standby run chain|fan-out|loop|orchestrate|swarm|interview`: teams of agents by their names."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

from attrs import evolve
from cyclopts import Parameter
from cyclopts.validators import Number

from standby_actors.agent import Agent
from standby_actors.events import emit
from standby_actors.models import ModelError, UnknownModel
from standby_actors.modeltext import says_word
from standby_actors.result import Result
from standby_combinators.asker import Answer, Asker, Question
from standby_combinators.board import Board
from standby_combinators.chain import Chain
from standby_combinators.check import SECONDS as CHECK_SECONDS
from standby_combinators.check import Check, Checked
from standby_combinators.claims import Claims
from standby_combinators.fan_out import CONCURRENCY, FanOut
from standby_combinators.interview import MAX_QUESTIONS, Interview
from standby_combinators.loop import MAX_ITERATIONS, Loop, Looped
from standby_combinators.member import Member
from standby_combinators.orchestrate import Orchestra
from standby_combinators.plan import MAX_TASKS
from standby_combinators.reduce import Reduce
from standby_combinators.swarm import AGREEMENT_INSTRUCTION, ROUNDS, Swarm, Swarmed, agreed
from standby_combinators.team import Stage, Team

from . import FAILED, MISUSE
from .amounts import BadAmount, read_seconds
from .asking import PipedAsker, ToldAsker, check_web, is_piped, read_answers
from .performing import Work, fail, perform
from .settings import (
    DEFAULTS,
    Common,
    Misuse,
    Roster,
    Words,
    read_input,
    read_task,
    read_words,
    settings_of,
)
from .text import one_line, plural

Count = Annotated[int, Parameter(validator=Number(gte=1))]
Flag = Parameter(negative=(), show_default=False)

EACH_LIMIT = 1_000_000
"""Bytes of one file of `--each`."""
BRANCHES_LIMIT = 10_000
"""Branches of one fan-out."""


def _guarded(command: Callable[..., int]) -> Callable[..., int]:
    """`command`, whose misuse is told in a sentence."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> int:
        try:
            return command(*args, **kwargs)
        except Misuse as error:
            return fail(str(error), MISUSE)
        except ModelError as error:
            return fail(str(error), MISUSE if isinstance(error, UnknownModel) else FAILED)

    return guarded


def _perform(
    kind: str,
    names: str,
    words: Words,
    common: Common,
    make: Callable[[Asker], Team[Any]],
    more: Sequence[Agent] = (),
    **rest: Any,
) -> int:
    settings = settings_of(common, (*words.agents, *more), Roster(common).all)
    return perform(Work(f"{kind} {names}", words.task, make, **rest), settings, common)


def _arrows(agents: Sequence[Agent]) -> str:
    return " → ".join(agent.name for agent in agents)


@_guarded
def chain(
    *words: str,
    carry: Annotated[bool, Parameter(negative="--no-carry")] = True,
    common: Common = DEFAULTS,
) -> int:
    """One after the other: what each says is what the next goes on with.

    Parameters
    ----------
    words
        Agents in their order, then the task: one word, so in quotes. Without a task the
        standard input is it.
    carry
        Tell each the task as well, besides what the one before has said.
    """
    read = read_words(words, common, verb="chain")
    return _perform(
        "chain",
        _arrows(read.agents),
        read,
        common,
        lambda _: Chain(read.agents, carry_request=carry),
    )


@_guarded
def fan_out(
    *words: str,
    each: Annotated[
        list[Path] | None, Parameter(consume_multiple=True, negative=(), accepts_keys=False)
    ] = None,
    each_line: Annotated[bool, Flag] = False,
    concurrency: Count = CONCURRENCY,
    fail_fast: Annotated[bool, Flag] = False,
    quorum: Count | None = None,
    first: Annotated[bool, Flag] = False,
    reducer: str | None = None,
    common: Common = DEFAULTS,
) -> int:
    """Side by side: the same question to many agents, or many files or lines to one.

    Parameters
    ----------
    words
        Agents, then the task, which each branch is asked.
    each
        A branch for each of these files, which is shown the file after the task.
    each_line
        A branch for each line of the standard input, which stands after the task.
    concurrency
        Branches at the same time.
    fail_fast
        Cut the others as soon as one has failed.
    quorum
        So many answers are enough; the others are cut.
    first
        The first answer is enough, and is the answer.
    reducer
        An agent that makes one answer of all.
    """
    if each and each_line:
        raise Misuse("--each and --each-line are two ways to say what the branches are: say one")
    items: list[str] | None = None
    if each_line:
        lines = read_input("ls | standby run fan-out scout 'What is it?' --each-line")
        items = [line.strip() for line in lines.splitlines() if line.strip()]
        if not items:
            raise Misuse("--each-line: the standard input has no line to make a branch of")
    elif each:
        items = [_shown(path) for path in each]
    # Files or lines are tasks by themselves: then none needs to be said.
    read = read_words(words, common, verb="fan-out", is_optional=items is not None)
    tasks = [read.task] if items is None else [_joined(read.task, item) for item in items]
    members = [agent for _ in tasks for agent in read.agents]
    asked = [task for task in tasks for _ in read.agents]
    if len(asked) > BRANCHES_LIMIT:
        raise Misuse(f"{len(asked):,} branches are more than {BRANCHES_LIMIT:,}")
    wanted = 1 if first else quorum
    if wanted is not None and wanted > len(asked):
        raise Misuse(f"a quorum of {wanted} cannot be reached by {plural(len(asked), 'branch')}")
    if first and quorum not in (None, 1):
        raise Misuse("--first is a quorum of 1: say one of the two")
    summing = Roster(common)[reducer] if reducer is not None else None
    title = ", ".join(agent.name for agent in read.agents)
    title += f" on {plural(len(tasks), 'item')}" if items is not None else ""

    def make(_: Asker) -> Team[Any]:
        branches = FanOut(
            members,
            split=lambda _: asked,
            concurrency=concurrency,
            fail_fast=fail_fast,
            quorum=quorum,
            first=first,
        )
        return branches if summing is None else Reduce(summing, branches)

    whole = read.task if read.task.strip() else "\n\n".join(tasks[:1])
    more = () if summing is None else (summing,)
    return _perform("fan-out", title, evolve(read, task=whole), common, make, more)


def _joined(task: str, item: str) -> str:
    return f"{task}\n\n{item}" if task.strip() else item


def _shown(path: Path) -> str:
    """A file as a branch is shown it.

    Raises:
        Misuse: it is no text file, or there is none.
    """
    shown = one_line(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(EACH_LIMIT + 1)
    except OSError as error:
        raise Misuse(f"--each {shown}: {error.strerror or error}") from None
    if len(data) > EACH_LIMIT:
        raise Misuse(f"--each {shown}: more than {EACH_LIMIT:,} bytes")
    if b"\0" in data:
        raise Misuse(f"--each {shown}: no text file")
    return f"## {shown}\n\n{data.decode('utf-8', 'replace')}"


class _ToldCheck(Check):
    """A check that is told of, as turns are."""

    async def play(self, task: str, stage: Stage, /) -> Checked:
        """Run the command, and say so."""
        command = self.command[-1]
        emit("check.began", "check", command=command)
        checked: Checked | None = None
        try:
            checked = await super().play(task, stage)
            return checked
        finally:
            if checked is None or not checked.ok:
                status = "cancelled" if checked is None else checked.status
                says = "" if checked is None or checked.error is None else checked.error.message
            else:
                status = "ok" if checked.passed else "failed"
                says = "passed" if checked.passed else f"exit code {checked.code}"
            emit("check.ended", "check", status=status, says=says)


@_guarded
def loop(
    *words: str,
    until: str | None = None,
    check: str | None = None,
    max_iterations: Annotated[Count, Parameter(name="--max")] = MAX_ITERATIONS,
    stalled: Annotated[int | None, Parameter(validator=Number(gte=2))] = None,
    check_timeout: str | None = None,
    carry: Annotated[bool, Parameter(negative="--no-carry")] = True,
    common: Common = DEFAULTS,
) -> int:
    """Again and again, until it is good: a word that is said, or a command that passes.

    Parameters
    ----------
    words
        Agents in their order, then the task.
    until
        Good is when the last of them says this word, alone on a line.
    check
        Good is when this command passes; a shell reads it. What it printed is what the next
        round begins with.
    max_iterations
        Rounds at most.
    stalled
        Give up when so many rounds in a row have ended with the same words.
    check_timeout
        Time for the command: 90, 90s, 5m. [default: 2m]
    carry
        Tell each the task as well, besides what the one before has said.
    """
    if until is not None and check is not None:
        raise Misuse("--until and --check are two ways to say when it is good: say one")
    if until is not None and not until.strip():
        raise Misuse("--until: the word is empty")
    if check is not None and not check.strip():
        raise Misuse("--check: the command is empty")
    read = read_words(words, common, verb="loop")
    try:
        seconds = CHECK_SECONDS if check_timeout is None else read_seconds(check_timeout)
    except BadAmount as error:
        raise Misuse(f"--check-timeout: {error}") from None
    members: list[Member] = list(read.agents)
    word = (until or "").strip()

    def has_passed(step: Result, _: int) -> bool:
        return isinstance(step, Checked) and step.passed

    def has_said(step: Result, _: int) -> bool:
        return says_word(step.output, word)

    if check is not None:
        cwd = None if common.directory == Path(".") else common.directory
        members.append(_ToldCheck(("sh", "-c", check), cwd=cwd, seconds=seconds))
    enough = has_passed if check is not None else has_said if word else None

    def doubt(report: Looped) -> str:
        if report.converged:
            return ""
        rounds = plural(report.iterations, "round")
        what = f"{check!r} did not pass" if check else f"nobody said {until}"
        how = " and the answers repeat" if report.stopped_by == "stalled" else ""
        return f"{what} in {rounds}{how}"

    def answer(report: Looped) -> str:
        said = [step for step in report.steps if not isinstance(step, Checked)]
        return said[-1].output if said else ""

    names = _arrows(read.agents) + (f" → {check!r}" if check else "")
    return _perform(
        "loop",
        names,
        read,
        common,
        lambda _: Loop(
            members,
            until=enough,
            max_iterations=max_iterations,
            stalled_after=stalled,
            carry_request=carry,
        ),
        answer=answer,
        doubt=doubt,
    )


@_guarded
def orchestrate(
    *words: str,
    planner: str = "planner",
    reducer: str | None = None,
    max_tasks: Count = MAX_TASKS,
    concurrency: Count = CONCURRENCY,
    common: Common = DEFAULTS,
) -> int:
    """On a plan: a planner splits the work among agents, who do it in the order of its needs.

    Parameters
    ----------
    words
        The agents that steps can be given to, then the task.
    planner
        The agent that makes the plan.
    reducer
        An agent that makes one answer of all.
    max_tasks
        Steps of a plan at most.
    concurrency
        Steps at the same time.
    """
    read = read_words(words, common, verb="orchestrate")
    counts = Counter(agent.name.casefold() for agent in read.agents)
    doubled = [name for name, count in counts.items() if count > 1]
    if doubled:
        raise Misuse(f"{', '.join(doubled)} stands there twice: a plan names agents once")
    roster = Roster(common)
    plans, sums = roster[planner], None if reducer is None else roster[reducer]
    more = (plans, *(() if sums is None else (sums,)))
    names = f"{planner} → {', '.join(agent.name for agent in read.agents)}"
    return _perform(
        "orchestrate",
        names + (f" → {reducer}" if reducer else ""),
        read,
        common,
        lambda _: Orchestra(
            plans, read.agents, reducer=sums, max_tasks=max_tasks, concurrency=concurrency
        ),
        more,
    )


@_guarded
def swarm(
    *words: str,
    rounds: Count = ROUNDS,
    agree: Count | None = None,
    claim: Annotated[list[str] | None, Parameter(negative=())] = None,
    free: Annotated[bool, Flag] = False,
    board: bool = True,
    concurrency: Count = CONCURRENCY,
    common: Common = DEFAULTS,
) -> int:
    """Together over several rounds: members hear each other on a board, and share the work.

    Parameters
    ----------
    words
        Members, the same one as often as it takes part, then the goal.
    rounds
        Turns of each at most.
    agree
        End when so many members vote for the same.
    claim
        Something that one member at a time can take; may be said several times.
    free
        No rounds: each has its next turn when there is something new for it.
    board
        Let them hear each other.
    concurrency
        Members at work at the same time.
    """
    if not board and (agree is not None or free):
        raise Misuse("--no-board leaves nothing to agree on, or to wake anybody")
    read = read_words(words, common, verb="swarm")
    if agree is not None and agree > len(read.agents):
        raise Misuse(f"{agree} cannot agree: there are {plural(len(read.agents), 'member')}")
    if agree is not None:
        read = evolve(read, task=f"{read.task}\n\n{AGREEMENT_INSTRUCTION}")

    def doubt(report: Swarmed) -> str:
        if agree is None or report.converged:
            return ""
        return f"{agree} did not agree in {plural(report.rounds, 'round')}"

    return _perform(
        "swarm",
        ", ".join(agent.name for agent in read.agents),
        read,
        common,
        lambda _: Swarm(
            read.agents,
            rounds=rounds,
            board=Board() if board else None,
            claims=Claims(claim) if claim else None,
            until=None if agree is None else agreed(agree),
            free_running=free,
            concurrency=concurrency,
        ),
        doubt=doubt,
    )


@_guarded
def interview(
    *words: str,
    agent: str = "interviewer",
    max_questions: Annotated[Count, Parameter(name="--max")] = MAX_QUESTIONS,
    web: Annotated[bool, Flag] = False,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))] = 0,
    patience: str | None = None,
    answers: Path | None = None,
    common: Common = DEFAULTS,
) -> int:
    """A person is asked, question by question, and a brief is written of what they want.

    Parameters
    ----------
    words
        What you want, in your own words: one word, so in quotes.
    agent
        Who asks, and writes the brief.
    max_questions
        Questions at most.
    web
        Ask on a page, on this machine only; its address is printed.
    port
        Of that page; 0 for any that is free.
    patience
        Time to wait for each answer, after which there are no more questions.
    answers
        A file that keeps the answers: what stands in it is not asked again.
    """
    if len(words) > 1:
        raise Misuse("the topic is one word: put it into quotes")
    topic = common.task if common.task is not None else (words[0] if words else None)
    is_from_input = topic is None
    topic = read_task(topic, "interview")
    roster = Roster(common)
    who = roster[agent]
    try:
        seconds = None if patience is None else read_seconds(patience)
        known = () if answers is None else read_answers(answers)
    except ValueError as error:
        raise Misuse(str(error)) from None
    is_scripted = is_piped() and not is_from_input and not web
    if common.json and not web and not is_scripted:
        raise Misuse("--json leaves nobody to ask: pipe the answers in, a line each, or say --web")
    if web:
        check_web()

    async def open_asker(stack: AsyncExitStack, desk: Asker, say: Callable[[str], object]) -> Asker:
        asker = desk
        if web:
            from standby_combinators.web_asker import open_web_asker

            page = await stack.enter_async_context(open_web_asker(topic, known=known, port=port))
            say(f"answer at {page.url}")
            asker = page
        elif is_scripted:
            asker = PipedAsker(sys.stdin.fileno())
        told = ToldAsker(asker, known, answers)
        if asker is not desk:
            told.on_answer = lambda question, answer: say(_exchange(question, answer))
        return told

    def make(asker: Asker) -> Team[Any]:
        return Interview(who, asker, max_questions=max_questions, known=known, patience=seconds)

    read = Words((who,), topic, roster.found)
    return _perform("interview", who.name, read, common, make, asker=open_asker)


def _exchange(question: Question, answer: Answer | None) -> str:
    said = "(no more questions)" if answer is None else one_line(answer.text)
    return f"{one_line(question.text)}\n> {said}"
