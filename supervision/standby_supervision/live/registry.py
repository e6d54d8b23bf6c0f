"""The live agents of a run: an entry is there as long as the task that holds its agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec
import trio
from attrs import define, field

from standby_actors import Agent, Subagent
from standby_actors.result import ChatMessage, ToolCall
from standby_actors.session import MessageEnded, SessionEvent, Steered, ToolEnded

from ..store import Receipt as Written
from ..store import StoredEvent, StoreError
from .activity import Activity, described
from .facts import CauseAdded, MailAccepted, MailConsumed, MailRefused, mail_fact_of
from .keys import AgentKey
from .mail import Held, Inbox, Mail
from .recent import Recent

if TYPE_CHECKING:
    from collections.abc import Generator

    from ..runs.facts import AgentStatus

Terminal: TypeAlias = Literal["completed", "failed", "cancelled", "stopped", "orphaned"]
END_SECONDS = 30.0
"""How long the end of a run waits for agents that somebody else's block holds."""


class AgentView(msgspec.Struct, frozen=True, gc=False):
    """How an agent was when somebody looked; it does not change."""

    key: AgentKey
    subagent: str
    """The id of this life, as in "scout#2"."""
    agent: str
    """The name of its definition."""
    status: AgentStatus
    parent: str
    """The name of the agent that has it spawned; empty for the run's program."""
    description: str
    model: str
    began: float
    """On trio's clock, as all times here."""
    updated: float
    ended: float | None
    in_turn: bool
    turns: int
    requests: int
    max_requests: int | None
    calls: tuple[ToolCall, ...]
    """Of tools at work now; see :attr:`tools`."""
    tool_uses: int
    text: str
    """The last 200 characters of what it said."""
    compactions: int
    context_tokens: int | None
    waiting: int
    """Words in its inbox."""
    question: str
    """That it waits for the answer of, from somebody outside."""
    why: str
    is_live: bool
    is_recorded: bool
    """Its exit has been acknowledged by the store."""

    @property
    def tools(self) -> tuple[tuple[str, str], ...]:
        """Those at work now: the id of the call, and what it does, in one line."""
        return tuple((call.id, described(call)) for call in self.calls)


class Dormant(msgspec.Struct, frozen=True):
    """An agent that has ended well and can be resumed: what it was, and what was said."""

    key: AgentKey
    agent: Agent
    said: tuple[ChatMessage, ...]
    before: str
    """What its next turn follows, in the digests of steps."""


@define(eq=False)
class LiveAgent:
    """One life of an agent: about to be, at work, waiting, or ending."""

    key: AgentKey
    id: str
    agent: str
    inbox: Inbox
    parent: str = ""
    description: str = ""
    max_requests: int | None = None
    status: AgentStatus = "queued"
    subagent: Subagent | None = None
    activity: Activity = field(factory=Activity)
    leave: trio.Event = field(factory=trio.Event)
    """Set when its end begins."""
    opening: trio.CancelScope = field(factory=trio.CancelScope)
    """Cut where its end begins before its session is open."""
    has_exited: bool = False
    exited: trio.Event = field(factory=trio.Event)
    """Set when nothing is left of it, and its record was written or given up."""
    why: str = ""
    question: str = ""
    dormant: Dormant | None = None
    exit: Any = None
    """The fact of its exit."""
    written: Written | None = None
    """Its record, handed in."""
    is_given_up: bool = False
    """Its record is for the next owner of the run to write."""
    failure: str = ""
    """Why it has not been acknowledged by the store."""
    runs: LiveAgents | None = None
    """Those it is among."""
    seen: AgentView | None = None
    """The last picture of it, if nothing has changed since."""

    @property
    def is_recorded(self) -> bool:
        """Its exit has been acknowledged by the store."""
        return self.written is not None and isinstance(self.written.outcome, int)

    @property
    def is_ending(self) -> bool:
        """How it ends is decided."""
        return self.leave.is_set()

    def view(self) -> AgentView:
        """How it is now."""
        if self.seen is None or self.has_exited:
            self.seen = self._look()
        return self.seen

    def _look(self) -> AgentView:
        # Ten thousand of these are made at once: each look-up that is saved counts.
        doing, is_live = self.activity, not self.has_exited
        return AgentView(
            self.key,
            self.id,
            self.agent,
            self.status,
            self.parent,
            self.description,
            doing.model,
            doing.began,
            doing.updated,
            None if is_live else doing.ended,
            doing.in_turn,
            doing.turns,
            doing.requests,
            self.max_requests,
            tuple(doing.tools.values()) if doing.tools else (),
            doing.tool_uses,
            doing.text,
            doing.compactions,
            doing.context_tokens,
            len(self.inbox.waiting),
            self.question,
            self.why,
            is_live,
            not is_live and self.is_recorded,
        )

    def touch(self) -> None:
        """Something of it has changed."""
        self.seen = None

    # ---- its life

    def begin(self, subagent: Subagent) -> None:
        """Its session is open."""
        self.subagent = subagent
        self.activity.model = subagent.model
        self.activity.updated = trio.current_time()
        if not self.is_ending:
            self.status = "running"
        self.touch()

    def end(self, status: Terminal, why: str = "") -> bool:
        """Decide how it ends, and have its end begin; False if that is decided.

        The first cause counts.  Another one is written down beside it.
        """
        if self.is_ending:
            if status != self.status and self.exit is None:
                self._note(CauseAdded(self.id, status, self.key.incarnation, why))
            return False
        self.status, self.why = status, why
        self.activity.updated = trio.current_time()
        self.leave.set()
        self.touch()
        if self.runs is not None:
            self._note(self.runs.terminated(self))
        self.inbox.close_slots("exited")
        if self.subagent is None:
            self.opening.cancel()
        elif status != "completed":
            self.subagent.stop()
        return True

    def _note(self, fact: Any) -> None:
        if self.runs is not None:
            self.runs.note(fact, entry=self)

    # ---- its turns

    def hear(self, event: SessionEvent) -> None:
        """Take in what happens in its turn."""
        self.activity.hear(event)
        self.seen = None
        if self.inbox.waiting:
            if isinstance(event, Steered):
                self.inbox.read(event.text)
            elif isinstance(event, MessageEnded | ToolEnded):
                # What came before the session had begun the turn can be put in now.
                self.flush()

    def put(self, mail: Mail) -> str:
        """Try to put a word into the turn in flight."""
        if self.subagent is None:
            return "idle"
        if mail.lane == "follow_up":
            return self.subagent.follow_up(mail.worded())
        return self.subagent.steer(mail.worded())

    @property
    def held(self) -> Held:
        """Why a word would not be put into a turn now; empty if it would."""
        if self.subagent is None:
            return "starting"
        if self.status == "waiting":
            return "parked"
        return "" if self.activity.in_turn else "between_turns"

    def flush(self) -> None:
        """Put into the turn in flight what waits, if it can be."""
        if self.inbox.waiting:
            for fact in self.inbox.flush(self.put, self.held):
                self._note(fact)
            self.touch()

    @contextmanager
    def parked(self, question: str) -> Generator[None]:
        """It waits for somebody outside while the block is open."""
        before, self.question = self.question, question
        if self.status == "running":
            self.status = "waiting"
        self.activity.updated = trio.current_time()
        self.touch()
        try:
            yield
        finally:
            self.question = before
            if self.status == "waiting" and not before:
                self.status = "running"
            self.activity.updated = trio.current_time()
            self.touch()
            self.flush()


class Journal(Protocol):
    """Where facts go."""

    def __call__(self, *facts: Any) -> Written: ...


class LiveAgents:
    """Those of one run, the oldest first; see :class:`Run`, which has one.

    Args:
        run: its id.
        journal: records facts.
        terminated: makes the fact that the end of one has begun.
    """

    def __init__(self, run: str, journal: Journal, terminated: Callable[[LiveAgent], Any]) -> None:
        self.run = run
        self.workspace = ""
        self.recent = Recent()
        self.terminated = terminated
        self.inboxes: dict[str, Inbox] = {}
        self.asks: dict[str, list[str]] = {}
        """Who waits for an answer of whom."""
        self.is_over = False
        self.journal = journal
        self._there: dict[str, LiveAgent] = {}
        self._lives: dict[str, int] = {}

    def join(self, workspace: str, recent: Recent) -> None:
        """Belong to a workspace, which keeps what has ended for a while."""
        self.workspace, self.recent = workspace, recent

    def recall(self, events: Iterable[StoredEvent]) -> None:
        """Take in what earlier processes have recorded: lives, and words that wait.

        Raises:
            msgspec.DecodeError: an event cannot be read.
        """
        for event in events:
            if event.kind == "live_agent.registered":
                fact = msgspec.json.decode(event.data, type=_Registered)
                name = fact.name or fact.subagent
                self._lives[name] = max(fact.incarnation, self._lives.get(name, 0))
                continue
            mail = mail_fact_of(event)
            if isinstance(mail, MailAccepted):
                self.inbox(mail.name).recall(mail)
            elif isinstance(mail, MailConsumed | MailRefused):
                for inbox in self.inboxes.values():
                    inbox.recall(mail)

    def note(self, *facts: Any, entry: LiveAgent | None = None) -> Written | None:
        """Record `facts`, waiting for nothing; a store that takes none is told of elsewhere."""
        try:
            return self.journal(*facts)
        except StoreError as error:
            if entry is not None:
                entry.failure = entry.failure or str(error)
            return None

    def inbox(self, name: str) -> Inbox:
        """That of an agent, over all its lives."""
        there = self.inboxes.get(name)
        if there is None:
            there = self.inboxes[name] = Inbox(name)
        return there

    @asynccontextmanager
    async def standing(
        self,
        id: str,  # noqa: A002 - as a subagent has it
        agent: Agent,
        *,
        name: str = "",
        parent: str = "",
    ) -> AsyncGenerator[LiveAgent]:
        """List an agent while the block is open, in the task that holds it.

        One of a name that is there begins when the one before has exited.
        """
        known = name or id
        while (before := self._there.get(known)) is not None:
            await before.exited.wait()
        life = self._lives[known] = self._lives.get(known, 0) + 1
        entry = self._there[known] = LiveAgent(
            AgentKey(self.workspace, self.run, known, life),
            id,
            agent.name,
            self.inbox(known),
            parent,
            agent.description,
            agent.max_requests,
            runs=self,
        )
        try:
            yield entry
        finally:
            del self._there[known]
            entry.subagent = None
            entry.activity.ended = entry.activity.updated = trio.current_time()
            entry.touch()
            if not name or self.is_over:
                self._give_up(entry)
            entry.has_exited = True
            entry.exited.set()
            self.recent.add(entry)

    def _give_up(self, entry: LiveAgent) -> None:
        """No other life of it will read what waits."""
        for fact in entry.inbox.refuse("rejected", "exited"):
            self.note(fact)
        self.inboxes.pop(entry.key.name, None)

    def views(self) -> list[AgentView]:
        """How they all are."""
        return [entry.seen or entry.view() for entry in self._there.values()]

    def all(self) -> list[LiveAgent]:
        """All of them."""
        return list(self._there.values())

    def get(self, name: str) -> LiveAgent | None:
        """The one of that name, if it is there."""
        return self._there.get(name)

    def lives(self, name: str) -> int:
        """How many lives an agent of that name has begun; 0 if it is not known."""
        return self._lives.get(name, 0)

    def children(self, name: str) -> list[LiveAgent]:
        """Those that it has spawned, and those that they have, nearest first."""
        found: list[LiveAgent] = []
        parents = [name]
        for parent in parents:
            for entry in self._there.values():
                if entry.parent == parent and entry not in found:
                    found.append(entry)
                    parents.append(entry.key.name)
        return found

    def end(self, status: Terminal, why: str = "") -> None:
        """Have the end of all of them begin, at once."""
        for entry in self.all():
            entry.end(status, why)

    async def over(self, status: Terminal, *, for_good: bool) -> None:
        """The run's block is left: end what is there, and wait for it.

        Args:
            status: of those that are there.
            for_good: the run does not go on, so that words that wait have expired.
        """
        self.is_over = True
        with trio.CancelScope(shield=True, deadline=trio.current_time() + END_SECONDS):
            self.end(status, "the run is over")
            for entry in self.all():
                await entry.exited.wait()
        if for_good:
            for inbox in self.inboxes.values():
                for fact in inbox.refuse("expired", "exited"):
                    self.note(fact)


class _Registered(msgspec.Struct):
    subagent: str
    incarnation: int = 1
    name: str = ""


_me: ContextVar[LiveAgent | None] = ContextVar("standby live agent", default=None)


def me() -> LiveAgent | None:
    """The live agent in whose turn the caller is; None outside of one."""
    return _me.get()


@contextmanager
def being(entry: LiveAgent) -> Generator[None]:
    """What is called in the block is called by `entry`."""
    token = _me.set(entry)
    try:
        yield
    finally:
        _me.reset(token)
