"""Refs and other threads; who holds the loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import (
    Actor,
    AskCycle,
    Host,
    Ref,
    WrongThread,
    open_events,
    open_nursery,
    watch_loop,
)
from tests.actors.workers import AsyncEcho, Do, Echo, tasks
from tests.support.inside import needs_private_read


class Threads(Actor):
    """Keeps each message, with whether its own thread handled it."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.got: list[Any] = []

    def receive(self, message: Any) -> Any:
        """Keep it."""
        self.got.append((message, threading.get_ident() == self.thread))
        return message


async def test_a_thread_of_trio_tells_and_asks() -> None:
    async def ask(ref: Ref[Any]) -> Any:
        return await ref.ask("last")

    async with open_nursery() as nursery:
        actor = nursery.spawn(Threads)

        def work() -> Any:
            for number in range(100):
                trio.from_thread.run_sync(actor.tell, number)
            return trio.from_thread.run(ask, actor)

        assert await trio.to_thread.run_sync(work) == "last"
        state = await actor.get_state()
        assert state["got"] == [*((number, True) for number in range(100)), ("last", True)]


async def test_any_thread_tells_by_a_token() -> None:
    async with open_nursery() as nursery:
        actor = nursery.spawn(Threads)
        token = trio.lowlevel.current_trio_token()

        def work() -> None:
            for number in range(1000):
                token.run_sync_soon(actor.tell, number)

        thread = threading.Thread(target=work)
        thread.start()
        await trio.to_thread.run_sync(thread.join)
        got = (await actor.get_state())["got"]
        while len(got) < 1000:
            await trio.lowlevel.checkpoint()
        assert got == [(number, True) for number in range(1000)]


@pytest.mark.parametrize(
    "use",
    ["tell", "ask", "stop", "kill", "get_state", "suspend", "resume", "trace", "ended"],
)
async def test_debug_mode_refuses_a_ref_in_another_thread(use: str) -> None:
    async with open_nursery(debug=True) as nursery:
        actor = nursery.spawn(Echo)
        arguments = (1,) if use in ("tell", "ask", "trace") else ()
        with pytest.raises(WrongThread, match="nursery/Echo"):
            await trio.to_thread.run_sync(getattr(actor, use), *arguments)
        assert await actor.ask(2) == 2


async def test_debug_mode_is_no_hindrance_in_the_right_thread() -> None:
    async with open_nursery(debug=True) as nursery:
        actor = nursery.spawn(AsyncEcho, name="echo")
        actor.tell(1)
        await actor.send(2)
        assert await actor.ask(3) == 3
        actor.suspend()
        actor.resume()
        actor.trace(None)
        assert await nursery.spawn(Do, actor).ask(_asks_its_peer) == "through"
        await actor.stop()
        await actor.join()


async def _asks_its_peer(actor: Do, peer: Ref[Any]) -> Any:
    child = actor.spawn(Echo)
    assert type(child) is type(peer)
    return await peer.ask("through")


async def test_the_environment_can_ask_for_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDBY_DEBUG", "1")
    async with open_nursery() as nursery:
        actor = nursery.spawn(Echo)
        with pytest.raises(WrongThread):
            await trio.to_thread.run_sync(actor.tell, 1)
    async with open_nursery(debug=False) as nursery:
        assert type(nursery.spawn(Echo)) is not type(actor)


# ---- two loops at a time


class Asks(Actor):
    """Asks a peer, after the actors of another loop have had a turn meanwhile."""

    def __init__(self, elsewhere: Callable[[], object], peer: Ref[Any] | None = None) -> None:
        self.elsewhere = elsewhere
        self.peer = peer

    async def receive(self, message: Ref[Any] | None) -> Any:
        """Ask its peer, or who asks."""
        self.elsewhere()
        peer = self.peer or message
        assert peer is not None
        return await peer.ask(self.ref)


@pytest.mark.real
def test_a_cycle_is_found_where_another_thread_runs_actors_too() -> None:
    async def main(elsewhere: Callable[[], object]) -> None:
        with trio.fail_after(30):
            async with open_nursery() as nursery:
                await nursery.spawn(Asks, elsewhere, nursery.spawn(Asks, elsewhere)).ask(None)

    with Host() as host:
        other = host.spawn(AsyncEcho)
        with pytest.raises(BaseExceptionGroup) as raised:
            trio.run(main, lambda: host.ask(other, 1))
    assert raised.group_contains(AskCycle, depth=1)


@pytest.mark.real
@needs_private_read
def test_an_answer_needs_no_task_where_another_thread_runs_actors_too() -> None:
    async def main(elsewhere: Callable[[], object]) -> None:
        async with open_nursery() as nursery:
            asker = nursery.spawn(Asks, elsewhere, nursery.spawn(AsyncEcho))
            before = tasks()
            waiting = [asker.ask(None), asker.ask(None)]
            for reply in waiting:
                assert await reply is asker
            assert tasks() == before + 1  # the pump

    with Host() as host:
        other = host.spawn(AsyncEcho)
        trio.run(main, lambda: host.ask(other, 1))


# ---- who holds the loop


class Holds(Actor):
    """Holds the loop until it is reported."""

    def __init__(self, reported: threading.Event) -> None:
        self.reported = reported

    def receive(self, message: Any) -> bool:
        """Wait, as no handler may."""
        return self.reported.wait(30)


class HoldsLater(Holds):
    """The same, on a worker of its own."""

    async def receive(self, message: Any) -> bool:  # type: ignore[override]
        """Wait, as no handler may."""
        await trio.lowlevel.checkpoint()
        return super().receive(message)


class Heard(logging.Handler):
    """Sets an event at the first warning."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__(logging.WARNING)
        self.event = event
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.text = record.getMessage()
        self.event.set()


@pytest.mark.real
@pytest.mark.parametrize("kind", [Holds, HoldsLater])
@pytest.mark.parametrize("how", ["ask", "tell"])
async def test_a_handler_that_holds_the_loop_is_reported_while_it_does(
    kind: type[Holds], how: str
) -> None:
    reported = threading.Event()
    heard = Heard(reported)
    logger = logging.getLogger("standby")
    logger.addHandler(heard)
    try:
        async with (
            open_events() as events,
            watch_loop(0.02),
            open_nursery(name="work") as nursery,
        ):
            holder = nursery.spawn(kind, reported, name="holder")
            if how == "ask":
                assert await holder.ask(1)
            else:
                holder.tell(1)
                await trio.testing.wait_all_tasks_blocked()
            assert "work/holder holds the loop" in heard.text
            assert "self.reported.wait(30)" in heard.text
            async for event in events:
                if event.type == "loop.held":
                    assert event.actor == "work/holder"
                    assert event.data["seconds"] >= 0.02
                    assert "reported.wait" in event.data["stack"]
                    break
    finally:
        logger.removeHandler(heard)
    assert "standby watch" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.real
async def test_a_task_that_is_no_actor_is_reported_by_its_name() -> None:
    reported = threading.Event()
    heard = Heard(reported)
    logger = logging.getLogger("standby")
    logger.addHandler(heard)

    async def hold() -> None:
        assert reported.wait(30)

    try:
        async with watch_loop(0.02), trio.open_nursery() as tasks:
            tasks.start_soon(hold)
    finally:
        logger.removeHandler(heard)
    assert "hold holds the loop" in heard.text


@pytest.mark.real
async def test_a_loop_that_nobody_holds_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with watch_loop(5.0), open_nursery() as nursery:
        echo = nursery.spawn(AsyncEcho)
        for number in range(100):
            assert await echo.ask(number) == number
    assert caplog.records == []
