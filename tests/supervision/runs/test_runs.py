"""What a run promises to a program that is played again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from standby import Agent, Limits, Result, fan_out
from standby_supervision.owner import this_process
from standby_supervision.runs import (
    DamagedRun,
    InDoubt,
    Quarantined,
    Run,
    RunOver,
    RunOwned,
    StepFailed,
    Workspace,
    WorkspaceDenied,
    current_step,
    open_workspace,
)
from standby_supervision.runs.facts import (
    CancelWanted,
    EffectBegan,
    RunInterrupted,
    RunOpened,
    StepId,
    event_of,
)
from standby_supervision.runs.steps import digest, name_of
from standby_supervision.store import Append, Create, NewEvent, Offer, Store, open_store

played: list[str] = []


@pytest.fixture(autouse=True)
def nothing_played() -> None:
    played.clear()


async def scout(task: str) -> str:
    played.append(task)
    await trio.sleep(1)
    return f"seen {task}"


async def moody(task: str) -> str:
    played.append(task)
    raise ValueError(f"not {task}")


@pytest.fixture
async def store() -> AsyncGenerator[Store]:
    async with open_store(None, inline=True) as opened:
        yield opened


@asynccontextmanager
async def run_of(store: Store, folder: Path, *, is_over: bool = True) -> AsyncGenerator[Run]:
    """The run "r", which is completed at the end, or else can be gone on with."""
    async with (
        open_workspace(folder, store) as workspace,
        workspace.open_run("nightly", id="r") as run,
    ):
        yield run
        if not is_over:
            run.cancel("not over")
            await trio.lowlevel.checkpoint()


async def test_a_turn_that_is_recorded_is_not_played_again(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    for expected in (3, 3):
        async with run_of(store, tmp_path, is_over=False) as run:
            report = await fan_out(scout, ["a", "b", "c"], spawn=run.spawn)
            assert [each.output for each in report.results] == ["seen a", "seen b", "seen c"]
        assert len(played) == expected


async def test_what_is_asked_twice_is_played_twice(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    for expected in (2, 2):
        async with run_of(store, tmp_path, is_over=False) as run:
            assert [(await run.turn(scout, "a")).output for _ in range(2)] == ["seen a"] * 2
        assert len(played) == expected


async def test_a_failed_turn_is_an_outcome_too(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    results: list[Result] = []
    for _ in range(2):
        async with run_of(store, tmp_path, is_over=False) as run:
            results.append(await run.turn(moody, "this"))
    assert played == ["this"]
    assert results[0].error is not None
    assert results[1].error is not None
    assert str(results[0].error) == str(results[1].error) == "crash: ValueError: not this"


async def test_a_turn_that_was_cut_is_played_again(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    with trio.move_on_after(0.5):
        async with run_of(store, tmp_path) as run:
            await run.turn(scout, "a")
    async with run_of(store, tmp_path) as run:
        assert run.state.open == {}
        assert (await run.turn(scout, "a")).ok
    assert played == ["a", "a"]


async def test_a_program_goes_on_after_the_last_answer(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    with trio.move_on_after(2.5):
        async with run_of(store, tmp_path) as run:
            for task in "abcde":
                await run.turn(scout, task)
    async with run_of(store, tmp_path) as run:
        for task in "abcde":
            await run.turn(scout, task)
        assert run.replayed == 2
    assert played == ["a", "b", "c", "c", "d", "e"]


async def test_another_prompt_is_another_agent(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    one, other = Agent("one", scout), Agent("other", scout)
    for agent in (one, one, other):
        async with run_of(store, tmp_path, is_over=False) as run:
            await run.turn(agent, "a")
    assert played == ["a", "a"]


async def test_a_conversation_goes_on_where_it_was(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    heard: list[tuple[str, ...]] = []

    async def talk(run: Run, tasks: str) -> None:
        async with run.spawn(scout, lifetime="workflow") as player:
            for task in tasks:
                assert (await player.ask(task)).output == f"seen {task}"
            if player.subagent is not None:
                heard.append(tuple(m.text for m in player.subagent.messages))

    async with run_of(store, tmp_path, is_over=False) as run:
        await talk(run, "ab")
    async with run_of(store, tmp_path) as run:
        await talk(run, "abc")
    assert played == ["a", "b", "c"]


async def test_an_effect_happens_once(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    keys: list[str] = []

    async def charge(amount: int) -> dict[str, int]:
        keys.append(current_step().key)
        return {"charged": amount}

    for _ in range(2):
        async with run_of(store, tmp_path, is_over=False) as run:
            assert await run.step("charge", charge, 7) == {"charged": 7}
    assert len(keys) == 1


async def test_a_step_that_raised_raises_the_same_later(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def fail() -> None:
        played.append("fail")
        raise OSError("no disk")

    for _ in range(2):
        with pytest.raises(StepFailed, match="step 'save' failed: OSError: no disk"):
            async with run_of(store, tmp_path) as run:
                await run.step("save", fail)
    assert played == ["fail"]


async def test_a_step_in_doubt_is_tried_once_more_under_its_key(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    seen: list[tuple[str, bool]] = []

    async def charge() -> str:
        now = current_step()
        seen.append((now.key, now.maybe_repeated))
        return "done"

    step = await _in_doubt(store, tmp_path, charge, attempts=1)
    async with run_of(store, tmp_path) as run:
        assert await run.step("charge", charge) == "done"
    assert seen == [(step.key, True)]


async def test_a_step_in_doubt_twice_waits_for_somebody_to_look(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def charge() -> str:
        return "done"

    await _in_doubt(store, tmp_path, charge, attempts=2)
    with pytest.raises(InDoubt, match=r"begun 2 times .* then `standby confirm r`"):
        async with run_of(store, tmp_path) as run:
            await run.step("charge", charge)
    async with open_workspace(tmp_path, store) as workspace:
        assert await workspace.confirm("r", by="me") == ("charge",)
    async with run_of(store, tmp_path) as run:
        assert await run.step("charge", charge) == "done"


async def test_what_must_not_be_repeated_is_not_tried_again(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def charge() -> str:
        return "done"

    await _in_doubt(store, tmp_path, charge, attempts=1)
    with pytest.raises(InDoubt, match="begun once"):
        async with run_of(store, tmp_path) as run:
            await run.step("charge", charge, repeat=False)


async def _in_doubt(
    store: Store, folder: Path, function: Callable[..., object], attempts: int
) -> StepId:
    """A run in which the step "charge" began, and a process was killed, so many times."""
    step = StepId(digest("step", "charge", name_of(function), []), 1)
    async with run_of(store, folder, is_over=False) as run:
        for attempt in range(attempts):
            await run.record(EffectBegan(step, "charge", attempt + 1))
    return step


async def test_a_completed_run_does_not_go_on(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with run_of(store, tmp_path) as run:
        run.output = "42 files"
    assert run.state.status == "completed"
    with pytest.raises(RunOver, match="is completed"):
        async with run_of(store, tmp_path):
            raise AssertionError


async def test_two_who_go_on_with_one_run_are_one_too_many(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with run_of(store, tmp_path):
        with pytest.raises(RunOwned, match="at work already: pid"):
            async with run_of(store, tmp_path):
                raise AssertionError


@pytest.mark.parametrize(
    ("end", "status"),
    [("leave", "completed"), ("raise", "failed"), ("cancel", "cancelled"), ("cut", "interrupted")],
)
async def test_how_a_run_ended_is_recorded(
    end: str, status: str, store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    with trio.CancelScope() as outside:
        try:
            async with run_of(store, tmp_path) as run:
                if end == "raise":
                    raise KeyError("this")
                if end == "cancel":
                    run.cancel("enough")
                if end == "cut":
                    outside.cancel()
                await trio.sleep(1)
        except KeyError:
            pass
    async with open_workspace(tmp_path, store) as workspace:
        (row,) = await workspace.runs()
        assert (row.state, row.owner) == (status, None)
        assert (await workspace.state("r")).status == run.state.status == status


async def test_a_run_that_another_took_over_ends_and_writes_nothing(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with run_of(store, tmp_path) as run:
        row = await store.run("r")
        assert row is not None
        store._backend._connection.execute("UPDATE runs SET epoch = 9")  # type: ignore[attr-defined] # of SQLite
        result = await run.turn(scout, "a")
        assert result.error is not None
        assert result.error.kind == "recovery_failed"
        await trio.sleep(1)
        raise AssertionError("the block is cancelled")
    assert run.why == "another process has taken it over"
    assert played == []


async def test_the_run_of_another_workspace_is_denied(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with run_of(store, tmp_path / "a"), open_workspace(tmp_path / "b", store) as other:
        assert await other.runs() == []
        said = []
        for asked in ("r", "no such run"):
            with pytest.raises(WorkspaceDenied) as refused:
                await other.state(asked)
            said.append(str(refused.value).replace(repr(asked), "…"))
        assert said[0] == said[1]
        with pytest.raises(WorkspaceDenied):
            async with other.open_run(id="r"):
                raise AssertionError


async def test_equal_paths_are_one_workspace(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    async with (
        run_of(store, tmp_path / "a" / ".." / "a"),
        open_workspace(tmp_path / "link", store) as workspace,
    ):
        assert [row.run for row in await workspace.runs()] == ["r"]


async def test_a_damaged_event_is_named_and_left(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with run_of(store, tmp_path) as run:
        bad = (NewEvent("turn.ended", b'{"kind": "turn.ended", "step": 7}'),)
        await store.submit(Append("r", run.epoch, 0.0, bad)).wait()
        run.cancel()
        await trio.sleep(1)
    async with open_workspace(tmp_path, store) as workspace:
        with pytest.raises(DamagedRun, match="event 2 of the run 'r' cannot be read"):
            await workspace.state("r")


async def test_the_folder_is_for_its_user_alone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_workspace(tmp_path):
        own = tmp_path / ".standby"
        assert own.stat().st_mode & 0o777 == 0o700
        assert (own / ".gitignore").read_text() == "*\n"


async def test_agents_are_listed_while_they_are_at_work(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_workspace(tmp_path, store) as workspace:

        async def look() -> None:
            await trio.sleep(0.5)
            assert [each.agent for each in workspace.agents()] == ["scout", "scout"]

        async with workspace.open_run() as run, trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await fan_out(scout, ["a", "b"], spawn=run.spawn)
            assert workspace.agents() == []
        kinds = [event.kind for event in await workspace.events(run.id)]
        for kind in ("live_agent.registered", "live_agent.terminated", "agent.exited"):
            assert kinds.count(kind) == 2


async def ask(workspace: Workspace, answers: list[str | None], **options: object) -> None:
    async with workspace.open_run("nightly", id="r") as run:
        answers.append(await run.ask_human("Land it?", **options))  # type: ignore[arg-type] # of ask_human


async def test_a_question_is_answered_once(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    answers: list[str | None] = []
    async with open_workspace(tmp_path, store) as workspace, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: ask(workspace, answers, choices=("yes", "no"), id="q"))
        await trio.sleep(1)
        with pytest.raises(ValueError, match="say yes or no"):
            await workspace.respond("r", "q", "maybe")
        assert await workspace.respond("r", "q", "yes", by="ann")
        assert not await workspace.respond("r", "q", "no", by="bob")
    assert answers == ["yes"]


async def test_an_answer_given_while_nobody_was_there_is_taken_up(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    answers: list[str | None] = []
    async with open_workspace(tmp_path, store) as workspace:
        with trio.move_on_after(5):
            await ask(workspace, answers, id="q")
        assert (await workspace.state("r")).questions["q"].is_open
        assert await workspace.respond("r", "q", "go on", by="ann")
        await ask(workspace, answers, id="q")
    assert answers == ["go on"]


async def test_a_deadline_is_a_point_in_time(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    answers: list[str | None] = []
    now = 1_000_000.0

    def clock() -> float:
        return now

    async with open_workspace(tmp_path, store, clock=clock) as workspace:
        with trio.move_on_after(5):
            await ask(workspace, answers, id="q", seconds=60.0, default="no")
        now += 3600
        with trio.fail_after(5):
            await ask(workspace, answers, id="q", seconds=60.0, default="no")
        assert not await workspace.respond("r", "q", "yes")
    assert answers == ["no"]


async def test_another_process_has_a_run_cancelled(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with (
        open_workspace(tmp_path, store) as workspace,
        workspace.open_run("nightly", id="r") as run,
    ):
        wish = event_of(CancelWanted("enough", "ann"))
        await store.submit(Offer("r", 0.0, (wish,))).wait()
        await trio.sleep_forever()
    assert (run.state.status, run.state.error) == ("cancelled", "enough")


async def test_a_run_that_nobody_works_on_is_cancelled_at_once(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    with trio.move_on_after(1):
        async with run_of(store, tmp_path):
            await trio.sleep_forever()
    async with open_workspace(tmp_path, store) as workspace:
        assert await workspace.cancel("r", "enough")
        assert (await workspace.state("r")).status == "cancelled"
        assert not await workspace.cancel("r", "enough")
        assert [event.kind for event in await workspace.events("r")].count("run.ended") == 1


async def test_an_owner_that_cannot_be_seen_counts_as_gone_after_a_minute(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    elsewhere = msgspec.structs.replace(this_process(), machine="another")
    opening = (event_of(RunOpened("nightly", elsewhere)),)
    path = str(tmp_path)
    await store.submit(Create("r", path, "nightly", elsewhere, 1_000.0, opening, "running")).wait()
    for now, found in ((1_060.0, ()), (1_061.0, ("r",)), (1_062.0, ())):
        async with open_workspace(tmp_path, store, clock=lambda now=now: now) as workspace:  # type: ignore[misc] # mypy sees no default
            assert workspace.swept.interrupted == found


async def test_one_damaged_run_hinders_no_other(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    gone = msgspec.structs.replace(this_process(), started=1)
    path = str(tmp_path)
    for number in range(20):
        opening = event_of(RunOpened("nightly", gone))
        if number == 7:
            opening = NewEvent("run.opened", b'{"kind": "run.opened"}')
        run = Create(f"r{number}", path, "nightly", gone, float(number), (opening,), "running")
        await store.submit(run).wait()
    async with open_workspace(tmp_path, store) as workspace:
        assert len(workspace.swept.interrupted) == 19
        ((broken, why),) = workspace.swept.broken
        assert broken == "r7"
        assert "event 1 of the run 'r7' cannot be read" in why
        assert {row.state for row in await workspace.runs() if row.run != "r7"} == {"interrupted"}
        assert (await store.run("r7")).state == "damaged"  # type: ignore[union-attr] # it is there
        assert len(await store.read("r7")) == 1
        with pytest.raises(DamagedRun):
            async with workspace.open_run(id="r7"):
                raise AssertionError
        assert (await workspace.sweep()).broken == ()


async def test_a_run_whose_owners_crash_and_crash_is_left_alone(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with run_of(store, tmp_path, is_over=False) as run:
        await run.record(*[RunInterrupted("owner gone", crashed=True) for _ in range(4)])
        await run.turn(scout, "a")
        await run.record(*[RunInterrupted("owner gone", crashed=True) for _ in range(5)])
    async with open_workspace(tmp_path, store) as workspace:
        with pytest.raises(Quarantined, match="its last 5 owners crashed before they got anywhere"):
            async with workspace.open_run(id="r"):
                raise AssertionError
        async with workspace.open_run(id="r", recoveries=6) as run:
            run.cancel()
            await trio.sleep(1)
        await workspace.confirm("r")
        async with workspace.open_run(id="r") as run:
            assert run.state.crashes == 0


async def test_what_earlier_lives_have_spent_counts(
    store: Store, tmp_path: Path, autojump_clock: MockClock
) -> None:
    statuses: list[str] = []
    for tasks, limits in (("ab", 3), ("abcd", 3), ("abcd", 4)):
        async with (
            open_workspace(tmp_path, store) as workspace,
            workspace.open_run(id="r", limits=Limits(turns=limits)) as run,
        ):
            for task in tasks:
                statuses.append((await run.turn(scout, task)).status)
            run.cancel("not over")
    assert statuses == ["ok"] * 5 + ["budget"] + ["ok"] * 4
    assert played == ["a", "b", "c", "d"]
    assert run.state.usage.turns == 4
