"""The calls of one message: checked, approved, run side by side, answered in order.

Nothing that a model can write makes this raise: what cannot be run is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
import trio
from attrs import define, field, frozen

from ..result import ChatMessage, ToolCall, TurnError
from ..sendable import sendable
from ..session import OnEvent, ToolEnded, ToolStarted, ignore
from .approvals import Approvals, approvals_of
from .arguments import BadArguments, canonical, read_arguments
from .guard import Admit, CallLimits, Decline, Fate, PastCall, admit, runaway
from .redact import redact
from .schema import listed
from .text import shorten
from .tool import Tool, ToolContext, ToolOutput, as_output, refuse


class Answered(msgspec.Struct, frozen=True):
    """A call, and what the model is told of it."""

    call: ToolCall
    output: ToolOutput
    fate: Fate
    seconds: float = 0.0
    """The tool's own time; 0 if it was not begun."""

    def message(self) -> ChatMessage:
        """The answer as a message of the conversation."""
        return ChatMessage(
            "tool",
            self.output.text,
            call=self.call.id,
            is_error=self.output.is_error,
            attachments=self.output.attachments,
        )


@frozen
class Answers:
    """What the calls of one message came to."""

    answered: tuple[Answered, ...]
    """In the order of the calls; every one of them."""
    error: TurnError | None = None
    """Set if the turn ends with this message: `runaway` or `protocol`."""

    @property
    def ends_turn(self) -> bool:
        """The model is not asked again in this turn."""
        return self.error is not None or any(each.output.ends_turn for each in self.answered)

    def messages(self) -> tuple[ChatMessage, ...]:
        """The answers as messages, in the order of the calls."""
        return tuple(each.message() for each in self.answered)


@define(eq=False)
class CallHistory:
    """The calls of one turn so far; each turn has its own."""

    calls: list[PastCall] = field(factory=list)
    rounds: int = 0
    """Messages with calls so far."""

    @property
    def count(self) -> int:
        """Calls that the model made in this turn, whatever became of them."""
        return len(self.calls)


@define(eq=False)
class _Job:
    """A call that may run."""

    index: int
    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    key: str
    place: int
    """Where it stands in the history."""


async def run_calls(
    calls: Sequence[ToolCall],
    tools: Iterable[Tool],
    history: CallHistory,
    *,
    limits: CallLimits | None = None,
    approvals: Approvals | None = None,
    subagent: str = "",
    on_event: OnEvent = ignore,
    on_progress: Callable[[ToolCall, str], None] = lambda call, text: None,
    on_answer: Callable[[Answered], None] = lambda answered: None,
) -> Answers:
    """Answer the calls of one message.

    What can run runs side by side, at most `limits.at_once` together; the answers
    are in the order of the calls.  An unknown name, arguments that are no JSON
    object or not what the tool takes, a refusal, a timeout and an exception are
    answered as errors.  Whatever the calls are, it does not raise.

    Cancelled, it has cut every call, and has told `on_event` of each that was
    begun; no request for approval is left.  An async tool that shields itself
    from cancellation is waited for.

    Args:
        calls: of one message of the model.
        tools: those that there are; the names differ.
        history: of this turn; these calls are added to it.
        limits: None for the defaults of :class:`CallLimits`.
        approvals: who decides on tools that ask; None refuses them.
        subagent: id of who calls.
        on_event: hears of each call that begins and of each that is answered.
        on_progress: hears what a tool says of its progress.
        on_answer: given each answer as soon as there is one, also that a call was
            cut; so what was done by then is known to whoever is cut in the middle.
    """
    return await _Message(
        {each.name: each for each in tools},
        history,
        limits or CallLimits(),
        approvals if approvals is not None else approvals_of(None),
        subagent,
        on_event,
        on_progress,
        on_answer,
    ).run(calls)


@define(eq=False)
class _Message:
    tools: Mapping[str, Tool]
    history: CallHistory
    limits: CallLimits
    approvals: Approvals
    subagent: str
    on_event: OnEvent
    on_progress: Callable[[ToolCall, str], None]
    on_answer: Callable[[Answered], None]
    answers: dict[int, Answered] = field(init=False, factory=dict)
    error: TurnError | None = field(init=False, default=None)

    async def run(self, calls: Sequence[ToolCall]) -> Answers:
        jobs = self.sort(calls)
        if self.error is not None:
            # Nothing is begun in a turn that is over: nobody would use its answer.
            for job in jobs:
                self.tell(job.index, job.call, "refused", refuse(f"the turn ends: {self.error}"))
        elif len(jobs) == 1:
            await self.play(jobs[0], trio.CapacityLimiter(1))
        elif jobs:
            places = trio.CapacityLimiter(self.limits.at_once)
            async with trio.open_nursery() as nursery:
                lane = [job for job in jobs if job.tool.in_order]
                nursery.start_soon(self.play_in_order, lane, places)
                for job in jobs:
                    if not job.tool.in_order:
                        nursery.start_soon(self.play, job, places)
        else:
            await trio.lowlevel.checkpoint()
        answered = tuple(self.answers[index] for index in range(len(calls)))
        return Answers(answered, self.error)

    # ---- deciding, call by call, before any of them runs

    def sort(self, calls: Sequence[ToolCall]) -> list[_Job]:
        """Answer what cannot run, and give back what can."""
        jobs: list[_Job] = []
        for index, call in enumerate(calls):
            if self.error is not None:
                self.note(PastCall(call.name, call.arguments[:200], "refused"))
                self.tell(index, call, "refused", refuse(f"the turn ends: {self.error}"))
                continue
            job = self.examine(index, call)
            if job is not None:
                jobs.append(job)
        self.error = self.error or runaway(self.history.calls, self.limits)
        self.history.rounds += 1
        return jobs

    def examine(self, index: int, call: ToolCall) -> _Job | None:
        tool = self.tools.get(call.name)
        if tool is None:
            self.note(PastCall(call.name, call.arguments[:200], "unknown"))
            self.tell(index, call, "unknown", refuse(_unknown(call.name, [*self.tools])))
            return None
        try:
            arguments = read_arguments(call.arguments)
            problems = tool.problems(arguments)
        except BadArguments as error:
            problems = (str(error),)
            arguments = {}
        if problems:
            self.note(PastCall(call.name, call.arguments[:200], "malformed"))
            self.tell(index, call, "malformed", refuse(_malformed(tool, problems)))
            return None
        key = canonical(arguments)
        match admit(self.history.calls, call.name, key, self.limits):
            case Admit():
                # Its fate is not known yet; whatever it is, it has been called.
                place = self.note(PastCall(call.name, key, "ran", tool.read_only))
                return _Job(index, call, tool, arguments, key, place)
            case Decline(why):
                self.note(PastCall(call.name, key, "refused", tool.read_only))
                self.tell(index, call, "refused", refuse(f"{call.name} was not run: {why}."))
            case end:
                self.error = end.error
                self.note(PastCall(call.name, key, "refused", tool.read_only))
                self.tell(index, call, "refused", refuse(f"the turn ends: {end.error}"))
        return None

    def note(self, call: PastCall) -> int:
        """Add a call to the history; where it stands there."""
        # A model may write a name of any length.
        past = msgspec.structs.replace(call, name=call.name[:200], round=self.history.rounds)
        self.history.calls.append(past)
        return len(self.history.calls) - 1

    # ---- doing

    async def play_in_order(self, jobs: Sequence[_Job], places: trio.CapacityLimiter) -> None:
        for job in jobs:
            await self.play(job, places)

    async def play(self, job: _Job, places: trio.CapacityLimiter) -> None:
        """Have one call approved, run it, and answer it."""
        refused = await self.refusal(job)
        if refused is not None:
            self.settle(job, "refused", refused, 0.0)
            return
        async with places:
            began = trio.current_time()
            self.on_event(ToolStarted(job.call))
            try:
                fate, output = await self.execute(job)
            except trio.Cancelled:
                seconds = trio.current_time() - began
                self.tell(job.index, job.call, "failed", refuse(_cut(job.tool)), seconds, True)
                raise
            except BaseExceptionGroup as group:
                # Cut, and its own clean-up failed besides.  The cancellation passes;
                # nobody is left who could be told of the rest but those who listen.
                seconds = trio.current_time() - began
                failures, rest = group.split(Exception)
                said = f"{_cut(job.tool)}  {redact(str(failures))}" if failures else _cut(job.tool)
                self.tell(job.index, job.call, "failed", refuse(said), seconds, True)
                if rest is None:
                    raise
                raise rest from None
            self.settle(job, fate, output, trio.current_time() - began)

    async def refusal(self, job: _Job) -> ToolOutput | None:
        """Why the call may not run; None if it may."""
        tool = job.tool
        if tool.approval == "allow" and not self.approvals.rules:
            return None
        try:
            said = await self.approvals.decide(
                tool.name,
                job.key,
                asks=tool.approval == "ask",
                subagent=self.subagent,
                description=tool.description,
            )
        # The program's own way to a person failed.  That is no permission, and no
        # reason to lose the turn.
        except Exception as error:
            return refuse(f"{tool.name} was not run: it could not be approved ({_words(error)}).")
        if said.allows:
            return None
        why = f": {said.reason.rstrip('.')}" if said.reason else ""
        return refuse(
            f"{tool.name} was not run, because it was not approved{why}."
            "  Do not repeat the call; do without it, or say what you need it for."
        )

    async def execute(self, job: _Job) -> tuple[Fate, ToolOutput]:
        tool = job.tool

        def progress(text: str) -> None:
            self.on_progress(job.call, text)

        context = ToolContext(job.call, self.subagent, progress)
        output: Any = None
        try:
            with trio.move_on_after(tool.timeout) as scope:
                output = await tool.run(job.arguments, context)
        # A tool that fails is expected work: here its exception becomes a value,
        # as the cell makes one of an actor's.
        except Exception as error:
            return "failed", refuse(f"{tool.name} failed: {_words(error)}")
        if scope.cancelled_caught:
            rest = (
                "Its thread works on, because nothing can stop it."
                if tool.leaves_thread
                else "It was stopped."
            )
            return "failed", refuse(
                f"{tool.name} took longer than its {tool.timeout:g} s.  {rest}"
                "  What it has done until then is not known."
            )
        output = as_output(output)
        return ("failed" if output.is_error else "ran"), output

    # ---- telling

    def settle(self, job: _Job, fate: Fate, output: ToolOutput, seconds: float) -> None:
        past = self.history.calls[job.place]
        self.history.calls[job.place] = msgspec.structs.replace(past, fate=fate)
        self.tell(job.index, job.call, fate, output, seconds)

    def tell(
        self,
        index: int,
        call: ToolCall,
        fate: Fate,
        output: ToolOutput,
        seconds: float = 0.0,
        is_cut: bool = False,
    ) -> None:
        output = bounded(output, self.limits)
        answered = self.answers[index] = Answered(call, output, fate, seconds)
        self.on_answer(answered)
        self.on_event(ToolEnded(call, output.text, output.is_error, seconds, is_cut))


def bounded(output: ToolOutput, limits: CallLimits) -> ToolOutput:
    """`output` in the limits, and saying itself what was left out."""
    # A lone half of a surrogate pair, from a file's name say, cannot be sent.
    text = sendable(shorten(output.text, limits.output))
    kept = list(output.attachments)
    left_out = 0
    while kept and sum(len(each.data) for each in kept) > limits.attached:
        kept.pop()
        left_out += 1
    if left_out:
        text += f"\n[… {left_out} attachments are not shown: more than {limits.attached:,} bytes …]"
    if text == output.text and not left_out:
        return output
    return msgspec.structs.replace(output, text=text, attachments=tuple(kept))


def _unknown(name: str, there: Sequence[str]) -> str:
    have = (
        f"The tools are: {listed(there, 50)}." if there else "There are no tools: answer in words."
    )
    if name in ("", "?"):
        return f"The call names no tool.  {have}"
    near = get_close_matches(name[:100], there, 1)
    meant = f"  Do you mean {near[0]}?" if near else ""
    return f"There is no tool {name!r:.80}.{meant}  {have}"


def _malformed(tool: Tool, problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return f"{tool.name} was not run, because of its arguments: {problems[0]}."
    lines = "\n".join(f"- {each}" for each in problems)
    return f"{tool.name} was not run, because of its arguments:\n{lines}"


def _cut(tool: Tool) -> str:
    rest = "; its thread works on" if tool.leaves_thread else ""
    return f"{tool.name} was cut with its turn{rest}."


def _words(error: BaseException) -> str:
    """An exception for a model: what and why, no traceback, no secret."""
    if isinstance(error, BaseExceptionGroup):
        parts = "; ".join(_words(each) for each in error.exceptions[:5])
        return f"{type(error).__name__}: {parts}"
    # A KeyError says only its key, and some say nothing.
    text = redact(str(error))
    return f"{type(error).__name__}: {shorten(text, 2000)}" if text else type(error).__name__
