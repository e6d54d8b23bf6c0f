from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from standby_actors.agent import Agent
from standby_actors.errors import ActorStopped
from standby_actors.events import Event, Listener, open_events
from standby_actors.models import NoModel
from standby_actors.result import ChatMessage, Result, TurnError
from standby_actors.session import ignore
from standby_actors.sessions.function import FunctionSession
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import Closed, Subagent, reset_ids, spawn
from standby_actors.usage import Usage

SCOUT = Agent("scout", "Find it.")


@pytest.fixture(autouse=True)
def _counted_from_one() -> None:
    reset_ids()


async def heard(listener: Listener) -> list[Event]:
    """All events of a listener that is at its end."""
    listener.close()
    return [event async for event in listener if event.type.startswith("subagent.")]


def shape(result: Result) -> tuple[str, str | None]:
    return result.status, None if result.error is None else result.error.message


# Turns.


async def test_a_turn_is_answered_by_the_mind() -> None:
    mind = ScriptedSession([Reply("It parses. ", usage=Usage(input_tokens=7, output_tokens=2))])
    async with spawn(SCOUT, session=mind) as scout:
        result = await scout.ask("dates.py")
    assert result.ok
    assert (result.agent, result.subagent, result.output) == ("scout", "scout#1", "It parses.")
    assert result.messages == (
        ChatMessage("user", "dates.py"),
        ChatMessage("assistant", "It parses. "),
    )
    assert (result.usage.turns, result.usage.input_tokens, result.usage.output_tokens) == (1, 7, 2)
    assert mind.did == ["ask", "close"]


async def test_ids_count_by_the_agents_name() -> None:
    ids: list[str] = []
    for agent in (SCOUT, SCOUT, Agent("coder", "")):
        async with spawn(agent, session=ScriptedSession([])) as subagent:
            ids.append(subagent.id)
    assert ids == ["scout#1", "scout#2", "coder#1"]


async def test_asks_at_the_same_time_are_played_one_by_one_in_order(
    autojump_clock: MockClock,
) -> None:
    mind = ScriptedSession([Reply(str(n), seconds=1.0) for n in range(3)])
    answers: list[tuple[str, str, float]] = []

    async def one(task: str) -> None:
        result = await scout.ask(task)
        answers.append((task, result.output, trio.current_time() - start))

    async with spawn(SCOUT, session=mind) as scout:
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for task in "abc":
                nursery.start_soon(one, task)
                await wait_all_tasks_blocked()
    assert answers == [("a", "0", 1.0), ("b", "1", 2.0), ("c", "2", 3.0)]


async def test_a_failing_mind_is_a_result_and_the_next_turn_is_played() -> None:
    error = TurnError("provider", "down", retryable=True)
    async with spawn(SCOUT, session=ScriptedSession([error, "up"])) as scout:
        first, second = await scout.ask("a"), await scout.ask("b")
    assert shape(first) == ("failed", "down")
    assert first.usage.turns == 1
    assert second.ok
    assert scout.usage.turns == 2


async def test_usage_is_a_turns_own_and_adds_up(autojump_clock: MockClock) -> None:
    mind = ScriptedSession(
        [
            Reply("a", seconds=2.0, usage=Usage(input_tokens=10, requests=1, context_tokens=12)),
            Reply("b", seconds=3.0, usage=Usage(input_tokens=20, requests=2, context_tokens=30)),
        ]
    )
    async with spawn(SCOUT, session=mind) as scout:
        first = await scout.ask("a")
        await trio.sleep(1.0)
        second = await scout.ask("b")
    assert (first.usage.input_tokens, second.usage.input_tokens) == (10, 20)
    assert second.usage.busy_seconds == pytest.approx(3.0)
    assert second.usage.context_tokens == 30
    whole = scout.usage
    assert (whole.turns, whole.input_tokens, whole.requests) == (2, 30, 3)
    assert whole.busy_seconds == pytest.approx(5.0)
    assert whole.wall_seconds == pytest.approx(6.0)
    assert whole.context_tokens == 30
    await trio.sleep(10)
    assert scout.usage == whole


@pytest.mark.parametrize("task", [None, 3, b"go"])
async def test_a_task_that_is_no_text_is_misuse(task: Any) -> None:
    async with spawn(SCOUT, session=ScriptedSession([])) as scout:
        with pytest.raises(TypeError, match="a task is a str"):
            await scout.ask(task)
        with pytest.raises(ValueError, match="more than 0"):
            await scout.ask("go", timeout=0)


async def test_a_closed_subagent_is_misused_by_asking_it() -> None:
    async with spawn(SCOUT, session=ScriptedSession([])) as scout:
        pass
    with pytest.raises(ActorStopped, match="scout#1"):
        await scout.ask("go")
    with pytest.raises(ActorStopped):
        scout.export(Path())


# Deadlines, stops and aborts.


async def test_a_deadline_begins_with_the_turn_and_keeps_what_was_said(
    autojump_clock: MockClock,
) -> None:
    mind = ScriptedSession([Reply("first", seconds=5.0), Reply("abcd", pieces=4, seconds=8.0)])
    results: list[Result] = []

    async def late() -> None:
        results.append(await scout.ask("b", timeout=5.0))

    async with spawn(SCOUT, session=mind) as scout, trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(scout.ask, "a")
        await wait_all_tasks_blocked()
        nursery.start_soon(late)
        await trio.sleep(4)
        assert not results
    [result] = results
    assert shape(result) == ("timed_out", "timed out after 5 s")
    assert trio.current_time() - start == 10.0
    assert result.partial == "ab"
    assert result.output == ""
    assert (result.usage.turns, result.usage.requests) == (1, 1)


@pytest.mark.parametrize(
    ("ask", "spawner", "agent", "expected"),
    [(1.0, 2.0, 3.0, 1.0), (None, 2.0, 3.0, 2.0), (None, None, 3.0, 3.0)],
)
async def test_the_nearest_timeout_counts(
    ask: float | None,
    spawner: float | None,
    agent: float,
    expected: float,
    autojump_clock: MockClock,
) -> None:
    who = Agent("scout", "", timeout=agent)
    async with spawn(who, session=ScriptedSession([Reply(seconds=60)]), timeout=spawner) as scout:
        start = trio.current_time()
        assert (await scout.ask("go", timeout=ask)).status == "timed_out"
        assert trio.current_time() - start == expected


async def test_a_mind_that_ignores_its_deadline_is_left_after_the_grace(
    autojump_clock: MockClock,
) -> None:
    mind = ScriptedSession([Reply("slow", seconds=60, deaf_seconds=10, pieces=2), "next"])
    async with spawn(SCOUT, session=mind) as scout:
        start = trio.current_time()
        result = await scout.ask("go", timeout=5)
        assert shape(result) == ("timed_out", "timed out after 5 s")
        assert trio.current_time() - start == pytest.approx(6.0)
        # It is at work still, so it cannot be asked; nobody waits to find out.
        dead = await scout.ask("more")
        assert dead.error is not None
        assert dead.error.kind == "dead"
        await trio.sleep(10)
        assert (await scout.ask("more")).output == "next"
    assert scout.usage.requests == 2


async def test_stop_cuts_the_turn_in_flight_and_every_later_one(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    mind = ScriptedSession([Reply("abcd", pieces=4, seconds=8.0)])
    results: dict[str, Result] = {}

    async def one(task: str) -> None:
        results[task] = await scout.ask(task)

    async with spawn(SCOUT, session=mind, export_dir=tmp_path) as scout:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "begun")
            await wait_all_tasks_blocked()
            nursery.start_soon(one, "waits")
            await trio.sleep(3)
            scout.stop()
            scout.stop()
        results["later"] = await scout.ask("later")
        assert trio.current_time() <= 3.1
        assert scout.export().exists()
        assert mind.closed == 0
    assert {task: r.status for task, r in results.items()} == dict.fromkeys(results, "stopped")
    assert results["begun"].partial == "a"
    assert [results[t].usage.turns for t in ("begun", "waits", "later")] == [1, 0, 0]
    assert mind.asked == ["begun"]
    assert mind.closed == 1


async def test_stopping_one_leaves_the_others_alone(autojump_clock: MockClock) -> None:
    async with (
        spawn(SCOUT, session=ScriptedSession([Reply("one", seconds=5)])) as one,
        spawn(SCOUT, session=ScriptedSession([Reply("two", seconds=5)])) as two,
    ):
        results: list[str] = []

        async def ask(subagent: Subagent) -> None:
            results.append((await subagent.ask("go")).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, one)
            nursery.start_soon(ask, two)
            await trio.sleep(1)
            one.stop()
    assert results == ["stopped", "ok"]


async def test_a_stop_of_a_deaf_mind_answers_everybody_within_the_grace(
    autojump_clock: MockClock,
) -> None:
    mind = ScriptedSession([Reply(seconds=60, deaf_seconds=30)])
    results: list[str] = []

    async def one(task: str) -> None:
        results.append((await scout.ask(task)).status)

    async with spawn(SCOUT, session=mind) as scout:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "a")
            await wait_all_tasks_blocked()
            nursery.start_soon(one, "b")
            await trio.sleep(1)
            scout.stop()
        assert trio.current_time() == pytest.approx(2.0)
        assert results == ["stopped", "stopped"]


async def test_an_aborted_turn_is_no_stop(autojump_clock: MockClock) -> None:
    mind = ScriptedSession([Reply(seconds=60), "again"])
    async with spawn(SCOUT, session=mind) as scout:
        results: list[Result] = []

        async def one() -> None:
            results.append(await scout.ask("go"))

        assert not scout.abort()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(1)
            assert scout.abort("the run was called off")
        assert shape(results[0]) == ("aborted", "the run was called off")
        assert (await scout.ask("more")).output == "again"


ENDS = ["stop", "abort", "deadline", "mind"]


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(ENDS, 2)))
async def test_stop_beats_abort_beats_deadline_beats_the_mind(
    first: str, second: str, autojump_clock: MockClock
) -> None:
    # `first` happens at 4 s and `second` at 4.5 s; the mind lets go of a cut only
    # at 4.8 s, so that both have happened by the time that the turn ends.
    at = {first: 4.0, second: 4.5}
    mind = ScriptedSession(
        [
            Reply(
                seconds=at.get("mind", 60.0),
                error=TurnError("provider", "odd"),
                deaf_seconds=0.8,
            )
        ]
    )
    results: list[Result] = []

    async def one() -> None:
        results.append(await scout.ask("go", timeout=at.get("deadline", 50.0)))

    async with spawn(SCOUT, session=mind) as scout, trio.open_nursery() as nursery:
        nursery.start_soon(one)
        for end in (first, second):
            await trio.sleep_until(at[end])
            if end == "stop":
                scout.stop()
            elif end == "abort":
                scout.abort()
    status = {"stop": "stopped", "abort": "aborted", "deadline": "timed_out", "mind": "failed"}
    strongest = first if first == "mind" else min(first, second, key=ENDS.index)
    assert results[0].status == status[strongest]


# Cancellation.


async def test_a_cancelled_ask_cuts_its_turn_and_what_it_cost_is_counted(
    autojump_clock: MockClock,
) -> None:
    mind = ScriptedSession([Reply("ab", pieces=2, seconds=4, deaf_seconds=0.5), "next"])
    async with spawn(SCOUT, session=mind) as scout:
        with trio.move_on_after(3) as scope:
            await scout.ask("go")
        assert scope.cancelled_caught
        # The cancellation passed on after the mind had let go.
        assert trio.current_time() == pytest.approx(3.5)
        assert scout.usage.requests == 1
        assert mind.transcript()[-1].partial
        assert (await scout.ask("more")).output == "next"


async def test_a_cancelled_ask_that_had_not_begun_is_withdrawn(autojump_clock: MockClock) -> None:
    mind = ScriptedSession([Reply("a", seconds=5), "c"])
    async with spawn(SCOUT, session=mind) as scout, trio.open_nursery() as nursery:
        nursery.start_soon(scout.ask, "a")
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await scout.ask("b")
        assert (await scout.ask("c")).output == "c"
    assert mind.asked == ["a", "c"]
    assert scout.usage.turns == 2


async def test_a_block_that_is_cancelled_closes_its_subagent_first(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    mind = ScriptedSession([Reply("ab", pieces=2, seconds=10)], close_seconds=2.0)
    with trio.move_on_after(6) as scope:
        async with spawn(SCOUT, session=mind, export_dir=tmp_path) as scout:
            await scout.ask("go")
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(8.0)
    assert mind.did == ["ask", "export", "close"]
    said = msgspec.json.Decoder(ChatMessage).decode_lines((tmp_path / "scout-1.jsonl").read_bytes())
    assert said[-1] == ChatMessage("assistant", "a", partial=True)


# Closing.


async def test_it_is_exported_before_it_is_disposed_of(tmp_path: Path) -> None:
    mind = ScriptedSession(["a"])
    async with spawn(SCOUT, session=mind, export_dir=tmp_path) as scout:
        await scout.ask("go")
        closed = await scout.close()
    assert closed == Closed(True, export=str(tmp_path / "scout-1.jsonl"))
    assert mind.did == ["ask", "export", "close"]


async def test_closing_twice_at_the_same_time_is_closing_once(autojump_clock: MockClock) -> None:
    mind = ScriptedSession([], close_seconds=1.0)
    outcomes: list[Closed] = []

    async def close() -> None:
        outcomes.append(await scout.close())

    async with spawn(SCOUT, session=mind) as scout, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(close)
    assert outcomes == [Closed(True)] * 3
    assert mind.closed == 1


async def test_a_close_in_mid_turn_cuts_it_and_those_that_wait_are_refused(
    autojump_clock: MockClock,
) -> None:
    mind = ScriptedSession([Reply("ab", pieces=2, seconds=4)])
    results: dict[str, Result] = {}

    async def one(task: str) -> None:
        results[task] = await scout.ask(task)

    async with trio.open_nursery() as nursery, spawn(SCOUT, session=mind) as scout:
        nursery.start_soon(one, "begun")
        await wait_all_tasks_blocked()
        nursery.start_soon(one, "waits")
        await trio.sleep(3)
    assert shape(results["begun"]) == ("stopped", "closed in mid-turn")
    assert results["begun"].partial == "a"
    assert results["waits"].status == "refused"
    assert results["waits"].error is not None
    assert results["waits"].error.kind == "closed"
    assert mind.closed == 1


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"export_error": OSError("disk full")}, "export failed: disk full"),
        ({"export_error": ValueError("cannot")}, "export failed: ValueError: cannot"),
        ({"close_error": RuntimeError("jammed")}, "close failed: RuntimeError: jammed"),
        ({"close_seconds": 60.0}, "close timed out"),
    ],
)
async def test_a_close_that_fails_keeps_the_answer_and_says_so(
    trouble: dict[str, Any], reason: str, autojump_clock: MockClock, tmp_path: Path
) -> None:
    mind = ScriptedSession(["answer"], **trouble)
    async with open_events() as events:
        async with spawn(SCOUT, session=mind, export_dir=tmp_path) as scout:
            result = await scout.ask("go")
        assert result.output == "answer"
        assert trio.current_time() <= 5.1
        closed = (await heard(events))[-1]
    assert closed.type == "subagent.close"
    assert (closed.data["closed"], closed.data["reason"]) == (False, reason)
    assert (await scout.close()).closed is False
    assert mind.closed == ("export_error" in trouble), "its session is let go of all the same"


async def test_the_bodys_own_error_passes_and_the_subagent_is_closed() -> None:
    mind = ScriptedSession([])
    with pytest.raises(KeyError, match="mine"):
        async with spawn(SCOUT, session=mind):
            raise KeyError("mine")
    assert mind.closed == 1


async def test_a_session_that_breaks_its_promise_is_a_crash_of_the_actor() -> None:
    mind = ScriptedSession([Reply("ab", crash=ValueError("a bug"))])
    results: list[Result] = []

    async def play() -> None:
        async with spawn(SCOUT, session=mind) as scout:
            results.append(await scout.ask("go"))
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as raised:
        await play()
    assert raised.group_contains(ValueError, match="a bug")
    assert shape(results[0]) == ("crashed", "ValueError: a bug")
    assert results[0].error is not None
    assert isinstance(results[0].error.cause, ValueError)
    assert mind.closed == 1


# Lifetimes and models.


@pytest.mark.parametrize(
    ("asked", "own", "resolved", "source"),
    [
        ("workflow", None, "workflow", "argument"),
        ("task", "workflow", "task", "argument"),
        (None, "workflow", "workflow", "agent"),
        (None, None, "task", "default"),
    ],
)
async def test_the_lifetime_and_where_it_comes_from_are_on_the_spawn_event(
    asked: Any, own: Any, resolved: str, source: str
) -> None:
    agent = Agent("scout", "", lifetime=own)
    async with open_events() as events:
        async with spawn(agent, lifetime=asked, session=ScriptedSession([])) as scout:
            assert scout.lifetime == resolved
        first = (await heard(events))[0]
    assert first.type == "subagent.spawn"
    assert (first.data["lifetime"], first.data["source"]) == (resolved, source)


async def test_a_session_long_subagent_needs_a_session_to_live_in() -> None:
    with pytest.raises(ValueError, match="by the agent"):
        async with spawn(Agent("pal", "", lifetime="session"), session=ScriptedSession([])):
            pass
    with pytest.raises(ValueError, match="a lifetime is one of task, workflow, session"):
        async with spawn(SCOUT, lifetime="forever", session=ScriptedSession([])):  # type: ignore[arg-type]
            pass


async def test_without_a_model_nothing_is_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standby_actors.models.local_weights", lambda: None)
    with pytest.raises(NoModel, match="Three ways"):
        async with spawn(SCOUT, env={}):
            pass


# Events.


async def test_a_turn_is_told_from_spawn_to_close() -> None:
    mind = ScriptedSession([Reply("ab", pieces=2, usage=Usage(output_tokens=2))])
    async with open_events() as events:
        async with spawn(SCOUT, session=mind) as scout:
            await scout.ask("go")
        told = await heard(events)
    assert [(e.type.removeprefix("subagent."), e.data.get("status")) for e in told] == [
        ("spawn", None),
        ("status", "idle"),
        ("status", "working"),
        ("text", None),
        ("text", None),
        ("usage", None),
        ("turn", "ok"),
        ("status", "idle"),
        ("status", "done"),
        ("close", "ok"),
    ]
    assert {e.actor for e in told} == {"scout#1"}
    assert [e.data["delta"] for e in told if e.type == "subagent.text"] == ["a", "b"]
    assert told[5].data["output_tokens"] == 2
    assert told[2].data["task"] == "go"
    assert msgspec.json.encode(told)
    assert [e.seq for e in told] == sorted(e.seq for e in told)


async def test_who_listens_changes_nothing() -> None:
    async def play() -> Result:
        reset_ids()
        async with spawn(SCOUT, session=ScriptedSession([Reply("ab", pieces=2)])) as scout:
            result = await scout.ask("go")
        return msgspec.structs.replace(result, usage=Usage())

    alone = await play()
    async with open_events(buffer=1):
        assert await play() == alone


# Functions as minds.


async def test_an_async_function_is_a_mind() -> None:
    async def shout(task: str) -> str:
        await trio.lowlevel.checkpoint()
        return task.upper()

    async with spawn(shout) as subagent:
        result = await subagent.ask("hey")
    assert (result.agent, result.subagent, result.output) == ("shout", "shout#1", "HEY")
    assert subagent.model == ""


async def test_a_plain_function_runs_in_a_thread() -> None:
    def where(task: str) -> str:
        return str(threading.current_thread() is threading.main_thread())

    async with spawn(where) as subagent:
        assert (await subagent.ask("?")).output == "False"


async def test_a_function_that_raises_is_a_crashed_result_and_can_be_asked_again() -> None:
    calls: list[str] = []

    async def moody(task: str) -> str:
        calls.append(task)
        if len(calls) == 1:
            raise ValueError("not today")
        return "fine"

    async with spawn(moody) as subagent:
        first, second = await subagent.ask("a"), await subagent.ask("b")
    assert shape(first) == ("crashed", "ValueError: not today")
    assert first.error is not None
    assert isinstance(first.error.cause, ValueError)
    assert second.output == "fine"


class Finding(msgspec.Struct):
    """What was found."""

    name: str


@pytest.mark.parametrize(
    ("answer", "output", "value"),
    [
        (None, "", None),
        ("text", "text", None),
        ([1, 2], "[1,2]", [1, 2]),
        (Finding("a"), '{"name":"a"}', Finding("a")),
    ],
)
async def test_what_a_function_answers_is_output_or_data(
    answer: Any, output: str, value: Any
) -> None:
    turn = await FunctionSession(lambda task: answer).ask("go", ignore)
    assert (turn.error, turn.text, turn.value) == (None, output, value)


@pytest.mark.parametrize("answer", [Finding("a"), {"name": "a"}, '{"name": "a"}'])
async def test_a_function_with_a_schema_gives_data_of_that_type(answer: Any) -> None:
    turn = await FunctionSession(lambda task: answer, Finding).ask("go", ignore)
    assert turn.value == Finding("a")


@pytest.mark.parametrize("answer", ["no JSON", {"name": 3}, None, object()])
async def test_a_function_that_breaks_its_schema_has_failed(answer: Any) -> None:
    turn = await FunctionSession(lambda task: answer, Finding).ask("go", ignore)
    assert turn.error is not None
    assert turn.error.kind == "schema"


async def test_a_function_in_a_thread_is_left_behind_when_its_turn_is_cut() -> None:
    release = threading.Event()

    def slow(task: str) -> str:
        release.wait(10)
        return "late"

    async with spawn(slow) as subagent:
        result = await subagent.ask("go", timeout=0.05)
        assert result.status == "timed_out"
    release.set()


class Speechless(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise TypeError("no words")


async def test_an_error_that_cannot_say_what_it_is_fails_its_turn_and_no_more() -> None:
    async def fail(task: str) -> str:
        raise Speechless

    async with spawn(Agent("scout", fail)) as scout:
        result = await scout.ask("go")
    assert result.status == "crashed"
    assert "Speechless" in str(result.error)
