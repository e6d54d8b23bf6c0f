"""The example of an agent server does what it says, through its web application."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import httpx
import pytest
import trio

from tests.support.documents import ROOT

pytestmark = pytest.mark.real


@pytest.fixture
def example() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location(
        "agent_server", ROOT / "examples" / "agent_server.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["agent_server"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["agent_server"]


@asynccontextmanager
async def client_of(app: Any) -> AsyncGenerator[httpx.AsyncClient]:
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app") as client,
    ):
        yield client


async def say(client: httpx.AsyncClient, key: str, text: str) -> tuple[int, str]:
    response = await client.post(f"/conversations/{key}", content=text)
    body = response.json()
    return response.status_code, body.get("answer") or body["detail"]


def test_each_conversation_has_a_memory_of_its_own(example: ModuleType) -> None:
    async def main() -> None:
        async with client_of(example.app) as client:
            assert await say(client, "ada", "one") == (200, "one, the 1. thing you said")
            assert await say(client, "bob", "x") == (200, "x, the 1. thing you said")
            assert await say(client, "ada", "two") == (200, "two, the 2. thing you said")
            tree = (await client.get("/tree")).text
            assert "ada" in tree
            assert "bob" in tree
            assert (await client.get("/health")).status_code == 200

    asyncio.run(main())


def test_a_mind_that_fails_costs_one_answer_and_one_memory(example: ModuleType) -> None:
    async def mind(said: tuple[str, ...]) -> str:
        await trio.lowlevel.checkpoint()
        if said[-1] == "bad":
            raise ValueError("no idea")
        return str(len(said))

    async def main() -> None:
        async with client_of(example.application(mind)) as client:
            assert await say(client, "ada", "one") == (200, "1")
            assert await say(client, "bob", "one") == (200, "1")
            assert await say(client, "ada", "bad") == (502, "the agent failed: no idea")
            assert await say(client, "ada", "again") == (200, "1")
            assert await say(client, "bob", "two") == (200, "2")

    asyncio.run(main())


def test_conversations_do_not_wait_for_one_another(example: ModuleType) -> None:
    arrived = 0
    all_are_here = trio.Event()

    async def mind(said: tuple[str, ...]) -> str:
        nonlocal arrived
        arrived += 1
        if arrived == 20:
            all_are_here.set()
        await all_are_here.wait()  # nobody is answered before all are asked
        return said[-1]

    async def main() -> None:
        async with client_of(example.application(mind)) as client:
            answers = await asyncio.gather(*[say(client, f"u{n}", str(n)) for n in range(20)])
            assert answers == [(200, str(n)) for n in range(20)]

    asyncio.run(main())


def test_a_server_that_is_stopped_does_not_wait_for_a_model(example: ModuleType) -> None:
    begun = asyncio.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def mind(said: tuple[str, ...]) -> str:
            loop.call_soon_threadsafe(begun.set)
            await trio.sleep_forever()
            raise AssertionError(said)

        async with client_of(example.application(mind)) as client:
            asked = asyncio.create_task(say(client, "ada", "hello"))
            await begun.wait()
        assert (await asked)[0] == 503

    asyncio.run(main())
