"""A mind hands its conversation over, or has others work for it: below it, and accounted for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby_actors import open_nursery
from standby_actors.agent import Agent, Limits
from standby_actors.budget import Budget
from standby_actors.others import MAX_HANDOFFS, NobodyBelow, NoSuchAgent
from standby_actors.session import Handoff, Session
from standby_actors.sessions.chat import ChatModel, open_chat_model
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import Subagent, reset_ids, spawn
from standby_actors.usage import Usage
from standby_combinators import Signal, chain
from tests.agents.chat.asking import on_every_api, settings
from tests.support.heard import heard
from tests.support.model_server_agents import agent_server
from tests.support.strict_server import Called, StrictServer

SPENT = Usage(requests=1, input_tokens=10, output_tokens=3)


@pytest.fixture(autouse=True)
def ids_from_one() -> None:
    reset_ids()


class Cast:
    """A script for each agent by name, and what each was asked."""

    def __init__(self, **scripts: Callable[[str], Reply]) -> None:
        self.scripts = scripts
        self.asked: list[tuple[str, str]] = []
        self.sessions: list[ScriptedSession] = []

    def __call__(self, agent: Agent) -> Session:
        def rule(task: str) -> Reply:
            self.asked.append((agent.name, task))
            return self.scripts[agent.name](task)

        self.sessions.append(ScriptedSession(rule))
        return self.sessions[-1]

    @property
    def open(self) -> int:
        return sum(session.closed != 1 for session in self.sessions)


def gives(to: str, message: str = "", text: str = "") -> Callable[[str], Reply]:
    return lambda task: Reply(text, usage=SPENT, handoff=Handoff(to, message))


def says(text: str, seconds: float = 0.0) -> Callable[[str], Reply]:
    return lambda task: Reply(text, seconds=seconds, usage=SPENT)


CLERK = Agent("clerk", "You file.", description="Files.")
DESK = Agent("desk", "You receive.", handoffs=[CLERK])


async def test_who_takes_over_answers_and_knows_what_was_said() -> None:
    cast = Cast(desk=gives("clerk", "it is urgent", "One moment."), clerk=says("It is filed."))
    async with heard() as events, spawn(DESK, session=cast) as desk:
        result = await desk.ask("File this.")
    assert (result.status, result.output) == ("ok", "It is filed.")
    assert (result.agent, result.subagent) == ("clerk", "clerk#1")
    # Both are paid for, once; each one's own counter has its own.
    assert (result.usage.input_tokens, desk.usage.input_tokens) == (20, 10)
    ((_, task), (name, told)) = cast.asked
    assert (task, name) == ("File this.", "clerk")
    for part in ("user: File this.", "desk: One moment.", "hands over to clerk: it is urgent"):
        assert part in told
    (event,) = [each for each in events if each.type == "subagent.handoff"]
    assert (event.data["giver"], event.data["taker"]) == ("desk#1", "clerk#1")
    assert cast.open == 0


async def test_who_was_handed_over_to_remembers_and_is_told_only_what_is_new() -> None:
    cast = Cast(desk=gives("clerk"), clerk=says("Filed."))
    async with spawn(DESK, session=cast) as desk:
        await desk.ask("one")
        result = await desk.ask("two")
        assert len(cast.sessions) == 2
    assert result.subagent == "clerk#1"
    assert "user: one" not in cast.asked[-1][1]
    assert "user: two" in cast.asked[-1][1]


async def test_a_conversation_goes_on_to_a_third_and_back_to_the_first() -> None:
    boss = Agent("boss", "You decide.", handoffs=["desk"])
    clerk = Agent("clerk", "You file.", handoffs=[boss])
    desk = Agent("desk", "You receive.", handoffs=[clerk])
    turns = iter([gives("clerk")("")])
    cast = Cast(
        desk=lambda task: next(turns, Reply("Back with me.", usage=SPENT)),
        clerk=gives("boss"),
        boss=gives("desk"),
    )
    async with spawn(desk, session=cast, roster=[desk]) as subagent:
        result = await subagent.ask("go")
    assert (result.output, result.subagent) == ("Back with me.", "desk#1")
    assert [name for name, _ in cast.asked] == ["desk", "clerk", "boss", "desk"]
    assert result.usage.input_tokens == 40
    assert cast.open == 0


async def test_two_that_hand_over_to_each_other_for_ever_are_cut() -> None:
    ping = Agent("ping", "Ping.", handoffs=["pong"])
    pong = Agent("pong", "Pong.", handoffs=[ping])
    cast = Cast(ping=gives("pong"), pong=gives("ping"))
    async with spawn(ping, session=cast, roster=[ping, pong]) as subagent:
        result = await subagent.ask("go")
    assert result.error is not None
    assert result.error.kind == "runaway"
    assert len(cast.asked) == MAX_HANDOFFS + 1
    assert cast.open == 0


async def test_the_failure_of_who_takes_over_is_the_failure_of_the_turn() -> None:
    def broken(task: str) -> Reply:
        return Reply(crash=RuntimeError("torn"))

    cast = Cast(desk=gives("clerk"), clerk=broken)
    async with spawn(DESK, session=cast) as desk:
        result = await desk.ask("go")
        assert not result.ok
        assert result.subagent == "clerk#1"
    assert cast.open == 0


@pytest.mark.parametrize("how", ["deadline", "stop", "abort", "cancel"])
async def test_whatever_cuts_the_turn_cuts_who_took_over(
    autojump_clock: MockClock, how: str
) -> None:
    cast = Cast(desk=gives("clerk"), clerk=says("late", seconds=60))

    async def cut(desk: Subagent) -> None:
        await trio.sleep(2)
        if how == "stop":
            desk.stop()
        elif how == "abort":
            desk.abort("enough")

    start = trio.current_time()
    with trio.move_on_after(2 if how == "cancel" else 100) as scope:
        async with spawn(DESK, session=cast) as desk, trio.open_nursery() as nursery:
            nursery.start_soon(cut, desk)
            result = await desk.ask("go", timeout=2 if how == "deadline" else None)
            statuses = {"deadline": "timed_out", "stop": "stopped", "abort": "aborted"}
            assert result.status == statuses[how]
            # The giver's turn is over and paid for, and so is what the taker has cost.
            assert result.usage.input_tokens >= 10
    assert scope.cancelled_caught == (how == "cancel")
    assert trio.current_time() - start < 5
    assert cast.open == 0


async def test_who_is_not_known_is_refused_when_it_is_spawned() -> None:
    desk = Agent("desk", "You receive.", handoffs=["clark"])
    with pytest.raises((NoSuchAgent, ExceptionGroup)) as caught:
        async with spawn(desk, session=Cast(), roster=[CLERK]):
            pass
    raised: BaseException = caught.value
    while isinstance(raised, BaseExceptionGroup):
        (raised,) = raised.exceptions
    assert isinstance(raised, NoSuchAgent)
    assert "'clark' in handoffs" in str(raised)
    assert "do you mean 'clerk'?" in str(raised)


async def _echo(task: str) -> str:
    return task


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (Agent("f", _echo, handoffs=[CLERK]), "its mind is a function"),
        (Agent("c", "Code.", backend="codex", handoffs=[CLERK]), "takes no tools of ours"),
        (Agent("s", "Say.", schema=int, handoffs=[CLERK]), "the same schema"),
        (Agent("d", "Do.", tools=["subagent"]), "nobody whom it could have at work"),
    ],
    ids=["a function", "a coding agent", "another schema", "nobody"],
)
async def test_who_cannot_have_others_is_refused_when_it_is_spawned(agent: Agent, why: str) -> None:
    with pytest.raises((NobodyBelow, ExceptionGroup)) as caught:
        async with spawn(agent, model="local/none"):
            pass
    raised: BaseException = caught.value
    while isinstance(raised, BaseExceptionGroup):
        (raised,) = raised.exceptions
    assert isinstance(raised, NobodyBelow)
    assert why in str(raised)


@pytest.mark.parametrize("limits", [Limits(descendants=1), Limits(depth=1), Limits(turns=1)])
async def test_a_budget_bounds_whom_it_is_handed_over_to(limits: Limits) -> None:
    cast = Cast(desk=gives("clerk"), clerk=says("Filed."))
    async with spawn(DESK, session=cast, budget=Budget(limits)) as desk:
        result = await desk.ask("go")
    assert result.status == "budget"
    assert [name for name, _ in cast.asked] == ["desk"]
    assert cast.open == 0


async def test_who_asks_a_resident_pays_and_bounds_whom_it_is_handed_over_to() -> None:
    cast = Cast(desk=gives("clerk"), clerk=says("Filed."))
    one, two, none = Budget(Limits()), Budget(Limits()), Budget(Limits(depth=1))
    async with open_nursery() as nursery:
        statuses: list[str] = []
        for budget in (none, one, two):
            async with spawn(
                DESK, session=cast, budget=budget, lifetime="session", within=nursery
            ) as desk:
                statuses.append((await desk.ask("go")).status)
    assert statuses == ["budget", "ok", "ok"]
    # The desk's turn and the clerk's, who was spawned for the first of them.
    assert [each.spent.turns for each in (none, one, two)] == [1, 2, 2]
    assert [each.reserved_turns for each in (none, one, two)] == [0, 0, 0]


@on_every_api
async def test_a_model_hands_over_by_a_tool(api: Any) -> None:
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, api), retries=0) as model,
        spawn(DESK, model=model) as desk,
    ):
        # The stub does what it is told last: by the user, and then by the message.
        result = await desk.ask('CALL:handoff_to_clerk:{"message": "SLOW:2:0"}')
    assert (result.status, result.agent, result.output) == ("ok", "clerk", "w0 w1")
    assert result.usage.requests == 2
    assert [message.role for message in result.messages][:3] == ["user", "assistant", "tool"]


@on_every_api
async def test_a_model_has_others_work_for_it_and_reads_what_they_say(api: Any) -> None:
    boss = Agent("boss", "You decide.", agents=[CLERK])
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, api), retries=0) as model,
        spawn(boss, model=model) as subagent,
    ):
        result = await subagent.ask('CALL:subagent:{"agent": "clerk", "tasks": ["a", "b"]}')
        assert (result.status, result.agent) == ("ok", "boss")
        assert "echo: a" in result.output
        assert (result.usage.requests, subagent.usage.requests) == (4, 2)
        refused = await subagent.ask('CALL:subagent:{"agent": "clark", "tasks": ["a"]}')
        assert "clerk" in refused.output


async def test_those_who_delegate_do_so_to_a_depth() -> None:
    deep = Agent("deep", "Delegate.", tools=["subagent"], agents=["deep"])
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, "chat"), retries=0) as model,
        spawn(deep, model=model, roster=[deep], budget=Budget(Limits(depth=2))) as subagent,
    ):
        inner = '{\\"agent\\": \\"deep\\", \\"tasks\\": [\\"bottom\\"]}'
        task = f'CALL:subagent:{{"agent": "deep", "tasks": ["CALL:subagent:{inner}"]}}'
        result = await subagent.ask(task)
    assert result.ok
    assert "levels of subagents" in result.output


async def test_what_fails_below_is_told_to_who_has_delegated_it() -> None:
    boss = Agent("boss", "You decide.", agents=[CLERK])
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, "chat"), retries=0) as model,
        spawn(boss, model=model) as subagent,
    ):
        result = await subagent.ask('CALL:subagent:{"agent": "clerk", "tasks": ["ERR:500"]}')
    assert result.ok
    assert "clerk failed" in result.output
    # What failed was asked for as well.
    assert result.usage.requests == 3


async def test_a_stop_ends_those_who_are_at_work_below() -> None:
    boss = Agent("boss", "You decide.", agents=[CLERK], concurrency=2)
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, "chat"), retries=0) as model,
        spawn(boss, model=model) as subagent,
        trio.open_nursery() as nursery,
    ):

        async def stop() -> None:
            with trio.fail_after(10):
                while len(server.seen) < 3:  # noqa: ASYNC110 - nobody there sets an event
                    await trio.sleep(0.01)
            subagent.stop()

        nursery.start_soon(stop)
        tasks = '["SLOW:500:0.1", "SLOW:500:0.1", "SLOW:500:0.1"]'
        result = await subagent.ask(f'CALL:subagent:{{"agent": "clerk", "tasks": {tasks}}}')
        assert result.status == "stopped"
        # As many were at work as it may have at once.
        assert len(server.seen) == 3
        assert subagent.ref.snapshot().children == ()


@on_every_api
async def test_of_two_handovers_in_one_message_the_first_counts(api: str) -> None:
    smith = Agent("smith", "You forge.")
    desk = Agent("desk", "You receive.", handoffs=[CLERK, smith])
    answers: list[Any] = [
        [Called("c1", "handoff_to_smith", "{}"), Called("c2", "handoff_to_clerk", "{}")],
        "Forged.",
        "Once more.",
    ]
    server = StrictServer(api, lambda: answers.pop(0))
    model = ChatModel(settings("http://127.0.0.1:9", api), retries=0)
    # There is no public way to bring a client of one's own.
    model._client = server.client  # pyright: ignore[reportPrivateUsage]
    async with spawn(desk, model=model) as subagent:
        result = await subagent.ask("go")
        assert (result.agent, result.output) == ("smith", "Forged.")
        refused = [message for message in result.messages if message.is_error]
        assert [message.call for message in refused] == ["c2"]
        assert "goes to smith already" in refused[0].text
        # What is sent next is taken: every call has its answer.
        assert (await subagent.ask("again")).output == "Once more."


async def test_what_those_two_levels_below_have_spent_is_in_the_result_of_who_delegated() -> None:
    deep = Agent("deep", "Delegate.", tools=["subagent"], agents=["deep"])
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, "chat"), retries=0) as model,
        spawn(deep, model=model, roster=[deep], budget=Budget(Limits(depth=3))) as subagent,
    ):
        inner = '{\\"agent\\": \\"deep\\", \\"tasks\\": [\\"bottom\\"]}'
        task = f'CALL:subagent:{{"agent": "deep", "tasks": ["CALL:subagent:{inner}"]}}'
        result = await subagent.ask(task)
        # Two for each who delegates, and one at the bottom.
        assert (result.status, result.usage.requests, len(server.seen)) == ("ok", 5, 5)
        assert (subagent.usage.requests, subagent.usage_with_others.requests) == (2, 5)


async def test_what_those_below_have_spent_is_paid_by_a_team_that_is_called_off() -> None:
    boss = Agent("boss", "You decide.", agents=[CLERK], concurrency=2)
    signal = Signal()
    async with (
        agent_server() as server,
        open_chat_model(settings(server.url, "chat"), retries=0) as model,
        trio.open_nursery() as nursery,
    ):

        async def call_off() -> None:
            with trio.fail_after(10):
                while len(server.seen) < 3:  # noqa: ASYNC110 - nobody there sets an event
                    await trio.sleep(0.01)
            signal.set("enough")

        nursery.start_soon(call_off)
        tasks = '["SLOW:500:0.1", "SLOW:500:0.1"]'
        ask = f'CALL:subagent:{{"agent": "clerk", "tasks": {tasks}}}'
        done = await chain([boss], ask, model=model, signal=signal)
        assert done.status == "aborted"
        assert done.usage.requests == len(server.seen) == 3
