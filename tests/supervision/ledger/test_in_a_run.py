"""A ledger that is recorded in the journal of a run is found there by the next process."""

from __future__ import annotations

from pathlib import Path

import trio.testing

from standby_actors import Agent, spawn
from standby_combinators import fan_out
from standby_supervision.ledger import (
    LEDGER_KINDS,
    SUBAGENT,
    Fact,
    NotClosed,
    SessionLedger,
    SessionSpec,
    decode_fact,
)
from standby_supervision.runs import open_workspace
from standby_supervision.store import Store, open_store

from .sessions import echo


async def kept(store: Store, run: str) -> list[Fact]:
    return [
        decode_fact(event.data) for event in await store.read(run) if event.kind in LEDGER_KINDS
    ]


async def test_the_rows_of_a_run_are_those_of_its_journal(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_store(None, inline=True) as store:
        async with (
            open_workspace(tmp_path, store) as workspace,
            workspace.open_run("nightly", id="nightly-1") as run,
        ):
            ledger = SessionLedger(run.record, spawn=spawn, slots=2)
            report = await fan_out(echo, list("abcdef"), spawn=ledger.spawn)
            assert all(step.ok for step in report.steps)
            async with ledger.open(SessionSpec(Agent("scout", echo), SUBAGENT)) as seat:
                await seat.ask("a")
                half = await kept(store, run.id)
        again = SessionLedger(facts=await kept(store, "nightly-1"))
        assert again.rows == ledger.rows
        assert await again.recover() == ()
        # Of a process that was killed in the midst of it.
        killed = SessionLedger(facts=half)
        assert await killed.recover() == ("d19_7",)
        assert killed.rows.ordered()[6].cleanup == NotClosed("owner gone")
