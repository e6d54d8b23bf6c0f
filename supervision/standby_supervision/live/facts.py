"""What is recorded of mail and of second causes, beside the facts of the run itself."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ..store import StoredEvent

Lane: TypeAlias = Literal["steer", "follow_up", "message"]
"""What a word is: to be read before the turn in flight goes on, or after it, or a peer's."""


class LiveFact(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Something that happened to a live agent."""


class CauseAdded(LiveFact, frozen=True, tag="live_agent.cause"):
    """Another reason for an end that had begun: the first is what counts."""

    subagent: str
    status: str
    incarnation: int = 1
    why: str = ""


class MailAccepted(LiveFact, frozen=True, tag="mail.accepted"):
    """A word for an agent, by its name: whichever of its lives reads it."""

    mail: str
    name: str
    lane: Lane
    text: str
    sender: str = ""
    question: bool = False
    """Its sender waits for an answer."""


class MailInjected(LiveFact, frozen=True, tag="mail.injected"):
    """These are in a turn, and not in the next one unless that turn is cut."""

    mail: tuple[str, ...]


class MailReturned(LiveFact, frozen=True, tag="mail.returned"):
    """Their turn was cut, or did not read them: they wait again."""

    mail: tuple[str, ...]


class MailConsumed(LiveFact, frozen=True, tag="mail.consumed"):
    """The turn that read them is recorded."""

    mail: tuple[str, ...]


class MailRefused(LiveFact, frozen=True, tag="mail.refused"):
    """They will not be read, and why: `expired`, or a reason of :class:`Rejected`."""

    mail: tuple[str, ...]
    why: str


MailFact: TypeAlias = (
    CauseAdded | MailAccepted | MailInjected | MailReturned | MailConsumed | MailRefused
)
_decoder: msgspec.json.Decoder[MailFact] = msgspec.json.Decoder(MailFact)
KINDS: frozenset[str] = frozenset(str(each.__struct_config__.tag) for each in MailFact.__args__)


def mail_fact_of(event: StoredEvent) -> MailFact | None:
    """The fact of this module that `event` keeps; None for one of another.

    Raises:
        msgspec.DecodeError: it is no fact of its kind.
    """
    return _decoder.decode(event.data) if event.kind in KINDS else None
