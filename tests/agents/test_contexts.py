"""A context that is nearly full: compact it, hand over, or fail; never cut it silently."""

from __future__ import annotations

from attrs import define, field
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.events import open_events
from standby_actors.result import TurnError
from standby_actors.session import Capabilities, Compacted, OnEvent
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import spawn
from standby_actors.usage import Usage
from tests.agents.minds import Scripts

LIMITED = Capabilities(context_tokens=100)


def filling(level: int, text: str = "yes") -> Reply:
    """A turn after which the context holds `level` tokens."""
    return Reply(text, usage=Usage(requests=1, output_tokens=1, context_tokens=level))


@define(eq=False)
class Compacting(ScriptedSession):
    """Makes its context shorter when it is told to."""

    compactions: int = field(init=False, default=0)
    compact_error: TurnError | None = field(init=False, default=None)

    async def compact(self, on_event: OnEvent) -> TurnError | None:
        """Go down to 10 tokens."""
        self.compactions += 1
        if self.compact_error is None:
            self.usage = self.usage.accumulate(Usage(requests=1, context_tokens=10))
            on_event(Compacted(90, 10))
        return self.compact_error


async def test_below_the_threshold_nothing_happens() -> None:
    agent = Agent("scout", "Find it.", context="fail", context_threshold=0.8)
    mind = ScriptedSession([filling(50), filling(79), "yes"], capabilities=LIMITED)
    async with spawn(agent, session=mind) as scout:
        assert [(await scout.ask("a")).status for _ in range(3)] == ["ok"] * 3


async def test_a_full_context_fails_the_next_turn_before_it_is_asked() -> None:
    agent = Agent("scout", "Find it.", context="fail")
    mind = ScriptedSession([filling(80), "never said"], capabilities=LIMITED)
    async with spawn(agent, session=mind) as scout:
        assert (await scout.ask("a")).ok
        result = await scout.ask("b")
    assert result.status == "context_overflow"
    assert "80 of 100 tokens" in str(result.error)
    assert mind.asked == ["a"]
    assert result.usage.turns == 0


async def test_a_session_that_can_compacts_and_goes_on() -> None:
    agent = Agent("scout", "Find it.", context="compact")
    mind = Compacting([filling(90), filling(20, "b"), "c"], capabilities=LIMITED)
    async with open_events() as events, spawn(agent, session=mind) as scout:
        results = [await scout.ask(each) for each in "abc"]
        assert [each.output for each in results] == ["yes", "b", "c"]
        # What the compaction cost is a cost of the turn that it made room for.
        assert [each.usage.requests for each in results] == [1, 2, 1]
        assert scout.usage.requests == mind.usage.requests == 4
        events.close()
        told = [event async for event in events if event.type.startswith("subagent.c")]
    assert mind.compactions == 1
    assert [(event.type, event.data.get("tokens")) for event in told[:2]] == [
        ("subagent.context", 90),
        ("subagent.compacted", None),
    ]


async def test_a_compaction_that_fails_is_an_overflow() -> None:
    agent = Agent("scout", "Find it.", context="compact")
    mind = Compacting([filling(90), "never said"], capabilities=LIMITED)
    mind.compact_error = TurnError("provider", "no")
    async with spawn(agent, session=mind) as scout:
        await scout.ask("a")
        assert (await scout.ask("b")).status == "context_overflow"


async def test_a_handover_goes_on_in_a_new_session_that_knows_the_summary(
    autojump_clock: MockClock,
) -> None:
    agent = Agent("scout", "Find it.", context="handover")
    minds = Scripts([[filling(90)], ["we sought a bug in dates.py"], ["go on", "and on"]])
    async with spawn(agent, backend=minds) as scout:
        minds.opened[0].capabilities = LIMITED
        first = await scout.ask("find the bug")
        second = await scout.ask("where is it?")
        assert (second.status, second.output) == ("ok", "go on")
        # So is that of the summary.
        assert (first.usage.requests, second.usage.requests, scout.usage.requests) == (1, 2, 3)
        texts = [message.text for message in scout.messages if message.role != "system"]
    assert first.ok
    assert "find the bug" in minds.opened[1].asked[0]
    recalled = minds.opened[2].recalled
    assert recalled is not None
    assert recalled.summary == "we sought a bug in dates.py"
    # What was said in the session before stays in the record.
    assert texts == ["find the bug", "yes", "where is it?", "go on"]
    assert minds.log == ["open 1", "open 2", "left 2", "left 1", "open 3", "left 3"]


async def test_one_session_cannot_be_handed_over() -> None:
    agent = Agent("scout", "Find it.", context="handover")
    mind = ScriptedSession([filling(90), "never said"], capabilities=LIMITED)
    async with spawn(agent, session=mind) as scout:
        await scout.ask("a")
        result = await scout.ask("b")
    assert result.status == "context_overflow"
    assert "cannot be opened anew" in str(result.error)
