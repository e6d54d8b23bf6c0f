"""Faults that users of such systems have reported, played on durable runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import trio
from trio.testing import MockClock

from standby import Agent, Result, TurnError
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_supervision.runs import Run, Workspace
from standby_supervision.store import Store

from .invariant import checked_workspace
from .minds import Minds, deaf


async def test_whoever_dies_is_not_at_work_any_more(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    """C25: seven are spawned; one is killed, one ends without a word, one cannot be opened."""

    def missing() -> ScriptedSession:
        raise OSError("no such model")

    killed = Reply("", seconds=3, error=TurnError("dead", "killed by signal 9"), dead=True)
    silent = Reply("", seconds=4, error=TurnError("protocol", "ended without an answer"), dead=True)
    makes = [
        lambda: ScriptedSession([killed]),
        lambda: ScriptedSession([silent]),
        missing,
        *[lambda: ScriptedSession([Reply("fine", seconds=5)])] * 4,
    ]
    ended: dict[int, tuple[float, Any]] = {}

    async def play(number: int) -> None:
        agent = Agent("w", "Work.", backend=Minds(makes[number]))
        # The block goes on: what has died must not need its end to be noticed.
        try:
            async with run.spawn(agent, name=f"w{number}", lifetime="workflow") as player:
                ended[number] = (0.0, await player.ask("a"))
                ended[number] = (trio.current_time(), ended[number][1])
                await trio.sleep(10)
                if number < 2:
                    again = await player.ask("b")
                    assert again.error is not None
        except OSError as error:
            ended[number] = (trio.current_time(), error)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(7):
            nursery.start_soon(play, number)
        await trio.sleep(5.5)
        live = {each.key.name for each in workspace.agents()}
        assert live == {"w3", "w4", "w5", "w6"}
        gone = {each.key.name: each for each in workspace.recent_agents()}
        assert {name: each.status for name, each in gone.items()} == {
            "w0": "failed",
            "w1": "failed",
            "w2": "failed",
        }
        for name, at, why in (("w0", 3, "signal 9"), ("w1", 4, "without an answer")):
            each = gone[name]
            assert why in each.why
            assert each.ended is not None
            assert 0 <= each.ended - began - at < 1
    assert workspace.agents() == []
    kinds = [event.kind for event in await workspace.events("r")]
    assert kinds.count("live_agent.registered") == kinds.count("agent.exited") == 7
    assert all(not isinstance(ended[number][1], OSError) for number in range(7) if number != 2)


async def test_an_answer_goes_to_whoever_asked_also_after_a_restart(
    clock: MockClock, store: Store, tmp_path: Path
) -> None:
    """C30: root > B > C; the program is killed when C has answered, and B has not."""
    c, minds = deaf(5.0)
    heard: list[tuple[str, str]] = []
    b_slow = True

    async def first(task: str) -> str:
        assert current is not None
        result = await current.turn(c, "for b", name="c")
        heard.append(("b", result.output))
        if b_slow:
            await trio.sleep(1000)
        return f"b has {result.output}"

    b = Agent("b", first)
    current: Run | None = None

    async def root(workspace: Workspace) -> Result:
        nonlocal current
        async with workspace.open_run("nightly", id="r") as run:
            current = run
            return await run.turn(b, "go", name="b")

    async with checked_workspace(tmp_path, store) as workspace:
        with trio.move_on_after(10):
            await root(workspace)
    assert heard == [("b", "done for b")]
    b_slow = False
    async with checked_workspace(tmp_path, store) as workspace:
        result = await root(workspace)
    assert result.output == "b has done for b"
    # C was asked once: the second life of B has been given what C said to the first.
    assert heard == [("b", "done for b")] * 2
    assert sum(len(session.asked) for session in minds.opened) == 1
    events = await store.read("r")
    parents = [
        (fact.get("name"), fact.get("parent", ""))
        for fact in map(msgspec.json.decode, (e.data for e in events))
        if fact.get("kind") == "live_agent.registered"
    ]
    assert ("c", "b") in parents


async def test_two_who_ask_one_agent_each_get_their_own_answer(clock: MockClock, run: Run) -> None:
    """C30 (b)."""
    c, _ = deaf(5.0)
    heard: dict[str, str] = {}
    async with run.spawn(c, name="c") as player, trio.open_nursery() as nursery:

        async def ask(who: str) -> None:
            heard[who] = (await player.ask(f"for {who}")).output

        nursery.start_soon(ask, "b")
        nursery.start_soon(ask, "d")
    assert heard == {"b": "done for b", "d": "done for d"}
