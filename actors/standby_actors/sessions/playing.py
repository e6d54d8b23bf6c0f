"""What a coding agent does in a turn, in our words: what it says, its tools, what it asks for."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import trio
from attrs import define, field

from ..agent import Agent
from ..process import Frame
from ..result import ChatMessage, ToolCall, TurnError
from ..session import (
    Capabilities,
    MessageEnded,
    OnEvent,
    SessionEvent,
    TextDelta,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
)
from ..tools.approvals import Approvals, approvals_of
from ..usage import NOTHING, Usage
from .wire import SHAPES, Wire


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
    deciding: dict[trio.CancelScope, None] = field(factory=dict[trio.CancelScope, None])
    """Approvals that somebody thinks about."""
    patience: trio.CancelScope = field(factory=trio.CancelScope)
    used: bool = False
    """It said something, or worked."""

    @property
    def is_cut(self) -> bool:
        """The prompt in flight was told to end."""
        return self.stopping is not None or self.redirect is not None

    def withdraw(self) -> None:
        """Nobody needs to think about its approvals any more: they are refused."""
        for scope in list(self.deciding):
            scope.cancel()


@define(eq=False, kw_only=True)
class Playing(Wire):
    """The side of a session that hears; between turns it hears too, and tells nobody."""

    agent: Agent
    model: str = ""
    capabilities: Capabilities = field(factory=Capabilities)
    usage: Usage = NOTHING
    _approvals: Approvals = field(init=False, repr=False)
    _said: list[ChatMessage] = field(init=False, factory=list[ChatMessage], repr=False)
    _play: Play | None = field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._approvals = approvals_of(self.agent.approve)

    def abort(self) -> None:
        """Tell the program to end its turn."""
        raise NotImplementedError

    # ---- what it does

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
            self.emit(ThoughtDelta(checked_text(piece)))

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
        partial = partial or play.is_cut
        self.record(ChatMessage("assistant", said, partial=partial, calls=calls))

    def tool_began(self, call: str, name: str, arguments: Any, *, told: bool = False) -> None:
        """A tool begins to work; `told`: a message has asked for it already."""
        play = self._play
        if play is None or call in play.tools:
            return
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        tool = ToolCall(checked_text(call), checked_text(name), arguments)
        play.used = True
        if not told:
            self.flush(calls=(tool,))
        play.tools[call] = _Tool(tool, trio.current_time())
        self.emit(ToolStarted(tool))

    def tool_ended(
        self, call: str, output: str, *, is_error: bool = False, is_cut: bool = False
    ) -> None:
        """A tool has answered, or is not waited for."""
        play = self._play
        tool = None if play is None else play.tools.pop(call, None)
        if tool is None:
            return
        assert play is not None
        # What a program says of a tool that it was told to stop is no failure of the tool.
        is_cut = is_cut or (is_error and (play.is_cut or play.stopping is not None))
        seconds = trio.current_time() - tool.began
        self.record(ChatMessage("tool", output, call=call, is_error=is_error))
        self.emit(ToolEnded(tool.call, output, is_error, seconds, is_cut))
        self.spend(Usage(tool_calls=1))

    def spend(self, usage: Usage) -> None:
        """It cost something; a level in it is the new one."""
        # It is read from frames of others: what is no number would add up to nonsense.
        counts = msgspec.structs.asdict(usage)
        msgspec.convert(counts, Usage)
        if any(count < 0 for count in counts.values() if count is not None):
            raise ValueError("nothing costs less than nothing")
        self.usage = self.usage.accumulate(usage)

    def record(self, message: ChatMessage) -> None:
        """Something was said."""
        for each in (message.text, message.call, *(call.id for call in message.calls)):
            checked_text(each)
        self._said.append(message)
        if self._play is not None:
            self._play.messages.append(message)
            self.emit(MessageEnded(message))

    def failing(self, error: TurnError | None) -> None:
        """It says that it failed; None: it tries again.  Its turn is not over yet."""
        if self._play is not None:
            self._play.failure = error

    def ended(self, error: TurnError | None = None) -> None:
        """The prompt in flight has ended."""
        play = self._play
        if play is None or play.over:
            return
        play.over = True
        play.error = error
        play.news.set()

    def emit(self, event: SessionEvent) -> None:
        """Tell whoever asked."""
        play = self._play
        if play is not None:
            play.events.append(event)
            play.news.set()

    def observe(self, **found: Any) -> None:
        """A capability is other than was declared."""
        known = msgspec.structs.replace(self.capabilities, **found)
        self.capabilities = msgspec.convert(msgspec.structs.asdict(known), Capabilities)

    # ---- what it asks for

    def approve(
        self, tool: str, arguments: Any, answer: Callable[[bool, str], Frame], description: str = ""
    ) -> None:
        """Have a call decided upon, and send what `answer` makes of the decision.

        A call of a turn that is over, or being cut, is refused.
        """
        life, play = self._life, self._play
        if life is None:
            return
        if play is None or play.is_cut:
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
        text = msgspec.json.encode(arguments, order="sorted").decode()
        verdict = answer(False, "the turn was cut")
        with trio.CancelScope() as scope:
            play.deciding[scope] = None
            self._listen_on(play)
            try:
                said = await self._approvals.decide(tool, text, description=description)
                # Cut in the meantime, it would act in a turn that is over.
                if not play.is_cut:
                    verdict = answer(said.allows, said.reason)
            # Not swallowed: raised where it was asked, once the program has its answer.
            except Exception as error:
                verdict = answer(False, "whoever approves failed")
                play.raised = error
                self._stop(play, TurnError("stopped", "whoever approves failed"))
            finally:
                del play.deciding[scope]
                self._listen_on(play)
                self.send(verdict)

    # ---- how long it is waited for

    def listening(self) -> None:
        """It is alive, and may be silent again for as long as it may."""
        if self._play is not None:
            self._listen_on(self._play)

    def lost(self, why: TurnError) -> None:
        """With the program the turn in flight ends."""
        play = self._play
        if play is not None:
            try:
                self.charge_cut()
            # Figures in a frame that was taken as it came, and are none.
            except SHAPES:
                self.ignored += 1
        if play is not None and not play.done:
            play.dead = self._gone is not None
            self.ended(why)

    def charge_cut(self) -> None:
        """Count what was told or shown of an answer whose end does not come; once."""

    @property
    def remembers(self) -> bool:
        """It keeps conversations, or there is nothing to keep."""
        return not self._said or bool(self.resume_id and self.capabilities.resume)

    def _listen_on(self, play: Play) -> None:
        if not play.is_cut:
            play.patience.deadline = trio.current_time() + self._silence

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
        play.withdraw()
        play.words.clear()
        play.patience.deadline = trio.current_time() + self.timing.interrupt
        if not play.over:
            self.abort()

    def _cut_tools(self, play: Play) -> None:
        for call in list(play.tools):
            said = "cut: the turn ended before the tool did"
            self.tool_ended(call, said, is_error=True, is_cut=True)


def tell(play: Play, on_event: OnEvent) -> None:
    """Tell what has happened, in order."""
    while play.events:
        on_event(play.events.popleft())


def checked_text(value: object) -> str:
    """`value`, which a frame says is a text.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, str):
        raise TypeError(f"a text, not {type(value).__name__}")
    return value
