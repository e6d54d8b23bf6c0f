"""What can be done to an agent by whoever has its ref, and how a text comes to one.

Each command says of which life it is meant, and is refused by another.  What is refused
is a value that says why; nothing has happened then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
import trio
from attrs import field, frozen

from ..store import StoreError
from .facts import Lane, MailAccepted
from .keys import AgentKey, meant
from .mail import Mail, MailReceipt, Rejected, Slot, Why, new_id
from .recent import Recent
from .registry import AgentView, Dormant, LiveAgent, LiveAgents, Terminal, me

RECORD_SECONDS = 10.0
"""How long a word waits for its record."""
NEAR = 5
"""Names that are shown of agents that may have been meant."""


class AgentAnswered(msgspec.Struct, frozen=True, tag=True):
    """What an agent has answered."""

    target: AgentKey
    text: str


class TurnInterrupted(msgspec.Struct, frozen=True, tag=True):
    """The turn in flight was cut; the agent is there, and so is all that it has spawned."""

    target: AgentKey


class StoppedAgent(msgspec.Struct, frozen=True):
    """One that has exited."""

    key: AgentKey
    status: str
    why: str = ""


class AgentsStopped(msgspec.Struct, frozen=True, tag=True):
    """All that have exited by it; the one that was meant is the first."""

    agents: tuple[StoppedAgent, ...]


@frozen
class AgentRef:
    """One life of one agent, and the right to reach it."""

    key: AgentKey
    _live: LiveAgents = field(repr=False)

    def view(self) -> AgentView | Rejected:
        """How it is now, or was when it ended, while that is kept."""
        entry = self._live.get(self.key.name)
        if entry is not None and entry.key == self.key:
            return entry.view()
        kept = self._live.recent.get(self.key)
        return kept.view() if kept is not None else _refusal(self._live, self.key)

    async def steer(self, text: str, *, by: str | None = None) -> MailReceipt | Rejected:
        """Have it read a word before its turn goes on; between turns, in the next one.

        The word is on the disk once this returns, and reaches the agent once, in this
        life or a later one of its name.  Cancelled, it is as if it had been sent.

        Args:
            text: the word.
            by: who says so; the agent that calls this, unless given.
        """
        return (await _send(self._live, [self.key], "steer", text, by))[0]

    async def follow_up(self, text: str, *, by: str | None = None) -> MailReceipt | Rejected:
        """Leave a word for when its turn is over; else as :meth:`steer`."""
        return (await _send(self._live, [self.key], "follow_up", text, by))[0]

    async def tell(self, text: str, *, by: str | None = None) -> MailReceipt | Rejected:
        """Send it a message, to be read at the next seam of its turns; else as :meth:`steer`."""
        return (await _send(self._live, [self.key], "message", text, by))[0]

    async def ask(self, text: str, *, by: str | None = None) -> AgentAnswered | Rejected:
        """Send it a question, and wait for the answer.

        It answers by :meth:`reply`, or else by what the turn comes to that has read the
        question.  When its end begins, the asker goes on at once, without an answer.
        Cancelled, the question is withdrawn unless it is in a turn already.
        """
        live, sender = self._live, _sender(by)
        refused = _circle(live, sender, self.key)
        if refused is not None:
            await trio.lowlevel.checkpoint()
            return refused
        slot = Slot()
        waits = live.asks.setdefault(sender, [])
        waits.append(self.key.name)
        sent: MailReceipt | Rejected | None = None
        try:
            sent = (await _send(live, [self.key], "message", text, sender, slot))[0]
            if isinstance(sent, Rejected):
                return sent
            await slot.closed.wait()
        finally:
            waits.remove(self.key.name)
            if not waits:
                live.asks.pop(sender, None)
            if isinstance(sent, MailReceipt) and sent.state == "accepted":
                inbox = live.inboxes.get(self.key.name)
                if inbox is not None:
                    for fact in inbox.refuse("expired", "exited", [sent.mail.id]):
                        live.note(fact)
        if slot.answer is None:
            return Rejected(self.key.name, slot.why or "exited")
        return AgentAnswered(self.key, slot.answer)

    def reply(self, question: str, answer: str) -> bool:
        """Answer a question that it was asked; False if nobody waits for that answer."""
        entry = _entry(self._live, self.key)
        return isinstance(entry, LiveAgent) and entry.inbox.reply(question, answer)

    def interrupt_turn(self) -> TurnInterrupted | Rejected:
        """Cut its turn in flight, and nothing else: later turns are played."""
        entry = _entry(self._live, self.key)
        if isinstance(entry, Rejected):
            return entry
        if entry.subagent is None or not entry.subagent.interrupt():
            return Rejected(self.key.name, "idle")
        return TurnInterrupted(self.key)

    async def stop(self, why: str = "stopped") -> AgentsStopped | Rejected:
        """End it, and wait until nothing of it is left; what it has spawned goes on.

        Twice is once, with the same answer.  Cancelled, it ends all the same.
        """
        return await _end(self._live, [self.key], "stopped", why)

    async def stop_tree(self, why: str = "stopped") -> AgentsStopped | Rejected:
        """End it and all that it has spawned, side by side; says which those were."""
        below = [each.key for each in self._live.children(self.key.name)]
        return await _end(self._live, [self.key, *below], "stopped", why)

    def dormant(self) -> Dormant | Rejected:
        """What it can be resumed from, by :meth:`Run.resume`; only what is dormant can."""
        live = self._live
        kept = live.recent.get(self.key)
        if kept is not None and kept.dormant is not None and not live.is_over:
            if live.lives(self.key.name) == self.key.incarnation:
                return kept.dormant
            return Rejected(self.key.name, "stale_incarnation")
        entry = _entry(live, self.key)
        return entry if isinstance(entry, Rejected) else Rejected(self.key.name, "not_dormant")


def current_agent() -> AgentRef:
    """The agent in whose turn this is called: by its function, or by a tool of its.

    Raises:
        LookupError: it is called in the turn of no live agent.
    """
    caller = me()
    if caller is None or caller.runs is None:
        raise LookupError("this is called in the turn of no live agent")
    return AgentRef(caller.key, caller.runs)


async def broadcast(
    live: LiveAgents, text: str, by: str | None = None
) -> dict[str, MailReceipt | Rejected]:
    """Tell all live agents of one run, the sender left out; what became of each."""
    sender = _sender(by)
    keys = [each.key for each in live.all() if each.key.name != sender and not each.is_ending]
    if not keys:
        await trio.lowlevel.checkpoint()
        return {}
    sent = await _send(live, keys, "message", text, sender)
    return {key.name: what for key, what in zip(keys, sent, strict=True)}


def _sender(by: str | None) -> str:
    if by is not None:
        return by
    caller = me()
    return "" if caller is None else caller.key.name


def _circle(live: LiveAgents, sender: str, target: AgentKey) -> Rejected | None:
    """Why asking would never end: whoever is asked waits for the asker."""
    if sender and sender == target.name:
        return Rejected(target.name, "self")
    came_from: dict[str, str] = {}
    reached = [target.name]
    for name in reached:
        for waits_for in live.asks.get(name, ()):
            if waits_for == sender:
                path = [name]
                while path[-1] != target.name:
                    path.append(came_from[path[-1]])
                names = [sender, *reversed(path), sender]
                return Rejected(target.name, "cycle", " waits for ".join(names))
            if waits_for not in came_from and waits_for != target.name:
                came_from[waits_for] = name
                reached.append(waits_for)
    return None


def _refusal(live: LiveAgents, key: AgentKey) -> Rejected:
    """Why the life that `key` means cannot be reached."""
    if key.workspace != live.workspace or key.run != live.run:
        return Rejected(key.name, "other_run")
    lives = live.lives(key.name)
    if not 0 < key.incarnation <= lives:
        return Rejected(key.name, "unknown")
    if key.incarnation < lives:
        return Rejected(key.name, "stale_incarnation")
    kept = live.recent.get(key)
    is_dormant = kept is not None and kept.dormant is not None and not live.is_over
    return Rejected(key.name, "dormant" if is_dormant else "exited")


def _entry(live: LiveAgents, key: AgentKey) -> LiveAgent | Rejected:
    """The live agent that `key` means, if its end has not begun."""
    entry = live.get(key.name)
    if entry is None or entry.key != key:
        return _refusal(live, key)
    return Rejected(key.name, "ending") if entry.is_ending else entry


async def _send(
    live: LiveAgents,
    keys: Sequence[AgentKey],
    lane: Lane,
    text: str,
    by: str | None,
    slot: Slot | None = None,
) -> list[MailReceipt | Rejected]:
    """Send one word to each, recorded in one transaction."""
    sender = _sender(by)
    sent: list[MailReceipt | Rejected] = []
    facts: list[MailAccepted] = []
    to: list[tuple[int, LiveAgent, MailReceipt]] = []
    for key in keys:
        entry = _entry(live, key)
        refused = entry if isinstance(entry, Rejected) else entry.inbox.refusal(lane, text)
        if refused is not None or isinstance(entry, Rejected):
            assert refused is not None
            sent.append(refused)
            continue
        mail = Mail(new_id(), lane, text, sender, slot is not None)
        receipt = entry.inbox.add(mail)
        receipt.is_recorded = False
        receipt.held = entry.held or "between_turns"
        if slot is not None:
            entry.inbox.asked[mail.id] = slot
        entry.touch()
        facts.append(MailAccepted(mail.id, key.name, lane, text, sender, mail.question))
        to.append((len(sent), entry, receipt))
        sent.append(receipt)
    if facts:
        problem = await _recorded(live, facts)
        for place, entry, receipt in to:
            sent[place] = _deliver(live, entry, receipt, problem)
    else:
        await trio.lowlevel.checkpoint()
    return sent


async def _recorded(live: LiveAgents, facts: Iterable[MailAccepted]) -> str:
    """Why `facts` are not on the disk; empty if they are.  Also when cancelled."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + RECORD_SECONDS):
        try:
            await live.journal(*facts).wait()
        except StoreError as error:
            return str(error)
        return ""
    return f"the store did not answer within {RECORD_SECONDS:g} s"


def _deliver(
    live: LiveAgents, entry: LiveAgent, receipt: MailReceipt, problem: str
) -> MailReceipt | Rejected:
    """Put a word that is recorded where its agent finds it."""
    name = entry.key.name
    if receipt.is_settled:
        return Rejected(name, "exited")  # in the meantime
    if problem:
        _withdraw(live, entry, receipt, "unrecorded")
        return Rejected(name, "unrecorded", problem)
    receipt.is_recorded = True
    entry.flush()
    if receipt.mail.lane == "steer" and receipt.held == "not_steerable":
        _withdraw(live, entry, receipt, "not_steerable")
        return Rejected(name, "not_steerable")
    return receipt


def _withdraw(live: LiveAgents, entry: LiveAgent, receipt: MailReceipt, why: Why) -> None:
    for fact in entry.inbox.refuse("rejected", why, [receipt.mail.id]):
        live.note(fact)
    entry.touch()


async def _end(
    live: LiveAgents, keys: Sequence[AgentKey], status: Terminal, why: str
) -> AgentsStopped | Rejected:
    """Have the end of each begin, side by side, and wait for all."""
    ending: list[LiveAgent] = []
    for key in keys:
        entry = live.get(key.name)
        if entry is not None and entry.key == key:
            entry.end(status, why)
        else:
            entry = live.recent.get(key)
        if entry is not None:
            ending.append(entry)
    if not ending or ending[0].key != keys[0]:
        await trio.lowlevel.checkpoint()
        return _refusal(live, keys[0])
    for entry in ending:
        await entry.exited.wait()
    return AgentsStopped(
        tuple(StoppedAgent(entry.key, entry.status, entry.why) for entry in ending)
    )


# ---- from a text to a ref


class AgentFound(msgspec.Struct, frozen=True, tag=True):
    """The agent that was meant."""

    agent: AgentRef
    view: AgentView


class AgentMissing(msgspec.Struct, frozen=True, tag=True):
    """There is none."""

    text: str
    near: tuple[str, ...] = ()
    """Live agents that may have been meant."""

    def __str__(self) -> str:
        near = f"; there are: {', '.join(self.near)}" if self.near else ""
        return f"no agent is called {self.text!r}{near}"


class AgentAmbiguous(msgspec.Struct, frozen=True, tag=True):
    """There are several."""

    text: str
    keys: tuple[AgentKey, ...]

    def __str__(self) -> str:
        return f"{self.text!r} may be {' or '.join(str(key) for key in self.keys[:NEAR])}"


class NotOurs(msgspec.Struct, frozen=True, tag=True):
    """It names another workspace, or a run that is not at work here; nothing was looked up."""

    text: str
    run: str = ""
    workspace: str = ""


Sought: TypeAlias = AgentFound | AgentMissing | AgentAmbiguous


def find(workspace: str, runs: Iterable[LiveAgents], recent: Recent, text: str) -> Sought | NotOurs:
    """The agent of this workspace that is called `text`: live, or else ended of late.

    A name is that of the agent in its run, the id of its life, or that of its
    definition; the first of these that fits anybody counts.
    """
    try:
        parts = meant(text)
    except ValueError:
        return AgentMissing(text[:100])
    other = NotOurs(text, parts.run, parts.workspace if parts.workspace != workspace else "")
    if other.workspace:
        return other
    there = {live.run: live for live in runs}
    if parts.run and parts.run not in there:
        return other
    among = [there[parts.run]] if parts.run else list(there.values())
    live = [entry for each in among for entry in each.all()]
    ended = [entry for entry in recent.all() if not parts.run or entry.key.run == parts.run]
    for entries in (live, list({(each.key.run, each.key.name): each for each in ended}.values())):
        for name in (_by_name, _by_id, _by_definition):
            fit = [entry for entry in entries if name(entry) == parts.name]
            if len(fit) == 1 and fit[0].runs is not None:
                return AgentFound(AgentRef(fit[0].key, fit[0].runs), fit[0].view())
            if fit:
                return AgentAmbiguous(text, tuple(entry.key for entry in fit))
    return AgentMissing(text, tuple(entry.key.name for entry in live[:NEAR]))


def _by_name(entry: LiveAgent) -> str:
    return entry.key.name


def _by_id(entry: LiveAgent) -> str:
    return entry.id


def _by_definition(entry: LiveAgent) -> str:
    return entry.agent
