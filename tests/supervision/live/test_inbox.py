"""What becomes of words for live agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_supervision.live.mail import CAPACITY, MailReceipt, Rejected
from standby_supervision.live.refs import AgentAnswered, AgentFound, AgentMissing, AgentRef
from standby_supervision.live.registry import me
from standby_supervision.runs import Run, Workspace, open_workspace
from standby_supervision.store import Store

from .invariant import checked_workspace
from .minds import Reader, deaf, reader


def found(run: Run, name: str) -> AgentRef:
    there = run.find(name)
    assert isinstance(there, AgentFound), there
    return there.agent


def now(receipt: MailReceipt) -> str:
    """Its state at this moment, which a type checker takes for the one before."""
    return receipt.state


@asynccontextmanager
async def in_turn(
    run: Run, agent: Agent, task: str = "a", **options: Any
) -> AsyncGenerator[AgentRef]:
    """An agent whose turn has begun; the block waits for its end."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run.turn(agent, task, **options))
        await trio.sleep(0.5)
        yield found(run, options.get("name", agent.name))


async def test_a_steer_is_read_in_the_turn_and_consumed_with_it(clock: MockClock, run: Run) -> None:
    agent, minds = reader()
    async with in_turn(run, agent) as ref:
        receipt = await ref.steer("Be brief.", by="ann")
        assert isinstance(receipt, MailReceipt)
        assert (receipt.state, receipt.turn) == ("injected", 1)
    assert now(receipt) == "consumed"
    (session,) = minds.opened
    assert isinstance(session, Reader)
    assert session.read == ["[steer from ann] Be brief."]


async def test_a_follow_up_is_read_at_the_end_of_the_turn(clock: MockClock, run: Run) -> None:
    agent, minds = reader()
    async with in_turn(run, agent) as ref:
        receipt = await ref.follow_up("And then?")
        assert isinstance(receipt, MailReceipt)
        assert now(receipt) == "injected"
        await trio.sleep(5)
        assert not minds.opened[0].read  # type: ignore[attr-defined] # a Reader
    assert now(receipt) == "consumed"


async def test_between_turns_words_wait_and_stand_before_the_next_task(
    clock: MockClock, run: Run
) -> None:
    agent, minds = deaf()
    async with run.spawn(agent, name="worker") as player:
        await player.ask("a")
        ref = found(run, "worker")
        sent = [await ref.steer("one"), await ref.follow_up("two"), await ref.tell("three", by="b")]
        assert [each.held for each in sent if isinstance(each, MailReceipt)] == [
            "between_turns"
        ] * 3
        await player.ask("b")
        await player.ask("c")
    assert minds.opened[0].asked == [
        "a",
        "[steer] one\n[follow-up] two\n[message from b] three\n\nb",
        "c",
    ]
    assert [each.state for each in sent if isinstance(each, MailReceipt)] == ["consumed"] * 3


async def test_what_cannot_be_put_into_a_turn_is_refused_or_waits(
    clock: MockClock, run: Run
) -> None:
    agent, minds = deaf()
    async with run.spawn(agent) as player, trio.open_nursery() as nursery:
        nursery.start_soon(player.ask, "a")
        await trio.sleep(0.5)
        ref = found(run, "deaf")
        assert await ref.steer("now") == Rejected(ref.key.name, "not_steerable")
        receipt = await ref.tell("when you can")
        assert isinstance(receipt, MailReceipt)
        assert (receipt.state, receipt.held) == ("accepted", "not_steerable")
        await trio.sleep(20)
        await player.ask("b")
        assert now(receipt) == "consumed"
    assert minds.opened[0].asked[1] == "[message] when you can\n\nb"


async def test_a_word_that_its_turn_has_not_read_waits_again(clock: MockClock, run: Run) -> None:
    agent, minds = reader(seconds=1.2)
    async with run.spawn(agent) as player, trio.open_nursery() as nursery:
        nursery.start_soon(player.ask, "a")
        await trio.sleep(1.1)
        receipt = await found(run, "reader").steer("too late")
        assert isinstance(receipt, MailReceipt)
        assert now(receipt) == "injected"
        await trio.sleep(1)
        assert now(receipt) == "accepted"
        await player.ask("b")
    assert now(receipt) == "consumed"
    assert minds.opened[0].asked[1] == "[steer] too late\n\nb"


async def test_each_state_of_a_target_has_an_answer_of_its_own(
    clock: MockClock, workspace: Workspace, tmp_path: Path, store: Store
) -> None:
    """E6: starting, running, parked, dormant, exited, unknown, other run, other workspace."""
    slow, minds = reader()
    minds.open_seconds = 5
    other_folder = tmp_path / "other"
    other_folder.mkdir()

    async def asks(task: str) -> str:
        caller = me()
        assert caller is not None
        return str(await run.ask_human("May I?", id="q"))

    async def fails(task: str) -> str:
        raise ValueError("no")

    def kind(answer: Any) -> tuple[str, ...]:
        if isinstance(answer, MailReceipt):
            return (answer.state, answer.held)
        return (type(answer).__name__, getattr(answer, "why", ""))

    kinds: list[tuple[str, ...]] = []
    async with (
        workspace.open_run(id="r") as run,
        workspace.open_run(id="s") as other,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(lambda: run.turn(slow, "a", name="slow"))
        await trio.sleep(1)
        ref = found(run, "slow")
        kinds.append(kind(await ref.steer("x")))
        await trio.sleep(6)
        kinds.append(kind(await ref.steer("x")))
        nursery.start_soon(lambda: run.turn(Agent("parked", asks), "a"))
        await trio.sleep(1)
        kinds.append(kind(await found(run, "parked").steer("x")))
        await workspace.respond("r", "q", "yes")
        await trio.sleep(20)
        kinds.append(kind(await ref.steer("x")))
        await run.turn(Agent("fails", fails), "a")
        kinds.append(kind(await found(run, "fails").steer("x")))
        kinds.append(kind(run.find("nobody")))
        stranger = AgentRef(ref.key, other.live)
        kinds.append(kind(await stranger.steer("x")))
        async with open_workspace(other_folder, store) as elsewhere:
            kinds.append(kind(elsewhere.ref(ref.key)))
    assert kinds == [
        ("accepted", "starting"),
        ("injected", ""),
        ("accepted", "parked"),
        ("Rejected", "dormant"),
        ("Rejected", "exited"),
        ("AgentMissing", ""),
        ("Rejected", "other_run"),
        ("WorkspaceDenied", ""),
    ]
    assert len(set(kinds)) == 8


async def test_what_was_sent_before_the_session_was_open_is_read_once(
    clock: MockClock, run: Run
) -> None:
    """E7."""
    agent, minds = reader()
    minds.open_seconds = 5
    async with in_turn(run, agent) as ref:
        receipt = await ref.tell("early")
        assert isinstance(receipt, MailReceipt)
        assert now(receipt) == "accepted"
    assert now(receipt) == "consumed"
    assert [task.count("early") for task in minds.opened[0].asked] == [1]


async def test_a_lane_that_is_full_says_so_and_the_others_take(clock: MockClock, run: Run) -> None:
    agent, _ = deaf()
    async with run.spawn(agent, name="w") as player:
        await player.ask("a")
        ref = found(run, "w")
        for _ in range(CAPACITY):
            assert isinstance(await ref.tell("x"), MailReceipt)
        assert await ref.tell("x") == Rejected("w", "full")
        assert isinstance(await ref.steer("x"), MailReceipt)


@pytest.mark.parametrize("text", ["", "  ", "x" * 100_001])
async def test_what_is_no_word_is_refused(clock: MockClock, text: str, run: Run) -> None:
    agent, _ = reader()
    async with in_turn(run, agent) as ref:
        refused = await ref.tell(text)
        assert isinstance(refused, Rejected)
        assert refused.why == "malformed"


async def test_mail_outlives_a_life_and_is_read_by_the_next_of_its_name(
    clock: MockClock, run: Run
) -> None:
    agent, minds = deaf()
    async with run.spawn(agent, name="w") as player:
        await player.ask("a")
        old = found(run, "w")
        receipt = await old.tell("for whoever comes")
    async with run.spawn(agent, name="w") as player:
        await player.ask("b")
        assert found(run, "w").key.incarnation == 2
        assert await old.tell("x") == Rejected("w", "stale_incarnation")
    assert isinstance(receipt, MailReceipt)
    assert now(receipt) == "consumed"
    assert minds.opened[1].asked == ["[message] for whoever comes\n\nb"]


async def test_mail_of_an_agent_without_a_name_is_refused_with_its_exit(
    clock: MockClock, run: Run
) -> None:
    agent, _ = deaf()
    async with run.spawn(agent) as player:
        await player.ask("a")
        receipt = await found(run, "deaf").tell("x")
    assert isinstance(receipt, MailReceipt)
    assert (receipt.state, receipt.why) == ("rejected", "exited")


async def test_mail_outlives_a_process(clock: MockClock, store: Store, tmp_path: Path) -> None:
    agent, minds = deaf()
    with trio.move_on_after(15):
        async with (
            checked_workspace(tmp_path, store) as workspace,
            workspace.open_run(id="r") as run,
            run.spawn(agent, name="w") as player,
        ):
            await player.ask("a")
            await found(run, "w").tell("between two lives")
            await player.ask("b")  # is cut, with the word in it
    assert minds.opened[0].asked[1] == "[message] between two lives\n\nb"
    async with (
        checked_workspace(tmp_path, store) as workspace,
        workspace.open_run(id="r") as run,
        run.spawn(agent, name="w") as player,
    ):
        await player.ask("a")
        await player.ask("b")
        await player.ask("c")
    assert minds.opened[1].asked == ["[message] between two lives\n\nb", "c"]
    kinds = [event.kind for event in await store.read("r")]
    assert kinds.count("mail.consumed") == 1


async def test_what_waits_when_a_run_is_over_has_expired(
    clock: MockClock, workspace: Workspace
) -> None:
    agent, _ = deaf()
    async with workspace.open_run(id="r") as run, run.spawn(agent, name="w") as player:
        await player.ask("a")
        receipt = await found(run, "w").tell("x")
    assert isinstance(receipt, MailReceipt)
    assert now(receipt) == "expired"
    assert await receipt.settled() is receipt


async def test_a_broadcast_reaches_its_own_run_only(clock: MockClock, workspace: Workspace) -> None:
    """E9."""
    agent, minds = reader()
    async with (
        workspace.open_run(id="r") as run,
        workspace.open_run(id="s") as other,
        trio.open_nursery() as nursery,
    ):
        for name in ("a", "b"):
            nursery.start_soon(lambda name=name: run.turn(agent, "x", name=name))  # type: ignore[misc]
        nursery.start_soon(lambda: other.turn(agent, "x", name="c"))
        await trio.sleep(0.5)
        sent = await run.broadcast("all of you", by="b")
        assert list(sent) == ["a"]
        assert await run.broadcast("none", by="z") != {}
    read = sorted(session.read for session in minds.opened)  # type: ignore[attr-defined] # Readers
    word = "[message from z] none"
    assert read == [[], ["[message from b] all of you", word], [word]]


# ---- questions from one agent to another


async def test_a_question_is_answered_by_the_turn_that_read_it(clock: MockClock, run: Run) -> None:
    agent, _ = reader()
    async with in_turn(run, agent, "the work") as ref:
        assert await ref.ask("How far are you?", by="b") == AgentAnswered(ref.key, "done the work")


async def test_a_question_is_answered_by_a_reply_at_once(clock: MockClock, run: Run) -> None:
    heard: list[float] = []

    async def answers(task: str) -> str:
        caller = me()
        assert caller is not None
        await trio.sleep(3)
        (question,) = caller.inbox.asked
        assert AgentRef(caller.key, run.live).reply(question, "half")
        assert not AgentRef(caller.key, run.live).reply(question, "again")
        await trio.sleep(3)
        return "all"

    async with in_turn(run, Agent("answers", answers)) as ref:
        began = trio.current_time()
        assert await ref.ask("How far?", by="b") == AgentAnswered(ref.key, "half")
        heard.append(trio.current_time() - began)
    assert heard == [2.5]


async def test_who_asks_an_agent_that_ends_goes_on_at_once(clock: MockClock, run: Run) -> None:
    """E8: within 100 ms, though its close takes 5 s."""
    agent, minds = deaf(seconds=30)
    minds.make = lambda make=minds.make: _slow(make())  # type: ignore[misc]
    woke: list[float] = []

    async def ask(ref: AgentRef) -> None:
        assert await ref.ask("Well?", by="b") == Rejected(ref.key.name, "exited")
        woke.append(trio.current_time())

    async with in_turn(run, agent) as ref, trio.open_nursery() as nursery:
        nursery.start_soon(ask, ref)
        await trio.sleep(1)
        ended = trio.current_time()
        await ref.stop()
        assert trio.current_time() - ended > 4
    assert woke[0] - ended <= 0.1


def _slow(session: Any) -> Any:
    session.close_seconds = 4.5
    return session


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_asking_in_a_circle_is_refused(clock: MockClock, count: int, run: Run) -> None:
    """E8: of 2 and of 3; and of one who asks itself."""
    refused: list[str] = []

    def member(number: int) -> Callable[[str], Any]:
        async def asks(task: str) -> str:
            await trio.sleep(1 + number)
            next_one = found(run, f"m{(number + 1) % count}")
            with trio.move_on_after(20):
                answer = await next_one.ask("You first?")
                if isinstance(answer, Rejected) and answer.why != "exited":
                    refused.append(str(answer))
            return "done"

        return asks

    async with trio.open_nursery() as nursery:
        for number in range(count):
            agent = Agent(f"m{number}", member(number))
            nursery.start_soon(lambda agent=agent: run.turn(agent, "a", name=agent.name))  # type: ignore[misc]
    assert len(refused) == 1
    assert ("waits for" in refused[0]) == (count > 1)
    assert not run.live.asks


async def test_a_question_of_somebody_who_does_not_wait_longer_is_withdrawn(
    clock: MockClock, run: Run
) -> None:
    agent, minds = deaf()
    async with run.spawn(agent, name="w") as player:
        await player.ask("a")
        with trio.move_on_after(5) as scope:
            await found(run, "w").ask("Well?", by="b")
        assert scope.cancelled_caught
        await player.ask("b")
    assert minds.opened[0].asked == ["a", "b"]


async def test_a_parked_agent_gets_its_words_when_it_goes_on(
    clock: MockClock, workspace: Workspace, run: Run
) -> None:
    async def asks(task: str) -> str:
        return str(await run.ask_human("May I?", id="q"))

    async with run.spawn(Agent("asks", asks), name="w") as player, trio.open_nursery() as nursery:
        nursery.start_soon(player.ask, "a")
        await trio.sleep(1)
        (view,) = workspace.agents()
        assert (view.status, view.question) == ("waiting", "q")
        receipt = await found(run, "w").tell("x")
        assert isinstance(receipt, MailReceipt)
        assert receipt.held == "parked"
        assert await workspace.respond("r", "q", "yes")
        await trio.sleep(1)
        (view,) = workspace.agents()
        assert (view.status, view.question) == ("running", "")
        assert now(receipt) == "accepted"
        result = await player.ask("b")
        assert result.output == "None" or result.ok
        assert now(receipt) == "consumed"


async def test_what_the_store_does_not_take_is_not_accepted(
    clock: MockClock, run: Run, store: Store
) -> None:
    agent, _ = reader()
    async with in_turn(run, agent) as ref:
        store._is_closing = True  # pyright: ignore[reportPrivateUsage]  # a store that refuses
        refused = await ref.tell("x")
        assert isinstance(refused, Rejected)
        assert refused.why == "unrecorded"
        assert not isinstance(run.find("reader"), AgentMissing)
        store._is_closing = False  # pyright: ignore[reportPrivateUsage]  # a store that refuses
