"""One fold of the stream of events into who is at work, and what each says; it draws nothing."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from attrs import define, field

from standby_actors.events import Event
from standby_actors.usage import NOTHING, Usage

from .text import one_line, saying

State: TypeAlias = Literal["opening", "idle", "working", "ok", "failed"]
"""What a subagent is at: the last two say how its last turn has ended."""

_TEXT_KEPT = 400
_COUNTERS = {each.name for each in msgspec.structs.fields(Usage)}


@define(eq=False)
class Hand:
    """One subagent, from its opening to its end."""

    id: str
    agent: str = ""
    model: str = ""
    parent: str = ""
    """Whoever has it work, when that is a subagent too."""
    state: State = "opening"
    status: str = ""
    """How its last turn ended, in one word."""
    turns: int = 0
    """Those that were begun."""
    task: str = ""
    doing: str = ""
    """What it is at besides talking: a tool, a wait."""
    text: str = ""
    """What it is saying, the latest of it; after the turn what it said."""
    usage: Usage = NOTHING
    pieces: int = 0
    """Pieces of text of the turn in progress: about its output tokens so far."""
    is_gone: bool = False
    busy: float = 0.0
    """Seconds of its turns that are over."""
    began: float | None = None
    """When the turn in progress began."""
    last: float = 0.0
    """When something was heard of it last."""

    def seconds(self, now: float) -> float:
        """How long it has worked."""
        return self.busy + (0.0 if self.began is None else max(0.0, now - self.began))

    @property
    def words(self) -> str:
        """What is to be shown of what it says, on one line."""
        said = saying(self.text)
        if self.state != "working":
            return said
        return f"{self.doing}: {said}" if self.doing and said else self.doing or said

    @property
    def output_tokens(self) -> int:
        return self.usage.output_tokens + self.pieces


@define(eq=False)
class Crew:
    """Who is there, as far as the events told."""

    hands: dict[str, Hand] = field(factory=dict[str, Hand])
    """By id, in the order of their coming."""
    began: float | None = None
    now: float = 0.0

    def take(self, event: Event) -> None:
        """Fold one event in.  What it does not know changes nothing."""
        if self.began is None:
            self.began = event.monotonic
        self.now = max(self.now, event.monotonic)
        kind, _, what = event.type.partition(".")
        if kind == "subagent":
            hand = self.hands.get(event.actor)
            if hand is None:
                hand = self.hands[event.actor] = Hand(event.actor, parent=event.parent)
            hand.last = event.monotonic
            self._take(hand, what, event.data)
        elif kind == "check":
            self._check(event, what)

    @property
    def seconds(self) -> float:
        """Since the first event."""
        return 0.0 if self.began is None else self.now - self.began

    @property
    def working(self) -> list[Hand]:
        """Those with a turn in progress, the oldest turn first."""
        busy = [hand for hand in self.hands.values() if hand.state == "working"]
        return sorted(busy, key=lambda hand: hand.began or 0.0)

    @property
    def usage(self) -> Usage:
        """What all turns that are over have cost."""
        whole = NOTHING
        for hand in self.hands.values():
            whole = whole.accumulate(hand.usage)
        return whole

    @property
    def pieces(self) -> int:
        """Of all turns in progress."""
        return sum(hand.pieces for hand in self.hands.values())

    def _take(self, hand: Hand, what: str, data: Any) -> None:
        match what:
            case "spawn":
                hand.agent, hand.model = data["agent"], data["model"]
                hand.state, hand.is_gone = "idle", False
            case "status":
                self._status(hand, data)
            case "text":
                hand.text = (hand.text + data["delta"])[-_TEXT_KEPT:]
                hand.doing = ""
                hand.pieces += 1
            case "thought":
                hand.doing = "thinking"
                hand.pieces += 1
            case "tool":
                hand.doing = f"{data['name']} {one_line(data['arguments'])[:80]}".strip()
                hand.text = ""
            case "tool_end":
                hand.doing = f"{data['name']} failed" if data["is_error"] else ""
            case "retry":
                hand.doing = f"again in {data['seconds']:.0f} s ({one_line(data['error'])})"
                hand.text, hand.pieces = "", 0
            case "steer":
                hand.doing = f"heard {one_line(data['text'])[:60]!r}"
            case "handoff":
                hand.doing = f"handed over to {data['taker']}"
            case "usage":
                cost = Usage(**{key: value for key, value in data.items() if key in _COUNTERS})
                hand.usage = hand.usage.accumulate(cost)
                hand.pieces = 0
            case "turn":
                self._turn(hand, data["status"], data["output"])
            case _:
                pass

    def _status(self, hand: Hand, data: Any) -> None:
        match data["status"]:
            case "working":
                hand.state, hand.began, hand.turns = "working", self.now, hand.turns + 1
                hand.task, hand.text, hand.doing = data["task"], "", ""
            case "done":
                hand.is_gone = True
                if hand.state == "opening":
                    hand.state = "idle"
            case _:
                pass

    def _turn(self, hand: Hand, status: str, output: str) -> None:
        if hand.began is not None:
            hand.busy += max(0.0, self.now - hand.began)
        hand.began, hand.doing, hand.pieces = None, "", 0
        hand.status = status
        hand.state = "ok" if status == "ok" else "failed"
        if output or status == "ok":
            hand.text = output[:_TEXT_KEPT]

    def _check(self, event: Event, what: str) -> None:
        hand = self.hands.setdefault(event.actor, Hand(event.actor, "check"))
        if what == "began":
            self._status(hand, {"status": "working", "task": event.data["command"]})
            hand.doing = event.data["command"]
        elif what == "ended":
            self._turn(hand, event.data["status"], event.data["says"])
            hand.usage = hand.usage.accumulate(Usage(turns=0))


def told(crew: Crew, event: Event) -> str | None:
    """The line about an event that `crew` has taken, for where nothing can be drawn."""
    hand = crew.hands.get(event.actor)
    if hand is None:
        return None
    match event.type:
        case "subagent.status" if event.data["status"] == "working":
            turn = f", turn {hand.turns}" if hand.turns > 1 else ""
            return f"{hand.id}{turn}: works on {_short(hand.task)}"
        case "check.began":
            return f"{hand.id}: runs {_short(hand.task)}"
        case "subagent.turn" | "check.ended":
            said = _short(hand.text)
            how = "" if hand.state == "ok" else f"{hand.status.replace('_', ' ')}: "
            return f"{hand.id}: {how}{said or '(nothing)'}  ({cost_of(hand, crew.now)})"
        case "subagent.retry" | "subagent.steer" | "subagent.handoff":
            return f"{hand.id}: {hand.doing}"
        case _:
            return None


def cost_of(hand: Hand, now: float) -> str:
    """What a subagent has cost so far, in a few words."""
    from standby_actors.usage import compact

    parts = [f"{hand.seconds(now):.1f}s"]
    if hand.usage.input_tokens:
        parts.append(f"↑{compact(hand.usage.input_tokens)}")
    if hand.output_tokens:
        parts.append(f"↓{compact(hand.output_tokens)}")
    if hand.usage.cost_usd:
        parts.append(f"${hand.usage.cost_usd:.4f}")
    return " ".join(parts)


def _short(text: str, most: int = 100) -> str:
    line = one_line(text)
    return line if len(line) <= most else line[: most - 1] + "…"
