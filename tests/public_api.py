"""What type checkers make of our users' code.

Nothing here runs: mypy and basedpyright read it, here and against the wheel.
"""

from __future__ import annotations

from typing import Any, assert_never, assert_type

import msgspec

import standby
from standby import (
    Actor,
    Crashed,
    ExitReason,
    Killed,
    Linked,
    NoProcess,
    Normal,
    Nursery,
    Ref,
    Request,
    Shutdown,
    Snapshot,
    Stuck,
)


class Add(Request[int], frozen=True):
    n: int


class Name(Request[str], frozen=True):
    pass


class Reset(msgspec.Struct, frozen=True):
    pass


class Counter(Actor):
    def __init__(self, start: int = 0) -> None:
        self.total = start

    def receive(self, message: Add) -> int:
        self.total += message.n
        return self.total


class Desk(Actor):
    async def receive(self, message: Add | Name | Reset) -> int | str | None:
        match message:
            case Add(n):
                return n
            case Name():
                return "desk"
            case Reset():
                return None
            case _:
                assert_never(message)


class Children(Actor):
    """Spawns in its hooks what its owner will not see."""

    def on_start(self) -> None:
        self.counter: Ref[Add] = self.spawn(Counter, 1)

    async def receive(self, message: Add) -> int:
        return await self.counter.ask(message)


def double(message: int) -> int:
    return 2 * message


async def shout(message: str) -> str:
    return message.upper()


async def a_ref_takes_what_receive_takes(nursery: Nursery) -> None:
    assert_type(nursery.spawn(Counter, 40), Ref[Add])
    assert_type(nursery.spawn(Counter, 40).pin(), Ref[Add])
    assert_type(nursery.spawn(Counter, name="counter", capacity=10), Ref[Add])
    assert_type(nursery.spawn(Desk), Ref[Add | Name | Reset])
    assert_type(nursery.spawn(double), Ref[int])
    assert_type(nursery.spawn(shout, name="shout"), Ref[str])
    assert_type(await nursery.start(Counter, 40), Ref[Add])
    assert_type(await nursery.start(shout), Ref[str])
    assert_type(nursery.whereis("counter"), Ref[Any] | None)


async def an_ask_has_the_type_that_its_message_says(desk: Ref[Add | Name | Reset]) -> None:
    assert_type(await desk.ask(Add(1)), int)
    assert_type(await desk.ask(Name(), timeout=1.0), str)
    assert_type(await desk.ask(Reset()), Any)


async def an_ask_may_be_awaited_later(counter: Ref[Add]) -> None:
    first, second = counter.ask(Add(1)), counter.ask(Add(2))
    assert_type(await second, int)
    assert_type(await first, int)


async def a_wrong_message_is_an_error(counter: Ref[Add], nursery: Nursery) -> None:
    # Each of these would be reported as unused if the checker let the call pass.
    counter.tell("five")  # type: ignore[arg-type]
    await counter.send(Reset())  # type: ignore[arg-type]
    nursery.spawn(Counter, "forty")  # type: ignore[arg-type]


def a_ref_of_more_stands_for_a_ref_of_less(desk: Ref[Add | Name | Reset]) -> Ref[Add]:
    return desk


async def how_an_actor_ended_is_a_closed_set(counter: Ref[Add]) -> str:
    reason = await counter.join()
    assert_type(reason, ExitReason)
    match reason:
        case Normal():
            return "done"
        case Shutdown(detail) | Killed(detail):
            return detail
        case Crashed(error):
            return repr(error)
        case Linked(path, _):
            return path
        case NoProcess():
            return "never there"
        case _:
            assert_never(reason)


async def a_stop_says_how_it_went(counter: Ref[Add]) -> None:
    assert_type(await counter.stop(), ExitReason | Stuck)


async def a_block_is_typed(nursery: Nursery) -> None:
    assert_type(nursery.tree(), Snapshot)
    assert_type(nursery.tree().render(), str)
    async with standby.open_nursery(name="inner", shutdown=1.0) as inner:
        assert_type(inner, Nursery)
