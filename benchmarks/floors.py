"""Raw trio doing the same work: the floors that our figures are divided by."""

from __future__ import annotations

import math

import outcome
import trio

from .watch import Watch

BURST = 500
"""Messages sent between two checkpoints by whoever tells, here and in `workloads`."""


async def channel(messages: int, watch: Watch) -> None:
    """Send numbers through a memory channel, in bursts, to a task that adds them up."""
    total = 0
    send, receive = trio.open_memory_channel[int](math.inf)

    async def add_up() -> None:
        nonlocal total
        async for number in receive:
            total += number
        done.set()

    done = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(add_up)
        await trio.lowlevel.checkpoint()
        with watch:
            for start in range(0, messages, BURST):
                for number in range(start, start + BURST):
                    send.send_nowait(number)
                await trio.lowlevel.checkpoint()
            send.close()
            await done.wait()
    assert total == messages * (messages - 1) // 2


async def hand_off(switches: int, watch: Watch) -> None:
    """Two tasks wake each other in turn, with nothing else between them."""
    waiting: list[trio.lowlevel.Task] = []
    done = 0

    def give_up(_: object) -> trio.lowlevel.Abort:
        return trio.lowlevel.Abort.SUCCEEDED

    async def player(turns: int) -> None:
        nonlocal done
        for _ in range(turns):
            if waiting:
                trio.lowlevel.reschedule(waiting.pop(), outcome.Value(None))
            waiting.append(trio.lowlevel.current_task())
            await trio.lowlevel.wait_task_rescheduled(give_up)
            done += 1
        if waiting:
            trio.lowlevel.reschedule(waiting.pop(), outcome.Value(None))

    with watch:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(player, switches // 2)
            nursery.start_soon(player, switches // 2)
    assert done == switches // 2 * 2


async def start_soon(tasks: int, watch: Watch) -> None:
    """Start tasks that do nothing, and wait for their end."""
    ran = 0

    async def no_op() -> None:
        nonlocal ran
        ran += 1

    with watch:
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(no_op)
    assert ran == tasks


async def waiting_task(tasks: int, watch: Watch) -> None:
    """Start tasks that wait once and hand in a result."""
    total = 0
    send, receive = trio.open_memory_channel[int](math.inf)

    async def turn(number: int) -> None:
        await trio.lowlevel.checkpoint()
        send.send_nowait(number + 1)

    async def collect() -> None:
        nonlocal total
        for _ in range(tasks):
            total += await receive.receive()

    with watch:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect)
            for number in range(tasks):
                nursery.start_soon(turn, number)
                if number % 1000 == 999:
                    await trio.lowlevel.checkpoint()
    assert total == tasks * (tasks + 1) // 2


async def waiting_task_list(tasks: int, watch: Watch) -> None:
    """Start tasks that wait once and append a result to a list."""
    results: list[int] = []

    async def turn(number: int) -> None:
        await trio.lowlevel.checkpoint()
        results.append(number + 1)

    with watch:
        async with trio.open_nursery() as nursery:
            for number in range(tasks):
                nursery.start_soon(turn, number)
                if number % 1000 == 999:
                    await trio.lowlevel.checkpoint()
    assert sum(results) == tasks * (tasks + 1) // 2


async def crash_and_reopen(crashes: int, watch: Watch) -> None:
    """A nursery whose one task crashes, caught where it was opened, which opens it anew."""
    started = caught = 0

    async def crash() -> None:
        nonlocal started
        started += 1
        raise ValueError(started)

    with watch:
        for _ in range(crashes):
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(crash)
            except ExceptionGroup:
                caught += 1
    assert started == caught == crashes
