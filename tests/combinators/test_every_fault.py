"""Each combinator under each fault: composed, failing, called off, and with every lifetime.

A row is one combinator; each play of it draws from its seed who plays, which faults
strike, and what else happens.  A failure names its seed, and ``play(row, seed)`` is
the same play again.
"""

from __future__ import annotations

import contextlib
import inspect
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import standby_combinators
from standby_actors.result import Result
from standby_actors.subagent import reset_ids
from standby_combinators import (
    Chain,
    FanOut,
    Loop,
    Race,
    Report,
    Retry,
    Signal,
    Stage,
    SubagentPool,
    Team,
    stop_switch,
)
from tests.support.schedule import seeded

from .faults import CASTS, FAULTS, Cast, Drawn
from .teams import CALLS, ELSEWHERE, NO_WAIT, SCOUT, TEAMS, VARIANTS, leaves

GROUPS = ("composition", "failure", "cancellation", "lifetime")
ROWS: dict[str, Any] = {**TEAMS, **VARIANTS, **CALLS}
SEEDS = 48
"""Plays of each row in the short run: at least one for each cast, group and number of faults."""
DEEP = 1_000
LONG_ENOUGH = 60.0
"""Seconds after which everything is called off: so that a turn that hangs ends."""
HOLDERS = ("swarm", "interview")
"""Who holds members whatever the lifetime, which may have more than one turn then."""

NESTS: list[Callable[[Team[Any]], Team[Any]]] = [
    lambda team: Chain([team, SCOUT]),
    lambda team: FanOut([team, SCOUT], concurrency=2),
    lambda team: FanOut([SCOUT, team], fail_fast=True),
    lambda team: Race([SCOUT, team]),
    lambda team: Loop([team], max_iterations=2),
    lambda team: Retry(team, attempts=2, backoff=NO_WAIT),
]


@attrs.define
class Play:
    """One play, and what came of it."""

    group: str
    cast: Cast
    drawn: Drawn
    off_at: float
    """When it was called off, if it was not over by then."""
    how: str = ""
    """How it was called off."""
    report: Result | None = None
    pool: SubagentPool | None = None
    lifetime: Any = None


def play(row: str, seed: int) -> Play:
    """Play `row` once, as `seed` has it, on a clock and in an order of its own; and check it."""
    source = random.Random(f"{row} {seed}")
    group = GROUPS[seed % len(GROUPS)]
    kinds = tuple(source.sample(FAULTS, 1 + seed // 8 % 3))
    drawn = Drawn(source, kinds, source.choice([0.2, 0.5, 0.9]))
    cast = list(CASTS.values())[seed // 4 % 2](drawn)
    made = Play(group, cast, drawn, LONG_ENOUGH, "signal")
    if group == "cancellation":
        made.off_at = source.random() * 8
        made.how = source.choice(["signal", "cancel", "one", "all"])
    made.lifetime = source.choice(["task", "workflow", None]) if group == "lifetime" else None
    reset_ids()
    with seeded(seed):
        trio.run(_on_trio, row, made, clock=trio.testing.MockClock(autojump_threshold=0))
    return made


async def _on_trio(row: str, made: Play) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    switch = stop_switch(Signal())
    options = {**made.cast.options(), "lifetime": made.lifetime, "switch": switch}
    cut = trio.CancelScope()

    async def call_off() -> None:
        await trio.sleep(made.off_at)
        if made.how == "cancel":
            cut.cancel()
        elif made.how == "all":
            await switch.all("enough")
        elif made.how == "one":
            if switch.ids:
                await switch.one(made.drawn.source.choice(switch.ids))
            await trio.sleep(LONG_ENOUGH)
        # At the latest now, so that what hangs ends.
        switch.signal.set("that is all")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call_off)
        with cut:
            made.report = await _played(row, made, options)
        ended_at = trio.current_time()
        nursery.cancel_scope.cancel()
    check(row, made, ended_at)
    assert trio.lowlevel.current_statistics().tasks_living == before


async def _played(row: str, made: Play, options: dict[str, Any]) -> Result:
    what = ROWS[row]
    if row in CALLS:
        said: Result = await what(**options)
        return said
    team: Team[Any] = what()
    if made.group == "composition":
        team = made.drawn.source.choice(NESTS)(team)
    async with SubagentPool(**options) as made.pool:
        report: Report = await team.play("begin", Stage(made.pool))
    return report


def check(row: str, made: Play, ended_at: float) -> None:
    """What holds after every play, whatever was wrong with its members."""
    cast, report, billed = made.cast, made.report, made.cast.billed()
    assert cast.not_closed() == 0, "all that was opened is closed, once"
    assert report is not None or made.how == "cancel", "only a cancellation has no Report"
    if report is not None:
        assert isinstance(report, Report) or row == "run"
        assert (report.error is None) == report.ok
        played = report.usage
        assert played.turns == billed.turns, "the Report has every turn"
        assert played.output_tokens == billed.output_tokens, "it adds up to what was billed"
    if made.pool is not None:
        usage = made.pool.trail.usage()
        assert (usage.turns, usage.output_tokens) == (billed.turns, billed.output_tokens)
        if report is not None:
            turns = sorted(map(id, leaves(report)))
            assert turns == sorted(map(id, made.pool.trail.steps)), "the trail is complete"
    if made.how != "one":
        assert all(at <= made.off_at for at in cast.opened_at), "nothing is spawned afterwards"
        # What is deaf goes on for three seconds; then half a second for each close in turn.
        assert ended_at <= made.off_at + 6, "called off, it is soon over"
    if made.lifetime == "task" and not row.startswith(HOLDERS):
        assert cast.most_turns() <= 1, "a subagent has one task"


def play_all(row: str, seeds: range) -> Counter[str]:
    """Play them, and count what has struck."""
    struck: Counter[str] = Counter()
    for seed in seeds:
        try:
            struck += play(row, seed).drawn.struck
        except BaseException as error:
            error.add_note(f"seed {seed} of {row!r}: play({row!r}, {seed}) plays it again")
            raise
    return struck


@pytest.mark.parametrize("row", ROWS)
def test_no_fault_leaves_anything_or_loses_a_turn(row: str) -> None:
    struck = play_all(row, range(SEEDS))
    assert set(FAULTS) <= set(struck), "a fault that never struck has proved nothing"


@pytest.mark.deep
@pytest.mark.parametrize("row", ROWS)
def test_no_fault_of_a_thousand_seeds_leaves_anything_or_loses_a_turn(row: str) -> None:
    first = random.SystemRandom().randrange(1_000_000) * DEEP
    print(f"{row}: seeds {first} to {first + DEEP - 1}")
    struck = play_all(row, range(first, first + DEEP))
    assert min(struck[fault] for fault in FAULTS) >= 20, struck


@pytest.mark.parametrize("seed", [5, 14, 23])
def test_a_seed_is_the_same_play_every_time(seed: int) -> None:
    def told() -> tuple[object, ...]:
        made = play("swarm with a board", seed)
        steps = () if made.pool is None else made.pool.trail.steps
        said = [(step.agent, step.subagent, step.status, step.output) for step in steps]
        return said, made.cast.opened_at, made.drawn.struck

    assert told() == told()


def test_every_combinator_has_a_row() -> None:
    public = {name: getattr(standby_combinators, name) for name in vars(standby_combinators)}
    teams = {
        name
        for name, each in public.items()
        if inspect.isclass(each) and issubclass(each, Team) and each is not Team
    }
    in_rows = {type(make()).__name__ for make in (TEAMS | VARIANTS).values()}
    assert teams - set(ELSEWHERE) == in_rows, (
        "a combinator without a row in tests/combinators/teams.py (or with a row and not public):"
        f" {sorted(teams - set(ELSEWHERE) ^ in_rows)}"
    )
    here = Path(__file__).parent
    for name, place in ELSEWHERE.items():
        assert name in (here / place).read_text(encoding="utf-8")
    functions = {
        name
        for name, each in public.items()
        if inspect.isfunction(inspect.unwrap(each)) and _takes_options(each)
    }
    rows = {name.removesuffix("()") for name in ROWS}
    assert functions - {"open_stage", *ELSEWHERE} <= rows, sorted(functions - rows)


def _takes_options(function: Any) -> bool:
    with contextlib.suppress(TypeError, ValueError):
        parameters = inspect.signature(function).parameters.values()
        return any(each.kind is each.VAR_KEYWORD and each.name == "options" for each in parameters)
    return False
