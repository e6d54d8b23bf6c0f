"""The runtime inside synchronous and asyncio programs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio
from fastapi import FastAPI

from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    AskTimeout,
    AsyncioHost,
    Guest,
    Host,
    MailboxFull,
    Ref,
    Request,
    WrongThread,
    open_guest,
)
from standby_actors.door import Door
from tests.actors.workers import LOG, AsyncEcho, Boom, Echo, Stops

AsyncFace = AsyncioHost | Guest


class Add(Request[int], frozen=True):
    n: int


class Counter(Actor):
    """Adds."""

    def __init__(self, start: int = 0) -> None:
        self.total = start

    def receive(self, message: Add) -> int:
        """Add, and answer the total."""
        self.total += message.n
        return self.total


class Signs:
    """What tells a test how far an actor is, and lets the actor go on."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.cut = threading.Event()
        self.go = trio.Event()


class Waits(Actor):
    """Waits until it is let go, and answers."""

    cut_when_withdrawn = True
    capacity = 1

    def __init__(self, signs: Signs) -> None:
        self.signs = signs

    async def receive(self, message: Any) -> Any:
        """Wait, and answer."""
        self.signs.begun.set()
        try:
            await self.signs.go.wait()
        except trio.Cancelled:
            self.signs.cut.set()
            raise
        return message


class Finishes(Actor):
    """Lets another go on when their block is being left."""

    def __init__(self, signs: Signs) -> None:
        self.signs = signs

    def receive(self, message: Any) -> None:
        """Take anything."""

    def on_stop(self, reason: Any) -> None:
        """Let the other go on."""
        self.signs.go.set()


class FailsToStart(Actor):
    """Does not start."""

    async def on_start(self) -> None:
        """Fail."""
        raise ValueError("no start")

    def receive(self, message: Any) -> None:
        """Never called."""


def door_of(host: Host | AsyncFace) -> Door:
    return host._door  # pyright: ignore[reportPrivateUsage]


def wait_for_end(host: Host) -> None:
    """Wait until the loop has ended by itself."""
    concurrent.futures.wait([door_of(host).ended], 30)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [each.name for each in threading.enumerate() if each.name.startswith("standby")]


# ---- a synchronous program


def in_a_host(body: Callable[[Host], None]) -> None:
    with Host() as host:
        body(host)


def test_a_host_runs_actors_for_a_synchronous_program() -> None:
    with Host() as host:
        counter = host.spawn(Counter, 40, name="counter")
        assert host.ask(counter, Add(2)) == 42
        host.tell(counter, Add(1))
        assert host.ask(counter, Add(0), timeout=30) == 43
        echo = host.start(AsyncEcho, name="echo")
        host.send(echo, "sent")
        assert host.ask(echo, "hello") == "hello"
        assert host.run(_async_ask, echo) == "from inside"
        assert [each.name for each in host.tree().children] == ["counter", "echo"]


async def _async_ask(echo: Ref[Any]) -> Any:
    return await echo.ask("from inside")


def test_a_hosts_refs_may_be_used_from_many_threads() -> None:
    with Host() as host:
        counter = host.spawn(Counter)

        def work() -> None:
            for _ in range(50):
                host.ask(counter, Add(1))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert host.ask(counter, Add(0)) == 200


def test_many_asks_may_be_on_their_way() -> None:
    with Host() as host:
        echo = host.spawn(AsyncEcho)
        futures = [host.submit(echo, number) for number in range(500)]
        assert [future.result(30) for future in futures] == [*range(500)]


def test_leaving_a_host_is_an_ordered_stop() -> None:
    LOG.clear()
    with Host() as host:
        host.spawn(Stops, "a", shutdown=30)
        host.spawn(Stops, "b", shutdown=30)
    assert LOG == ["b", "a"]


def test_an_ask_on_its_way_gets_the_answer_of_the_handler_in_progress() -> None:
    with Host() as host:
        signs = Signs()
        ref = host.spawn(Waits, signs)
        future = host.submit(ref, "answered")
        assert signs.begun.wait(30)
        host.spawn(Finishes, signs)
    assert future.result(0) == "answered"


def test_a_crash_is_raised_where_the_host_is_left_and_refuses_what_comes_after() -> None:
    def body(host: Host) -> None:
        boom, echo = host.spawn(Boom), host.spawn(AsyncEcho)
        with pytest.raises(ActorCrashed) as crashed:
            host.ask(boom, "as it is")
        assert isinstance(crashed.value.__cause__, ValueError)
        wait_for_end(host)
        with pytest.raises(ActorStopped):
            host.ask(echo, 1)
        with pytest.raises(ActorStopped):
            host.spawn(Echo)
        with pytest.raises(ActorStopped):
            host.run(trio.lowlevel.checkpoint)

    with pytest.raises(ExceptionGroup) as raised:
        in_a_host(body)
    assert raised.group_contains(ValueError, match="as it is", depth=1)


def test_an_error_of_the_body_passes_as_it_is_and_joins_a_crash() -> None:
    def body(host: Host) -> None:
        host.tell(host.spawn(kind), "crash")
        raise KeyError(1)

    kind: type[Actor] = Echo
    with pytest.raises(KeyError):
        in_a_host(body)
    kind = Boom
    with pytest.raises(ExceptionGroup) as raised:
        in_a_host(body)
    assert raised.group_contains(ValueError, depth=1)
    assert raised.group_contains(KeyError, depth=1)


def test_a_start_that_fails_is_raised_where_it_was_asked_for() -> None:
    with Host() as host:
        with pytest.raises(ValueError, match="no start"):
            host.start(FailsToStart)
        assert host.ask(host.spawn(Echo), 1) == 1


def test_cancelling_a_submitted_ask_withdraws_it() -> None:
    with Host() as host:
        signs = Signs()
        ref = host.spawn(Waits, signs)
        future = host.submit(ref, 1)
        assert signs.begun.wait(30)
        assert future.cancel()
        assert signs.cut.wait(30)
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(0)


def test_an_ask_of_a_host_has_a_timeout() -> None:
    with Host() as host:
        signs = Signs()
        ref = host.spawn(Waits, signs)
        with pytest.raises(AskTimeout):
            host.ask(ref, 1, timeout=0.01)
        assert signs.cut.wait(30)


@pytest.mark.real
def test_an_ask_ends_in_time_also_where_the_loop_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("standby_actors.hosting.LATE", 0.05)
    free = threading.Event()

    def hold(message: Any) -> bool:
        return free.wait(30)

    with Host() as host:
        holder = host.spawn(hold)
        door_of(host).tell(holder, 1)
        with pytest.raises(AskTimeout):
            host.ask(holder, 2, timeout=0.01)
        free.set()


def test_a_full_mailbox_is_raised_to_the_thread_that_told() -> None:
    with Host() as host:
        signs = Signs()
        ref = host.spawn(Waits, signs)
        host.tell(ref, 1)
        assert signs.begun.wait(30)
        host.tell(ref, 2)
        with pytest.raises(MailboxFull):
            host.tell(ref, 3)
        host.spawn(Finishes, signs)


def test_a_host_refuses_to_wait_for_itself() -> None:
    with Host() as host:

        def ask(message: Ref[Any]) -> str:
            try:
                host.ask(message, 1)
            except RuntimeError as error:
                return str(error)
            return "asked"

        assert "this is the loop of host itself" in host.ask(host.spawn(ask), host.spawn(Echo))


def test_a_call_in_progress_ends_when_the_host_is_left() -> None:
    got: list[BaseException] = []
    begun = threading.Event()

    async def serve() -> None:
        begun.set()
        await trio.sleep_forever()

    with Host() as host:

        def work() -> None:
            try:
                host.run(serve)
            except ActorStopped as error:
                got.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(30)
    thread.join(30)
    assert "its host has stopped" in str(got)


@pytest.mark.real
def test_leaving_a_host_whose_loop_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standby_actors.door.LATE", 0.05)
    free = threading.Event()

    def hold(message: Any) -> bool:
        return free.wait(30)

    with (
        pytest.raises(TimeoutError, match="a handler holds its loop"),
        Host(shutdown=0.05, grace=0) as host,
    ):
        door_of(host).tell(host.spawn(hold), 1)
    free.set()
    wait_for_end(host)


def test_debug_mode_refuses_refs_outside_the_loop() -> None:
    with Host(debug=True) as host:
        echo = host.spawn(Echo)
        with pytest.raises(WrongThread):
            echo.tell(1)
        assert host.ask(echo, 1) == 1


# ---- an asyncio program


@asynccontextmanager
async def thread_host() -> AsyncGenerator[AsyncFace]:
    async with AsyncioHost() as host:
        yield host


@asynccontextmanager
async def guest_host() -> AsyncGenerator[AsyncFace]:
    async with open_guest() as host:
        yield host


Opener = Callable[[], Any]
both = pytest.mark.parametrize(
    "opened", [pytest.param(thread_host, id="thread"), pytest.param(guest_host, id="guest")]
)


def in_asyncio(main: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(main(), 60)

    return asyncio.run(bounded())


@both
def test_asyncio_asks_tells_starts_and_runs(opened: Opener) -> None:
    async def main() -> None:
        async with opened() as host:
            counter = await host.start(Counter, 40)
            assert await host.ask(counter, Add(2)) == 42
            host.tell(counter, Add(1))
            await host.send(counter, Add(1))
            assert await host.ask(counter, Add(0), timeout=30) == 44
            echo = await host.spawn(AsyncEcho, name="echo")
            assert await asyncio.gather(*[host.ask(echo, each) for each in range(200)]) == [
                *range(200)
            ]
            assert await host.run(_async_ask, echo) == "from inside"
            assert "echo" in (await host.tree()).render()

    in_asyncio(main)


@both
def test_asyncio_goes_on_while_actors_wait(opened: Opener) -> None:
    async def main() -> None:
        go = trio.Event()

        async def waits(message: Any) -> Any:
            await go.wait()
            return message

        async with opened() as host:
            asked = asyncio.ensure_future(host.ask(await host.spawn(waits), "late"))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not asked.done()
            await host.run(_set, go)
            assert await asked == "late"

    in_asyncio(main)


async def _set(event: trio.Event) -> None:
    event.set()


@both
def test_cancelling_an_asyncio_task_withdraws_its_ask(opened: Opener) -> None:
    async def main() -> None:
        begun, cut = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        class Cut(Actor):
            cut_when_withdrawn = True

            async def receive(self, message: Any) -> None:
                loop.call_soon_threadsafe(begun.set)
                try:
                    await trio.sleep_forever()
                finally:
                    loop.call_soon_threadsafe(cut.set)

        async with opened() as host:
            ref = await host.spawn(Cut)

            async def ask() -> None:
                await host.ask(ref, 1)

            task = asyncio.create_task(ask())
            await begun.wait()
            task.cancel()
            await cut.wait()
            with pytest.raises(asyncio.CancelledError):
                await task

    in_asyncio(main)


def test_an_ask_that_is_cancelled_at_once_is_not_handled() -> None:
    async def main() -> None:
        got: list[int] = []

        async def keep(message: int) -> None:
            got.append(message)

        async with open_guest() as guest:
            ref = await guest.spawn(keep)
            assert door_of(guest).ask(ref, 1, None).cancel()
            await guest.ask(ref, 2)
        assert got == [2]

    in_asyncio(main)


@both
def test_leaving_an_asyncio_host_is_an_ordered_stop_also_when_cancelled(opened: Opener) -> None:
    LOG.clear()

    async def main() -> None:
        up = asyncio.Event()

        async def serve() -> None:
            async with opened() as host:
                await host.spawn(Stops, "a", shutdown=30)
                await host.spawn(Stops, "b", shutdown=30)
                up.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(serve())
        await up.wait()
        while not task.done():
            task.cancel()  # again and again: what has begun is finished
            await asyncio.wait({task}, timeout=0.001)
        with pytest.raises(asyncio.CancelledError):
            await task

    in_asyncio(main)
    assert LOG == ["b", "a"]


@both
def test_a_crash_is_raised_where_an_asyncio_host_is_left(opened: Opener) -> None:
    async def main() -> None:
        async with opened() as host:
            with pytest.raises(ActorCrashed):
                await host.ask(await host.spawn(Boom), "as it is")
            with pytest.raises(ActorStopped):
                await _spawn_for_ever(host)

    with pytest.raises(ExceptionGroup) as raised:
        in_asyncio(main)
    assert raised.group_contains(ValueError, match="as it is", depth=1)


@both
def test_an_error_of_the_body_of_an_asyncio_host_passes_as_it_is(opened: Opener) -> None:
    async def main() -> None:
        async with opened() as host:
            await host.spawn(Echo)
            raise KeyError(1)

    with pytest.raises(KeyError):
        in_asyncio(main)


@both
def test_a_host_that_has_been_left_refuses(opened: Opener) -> None:
    async def main() -> None:
        async with opened() as host:
            echo = await host.spawn(Echo)
        with pytest.raises(ActorStopped):
            host.tell(echo, 1)
        with pytest.raises(ActorStopped):
            await host.ask(echo, 1)

    in_asyncio(main)


def test_a_guest_is_used_from_asyncio_callbacks_directly() -> None:
    async def main() -> None:
        got: list[int] = []
        full = asyncio.Event()

        async def keep(message: int) -> None:
            await trio.lowlevel.checkpoint()
            got.append(message)
            if len(got) == 50:
                full.set()

        async with open_guest() as guest:
            ref = guest.nursery.spawn(keep)
            for number in range(50):
                asyncio.get_running_loop().call_soon(ref.tell, number)
            await full.wait()
            assert got == [*range(50)]
            reply = guest.nursery.spawn(Echo).ask(5)  # answered inline
            assert reply.done
            assert reply.result() == 5

    in_asyncio(main)


def test_a_loop_has_one_guest_after_another() -> None:
    async def main() -> None:
        for _ in range(3):
            async with open_guest() as guest:
                assert await guest.ask(await guest.start(AsyncEcho), 1) == 1

    in_asyncio(main)


def test_asyncio_tasks_and_a_guests_actors_may_wait_for_one_another() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        class Calls(Actor):
            async def receive(self, message: int) -> int:
                done = trio.Event()
                answer: list[int] = []

                async def in_asyncio_task() -> None:
                    await asyncio.sleep(0)
                    answer.append(2 * message)
                    done.set()

                task = loop.create_task(in_asyncio_task())
                await done.wait()
                del task
                return answer[0]

        async with open_guest() as guest:
            assert await guest.ask(await guest.spawn(Calls), 21) == 42

    in_asyncio(main)


# ---- a web application


async def _spawn_for_ever(host: AsyncFace) -> None:
    while True:
        await host.spawn(Echo)


def application(opened: Opener) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with opened() as host:
            app.state.host = host
            app.state.counter = await host.start(Counter)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/add/{n}")
    async def add(n: int) -> dict[str, int]:
        return {"total": await app.state.host.ask(app.state.counter, Add(n))}

    return app


@both
def test_the_handlers_of_a_web_application_ask_actors(opened: Opener) -> None:
    async def main() -> None:
        app = application(opened)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app=app), base_url="http://app"
            ) as client,
        ):
            answers = await asyncio.gather(*[client.post("/add/1") for _ in range(20)])
            assert sorted(each.json()["total"] for each in answers) == [*range(1, 21)]

    in_asyncio(main)


@pytest.mark.real
@both
def test_a_web_server_opens_and_leaves_the_host(opened: Opener) -> None:
    uvicorn = pytest.importorskip("uvicorn")

    async def main() -> None:
        config = uvicorn.Config(
            application(opened), host="127.0.0.1", port=0, log_level="error", lifespan="on"
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():  # it has no event for that
            await asyncio.wait({serving}, timeout=0.001)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.post("/add/2")).json() == {"total": 2}
            assert (await client.post("/add/40")).json() == {"total": 42}
        server.should_exit = True
        await serving

    in_asyncio(main)
