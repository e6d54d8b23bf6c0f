"""Libraries made for tasks of trio work in handlers, which are not tasks of their own."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import httpx
import pytest
import sniffio
import trio
import trio.testing
from trio.testing import MockClock

from standby_actors import Actor, ExitReason, Killed, open_nursery
from tests.actors.workers import LOG, AsyncEcho, Do, Worker
from tests.support.model_server import SILENT, Answer, Asked, open_model_server, says

openai = pytest.importorskip("openai")


# ---- anyio


async def test_anyio_sleeps_cancels_and_groups_tasks_in_a_handler(
    autojump_clock: MockClock,
) -> None:
    async def uses_anyio(self: Actor) -> tuple[str, list[int], bool]:
        library = sniffio.current_async_library()
        await anyio.sleep(1)
        done: list[int] = []

        async def child(number: int) -> None:
            await anyio.sleep(number)
            done.append(number)

        async with anyio.create_task_group() as tasks:
            for number in (3, 1, 2):
                tasks.start_soon(child, number)
        with anyio.move_on_after(5) as scope:
            await anyio.sleep(100)
        async with anyio.Lock():
            await anyio.lowlevel.checkpoint()
        return library, done, scope.cancelled_caught

    async with open_nursery() as nursery:
        assert await nursery.spawn(Do).ask(uses_anyio) == ("trio", [1, 2, 3], True)
        assert trio.current_time() == 9


async def test_a_lock_of_anyio_is_held_over_an_ask(autojump_clock: MockClock) -> None:
    lock = anyio.Lock()

    async def holds(self: Actor, worker: Any) -> Any:
        async with lock:
            return await worker.ask("short")

    async with open_nursery() as nursery:
        worker = nursery.spawn(Worker)
        for reply in [nursery.spawn(Do, worker).ask(holds) for _ in range(3)]:
            assert await reply == "ok"


@pytest.mark.real
async def test_threads_of_anyio_call_back_into_a_handler() -> None:
    async def calls(self: Actor) -> int:
        def in_a_thread() -> int:
            anyio.from_thread.run(anyio.lowlevel.checkpoint)
            return 5

        return await anyio.to_thread.run_sync(in_a_thread)

    async with open_nursery() as nursery:
        assert await nursery.spawn(Do).ask(calls) == 5


# ---- httpx and openai, against a server on loopback


def answers(request: Asked) -> Answer:
    """Says three letters, or nothing at all to whoever asks for silence."""
    return SILENT if request.last == "silence" else says("a", "b", "c")


def question(text: str) -> dict[str, Any]:
    return {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}


@pytest.mark.real
async def test_a_stream_of_httpx_goes_on_over_asks_and_ends_with_a_kill() -> None:
    async def reads(self: Actor, echo: Any, url: str) -> list[str]:
        lines: list[str] = []
        async with (
            httpx.AsyncClient() as client,
            client.stream("POST", f"{url}/chat/completions", json=question("hi")) as response,
        ):
            async for line in response.aiter_lines():
                if line:
                    lines.append(await echo.ask(line))
        return lines

    async def waits(self: Actor, echo: Any, url: str) -> None:
        async with httpx.AsyncClient(timeout=None) as client:
            try:
                await client.post(f"{url}/chat/completions", json=question("silence"))
            except BaseException as error:
                LOG.append(type(error).__name__)
                raise

    async with open_model_server(answers) as server, open_nursery() as nursery:
        readers = [nursery.spawn(Do, nursery.spawn(AsyncEcho), server.base_url) for _ in range(5)]
        for reply in [reader.ask(reads) for reader in readers]:
            lines = await reply
            assert lines[-1] == "data: [DONE]"
            assert len(lines) == 7
        readers[0].tell(waits)
        await until_silent(server)
        readers[0].kill()
        assert await readers[0].join() == Killed()
        assert LOG == ["Cancelled"]
        await server.asked[-1].gone.wait()


async def until_silent(server: Any) -> None:
    """Wait until a request for silence has arrived."""
    while not server.asked or server.asked[-1].last != "silence":
        await trio.lowlevel.checkpoint()


@pytest.mark.real
async def test_a_timeout_of_httpx_is_the_handlers_to_catch() -> None:
    async def gives_up(self: Actor, url: str) -> str:
        async with httpx.AsyncClient() as client:
            try:
                await client.post(f"{url}/chat/completions", json=question("silence"), timeout=0.05)
            except httpx.ReadTimeout:
                return "gave up"
        return "was answered"

    async with open_model_server(answers) as server, open_nursery() as nursery:
        assert await nursery.spawn(Do, server.base_url).ask(gives_up) == "gave up"


@pytest.mark.real
async def test_a_client_kept_in_an_actor_serves_every_message_whatever_its_task() -> None:
    class Keeps(Actor):
        """Keeps a client of httpx from its start to its stop."""

        def __init__(self, url: str) -> None:
            self.url = url

        async def on_start(self) -> None:
            self.client = httpx.AsyncClient()

        async def receive(self, message: str) -> str:
            response = await self.client.post(
                f"{self.url}/chat/completions", json=question(message)
            )
            return response.text

        async def on_stop(self, reason: ExitReason) -> None:
            await self.client.aclose()
            LOG.append("closed")

    async with open_model_server(answers) as server:
        async with open_nursery() as nursery:
            keepers = [nursery.spawn(Keeps, server.base_url) for _ in range(4)]
            for _ in range(3):
                for reply in [keeper.ask("hi") for keeper in keepers]:
                    assert "[DONE]" in await reply
        assert LOG == ["closed"] * 4


class Mind(Actor):
    """Asks a model, and hands each piece of the answer to another actor on its way."""

    shutdown = 0.2

    def __init__(self, url: str, echo: Any) -> None:
        self.client = openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
        self.echo = echo

    async def receive(self, message: str) -> str:
        pieces: list[str] = []
        try:
            stream = await self.client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": message}], stream=True
            )
            async with stream:
                async for chunk in stream:
                    if chunk.choices and chunk.choices[0].delta.content:
                        pieces.append(await self.echo.ask(chunk.choices[0].delta.content))
        except trio.Cancelled:
            LOG.append("cut")
            raise
        return "".join(pieces)

    async def on_stop(self, reason: ExitReason) -> None:
        await self.client.close()
        LOG.append("closed")


# It stops reading at [DONE], and leaves the generators below it to the collector.
left_by_openai = pytest.mark.filterwarnings(
    "ignore:Async generator 'http:ResourceWarning",
    "ignore:Exception ignored in. <async_generator object:pytest.PytestUnraisableExceptionWarning",
)


@pytest.mark.real
@left_by_openai
async def test_openai_streams_in_a_handler_that_asks_and_is_cut_by_a_kill() -> None:
    async with open_model_server(answers) as server:
        async with open_nursery() as nursery:
            echo = nursery.spawn(AsyncEcho)
            minds = [nursery.spawn(Mind, server.base_url, echo) for _ in range(3)]
            for _ in range(3):
                for reply in [mind.ask("hi") for mind in minds]:
                    assert await reply == "abc"
            minds[0].tell("silence")
            await until_silent(server)
            minds[0].kill()
            assert await minds[0].join() == Killed()
            assert LOG == ["cut"]
            await server.asked[-1].gone.wait()
            LOG.clear()
        assert LOG == ["closed"] * 2


@pytest.mark.real
@left_by_openai
async def test_an_asker_that_gives_up_does_not_cut_the_turn_and_a_kill_does() -> None:
    async with open_model_server(answers) as server, open_nursery() as nursery:
        mind = nursery.spawn(Mind, server.base_url, nursery.spawn(AsyncEcho))
        with trio.CancelScope() as scope:
            reply = mind.ask("silence")
            await until_silent(server)
            scope.cancel()
            await reply
        assert scope.cancelled_caught
        assert LOG == []
        mind.kill()
        await mind.join()
        assert LOG == ["cut"]
