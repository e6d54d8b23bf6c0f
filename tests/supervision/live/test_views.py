"""What is listed, for how long, and for whom."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from standby import Agent
from standby_actors.sessions.scripted import Reply
from standby_supervision.live.mail import Rejected
from standby_supervision.live.refs import AgentAmbiguous, AgentFound, AgentMissing, AgentRef
from standby_supervision.live.registry import LiveAgents
from standby_supervision.runs import Run, Workspace, WorkspaceDenied, open_workspace
from standby_supervision.store import Store

from .invariant import checked_workspace
from .minds import ONE_OF_EACH, Minds, Worker, deaf


def found(run: Run, name: str) -> AgentRef:
    there = run.find(name)
    assert isinstance(there, AgentFound), there
    return there.agent


async def test_what_an_agent_does_is_seen_while_it_does_it(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    """E10: two calls of one tool are two."""
    answer = Reply("y" * 300, seconds=5, pieces=3)
    minds = Minds(lambda: Worker(lambda task: answer, events=ONE_OF_EACH))
    agent = Agent("w", "Work.", backend=minds, description="Works.", max_requests=7)
    seen = []
    async with run.spawn(agent) as player, trio.open_nursery() as nursery:
        nursery.start_soon(player.ask, "a")
        for _ in range(12):
            await trio.sleep(0.9)
            seen.append(workspace.agents()[0])
        last = workspace.agents()[0]
    both = (("c1", 'read {"path": "c1.py"}'), ("c2", 'read {"path": "c2.py"}'))
    tools = [view.tools for view in seen]
    assert both in tools
    assert both[1:] in tools
    assert last.tools == ()
    assert (last.tool_uses, last.turns, last.requests, last.max_requests) == (2, 1, 1, 7)
    assert (last.model, last.compactions, last.context_tokens) == ("m/small", 1, 300)
    assert last.text == "y" * 200
    assert {view.text for view in seen} >= {"", "y" * 100, "y" * 200}
    assert seen[0].in_turn is True
    assert last.in_turn is False
    assert (last.description, last.ended) == ("Works.", None)
    assert last.began < last.updated <= trio.current_time()
    (ended,) = workspace.recent_agents()
    assert ended.ended is not None
    assert not ended.is_live
    assert ended.is_recorded


async def test_a_view_does_not_change(clock: MockClock, workspace: Workspace, run: Run) -> None:
    agent, _ = deaf(1.0)
    async with run.spawn(agent) as player:
        await player.ask("a")
        (before,) = workspace.agents()
        await player.ask("b")
        (after,) = workspace.agents()
    assert (before.turns, after.turns) == (1, 2)
    with pytest.raises(AttributeError):
        before.turns = 9  # type: ignore[misc] # it is frozen


async def test_what_has_ended_is_kept_for_ten_minutes_and_no_longer(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    agent, _ = deaf(1.0)
    await run.turn(agent, "a")
    ended = trio.current_time()
    assert workspace.agents() == []
    assert isinstance(run.find("deaf"), AgentFound)
    await trio.sleep_until(ended + 600)
    assert workspace.evict() == 0  # not older than that yet
    assert len(workspace.recent_agents()) == 1
    await trio.sleep(1)
    assert workspace.recent_agents() == []  # nobody had to look
    assert isinstance(run.find("deaf"), AgentMissing)


async def test_what_lives_is_never_evicted(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    agent, _ = deaf(1.0)
    async with run.spawn(agent) as player:
        await player.ask("a")
        await trio.sleep(3_600)
        assert workspace.evict() == 0
        assert [each.status for each in workspace.agents()] == ["running"]


async def test_a_name_may_be_missing_or_mean_several(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    agent, _ = deaf(10.0)
    async with (
        workspace.open_run(id="s") as other,
        run.spawn(agent, name="one") as a,
        run.spawn(agent, name="two") as b,
        other.spawn(agent, name="one") as c,
    ):
        for player in (a, b, c):
            await player.ask("x")
        missing = workspace.find("three")
        assert isinstance(missing, AgentMissing)
        assert str(missing) == "no agent is called 'three'; there are: one, two, one"
        several = workspace.find("one")
        assert isinstance(several, AgentAmbiguous)
        assert str(several) == "'one' may be r/one or s/one"
        assert isinstance(workspace.find("deaf"), AgentAmbiguous)
        for text in ("r/one", f"{workspace.path}:r/one", "two", a.id):
            assert isinstance(workspace.find(text), AgentFound), text
        assert isinstance(run.find("one"), AgentFound)
        assert run.find("s/one") == Rejected("s/one", "other_run")
        for text in ("", "x" * 500):
            assert isinstance(workspace.find(text), AgentMissing)


async def test_one_workspace_reaches_nothing_of_another(
    clock: MockClock, store: Store, tmp_path: Path
) -> None:
    """C60: whether or not the id exists, the answer is the same, and nothing is written."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    agent, _ = deaf(1.0)
    async with (
        checked_workspace(tmp_path / "link" / ".." / "a", store) as a,
        checked_workspace(tmp_path / "b", store) as b,
        a.open_run(id="r") as run,
        b.open_run(id="mine") as mine,
        run.spawn(agent, name="scout") as theirs,
        mine.spawn(agent, name="scout") as ours,
    ):
        await theirs.ask("x")
        await ours.ask("x")
        before = await a.events("r")
        key = found(run, "scout").key
        answers = []
        for text in (str(key), "nobody/scout", f"{a.path}:r/scout", f"{a.path}:no/one"):
            there = b.find(text)
            assert isinstance(there, WorkspaceDenied), text
            assert there.kind == "workspace_denied"
            answers.append(str(there).replace(repr(text), "…"))
        assert len(set(answers)) == 1
        assert isinstance(b.ref(key), WorkspaceDenied)
        stranger = AgentRef(key, mine.live)
        for refused in (
            await stranger.steer("x"),
            await stranger.tell("x"),
            await stranger.ask("x"),
            await stranger.stop(),
            await stranger.stop_tree(),
            stranger.interrupt_turn(),
            stranger.dormant(),
            stranger.view(),
        ):
            assert isinstance(refused, Rejected)
            assert refused.why == "other_run"
        for call in (b.state, b.events, b.cancel, b.confirm):
            with pytest.raises(WorkspaceDenied):
                await call("r")
        with pytest.raises(WorkspaceDenied):
            await b.respond("r", "q", "yes")
        with pytest.raises(WorkspaceDenied):
            async with b.open_run(id="r"):
                raise AssertionError
        assert [each.key.run for each in b.agents()] == ["mine"]
        assert [row.run for row in await b.runs()] == ["mine"]
        assert await a.events("r") == before
        async with open_workspace(tmp_path / "link", store) as same:
            assert same.path == a.path
            assert [row.run for row in await same.runs()] == ["r"]
        assert not hasattr(LiveAgents, "all_of_process")


@pytest.mark.parametrize("when", ["start", "turn", "close"])
async def test_a_name_is_free_after_each_cut(
    when: str, clock: MockClock, workspace: Workspace, run: Run
) -> None:
    """C28 (a): at every half second of a start, a turn and a close of 2 s each."""
    agent, minds = deaf(2.0)
    minds.open_seconds = 2.0
    make = minds.make

    def slow() -> Worker:
        session = make()
        session.close_seconds = 2.0
        return session  # type: ignore[return-value] # a session all the same

    minds.make = slow
    begin = {"start": 0.0, "turn": 2.0, "close": 4.0}[when]
    for step in range(5):
        with trio.move_on_after(begin + step / 2):
            async with run.spawn(agent, name="n") as player:
                await player.ask("a")
        assert workspace.agents() == []
        async with run.spawn(deaf(0.1)[0], name="n") as player:
            assert (await player.ask("b")).ok


async def test_who_ends_takes_only_its_own_entry(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    """C28 (b), (c): the others still find themselves, and a stranger ends nobody."""
    async with trio.open_nursery() as nursery:
        for number in range(3):
            agent, _ = deaf(5.0 + 20 * (number > 0))
            nursery.start_soon(lambda agent=agent: run.turn(agent, "a"))  # type: ignore[misc]
        await trio.sleep(1)
        keys = [each.key for each in workspace.agents()]
        await trio.sleep(9)
        left = [each.key for each in workspace.agents()]
        assert len(left) == 2
        assert set(left) < set(keys)
        for key in left:
            assert isinstance(await AgentRef(key, run.live).tell("x"), object)
            view = AgentRef(key, run.live).view()
            assert not isinstance(view, Rejected)
        gone = (set(keys) - set(left)).pop()
        stopped = await AgentRef(gone, run.live).stop()
        assert not isinstance(stopped, Rejected)  # it has ended already: the same answer
        assert [each.key for each in workspace.agents()] == left


@pytest.mark.real
@pytest.mark.parametrize("quarters", [4, pytest.param(96, marks=pytest.mark.deep)])
def test_a_day_without_anybody_who_looks_takes_no_memory(quarters: int) -> None:
    """E31: after the first half hour nothing grows but the store, which is not Python's."""
    command = [sys.executable, "-m", f"{__package__}.headless", str(quarters)]
    said = subprocess.run(command, check=True, capture_output=True, timeout=600)
    seen = msgspec.json.decode(said.stdout)
    assert max(seen["kept"]) <= 21
    assert seen["kept"][-1] >= 19
    first, last = seen["sizes"][1], seen["sizes"][-1]
    assert last <= first * 1.1, seen


def test_ten_thousand_are_listed_at_once() -> None:
    """The figure itself is a benchmark; here the work is bounded: one look at each."""
    from standby_supervision.live.keys import AgentKey
    from standby_supervision.live.mail import Inbox
    from standby_supervision.live.registry import LiveAgent

    async def main() -> float:
        live = LiveAgents("r", lambda *facts: None, lambda entry: None)  # type: ignore[arg-type] # records nothing
        for number in range(10_000):
            name = f"w#{number}"
            entry = LiveAgent(AgentKey("/w", "r", name), name, "w", Inbox(name))
            live._there[name] = entry  # pyright: ignore[reportPrivateUsage]  # ten thousand without a task
        began = time.perf_counter()
        first = live.views()
        again = live.views()
        assert all(one is other for one, other in zip(first, again, strict=True))
        return time.perf_counter() - began

    trio.run(main)
