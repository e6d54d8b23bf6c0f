"""What a run writes down: each fact is one event of its journal, and is never changed.

Facts come in pairs where something may be cut short: that it began is on the disk before
it begins, and how it ended before anybody is told.  One that began and did not end is in
doubt, and nothing else is.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from standby_actors import Result
from standby_actors.usage import NOTHING, Usage

from ..owner import Owner
from ..store import NewEvent, StoredEvent

Ending: TypeAlias = Literal["completed", "failed", "cancelled", "blocked"]
"""How a run is over.  All but the first can be gone on from."""


class Fact(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Something that happened to a run.  Layers above have facts of their own."""


class StepId(msgspec.Struct, frozen=True):
    """Which step of a program is meant, in any process that plays the program."""

    digest: str
    """Of what is asked, of whom, and after what: 32 hexadecimal digits."""
    number: int = 1
    """Among those of the same digest, in the order of asking."""

    @property
    def key(self) -> str:
        """Its idempotency key within its run."""
        return f"{self.digest}-{self.number}"


class RunOpened(Fact, frozen=True, tag="run.opened"):
    """The run is accepted: the first fact of each."""

    name: str
    owner: Owner
    command: tuple[str, ...] = ()
    """What started its program, for `standby resume`."""
    cwd: str = ""
    """The folder that it was started in."""


class RunResumed(Fact, frozen=True, tag="run.resumed"):
    """Another owner, or the same one again, goes on with it."""

    owner: Owner


class RunInterrupted(Fact, frozen=True, tag="run.interrupted"):
    """Nobody works on it any more, and it is not over."""

    why: str
    crashed: bool = False
    """Its owner went without a word."""


class RunReleased(Fact, frozen=True, tag="run.released"):
    """Somebody has looked why its owners crash, and it may be tried again."""

    by: str = ""


class CancelWanted(Fact, frozen=True, tag="run.cancel_wanted"):
    """Somebody outside wants it to end; it is for its owner to do."""

    why: str
    by: str = ""


class RunEnded(Fact, frozen=True, tag="run.ended"):
    """It is over."""

    how: Ending
    error: str = ""
    output: str = ""


class TurnBegan(Fact, frozen=True, tag="turn.began"):
    """A subagent is about to be asked."""

    step: StepId
    agent: str
    subagent: str
    attempt: int = 1
    """How often it was begun, this time included."""


class TurnEnded(Fact, frozen=True, tag="turn.ended"):
    """What it came to; it is never played again."""

    step: StepId
    result: Result


class TurnCut(Fact, frozen=True, tag="turn.cut"):
    """It was stopped in an orderly way: it is played again when the run goes on."""

    step: StepId
    result: Result | None = None
    """What it cost until then; None where the cut left no Result."""


class EffectBegan(Fact, frozen=True, tag="effect.began"):
    """A function of the program is about to be called."""

    step: StepId
    name: str
    attempt: int = 1


class EffectEnded(Fact, frozen=True, tag="effect.ended"):
    """What it returned, as JSON; it is never called again."""

    step: StepId
    value: msgspec.Raw


class EffectFailed(Fact, frozen=True, tag="effect.failed"):
    """It raised; it is never called again."""

    step: StepId
    error: str


class EffectCut(Fact, frozen=True, tag="effect.cut"):
    """It was cancelled, and is called again when the run goes on."""

    step: StepId


class Forgiven(Fact, frozen=True, tag="step.forgiven"):
    """Somebody has looked at a step in doubt, and it may be tried once more."""

    step: StepId
    by: str = ""


class AgentRegistered(Fact, frozen=True, tag="live_agent.registered"):
    """A live agent: registered when its session is about to be opened."""

    agent: str
    subagent: str
    incarnation: int = 1
    """Which life of that name in its run it is."""
    role: str = ""
    name: str = ""
    """What it is called over all its lives; the id of the subagent where that is empty."""
    parent: str = ""
    """The name of the live agent that has it spawned; empty for the run's program."""


AgentStatus: TypeAlias = Literal[
    "queued", "running", "waiting", "completed", "failed", "cancelled", "stopped", "orphaned"
]
"""How a live agent is; the first three are not its end."""


class AgentTerminated(Fact, frozen=True, tag="live_agent.terminated"):
    """Its end begins: what follows is bounded, and leads to its exit."""

    subagent: str
    status: AgentStatus
    incarnation: int = 1
    why: str = ""


class AgentExited(Fact, frozen=True, tag="agent.exited"):
    """Nothing of it is left; one for each that was registered."""

    subagent: str
    status: AgentStatus
    incarnation: int = 1
    closed: bool = False
    """Its close has been seen to return."""
    why: str = ""
    usage: Usage = NOTHING


class QuestionAsked(Fact, frozen=True, tag="question.asked"):
    """Somebody outside is asked; the run waits."""

    question: str
    """Its id, within the run."""
    text: str
    choices: tuple[str, ...] = ()
    default: str | None = None
    """What is taken for an answer at the deadline; None for no answer."""
    deadline: float | None = None
    """Seconds since the epoch."""


class QuestionAnswered(Fact, frozen=True, tag="question.answered"):
    """The first of these counts; it may have been written by another process."""

    question: str
    answer: str
    by: str = ""


class QuestionExpired(Fact, frozen=True, tag="question.expired"):
    """Its deadline came first."""

    question: str


RunFact: TypeAlias = (
    RunOpened
    | RunResumed
    | RunInterrupted
    | RunReleased
    | CancelWanted
    | RunEnded
    | TurnBegan
    | TurnEnded
    | TurnCut
    | EffectBegan
    | EffectEnded
    | EffectFailed
    | EffectCut
    | Forgiven
    | AgentRegistered
    | AgentTerminated
    | AgentExited
    | QuestionAsked
    | QuestionAnswered
    | QuestionExpired
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[RunFact] = msgspec.json.Decoder(RunFact)
KINDS: frozenset[str] = frozenset(str(each.__struct_config__.tag) for each in RunFact.__args__)
"""The kinds that the fold of a run knows; others belong to layers above."""


def kind_of(fact: Any) -> str:
    """As what `fact` is kept.

    Examples:
        >>> kind_of(RunInterrupted("owner gone"))
        'run.interrupted'
    """
    return str(fact.__struct_config__.tag)


def event_of(fact: Any) -> NewEvent:
    """`fact` as it is kept."""
    return NewEvent(kind_of(fact), _encoder.encode(fact))


def fact_of(event: StoredEvent) -> RunFact | None:
    """The fact that `event` keeps; None for one of a layer above.

    Raises:
        msgspec.DecodeError: it is no fact of its kind.
    """
    return _decoder.decode(event.data) if event.kind in KINDS else None
