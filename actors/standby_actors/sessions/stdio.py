"""What all coding agents over stdio have in common: a program, its lines, and one turn at a time.

A protocol (pi, codex, claude, acp) says how a prompt is put, how a turn is cut, and what
the frames mean.  Everything else is here: one prompt in flight and a queue of our own, a
limit on every request, silence, death, and a program that is replaced when we ended it.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
import trio
from attrs import define, field

from ..agent import Agent
from ..process import (
    BadLine,
    CannotRun,
    Ended,
    Frame,
    Grace,
    LineReader,
    Process,
    TooLong,
    open_process,
)
from ..process.frames import MAX_LINE
from ..process.nursed import beside
from ..result import Attachment, ChatMessage, ErrorKind, ToolCall, TurnError
from ..session import (
    Capabilities,
    Memory,
    MessageEnded,
    OnEvent,
    SessionEvent,
    Steered,
    Steering,
    TextDelta,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    export_jsonl,
)
from ..tools.approvals import Approvals, approvals_of
from ..tools.redact import redact, secrets_of
from ..usage import NOTHING, Usage
from .schema import AnswerSchema

Direction = Literal[">", "<"]
OnWire: TypeAlias = Callable[[Direction, Frame], None]
"""Sees every frame that goes to the program (">") or comes from it ("<")."""

_OVERFLOW = re.compile(
    r"context_?length|context[ _]?window|prompt is too long|maximum context"
    r"|too many (input )?tokens",
    re.IGNORECASE,
)
_OFTEN = re.compile(r"\b429\b|rate.?limit|overloaded|too many requests", re.IGNORECASE)
_AGAIN = re.compile(r"\b(408|409|425|5\d\d)\b|connection|timed? ?out|high demand|temporar", re.I)
_STDERR_QUOTED = 600
_QUOTED = 400


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long a coding agent is waited for, in seconds."""

    start: float = 60.0
    """From the start of the program to its first answer; node takes seconds on a busy machine."""
    request: float = 60.0
    """For the answer to a request that does no work itself."""
    abort: float = 0.8
    """For a turn to end that was cut from outside; then the program is ended, and replaced."""
    interrupt: float = 5.0
    """For a turn to end that was told to."""
    redirect: float = 15.0
    """For a prompt to end that is cut for another word."""
    failed: float = 10.0
    """Of silence, after the program said that it failed and not that it is done."""
    tool: float = 900.0
    """Of silence, while a tool is at work."""


class RequestFailed(Exception):
    """A request was not answered, or its answer was no; only within a session."""

    def __init__(self, error: TurnError) -> None:
        super().__init__(error)
        self.error = error


@define(eq=False)
class Pending:
    """A request, until its answer has come."""

    answered: trio.Event = field(factory=trio.Event)
    frame: Frame | None = None
    error: TurnError | None = None


@define(eq=False)
class _Tool:
    """A tool at work."""

    call: ToolCall
    began: float


@define(eq=False)
class Play:
    """The turn in flight."""

    messages: list[ChatMessage] = field(factory=list)
    events: deque[SessionEvent] = field(factory=deque[SessionEvent])
    """Not yet told: they are told in the task of whoever asked."""
    news: trio.Event = field(factory=trio.Event)
    speech: str = ""
    """What is being said."""
    answer: str = ""
    """The last message with a text."""
    over: bool = False
    """The prompt in flight has ended; the turn may go on with another."""
    done: bool = False
    """The turn has ended, whatever is left to tell of it."""
    error: TurnError | None = None
    dead: bool = False
    failure: TurnError | None = None
    """What the program said went wrong; it may have another try."""
    again: bool = False
    """The prompt in flight was lost, and is to be put to the next program."""
    raised: Exception | None = None
    """A bug of whoever approves, to be raised where it was asked."""
    stopping: TurnError | None = None
    """Why it was told to end."""
    redirect: str | None = None
    """The word for which the prompt in flight was cut; it is the next prompt."""
    words: deque[str] = field(factory=deque[str])
    """Left for the end of the turn."""
    tools: dict[str, _Tool] = field(factory=dict[str, _Tool])
    deciding: int = 0
    """Approvals that somebody thinks about."""
    patience: trio.CancelScope = field(factory=trio.CancelScope)
    used: bool = False
    """It said something, or worked."""


@define(eq=False)
class _Life:
    """One incarnation of the program."""

    nursery: trio.Nursery
    process: Process
    outbox: trio.MemorySendChannel[Frame]
    pending: dict[str, Pending] = field(factory=dict[str, Pending])
    ours: bool = False
    """We ended it."""
    why: TurnError | None = None
    """Why it is no more."""
    over: trio.Event = field(factory=trio.Event)


@define(eq=False, kw_only=True)
class StdioSession:
    """A conversation with a coding agent; a protocol is a subclass.

    A program that dies by itself takes its session with it: the turn in flight
    ends as `crash`, later ones as `dead`, and `resume_id` is what a new session
    goes on from.  One that we had to end (it was silent, deaf, or out of step)
    is replaced at the next ask, if it keeps conversations; if it does not, the
    session is dead too, since the new one would remember nothing.
    """

    agent: Agent
    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    resume_flags: tuple[str, ...] = ()
    """What stands before `resume_id` on the command line; () where a request says it."""
    memory: Memory | None = None
    timing: Timing = field(factory=Timing)
    grace: Grace = field(factory=lambda: Grace(eof=1.0, term=1.0, kill=2.0))
    max_line: int = MAX_LINE
    on_wire: OnWire | None = field(default=None, repr=False)
    run: Callable[..., AbstractAsyncContextManager[Any]] = field(default=open_process, repr=False)
    """Starts the program, as :func:`open_process` does."""
    name: str = "the coding agent"
    """As errors call it."""
    model: str = ""
    capabilities: Capabilities = field(factory=Capabilities)
    usage: Usage = NOTHING
    resume_id: str = ""
    """What the program calls this conversation; empty before it has said so."""
    ignored: int = field(init=False, default=0)
    """Frames that meant nothing to us."""
    noise: int = field(init=False, default=0)
    """Lines that were no frames."""
    late: int = field(init=False, default=0)
    """Answers that came when nobody waited any more."""
    _approvals: Approvals = field(init=False, repr=False)
    _schema: AnswerSchema | None = field(init=False, default=None, repr=False)
    _secrets: frozenset[str] = field(init=False, repr=False)
    _said: list[ChatMessage] = field(init=False, factory=list[ChatMessage], repr=False)
    _preface: str = field(init=False, default="", repr=False)
    _nursery: trio.Nursery | None = field(init=False, default=None, repr=False)
    _life: _Life | None = field(init=False, default=None, repr=False)
    _lives: int = field(init=False, default=0, repr=False)
    _turns: trio.Lock = field(init=False, factory=trio.Lock, repr=False)
    _play: Play | None = field(init=False, default=None, repr=False)
    _ids: int = field(init=False, default=0, repr=False)
    _gone: TurnError | None = field(init=False, default=None, repr=False)
    _closed: bool = field(init=False, default=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._approvals = approvals_of(self.agent.approve)
        self._secrets = secrets_of(self.env)
        if self.agent.schema is not None:
            self._schema = AnswerSchema(self.agent.schema)
        if self.memory is not None:
            self.resume_id = self.memory.resume
            if not self.resume_id:
                self._preface = preface(self.memory)

    # ---- what a protocol says

    async def greet(self) -> None:
        """Make the program ready for prompts, going on with `resume_id` if there is one.

        Raises:
            RequestFailed: it is not.
        """
        raise NotImplementedError

    async def prompt(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        """Put a prompt; its end is told by :meth:`ended`.

        Raises:
            RequestFailed: it was not taken.
        """
        raise NotImplementedError

    def abort(self) -> None:
        """Tell the program to end its turn."""
        raise NotImplementedError

    def hear(self, frame: Frame) -> None:
        """Make of a frame what it means."""
        raise NotImplementedError

    # ---- the contract of a session

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Play one turn; asked while one is in flight, it waits for its turn."""
        async with self._turns:
            refusal = self._refusal(attachments) or await self._ready()
            if refusal is not None:
                dead = refusal.kind in ("dead", "closed", "start_failed")
                return Turn(error=refusal, dead=dead)
            play = self._play = Play()
            try:
                await self._play_out(play, text, attachments, on_event)
            finally:
                play.done = True
                if not play.over and self._life is not None:
                    await self._let_go(play)
                self._play = None
                self._settle(play)
                tell(play, on_event)
            if play.raised is not None:
                raise play.raised
            return self._outcome(play)

    def steer(self, text: str) -> Steering:
        """Put a word into the turn in flight: it is cut, and goes on with the word."""
        play = self.in_flight()
        if play is None:
            return "idle"
        if not self.capabilities.steer:
            return "unsupported"
        if play.over:
            # It is read next all the same, and nothing is left to cut.
            play.words.appendleft(text)
        elif play.redirect is None:
            play.redirect = text
            play.patience.deadline = trio.current_time() + self.timing.redirect
            self.abort()
        else:
            play.redirect += f"\n\n{text}"
        return "queued"

    def follow_up(self, text: str) -> Steering:
        """Leave a word for the end of the turn in flight."""
        play = self.in_flight()
        if play is None:
            return "idle"
        play.words.append(text)
        return "queued"

    def interrupt(self) -> bool:
        """Tell the program to end its turn; one that does not is ended itself."""
        play = self._play
        if play is None or play.done:
            return False
        self._stop(play, TurnError("stopped", "interrupted"))
        return True

    @property
    def pid(self) -> int | None:
        """Process id of the program; None when there is none."""
        life = self._life
        return None if life is None or life.why is not None else life.process.pid

    def in_flight(self) -> Play | None:
        """The turn that takes words; None if there is none, or it was told to end."""
        play = self._play
        return None if play is None or play.done or play.stopping is not None else play

    def transcript(self) -> tuple[ChatMessage, ...]:
        """Everything said so far."""
        return tuple(self._said)

    def export(self, directory: Path, name: str) -> Path:
        """Write the transcript as JSON lines."""
        return export_jsonl(self.transcript(), directory, name)

    async def close(self) -> None:
        """End the program and everything that it started."""
        self._closed = True
        life = self._life
        if life is None:
            return
        why = TurnError("closed", f"{self.name} was closed")
        if life.why is None and self._play is not None and not self._play.done:
            # Some finish their turn first, once their input has ended.
            self._stop(self._play, why)
            with trio.move_on_after(self.timing.abort):
                async with self._turns:
                    pass
        life.ours = True
        self._died(life, why)
        life.nursery.cancel_scope.cancel()
        await life.over.wait()

    # ---- turns

    async def _play_out(
        self,
        play: Play,
        text: str,
        attachments: tuple[Attachment, ...],
        on_event: OnEvent,
    ) -> None:
        self.record(ChatMessage("user", text, attachments=attachments))
        prompt = self._preface + text
        self._preface = ""
        corrected = False
        if self._schema is not None:
            prompt += f"\n\n{self._schema.instruction()}"
        while True:
            play.over, play.error, play.failure = False, None, None
            steered = False
            await self._one(play, prompt, attachments, on_event)
            if play.again and play.stopping is None:
                play.again = False
                if (refusal := await self._ready()) is None:
                    continue
                play.error, play.dead = refusal, True
            self.flush(partial=play.error is not None or play.redirect is not None)
            self._cut_tools(play)
            # A word may be left at the very last of what is told.
            tell(play, on_event)
            if play.redirect is not None and play.stopping is None and not play.dead:
                # The prompt was cut for this word, so that its end is no error.
                prompt, play.redirect, play.error = play.redirect, None, None
                steered = True
            elif play.error is not None or play.stopping is not None:
                return
            elif play.words:
                prompt = play.words.popleft()
            elif self._schema is not None and not corrected and self._problem(play.answer):
                corrected = True
                prompt = f"That cannot be read: {self._problem(play.answer)}. "
                prompt += f"Say it again.  {self._schema.instruction()}"
            else:
                return
            attachments = ()
            self.record(ChatMessage("user", prompt))
            if (refusal := await self._ready()) is not None:
                play.error, play.dead = refusal, True
                return
            if steered:
                self.emit(Steered(prompt))

    async def _one(
        self, play: Play, prompt: str, attachments: tuple[Attachment, ...], on_event: OnEvent
    ) -> None:
        """Put one prompt and wait for its end, for as long as there is a reason to."""
        try:
            with trio.CancelScope(deadline=trio.current_time() + self._silence) as play.patience:
                await self.prompt(prompt, attachments)
                while not play.over:
                    tell(play, on_event)
                    await play.news.wait()
                    play.news = trio.Event()
                tell(play, on_event)
        except RequestFailed as failed:
            if not play.over:
                self.ended(failed.error)
            return
        if play.over:
            return
        # Nothing came of it.
        if play.stopping is not None or play.redirect is not None:
            what = "did not end its turn when it was told to"
            play.redirect = None
            play.error = play.stopping or TurnError("idle_timeout", f"{self.name} {what}", True)
        else:
            what = f"said nothing for {self._silence:g} s"
            play.error = play.failure or TurnError("idle_timeout", f"{self.name} {what}", True)
        play.over = True
        self.discard(TurnError("dead", f"{self.name} {what}, and was ended"))

    @property
    def _silence(self) -> float:
        play = self._play
        if play is not None and play.deciding:
            return math.inf
        if play is not None and play.failure is not None:
            return self.timing.failed
        if play is not None and play.tools:
            return max(self.timing.tool, self.agent.idle_timeout)
        return self.agent.idle_timeout

    def _stop(self, play: Play, why: TurnError) -> None:
        if play.stopping is not None:
            return
        play.stopping = why
        play.words.clear()
        play.patience.deadline = trio.current_time() + self.timing.interrupt
        if not play.over:
            self.abort()

    async def _let_go(self, play: Play) -> None:
        """The turn was cut from outside: have the program end it, or end the program."""
        # Whoever cut it waits for us a second and no longer.
        with trio.CancelScope(
            deadline=trio.current_time() + self.timing.abort, shield=True
        ) as waiting:
            play.stopping = play.stopping or TurnError("cancelled", "cut from outside")
            self.abort()
            while not play.over:
                await play.news.wait()
                play.news = trio.Event()
        if waiting.cancelled_caught:
            why = f"{self.name} did not end its turn when it was told to, and was ended"
            self.discard(TurnError("dead", why))

    def _settle(self, play: Play) -> None:
        """Leave no word half said, and no call without an answer: none could go on from there."""
        self._play = play
        self.flush(partial=True)
        self._cut_tools(play)
        self._play = None

    def _cut_tools(self, play: Play) -> None:
        for call in list(play.tools):
            self.tool_ended(call, "cut: the turn ended before the tool did", is_error=True)

    def _outcome(self, play: Play) -> Turn:
        error, value = play.error, None
        if play.stopping is not None and not play.dead:
            error = play.stopping
        if error is None and not play.used:
            error = TurnError("protocol", f"{self.name} ended its turn without a word", True)
        if error is None and self._schema is not None:
            if problem := self._problem(play.answer):
                error = TurnError("schema", f"the answer is not what was asked for: {problem}")
            else:
                value = self._schema.read(play.answer)
        return Turn(play.answer, tuple(play.messages), error, value, dead=play.dead)

    def _problem(self, answer: str) -> str:
        assert self._schema is not None
        try:
            self._schema.read(answer)
        except msgspec.MsgspecError as error:
            return str(error)
        return ""

    def _refusal(self, attachments: tuple[Attachment, ...]) -> TurnError | None:
        can = self.capabilities
        for each in attachments:
            if not (can.images if each.is_image else can.files):
                what = "pictures" if each.is_image else "files"
                return TurnError("refused", f"{self.name} takes no {what}; say it in words")
        return None

    # ---- what frames mean, for protocols to say

    def text(self, piece: str) -> None:
        """It says a little more."""
        play = self._play
        if play is not None and piece:
            play.speech += piece
            play.used = True
            self.emit(TextDelta(piece))

    def thought(self, piece: str) -> None:
        """It thinks a little further."""
        if piece:
            self.emit(ThoughtDelta(piece))

    def flush(
        self, text: str | None = None, calls: tuple[ToolCall, ...] = (), *, partial: bool = False
    ) -> None:
        """A message of its has ended: `text`, or what was said of it so far."""
        play = self._play
        if play is None:
            return
        said = play.speech if text is None else text
        play.speech = ""
        if not said and not calls:
            return
        play.used = True
        if said:
            play.answer = said
        # What it says of a prompt that we cut is not whole, however it ends it.
        partial = partial or play.stopping is not None or play.redirect is not None
        self.record(ChatMessage("assistant", said, partial=partial, calls=calls))

    def tool_began(self, call: str, name: str, arguments: Any, *, told: bool = False) -> None:
        """A tool begins to work; `told`: a message has asked for it already."""
        play = self._play
        if play is None or call in play.tools:
            return
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        tool = ToolCall(call, name, arguments)
        play.used = True
        if not told:
            self.flush(calls=(tool,))
        play.tools[call] = _Tool(tool, trio.current_time())
        self.emit(ToolStarted(tool))

    def tool_ended(self, call: str, output: str, *, is_error: bool = False) -> None:
        """A tool has answered."""
        play = self._play
        tool = None if play is None else play.tools.pop(call, None)
        if tool is None:
            return
        seconds = trio.current_time() - tool.began
        self.record(ChatMessage("tool", output, call=call, is_error=is_error))
        self.emit(ToolEnded(tool.call, output, is_error, seconds))
        self.spend(Usage(tool_calls=1))

    def spend(self, usage: Usage) -> None:
        """It cost something; a level in it is the new one."""
        self.usage = self.usage.accumulate(usage)

    def ended(self, error: TurnError | None = None) -> None:
        """The prompt in flight has ended."""
        play = self._play
        if play is None or play.over:
            return
        play.over = True
        play.error = error
        play.news.set()

    def record(self, message: ChatMessage) -> None:
        """Something was said."""
        self._said.append(message)
        if self._play is not None:
            self._play.messages.append(message)
            self.emit(MessageEnded(message))

    def failing(self, error: TurnError | None) -> None:
        """It says that it failed; None: it tries again.  Its turn is not over yet."""
        if self._play is not None:
            self._play.failure = error

    def emit(self, event: SessionEvent) -> None:
        """Tell whoever asked."""
        play = self._play
        if play is not None:
            play.events.append(event)
            play.news.set()

    def observe(self, **found: Any) -> None:
        """A capability is other than was declared."""
        self.capabilities = msgspec.structs.replace(self.capabilities, **found)

    def approve(
        self, tool: str, arguments: Any, answer: Callable[[bool, str], Frame], description: str = ""
    ) -> None:
        """Have a call decided upon, and send what `answer` makes of the decision.

        A call of a turn that is over, or being cut, is refused.
        """
        life, play = self._life, self._play
        if life is None:
            return
        if play is None or play.stopping is not None:
            self.send(answer(False, "the turn was cut"))
            return
        life.nursery.start_soon(self._decide, play, tool, arguments, answer, description)

    async def _decide(
        self,
        play: Play,
        tool: str,
        arguments: Any,
        answer: Callable[[bool, str], Frame],
        description: str,
    ) -> None:
        play.deciding += 1
        self._listen_on(play)
        text = msgspec.json.encode(arguments, order="sorted").decode()
        try:
            said = await self._approvals.decide(tool, text, description=description)
        # Not swallowed: raised where it was asked, once the program has its answer.
        except Exception as error:
            self.send(answer(False, "whoever approves failed"))
            play.raised = error
            self._stop(play, TurnError("stopped", "whoever approves failed"))
        else:
            self.send(answer(said.allows, said.reason))
        finally:
            play.deciding -= 1
            self._listen_on(play)

    def _listen_on(self, play: Play) -> None:
        if play.stopping is None and play.redirect is None:
            play.patience.deadline = trio.current_time() + self._silence

    def fault(
        self, message: str, kind: ErrorKind | None = None, *, retryable: bool | None = None
    ) -> TurnError:
        """What went wrong with the model behind it, in the program's words."""
        said = quote(redact(message, self._secrets))
        if kind is None:
            if _OVERFLOW.search(said):
                kind = "context_overflow"
            elif _OFTEN.search(said):
                kind, retryable = "rate_limited", True
            else:
                kind = "provider"
                retryable = bool(_AGAIN.search(said)) if retryable is None else retryable
        return TurnError(kind, f"{self.name}: {said}", bool(retryable))

    # ---- frames to and fro

    def send(self, frame: Frame) -> None:
        """Send a frame; it waits its turn, we do not.  To a program that is gone it is nothing."""
        life = self._life
        if life is not None and life.why is None:
            life.outbox.send_nowait(frame)

    def new_id(self) -> int:
        """A number that no request had."""
        self._ids += 1
        return self._ids

    async def request(self, key: str, frame: Frame, seconds: float | None = None) -> Frame:
        """Send a request and return its answer, whole.

        Raises:
            RequestFailed: it did not come in time, or the program is gone.
        """
        life = self._life
        if life is None or life.why is not None:
            raise RequestFailed(self._dead_error())
        pending = life.pending[key] = Pending()
        self.send(frame)
        limit = self.timing.request if seconds is None else seconds
        try:
            with trio.move_on_after(limit):
                await pending.answered.wait()
        finally:
            life.pending.pop(key, None)
        if pending.error is not None:
            raise RequestFailed(pending.error)
        if pending.frame is None:
            what = frame.get("method") or frame.get("type")
            message = f"{self.name} did not answer {what!r} within {limit:g} s"
            raise RequestFailed(TurnError("timeout", message, True))
        return pending.frame

    def answered(self, key: str, frame: Frame) -> None:
        """An answer came for request `key`."""
        life = self._life
        pending = None if life is None else life.pending.get(key)
        if pending is None:
            self._unasked(key)
            return
        pending.frame = frame
        pending.answered.set()

    def _unasked(self, key: str) -> None:
        """An answer that nobody waits for: too late, or of somebody out of step."""
        if key.isdigit() and 0 < int(key) <= self._ids:
            self.late += 1
            return
        why = f"{self.name} is out of step: it answered a request {key!r} that was never made"
        self.discard(TurnError("protocol", why, True))

    # ---- the program

    async def open(self, nursery: trio.Nursery) -> None:
        """Start the program in `nursery`, which it ends with.

        Raises:
            CannotRun: there is no such program.
            RequestFailed: it did not get ready.
        """
        self._nursery = nursery
        await nursery.start(self._live)

    async def _ready(self) -> TurnError | None:
        """Have a program that takes prompts; or say why there is none."""
        if self._closed:
            return TurnError("closed", f"{self.name} was closed")
        life = self._life
        if life is not None and life.why is None:
            return None
        if life is not None:
            await life.over.wait()
        if self._gone is not None:
            return self._gone
        assert self._nursery is not None
        try:
            await self._nursery.start(self._live)
        except (CannotRun, RequestFailed) as error:
            why = error.error.message if isinstance(error, RequestFailed) else str(error)
            self._gone = TurnError("dead", f"{self.name} could not be replaced: {why}")
            return self._gone
        return None

    async def _live(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """One life of the program, from its start until nothing of it is left."""
        self._lives += 1
        life: _Life | None = None
        command = self.command
        if self.resume_id and self.resume_flags:
            command = (*command, *self.resume_flags, self.resume_id)
        try:
            async with (
                self.run(command, cwd=self.cwd, env=self.env, grace=self.grace) as process,
                beside() as nursery,
            ):
                outbox, inbox = trio.open_memory_channel[Frame](math.inf)
                life = self._life = _Life(nursery, process, outbox)
                nursery.start_soon(self._write, process, inbox)
                nursery.start_soon(self._read, life)
                ready = False
                try:
                    with trio.fail_after(self.timing.start):
                        await self.greet()
                    ready = True
                except trio.TooSlowError:
                    why = f"{self.name} was not ready within {self.timing.start:g} s"
                    raise RequestFailed(TurnError("start_failed", why, True)) from None
                finally:
                    if not ready:
                        # It has nothing to save, and whoever waits has given up.
                        process.kill()
                task_status.started()
                await trio.sleep_forever()
        finally:
            if life is not None:
                # Whatever it died of was told before; this is us.
                life.ours = life.ours or life.why is None
                self._died(life, life.why or TurnError("dead", f"{self.name} has ended"))
                life.over.set()

    async def _write(self, process: Process, inbox: trio.MemoryReceiveChannel[Frame]) -> None:
        async for frame in inbox:
            if self.on_wire is not None:
                self.on_wire(">", frame)
            try:
                await process.send(msgspec.json.encode(frame) + b"\n")
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                # It does not listen any more; its end is told where it is read.
                return

    async def _read(self, life: _Life) -> None:
        lines = LineReader(self.max_line)
        while data := await life.process.receive():
            for line in lines.feed(data):
                self._take(life, line)
                if life.why is not None:
                    return
        for line in lines.end():
            self._take(life, line)
        ended: Ended | None = None
        with trio.move_on_after(self.grace.eof):
            ended = await life.process.wait()
        what = "closed its output and lives on" if ended is None else f"ended {ended}"
        said = quote(redact(life.process.stderr_tail, self._secrets), _STDERR_QUOTED, tail=True)
        message = f"{self.name} {what}" + (f"; it said: {said}" if said else "")
        # To end well without an answer is not a crash, and no answer either.
        kind: ErrorKind = "protocol" if ended == Ended(0) else "crash"
        self._died(life, TurnError(kind, message, True))
        life.nursery.cancel_scope.cancel()

    def _take(self, life: _Life, line: Frame | BadLine | TooLong) -> None:
        play = self._play
        if play is not None:
            self._listen_on(play)
        if isinstance(line, BadLine):
            self.noise += 1
        elif isinstance(line, TooLong):
            why = f"{self.name} sent a line of more than {line.limit:,} bytes"
            self.discard(TurnError("protocol", why))
        else:
            if self.on_wire is not None:
                self.on_wire("<", line)
            try:
                self.hear(line)
            # A frame of another shape than we know is no reason to end: others follow.
            except (KeyError, TypeError, AttributeError, ValueError, IndexError):
                self.ignored += 1
            if play is not None and not play.over:
                # What it meant may be a tool at work, which is waited for longer.
                self._listen_on(play)

    def discard(self, why: TurnError) -> None:
        """End the program, because it is of no use; the next ask has another."""
        life = self._life
        if life is None or life.why is not None:
            return
        life.ours = True
        self._died(life, why)
        life.process.kill()
        life.nursery.cancel_scope.cancel()

    def _died(self, life: _Life, why: TurnError) -> None:
        if life.why is None:
            life.why = why
        why = life.why
        for pending in life.pending.values():
            pending.error = pending.error or why
            pending.answered.set()
        if not life.ours:
            self._gone = self._gone or self._dead_error()
        elif not (self.resume_id and self.capabilities.resume) and self._said:
            lost = f"{why.message}; it keeps no conversations, so that what was said is lost"
            self._gone = self._gone or TurnError("dead", lost)
        play = self._play
        if play is not None and not play.over:
            play.dead = self._gone is not None
            self.ended(why)

    def _dead_error(self) -> TurnError:
        life = self._life
        why = "" if life is None or life.why is None else f": {life.why.message}"
        return TurnError("dead", f"{self.name} is gone{why}")


S = TypeVar("S", bound=StdioSession)


@asynccontextmanager
async def running(session: S) -> AsyncGenerator[S]:
    """`session` with its program, until the block is left.

    Raises:
        CannotRun: there is no such program.
        StartFailed: it did not get ready; nothing of it is left.
    """
    async with beside() as nursery:
        try:
            await session.open(nursery)
        except RequestFailed as failed:
            raise StartFailed(session.name, failed.error) from None
        try:
            yield session
        finally:
            # As long as the program's own end may take, and no longer.
            grace = session.grace
            until = trio.current_time() + grace.eof + grace.term + grace.kill + 1
            with trio.CancelScope(deadline=until, shield=True):
                await session.close()


class StartFailed(Exception):
    """Raised when a coding agent did not get ready; nothing of it is left."""

    def __init__(self, name: str, error: TurnError) -> None:
        super().__init__(name, error)
        self.name = name
        self.error = error

    def __str__(self) -> str:
        return f"{self.name} did not start: {self.error.message}"


def tell(play: Play, on_event: OnEvent) -> None:
    """Tell what has happened, in order."""
    while play.events:
        on_event(play.events.popleft())


def quote(text: str, most: int = _QUOTED, *, tail: bool = False) -> str:
    """`text` in one line of at most `most` characters, without colours.

    Examples:
        >>> quote("\\x1b[31mError:\\x1b[0m  no\\n route", 12)
        'Error: no ro…'
    """
    plain = " ".join(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).split())
    if len(plain) <= most:
        return plain
    return f"…{plain[-most:]}" if tail else f"{plain[:most]}…"


def preface(memory: Memory) -> str:
    """What a mind without a memory is told before its first task."""
    if memory.summary:
        return f"What was said before, in short:\n{memory.summary}\n\nNow:\n"
    lines = [f"{m.role}: {m.text}" for m in memory.messages if m.text and m.role != "system"]
    return "What was said before:\n" + "\n".join(lines) + "\n\nNow:\n" if lines else ""


def program(agent: Agent, command: Sequence[str] | None, default: Sequence[str]) -> tuple[str, ...]:
    """The program behind a session: as it was called, the agent's own, or the default."""
    return tuple(command or agent.command or default)


def named_tools(agent: Agent, who: str) -> tuple[str, ...] | None:
    """The names of the tools that `agent` may use; None where it does not say.

    Raises:
        ValueError: one of them is not a name.  A coding agent has tools of its own.
    """
    if agent.tools is None:
        return None
    for each in agent.tools:
        if not isinstance(each, str):
            raise ValueError(f"{who} has its own tools, by name; it cannot be given {each!r:.80}")
    away = frozenset(agent.disallowed_tools)
    return tuple(str(each) for each in agent.tools if each not in away)


def model_parts(model: str | None) -> tuple[str, str]:
    """Provider and name in "provider/name" or "provider:name"; the first may be empty.

    Examples:
        >>> model_parts("openai/gpt-5-mini"), model_parts("sonnet"), model_parts(None)
        (('openai', 'gpt-5-mini'), ('', 'sonnet'), ('', ''))
    """
    parts = re.split("[/:]", model or "", maxsplit=1)
    return ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
