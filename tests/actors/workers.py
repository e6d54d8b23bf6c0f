"""Actors that the tests of the core are made of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

import trio

from standby_actors import Actor, ExitReason

LOG: list[Any] = []
"""What the actors of one test did, in order; emptied before each test."""


class Echo(Actor):
    """Answers a message with itself, at once."""

    def receive(self, message: Any) -> Any:
        return message


class AsyncEcho(Actor):
    """The same as a coroutine."""

    async def receive(self, message: Any) -> Any:
        return message


class Do(Actor):
    """Does what the message, a function of the actor and its peers, says."""

    shutdown = 0.3

    def __init__(self, *peers: Any) -> None:
        self.peers = peers

    async def receive(self, message: Callable[..., Any]) -> Any:
        return await message(self, *self.peers)


class Worker(Actor):
    """Does what the word says, and logs how that ended if it did not end well."""

    shutdown = 0.2

    def __init__(self, name: str = "x", peer: Any = None) -> None:
        self.name = name
        self.peer = peer

    async def receive(self, message: Any) -> Any:
        try:
            return await self._do(message)
        except BaseException as error:
            LOG.append((self.name, type(error).__name__))
            raise

    async def _do(self, message: Any) -> Any:
        if message == "sleep":
            await trio.sleep_forever()
        elif message == "ask":
            return await self.peer.ask("sleep")
        elif message == "short":
            await trio.sleep(0.05)
            return "ok"
        elif message == "shield":
            with trio.CancelScope(shield=True):
                await trio.sleep(0.15)
        elif message == "cleanup":
            try:
                await trio.sleep_forever()
            finally:
                with trio.move_on_after(0.1, shield=True):
                    await trio.sleep(0.05)
                    LOG.append((self.name, "cleaned"))
        elif message == "swallow":
            while True:
                with contextlib.suppress(trio.Cancelled):
                    await trio.sleep_forever()
        elif message == "hard shield":
            with trio.CancelScope(shield=True):
                await trio.sleep_forever()
        elif callable(message):
            return await cast("Callable[[Worker], Any]", message)(self)
        return message


class Stops(Actor):
    """Logs its name when its stop hook has run; told "spawn", has a child that does too."""

    shutdown = 0.2

    def __init__(self, name: str) -> None:
        self.name = name

    def receive(self, message: Any) -> Any:
        if message == "spawn":
            return self.spawn(Stops, self.name + ".child")
        return message

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep(0.01)
        LOG.append(self.name)


class Boom(Actor):
    """Crashes on every message."""

    def receive(self, message: Any) -> Any:
        raise ValueError(message)


def tasks() -> int:
    """Tasks of trio that are alive."""
    return trio.lowlevel.current_statistics().tasks_living
