"""An actor that sleeps, or crashes, in one hook of its life."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from standby_actors import Actor, Down, ExitReason, Ref
from tests.actors.workers import LOG, Echo

PHASES = ["on_start", "on_continue", "receive", "on_receive_timeout", "on_down", "on_stop"]
"""The hooks, and the handler."""


class Phases(Actor):
    """Sleeps for a minute, or raises `error`, in the phase that it is told at its start."""

    shutdown = 90.0
    start_timeout = 90.0

    def __init__(self, phase: str, error: Exception | None = None) -> None:
        self.phase = phase
        self.error = error

    async def _in(self, phase: str) -> None:
        try:
            if phase == self.phase:
                if self.error is not None:
                    raise self.error
                await trio.sleep(60)
        except BaseException as error:
            LOG.append((phase, type(error).__name__))
            raise

    async def on_start(self) -> None:
        """Arrange for the phase to come."""
        await self._in("on_start")
        if self.phase == "on_continue":
            self.continue_with(None)
        if self.phase == "on_receive_timeout":
            self.set_receive_timeout(1)
        if self.phase == "on_down":
            self.monitor(self.spawn(Echo)).ref.kill()

    async def receive(self, message: Any) -> Any:
        """Answer with the message."""
        await self._in("receive")
        return message

    async def on_continue(self, what: Any) -> None:
        """Asked for by the start hook."""
        await self._in("on_continue")

    async def on_receive_timeout(self) -> None:
        """Set by the start hook."""
        await self._in("on_receive_timeout")

    async def on_down(self, down: Down) -> None:
        """Of a child that the start hook has spawned and killed."""
        await self._in("on_down")

    async def on_stop(self, reason: ExitReason) -> None:
        """The last hook."""
        await self._in("on_stop")


async def enter(actor: Ref[Any], phase: str) -> None:
    """Bring a new actor into `phase`."""
    if phase == "receive":
        actor.tell("x")
    await trio.sleep(2)
    if phase == "on_stop":
        actor.stop()
    await trio.testing.wait_all_tasks_blocked()
