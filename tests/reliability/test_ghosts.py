"""Case C25, the part inside one process, and its kind: whoever has died is not said to live.

Seven are started at once.  One is killed while it waits for its model, one ends
without an answer, one cannot be started at all; the rest finish.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby_actors import Actor, ActorCrashed, ActorStopped, Event, Later, Ref, Request
from standby_supervision import (
    Backoff,
    Branch,
    Counts,
    Started,
    StartError,
    child,
    open_supervisor,
    supervisor,
)
from tests.support.heard import heard

DEATH = 3.0
"""Seconds at which the first of the three dies."""


class UnknownModel(Exception):
    """There is no model of that name."""


class Work(Request[str], frozen=True):
    """Do your task."""


class Agent(Actor):
    """Works for ten seconds, answers and leaves; unless something is wrong with it."""

    def __init__(self, name: str, fault: str = "") -> None:
        self.name = name
        self.fault = fault
        if fault == "cannot be made":
            raise UnknownModel(name)

    async def on_start(self) -> None:
        if self.fault == "unknown model":
            raise UnknownModel(self.name)
        if self.fault == "starts for ever":
            await trio.sleep_forever()

    async def receive(self, message: Work) -> Any:
        match self.fault:
            case "waits":
                return await trio.sleep_forever()
            case "no answer":
                await trio.sleep(DEATH)
                return self._leave()
            case "crashes":
                await trio.sleep(DEATH)
                raise ConnectionResetError
            case _:
                await trio.sleep(10)
                self.stop()
                return f"{self.name} is done"

    def _leave(self) -> Later[Any]:
        """Promise an answer, and be gone."""
        self.stop()
        return self.reply_later()


class AgentOnItsTask(Agent):
    """The same on a task of its own."""

    dedicated = True


async def ends(ref: Ref[Any]) -> tuple[float, str]:
    """When the ask of an agent resolved, and how."""
    try:
        answer: str = await ref.ask(Work(), timeout=60)
    except (ActorStopped, ActorCrashed) as error:
        return trio.current_time(), type(error).__name__
    return trio.current_time(), answer


async def run_seven(
    team: Branch, names: list[str], faults: dict[str, str]
) -> tuple[dict[str, tuple[float, str]], dict[str, Ref[Any]]]:
    """Start them and ask each; kill who waits at the time of death; what became of the asks."""
    outcomes: dict[str, tuple[float, str]] = {}
    refs: dict[str, Ref[Any]] = {}

    async def run(name: str) -> None:
        answer = await team.start(name, faults.get(name, ""), id=name)
        if not isinstance(answer, Started):
            assert isinstance(answer, StartError)
            outcomes[name] = trio.current_time(), type(answer.error).__name__
            return
        refs[name] = answer.ref
        outcomes[name] = await ends(answer.ref)

    async with trio.open_nursery() as tasks:
        for name in names:
            tasks.start_soon(run, name)
        await trio.sleep(DEATH)
        for name, fault in faults.items():
            if fault == "waits":
                refs[name].kill()
    return outcomes, refs


SEVEN = [f"a{n}" for n in range(1, 8)]


@pytest.mark.parametrize("kind", [Agent, AgentOnItsTask])
@pytest.mark.parametrize("restart", ["temporary", "transient"])
async def test_each_of_seven_has_one_start_one_end_with_a_reason_and_one_outcome(
    restart: Any, kind: type[Agent], autojump_clock: MockClock
) -> None:
    faults = {"a1": "waits", "a3": "no answer", "a5": "unknown model"}
    if restart == "transient":
        faults["a1"] = "no answer"  # a kill would bring it back
    spec = supervisor(
        child(kind, id="t", restart=restart), id="team", strategy="dynamic", max_children=7
    )
    async with heard() as events, open_supervisor(spec) as tree:
        team = tree.branch("team")
        outcomes, refs = await run_seven(team, SEVEN, faults)
        assert outcomes == {
            "a1": (DEATH, "ActorStopped"),
            "a2": (10, "a2 is done"),
            "a3": (DEATH, "ActorStopped"),
            "a4": (10, "a4 is done"),
            "a5": (0, "UnknownModel"),
            "a6": (10, "a6 is done"),
            "a7": (10, "a7 is done"),
        }
        # Nobody is said to live, nobody holds a place, and administration answers at once.
        now = trio.current_time()
        assert await team.which_children() == ()
        assert await team.count_children() == Counts(1, 0, 0, 0)
        assert team.snapshot().children == ()
        assert not any(ref.is_alive for ref in refs.values())
        for ref in refs.values():
            await ref.join()
            with pytest.raises(ActorStopped):
                await ref.ask(Work())
        # To resume under the same key is to start anew.
        again = await team.get_or_start("a1", "a1")
        assert again.is_alive
        assert again is not refs["a1"]
        assert trio.current_time() == now
        await again.stop()
    spawned = [each for each in events if each.type == "actor.spawned" and _is_one(each)]
    stopped = [each for each in events if each.type == "actor.stopped" and _is_one(each)]
    assert Counter(each.actor for each in spawned) == Counter(each.actor for each in stopped)
    assert len(spawned) == 7 + 1
    first = {each.actor.rpartition("/")[2]: each for each in reversed(stopped)}
    assert {name: each.monotonic for name, each in first.items()} == {
        name: at for name, (at, _) in outcomes.items()
    }
    assert first["a1"].data["reason"] == ("killed" if restart == "temporary" else "normal")
    assert first["a3"].data["reason"] == "normal"
    assert first["a5"].data["reason"] == "crashed (UnknownModel: a5)"


def _is_one(event: Event) -> bool:
    return event.actor.startswith("supervisor/top/team/")


@pytest.mark.parametrize("way", ["terminated", "left"])
async def test_a_child_whose_specification_is_kept_says_how_it_died_and_does_not_run(
    way: str, autojump_clock: MockClock
) -> None:
    spec = child(Agent, "a", "no answer", id="a", restart="transient")
    async with open_supervisor(spec, intensity=0) as tree:
        if way == "terminated":
            await tree.terminate_child("a")
        else:
            assert await ends(tree["a"]) == (DEATH, "ActorStopped")
        now = trio.current_time()
        (info,) = await tree.which_children()
        assert info.last_reason == ("shutdown" if way == "terminated" else "normal")
        assert (info.state, info.ref) == ("undefined", None)
        assert (await tree.count_children()).active == 0
        assert isinstance(await tree.restart_child("a"), Started)
        assert trio.current_time() == now
        assert tree["a"].is_alive


@pytest.mark.parametrize("fault", ["cannot be made", "unknown model", "starts for ever"])
async def test_what_never_lived_is_nowhere(fault: str, autojump_clock: MockClock) -> None:
    spec = supervisor(child(Agent, id="t", start_timeout=1.0), id="team", strategy="dynamic")
    async with heard() as events, open_supervisor(spec) as tree:
        team = tree.branch("team")
        assert isinstance(await team.start("a", fault, id="a"), StartError)
        assert team.find("a") is None
        assert await team.which_children() == ()
        assert team.snapshot().children == ()
    starts = [each.type for each in events if _is_one(each)]
    expected = [] if fault == "cannot be made" else ["actor.spawned", "actor.stopped"]
    assert [each for each in starts if each in ("actor.spawned", "actor.stopped")] == expected


async def test_a_child_between_two_lives_is_not_said_to_run(autojump_clock: MockClock) -> None:
    async with open_supervisor(
        child(Agent, "a", "crashes", id="a"),
        intensity=None,
        backoff=Backoff(100.0, cap=100.0, jitter=0.0),
    ) as tree:
        with pytest.raises(ActorCrashed):
            await tree["a"].ask(Work())
        assert tree["a"].snapshot().state not in ("idle", "running", "waiting")
        (info,) = await tree.which_children()
        assert (info.state, info.ref) == ("restarting", None)
        assert (await tree.count_children()).active == 0


async def test_the_team_of_a_supervisor_that_died_is_dead_as_well(
    autojump_clock: MockClock,
) -> None:
    spec = supervisor(child(Agent, id="t"), id="team", strategy="dynamic", restart="temporary")
    async with heard() as events, open_supervisor(spec) as tree:
        team = tree.branch("team")
        refs = [await team.get_or_start(name, name) for name in SEVEN]
        asks = [ref.ask(Work()) for ref in refs]
        await trio.sleep(DEATH)
        team.ref.kill()
        for ask in asks:
            with pytest.raises(ActorStopped):
                await ask
        assert trio.current_time() == DEATH
        assert not any(ref.is_alive for ref in refs)
        with pytest.raises(ActorStopped):
            await team.count_children()
        with pytest.raises(KeyError, match="no child 'team'"):
            tree.branch("team")
    stopped = Counter(each.actor for each in events if each.type == "actor.stopped")
    assert set(stopped.values()) == {1}
    assert sum(_is_one(each) for each in events if each.type == "actor.stopped") == 7


@pytest.mark.parametrize("kind", [Agent, AgentOnItsTask])
async def test_all_events_of_a_child_tell_of_it_under_the_same_path(
    kind: type[Agent], autojump_clock: MockClock
) -> None:
    many = supervisor(child(kind, id="t"), id="many", strategy="dynamic")
    inner = supervisor(child(kind, "b", id="b"), child(kind, "c", id="c", name="see"), id="inner")
    async with heard() as events, open_supervisor(child(kind, "a", id="a"), many, inner) as tree:
        await tree.branch("many").start("d", id="d")
        await tree.branch("many").start("e")
        tree["a"].kill()
        await trio.testing.wait_all_tasks_blocked()
    paths = {"actor.spawned": Counter[str](), "actor.stopped": Counter[str]()}
    for each in events:
        if each.type in paths:
            paths[each.type][each.actor] += 1
    top = "supervisor/top"
    assert paths["actor.spawned"] == {
        top: 1,
        f"{top}/a": 2,
        f"{top}/many": 1,
        f"{top}/many/d": 1,
        f"{top}/many/t#2": 1,
        f"{top}/inner": 1,
        f"{top}/inner/b": 1,
        f"{top}/inner/see": 1,
    }
    del paths["actor.stopped"]["supervisor"]  # the block, which nobody spawned
    assert paths["actor.stopped"] == paths["actor.spawned"]
