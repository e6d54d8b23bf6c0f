"""Spans and metrics of what subagents do."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.nursery import open_nursery
from standby_actors.result import ToolCall, TurnError
from standby_actors.session import Capabilities, ModelCalled, OnEvent, ToolEnded, Turn
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import reset_ids, spawn, subagent
from standby_actors.tools.calls import CallHistory, run_calls
from standby_actors.tools.tool import tool
from standby_actors.usage import Usage
from standby_supervision.telemetry.export import export_telemetry

SCOUT = Agent("scout", "Find it.")
SECRET = "the launch code is 0000"


@pytest.fixture(autouse=True)
def _counted_from_one() -> None:
    reset_ids()


class Traced:
    """A tracer and a meter that keep what they are given."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.metrics = InMemoryMetricReader()
        self.meters = MeterProvider([self.metrics])

    def named(self, beginning: str) -> list[ReadableSpan]:
        return [each for each in self.spans.get_finished_spans() if each.name.startswith(beginning)]

    def open(self, *, content: bool = False) -> Any:
        return export_telemetry(
            tracer_provider=self.tracers, meter_provider=self.meters, content=content
        )


class Busy(ScriptedSession):
    """Asks a model once and uses a tool once in each turn."""

    async def ask(self, text: str, on_event: OnEvent, attachments: Any = ()) -> Turn:
        """As the script says, after the call and the tool."""
        usage = Usage(input_tokens=10, output_tokens=2)
        on_event(ModelCalled("openai/gpt-5-mini", 0.5, usage, "tool_calls"))
        on_event(ToolEnded(ToolCall("c1", "grep", '{"what": "x"}'), SECRET, False, 0.25))
        return await super().ask(text, on_event, attachments)


async def test_a_turn_is_a_span_in_its_subagents_with_its_parts_in_it(
    autojump_clock: MockClock,
) -> None:
    traced = Traced()
    mind = Busy([Reply("yes", usage=Usage(input_tokens=10, output_tokens=2, cost_usd=0.1))])
    async with traced.open(), spawn(SCOUT, session=mind) as scout:
        await scout.ask("a")
    (life,) = traced.named("subagent scout")
    (turn,) = traced.named("invoke_agent scout")
    (call,) = traced.named("chat openai/gpt-5-mini")
    (work,) = traced.named("execute_tool grep")
    assert life.context is not None
    assert turn.context is not None
    assert turn.parent is not None
    assert turn.parent.span_id == life.context.span_id
    for part in (call, work):
        assert part.parent is not None
        assert part.parent.span_id == turn.context.span_id
    assert turn.attributes is not None
    assert turn.attributes["gen_ai.usage.input_tokens"] == 10
    assert turn.attributes["gen_ai.agent.id"] == "scout#1"
    assert turn.attributes["standby.turn.status"] == "ok"
    assert call.attributes is not None
    assert call.attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert call.end_time is not None
    assert call.start_time is not None
    assert call.end_time - call.start_time == pytest.approx(500_000_000, rel=0.01)


@pytest.mark.parametrize("content", [False, True])
async def test_what_was_said_is_on_spans_only_on_request(
    content: bool, autojump_clock: MockClock
) -> None:
    traced = Traced()
    async with traced.open(content=content), spawn(SCOUT, session=Busy([SECRET])) as scout:
        await scout.ask(SECRET)
    everything = " ".join(each.to_json() for each in traced.spans.get_finished_spans())
    assert (SECRET in everything) is content


@pytest.mark.parametrize(
    ("how", "expected"), [("timeout", "timeout"), ("abort", "cancelled: aborted")]
)
async def test_a_turn_that_was_cut_says_so(
    how: str, expected: str, autojump_clock: MockClock
) -> None:
    traced = Traced()
    mind = ScriptedSession([Reply("yes", seconds=60.0)])
    async with traced.open(), spawn(SCOUT, session=mind) as scout, trio.open_nursery() as tasks:
        if how == "abort":

            async def abort() -> None:
                await trio.sleep(1)
                scout.abort()

            tasks.start_soon(abort)
        await scout.ask("a", timeout=2.0)
    (turn,) = traced.named("invoke_agent")
    assert not turn.status.is_ok
    assert turn.status.description == expected


async def test_a_failure_of_the_mind_is_an_error_with_its_kind(
    autojump_clock: MockClock,
) -> None:
    traced = Traced()
    mind = ScriptedSession([TurnError("provider", SECRET)])
    async with traced.open(), spawn(SCOUT, session=mind) as scout:
        await scout.ask("a")
    (turn,) = traced.named("invoke_agent")
    assert turn.attributes is not None
    assert turn.attributes["error.type"] == "provider"
    assert SECRET not in turn.to_json()


async def test_a_subagent_of_a_subagent_is_below_its_turn(autojump_clock: MockClock) -> None:
    traced = Traced()

    async def delegate(task: str) -> str:
        async with spawn(SCOUT, session=ScriptedSession(["yes"]), parent="lead#1") as scout:
            return (await scout.ask(task)).output

    async with traced.open(), spawn(Agent("lead", delegate)) as lead:
        assert (await lead.ask("a")).ok
    (turn,) = traced.named("invoke_agent lead")
    (below,) = traced.named("subagent scout")
    assert turn.context is not None
    assert below.parent is not None
    assert below.parent.span_id == turn.context.span_id


class Cut(ScriptedSession):
    """Is in the middle of a tool when its turn is cut, after one that failed by itself."""

    async def ask(self, text: str, on_event: OnEvent, attachments: Any = ()) -> Turn:
        """Work until somebody ends it."""
        on_event(ToolEnded(ToolCall("c1", "grep", "{}"), "no such file", True, 0.25))

        async def forever() -> str:
            await trio.sleep_forever()
            raise AssertionError

        call = ToolCall("c2", "nap", "{}")
        nap = tool(forever, name="nap", timeout=600)
        await run_calls([call], [nap], CallHistory(), on_event=on_event)
        raise AssertionError


@pytest.mark.parametrize(
    ("how", "kind", "expected"),
    [
        ("timeout", "timeout", "timeout"),
        ("abort", "aborted", "cancelled: aborted"),
        ("stop", "stopped", "cancelled: stopped"),
        ("cancel", "cancelled", "cancelled: cancelled"),
    ],
)
async def test_a_tool_that_was_cut_with_its_turn_did_not_fail(
    how: str, kind: str, expected: str, autojump_clock: MockClock
) -> None:
    traced = Traced()
    async with traced.open(), spawn(SCOUT, session=Cut([])) as scout, trio.open_nursery() as tasks:

        async def end() -> None:
            await trio.sleep(1)
            if how == "abort":
                scout.abort()
            elif how == "stop":
                scout.stop()
            elif how == "cancel":
                tasks.cancel_scope.cancel()

        tasks.start_soon(end)
        await scout.ask("a", timeout=2.0)
    (turn,) = traced.named("invoke_agent")
    (failed,) = traced.named("execute_tool grep")
    (cut,) = traced.named("execute_tool nap")
    assert failed.status.description == "tool_error"
    assert cut.status.description == expected == turn.status.description
    assert cut.attributes is not None
    assert cut.attributes["error.type"] == kind
    assert turn.context is not None
    assert cut.parent is not None
    assert cut.parent.span_id == turn.context.span_id


async def test_spans_that_are_open_at_the_end_are_ended_and_say_so(
    autojump_clock: MockClock,
) -> None:
    traced = Traced()
    slow = ScriptedSession([Reply("yes", seconds=60.0)])
    async with open_nursery() as block, trio.open_nursery() as tasks:
        async with traced.open():
            scout = block.spawn(subagent(SCOUT, session=slow))
            tasks.start_soon(scout.ask, "a")
            await trio.sleep(1)
        ended = {each.name: each.status for each in traced.spans.get_finished_spans()}
        assert set(ended) == {"subagent scout", "invoke_agent scout"}
        for status in ended.values():
            assert not status.is_ok
            assert status.description == "its end was not seen"


async def test_of_who_was_spawned_before_anybody_listened_nothing_is_made(
    autojump_clock: MockClock,
) -> None:
    traced = Traced()
    async with spawn(SCOUT, session=ScriptedSession(["yes"])) as before:
        async with traced.open(), spawn(SCOUT, session=ScriptedSession(["yes"])) as scout:
            await before.ask("a")
            await scout.ask("a")
        assert len(traced.named("invoke_agent")) == 1


async def test_metrics_have_durations_and_tokens(autojump_clock: MockClock) -> None:
    traced = Traced()
    async with traced.open(), spawn(SCOUT, session=Busy([Reply("a", seconds=2.0)])) as scout:
        await scout.ask("a")
    data = traced.metrics.get_metrics_data()
    assert data is not None
    metrics = {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert set(metrics) == {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"}
    counted = {
        dict(point.attributes or {})["gen_ai.token.type"]: point.sum  # type: ignore[union-attr]  # of a histogram
        for point in metrics["gen_ai.client.token.usage"].data.data_points
    }
    assert counted == {"input": 10, "output": 2}


def test_capabilities_are_declared() -> None:
    assert Busy(["a"]).capabilities == Capabilities(streaming=True)
