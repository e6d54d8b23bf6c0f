"""Words for an agent: three lanes, a bound, and a receipt that says what became of each.

An inbox is the agent's, over all its lives.  A life takes words out of it at the seams
of its turns; one is gone from it when the turn that read it is recorded, and not before,
so that neither a crash nor a cut turn loses or doubles it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec
import trio
from attrs import define, field

from .facts import (
    Lane,
    MailAccepted,
    MailConsumed,
    MailFact,
    MailInjected,
    MailRefused,
    MailReturned,
)

CAPACITY = 100
"""Words of one lane that wait at once."""
LONGEST = 100_000
"""Characters of one."""

Why: TypeAlias = Literal[
    "exited",
    "ending",
    "dormant",
    "stale_incarnation",
    "full",
    "unknown",
    "other_run",
    "not_steerable",
    "not_dormant",
    "idle",
    "self",
    "cycle",
    "malformed",
    "unrecorded",
]
State: TypeAlias = Literal["accepted", "injected", "consumed", "expired", "rejected"]
Held: TypeAlias = Literal["", "starting", "parked", "between_turns", "not_steerable"]
"""Why a word that was accepted is not in a turn yet; empty once it is, or was."""

_SAID: dict[str, str] = {
    "exited": "it has ended",
    "ending": "it is ending",
    "dormant": "it is dormant: resume it first",
    "stale_incarnation": "another life of it has begun",
    "full": f"{CAPACITY} words of that kind wait for it",
    "unknown": "there is no such agent",
    "other_run": "it is of another run",
    "not_steerable": "nothing can be put into a turn of its; leave a follow-up",
    "not_dormant": "only an agent that is dormant is resumed",
    "idle": "it has no turn in flight",
    "self": "it would be talking to itself",
    "cycle": "it waits for whoever asks",
    "malformed": f"a word has 1 to {LONGEST} characters",
    "unrecorded": "the store did not take it",
}
_LABEL: dict[Lane, str] = {"steer": "steer", "follow_up": "follow-up", "message": "message"}


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """What was asked for was not done; nothing has changed."""

    target: str
    why: Why
    detail: str = ""

    def __str__(self) -> str:
        said = f"{self.target}: {_SAID[self.why]}"
        return f"{said} ({self.detail})" if self.detail else said


class Mail(msgspec.Struct, frozen=True):
    """One word."""

    id: str
    lane: Lane
    text: str
    sender: str = ""
    question: bool = False

    def worded(self) -> str:
        """As the agent reads it.

        Examples:
            >>> Mail("m1", "message", "Are you done?", "scout#1", True).worded()
            '[question m1 from scout#1] Are you done?'
            >>> Mail("m2", "steer", "Be brief.").worded()
            '[steer] Be brief.'
        """
        label = f"question {self.id}" if self.question else _LABEL[self.lane]
        said_by = f" from {self.sender}" if self.sender else ""
        return f"[{label}{said_by}] {self.text}"


@define(eq=False)
class MailReceipt:
    """What becomes of a word; it goes on changing until it is settled."""

    mail: Mail
    target: str
    state: State = "accepted"
    held: Held = "between_turns"
    why: str = ""
    turn: int = 0
    """Which turn of its life has it, from 1; 0 before."""
    is_recorded: bool = True
    in_mid_turn: bool = False
    """It was put into a turn that had begun."""
    is_read: bool = False
    """Its agent has it before it."""
    _changed: trio.Event = field(factory=trio.Event)

    @property
    def is_settled(self) -> bool:
        """It stays as it is."""
        return self.state in ("consumed", "expired", "rejected")

    def set(self, state: State, *, held: Held = "", why: str = "") -> None:
        """Say what has become of it; what is settled stays."""
        if self.is_settled:
            return
        self.state, self.held, self.why = state, held, why
        self._changed.set()
        self._changed = trio.Event()

    async def settled(self) -> MailReceipt:
        """Wait until it is consumed, expired or rejected.

        Cancelled, it has changed nothing.
        """
        while not self.is_settled:
            await self._changed.wait()
        return self

    async def injected(self) -> MailReceipt:
        """Wait until it is in a turn, or settled."""
        while self.state == "accepted":
            await self._changed.wait()
        return self


@define(eq=False)
class Slot:
    """Where the answer to a question goes, once."""

    answer: str | None = None
    why: Why | None = None
    closed: trio.Event = field(factory=trio.Event)

    def fill(self, answer: str) -> bool:
        """Answer; False if it has an answer, or will have none."""
        if self.closed.is_set():
            return False
        self.answer = answer
        self.closed.set()
        return True

    def close(self, why: Why) -> None:
        """Say that there will be no answer."""
        if not self.closed.is_set():
            self.why = why
            self.closed.set()


Put: TypeAlias = Callable[[Mail], str]
"""Tries to put a word into the turn in flight: "queued", "idle", "unsupported"."""


@define(eq=False)
class Inbox:
    """What waits for one agent; see the module."""

    name: str
    waiting: dict[str, MailReceipt] = field(factory=dict)
    """In the order of their coming; those of a turn in flight too."""
    asked: dict[str, Slot] = field(factory=dict)
    """Who waits for an answer, by the question."""
    _turn: int = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def refusal(self, lane: Lane, text: str) -> Rejected | None:
        """Why a word would not be taken; None if it would."""
        if not text.strip() or len(text) > LONGEST:
            return Rejected(self.name, "malformed", f"{len(text)} characters")
        there = sum(1 for each in self.waiting.values() if each.mail.lane == lane)
        return Rejected(self.name, "full") if there >= CAPACITY else None

    def add(self, mail: Mail) -> MailReceipt:
        """Take a word."""
        receipt = self.waiting[mail.id] = MailReceipt(mail, self.name)
        return receipt

    def flush(self, put: Put, held: Held) -> list[MailFact]:
        """Put into the turn in flight whatever can be; the facts of it.

        Args:
            put: tries one.
            held: why nothing can be now; empty if it can.
        """
        moved: list[str] = []
        for receipt in self.waiting.values():
            if receipt.state != "accepted" or not receipt.is_recorded:
                continue
            if held:
                receipt.held = held
                continue
            if put(receipt.mail) != "queued":
                # It is in the next turn's task then: nothing is lost.
                receipt.held = "not_steerable"
                continue
            receipt.in_mid_turn, receipt.is_read, receipt.turn = True, False, self._turn
            receipt.set("injected")
            moved.append(receipt.mail.id)
        return [MailInjected(tuple(moved))] if moved else []

    def begin_turn(self, turn: int) -> tuple[str, list[MailFact]]:
        """What a turn's task begins with, and the facts of it."""
        self._turn = turn
        words: list[str] = []
        moved: list[str] = []
        for receipt in self.waiting.values():
            if receipt.state == "accepted" and receipt.is_recorded:
                receipt.in_mid_turn, receipt.is_read, receipt.turn = False, True, turn
                receipt.set("injected")
                moved.append(receipt.mail.id)
                words.append(receipt.mail.worded())
        return "\n".join(words), [MailInjected(tuple(moved))] if moved else []

    def read(self, text: str) -> None:
        """The session says that the mind has a word before it."""
        for receipt in self.waiting.values():
            if receipt.in_mid_turn and not receipt.is_read and receipt.mail.worded() == text:
                receipt.is_read = True
                return

    def end_turn(self, *, is_recorded: bool, answer: str | None) -> list[MailFact]:
        """The turn is over; the facts of what became of its words.

        Args:
            is_recorded: it is an outcome; if not, it will be played again, words and all.
            answer: for questions that were read and are not answered yet.
        """
        gone: list[str] = []
        back: list[str] = []
        for receipt in list(self.waiting.values()):
            if receipt.state != "injected":
                continue
            if is_recorded and receipt.is_read:
                gone.append(receipt.mail.id)
                del self.waiting[receipt.mail.id]
                receipt.set("consumed")
                if answer is not None and receipt.mail.question:
                    self.reply(receipt.mail.id, answer)
            else:
                back.append(receipt.mail.id)
                receipt.in_mid_turn = receipt.is_read = False
                receipt.set("accepted", held="between_turns")
        facts: list[MailFact] = []
        if gone:
            facts.append(MailConsumed(tuple(gone)))
        if back:
            facts.append(MailReturned(tuple(back)))
        return facts

    def refuse(
        self, state: Literal["expired", "rejected"], why: Why, which: Iterable[str] | None = None
    ) -> list[MailFact]:
        """Give up what waits, all of it or some; the facts of it."""
        ids = [each for each in (self.waiting if which is None else which) if each in self.waiting]
        for id in ids:  # noqa: A001 - of mail
            self.waiting.pop(id).set(state, why=why)
            slot = self.asked.pop(id, None)
            if slot is not None:
                slot.close(why)
        return [MailRefused(tuple(ids), why)] if ids else []

    def close_slots(self, why: Why) -> None:
        """Whoever waits for an answer gets none from this life."""
        asked, self.asked = self.asked, {}
        for slot in asked.values():
            slot.close(why)

    def reply(self, question: str, answer: str) -> bool:
        """Answer a question; False if nobody waits for that answer."""
        slot = self.asked.pop(question, None)
        return slot is not None and slot.fill(answer)

    def recall(self, fact: MailFact) -> None:
        """Take in what an earlier process has recorded."""
        match fact:
            case MailAccepted(mail, _, lane, text, sender, question):
                self.add(Mail(mail, lane, text, sender, question))
            case MailConsumed(ids) | MailRefused(ids):
                for id in ids:  # noqa: A001 - of mail
                    self.waiting.pop(id, None)
            case _:
                pass  # what was in a turn that nobody recorded waits again


def new_id() -> str:
    """Of a word or a question."""
    return secrets.token_hex(4)
