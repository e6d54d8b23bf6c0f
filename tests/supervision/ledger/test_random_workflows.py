"""Whatever a workflow does, its ledger is what its record comes to, and claims what was seen."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent
from standby_actors.mind import Closed as SubagentClosed
from standby_actors.result import failed
from standby_supervision.ledger import (
    SUBAGENT,
    Closed,
    LastTurn,
    NotClosed,
    Scope,
    Seat,
    SessionLedger,
    SessionSpec,
    SpawnBlocked,
    WindowOpen,
    fold,
)
from standby_supervision.ledger.roles import IMPLEMENTER, Implementation

from .sessions import Backend, Session, Stage, stage


class Workflow:
    """Draws what it does next from a seed: several tasks, each with seats in seats."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.confirmed: set[str] = set()
        self.captured: set[str] = set()
        most = self.chance.choice([2, 3, float("inf")])
        slots = self.chance.choice([None, 1, 2, (2, 1)])
        backend = Backend(
            most=most,
            closing=self.closing,
            can_close=self.chance.random() < 0.8,
            has_ids=self.chance.random() < 0.9,
        )
        self.on: Stage = stage(
            backend,
            slots=slots,
            operator_seconds=self.chance.choice([0.0, 3.0]),
            on_deadline=self.chance.choice(["escalate", "retry"]),
            longest=self.chance.choice([0.0, 5.0, float("inf")]),
        )
        self.turn = Agent("coder", self.answer)

    async def answer(self, task: str) -> Any:
        await trio.sleep(self.chance.choice([0, 0, 1, 3]))
        if self.chance.random() < 0.2:
            return failed("coder", self.chance.choice(["provider", "stopped", "timeout"]), "no")
        if self.chance.random() < 0.1:
            raise ValueError("a bug of the mind")
        return "done"

    async def closing(self, session: Session) -> SubagentClosed:
        await trio.sleep(self.chance.choice([0, 1, 100]))
        if self.chance.random() < 0.2:
            return SubagentClosed(False, "close failed: hm")
        self.confirmed.add(session.id)
        return SubagentClosed(True)

    async def play(self, above: Seat[Any] | None, left: int) -> None:
        role: Any = self.chance.choice([IMPLEMENTER, SUBAGENT])
        spec = SessionSpec(self.turn, role, Scope(phase=f"p{left}"))
        try:
            async with self.on.ledger.open(spec, above=above) as seat:
                for _ in range(self.chance.randrange(6)):
                    await self.act(seat, left)
        except SpawnBlocked:
            pass

    async def act(self, seat: Seat[Any], left: int) -> None:
        state: Any = (
            Implementation("DONE", "done") if seat.ref.role is IMPLEMENTER else LastTurn("ok")
        )
        match self.chance.randrange(8):
            case 0 | 1 | 2:
                patience = self.chance.choice([0, 1, 100])
                with trio.move_on_after(patience), contextlib.suppress(ValueError):
                    await seat.ask("go")
            case 3 if not seat.row.is_over:
                receipt = await seat.capture(state)
                if self.chance.random() < 0.3:
                    await seat.supersede(receipt, "another one")
            case 4:
                await seat.complete()
            case 5 if not seat.row.is_over:
                receipt = await seat.capture(state)
                with contextlib.suppress(WindowOpen):
                    await seat.close(receipt)
            case 6 if left:
                with seat.window():
                    await self.play(seat, left - 1)
            case 7 if left:
                await self.play(None, left - 1)
            case _:
                await self.on.ledger.clean_up()

    async def run(self) -> None:
        with trio.move_on_after(self.chance.choice([2, 20, 10_000])):
            async with trio.open_nursery() as nursery:
                for _ in range(self.chance.randrange(1, 4)):
                    nursery.start_soon(self.play, None, 3)


@pytest.mark.parametrize("first", range(0, 300, 25))
async def test_every_workflow_leaves_honest_rows_that_its_record_gives_back(
    first: int, autojump_clock: trio.testing.MockClock
) -> None:
    for seed in range(first, first + 25):
        workflow = Workflow(seed)
        on = workflow.on
        try:
            await workflow.run()
            on.journal.check(on.ledger)
            assert on.ledger.slots.holders() == ()
            assert on.ledger.waiting == ()
            assert on.backend.open == {}
            for row in on.ledger.rows.ordered():
                assert row.is_over, row
                assert row.retries <= 1
                if isinstance(row.cleanup, Closed):
                    assert row.cleanup.ack.session in workflow.confirmed
                    assert row.captured is not None
                elif row.cleanup is not None and not isinstance(row.cleanup, NotClosed):
                    assert row.captured is not None
            for n in range(0, len(on.journal.lines), 7):
                # A process that dies at any moment leaves rows that another can settle.
                cut = on.journal.facts[:n]
                again = SessionLedger(facts=cut, spawn=on.backend.spawn)
                assert again.rows == fold(cut)
                await again.recover()
                assert all(row.is_over for row in again.rows.ordered())
        except BaseException:
            print(f"seed {seed}")
            raise
