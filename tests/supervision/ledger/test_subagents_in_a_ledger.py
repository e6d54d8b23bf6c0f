"""Real subagents in a ledger: exported, captured and closed, whoever ends them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import spawn
from standby_actors.agent import Agent
from standby_actors.result import Result
from standby_actors.session import Capabilities
from standby_actors.sessions.scripted import ScriptedSession
from standby_actors.subagent import Subagent, reset_ids
from standby_combinators import SubagentPool, fan_out
from standby_supervision.ledger import (
    SUBAGENT,
    Closed,
    LastTurn,
    NotClosed,
    RecordLost,
    SessionLedger,
    SessionSpec,
    TrackedSubagent,
)

from .sessions import Journal, Stage, echo, slow, stage

SCOUT = Agent("scout", echo)


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


def real(**options: Any) -> Stage:
    """A ledger over real subagents."""
    return stage(spawn=spawn, **options)


async def test_leaving_the_block_exports_captures_and_closes(tmp_path: Path) -> None:
    on = real()
    spec = SessionSpec(SCOUT, SUBAGENT, options={"export_dir": tmp_path})
    async with on.ledger.open(spec) as seat:
        assert (await seat.ask("look")).output == "look"
        assert isinstance(seat.subagent, Subagent)
    row = seat.row
    export = str(tmp_path / "scout-1.jsonl")
    assert row.captured is not None
    assert SUBAGENT.read(row.captured) == LastTurn("ok", None, "look", export, 1)
    assert isinstance(row.cleanup, Closed)
    assert (row.cleanup.ack.session, row.cleanup.ack.export) == ("scout#1", export)
    assert "look" in await trio.Path(export).read_text()
    on.journal.check(on.ledger)


async def test_every_way_to_ask_is_a_dispatch() -> None:
    on = real()
    async with on.ledger.spawn(SCOUT) as player:
        assert isinstance(player, TrackedSubagent)
        await player.ask("a")
        async with player.stream("b") as stream:
            assert [event async for event in stream]
        assert stream.result.ok
        assert on.ledger.rows.ordered()[0].dispatches == 2
    assert on.ledger.rows.ordered()[0].status == "ok"
    on.journal.check(on.ledger)


async def test_closing_the_subagent_inside_is_the_same_as_leaving() -> None:
    on = real()
    async with on.ledger.spawn(SCOUT) as player:
        assert isinstance(player, TrackedSubagent)
        assert (await player.close()).closed
        assert str(on.ledger.rows.ordered()[0].cleanup) == "closed=yes"
        assert (await player.ask("more")).status == "refused"
    assert on.journal.kinds.count("session.closed") == 1
    on.journal.check(on.ledger)


async def test_an_export_that_fails_is_not_closed_and_says_why(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    on = real()
    spec = SessionSpec(SCOUT, SUBAGENT)
    async with on.ledger.open(spec) as seat:
        await seat.ask("look")
        seat.subagent._mind.export_dir = blocked / "below"  # pyright: ignore[reportPrivateUsage]
    assert seat.row.cleanup == NotClosed("export failed")
    on.journal.check(on.ledger)


async def test_a_session_that_does_not_say_when_it_has_let_go_is_not_said_to_be_closed() -> None:
    class Mutes:
        @asynccontextmanager
        async def open(
            self, agent: Agent, /, memory: object = None
        ) -> AsyncGenerator[ScriptedSession]:
            yield ScriptedSession(["hello"], capabilities=Capabilities(close=False))

    on = real()
    spec = SessionSpec(Agent("mute", "Be quiet.", backend=Mutes()), SUBAGENT)
    async with on.ledger.open(spec) as seat:
        assert (await seat.ask("hi")).output == "hello"
    assert str(seat.row.cleanup) == "close-unavailable: inventory-only; no close operation"
    assert on.ledger.rows.targets == {"backend Mutes": "inventory-only"}
    on.journal.check(on.ledger)


async def test_a_crash_of_the_body_settles_all_and_is_raised_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    on = real(slots=3)
    results: list[Result] = []

    async def ask(seat: Any) -> None:
        results.append(await seat.ask("a"))

    async with trio.open_nursery() as nursery:

        async def crash() -> None:
            async with on.ledger.open(SessionSpec(Agent("slow", slow), SUBAGENT)) as seat:
                nursery.start_soon(ask, seat)
                await trio.sleep(1)
                raise KeyError

        with pytest.raises(KeyError):
            await crash()
    row = on.ledger.rows.ordered()[0]
    assert [result.status for result in results] == ["stopped"]
    assert str(row.cleanup) == "closed=yes"
    assert on.ledger.slots.holders() == ()
    on.journal.check(on.ledger)


@pytest.mark.parametrize("lifetime", ["task", "workflow", "session"])
async def test_teams_of_real_subagents_go_through_the_gate(
    lifetime: Any, autojump_clock: trio.testing.MockClock
) -> None:
    # Those that outlive their turn keep their slot until the team is over.
    on = real(slots=4 if lifetime == "task" else None)
    report = await fan_out(
        echo, [str(n) for n in range(20)], lifetime=lifetime, spawn=on.ledger.spawn
    )
    assert [step.output for step in report.steps] == [str(n) for n in range(20)]
    assert {str(row.cleanup) for row in on.ledger.rows.ordered()} == {"closed=yes"}
    on.journal.check(on.ledger)


async def test_cut_at_every_step_each_session_has_one_end_and_no_slot_is_lost() -> None:
    """Cancelled before the n-th step of the scheduler, for every n until it gets through."""

    class Cut(trio.abc.Instrument):
        def __init__(self, at: int, scope: trio.CancelScope) -> None:
            self.left, self.scope = at, scope

        def before_task_step(self, task: object) -> None:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()

    cuts = 0
    while True:
        cuts += 1
        on = real(slots=2)
        with trio.CancelScope() as scope:
            cut = Cut(cuts, scope)
            trio.lowlevel.add_instrument(cut)
            try:
                async with (
                    SubagentPool(spawn=on.ledger.spawn, lifetime="workflow") as pool,
                    on.ledger.open(SessionSpec(SCOUT, SUBAGENT)) as seat,
                ):
                    await seat.ask("a")
                    await seat.complete()
                    await pool.turn(SCOUT, "b")
                    await pool.turn(SCOUT, "c")
            finally:
                trio.lowlevel.remove_instrument(cut)
        assert on.ledger.slots.holders() == ()
        on.journal.check(on.ledger)
        for row in on.ledger.rows.ordered():
            assert row.is_over
            assert str(row.cleanup) in ("closed=yes", "closed=no") or row.unspawned
        if cut.left > 0:
            break
    assert cuts > 40


async def test_a_ledger_without_a_record_folds_in_memory() -> None:
    ledger = SessionLedger()
    async with ledger.spawn(SCOUT) as player:
        await player.ask("a")
    assert [str(row.cleanup) for row in ledger.rows.ordered()] == ["closed=yes"]
    assert ledger.render() == (
        "d19_1  subagent  no scope  agent_id=scout#1  completed  captured  closed=yes"
    )


async def test_a_record_that_fails_ends_the_turn_and_the_session_is_closed_all_the_same() -> None:
    journal = Journal()
    left = 5

    async def record(fact: Any) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise OSError("no space left")
        await journal.record(fact)

    ledger = SessionLedger(record, spawn=spawn)
    players: list[Any] = []

    async def play() -> None:
        async with ledger.open(SessionSpec(SCOUT, SUBAGENT)) as seat:
            players.append(seat.player)
            await seat.ask("a")

    with pytest.raises(OSError, match="no space left"):
        await play()
    assert [player.ref.is_alive for player in players] == [False]
    assert ledger.slots.holders() == ()
    with pytest.raises(RecordLost, match="go on with a new ledger, made of the facts"):
        await ledger.reserve(SessionSpec(SCOUT, SUBAGENT))
    again = SessionLedger(facts=journal.facts, spawn=spawn)
    assert await again.recover() == ("d19_1",)
