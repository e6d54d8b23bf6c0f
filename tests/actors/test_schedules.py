"""A seed decides the order of everything, so that a failure can be run again."""

from __future__ import annotations

import trio
import trio.testing

from standby.testing import PumpSeam
from standby_actors import Actor, open_nursery
from tests.support.schedule import seeded


class Tracer(Actor):
    """Notes each of its turns; every other one waits in trio."""

    def __init__(self, number: int, trace: list[int]) -> None:
        self.number = number
        self.trace = trace

    async def receive(self, message: int) -> None:
        self.trace.append(self.number)
        if message % 2:
            await trio.lowlevel.checkpoint()
            self.trace.append(-self.number)


def trace_of(seed: int) -> tuple[int, ...]:
    trace: list[int] = []

    async def main() -> None:
        with PumpSeam(seed).installed():
            async with open_nursery() as nursery:
                for number in range(1, 6):
                    ref = nursery.spawn(Tracer, number, trace)
                    for message in range(3):
                        ref.tell(message)
                await trio.testing.wait_all_tasks_blocked()

    with seeded(seed):
        trio.run(main)
    return tuple(trace)


def test_one_seed_gives_one_trace() -> None:
    for seed in range(20):
        assert trace_of(seed) == trace_of(seed)


def test_two_thousand_seeds_give_at_least_five_hundred_traces() -> None:
    traces = {trace_of(seed) for seed in range(2_000)}
    assert len(traces) >= 500
    assert {tuple(sorted(trace)) for trace in traces} == {tuple(sorted(trace_of(0)))}
