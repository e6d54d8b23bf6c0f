"""How live agents end: in one order, for one reason, and with one exit each."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from standby import Agent, TurnError
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_supervision.live.mail import Rejected
from standby_supervision.live.refs import AgentFound, AgentRef, AgentsStopped, TurnInterrupted
from standby_supervision.runs import NotDormant, Run, Workspace
from standby_supervision.store import Store

from .invariant import check_agents, checked_workspace
from .minds import Minds, deaf, hanging


def found(run: Run, name: str) -> AgentRef:
    there = run.find(name)
    assert isinstance(there, AgentFound), there
    return there.agent


async def exits(workspace: Workspace, run: str = "r") -> list[tuple[str, str]]:
    """The status and the reason of each exit that is recorded."""
    events = await workspace.events(run)
    facts = [msgspec.json.decode(each.data) for each in events if each.kind == "agent.exited"]
    return [(fact["status"], fact.get("why", "")) for fact in facts]


async def test_the_end_has_one_order(
    clock: MockClock, workspace: Workspace, run: Run, tmp_path: Path
) -> None:
    """Status, fact, abort, export, dispose, record, entry."""
    agent, minds = deaf()
    seen: list[str] = []
    minds.make = lambda make=minds.make: _watched(make(), seen)  # type: ignore[misc]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run.turn(agent, "a", export_dir=tmp_path))
        await trio.sleep(1)
        nursery.start_soon(found(run, "deaf").stop)
        await trio.sleep(0.5)
        (view,) = workspace.agents()
        assert view.status == "stopped"
        kinds = [event.kind for event in await workspace.events("r")]
        assert kinds[-1] in ("live_agent.terminated", "turn.cut")
        assert "agent.exited" not in kinds
        await trio.sleep(2)
        assert workspace.agents() == []
        assert "agent.exited" in [event.kind for event in await workspace.events("r")]
    assert seen == ["export", "close"]


def _watched(session: ScriptedSession, seen: list[str]) -> ScriptedSession:
    session.close_seconds = 1.0
    session.did = seen
    seen.clear()

    class Did(list[str]):
        def append(self, what: str) -> None:
            if what != "ask":
                seen.append(what)

    session.did = Did()
    return session


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("leave", "completed"),
        ("raise", "failed"),
        ("cancel run", "cancelled"),
        ("cancel from outside", "cancelled"),
        ("stop", "stopped"),
        ("fail turn", "failed"),
        ("die", "failed"),
    ],
)
async def test_each_way_out_ends_the_agent(
    end: str, status: str, clock: MockClock, store: Store, tmp_path: Path
) -> None:
    dead = Reply("", error=TurnError("dead", "killed by 9"), dead=True)
    script: list[Any] = [
        "a",
        {"fail turn": TurnError("provider", "down"), "die": dead}.get(end, "b"),
    ]
    minds = Minds(lambda: ScriptedSession(list(script)))
    agent = Agent("w", "Work.", backend=minds)
    async with checked_workspace(tmp_path, store) as workspace:
        with trio.CancelScope() as outside:
            try:
                async with (
                    workspace.open_run(id="r") as run,
                    run.spawn(agent, lifetime="workflow") as player,
                ):
                    await player.ask("a")
                    assert [each.status for each in workspace.agents()] == ["running"]
                    if end == "raise":
                        raise KeyError("this")
                    if end == "cancel run":
                        assert await workspace.cancel("r")
                    if end == "cancel from outside":
                        outside.cancel()
                    if end == "stop":
                        await found(run, "w").stop()
                    if end in ("fail turn", "die"):
                        await player.ask("b")
                    await trio.sleep(1)
                    assert bool(workspace.agents()) == (end not in ("stop", "die"))
            except KeyError:
                pass
        assert workspace.agents() == []
        assert [each for each, _ in await exits(workspace)] == [status]
        assert [each.status for each in workspace.recent_agents()] == [status]


async def test_an_agent_that_never_opens_has_an_exit_too(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    minds = Minds(lambda: ScriptedSession([]), open_seconds=1)

    def fail() -> ScriptedSession:
        raise OSError("no such program")

    minds.make = fail
    with pytest.raises(OSError, match="no such program"):
        await run.turn(Agent("w", "Work.", backend=minds), "a")
    assert await exits(workspace) == [("failed", "OSError: no such program")]


async def test_a_stop_while_it_opens_ends_the_opening(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    agent, minds = deaf()
    minds.open_seconds = 3600
    async with trio.open_nursery() as nursery:
        results: list[Any] = []

        async def ask() -> None:
            results.append(await run.turn(agent, "a"))

        nursery.start_soon(ask)
        await trio.sleep(1)
        assert [each.status for each in workspace.agents()] == ["queued"]
        with trio.fail_after(1):
            stopped = await found(run, "deaf").stop()
        assert isinstance(stopped, AgentsStopped)
    assert results[0].status == "stopped"


async def test_two_stops_are_one(clock: MockClock, workspace: Workspace, run: Run) -> None:
    """E2: one abort, one terminal event, the same answer."""
    agent, _ = deaf()
    answers: list[Any] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.turn, agent, "a")
        await trio.sleep(1)
        ref = found(run, "deaf")

        async def stop() -> None:
            answers.append(await ref.stop("enough"))

        async with trio.open_nursery() as both:
            both.start_soon(stop)
            both.start_soon(stop)
        answers.append(await ref.stop("again"))
    assert answers[0] == answers[1] == answers[2]
    assert await exits(workspace) == [("stopped", "enough")]
    kinds = [event.kind for event in await workspace.events("r")]
    assert kinds.count("live_agent.terminated") == kinds.count("turn.cut") == 1


async def test_the_next_of_a_name_begins_when_the_one_before_has_exited(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    """E3."""
    slow, _ = hanging(4.0)
    began: list[float] = []
    async with trio.open_nursery() as nursery, run.spawn(slow, name="w") as player:
        await player.ask("a")
        old = found(run, "w")
        nursery.start_soon(old.stop)
        await trio.sleep(1)

        async def again() -> None:
            async with run.spawn(deaf(1.0)[0], name="w") as second:
                assert (await second.ask("b")).ok
                began.append(trio.current_time())
                (view,) = workspace.agents()
                assert (view.key.incarnation, view.turns, view.status) == (2, 1, "running")
                assert await old.steer("x") == Rejected("w", "stale_incarnation")
                assert old.interrupt_turn() == Rejected("w", "stale_incarnation")
                await trio.sleep(1)
                assert found(run, "w").key.incarnation == 2

        await again()
    assert len(began) == 1


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.deep)])
async def test_a_run_ends_in_the_time_of_its_slowest(
    count: int, clock: MockClock, store: Store, tmp_path: Path
) -> None:
    """E1: half of them hang in their clean-up; none delays another."""
    good, bad = deaf(1000.0)[0], hanging(3600.0)[0]
    async with checked_workspace(tmp_path, store) as workspace:
        async with workspace.open_run(id="r") as run, trio.open_nursery() as nursery:

            async def play(agent: Agent) -> None:
                async with run.spawn(agent) as player:
                    await player.ask("a")
                    await trio.sleep_forever()

            for number in range(count):
                nursery.start_soon(play, bad if number % 2 else good)
            await trio.sleep(10)
            assert len(workspace.agents()) == count
            began = trio.current_time()
            run.cancel("enough")
        took = trio.current_time() - began
        # A close has 5 s, letting go 5 more in the worst case.
        assert took <= 5.5, took
        assert workspace.agents() == []
        ends = await exits(workspace)
        assert len(ends) == count
        assert sum("close timed out" in why for _, why in ends) == count // 2


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.deep)])
async def test_the_first_cause_counts_and_the_second_is_written_down(
    count: int, clock: MockClock, store: Store, tmp_path: Path
) -> None:
    """E4: a cancellation races the completion, in random interleavings."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    late: set[str] = set()
    async with checked_workspace(tmp_path, store) as workspace:
        async with workspace.open_run(id="r") as run:
            for number in range(count):
                if await _race(run, f"w{number}", chance) == [False]:
                    late.add(f"w{number}")
        events = await workspace.events("r")
    check_agents(events)
    names: dict[str, str] = {}
    ended: dict[str, list[str]] = {}
    for event in events:
        fact = msgspec.json.decode(event.data)
        if event.kind == "live_agent.registered":
            names[fact["subagent"]] = fact["name"]
        if event.kind in ("live_agent.terminated", "live_agent.cause", "agent.exited"):
            ended.setdefault(names[fact["subagent"]], []).append(fact["status"])
    assert len(ended) == count
    for name, statuses in ended.items():
        assert statuses[0] == statuses[-1]  # the first is the one of the exit
        first, *causes = statuses[:-1]
        assert causes in ([], [{"completed": "cancelled", "cancelled": "completed"}[first]])
        if name in late:
            assert first == "completed"
    firsts = {(statuses[0], len(statuses)) for statuses in ended.values()}
    assert {("completed", 2), ("completed", 3), ("cancelled", 2)} <= firsts


async def _race(run: Run, name: str, chance: random.Random) -> list[bool]:
    """Whether the cancellation came first; empty if there was nobody."""
    steps, more = chance.randrange(6), chance.randrange(40)

    async def answer(task: str) -> str:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        return "done"

    async def cancel() -> None:
        for _ in range(more):
            await trio.lowlevel.checkpoint()
        entry = run.live.get(name)
        if entry is not None:
            tried.append(entry.end("cancelled", "somebody"))

    tried: list[bool] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel)
        async with run.spawn(Agent("w", answer), name=name) as player:
            await player.ask("a")
    return tried


@pytest.mark.parametrize("where", ["close", "export", "leave"])
async def test_an_error_in_the_clean_up_is_told_once_and_leaks_nothing(
    where: str, clock: MockClock, store: Store, tmp_path: Path
) -> None:
    """E5."""
    agent, minds = deaf(1.0)
    if where == "leave":
        minds.leave_error = RuntimeError("cannot let go")

    def make() -> ScriptedSession:
        session = ScriptedSession(lambda task: Reply("done"))
        if where == "close":
            session.close_error = RuntimeError("cannot close")
        if where == "export":
            session.export_error = OSError("no disk")
        return session

    minds.make = make
    sibling, _ = deaf(5.0)
    results: list[Any] = []
    raised: list[BaseException] = []

    async def one(run: Run, who: Agent) -> None:
        try:
            results.append(await run.turn(who, "a", export_dir=tmp_path))
        except* RuntimeError as group:
            raised.extend(group.exceptions)

    async with checked_workspace(tmp_path, store) as workspace:
        async with workspace.open_run(id="r") as run, trio.open_nursery() as nursery:
            nursery.start_soon(one, run, agent)
            nursery.start_soon(one, run, sibling)
        ends = await exits(workspace)
        assert workspace.agents() == []
    assert len(ends) == 2
    told = {"close": "cannot close", "export": "no disk", "leave": "cannot let go"}[where]
    assert sum(told in why for _, why in ends) == 1
    assert any(each.output == "done a" for each in results)
    assert len(raised) == (where == "leave")


async def test_a_store_that_takes_nothing_hinders_no_end(
    clock: MockClock, store: Store, tmp_path: Path
) -> None:
    """E5: the writer of facts fails; the exit is recorded when it can be."""
    agent, _ = deaf(1.0)
    async with checked_workspace(tmp_path, store) as workspace:
        async with workspace.open_run(id="r") as run:
            async with run.spawn(agent) as player:
                await player.ask("a")
                store._is_closing = True  # pyright: ignore[reportPrivateUsage]  # a store that refuses
            assert workspace.agents() == []
            (kept,) = workspace.recent_agents()
            assert (kept.status, kept.is_recorded) == ("completed", False)
            await trio.sleep(700)
            assert len(workspace.recent_agents()) == 1
            store._is_closing = False  # pyright: ignore[reportPrivateUsage]  # a store that refuses
            await trio.sleep(100)
            assert workspace.recent_agents() == []
        assert await exits(workspace) == [("completed", "")]


async def test_a_turn_that_is_interrupted_leaves_what_runs_beside_it(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    """E30."""
    lead, _ = deaf(10.0)
    helper, _ = deaf(100.0)
    results: list[Any] = []

    async with run.spawn(lead, name="lead") as player, trio.open_nursery() as nursery:

        async def ask() -> None:
            results.append(await player.ask("a"))

        nursery.start_soon(lambda: run.turn(helper, "b", name="helper"))
        nursery.start_soon(ask)
        await trio.sleep(1)
        assert isinstance(found(run, "lead").interrupt_turn(), TurnInterrupted)
        await trio.sleep(1)
        assert results[0].status == "stopped"
        assert {each.key.name for each in workspace.agents()} == {"helper", "lead"}
        assert found(run, "lead").interrupt_turn() == Rejected("lead", "idle")
        assert (await player.ask("c")).ok
        stopped = await found(run, "helper").stop()
        assert isinstance(stopped, AgentsStopped)
        assert [each.key.name for each in workspace.agents()] == ["lead"]


async def test_stop_tree_ends_all_below_and_says_whom(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    """E30."""

    def parent(name: str, *below: Callable[[str], Any]) -> Callable[[str], Any]:
        async def work(task: str) -> str:
            async with trio.open_nursery() as nursery:
                for number, each in enumerate(below):
                    child = Agent("child", each)
                    nursery.start_soon(
                        lambda child=child, number=number: run.turn(  # type: ignore[misc]
                            child, "b", name=f"{name}{number}"
                        )
                    )
                await trio.sleep(1000)
            return "done"

        return work

    tree = parent("a", parent("b"), parent("c", parent("d")))
    other, _ = deaf(10.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run.turn(Agent("root", tree), "a", name="root"))
        nursery.start_soon(lambda: run.turn(other, "a", name="other"))
        await trio.sleep(1)
        parents = {each.key.name: each.parent for each in workspace.agents()}
        assert parents == {"root": "", "other": "", "a0": "root", "a1": "root", "c0": "a1"}
        stopped = await found(run, "root").stop_tree()
        assert isinstance(stopped, AgentsStopped)
        assert [each.key.name for each in stopped.agents][:1] + sorted(
            each.key.name for each in stopped.agents[1:]
        ) == ["root", "a0", "a1", "c0"]
        assert [each.key.name for each in workspace.agents()] == ["other"]


async def test_only_what_is_dormant_is_resumed_and_it_knows_what_was_said(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    agent, minds = deaf(1.0)
    async with run.spawn(agent, name="w") as player:
        await player.ask("a")
        ref = found(run, "w")
        assert ref.dormant() == Rejected("w", "not_dormant")
    dormant = ref.dormant()
    assert not isinstance(dormant, Rejected)
    async with run.resume(dormant) as again:
        assert (await again.ask("b")).ok
        assert found(run, "w").key.incarnation == 2
        assert ref.dormant() == Rejected("w", "stale_incarnation")
    recalled = minds.opened[1].recalled
    assert recalled is not None
    assert [each.text for each in recalled.messages] == ["a", "done a"]
    with pytest.raises(NotDormant, match="was resumed already"):
        async with run.resume(dormant):
            raise AssertionError
    assert found(run, "w").dormant() != Rejected("w", "dormant")


async def test_agents_of_a_run_that_another_block_holds_end_with_the_run(
    clock: MockClock, workspace: Workspace
) -> None:
    agent, _ = deaf(1000.0)
    results: list[Any] = []
    async with trio.open_nursery() as outer:
        async with workspace.open_run(id="r") as run:

            async def background() -> None:
                results.append(await run.turn(agent, "a"))

            outer.start_soon(background)
            await trio.sleep(1)
        assert workspace.agents() == []
        assert await exits(workspace) == [("completed", "the run is over")]
    assert not results[0].ok


async def test_the_agents_of_a_gone_owner_are_orphaned_before_an_answer_is_taken(
    clock: MockClock, store: Store, tmp_path: Path
) -> None:
    """Purge, reconcile and respond: what a killed process has left has its exits."""
    from standby_supervision.runs.facts import AgentRegistered, QuestionAsked

    async with checked_workspace(tmp_path, store) as workspace:
        # As a killed process leaves it: registered, asked, and no word more.
        with trio.move_on_after(1):
            async with workspace.open_run(id="r") as run:
                await run.record(AgentRegistered("w", "w#1"), QuestionAsked("q", "May I?"))
                store._backend._connection.execute(  # type: ignore[attr-defined] # of SQLite
                    "UPDATE runs SET epoch = 9"
                )
                await trio.sleep_forever()
    async with checked_workspace(tmp_path, store) as workspace:
        assert await exits(workspace) == [("orphaned", "owner gone")]
        assert await workspace.respond("r", "q", "yes")
        kinds = [event.kind for event in await workspace.events("r")]
        assert kinds.index("agent.exited") < kinds.index("question.answered")
    async with checked_workspace(tmp_path, store) as workspace:
        assert await exits(workspace) == [("orphaned", "owner gone")]
