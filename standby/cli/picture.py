"""One fold of the stream of events into what a person wants to see; it draws nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from attrs import define, field

from standby_actors.events import Event

State: TypeAlias = Literal["waiting", "working", "done", "failed"]


@define(eq=False)
class Row:
    """One piece of the work: a file with its scout, or a synthesis."""

    key: str
    state: State = "waiting"
    subagent: str = ""
    """Which subagent has it, or had it last."""
    doing: str = ""
    """What it is at: "part 2 of 3", or how its turn ended."""
    text: str = ""
    """What its subagent is saying, the latest of it."""
    began: float = 0.0
    ended: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    pieces: int = 0
    """Pieces of text of the turn in progress: about its output tokens so far."""

    def seconds(self, now: float) -> float:
        """How long it has been worked on."""
        if self.state == "waiting":
            return 0.0
        return max(0.0, (now if self.ended is None else self.ended) - self.began)


_TEXT_KEPT = 400


@define(eq=False)
class Picture:
    """What is going on, as far as the events told."""

    title: str = ""
    model: str = ""
    stage: str = "reading the directory"
    rows: dict[str, Row] = field(factory=dict[str, Row])
    """By key, in the order of the plan."""
    began: float | None = None
    now: float = 0.0
    _of_subagent: dict[str, Row] = field(factory=dict[str, Row])

    def take(self, event: Event) -> None:
        """Fold one event in.  What it does not know changes nothing."""
        if self.began is None:
            self.began = event.monotonic
        self.now = event.monotonic
        match event.type:
            case "explore.planned":
                self._planned(event.data)
            case "explore.stage":
                self.stage = event.data["stage"]
            case "explore.began":
                self._began(event)
            case "explore.ended":
                self._ended(event)
            case "turn.began":
                self._turn_began(event)
            case "subagent.retry":
                self._retry(event)
            case "subagent.text":
                self._text(event)
            case "turn.ended":
                self._turn_ended(event)
            case _:
                pass

    def count(self, *states: State) -> int:
        """How many rows are in one of `states`."""
        return sum(row.state in states for row in self.rows.values())

    @property
    def input_tokens(self) -> int:
        return sum(row.input_tokens for row in self.rows.values())

    @property
    def output_tokens(self) -> int:
        return sum(row.output_tokens + row.pieces for row in self.rows.values())

    @property
    def seconds(self) -> float:
        """Since the first event."""
        return 0.0 if self.began is None else self.now - self.began

    def _planned(self, data: Mapping[str, Any]) -> None:
        self.title = data["question"]
        self.model = data["model"]
        for path in data["files"]:
            self.rows[path] = Row(path)

    def _began(self, event: Event) -> None:
        row = self._row(event)
        if row.state != "working":
            row.began = event.monotonic
        row.state, row.ended = "working", None
        row.doing = event.data.get("doing", "")

    def _ended(self, event: Event) -> None:
        row = self._row(event)
        row.state = "done" if event.data["status"] == "ok" else "failed"
        row.ended, row.doing = event.monotonic, event.data["says"]

    def _row(self, event: Event) -> Row:
        key = event.data["key"]
        return self.rows.setdefault(key, Row(key, began=event.monotonic))

    def _turn_began(self, event: Event) -> None:
        key = event.data["key"]
        # The turns of a reduction have the key of their work and a place in it.
        row = self.rows.get(key) or self.rows.get(key.rpartition("@")[0])
        if row is not None:
            row.subagent, row.text, row.pieces = event.actor, "", 0
            self._of_subagent[event.actor] = row

    def _retry(self, event: Event) -> None:
        row = self._of_subagent.get(event.actor)
        if row is not None:
            row.doing = f"again in {event.data['seconds']:.0f} s: {event.data['error']}"
            row.text, row.pieces = "", 0

    def _text(self, event: Event) -> None:
        row = self._of_subagent.get(event.actor)
        if row is not None:
            row.text = (row.text + event.data["delta"])[-_TEXT_KEPT:]
            row.pieces += 1

    def _turn_ended(self, event: Event) -> None:
        row = self._of_subagent.pop(event.actor, None)
        if row is not None:
            row.input_tokens += event.data["input_tokens"]
            row.output_tokens += event.data["output_tokens"]
            row.pieces = 0
