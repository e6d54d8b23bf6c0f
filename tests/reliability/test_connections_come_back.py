"""A request that is cut, at whatever moment, gives its connection back.

The pool has room for two; a server accepts after one second and answers after
another.  After a hundred asks that were cut, two more are answered in two seconds.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.result import Result
from standby_actors.sessions.chat import ChatModel, open_chat_model
from standby_actors.subagent import spawn
from standby_combinators.fan_out import fan_out
from tests.agents.chat.asking import on_every_api, settings
from tests.support.model_server import Answer, open_model_server, streams
from tests.support.model_server_agents import stream_of

SCOUT = Agent("scout", "You are a scout.")
ASKS, IN_FLIGHT, PLACES = 100, 20, 2


def answer(api: str) -> Answer:
    return streams(*(each + b"\n\n" for each in stream_of(api, "hi").split(b"\n\n")[:-1]))


@pytest.fixture(autouse=True)
def _slowly_connected(no_certificates: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection takes a second, and is then there."""
    from httpcore2._backends.auto import AutoBackend

    original = AutoBackend.connect_tcp

    async def connect_tcp(self: Any, *args: Any, **more: Any) -> Any:
        await trio.sleep(1)
        return await original(self, *args, **more)

    monkeypatch.setattr(AutoBackend, "connect_tcp", connect_tcp)


def pool_of(model: ChatModel) -> Any:
    """The connections of `model`, of which there may be two."""
    vars(model.client)["_platform"] = "Linux"
    # There is no public way to say how many there may be, or to see them.
    pool = model.client._client._transport._pool
    pool._max_connections = PLACES
    return pool


def is_idle(pool: Any) -> bool:
    return not pool._requests and all(each.is_idle() for each in pool.connections)


def free(model: ChatModel) -> float:
    """Places at the turnstile that are free, where there is one."""
    turnstile = model.turnstile
    return turnstile.available_tokens if isinstance(turnstile, trio.CapacityLimiter) else PLACES


@on_every_api
@pytest.mark.parametrize("at_once", [None, PLACES], ids=["the pool", "our turnstile"])
async def test_after_a_hundred_cut_asks_two_are_answered_at_once(
    api: Any, at_once: int | None, autojump_clock: MockClock
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    files = len(os.listdir("/proc/self/fd"))
    cut = 0
    async with open_model_server(lambda asked: answer(api).after(1)) as server:
        where = settings(server.base_url.removesuffix("/v1"), api, at_once=at_once)
        async with open_chat_model(where, retries=0) as model:
            pool = pool_of(model)
            room = trio.CapacityLimiter(IN_FLIGHT)

            async def ask() -> None:
                nonlocal cut
                async with room:
                    session = model.session(SCOUT)
                    with trio.move_on_after(draw.uniform(0, 2)) as scope:
                        await session.ask("go", lambda event: None)
                    cut += scope.cancelled_caught

            async with trio.open_nursery() as nursery:
                for _ in range(ASKS):
                    nursery.start_soon(ask)
            assert cut > ASKS // 2
            assert is_idle(pool)
            assert free(model) == PLACES
            began = trio.current_time()
            texts: list[str] = []

            async def ask_in_full() -> None:
                turn = await model.session(SCOUT).ask("go", lambda event: None)
                texts.append(turn.text)

            async with trio.open_nursery() as nursery:
                for _ in range(PLACES):
                    nursery.start_soon(ask_in_full)
            assert texts == ["echo: hi ."] * PLACES
            assert trio.current_time() - began <= 2.001
            assert is_idle(pool)
    assert len(os.listdir("/proc/self/fd")) <= files


@on_every_api
async def test_turns_that_are_stopped_or_out_of_time_give_their_connections_back(
    api: Any, autojump_clock: MockClock
) -> None:
    """The same by the other ways in which a subagent's turn is cut."""
    files = len(os.listdir("/proc/self/fd"))
    async with open_model_server(lambda asked: answer(api).after(1)) as server:
        where = settings(server.base_url.removesuffix("/v1"), api)
        async with open_chat_model(where, retries=0) as model:
            pool = pool_of(model)
            for step in range(8):
                at = 0.25 * step + 0.1
                results: list[Result] = []

                async def ask(scout: Any, results: list[Result], at: float) -> None:
                    results.append(await scout.ask("go", timeout=at))

                async with (
                    spawn(SCOUT, model=model) as one,
                    spawn(SCOUT, model=model) as two,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(ask, one, results, at)
                    nursery.start_soon(ask, two, results, 60)
                    await trio.sleep(at)
                    two.stop()
                assert sorted(each.status for each in results) == ["stopped", "timed_out"]
                with trio.move_on_after(at):
                    await fan_out(SCOUT, ["a", "b", "c"], concurrency=3, model=model)
            assert is_idle(pool)
            began = trio.current_time()
            report = await fan_out(SCOUT, ["a", "b"], concurrency=PLACES, model=model)
            assert report.ok
            assert trio.current_time() - began <= 2.001
    assert len(os.listdir("/proc/self/fd")) <= files
