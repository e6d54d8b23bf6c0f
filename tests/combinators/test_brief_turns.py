"""A function's one turn is played in a cell of its pool: nobody can tell, but by the bill."""

from __future__ import annotations

import threading
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from standby_actors import Actor, Request, open_nursery
from standby_actors.agent import Agent
from standby_actors.ref import Ref
from standby_actors.result import Result
from standby_actors.subagent import reset_ids, spawn
from standby_combinators import SubagentPool, fan_out
from tests.support.heard import heard


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


@pytest.fixture(params=["unwatched", "watched"], autouse=True)
def is_watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether somebody listens: then whole subagents are spawned for the same turns."""
    monkeypatch.setattr(Watch, "is_on", request.param == "watched")


class Watch:
    """A block in which somebody listens, if the test wants it."""

    is_on = False

    async def __aenter__(self) -> None:
        self._stack = AsyncExitStack()
        if self.is_on:
            await self._stack.enter_async_context(heard())

    async def __aexit__(self, *exc: Any) -> None:
        await self._stack.aclose()


class Size(msgspec.Struct):
    """What a function may have to answer with."""

    width: int


async def shout(task: str) -> str:
    await trio.lowlevel.checkpoint()
    return f" {task.upper()} "


async def slow(task: str) -> str:
    await trio.sleep(2)
    return task


async def broken(task: str) -> str:
    raise KeyError(task)


async def deaf(task: str) -> str:
    with trio.CancelScope(shield=True):
        await trio.sleep(30)
    return task


async def play(mind: Any, task: str = "go", **fields: Any) -> Result:
    async with Watch(), SubagentPool() as pool:
        return await pool.turn(Agent("one", mind, **fields), task)


def shape(result: Result) -> tuple[Any, ...]:
    said = [(each.role, each.text, each.partial) for each in result.messages]
    return result.subagent, result.status, result.output, said, result.usage.turns


async def test_the_answer_is_trimmed_and_the_turn_is_told() -> None:
    result = await play(shout)
    said = [("user", "go", False), ("assistant", " GO ", False)]
    assert shape(result) == ("one#1", "ok", "GO", said, 1)


async def test_a_plain_function_runs_in_a_thread() -> None:
    threads: list[int] = []

    def where(task: str) -> str:
        threads.append(threading.get_ident())
        return task

    assert (await play(where)).output == "go"
    assert threads != [threading.get_ident()]


async def test_a_function_that_raises_has_crashed_its_turn_alone() -> None:
    async with Watch():
        report = await fan_out([broken, shout], ["a", "b"])
    first, second = report.steps
    assert shape(first) == ("broken#1", "crashed", "", [("user", "a", False)], 1)
    assert first.error is not None
    assert first.error.kind == "crash"
    assert isinstance(first.error.cause, KeyError)
    assert second.output == "B"


@pytest.mark.parametrize(
    ("answer", "status", "value"),
    [
        ('{"width": 3}', "ok", Size(3)),
        ({"width": 4}, "ok", Size(4)),
        ({"width": "x"}, "failed", None),
    ],
)
async def test_an_answer_must_be_what_the_schema_says(
    answer: Any, status: str, value: Size | None
) -> None:
    async def measure(task: str) -> Any:
        return answer

    result = await play(measure, schema=Size)
    assert (result.status, result.value) == (status, value)
    if value is None:
        assert result.error is not None
        assert result.error.kind == "schema"
        assert result.error.message.startswith("the function's answer: ")


async def test_an_answer_that_is_no_data_is_no_answer() -> None:
    async def odd(task: str) -> Any:
        return object()

    result = await play(odd)
    assert result.error is not None
    assert result.error.kind == "schema"


async def test_a_deadline_cuts_the_turn_and_says_so(autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    result = await play(slow, timeout=0.5)
    assert trio.current_time() - start == 0.5
    assert (result.status, result.usage.busy_seconds) == ("timed_out", 0.5)
    assert result.error is not None
    assert (result.error.message, result.error.retryable) == ("timed out after 0.5 s", True)


async def test_a_function_that_swallows_its_cut_has_timed_out_all_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def stubborn(task: str) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.7)
        return task

    result = await play(stubborn, timeout=0.5)
    assert (result.status, result.output) == ("timed_out", "")


async def test_who_asks_waits_no_longer_than_the_grace_for_a_function_that_is_deaf(
    autojump_clock: trio.testing.MockClock,
) -> None:
    start = trio.current_time()
    async with Watch(), SubagentPool() as pool:
        result = await pool.turn(Agent("one", deaf, timeout=0.5), "go")
        took = trio.current_time() - start
    assert result.status == "timed_out"
    assert took == 1.5
    # A second after its kill it is dropped, and the block of its owner can be left.
    assert trio.current_time() - start <= 11


async def test_a_cancellation_cuts_the_turn_and_passes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ended: list[float] = []

    async def careful(task: str) -> str:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())
        return task

    start = trio.current_time()
    async with Watch(), SubagentPool() as pool:
        with trio.move_on_after(3) as scope:
            await pool.turn(careful, "go")
        assert ended == [start + 3]
    assert scope.cancelled_caught
    (step,) = pool.trail.steps
    assert (step.status, step.usage.turns, step.usage.busy_seconds) == ("cancelled", 1, 3)


async def test_what_a_function_spawns_ends_with_its_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def parent(task: str) -> str:
        async with spawn(slow) as child:
            return (await child.ask(task)).output

    with trio.move_on_after(1) as scope:
        await play(parent)
    assert scope.cancelled_caught
    assert (await play(parent)).output == "go"


async def test_a_scope_left_open_crashes_the_turn_and_nobody_else() -> None:
    async def careless(task: str) -> str:
        trio.CancelScope().__enter__()
        return task

    async with Watch():
        report = await fan_out([careless, shout], ["a", "b"])
    assert [step.status for step in report.steps] == ["crashed", "ok"]


class Ask(Request[str], frozen=True):
    """Ask it to have its question answered by a turn."""

    deadline: float | None = None


class Asker(Actor):
    """Has turns played in its handler, by a function that may ask it back."""

    async def receive(self, message: Ask | str) -> str:
        if isinstance(message, str):
            return message
        me: Ref[Ask | str] = self.ref

        async def back(task: str) -> str:
            said: str = await me.ask(task)
            return said

        async with Watch(), SubagentPool() as pool:
            result = await pool.turn(Agent("back", back), "go")
        return str(result.error)


async def test_a_turn_that_asks_back_whoever_waits_for_it_is_refused() -> None:
    async with open_nursery() as nursery:
        said = await nursery.spawn(Asker).ask(Ask())
    assert "AskCycle" in said


async def test_leaving_the_pool_cuts_what_is_still_played(
    autojump_clock: trio.testing.MockClock,
) -> None:
    results: list[Result] = []

    async def turn(pool: SubagentPool) -> None:
        results.append(await pool.turn(slow, "go"))

    async with trio.open_nursery() as nursery, SubagentPool() as pool:
        nursery.start_soon(turn, pool)
        await trio.testing.wait_all_tasks_blocked()
    assert [each.status for each in results] in (["stopped"], ["ok"])
    with pytest.raises(RuntimeError, match="not open"):
        await pool.turn(slow, "go")


async def test_what_ends_the_program_passes_the_pool() -> None:
    async def leave(task: str) -> str:
        raise SystemExit(3)

    with pytest.raises((SystemExit, BaseExceptionGroup)) as caught:
        await play(leave)
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, SystemExit)
