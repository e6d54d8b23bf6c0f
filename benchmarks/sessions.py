"""Work with sessions that is timed: subagents of functions, and turns of a chat model.

The model's server is a process of its own, so that what it costs to serve is in nobody's figure.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import trio

from standby import Agent, fan_out, spawn
from standby_actors.models import ModelSettings, Secret
from standby_actors.sessions.connection import ChatModel, open_chat_model

from .measure import Sample, Unmeasured, per
from .watch import Watch

WORDS = tuple(f"word{number} " for number in range(20))
SAID = "".join(WORDS)
SCOUT = Agent("scout", "You are a scout.", tools=[])


async def _echo(task: str) -> str:
    return task


async def fan_out_subagents(children: int, watch: Watch) -> None:
    """Ask so many function subagents one task each, all at the same time."""
    tasks = [str(number) for number in range(children)]
    with watch:
        report = await fan_out(_echo, tasks, concurrency=children)
    assert [step.output for step in report.steps] == tasks


@contextmanager
def served() -> Generator[str]:
    """The address of a server that answers every chat request with the same words."""
    command = [sys.executable, "-m", "benchmarks.sessions"]
    root = Path(__file__).parent.parent
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            port = server.stdout.readline().strip()
            if not port:
                raise Unmeasured("the model server did not start")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


@asynccontextmanager
async def _model(address: str) -> AsyncGenerator[ChatModel]:
    try:
        async with open_chat_model(ModelSettings("openai", "m", address, Secret("none"))) as model:
            yield model
    except ImportError as error:
        raise Unmeasured(str(error)) from None


def chat_turns(turns: int) -> Sample:
    """Play so many turns at the same time, each of a subagent of its own."""

    async def main() -> Sample:
        watch = Watch()

        async def turn() -> None:
            async with spawn(SCOUT, model=model) as subagent:
                result = await subagent.ask("go")
            assert result.output == SAID.strip()

        async with _model(address) as model:
            await turn()
            with watch:
                async with trio.open_nursery() as nursery:
                    for _ in range(turns):
                        nursery.start_soon(turn)
        return per(turns, watch)

    with served() as address:
        return trio.run(main)


def bare_calls(turns: int) -> Sample:
    """Make the same requests with the provider's SDK, and read their streams."""
    try:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient
    except ImportError as error:
        raise Unmeasured(str(error)) from None

    async def main() -> Sample:
        watch = Watch()

        async def call() -> None:
            stream = await client.chat.completions.create(
                model="m",
                messages=[
                    {"role": "system", "content": "You are a scout."},
                    {"role": "user", "content": "go"},
                ],
                stream=True,
                stream_options={"include_usage": True},
            )
            said = ""
            async for chunk in stream:
                if chunk.choices:
                    said += chunk.choices[0].delta.content or ""
            assert said == SAID

        async with AsyncOpenAI(
            api_key="none",
            base_url=address,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(trust_env=False),
        ) as client:
            await call()
            with watch:
                async with trio.open_nursery() as nursery:
                    for _ in range(turns):
                        nursery.start_soon(call)
        return per(turns, watch)

    with served() as address:
        return trio.run(main)


async def weigh_sessions(count: int) -> float:
    """Bytes of one of `count` live subagents of a chat model, each after a turn.

    The connections are the SDK's and are shared: they are there before.
    """
    import gc
    import tracemalloc

    def weigh() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    with served() as address:
        async with _model(address) as model:

            async def play(stack: AsyncExitStack) -> None:
                subagents = [
                    await stack.enter_async_context(spawn(SCOUT, model=model)) for _ in range(count)
                ]
                async with trio.open_nursery() as nursery:
                    for each in subagents:
                        nursery.start_soon(each.ask, "go")

            async with AsyncExitStack() as stack:
                await play(stack)
            tracemalloc.start()
            before = weigh()
            async with AsyncExitStack() as stack:
                await play(stack)
                return (weigh() - before) / count


# ---- the server


def _body() -> bytes:
    def event(data: object) -> bytes:
        return b"data: " + json.dumps(data).encode() + b"\n\n"

    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[tuple[dict[str, str], str | None]] = [({"content": word}, None) for word in WORDS]
    parts = [
        event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        for delta, finish in [*deltas, ({}, "stop")]
    ]
    usage = {"prompt_tokens": 9, "completion_tokens": 20, "total_tokens": 29}
    return b"".join([*parts, event({**base, "choices": [], "usage": usage}), b"data: [DONE]\n\n"])


async def _serve() -> None:
    body = _body()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
    answer = head % len(body) + body

    async def connection(stream: trio.SocketStream) -> None:
        data = b""
        try:
            while more := await stream.receive_some(65_536):
                data += more
                while b"\r\n\r\n" in data:
                    head, _, rest = data.partition(b"\r\n\r\n")
                    found = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
                    size = int(found.group(1)) if found else 0
                    if len(rest) < size:
                        break
                    data = rest[size:]
                    await stream.send_all(answer)
        except trio.BrokenResourceError:
            pass

    async with trio.open_nursery() as nursery:
        # Enough room to wait in for all who connect at the same time.
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1_000)
        nursery.start_soon(trio.serve_listeners, connection, listeners)
        sys.stdout.write(f"{listeners[0].socket.getsockname()[1]}\n")
        sys.stdout.flush()
        # Whoever started us holds the other end, also if it is killed.
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        os._exit(0)


if __name__ == "__main__":
    trio.run(_serve)
