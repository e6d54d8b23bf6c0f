"""Agents of libraries that need asyncio, played as sessions of ours."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pydantic
import pydantic_ai
import pytest
import trio
from openai import AsyncOpenAI
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from standby_actors import open_nursery
from standby_actors.agent import Agent
from standby_actors.asyncio_loop import AsyncioLoop, open_asyncio_loop
from standby_actors.session import TextDelta, ToolEnded, ToolStarted
from standby_actors.sessions.asyncio_agents import AsyncioBackend
from standby_actors.subagent import Subagent, reset_ids, subagent
from standby_supervision import child, open_supervisor
from tests.support.model_server import open_model_server, says

# By name: in this folder, type checkers take `agents` for the folder itself.
agents: Any = importlib.import_module("agents")


@pytest.fixture(autouse=True)
def _counted_from_one() -> None:
    reset_ids()


def asyncio_threads() -> int:
    return sum(thread.name == "standby asyncio" for thread in threading.enumerate())


# The loop.


async def test_a_call_returns_what_its_coroutine_returns() -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    async def fail() -> None:
        raise ZeroDivisionError

    async with open_asyncio_loop() as loop:
        assert await loop.run(lambda: double(21)) == 42
        with pytest.raises(ZeroDivisionError):
            await loop.run(fail)
    assert asyncio_threads() == 0


async def test_all_users_share_one_loop_and_the_last_ends_it() -> None:
    loops: list[AsyncioLoop] = []

    async def use() -> None:
        async with open_asyncio_loop() as loop:
            loops.append(loop)
            await loop.run(lambda: asyncio.sleep(0.01))

    async with open_asyncio_loop() as first, trio.open_nursery() as tasks:
        for _ in range(5):
            tasks.start_soon(use)
    assert loops == [first] * 5
    assert asyncio_threads() == 0


async def test_a_cancelled_call_waits_for_its_clean_up() -> None:
    log: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            log.append("cleaned up")

    async with open_asyncio_loop() as loop:
        with trio.move_on_after(0.05) as scope:
            await loop.run(work)
        assert scope.cancelled_caught
        assert log == ["cleaned up"]


async def test_tasks_that_are_left_in_the_loop_are_cancelled_with_it() -> None:
    log: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    kept: list[Any] = []

    async def work() -> None:
        kept.append(asyncio.get_running_loop().create_task(background()))
        await asyncio.sleep(0)

    async with open_asyncio_loop() as loop:
        await loop.run(work)
    assert log == ["cancelled"]


# pydantic-ai.


async def test_a_pydantic_ai_agent_is_asked_remembers_and_is_counted() -> None:
    seen: list[int] = []

    async def answer(messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        seen.append(len(messages))
        for piece in ("It ", "parses."):
            yield piece

    theirs = pydantic_ai.Agent(FunctionModel(stream_function=answer))
    async with open_nursery() as nursery:
        scout = await nursery.start(Agent("scout", "", backend=AsyncioBackend(theirs)))
        stream = scout.stream("dates.py")
        pieces = [event.text async for event in stream if isinstance(event, TextDelta)]
        assert stream.result.ok, stream.result.error
        assert (stream.result.output, "".join(pieces)) == ("It parses.", "It parses.")
        again = await scout.ask("and times.py?")
        assert again.ok
        assert again.usage.requests == 1
        assert scout.usage.output_tokens > 0
    assert seen == [1, 3]
    assert asyncio_threads() == 0


async def test_its_tools_are_told_of() -> None:
    async def answer(messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) == 1:
            yield {0: DeltaToolCall("double", '{"number": 21}', tool_call_id="c1")}
        else:
            yield "done"

    theirs = pydantic_ai.Agent(FunctionModel(stream_function=answer))

    def double(number: int) -> int:
        """Double it."""
        return 2 * number

    theirs.tool_plain(double)
    async with open_nursery() as nursery:
        scout = await nursery.start(Agent("scout", "", backend=AsyncioBackend(theirs)))
        stream = scout.stream("go")
        events = [event async for event in stream]
        assert stream.result.ok, stream.result.error
        assert stream.result.usage.tool_calls == 1
    started = [event for event in events if isinstance(event, ToolStarted)]
    ended = [event for event in events if isinstance(event, ToolEnded)]
    assert [(each.call.name, each.call.id) for each in started] == [("double", "c1")]
    assert [(each.call.name, each.output, each.is_error) for each in ended] == [
        ("double", "42", False)
    ]


class Facts(pydantic.BaseModel):
    """What it is to find."""

    name: str
    count: int


async def test_an_answer_that_is_a_model_is_the_value() -> None:
    theirs = pydantic_ai.Agent(
        TestModel(custom_output_args={"name": "dates", "count": 3}), output_type=Facts
    )
    async with open_nursery() as nursery:
        scout = await nursery.start(Agent("scout", "", backend=AsyncioBackend(theirs)))
        result = await scout.ask("go")
    assert result.value == Facts(name="dates", count=3)
    assert result.output == '{"name":"dates","count":3}'


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (lambda: pydantic_ai.UsageLimitExceeded("too much"), "budget", "budget"),
        (lambda: pydantic_ai.ModelHTTPError(429, "m", None), "failed", "rate_limited"),
        (lambda: pydantic_ai.ModelHTTPError(500, "m", None), "failed", "provider"),
        (lambda: pydantic_ai.UnexpectedModelBehavior("odd"), "failed", "protocol"),
        (lambda: KeyError("a bug"), "crashed", "crash"),
    ],
    ids=["limit", "429", "500", "nonsense", "bug"],
)
async def test_what_the_library_raises_is_a_turn_with_an_error(
    error: Callable[[], Exception], status: str, kind: str
) -> None:
    async def answer(messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        if True:
            raise error()
        yield ""

    theirs = pydantic_ai.Agent(FunctionModel(stream_function=answer))
    async with open_nursery() as nursery:
        scout = await nursery.start(Agent("scout", "", backend=AsyncioBackend(theirs)))
        result = await scout.ask("go")
    assert result.error is not None
    assert (result.status, result.error.kind) == (status, kind)


@pytest.mark.parametrize("how", ["timeout", "interrupt", "close"])
async def test_a_cut_turn_cancels_the_run_and_keeps_what_was_said(how: str) -> None:
    log: list[str] = []

    async def answer(messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        try:
            yield "It "
            await asyncio.sleep(60)
            yield "parses."
        finally:
            log.append("cut")

    theirs = pydantic_ai.Agent(FunctionModel(stream_function=answer))
    async with open_nursery() as nursery:
        scout = await nursery.start(Agent("scout", "", backend=AsyncioBackend(theirs)))
        stream = scout.stream("go", timeout=0.3 if how == "timeout" else None)
        async for event in stream:
            if isinstance(event, TextDelta):
                if how == "interrupt":
                    scout.interrupt()
                elif how == "close":
                    await scout.close()
        assert stream.result.status == ("timed_out" if how == "timeout" else "stopped")
        assert stream.result.partial == "It "
    assert log == ["cut"]
    assert asyncio_threads() == 0


async def test_it_is_restarted_with_what_it_knew() -> None:
    seen: list[int] = []

    async def answer(messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        seen.append(len(messages))
        yield "yes"

    theirs = pydantic_ai.Agent(FunctionModel(stream_function=answer))
    agent = Agent("scout", "", backend=AsyncioBackend(theirs), remember="replay")
    async with open_supervisor(child(subagent(agent), id="scout")) as tree:
        scout = Subagent(tree["scout"])
        await scout.ask("a")
        scout.ref.kill()
        await trio.sleep(0.05)
        await scout.ask("b")
    assert seen == [1, 3]


# openai-agents.


def over(base_url: str) -> Any:
    agents.set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
    return agents.Agent(
        name="theirs",
        instructions="Answer.",
        model=agents.OpenAIChatCompletionsModel("stub", client),
    )


async def test_an_openai_agents_agent_is_asked_remembers_and_is_counted() -> None:
    async with open_model_server([says("It ", "parses."), says("It formats.")]) as server:
        backend = AsyncioBackend(over(server.base_url))
        async with open_nursery() as nursery:
            scout = await nursery.start(Agent("scout", "", backend=backend))
            stream = scout.stream("dates.py")
            pieces = [event.text async for event in stream if isinstance(event, TextDelta)]
            assert stream.result.ok, stream.result.error
            assert (stream.result.output, "".join(pieces)) == ("It parses.", "It parses.")
            again = await scout.ask("and times.py?")
            assert again.output == "It formats."
            assert again.usage.requests == 1
    shown = [message["role"] for message in server.asked[-1].body["messages"]]
    assert shown == ["system", "user", "assistant", "user"]
    assert asyncio_threads() == 0


async def test_a_server_that_fails_is_a_turn_with_an_error() -> None:
    async with open_model_server([]) as server:
        backend = AsyncioBackend(over(server.base_url))
        async with open_nursery() as nursery:
            scout = await nursery.start(Agent("scout", "", backend=backend))
            result = await scout.ask("go")
    assert result.error is not None
    assert result.error.kind == "provider"


def test_only_their_agents_are_taken() -> None:
    with pytest.raises(TypeError, match=r"a pydantic_ai\.Agent or an agents\.Agent is wanted"):
        AsyncioBackend(object())
