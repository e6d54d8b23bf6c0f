"""What a program with an open workspace can be asked about its live agents, from outside.

    async with standby.serve_workspace(workspace):
        ...

Every request names the workspace that it is about, and is refused by any other: whoever
is in another folder reaches nothing here, whatever the id.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal, Protocol, TypeAlias

import msgspec
import trio

from ..control import Control, Verb, serve_control
from .facts import Lane
from .mail import MailReceipt, Rejected
from .recent import KEPT_SECONDS
from .refs import AgentAmbiguous, AgentFound, AgentMissing, AgentsStopped
from .registry import AgentView

WAIT_SECONDS = 8.0
"""How long the answer to a stop waits for the exits; they come all the same."""

Word: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]


class Served(Protocol):
    """What of a workspace is served."""

    path: Any

    def agents(self) -> list[AgentView]: ...
    def recent_agents(self) -> list[AgentView]: ...
    def evict(self) -> int: ...
    def find(self, text: str) -> Any: ...


class ListAgents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask who is at work in a workspace."""

    workspace: str
    recent: bool = False
    """Those that have ended of late, too."""


class AgentLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One agent, as another process is told of it: times are seconds ago."""

    run: str
    name: str
    agent: str
    incarnation: int
    status: str
    age: float
    """Since it began."""
    idle: float
    """Since something of it has changed."""
    turns: int = 0
    requests: int = 0
    tool_uses: int = 0
    in_turn: bool = False
    tools: tuple[str, ...] = ()
    text: str = ""
    model: str = ""
    context_tokens: int | None = None
    compactions: int = 0
    waiting: int = 0
    parent: str = ""
    question: str = ""
    why: str = ""
    is_live: bool = True
    is_recorded: bool = False


class AgentLines(msgspec.Struct, frozen=True, tag=True):
    """Those of one workspace in one program."""

    pid: int
    workspace: str
    agents: tuple[AgentLine, ...]


class StopAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask for the end of an agent."""

    workspace: str
    agent: Word
    tree: bool = False
    """And of all that it has spawned."""
    why: str = "stopped by an operator"
    incarnation: int | None = None
    """Which life is meant; None for the one now."""


class SteerAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Put a word into an agent's turn."""

    workspace: str
    agent: Word
    words: str
    lane: Lane = "steer"
    by: str = "operator"
    incarnation: int | None = None


class InterruptAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cut an agent's turn in flight."""

    workspace: str
    agent: Word
    incarnation: int | None = None


class EvictAgents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Drop what has ended, is older than ten minutes, and is recorded."""

    workspace: str


Kind: TypeAlias = Literal["done", "missing", "ambiguous", "workspace_denied", "rejected"]


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """What came of it."""

    kind: Kind
    message: str
    why: str = ""
    """Of a rejection, in one word."""
    agents: tuple[str, ...] = ()
    """Whom it was about."""


def live_verbs(workspace: Served) -> tuple[Verb[Any], ...]:
    """The verbs by which the live agents of `workspace` are reached."""
    answers = _Answers(workspace)
    return (
        Verb("agents", ListAgents, answers.agents),
        Verb("agent_stop", StopAgent, answers.stop),
        Verb("agent_steer", SteerAgent, answers.steer),
        Verb("agent_interrupt", InterruptAgent, answers.interrupt),
        Verb("agents_evict", EvictAgents, answers.evict),
    )


def serve_workspace(workspace: Served, *, title: str | None = None) -> Control:
    """Let this user's `standby ps`, `stop`, `steer` and `evict` reach the live agents of
    `workspace` while the block is open; else as :func:`serve_control`.

    Args:
        workspace: an open one.
        title: what the program is listed as; by default its command line.
    """
    return serve_control(*live_verbs(workspace), title=title)


class _Answers:
    def __init__(self, workspace: Served) -> None:
        self._workspace = workspace

    async def agents(self, asked: ListAgents) -> AgentLines | Outcome:
        if self._is_other(asked.workspace):
            return self._denied(asked.workspace)
        views = self._workspace.agents()
        if asked.recent:
            views += self._workspace.recent_agents()
        now = trio.current_time()
        lines = tuple(_line(view, now) for view in views)
        return AgentLines(os.getpid(), str(self._workspace.path), lines)

    async def stop(self, asked: StopAgent) -> Outcome:
        there = self._found(asked.workspace, asked.agent, asked.incarnation)
        if isinstance(there, Outcome):
            return there
        stop = there.agent.stop_tree if asked.tree else there.agent.stop
        with trio.move_on_after(WAIT_SECONDS):
            stopped = await stop(asked.why)
            if not isinstance(stopped, AgentsStopped):
                return Outcome("rejected", str(stopped), stopped.why)
            names = tuple(each.key.name for each in stopped.agents)
            said = ", ".join(f"{each.key.name} {each.status}" for each in stopped.agents)
            return Outcome("done", said, agents=names)
        return Outcome("done", f"{there.agent.key.name} is ending", agents=(there.agent.key.name,))

    async def steer(self, asked: SteerAgent) -> Outcome:
        there = self._found(asked.workspace, asked.agent, asked.incarnation)
        if isinstance(there, Outcome):
            return there
        ref = there.agent
        send = {"steer": ref.steer, "follow_up": ref.follow_up, "message": ref.tell}[asked.lane]
        sent = await send(asked.words, by=asked.by)
        if not isinstance(sent, MailReceipt):
            return Outcome("rejected", str(sent), sent.why)
        held = sent.held.replace("_", " ")
        said = f"{ref.key.name}: {sent.state}" + (f" ({held})" if held else "")
        return Outcome("done", said, agents=(ref.key.name,))

    async def interrupt(self, asked: InterruptAgent) -> Outcome:
        there = self._found(asked.workspace, asked.agent, asked.incarnation)
        if isinstance(there, Outcome):
            return there
        name = there.agent.key.name
        cut = there.agent.interrupt_turn()
        if isinstance(cut, Rejected):
            return Outcome("rejected", str(cut), cut.why)
        return Outcome("done", f"the turn of {name} is cut", agents=(name,))

    async def evict(self, asked: EvictAgents) -> Outcome:
        if self._is_other(asked.workspace):
            return self._denied(asked.workspace)
        count = self._workspace.evict()
        left = len(self._workspace.recent_agents())
        minutes = KEPT_SECONDS / 60
        return Outcome(
            "done",
            f"{count} evicted; {left} ended less than {minutes:g} minutes ago, or unrecorded",
        )

    def _is_other(self, workspace: str) -> bool:
        return workspace != str(self._workspace.path)

    def _denied(self, what: str) -> Outcome:
        # The same whether or not anything is there.
        return Outcome("workspace_denied", f"{what!r} is not of this workspace", "workspace_denied")

    def _found(self, workspace: str, text: str, incarnation: int | None) -> AgentFound | Outcome:
        if self._is_other(workspace):
            return self._denied(text)
        there = self._workspace.find(text)
        match there:
            case AgentFound():
                life = there.agent.key.incarnation
                if incarnation is not None and incarnation != life:
                    why = f"{text}: life {incarnation} was meant, and it is life {life}"
                    return Outcome("rejected", why, "stale_incarnation")
                return there
            case AgentMissing():
                return Outcome("missing", str(there), "unknown")
            case AgentAmbiguous():
                names = tuple(str(key) for key in there.keys)
                return Outcome("ambiguous", str(there), "ambiguous", names)
            case _:
                return self._denied(text)


def _line(view: AgentView, now: float) -> AgentLine:
    until = now if view.ended is None else view.ended
    return AgentLine(
        view.key.run,
        view.key.name,
        view.agent,
        view.key.incarnation,
        view.status,
        round(until - view.began, 3),
        round(now - view.updated, 3),
        view.turns,
        view.requests,
        view.tool_uses,
        view.in_turn,
        tuple(what for _, what in view.tools),
        view.text,
        view.model,
        view.context_tokens,
        view.compactions,
        view.waiting,
        view.parent,
        view.question,
        view.why,
        view.is_live,
        view.is_recorded,
    )
