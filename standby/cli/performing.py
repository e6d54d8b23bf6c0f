"""A team at work for the command line: opened, shown, stopped in order, and told of in the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import trio
from attrs import define, field, frozen
from rich.console import Console
from rich.text import Text

from standby_actors.interrupts import Terminated
from standby_actors.models import ModelError, UnknownModel
from standby_actors.result import Result
from standby_actors.running import run
from standby_combinators.asker import Asker
from standby_combinators.stop import StopSwitch
from standby_combinators.team import Team
from standby_combinators.trail import Report

from . import ANSWERED, FAILED, INTERRUPTED, MISUSE
from .controlled import controlled
from .crew import Crew
from .desk import open_desk
from .lines import JsonLines
from .scene import Scene
from .settings import Common, Settings
from .text import harmless, one_line, plain

HARD_EXIT = 15.0
"""Seconds after a second Ctrl-C before the process is ended, whatever holds it."""
ORDERLY = 15.0
"""Seconds that a team has to end in order after the first Ctrl-C."""
FAILED_SHOWN = 10
"""Steps that failed that are named one by one."""


def output_of(report: Report) -> str:
    """What the whole has answered."""
    return report.output


def no_doubt(report: Report) -> str:
    """Nothing: to be `ok` is enough."""
    del report
    return ""


@frozen
class Work:
    """One command, read and checked."""

    title: str
    """As in "chain scout → planner"."""
    task: str
    make: Callable[[Asker], Team[Any]]
    """The team, made where trio runs, of whoever can ask the person."""
    answer: Callable[[Any], str] = output_of
    doubt: Callable[[Any], str] = no_doubt
    """Why a Report that is `ok` is no success all the same; empty if it is one."""
    asker: Callable[[AsyncExitStack, Asker, Callable[[str], object]], Any] | None = None
    """Opens who asks in place of the desk; given that, and who says things for good."""


@define(eq=False)
class _Held:
    """One run, and what is left of it when it is cut."""

    report: Any = None
    refusal: Exception | None = None
    """Why it could not begin."""
    crew: Crew = field(factory=Crew)
    switch: StopSwitch = field(factory=StopSwitch)
    lines: JsonLines | None = None


def perform(work: Work, settings: Settings, common: Common) -> int:
    """Have the team work, and print what it answers; returns the exit code."""
    held = _Held(lines=JsonLines(sys.stdout.buffer) if common.json else None)
    if settings.export is not None:
        try:
            settings.export.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return fail(f"--export {one_line(str(settings.export))}: {error.strerror}", MISUSE)
    ended: int | None = None
    try:
        run(_perform, held, work, settings, common, hard_exit=HARD_EXIT)
    except KeyboardInterrupt:
        ended = INTERRUPTED
    except Terminated as error:
        if error.signum != signal.SIGTERM:
            raise  # the terminal went away: nobody is there to read anything
        ended = 128 + error.signum
    if held.refusal is not None:
        return _refuse(held.refusal, held.lines)
    return _conclude(held, work, ended)


async def _perform(held: _Held, work: Work, settings: Settings, common: Common) -> None:
    over = False
    switch = held.switch
    orderly = trio.CancelScope(shield=True)

    async def stop_in_order() -> None:
        """Make of a cancellation from outside, such as Ctrl-C, a stop that leaves a Report."""
        try:
            await trio.sleep_forever()
        finally:
            if not over:
                switch.signal.set("interrupted", kind="stopped")
                orderly.deadline = trio.current_time() + ORDERLY

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_in_order)
        with orderly:
            if settings.deadline is not None:
                nursery.start_soon(_end_at, switch, settings.deadline, common.deadline)
            try:
                await _play(held, work, settings, common)
            except* ModelError as errors:
                held.refusal = _first(errors)
        over = True
        nursery.cancel_scope.cancel()


async def _play(held: _Held, work: Work, settings: Settings, common: Common) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(controlled())
        asker: Asker
        say: Callable[[str], object] = _say_on_stderr
        if held.lines is not None:
            scope = stack.enter_context(trio.CancelScope())
            await stack.enter_async_context(held.lines.following(scope))
            asker = _Nobody()
        else:
            scene = Scene(work.title, work.task, held.crew)
            desk = await stack.enter_async_context(
                open_desk(scene, held.switch, Console(stderr=True), is_plain=common.plain)
            )
            asker, say = desk, lambda text: desk.say(Text(plain(text)))
        if work.asker is not None:
            asker = await work.asker(stack, asker, say)
        options = await settings.options(stack)
        options["switch"] = held.switch
        held.report = await work.make(asker).ask(work.task, **options)


class _Nobody:
    """Asks nobody: no answer."""

    async def ask(self, question: Any, /) -> None:
        """None, as of a person who wants to answer no more."""
        await trio.lowlevel.checkpoint()


def _say_on_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def _end_at(switch: StopSwitch, seconds: float, said: str | None) -> None:
    await trio.sleep(seconds)
    switch.signal.set(f"the deadline of {said} is up")


def _first(error: BaseException) -> Exception:
    while isinstance(error, BaseExceptionGroup):
        group: BaseExceptionGroup[Any] = error
        error = group.exceptions[0]
    assert isinstance(error, Exception)
    return error


def _conclude(held: _Held, work: Work, ended: int | None) -> int:
    """Print what was answered, and why there is no more; returns the exit code."""
    report: Report | None = held.report
    if held.lines is not None:
        held.lines.raise_if_broken()
    if report is None:
        return fail("interrupted before anything was answered", ended or FAILED)
    doubt = work.doubt(report) if report.ok else ""
    code = exit_code(report, doubt, ended)
    if held.lines is not None:
        told = {"type": "run.result", "team": work.title.partition(" ")[0], "exit_code": code}
        held.lines.write({**told, **msgspec.structs.asdict(report)})
        return code
    leaves = _leaves(report)
    answer = work.answer(report)
    # Of many that all failed, the output says nothing that is not said below.
    if answer and any(step.ok for step in leaves):
        if sys.stdout.isatty() and sys.stderr.isatty():
            print(file=sys.stderr)  # apart from what was shown meanwhile
        print(harmless(answer))
        sys.stdout.flush()
    if report.ok and not doubt and ended is None:
        return code
    off = held.switch.signal.error
    for step in [step for step in leaves if not step.ok][-FAILED_SHOWN:]:
        assert step.error is not None
        # What was called off with everything else is told once.
        if off is None or step.error.message != off.message:
            who = step.subagent or step.agent
            print(f"standby: {who}: {one_line(step.error.message)}", file=sys.stderr)
    error = off or report.error
    why = doubt or (error.message if error is not None else "interrupted")
    return fail(f"{_how(code)}: {one_line(why)}", code)


def _leaves(report: Result) -> list[Result]:
    """The turns of a Report, those of the teams in it included."""
    if not isinstance(report, Report) or not report.steps:
        return [report]
    return [leaf for step in report.steps for leaf in _leaves(step)]


def exit_code(report: Result, doubt: str, ended: int | None) -> int:
    """The exit code of a run.

    Args:
        report: what it came to.
        doubt: why it is no success though it is `ok`.
        ended: the code of the signal that has ended it; None for none.
    """
    if ended is not None:
        return ended
    if report.status == "stopped":
        return INTERRUPTED
    return ANSWERED if report.ok and not doubt else FAILED


def _how(code: int) -> str:
    return {FAILED: "not done", MISUSE: "misuse"}.get(code, "stopped")


def _refuse(error: Exception, lines: JsonLines | None) -> int:
    """The exit code of a run that could not begin."""
    if lines is not None:
        lines.write({"type": "run.failed", "error": str(error)})
    return fail(str(error), MISUSE if isinstance(error, UnknownModel) else FAILED)


def fail(sentence: str, code: int) -> int:
    """Say on stderr why it is no success; returns `code`."""
    print(f"standby: {sentence}", file=sys.stderr)
    return code
