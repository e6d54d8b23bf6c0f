"""A conversation with a model, over any of the providers' APIs and any base URL.

One turn asks the model, runs the tools that it calls, and asks again, until it
has answered.  What the model is shown are the turns that it answered: one that
failed stays in the transcript, marked, and is not shown again, because half an
answer makes a bad example, and a call without its answer is refused by servers.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import trio
from attrs import define, field

from ..agent import Agent
from ..context import summary_task
from ..result import Attachment, ChatMessage, ToolCall, TurnError
from ..session import (
    Capabilities,
    Compacted,
    Handoff,
    Memory,
    OnEvent,
    Steered,
    Steering,
    Turn,
    ignore,
    no_attachments,
)
from ..tools.answers import SUBMIT, Submission, no_tool
from ..tools.approvals import Approvals, approvals_of
from ..tools.calls import Answered, CallHistory, run_calls
from ..tools.guard import CallLimits
from ..tools.tool import Tool, refuse
from ..tools.toolbox import tools_of
from ..usage import NOTHING, Usage
from .asking import Answer, answer_of, entries_of
from .connection import ChatModel as ChatModel
from .connection import open_chat_model as open_chat_model
from .conversation import Conversation
from .past import past_of
from .schema import AnswerSchema
from .wires.wire import Asked, Entry

CONNECT_SECONDS = 10.0
KEPT_TURNS = 2
"""Turns that a compaction leaves as they were: the latest."""


@define(eq=False)
class ChatSession(Conversation):
    """One conversation with a chat model, turn by turn."""

    connection: ChatModel
    agent: Agent
    given: tuple[Tool, ...] = ()
    fallbacks: tuple[ChatModel, ...] = ()
    subagent: str = field(init=False, default="")
    """Whose it is."""
    usage: Usage = field(init=False, default=NOTHING)
    tools: tuple[Tool, ...] = field(init=False, default=())
    approvals: Approvals = field(init=False, repr=False)
    """Who is asked before a tool acts, and who waits for an answer."""
    limits: CallLimits = field(init=False)
    schema: AnswerSchema | None = field(init=False, default=None)
    summary: str = field(init=False, default="", repr=False)
    shown: list[list[Entry]] = field(init=False, factory=list[list[Entry]], repr=False)
    """The turns that it answered."""
    taken: set[str] = field(init=False, factory=set[str], repr=False)
    steers: collections.deque[str] = field(init=False, factory=collections.deque[str], repr=False)
    follow_ups: collections.deque[str] = field(
        init=False, factory=collections.deque[str], repr=False
    )

    def __attrs_post_init__(self) -> None:
        agent = self.agent
        self.tools = tools_of(agent, self.given)
        self.approvals = approvals_of(agent.approve)
        self.limits = CallLimits()
        if agent.schema is not None:
            self.schema = AnswerSchema(agent.schema)

    @property
    def model(self) -> str:
        """As in "openai/gpt-5-mini"."""
        return self.connection.name

    @property
    def hands_in(self) -> bool:
        """Whether an answer that is data is handed in by a tool.

        So it is where there are tools: text that is kept to a schema cannot call any, and
        some APIs have nothing else.
        """
        if self.schema is None:
            return False
        native = self.capabilities.schema or self.connection.wire.has_schema
        return bool(self.tools) or not native

    @property
    def capabilities(self) -> Capabilities:
        """What the model's server can do, as far as it has shown."""
        return self.connection.capabilities

    def recall(self, memory: Memory) -> None:
        """Begin with what was said before; it is shown to the model as its own past."""
        self.summary = memory.summary
        callable_now = {tool.name for tool in self.tools}
        if self.hands_in:
            callable_now.add(SUBMIT)
        past = past_of(memory.messages, callable_now, self.taken)
        if past:
            self.shown.append(entries_of(past))

    def known(self) -> Memory:
        """What the model is shown: the turns that it answered, the oldest as a summary."""
        return Memory(tuple(entry.message for turn in self.shown for entry in turn), self.summary)

    async def close(self) -> None:
        """Nothing is held between turns: the connections are the model's."""

    # ---- words from outside

    def steer(self, text: str) -> Steering:
        """Put a word into the turn in flight; it is in the next request to the model."""
        if self.scope is None:
            return "idle"
        self.steers.append(text)
        return "queued"

    def follow_up(self, text: str) -> Steering:
        """Leave a word for when the model has answered; the turn goes on with it."""
        if self.scope is None:
            return "idle"
        self.follow_ups.append(text)
        return "queued"

    # ---- turns

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Play one turn; see :class:`~standby_actors.session.Session`.

        Raises:
            RuntimeError: a turn is in flight.
        """
        if self.scope is not None:
            raise RuntimeError("a session plays one turn at a time")
        can = self.capabilities
        for attachment in attachments:
            if not (can.images if attachment.is_image else can.files):
                return Turn(error=no_attachments(self.model))
        turn = _Turn(self, on_event)
        turn.say(ChatMessage("user", text, attachments=attachments))
        outcome: Turn | None = None
        try:
            with trio.CancelScope() as self.scope:
                outcome = await turn.play()
        finally:
            self.scope = None
            self.steers.clear()
            self.follow_ups.clear()
        if outcome is None:
            error = TurnError("stopped", "interrupted")
            said = turn.messages[-1].text if turn.messages[-1].partial else ""
            return Turn(said, tuple(turn.messages), error)
        if outcome.error is None:
            self.shown.append(turn.entries)
        return outcome

    async def compact(self, on_event: OnEvent) -> TurnError | None:
        """Have the older turns summed up, and show the model that in their place.

        The latest turns stay as they are.  Failed or cancelled, it remembers
        what it did before.
        """
        older = self.shown[:-KEPT_TURNS]
        if not older:
            return TurnError(
                "context_overflow",
                f"there is nothing to sum up: {self.model} is shown {len(self.shown)} turns",
            )
        said = [entry.message for turn in older for entry in turn]
        if self.summary:
            said.insert(0, ChatMessage("user", f"Before that: {self.summary}"))
        before = self.usage.context_tokens
        writer = _Turn(self, ignore, is_aside=True)
        writer.entries = [Entry(ChatMessage("user", summary_task(tuple(said))))]
        answer = await answer_of([self.connection, *self.fallbacks], writer)
        if answer.error is not None:
            return answer.error
        if not answer.text.strip():
            return TurnError("protocol", f"{self.model} summed up {len(said)} messages as nothing")
        self.summary = answer.text.strip()
        self.shown = self.shown[-KEPT_TURNS:]
        # How full it is now is known after the next answer.
        self.usage = msgspec.structs.replace(self.usage, context_tokens=None)
        on_event(Compacted(before, None))
        return None


@define(eq=False)
class _Turn:
    """One turn while it is played: what was said in it, and who listens."""

    session: ChatSession
    on_event: OnEvent
    is_aside: bool = False
    """It is no part of the conversation: without its past and its tools."""
    messages: list[ChatMessage] = field(init=False, factory=list)
    entries: list[Entry] = field(init=False, factory=list[Entry])
    taken: set[str] = field(init=False)
    history: CallHistory = field(init=False, factory=CallHistory)
    submission: Submission | None = field(init=False, default=None)
    is_ended: bool = field(init=False, default=False)
    """A tool wants nothing more of the model in this turn."""
    handoff: Handoff | None = field(init=False, default=None)
    """Who is to go on with the conversation."""
    has_to_submit: bool = field(init=False, default=False)
    corrected: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        session = self.session
        self.taken = session.taken
        if session.hands_in and not self.is_aside:
            self.submission = Submission(session.agent.schema)

    def say(self, message: ChatMessage, opaque: tuple[Any, ...] = ()) -> None:
        """Add what was said to the turn and to the transcript."""
        self.entries.append(Entry(message, opaque))
        if self.is_aside:
            return
        self.session.say(self.messages, self.on_event, message)

    def spend(self, usage: Usage) -> None:
        """Count what was spent."""
        session = self.session
        if self.is_aside:
            usage = msgspec.structs.replace(usage, context_tokens=None)
        session.usage = session.usage.accumulate(usage)

    def level(self) -> int | None:
        """Tokens in the context."""
        return self.session.usage.context_tokens

    async def play(self) -> Turn:
        """Ask, run what is called, and ask again, until there is an answer."""
        session = self.session
        models = [session.connection, *session.fallbacks]
        most = None if self.is_aside else session.agent.max_requests
        requests = 0
        while True:
            if requests == most:
                asked = f"{most} request{'' if most == 1 else 's'}"
                why = f"the model had not answered after {asked}, all that its agent allows a turn"
                return self.failed(TurnError("runaway", why))
            requests += 1
            answer = await answer_of(models, self)
            if answer.error is not None:
                return self.failed(answer.error, answer.text)
            if answer.calls:
                error = await self.run(answer)
                if error is not None:
                    return self.failed(error)
                if self.handoff is not None:
                    said = answer.text.strip()
                    return Turn(said, tuple(self.messages), handoff=self.handoff)
                accepted = self.submission is not None and self.submission.accepted
                if not accepted and not self.is_ended:
                    self.steered(session.steers, "all")
                    continue
            elif self.steered(session.steers, "all"):
                continue
            if self.steered(session.follow_ups, "one"):
                continue
            ended = self.ended(answer)
            if ended is not None:
                return ended

    async def run(self, answer: Answer) -> TurnError | None:
        """Answer the calls of a message; why the turn ends with them, if it does."""
        session = self.session
        session.usage = session.usage.accumulate(Usage(tool_calls=len(answer.calls)))
        answered: dict[str, ChatMessage] = {}

        def keep(one: Answered) -> None:
            handoff = one.output.handoff
            if handoff is not None and self.handoff is not None:
                # A conversation goes to one.
                why = f"This was not done: the conversation goes to {self.handoff.to} already."
                one = msgspec.structs.replace(one, output=refuse(why))
            self.handoff = self.handoff or handoff
            answered[one.call.id] = one.message()

        try:
            answers = await run_calls(
                answer.calls,
                self.tools(),
                self.history,
                limits=session.limits,
                approvals=session.approvals,
                subagent=session.subagent,
                on_event=self.on_event,
                on_answer=keep,
            )
        finally:
            # Also when it is cut: what was done is not lost, and no call is without an
            # answer, since a history like that is refused by every server.
            for call in answer.calls:
                self.say(answered.get(call.id) or _not_begun(call))
        error = answers.error
        if error is None and self.submission is not None:
            error = self.submission.hear(answers)
        # Who has to hand in data has not done so by a tool that ends the turn.
        self.is_ended = self.submission is None and answers.ends_turn
        return error

    def tools(self) -> tuple[Tool, ...]:
        """What may be called in this turn."""
        if self.is_aside:
            return ()
        submit = () if self.submission is None else (self.submission.tool,)
        return (*self.session.tools, *submit)

    def steered(self, words: collections.deque[str], how: Literal["all", "one"]) -> bool:
        """Say what was put in from outside meanwhile; False if there was nothing."""
        if not words:
            return False
        while words:
            word = words.popleft()
            self.say(ChatMessage("user", word))
            self.on_event(Steered(word))
            if how == "one":
                break
        return True

    def ended(self, answer: Answer) -> Turn | None:
        """The turn, if `answer` ends it; None if the model is asked once more."""
        session = self.session
        submission, schema = self.submission, session.schema
        value: Any = None
        text = answer.text.strip()
        if submission is not None:
            again = submission.ask_again()
            if again is not None:
                self.has_to_submit = True
                self.say(ChatMessage("user", again))
                return None
            error = submission.error()
            if error is not None:
                return self.failed(error, text)
            value = submission.value
            assert schema is not None
            text = schema.write(value)
        elif schema is not None:
            try:
                value = schema.read(answer.text)
            except msgspec.MsgspecError as wrong:
                if not self.corrected:
                    self.corrected = True
                    self.say(
                        ChatMessage(
                            "user",
                            f"That does not fit the JSON schema: {wrong}.  Answer again,"
                            " with the whole corrected JSON and nothing else.",
                        )
                    )
                    return None
                why = f"{session.model} gave no {schema.name}, asked twice: {wrong}"
                return self.failed(TurnError("schema", why, True), text)
        if session.agent.must_call_tool:
            error = no_tool(self.history)
            if error is not None:
                return self.failed(error, text)
        return Turn(text, tuple(self.messages), None, value)

    def failed(self, error: TurnError, text: str = "") -> Turn:
        """The turn without an answer."""
        return Turn(text.strip(), tuple(self.messages), error)

    def asked(self, model: ChatModel) -> Asked:
        """The next request."""
        session, agent = self.session, self.session.agent
        prompt = agent.mind if isinstance(agent.mind, str) else ""
        schema = session.schema
        native: AnswerSchema | None = None
        parts = [prompt]
        if self.submission is not None:
            parts.append(self.submission.instruction())
        elif schema is not None and not self.is_aside:
            if model.capabilities.schema:
                native = schema
            else:
                parts.append(schema.instruction())
        if session.summary and not self.is_aside:
            parts.append(f"What was said so far, in short:\n{session.summary}")
        shown: Sequence[list[Entry]] = () if self.is_aside else session.shown
        return Asked(
            model.settings,
            "\n\n".join(part for part in parts if part),
            [*(entry for turn in shown for entry in turn), *self.entries],
            self.tools(),
            native,
            agent.max_tokens,
            agent.temperature,
            agent.effort,
            model.tells_usage,
            # Seconds that the server may say nothing.
            max(agent.idle_timeout, model.settings.least_patience),
            CONNECT_SECONDS,
            self.submission.tool.name if self.has_to_submit and self.submission else "",
        )


def _not_begun(call: ToolCall) -> ChatMessage:
    said = f"{call.name} was not begun: the turn was cut."
    return ChatMessage("tool", said, call=call.id, is_error=True)
