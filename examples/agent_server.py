"""An agent server, as a web backend would embed it: one supervised agent for each conversation.

    pip install standby fastapi uvicorn
    uvicorn agent_server:app

    curl -X POST localhost:8000/conversations/ada -d 'hello'
    curl localhost:8000/tree

What to look at:

- The whole tree is one value, `specification`, made before anything starts.
- A conversation is an actor under a dynamic supervisor, started by the first message to its key.
  Its handler may wait for a model for a minute; the others do not notice.
- A mind that crashes ends its conversation's life and no more: that request gets a 502, and
  the next one a new life.  One that hangs is ended by `stalled_after`.
- A conversation that is silent for half an hour ends by itself, and is forgotten.
- The actors run on a trio loop in a thread; the web application stays what it was.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from fastapi import FastAPI, HTTPException, Request, Response

import standby
from standby import Actor, AsyncioHost, Backoff, Partitions, Tree, child, partitions

Think = Callable[[tuple[str, ...]], Awaitable[str]]
"""A mind: what was said so far, oldest first, to what is answered.  Runs on trio."""

SILENCE = 1800.0
"""Seconds without a message after which a conversation ends."""


async def echo(said: tuple[str, ...]) -> str:
    """Stand in for a model, so that this file runs without a key."""
    await trio.sleep(0.01)
    return f"{said[-1]}, the {len(said)}. thing you said"


class Say(standby.Request[str], frozen=True):
    """Something that a user says."""

    text: str


class Conversation(Actor):
    """One user, one memory, one message at a time."""

    stop_mode = "interrupt"  # a server that is stopped does not wait for a model

    def __init__(self, think: Think) -> None:
        self.think = think
        self.said: list[str] = []

    def on_start(self) -> None:
        """Begin to watch for silence."""
        self.set_receive_timeout(SILENCE)

    async def receive(self, message: Say) -> str:
        """Answer with all of the conversation in mind."""
        self.said.append(message.text)
        answer = await self.think(tuple(self.said))
        self.set_receive_timeout(SILENCE)
        return answer

    def on_receive_timeout(self) -> None:
        """End; as a transient child's normal end, this is for good."""
        self.stop()


def specification(think: Think, *, most: int = 10_000) -> standby.ChildSpec:
    """The supervised part of the server, as a value."""
    return partitions(
        child(
            Conversation,
            think,
            restart="transient",
            capacity=8,  # a user who types faster than the model answers is told so
            stalled_after=120.0,
        ),
        count=8,
        id="conversations",
        # A mind that is down for all must not take the server with it: never give up, slow down.
        intensity=None,
        backoff=Backoff(0.5, cap=30.0),
        max_children=most / 8,
    )


class AgentServer:
    """The tree on its own loop, for the handlers of a web application."""

    def __init__(self, host: AsyncioHost, tree: Tree, serving: asyncio.Future[None]) -> None:
        self._host = host
        self._tree = tree
        self._conversations: Partitions = tree.partitions("conversations")
        self._serving = serving

    @property
    def is_serving(self) -> bool:
        """Whether the tree lives."""
        return not self._serving.done()

    async def say(self, key: str, text: str, *, seconds: float = 60.0) -> str:
        """Say `text` in the conversation with that key, and return the answer."""

        async def on_its_loop() -> str:
            conversation = await self._conversations.get_or_start(key)
            return str(await conversation.ask(Say(text), timeout=seconds))

        return await self._host.run(on_its_loop)

    async def render(self) -> str:
        """What is alive, as text."""

        async def on_its_loop() -> str:
            return self._tree.render()

        return await self._host.run(on_its_loop)


@asynccontextmanager
async def open_agent_server(think: Think) -> AsyncGenerator[AgentServer]:
    """Run the tree for as long as the block is open; leaving it is an ordered stop.

    Raises:
        BadSpec: nothing was started.
        StartFailed: a child could not be started; those before it have been stopped.
    """
    opened: concurrent.futures.Future[Tree] = concurrent.futures.Future()

    async def serve() -> None:
        async with standby.open_supervisor(specification(think), name="agents") as tree:
            opened.set_result(tree)
            await tree.join()

    async with AsyncioHost(name="server") as host:
        serving = host.run(serve)
        waiting = asyncio.wrap_future(opened)
        either: set[asyncio.Future[Any]] = {serving, waiting}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            await serving
        # Left alone it ends with the host; that is not an error that nobody has looked at.
        serving.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        yield AgentServer(host, await waiting, serving)


def application(think: Think = echo) -> FastAPI:
    """The web application around an agent server."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with open_agent_server(think) as server:
            app.state.server = server
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/conversations/{key}")
    async def say(key: str, request: Request) -> dict[str, Any]:
        text = (await request.body()).decode()
        try:
            return {"answer": await app.state.server.say(key, text)}
        except standby.ActorCrashed as crash:
            raise HTTPException(502, f"the agent failed: {crash.__cause__}") from None
        except standby.AskTimeout as late:
            raise HTTPException(504, str(late)) from None
        except (standby.MailboxFull, LookupError) as full:
            raise HTTPException(429, str(full)) from None
        except standby.ActorStopped as gone:
            raise HTTPException(503, str(gone)) from None

    @app.get("/tree")
    async def tree() -> Response:
        return Response(await app.state.server.render(), media_type="text/plain")

    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200 if app.state.server.is_serving else 503)

    return app


app = application()
