"""From the stream of events to spans and metrics, in a task that holds nobody up."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field
from opentelemetry import context as otel_context
from opentelemetry.metrics import Histogram, MeterProvider, get_meter_provider
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer_provider,
    set_span_in_context,
)

from standby_actors.events import Event, Listener, listen
from standby_actors.result import CUT
from standby_actors.usage import Usage

from . import conventions as gen_ai

LINGER = 5.0
"""Seconds that the reader gets at the end for the events that are left."""
BUFFER = 100_000
"""Events that the reader may lag behind; more are lost, oldest first, and counted."""


@asynccontextmanager
async def export_telemetry(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
) -> AsyncGenerator[Telemetry]:
    """Make spans and metrics of what subagents do while the block is open.

    A subagent is a span, its turns are spans in it, and their tools and requests
    to models are spans in those.  A span that is open when the block is left is
    ended then, and says so.  Nothing of it stands on the way of a message: the
    spans are made by a task that reads the events, with the events' own times.

    Args:
        tracer_provider: where spans go; None for the global one.
        meter_provider: where metrics go; None for the global one.
        content: whether spans carry what was said, and what tools were given and
            answered.  Off, no word of a conversation leaves the process this way.
    """
    tracers = tracer_provider or get_tracer_provider()
    meters = meter_provider or get_meter_provider()
    meter = meters.get_meter("standby")
    telemetry = Telemetry(
        tracers.get_tracer("standby"),
        meter.create_histogram(gen_ai.DURATION, "s", "How long operations take."),
        meter.create_histogram(gen_ai.TOKENS, "{token}", "What they cost."),
        content,
    )

    async def read(event: Event) -> None:
        telemetry.take(event)

    async with listen(read, buffer=BUFFER, linger=LINGER) as telemetry.events:
        yield telemetry
    telemetry.finish()


@define(eq=False)
class _Open:
    """The spans of one subagent that are open."""

    life: Span
    model: str
    agent: str
    turn: Span | None = None
    began: float = math.nan
    usage: Mapping[str, Any] = field(factory=dict[str, Any])
    cut: list[Event] = field(factory=list[Event])
    """Tools that the end of their turn has cut; how it ended is told after them."""


@define(eq=False)
class Telemetry:
    """Turns events into spans; one that it does not know it passes over."""

    tracer: Any
    duration: Histogram
    tokens: Histogram
    content: bool
    events: Listener | None = field(init=False, default=None)
    """What it reads."""
    _open: dict[str, _Open] = field(init=False, factory=dict[str, _Open])
    _wall: float = field(init=False, default=0.0)

    @property
    def missed(self) -> int:
        """Events that were lost because the reader lagged: spans may lack parts."""
        return 0 if self.events is None else self.events.missed

    def take(self, event: Event) -> None:
        """Make of `event` what it is in spans and metrics."""
        self._wall = event.wall
        data = event.data
        match event.type:
            case "subagent.spawn":
                self._spawn(event)
            case "subagent.status" if data.get("status") == "working":
                self._begin(event)
            case "subagent.usage":
                if (its := self._open.get(event.actor)) is not None:
                    its.usage = data
            case "subagent.turn":
                self._end(event)
            case "subagent.tool_end":
                self._tool(event)
            case "subagent.model_call":
                self._model_call(event)
            case "subagent.retry" | "subagent.steer" | "subagent.context" | "subagent.compacted":
                self._note(event)
            case "subagent.close":
                self._close(event)
            case _:
                pass

    def finish(self) -> None:
        """End every span that is open, and say on it that its end was not seen."""
        for its in self._open.values():
            self._cut(its, "its end was not seen")
            for span in (its.turn, its.life):
                if span is not None:
                    span.set_status(Status(StatusCode.ERROR, "its end was not seen"))
                    span.end(_nanoseconds(self._wall))
        self._open.clear()

    # ---- subagents

    def _spawn(self, event: Event) -> None:
        data = event.data
        agent, model = str(data["agent"]), str(data["model"])
        before = self._open.pop(event.actor, None)
        if before is not None:  # restarted: its last life has told no end
            self._cut(before, "restarted")
            before.life.end(_nanoseconds(event.wall))
        parent = self._open.get(event.parent)
        around = (
            otel_context.get_current()
            if parent is None
            else set_span_in_context(parent.turn or parent.life)
        )
        span = self.tracer.start_span(
            f"{gen_ai.SUBAGENT} {agent}",
            around,
            kind=SpanKind.INTERNAL,
            start_time=_nanoseconds(event.wall),
            attributes={
                gen_ai.AGENT_NAME: agent,
                gen_ai.AGENT_ID: event.actor,
                gen_ai.REQUEST_MODEL: model,
                gen_ai.LIFETIME: str(data["lifetime"]),
                "standby.incarnation": event.incarnation,
            },
        )
        self._open[event.actor] = _Open(span, model, agent)

    def _close(self, event: Event) -> None:
        its = self._open.pop(event.actor, None)
        if its is None:
            return
        self._cut(its, "closed in mid-turn")
        if its.turn is not None:  # a turn that was left in the middle
            its.turn.set_status(Status(StatusCode.ERROR, "closed in mid-turn"))
            its.turn.end(_nanoseconds(event.wall))
        if not event.data.get("closed"):
            its.life.set_status(Status(StatusCode.ERROR, str(event.data.get("reason"))))
        its.life.end(_nanoseconds(event.wall))

    # ---- turns

    def _begin(self, event: Event) -> None:
        its = self._open.get(event.actor)
        if its is None:
            return
        attributes: dict[str, Any] = {
            gen_ai.OPERATION: gen_ai.INVOKE_AGENT,
            gen_ai.PROVIDER: gen_ai.provider_of(its.model),
            gen_ai.AGENT_NAME: its.agent,
            gen_ai.AGENT_ID: event.actor,
            gen_ai.CONVERSATION_ID: event.actor,
            gen_ai.REQUEST_MODEL: its.model,
        }
        if self.content:
            attributes[gen_ai.INPUT_MESSAGES] = str(event.data.get("task", ""))
        its.began = event.wall
        its.usage = {}
        its.turn = self.tracer.start_span(
            f"{gen_ai.INVOKE_AGENT} {its.agent}",
            set_span_in_context(its.life),
            kind=SpanKind.INTERNAL,
            start_time=_nanoseconds(event.wall),
            attributes=attributes,
        )

    def _end(self, event: Event) -> None:
        its = self._open.get(event.actor)
        if its is None or its.turn is None:
            return
        status, error = str(event.data["status"]), event.data.get("error")
        # The SDK leaves a span that was cut looking as if it had gone well.
        how = "cancelled: " if status in CUT else ""
        self._cut(its, f"{how}{error or 'cut'}", str(error or "cut"))
        span, its.turn = its.turn, None
        span.set_attribute(gen_ai.STATUS, status)
        _set_usage(span, its.usage)
        if self.content:
            span.set_attribute(gen_ai.OUTPUT_MESSAGES, str(event.data.get("output", "")))
        if error is not None:
            span.set_attribute(gen_ai.ERROR_TYPE, str(error))
            span.set_status(Status(StatusCode.ERROR, f"{how}{error}"))
        span.end(_nanoseconds(event.wall))
        seconds = event.wall - its.began
        self._measure(gen_ai.INVOKE_AGENT, its.model, seconds, error)

    def _note(self, event: Event) -> None:
        its = self._open.get(event.actor)
        if its is None:
            return
        span = its.turn or its.life
        what = event.type.partition(".")[2]
        attributes = {
            f"standby.{what}.{key}": value
            for key, value in event.data.items()
            if isinstance(value, (bool, int, float)) or (self.content and isinstance(value, str))
        }
        span.add_event(what, attributes, _nanoseconds(event.wall))

    # ---- what a turn is made of

    def _tool(self, event: Event) -> None:
        its = self._open.get(event.actor)
        if its is None:
            return
        if event.data.get("is_cut"):
            its.cut.append(event)
        else:
            self._tool_ended(its, event, "tool_error" if event.data["is_error"] else None)

    def _cut(self, its: _Open, why: str, error: str = "cut") -> None:
        """Tell of the tools that did not end before their turn, and why that was."""
        cut, its.cut = its.cut, []
        for event in cut:
            self._tool_ended(its, event, error, why)

    def _tool_ended(
        self, its: _Open, event: Event, error: str | None, why: str | None = None
    ) -> None:
        data = event.data
        name, seconds = str(data["name"]), float(data["seconds"])
        attributes: dict[str, Any] = {
            gen_ai.OPERATION: gen_ai.EXECUTE_TOOL,
            gen_ai.TOOL_NAME: name,
            gen_ai.TOOL_CALL_ID: str(data["call"]),
        }
        if self.content:
            attributes[gen_ai.TOOL_RESULT] = str(data.get("output", ""))
        span_name = f"{gen_ai.EXECUTE_TOOL} {name}"
        self._past(its, span_name, event.wall, seconds, attributes, error, why)
        self._measure(gen_ai.EXECUTE_TOOL, its.model, seconds, error)

    def _model_call(self, event: Event) -> None:
        its = self._open.get(event.actor)
        if its is None:
            return
        data = event.data
        model, seconds = str(data["model"]), float(data["seconds"])
        usage: Usage = data["usage"]
        attributes: dict[str, Any] = {
            gen_ai.OPERATION: gen_ai.CHAT,
            gen_ai.PROVIDER: gen_ai.provider_of(model),
            gen_ai.REQUEST_MODEL: model,
            gen_ai.INPUT_TOKENS: usage.input_tokens,
            gen_ai.OUTPUT_TOKENS: usage.output_tokens,
            gen_ai.CACHE_READ_TOKENS: usage.cache_read,
        }
        if data["finish"]:
            attributes[gen_ai.FINISH_REASONS] = (str(data["finish"]),)
        error: str | None = data["error"]
        self._past(its, f"{gen_ai.CHAT} {model}", event.wall, seconds, attributes, error)
        self._measure(gen_ai.CHAT, model, seconds, error)
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if count:
                self.tokens.record(
                    count,
                    {
                        gen_ai.OPERATION: gen_ai.CHAT,
                        gen_ai.REQUEST_MODEL: model,
                        gen_ai.TOKEN_TYPE: kind,
                    },
                )

    def _past(
        self,
        its: _Open,
        name: str,
        ended: float,
        seconds: float,
        attributes: Mapping[str, Any],
        error: str | None,
        why: str | None = None,
    ) -> None:
        """A span of something that is over already."""
        span = self.tracer.start_span(
            name,
            set_span_in_context(its.turn or its.life),
            kind=SpanKind.CLIENT,
            start_time=_nanoseconds(ended - seconds),
            attributes=attributes,
        )
        if error is not None:
            span.set_attribute(gen_ai.ERROR_TYPE, error)
            span.set_status(Status(StatusCode.ERROR, why or error))
        span.end(_nanoseconds(ended))

    def _measure(self, operation: str, model: str, seconds: float, error: str | None) -> None:
        attributes = {gen_ai.OPERATION: operation, gen_ai.REQUEST_MODEL: model}
        if error is not None:
            attributes[gen_ai.ERROR_TYPE] = error
        self.duration.record(seconds, attributes)


def _set_usage(span: Span, usage: Mapping[str, Any]) -> None:
    for attribute, name in (
        (gen_ai.INPUT_TOKENS, "input_tokens"),
        (gen_ai.OUTPUT_TOKENS, "output_tokens"),
        (gen_ai.CACHE_READ_TOKENS, "cache_read"),
        (gen_ai.CACHE_WRITE_TOKENS, "cache_write"),
        (gen_ai.COST, "cost_usd"),
        (gen_ai.CONTEXT_TOKENS, "context_tokens"),
    ):
        value = usage.get(name)
        if value:
            span.set_attribute(attribute, value)


def _nanoseconds(wall: float) -> int:
    return int(wall * 1_000_000_000)
