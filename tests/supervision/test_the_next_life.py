"""What belongs to a life that has ended does not reach the one that follows it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import Actor
from standby_supervision import Backoff, child, open_supervisor


class Waits(Actor):
    """Ends as it is told, and otherwise waits in its handler, or says which life it is in."""

    async def receive(self, message: Any) -> Any:
        match message:
            case "crash":
                raise ValueError(message)
            case "leave":
                self.stop()
            case "wait":
                await trio.sleep_forever()
            case _:
                pass
        return self.ref.incarnation


class Plain(Actor):
    """The same without a task of its own; what waits is a child of it."""

    def receive(self, message: Any) -> Any:
        match message:
            case "crash":
                raise ValueError(message)
            case "leave":
                self.stop()
            case "wait":
                self.spawn(Waits).tell("wait")
            case _:
                pass
        return self.ref.incarnation


class Starts(Waits):
    """The same with a start hook."""

    async def on_start(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("how", ["crash", "leave", "kill", "stop"])
@pytest.mark.parametrize("kind", [Waits, Plain, Starts])
@pytest.mark.parametrize("backoff", [None, Backoff(1.0, jitter=0.0)], ids=["at once", "later"])
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
async def test_no_deadline_of_the_end_of_a_life_is_left_to_the_next_one(
    how: str,
    kind: type[Actor],
    backoff: Backoff | None,
    is_busy: bool,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(kind, id="it", shutdown=2.0), backoff=backoff) as tree:
        ref = tree["it"]
        if how == "kill":
            ref.kill()
        elif how == "stop":
            ref.stop()
        else:
            ref.tell(how)
        await trio.sleep(1.5)
        assert ref.incarnation == 2
        if is_busy:
            ref.tell("wait")  # so that a kill that was meant for the first life would show
        await trio.sleep(60)
        assert ref.incarnation == 2
        assert ref.snapshot().state in ("idle", "waiting")
