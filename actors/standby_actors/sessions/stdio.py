"""A coding agent over stdio as a session: one prompt in flight, a queue of our own, an end in time.

A protocol (pi, codex, claude, acp) says how a prompt is put, how a turn is cut, and what
the frames mean.  `wire` has the program, `playing` what it does in a turn, and this
module the turn from its task to its answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import trio
from attrs import define, field

from ..process.nursed import beside
from ..result import Attachment, ChatMessage, TurnError
from ..session import Memory, OnEvent, Steered, Steering, Turn, export_jsonl
from .playing import Play, Playing, tell
from .schema import AnswerSchema
from .wire import SHAPES, RequestFailed


@define(eq=False, kw_only=True)
class StdioSession(Playing):
    """A conversation with a coding agent; a protocol is a subclass.

    A program that dies by itself takes its session with it: the turn in flight
    ends as `crash`, later ones as `dead`, and `resume_id` is what a new session
    goes on from.  One that we had to end (it was silent, deaf, or out of step)
    is replaced at the next ask, if it keeps conversations; if it does not, the
    session is dead too, since the new one would remember nothing.
    """

    memory: Memory | None = None
    _schema: AnswerSchema | None = field(init=False, default=None, repr=False)
    _preface: str = field(init=False, default="", repr=False)
    _turns: trio.Lock = field(init=False, factory=trio.Lock, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.agent.schema is not None:
            self._schema = AnswerSchema(self.agent.schema)
        if self.memory is not None:
            self.resume_id = self.memory.resume
            if not self.resume_id:
                self._preface = preface(self.memory)

    def tell_instead(self) -> bool:
        """Begin anew, told of what the program has lost; False if there is nothing to tell."""
        told = "" if self.memory is None else preface(self.memory)
        if not (self.resume_id and told):
            return False
        self.resume_id, self._preface = "", told
        self._life = self._gone = None
        return True

    async def prompt(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        """Put a prompt; its end is told by :meth:`ended`.

        Raises:
            RequestFailed: it was not taken.
        """
        raise NotImplementedError

    # ---- the contract of a session

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Play one turn; asked while one is in flight, it waits for its turn."""
        async with self._turns:
            refusal = self._refusal(attachments) or await self.ready()
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
            play.withdraw()
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
                if (refusal := await self.ready()) is None:
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
            if (refusal := await self.ready()) is not None:
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
                await self._put(prompt, attachments)
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
        if play.is_cut:
            what = "did not end its turn when it was told to"
            play.redirect = None
            play.error = play.stopping or TurnError("idle_timeout", f"{self.name} {what}", True)
        else:
            what = f"said nothing for {self._silence:g} s"
            play.error = play.failure or TurnError("idle_timeout", f"{self.name} {what}", True)
        play.over = True
        self.discard(TurnError("dead", f"{self.name} {what}, and was ended"))

    async def _put(self, prompt: str, attachments: tuple[Attachment, ...]) -> None:
        try:
            await self.prompt(prompt, attachments)
        # Its answer is one that nobody can read: then the program is of no use.
        except SHAPES as error:
            why = self.misshapen(error)
            self.discard(why)
            raise RequestFailed(why) from error

    async def _let_go(self, play: Play) -> None:
        """The turn was cut from outside: have the program end it, or end the program."""
        # Whoever cut it waits for us a second and no longer.
        with trio.CancelScope(
            deadline=trio.current_time() + self.timing.abort, shield=True
        ) as waiting:
            play.stopping = play.stopping or TurnError("cancelled", "cut from outside")
            play.withdraw()
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
        play.withdraw()
        self.flush(partial=True)
        self._cut_tools(play)
        self._play = None

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
            await _begin(session, nursery)
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


async def _begin(session: StdioSession, nursery: trio.Nursery) -> None:
    try:
        await session.open(nursery)
    except RequestFailed as failed:
        # Killed at the wrong moment, they lose the conversation that they were to keep.
        if failed.error.kind in ("timeout", "start_failed") or not session.tell_instead():
            raise
        await session.open(nursery)


class StartFailed(Exception):
    """Raised when a coding agent did not get ready; nothing of it is left."""

    def __init__(self, name: str, error: TurnError) -> None:
        super().__init__(name, error)
        self.name = name
        self.error = error

    def __str__(self) -> str:
        return f"{self.name} did not start: {self.error.message}"


def preface(memory: Memory) -> str:
    """What a mind without a memory is told before its first task."""
    parts: list[str] = []
    if memory.summary:
        parts.append(f"What was said before, in short:\n{memory.summary}")
    lines = [f"{m.role}: {m.text}" for m in memory.messages if m.text and m.role != "system"]
    if lines:
        parts.append("What was said before:\n" + "\n".join(lines))
    return "\n\n".join([*parts, "Now:\n"]) if parts else ""
